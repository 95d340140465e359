//! The backend on plain files: where things are, which directories exist, which files are open.
//!
//! One rule makes opening cheap: no file is put into a directory before the names of the directory and
//! of all above it are durable, and nothing into a ledger before the ledger's name is. So whoever finds
//! a file below a directory, or a ledger that is not empty, need not sync what lies above it. The
//! places of artifacts are exempt: see `fresh`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use countersign_format::hash::Hash;

use super::fresh::Waiting;
use super::ledger::Slot;
use super::{Aside, LedgerId, StoreError};
use crate::disk::{Access, Disk, DiskError, DiskFile, Kind, Op};
use crate::watch::{Backoff, Signal, WatchSource};

/// Ledgers that are kept open; beyond that, those that nobody uses are closed.
const OPEN_LEDGERS_MAX: usize = 64;
/// Length at which `changes` is emptied.
const CHANGES_BYTES_MAX: u64 = 1 << 20;
/// Ledgers whose files are kept to ask whether they moved.
pub(super) const ASKED_ABOUT_MAX: usize = 2;
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
                waiting: Mutex::default(),
                settling: AtomicBool::new(false),
                aside: OnceLock::new(),
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

    /// How often something was appended here, as far as this process has noticed.
    #[must_use]
    pub fn changes_seen(&self) -> u64 {
        self.inner.signal.count()
    }

    /// Waits until something was appended since `seen` was counted, at most for `timeout`. May
    /// return before: whoever waits looks for itself.
    pub fn wait_for_changes(&self, seen: u64, timeout: Duration) {
        let step = Backoff::new(self.inner.is_watched()).step();
        self.inner.look_for_changes();
        self.inner.signal.wait(seen, timeout.min(step));
    }

    /// Wakes those of this process who wait for changes.
    pub fn wake(&self) {
        self.inner.signal.raise();
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
            Err(error) if error.is_missing() => Vec::new(),
            names => names?,
        };
        self.inner.settle_places(u64::MAX)?;
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
    /// Directories whose names are known to be durable, or need not be.
    dirs: Mutex<HashSet<PathBuf>>,
    /// Artifacts among the new ones whose names are known to be durable.
    blobs: Mutex<HashSet<Hash>>,
    pub(super) waiting: Mutex<Waiting>,
    /// Whether a thread of this process makes the places of new artifacts durable.
    pub(super) settling: AtomicBool,
    /// Makes contents durable while their names are.
    pub(super) aside: OnceLock<Aside>,
    pub(super) blobs_poisoned: AtomicBool,
    changes: Mutex<Option<Box<dyn DiskFile>>>,
    /// The length of `changes` when it was last looked at.
    looked: Mutex<u64>,
    /// The ledgers that were last asked about whether they moved, mostly the log and one trace: their
    /// open files.
    pub(super) asked_about: Mutex<VecDeque<(LedgerId, Box<dyn DiskFile>)>>,
    pub(super) signal: Arc<Signal>,
    watch: OnceLock<Option<Box<dyn WatchSource>>>,
}

pub(super) fn not_a_directory(path: &Path) -> DiskError {
    DiskError::new(Op::CreateDir, path, std::io::ErrorKind::NotADirectory.into())
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

    pub(super) fn fresh_dir(&self) -> PathBuf {
        self.home.join("artifacts").join("new")
    }

    /// Where an artifact stands until the name of its place is durable.
    pub(super) fn fresh_path(&self, hash: &Hash) -> PathBuf {
        self.fresh_dir().join(hash.to_hex())
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
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
        let made = self.make_dir(path)?;
        self.settle_dirs(made)
    }

    /// Makes the directory `path`, at or below `home`. Gives those on the way to it, the highest first,
    /// whose names may not be durable yet: they are settled before a file is put into any of them.
    pub(super) fn make_dir(&self, path: &Path) -> Result<Vec<PathBuf>, DiskError> {
        if lock(&self.dirs).contains(path) {
            return Ok(Vec::new());
        }
        let found = self.disk.stat(path)?;
        if found.is_some_and(|found| found.kind != Kind::Dir) {
            return Err(not_a_directory(path));
        }
        // By the rule of this module, one with a file below it was synced before.
        if found.is_some() && self.holds_a_file(path)? {
            lock(&self.dirs).insert(path.to_owned());
            return Ok(Vec::new());
        }
        let above = path.parent().filter(|_| path != self.home);
        let mut unsettled = above.map_or(Ok(Vec::new()), |above| self.make_dir(above))?;
        if found.is_none() {
            match self.disk.create_dir(path) {
                Err(error) if !error.is_taken() => return Err(error),
                _ => {}
            }
        }
        unsettled.push(path.to_owned());
        Ok(unsettled)
    }

    /// Makes the names of directories that were made durable, each of which stands behind those above
    /// it.
    pub(super) fn settle_dirs(&self, made: Vec<PathBuf>) -> Result<(), DiskError> {
        let mut synced = HashSet::new();
        // If we die here, directories without files are found, or none.
        for above in made.iter().filter_map(|path| path.parent()) {
            if synced.insert(above) {
                self.disk.sync_dir(above)?;
            }
        }
        lock(&self.dirs).extend(made);
        Ok(())
    }

    /// Whether a file lies below `path`, as far as the first name in each directory shows it.
    fn holds_a_file(&self, path: &Path) -> Result<bool, DiskError> {
        let Some(name) = self.disk.first_entry(path)? else { return Ok(false) };
        let first = path.join(name);
        match self.disk.stat(&first)? {
            Some(found) if found.kind == Kind::Dir => self.holds_a_file(&first),
            found => Ok(found.is_some()),
        }
    }

    /// Makes the directory of unfinished artifacts. Its name need not be durable: what lies in it gets
    /// another one before anybody relies on it.
    pub(super) fn ensure_temp_dir(&self) -> Result<(), DiskError> {
        let path = self.temp_dir();
        if lock(&self.dirs).contains(&path) {
            return Ok(());
        }
        match self.disk.stat(&path)? {
            Some(found) if found.kind == Kind::Dir => {}
            Some(_) => return Err(not_a_directory(&path)),
            None => {
                path.parent().map_or(Ok(()), |above| self.ensure_dir(above))?;
                match self.disk.create_dir(&path) {
                    Err(error) if !error.is_taken() => return Err(error),
                    _ => {}
                }
            }
        }
        lock(&self.dirs).insert(path);
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
