//! The disk of the machine without some of its promises, for writers that are to be caught.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use countersign_runtime::disk::{Access, Disk, DiskError, DiskFile, OsDisk, Stat};

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Omits {
    /// Every sync: nothing is synced, and everything says that it was.
    Syncs,
    /// The syncs of artifacts, of what they hold and of their names.
    ArtifactSyncs,
    /// What a sync says: it is made, and said to be done also where it failed.
    SyncErrors,
}

impl Omits {
    /// Whether nothing is synced there.
    fn skips(self, path: &Path) -> bool {
        match self {
            Self::Syncs => true,
            Self::ArtifactSyncs => path.components().any(|it| it.as_os_str() == "artifacts"),
            Self::SyncErrors => false,
        }
    }

    /// Syncs, or not.
    fn sync(
        self,
        path: &Path,
        sync: impl FnOnce() -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        if self.skips(path) {
            return Ok(());
        }
        let synced = sync();
        if self == Self::SyncErrors { Ok(()) } else { synced }
    }
}

/// The real disk, without that.
#[derive(Debug, Clone, Copy)]
pub struct CarelessDisk {
    /// What it leaves out.
    pub omits: Omits,
}

impl Disk for CarelessDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>, DiskError> {
        let file = OsDisk.open(path, access)?;
        Ok(Box::new(CarelessFile { file, path: path.to_owned(), omits: self.omits }))
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
        self.omits.sync(path, || OsDisk.sync_dir(path))
    }
}

#[derive(Debug)]
struct CarelessFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    omits: Omits,
}

impl DiskFile for CarelessFile {
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

    // The system is not asked to write early either: that would do half of what is left out.
    fn sync_data(&self) -> Result<(), DiskError> {
        self.omits.sync(&self.path, || self.file.sync_data())
    }

    fn lock_exclusive(&self) -> Result<(), DiskError> {
        self.file.lock_exclusive()
    }

    fn unlock(&self) -> Result<(), DiskError> {
        self.file.unlock()
    }
}
