//! The file system of the machine.
//!
//! Files are opened without following a link in the last place and without waiting for a pipe, are
//! closed in child processes, and are made for their owner alone. Locks are `flock`, which the
//! kernel releases when a process dies.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};

use super::early::Early;
use super::{Access, Disk, DiskError, DiskFile, Kind, Op, Stat};
use crate::watch::{Signal, WatchSource};

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: u32 = 0o700;

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsDisk;

#[derive(Debug)]
struct OsFile {
    file: File,
    path: PathBuf,
    early: Early,
}

impl Disk for OsDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>, DiskError> {
        let how = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::Create => OFlags::RDWR | OFlags::CREATE,
            Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Access::Append => OFlags::RDWR | OFlags::CREATE | OFlags::APPEND,
        };
        let always = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match rustix::fs::open(path, how | always, FILE_MODE) {
            Ok(fd) => File::from(fd),
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::ISDIR | rustix::io::Errno::NXIO) => {
                return Err(DiskError::not_a_file(path));
            }
            Err(error) => return Err(DiskError::new(Op::Open, path, error.into())),
        };
        let found = file.metadata().map_err(|error| DiskError::new(Op::Stat, path, error))?;
        if !found.is_file() {
            return Err(DiskError::not_a_file(path));
        }
        Ok(Box::new(OsFile { file, path: path.to_owned(), early: Early::default() }))
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        DirBuilder::new()
            .mode(DIR_MODE)
            .create(path)
            .map_err(|error| DiskError::new(Op::CreateDir, path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        std::fs::rename(from, to).map_err(|error| DiskError::new(Op::Rename, to, error))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        std::fs::hard_link(from, to).map_err(|error| DiskError::new(Op::Link, to, error))
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        std::fs::remove_file(path).map_err(|error| DiskError::new(Op::Remove, path, error))
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, DiskError> {
        let failed = |error| DiskError::new(Op::List, path, error);
        let entries = std::fs::read_dir(path).map_err(failed)?;
        entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(failed)).collect()
    }

    fn visit(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(OsString) -> ControlFlow<()>,
    ) -> Result<(), DiskError> {
        let failed = |error| DiskError::new(Op::List, path, error);
        for entry in std::fs::read_dir(path).map_err(failed)? {
            if visit(entry.map_err(failed)?.file_name()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, DiskError> {
        match std::fs::symlink_metadata(path) {
            Ok(found) => Ok(Some(stat_of(&found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DiskError::new(Op::Stat, path, error)),
        }
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|fd| File::from(fd).sync_all())
            .map_err(|error| DiskError::new(Op::SyncDir, path, error))
    }

    fn watch(&self, dir: &Path, name: &str, signal: &Arc<Signal>) -> Option<Box<dyn WatchSource>> {
        crate::watch::watch_file(dir, name, signal)
    }
}

fn stat_of(found: &std::fs::Metadata) -> Stat {
    let kind = if found.is_file() {
        Kind::File
    } else if found.is_dir() {
        Kind::Dir
    } else {
        Kind::Other
    };
    Stat { len: found.len(), kind, linked: found.nlink() > 0 }
}

impl OsFile {
    fn error(&self, op: Op) -> impl FnOnce(io::Error) -> DiskError {
        move |error| DiskError::new(op, &self.path, error)
    }
}

impl DiskFile for OsFile {
    // Asked several times for each append, so not by way of `statx`, which takes longer.
    fn stat(&self) -> Result<Stat, DiskError> {
        let found =
            rustix::fs::fstat(&self.file).map_err(|error| self.error(Op::Stat)(error.into()))?;
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            _ => Kind::Other,
        };
        let len = u64::try_from(found.st_size).unwrap_or(0);
        Ok(Stat { len, kind, linked: found.st_nlink > 0 })
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        loop {
            match self.file.read_at(into, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(self.error(Op::Read)),
            }
        }
    }

    fn write_all_at(&self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all_at(bytes, at).map_err(self.error(Op::Write))
    }

    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        (&self.file).write_all(bytes).map_err(self.error(Op::Write))
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.file.set_len(len).map_err(self.error(Op::SetLen))
    }

    fn start_sync(&self, at: u64, bytes: usize) {
        self.early.start(&self.file, at, bytes);
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.early.give_way();
        self.file.sync_data().map_err(self.error(Op::SyncData))
    }

    fn lock_exclusive(&self) -> Result<(), DiskError> {
        loop {
            match self.file.lock() {
                // A signal does not end the wait: only the lock does.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(self.error(Op::Lock)),
            }
        }
    }

    fn unlock(&self) -> Result<(), DiskError> {
        self.file.unlock().map_err(self.error(Op::Unlock))
    }
}
