//! The backend on plain files: where things are, which directories exist, which files are open.
//!
//! One rule makes opening cheap: nothing is put into a directory before the directory's own name is
//! durable, and nothing into a ledger before the ledger's name is. So whoever finds a directory or a
//! ledger that is not empty need not sync what lies above it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use countersign_format::hash::Hash;

use super::ledger::Slot;
use super::{LedgerId, StoreError};
use crate::disk::{Access, Disk, DiskError, DiskFile, Kind, Op};
use crate::watch::{Signal, WatchSource};

/// Ledgers that are kept open; beyond that, those that nobody uses are closed.
const OPEN_LEDGERS_MAX: usize = 64;
/// Length at which `changes` is emptied.
const CHANGES_BYTES_MAX: u64 = 1 << 20;
/// Artifacts of which this process remembers that they are durable.
const SETTLED_BLOBS_MAX: usize = 4096;

/// Ledgers and artifacts as files below one directory. Clones share everything.
#[derive(Debug, Clone)]
pub struct FileStore {
    pub(super) inner: Arc<Inner>,
}

impl FileStore {
    /// The store below `home`, which is created, in a directory that exists, by the first write.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, home: impl Into<PathBuf>) -> Self {
        Self {
            inner: Arc::new(Inner {
                disk,
                home: home.into(),
                slots: Mutex::default(),
                dirs: Mutex::default(),
                blobs: Mutex::default(),
                blobs_poisoned: AtomicBool::new(false),
                changes: Mutex::default(),
                looked: Mutex::default(),
                asked_about: Mutex::default(),
                signal: Arc::default(),
                watch: OnceLock::new(),
            }),
        }
    }

    /// The directory that holds everything.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.inner.home
    }

    /// The disk that the store is on.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.inner.disk
    }

    /// The directory of a ledger, where its small files stand beside it.
    #[must_use]
    pub fn ledger_dir(&self, id: LedgerId) -> PathBuf {
        self.inner.ledger_dir(id)
    }

    /// Makes a directory below `home`, and those above it. When it returns, they survive power loss.
    ///
    /// # Errors
    /// The directory cannot be made, or something else has its name.
    pub fn ensure_dir(&self, path: &Path) -> Result<(), StoreError> {
        Ok(self.inner.ensure_dir(path)?)
    }

    /// Removes what writers of artifacts left unfinished when they died, and says how many files
    /// that were. To be called only while no one writes.
    ///
    /// # Errors
    /// The disk failed.
    pub fn remove_leftovers(&self) -> Result<u64, StoreError> {
        let temp = self.inner.temp_dir();
        let names = match self.inner.disk.list(&temp) {
            Err(error) if error.is_missing() => return Ok(0),
            names => names?,
        };
        let mut removed = 0;
        for name in names {
            self.inner.disk.remove(&temp.join(name))?;
            removed += 1;
        }
        Ok(removed)
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) disk: Arc<dyn Disk>,
    home: PathBuf,
    slots: Mutex<HashMap<LedgerId, Arc<Slot>>>,
    /// Directories whose names are known to be durable.
    dirs: Mutex<HashSet<PathBuf>>,
    /// Artifacts whose names are known to be durable.
    blobs: Mutex<HashSet<Hash>>,
    pub(super) blobs_poisoned: AtomicBool,
    changes: Mutex<Option<Box<dyn DiskFile>>>,
    /// The length of `changes` when it was last looked at.
    looked: Mutex<u64>,
    /// The ledger that was last asked about whether it moved, mostly the log: its open file.
    pub(super) asked_about: Mutex<Option<(LedgerId, Box<dyn DiskFile>)>>,
    pub(super) signal: Arc<Signal>,
    watch: OnceLock<Option<Box<dyn WatchSource>>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(super) fn ledger_dir(&self, id: LedgerId) -> PathBuf {
        match id {
            LedgerId::Log => self.home.join("log"),
            LedgerId::Trace(trace) => self.traces_dir().join(trace.to_string()),
        }
    }

    pub(super) fn ledger_path(&self, id: LedgerId) -> PathBuf {
        self.ledger_dir(id).join("events.jsonl")
    }

    pub(super) fn traces_dir(&self) -> PathBuf {
        self.home.join("traces")
    }

    pub(super) fn temp_dir(&self) -> PathBuf {
        self.home.join("artifacts").join("tmp")
    }

    /// `artifacts/sha256/ab/cd`, and the file in it.
    pub(super) fn blob_place(&self, hash: &Hash) -> (PathBuf, PathBuf) {
        let name = hash.to_hex();
        let (first, second) = (name.get(..2).unwrap_or(""), name.get(2..4).unwrap_or(""));
        let dir = self.home.join("artifacts").join("sha256").join(first).join(second);
        let path = dir.join(&name);
        (dir, path)
    }

    pub(super) fn changes_path(&self) -> PathBuf {
        self.home.join("changes")
    }

    /// Makes the directory `path`, at or below `home`, and its name durable.
    pub(super) fn ensure_dir(&self, path: &Path) -> Result<(), DiskError> {
        if lock(&self.dirs).contains(path) {
            return Ok(());
        }
        let found = self.disk.stat(path)?;
        if found.is_some_and(|found| found.kind != Kind::Dir) {
            let other = std::io::Error::from(std::io::ErrorKind::NotADirectory);
            return Err(DiskError::new(Op::CreateDir, path, other));
        }
        // By the rule of this module, one that holds something was synced before.
        let synced = found.is_some() && self.disk.has_entries(path)?;
        if let Some(parent) = path.parent().filter(|_| !synced) {
            if path != self.home {
                self.ensure_dir(parent)?;
            }
            match self.disk.create_dir(path) {
                Err(error) if !error.is_taken() => return Err(error),
                _ => {}
            }
            // If we die here, an empty directory is found, or none.
            self.disk.sync_dir(parent)?;
        }
        lock(&self.dirs).insert(path.to_owned());
        Ok(())
    }

    /// Forgets which directories exist: one of them was removed behind our back.
    pub(super) fn forget_dirs(&self) {
        lock(&self.dirs).clear();
    }

    pub(super) fn is_settled(&self, hash: &Hash) -> bool {
        lock(&self.blobs).contains(hash)
    }

    pub(super) fn settle(&self, hash: Hash) {
        let mut blobs = lock(&self.blobs);
        if blobs.len() >= SETTLED_BLOBS_MAX {
            blobs.clear();
        }
        blobs.insert(hash);
    }

    pub(super) fn unsettle(&self, hash: &Hash) {
        lock(&self.blobs).remove(hash);
    }

    pub(super) fn poison_blobs(&self) {
        self.blobs_poisoned.store(true, Ordering::Release);
    }

    pub(super) fn slot(&self, id: LedgerId) -> Arc<Slot> {
        let mut slots = lock(&self.slots);
        if slots.len() >= OPEN_LEDGERS_MAX && !slots.contains_key(&id) {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_poisoned());
        }
        Arc::clone(slots.entry(id).or_default())
    }

    /// Tells those who follow that a ledger has grown. They look for themselves in the end, so what
    /// goes wrong here costs them time and nothing else.
    pub(super) fn tell(&self, id: LedgerId, len: u64) {
        let mut changes = lock(&self.changes);
        if self.tell_others(&mut changes, id, len).is_err() {
            *changes = None;
        }
        drop(changes);
        self.signal.raise();
    }

    fn tell_others(
        &self,
        changes: &mut Option<Box<dyn DiskFile>>,
        id: LedgerId,
        len: u64,
    ) -> Result<(), DiskError> {
        let known = match changes.take() {
            Some(file) => file.stat().ok().filter(|found| found.linked).map(|found| (file, found)),
            None => None,
        };
        let (file, found) = match known {
            Some(known) => known,
            None => {
                let file = self.disk.open(&self.changes_path(), Access::Append)?;
                let found = file.stat()?;
                (file, found)
            }
        };
        if found.len > CHANGES_BYTES_MAX {
            file.set_len(0)?;
        }
        file.append(format!("{id} {len}\n").as_bytes())?;
        *changes = Some(file);
        Ok(())
    }

    /// Raises the signal if others have told of changes since the last look.
    pub(super) fn look_for_changes(&self) {
        let len = self.disk.stat(&self.changes_path()).ok().flatten().map_or(0, |found| found.len);
        let before = std::mem::replace(&mut *lock(&self.looked), len);
        if len != before {
            self.signal.raise();
        }
    }

    /// Whether the system tells of changes; begins to listen on the first call.
    pub(super) fn is_watched(&self) -> bool {
        self.watch.get_or_init(|| self.disk.watch(&self.home, "changes", &self.signal)).is_some()
    }
}
