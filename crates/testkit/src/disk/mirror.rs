//! A simulated disk whose files can be read at the same paths of the real one.
//!
//! The verifier and everything else that only reads opens files of the machine. Each change of the
//! simulated disk is copied there at once, whether it was reported as done or not.

use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use countersign_runtime::disk::{Access, Disk, DiskError, DiskFile, Kind, Stat};

use super::SimDisk;

/// A simulated disk, copied to the real one below one directory.
#[derive(Debug, Clone)]
pub struct MirroredDisk {
    sim: SimDisk,
    root: PathBuf,
}

impl MirroredDisk {
    /// Mirrors what `sim` holds below `root`, which is emptied first.
    #[must_use]
    pub fn new(sim: &SimDisk, root: &Path) -> Self {
        if root.exists() {
            fs::remove_dir_all(root).unwrap();
        }
        fs::create_dir_all(root).unwrap();
        // Looking is no operation of the process that is to fail.
        copy_tree(&sim.restart(), root);
        Self { sim: sim.clone(), root: root.to_owned() }
    }

    fn reflect(&self, path: &Path) {
        if !path.starts_with(&self.root) {
            return;
        }
        match self.sim.contents(path) {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None if path.is_file() => fs::remove_file(path).unwrap(),
            None => {}
        }
    }
}

fn copy_tree(disk: &SimDisk, dir: &Path) {
    for name in disk.list(dir).unwrap_or_default() {
        let path = dir.join(name);
        match disk.stat(&path).unwrap().map(|found| found.kind) {
            Some(Kind::File) => fs::write(&path, disk.contents(&path).unwrap()).unwrap(),
            Some(Kind::Dir) => {
                fs::create_dir_all(&path).unwrap();
                copy_tree(disk, &path);
            }
            _ => {}
        }
    }
}

impl Disk for MirroredDisk {
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>, DiskError> {
        let opened = self.sim.open(path, access);
        if access != Access::Read {
            self.reflect(path);
        }
        let file = opened?;
        Ok(Box::new(MirroredFile { file, disk: self.clone(), path: path.to_owned() }))
    }

    fn create_dir(&self, path: &Path) -> Result<(), DiskError> {
        let done = self.sim.create_dir(path);
        if self.sim.restart().stat(path).is_ok_and(|found| found.is_some()) {
            fs::create_dir_all(path).unwrap();
        }
        done
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let done = self.sim.rename(from, to);
        self.reflect(from);
        self.reflect(to);
        done
    }

    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let done = self.sim.link(from, to);
        self.reflect(to);
        done
    }

    fn remove(&self, path: &Path) -> Result<(), DiskError> {
        let done = self.sim.remove(path);
        self.reflect(path);
        done
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, DiskError> {
        self.sim.list(path)
    }

    fn visit(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(OsString) -> ControlFlow<()>,
    ) -> Result<(), DiskError> {
        self.sim.visit(path, visit)
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, DiskError> {
        self.sim.stat(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<(), DiskError> {
        self.sim.sync_dir(path)
    }
}

#[derive(Debug)]
struct MirroredFile {
    file: Box<dyn DiskFile>,
    disk: MirroredDisk,
    path: PathBuf,
}

impl MirroredFile {
    fn reflecting<T>(&self, done: T) -> T {
        self.disk.reflect(&self.path);
        done
    }
}

impl DiskFile for MirroredFile {
    fn stat(&self) -> Result<Stat, DiskError> {
        self.file.stat()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        self.file.read_at(at, into)
    }

    fn write_all_at(&self, at: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.reflecting(self.file.write_all_at(at, bytes))
    }

    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.reflecting(self.file.append(bytes))
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.reflecting(self.file.set_len(len))
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.file.sync_data()
    }

    fn lock_exclusive(&self) -> Result<(), DiskError> {
        self.file.lock_exclusive()
    }

    fn unlock(&self) -> Result<(), DiskError> {
        self.file.unlock()
    }
}
