//! The file backend keeps its contract on a real disk and on the simulated one.

use std::sync::Arc;

use countersign_runtime::disk::OsDisk;
use countersign_runtime::store::FileStore;
use countersign_testkit::conformance;
use countersign_testkit::disk::{SimDisk, sim_home};

#[test]
fn file_store_on_the_real_disk_conforms() {
    let dir = tempfile::tempdir().unwrap();
    conformance::all(|name| {
        let home = dir.path().join(name);
        move || FileStore::new(Arc::new(OsDisk), &home)
    });
}

#[test]
fn file_store_on_the_simulated_disk_conforms() {
    conformance::all(|_| {
        let disk = SimDisk::new();
        move || FileStore::new(Arc::new(disk.clone()), sim_home())
    });
}
