//! The disk of the machine without its promise: nothing is synced, and everything says that it was.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::Path;

use countersign_runtime::disk::{Access, Disk, DiskError, DiskFile, OsDisk, Stat};

/// The real disk, whose syncs do nothing.
#[derive(Debug, Clone, Copy)]
pub struct UnsyncedDisk;

impl Disk for UnsyncedDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(Box::new(UnsyncedFile(OsDisk.open(path, access)?)))
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

    fn sync_dir(&self, _path: &Path) -> Result<(), DiskError> {
        Ok(())
    }
}

#[derive(Debug)]
struct UnsyncedFile(Box<dyn DiskFile>);

impl DiskFile for UnsyncedFile {
    fn stat(&self) -> Result<Stat, DiskError> {
        self.0.stat()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.0.read_at(at, into)
    }

    fn write_all_at(&self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.write_all_at(at, bytes)
    }

    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.0.append(bytes)
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn lock_exclusive(&self) -> Result<(), DiskError> {
        self.0.lock_exclusive()
    }

    fn unlock(&self) -> Result<(), DiskError> {
        self.0.unlock()
    }
}
