//! What all requests share: the workspace, its index, the ledgers looked at, verdicts and news.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_runtime::Workspace;
use countersign_runtime::index::{Index, IndexError};
use countersign_runtime::inspect::LogEntry;
use countersign_runtime::known_roots::KnownRoots;
use countersign_runtime::secrets::Redactor;
use countersign_runtime::store::LedgerId;

use super::answer::ApiFailure;
use super::ledger::Ledgers;
use super::live::Newsroom;
use super::verdicts::Verdicts;

/// After so long the traces are looked at again although nobody told of a change.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Everything that answers are made from.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) workspace: Workspace,
    pub(super) redactor: Redactor,
    pub(super) ledgers: Ledgers,
    pub(super) verdicts: Verdicts,
    pub(super) news: Newsroom,
    /// Held while a passphrase is tried, so that they can be tried one after the other only.
    pub(super) unlocking: Mutex<()>,
    index: Mutex<Option<Kept>>,
    logged: Mutex<Option<Logged>>,
}

/// What the log says of every trace, and which bytes said so.
#[derive(Debug)]
struct Logged {
    of: (u64, i64, i64),
    entries: Arc<BTreeMap<String, LogEntry>>,
}

/// The index and when it was caught up.
#[derive(Debug)]
struct Kept {
    index: Index,
    changes: u64,
    at: Instant,
}

/// Starts what goes on beside the requests.
pub(super) fn begin(desk: &Arc<Desk>) -> io::Result<()> {
    super::verdicts::begin(desk)?;
    super::live::begin(desk)
}

impl Desk {
    pub(super) fn new(workspace: Workspace, redactor: Redactor) -> Self {
        Self {
            workspace,
            redactor,
            ledgers: Ledgers::default(),
            verdicts: Verdicts::default(),
            news: Newsroom::default(),
            unlocking: Mutex::new(()),
            index: Mutex::new(None),
            logged: Mutex::new(None),
        }
    }

    /// Ends what goes on beside the requests.
    pub(super) fn close(&self) {
        self.verdicts.close();
        self.news.close();
        self.workspace.store().wake();
    }

    /// Asks the index, which is caught up first if something may have changed.
    pub(super) fn index<T>(
        &self,
        ask: impl FnOnce(&mut Index) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut kept = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted before looking: what changes meanwhile is looked at the next time.
        let changes = self.workspace.store().changes_seen();
        let fresh = kept
            .as_ref()
            .is_some_and(|kept| kept.changes == changes && kept.at.elapsed() < LOOK_AGAIN);
        let kept = match kept.as_mut() {
            Some(kept) => kept,
            None => {
                let index = self.workspace.index()?;
                kept.insert(Kept { index, changes, at: Instant::now() })
            }
        };
        if !fresh {
            kept.index.catch_up()?;
            (kept.changes, kept.at) = (changes, Instant::now());
        }
        ask(&mut kept.index)
    }

    /// What the log says of every trace.
    fn log_entries(&self) -> Result<Arc<BTreeMap<String, LogEntry>>, ApiFailure> {
        let path = self.workspace.store().ledger_dir(LedgerId::Log).join("events.jsonl");
        let found = path.symlink_metadata().map_err(|error| ApiFailure::failed(&error))?;
        let of = (found.len(), found.ctime(), found.ctime_nsec());
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = logged.as_ref().filter(|known| known.of == of) {
            return Ok(Arc::clone(&known.entries));
        }
        let entries = Arc::new(self.workspace.log_entries()?);
        *logged = Some(Logged { of, entries: Arc::clone(&entries) });
        Ok(entries)
    }

    /// What the log says of one trace.
    pub(super) fn logged(&self, id: Ulid) -> Option<LogEntry> {
        self.log_entries().ok()?.get(&id.to_string()).cloned()
    }

    /// The traces that the log knows and that are not here.
    pub(super) fn gone(&self) -> Result<Vec<(String, LogEntry)>, ApiFailure> {
        // A trace begins before the log knows it: asked in this order none is missed that is here.
        let Ok(entries) = self.log_entries() else { return Ok(Vec::new()) };
        let here: BTreeSet<String> = self
            .index(|index| index.trace_lengths())?
            .into_iter()
            .map(|(id, _)| id.to_string())
            .collect();
        let gone = entries.iter().filter(|(id, _)| !here.contains(*id));
        Ok(gone.map(|(id, entry)| (id.clone(), entry.clone())).collect())
    }

    /// The roots that the reader trusts.
    pub(super) fn trusted_roots(&self) -> Result<BTreeSet<Hash>, ApiFailure> {
        let known = KnownRoots::new(self.workspace.config()).list();
        let known = known.map_err(|error| ApiFailure::failed(&error))?;
        Ok(known.iter().map(|root| root.fingerprint).collect())
    }
}
