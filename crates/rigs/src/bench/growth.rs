//! What an append costs in a long trace, against the same in a short one: it should not matter.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign_runtime::Environment;
use countersign_runtime::disk::{Access, Disk, DiskError, DiskFile, OsDisk, Stat};
use countersign_runtime::watch::{Signal, WatchSource};

use super::callers::{Crowd, editor, write_together};
use super::clock::{Clock, time};
use super::home::{Home, begin};
use super::{Measured, Target};

const SHORT_EVENTS: u64 = 1_000;
const LONG_EVENTS: u64 = 200_000;
/// How many are appended to each, in turns.
const APPENDS: usize = 2_000;
const TURN: usize = 50;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let syncs = Arc::new(AtomicU64::new(0));
    let environment =
        Environment { disk: Arc::new(CountingDisk(Arc::clone(&syncs))), ..Environment::system() };
    // Two workspaces, so that the log, which grows with the long trace, counts as well.
    let homes = [Home::new("growth-short")?, Home::new("growth-long")?];
    let [short, long] = [homes.first(), homes.last()].map(|home| {
        let workspace = home.ok_or("no home")?.init(environment.clone())?;
        begin(&workspace)
    });
    let (short, long) = (short?, long?);
    write_together(&short, Crowd::WITH_ENVOYS, SHORT_EVENTS)?;
    write_together(&long, Crowd::WITH_ENVOYS, LONG_EVENTS)?;

    let mut costs = [Cost::default(), Cost::default()];
    let mut callers = [(&short, editor(&short)?), (&long, editor(&long)?)];
    for _ in 0..APPENDS / TURN {
        for (cost, (recording, caller)) in costs.iter_mut().zip(&mut callers) {
            let before = syncs.load(Ordering::Relaxed);
            cost.computing += time(Clock::Thread, || caller.write(recording, TURN as u64))?;
            cost.syncs += syncs.load(Ordering::Relaxed) - before;
        }
    }
    let [short, long] = costs;
    Ok(vec![
        Measured {
            name: "growth",
            value: long.computing.as_secs_f64() * 1e6 / APPENDS as f64,
            unit: "us cpu/event",
            bound: short.computing.as_secs_f64() * 1e6 / APPENDS as f64,
            target: Target::AtMost(1.15),
        },
        Measured {
            name: "growth-syncs",
            value: long.syncs as f64 / APPENDS as f64,
            unit: "syncs/event",
            bound: short.syncs as f64 / APPENDS as f64,
            target: Target::AtMost(1.15),
        },
    ])
}

#[derive(Default)]
struct Cost {
    computing: Duration,
    syncs: u64,
}

/// The disk of the machine, and how often contents or names on it were synced.
#[derive(Debug)]
struct CountingDisk(Arc<AtomicU64>);

#[derive(Debug)]
struct CountingFile {
    file: Box<dyn DiskFile>,
    syncs: Arc<AtomicU64>,
}

impl Disk for CountingDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>, DiskError> {
        let file = OsDisk.open(path, access)?;
        Ok(Box::new(CountingFile { file, syncs: Arc::clone(&self.0) }))
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        OsDisk.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        OsDisk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        OsDisk.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        OsDisk.remove(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, DiskError> {
        OsDisk.list(path)
    }

    fn visit(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(OsString) -> ControlFlow<()>,
    ) -> Result<(), DiskError> {
        OsDisk.visit(path, visit)
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, DiskError> {
        OsDisk.stat(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        OsDisk.sync_dir(path)
    }

    fn watch(&self, dir: &Path, name: &str, signal: &Arc<Signal>) -> Option<Box<dyn WatchSource>> {
        OsDisk.watch(dir, name, signal)
    }
}

impl DiskFile for CountingFile {
    fn stat(&self) -> Result<Stat, DiskError> {
        self.file.stat()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.file.read_at(at, into)
    }

    fn write_all_at(&self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all_at(at, bytes)
    }

    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.append(bytes)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn lock_exclusive(&self) -> Result<(), DiskError> {
        self.file.lock_exclusive()
    }

    fn unlock(&self) -> Result<(), DiskError> {
        self.file.unlock()
    }
}
