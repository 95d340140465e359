//! The workspace log as a ledger like any other, its checkpoint and its snapshot.

mod earlier;
mod pages;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_format::note::{Checkpoint, NOTE_BYTES_MAX, SignedNote};
use countersign_format::time::Timestamp;
use countersign_protocol::By;
use countersign_protocol::log::{LogState, OpenSet};

use self::earlier::{Earlier, PAGES_NAME};
use self::pages::Addition;
use crate::disk::{Access, Durability, read_full, replace_file};
use crate::replica::Replica;
use crate::signers::Signers;
use crate::snapshot;
use crate::store::{FileStore, LedgerId};
use crate::writer::{Commit, Host, Party, WriteError, Writer};

pub(crate) use self::earlier::OpenPages;

pub(crate) type LogWriter = Writer<LogState>;

/// Entries after which a new snapshot is worth its while.
const SNAPSHOT_EVERY: u64 = 16;
/// Bytes of pages that nobody needs any more which are always borne.
const PAGES_SLACK: u64 = 256 << 10;

#[derive(Debug)]
pub(crate) struct LogHost {
    signers: Arc<Signers>,
    store: FileStore,
    snapshot_at: AtomicU64,
}

impl LogHost {
    pub(crate) const fn new(signers: Arc<Signers>, store: FileStore) -> Self {
        Self { signers, store, snapshot_at: AtomicU64::new(0) }
    }

    fn pages_path(&self) -> PathBuf {
        self.store.ledger_dir(LedgerId::Log).join(PAGES_NAME)
    }

    /// The snapshot that there is, without its open traces, and what it says of these.
    fn known(&self) -> Option<(Replica<LogState>, Arc<Earlier>)> {
        let recorder = |key_id: &str| self.signers.recorder_public(key_id);
        let (replica, pages) = snapshot::load_log(&self.store, recorder)?;
        let earlier = Earlier::of(&self.store, &replica, pages)?;
        Some((replica, earlier))
    }

    /// Keeps a snapshot of `log`, which is durable. Failing to is no loss.
    fn keep(&self, log: &Replica<LogState>) -> Result<(), WriteError> {
        let Some(pages) = self.add_pages(log).or_else(|| self.write_pages(log)) else {
            return Ok(());
        };
        self.signers.recorder(&log.state, |key| snapshot::store_log(&self.store, log, pages, key))
    }

    /// Adds what changed since the last snapshot, whoever made it. `None` if all is to be written.
    fn add_pages(&self, log: &Replica<LogState>) -> Option<OpenPages> {
        let (_, known) = self.known().filter(|(_, known)| known.stands())?;
        let changes = log.state.open.changes_since(known.events)?;
        let OpenPages { root, packed } = known.pages;
        let file = self.store.disk().open(&self.pages_path(), Access::Write).ok()?;
        let length = file.stat().ok()?.len;
        if length > packed.saturating_mul(2).saturating_add(PAGES_SLACK) {
            return None;
        }
        // If we die here, the file is longer by pages that nobody names.
        let mut addition = Addition::behind(length);
        let root = addition.of_changes(&*file, root?, &changes).ok()?;
        file.write_all_at(length, &addition.bytes).ok()?;
        Some(OpenPages { root, packed })
    }

    /// Writes all that is open into a new file. If we die after that, the old snapshot does not fit
    /// to it and is thrown away.
    fn write_pages(&self, log: &Replica<LogState>) -> Option<OpenPages> {
        let mut addition = Addition::behind(0);
        let root = addition.of_all(log.state.open.all().ok()?);
        let (disk, path) = (self.store.disk(), self.pages_path());
        replace_file(&**disk, &path, &addition.bytes, Durability::Cached).ok()?;
        Some(OpenPages { root, packed: addition.bytes.len() as u64 })
    }
}

impl Host<LogState> for LogHost {
    fn refresh(&self) -> Result<(), WriteError> {
        Ok(())
    }

    fn floor(&self, state: &LogState) -> Timestamp {
        state.floor()
    }

    fn party(&self, by: By, state: &LogState) -> Result<Arc<Party>, WriteError> {
        self.signers.party(by, state)
    }

    fn fresh(&self) -> Replica<LogState> {
        let known = self.known().map(|(mut replica, earlier)| {
            replica.state.open = OpenSet::after(earlier.events, earlier);
            replica
        });
        let events = known.as_ref().map_or(0, |replica| replica.chain.events);
        self.snapshot_at.store(events, Ordering::Relaxed);
        known.unwrap_or_default()
    }

    /// The checkpoint counts durable entries only. Whether it can be believed does not matter: at
    /// worst a log that somebody tampered with is left alone.
    fn acknowledged(&self) -> Result<u64, WriteError> {
        let path = self.store.ledger_dir(LedgerId::Log).join("checkpoint");
        // Through the disk, which refuses what could block, such as a pipe in the file's place.
        let mut bytes = vec![0; NOTE_BYTES_MAX];
        let file = self.store.disk().open(&path, Access::Read).ok();
        let length = file.and_then(|file| read_full(&*file, 0, &mut bytes).ok()).unwrap_or(0);
        let note = SignedNote::parse(bytes.get(..length).unwrap_or_default()).ok();
        let checkpoint = note.and_then(|note| note.text().parse::<Checkpoint>().ok());
        Ok(checkpoint.map_or(0, |checkpoint| checkpoint.size))
    }

    fn least(&self, _events: u64) -> Result<u64, WriteError> {
        self.acknowledged()
    }

    fn least_before(&self) -> Result<u64, WriteError> {
        self.acknowledged()
    }

    /// Whoever was told finds the checkpoint written.
    fn answers_early(&self) -> bool {
        false
    }

    /// Writes the checkpoint. It is made from durable entries only, so it never promises what a
    /// crash could take back; losing it loses nothing that the log itself does not say.
    fn committed(&self, commit: &Commit<'_, LogState>) -> Result<(), WriteError> {
        let replica = commit.replica;
        let state = &replica.state;
        if state.active_key(countersign_format::role::Role::Recorder).is_none() {
            // The first entries of a log come before there is a recorder to sign a checkpoint.
            return Ok(());
        }
        let checkpoint = Checkpoint {
            origin: state.origin.clone(),
            size: replica.chain.events,
            root: replica.chain.tree.root(),
        };
        let note = self.signers.recorder(state, |key| checkpoint.sign(key))?;
        if let Ok(note) = note {
            let path = self.store.ledger_dir(LedgerId::Log).join("checkpoint");
            let text = note.to_string();
            let _ = replace_file(&**self.store.disk(), &path, text.as_bytes(), Durability::Cached);
        }
        let last = self.snapshot_at.load(Ordering::Relaxed);
        if replica.chain.events >= last.saturating_add(SNAPSHOT_EVERY) {
            self.snapshot_at.store(replica.chain.events, Ordering::Relaxed);
            self.keep(replica)?;
        }
        Ok(())
    }
}
