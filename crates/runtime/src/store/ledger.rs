//! Ledgers on files: one writer at a time, under the lock of the file itself.
//!
//! Threads of one process queue for the open file; processes queue for its lock, which the kernel
//! releases when one dies. An append is lock, look, write, sync, unlock.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use countersign_format::hash::Hash;
use sha2::{Digest as _, Sha256};

use super::file::{ASKED_ABOUT_MAX, FileStore, Inner, lock};
use super::follow::FileFollower;
use super::lines::{CHUNK_BYTES, check_lines, find_tear, is_line_start, read_lines, whole_end};
use super::{Batch, Follower, Head, LedgerId, Ledgers, Repaired, StoreError, TornTail};
use crate::disk::{Access, DiskError, DiskFile, Kind, Op, read_full};
use crate::watch::Backoff;

/// How often a ledger that was removed while we waited for its lock is opened anew.
const REOPEN_MAX: u32 = 8;
/// How many copies of torn bytes there may be for one place.
const TORN_COPIES_MAX: u32 = 10_000;

impl Ledgers for FileStore {
    fn begin_from(&self, id: LedgerId, sound: Head) -> Result<Box<dyn Batch>, StoreError> {
        Ok(Box::new(FileBatch::begin(&self.inner, id, sound)?))
    }

    fn moved(&self, id: LedgerId, since: Head) -> Result<bool, StoreError> {
        let mut kept = lock(&self.inner.asked_about);
        if let Some((_, file)) = kept.iter().find(|(kept, _)| *kept == id) {
            let found = file.stat()?;
            if found.linked {
                return Ok(found.len != since.bytes);
            }
            // Another file, or none, has its name now.
            kept.retain(|(kept, _)| *kept != id);
        }
        let file = self.inner.open_ledger(id)?;
        let len = file.as_ref().map_or(Ok(0), |file| file.stat().map(|found| found.len))?;
        kept.extend(file.map(|file| (id, file)));
        if kept.len() > ASKED_ABOUT_MAX {
            kept.pop_front();
        }
        Ok(len != since.bytes)
    }

    fn read(&self, id: LedgerId, from: Head, max: usize) -> Result<Vec<u8>, StoreError> {
        match self.inner.open_ledger(id)? {
            Some(file) => read_lines(&*file, id, from.bytes, file.stat()?.len, max),
            None if from == Head::EMPTY => Ok(Vec::new()),
            None => Err(StoreError::CutBack { ledger: id, at: from }),
        }
    }

    fn head(&self, id: LedgerId) -> Result<Head, StoreError> {
        match self.inner.open_ledger(id)? {
            Some(file) => Ok(Head::at(whole_end(&*file, file.stat()?.len)?)),
            None => Ok(Head::EMPTY),
        }
    }

    fn list(&self) -> Result<Vec<LedgerId>, StoreError> {
        let names = match self.inner.disk.list(&self.inner.traces_dir()) {
            Err(error) if error.is_missing() => Vec::new(),
            names => names?,
        };
        let traces = names.iter().filter_map(|name| name.to_str()?.parse().ok());
        let mut found = Vec::new();
        for id in std::iter::once(LedgerId::Log).chain(traces.map(LedgerId::Trace)) {
            let stat = self.inner.disk.stat(&self.inner.ledger_path(id))?;
            if stat.is_some_and(|stat| stat.kind == Kind::File && stat.len > 0) {
                found.push(id);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn follow(&self, id: LedgerId, from: Head) -> Result<Box<dyn Follower>, StoreError> {
        Ok(Box::new(FileFollower::new(Arc::clone(&self.inner), id, from)))
    }

    fn wait(&self, seen: u64, timeout: Duration) -> u64 {
        let watched = self.inner.is_watched();
        let until = Instant::now().checked_add(timeout);
        let mut backoff = Backoff::new(watched);
        loop {
            let left =
                until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
            let now = self.inner.signal.wait(seen, left.min(backoff.step()));
            if now != seen || left.is_zero() {
                return now;
            }
            self.inner.look_for_changes();
        }
    }
}

impl Inner {
    pub(super) fn open_ledger(&self, id: LedgerId) -> Result<Option<Box<dyn DiskFile>>, DiskError> {
        match self.disk.open(&self.ledger_path(id), Access::Read) {
            Err(error) if error.is_missing() => Ok(None),
            file => file.map(Some),
        }
    }

    /// Opens a ledger to write, creating it if need be. When it returns, its name is durable.
    fn open_to_write(&self, id: LedgerId) -> Result<Box<dyn DiskFile>, DiskError> {
        let path = self.ledger_path(id);
        match self.disk.open(&path, Access::Write) {
            // It holds something, so its name was synced before.
            Ok(file) if file.stat()?.len > 0 => return Ok(file),
            Err(error) if !error.is_missing() => return Err(error),
            _ => {}
        }
        let dir = self.ledger_dir(id);
        let mut tried = self.ensure_dir(&dir).and_then(|()| self.disk.open(&path, Access::Create));
        if tried.as_ref().is_err_and(DiskError::is_missing) {
            self.forget_dirs();
            tried = self.ensure_dir(&dir).and_then(|()| self.disk.open(&path, Access::Create));
        }
        let file = tried?;
        // If we die here, an empty ledger is found, or none: the same.
        self.disk.sync_dir(&dir)?;
        Ok(file)
    }
}

/// One ledger of one store: the open file, or the fact that somebody has taken it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    taken: bool,
    /// How many wait until it is free.
    waiting: u32,
    poisoned: bool,
    open: Option<OpenLedger>,
}

#[derive(Debug)]
struct OpenLedger {
    file: Box<dyn DiskFile>,
    /// Up to here the lines were found sound, under the lock.
    sound: u64,
    /// Up to here they are known to be durable.
    durable: u64,
}

impl Slot {
    pub(super) fn is_poisoned(&self) -> bool {
        lock(&self.state).poisoned
    }

    fn take(&self, id: LedgerId) -> Result<Option<OpenLedger>, StoreError> {
        let mut state = lock(&self.state);
        while state.taken {
            state.waiting += 1;
            state = self.free.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            state.waiting -= 1;
        }
        if state.poisoned {
            return Err(poisoned(id));
        }
        state.taken = true;
        Ok(state.open.take())
    }

    fn give_back(&self, open: Option<OpenLedger>) {
        let mut state = lock(&self.state);
        state.taken = false;
        state.open = open;
        let awaited = state.waiting > 0;
        drop(state);
        // Whoever waits finds the slot free or poisoned.
        if awaited {
            self.free.notify_all();
        }
    }

    fn poison(&self) {
        lock(&self.state).poisoned = true;
    }
}

fn poisoned(id: LedgerId) -> StoreError {
    StoreError::Poisoned { what: id.to_string() }
}

/// A turn at a slot, which others get when it is dropped.
#[derive(Debug)]
struct Turn {
    slot: Arc<Slot>,
    back: Option<OpenLedger>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.slot.give_back(self.back.take());
    }
}

#[derive(Debug)]
struct FileBatch {
    inner: Arc<Inner>,
    id: LedgerId,
    /// `None` only while being dropped.
    open: Option<OpenLedger>,
    torn: Option<TornTail>,
    turn: Turn,
}

impl FileBatch {
    fn begin(inner: &Arc<Inner>, id: LedgerId, sound: Head) -> Result<Self, StoreError> {
        let slot = inner.slot(id);
        let kept = slot.take(id)?;
        let turn = Turn { slot, back: None };
        let (mut open, len) = Self::open_locked(inner, id, kept).inspect_err(|error| {
            // A name that could not be synced may vanish with all that is written under it.
            if error.op == Op::SyncDir {
                turn.slot.poison();
            }
        })?;
        // Lines that our caller knows cannot be torn; what it names must be there, though.
        if sound.bytes > open.sound
            && sound.bytes <= len
            && is_line_start(&*open.file, sound.bytes)?
        {
            open.sound = sound.bytes;
        }
        // Cut behind our back: what we knew of it is void.
        let same =
            len >= open.sound && (len == open.sound || is_line_start(&*open.file, open.sound)?);
        if !same {
            open.sound = 0;
            open.durable = 0;
        }
        let torn = if len == open.sound { None } else { find_tear(&*open.file, open.sound, len)? };
        open.sound = torn.map_or(len, |tail| tail.at.bytes);
        Ok(Self { inner: Arc::clone(inner), id, open: Some(open), torn, turn })
    }

    /// The open file with its lock held, and its length.
    fn open_locked(
        inner: &Inner,
        id: LedgerId,
        mut kept: Option<OpenLedger>,
    ) -> Result<(OpenLedger, u64), DiskError> {
        for _ in 0..REOPEN_MAX {
            let open = match kept.take() {
                Some(open) => open,
                None => OpenLedger { file: inner.open_to_write(id)?, sound: 0, durable: 0 },
            };
            open.file.lock_exclusive()?;
            let found = open.file.stat()?;
            if found.linked {
                return Ok((open, found.len));
            }
            // Removed since it was opened: what is written there would be lost.
        }
        let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
        Err(DiskError::new(Op::Lock, &inner.ledger_path(id), gone))
    }

    fn usable(&self) -> Result<&OpenLedger, StoreError> {
        match &self.open {
            Some(open) if !self.turn.slot.is_poisoned() => Ok(open),
            _ => Err(poisoned(self.id)),
        }
    }

    fn poisoning(&self, error: DiskError) -> StoreError {
        self.turn.slot.poison();
        error.into()
    }

    /// Copies everything from `keep` to a file of its own, and makes it durable.
    fn set_aside(
        &self,
        open: &OpenLedger,
        keep: u64,
        len: u64,
    ) -> Result<(Hash, String), DiskError> {
        let dir = self.inner.ledger_dir(self.id).join("torn");
        self.inner.ensure_dir(&dir)?;
        for number in 0..TORN_COPIES_MAX {
            let name = format!("{keep}-{number}");
            let path = dir.join(&name);
            match self.inner.disk.open(&path, Access::CreateNew) {
                Err(error) if error.is_taken() => {}
                Err(error) => return Err(error),
                Ok(copy) => {
                    let hash = copy_tail(&*open.file, keep, len, &*copy).inspect_err(|_| {
                        // Half a copy is no evidence; the whole is still in the ledger.
                        let _ = self.inner.disk.remove(&path);
                    })?;
                    self.inner.disk.sync_dir(&dir)?;
                    return Ok((hash, format!("torn/{name}")));
                }
            }
        }
        let taken = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        Err(DiskError::new(Op::Open, &dir, taken))
    }
}

/// Copies the bytes from `keep` to `len`, makes the copy durable, and returns its hash.
fn copy_tail(
    file: &dyn DiskFile,
    keep: u64,
    len: u64,
    copy: &dyn DiskFile,
) -> Result<Hash, DiskError> {
    let mut hasher = Sha256::new();
    let mut room = vec![0; CHUNK_BYTES];
    let mut at = keep;
    while at < len {
        let got = read_full(file, at, &mut room)?;
        let piece = room.get(..got).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        copy.write_all_at(at - keep, piece)?;
        hasher.update(piece);
        at += piece.len() as u64;
    }
    copy.sync_data()?;
    Ok(Hash::from_bytes(hasher.finalize().into()))
}

impl Batch for FileBatch {
    fn head(&self) -> Head {
        Head::at(self.open.as_ref().map_or(0, |open| open.sound))
    }

    fn torn_tail(&self) -> Option<TornTail> {
        self.torn
    }

    fn read(&self, from: Head, max: usize) -> Result<Vec<u8>, StoreError> {
        let open = self.usable()?;
        read_lines(&*open.file, self.id, from.bytes, open.sound, max)
    }

    fn append(&mut self, lines: &[u8]) -> Result<Head, StoreError> {
        check_lines(self.id, lines)?;
        let open = self.usable()?;
        if let Some(tail) = self.torn {
            return Err(StoreError::Torn { ledger: self.id, tail });
        }
        let at = open.sound;
        if let Err(error) = open.file.write_all_at(at, lines) {
            // If we die here, a torn tail is found. If we cannot take it back, it is found too, but
            // not by us: we no longer know what the file holds.
            if open.file.set_len(at).is_err() {
                self.turn.slot.poison();
            }
            return Err(error.into());
        }
        // If we die here, the lines are there, or some of them, or parts; nobody was told.
        let end = at + lines.len() as u64;
        open.file.start_sync(at, lines.len());
        if let Err(error) = open.file.sync_data() {
            // The system may now take the lines for written. Others must not build on them.
            let _ = open.file.set_len(at);
            return Err(self.poisoning(error));
        }
        // If we die here, the lines are there, and whoever asks again finds them.
        if let Some(open) = &mut self.open {
            open.sound = end;
            open.durable = end;
        }
        self.inner.tell(self.id, end);
        Ok(Head::at(end))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let open = self.usable()?;
        if open.durable < open.sound {
            open.file.sync_data().map_err(|error| self.poisoning(error))?;
        }
        if let Some(open) = &mut self.open {
            open.durable = open.sound;
        }
        Ok(())
    }

    fn repair_tail(&mut self, keep: Head) -> Result<Option<Repaired>, StoreError> {
        let open = self.usable()?;
        let keep_at = keep.bytes;
        let len = open.file.stat()?.len;
        if keep_at > open.sound || !is_line_start(&*open.file, keep_at)? {
            return Err(StoreError::NotALineStart { ledger: self.id, at: keep });
        }
        if keep_at == len {
            return Ok(None);
        }
        let (hash, copy) = self.set_aside(open, keep_at, len)?;
        // If we die here, the bytes are there twice, and the next repair makes another copy.
        open.file
            .set_len(keep_at)
            .and_then(|()| open.file.sync_data())
            .map_err(|error| self.poisoning(error))?;
        // If we die here, the ledger is sound, and the copy tells what was cut off.
        self.torn = None;
        if let Some(open) = &mut self.open {
            open.sound = keep_at;
            open.durable = keep_at;
        }
        let tail = TornTail { at: keep, bytes: len - keep_at };
        Ok(Some(Repaired { tail, hash, copy }))
    }
}

impl Drop for FileBatch {
    fn drop(&mut self) {
        // A file that cannot be unlocked is closed, which releases the lock.
        self.turn.back = self.open.take().filter(|open| open.file.unlock().is_ok());
    }
}
