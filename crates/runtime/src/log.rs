//! The workspace log as a ledger like any other, and its checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_format::note::{Checkpoint, NOTE_BYTES_MAX, SignedNote};
use countersign_format::time::Timestamp;
use countersign_protocol::By;
use countersign_protocol::log::LogState;

use crate::disk::{Access, Durability, read_full, replace_file};
use crate::replica::Replica;
use crate::signers::Signers;
use crate::snapshot;
use crate::store::{FileStore, LedgerId};
use crate::writer::{Commit, Host, Party, WriteError, Writer};

pub(crate) type LogWriter = Writer<LogState>;

/// Entries after which a new snapshot is worth its while.
const SNAPSHOT_EVERY: u64 = 64;

#[derive(Debug)]
pub(crate) struct LogHost {
    pub(crate) signers: Arc<Signers>,
    pub(crate) store: FileStore,
    pub(crate) snapshot_at: AtomicU64,
}

impl Host<LogState> for LogHost {
    fn refresh(&self, _state: &LogState) -> Result<(), WriteError> {
        Ok(())
    }

    fn floor(&self, state: &LogState) -> Timestamp {
        state.floor()
    }

    fn party(&self, by: By, state: &LogState) -> Result<Arc<Party>, WriteError> {
        self.signers.party(by, state)
    }

    fn fresh(&self) -> Replica<LogState> {
        let recorder = |key_id: &str| self.signers.recorder_public(key_id);
        let found: Option<Replica<LogState>> = snapshot::load(&self.store, LedgerId::Log, recorder);
        let events = found.as_ref().map_or(0, |replica| replica.chain.events);
        self.snapshot_at.store(events, Ordering::Relaxed);
        found.unwrap_or_default()
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
            self.signers.recorder(state, |key| {
                snapshot::store(&self.store, LedgerId::Log, replica, key);
            })?;
        }
        Ok(())
    }
}
