//! What a snapshot of the log says of open traces, read as far as it is asked for.
//!
//! Where a page is not what it should be, the log itself is replayed up to the snapshot's head: a
//! damaged cache costs time and nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use countersign_format::hash::Hash;
use countersign_protocol::log::{EarlierOpen, LogState, OpenTrace, OpenUnreadable};
use serde::{Deserialize, Serialize};

use super::pages::{self, BadPage, PageRef};
use crate::disk::{Access, DiskFile};
use crate::replica::{Replica, is_event};
use crate::store::{FileStore, Head, LedgerId, Ledgers as _};
use crate::writer::lock;

/// The name of the file of pages, beside the log.
pub(super) const PAGES_NAME: &str = "open";
const READ_BYTES: usize = 1 << 20;

/// Where a snapshot of the log has its open traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenPages {
    /// The page that leads to all; none if no trace is open.
    pub(super) root: Option<PageRef>,
    /// How long the file was when every page in it was needed.
    pub(super) packed: u64,
}

/// The open traces of a snapshot.
#[derive(Debug)]
pub(super) struct Earlier {
    store: FileStore,
    /// Stays the file that the snapshot means, also when another one gets its name.
    file: Mutex<Box<dyn DiskFile>>,
    pub(super) pages: OpenPages,
    /// Entries of the log, where they end, where the last one starts, and its hash.
    pub(super) events: u64,
    head: Head,
    last_line: Head,
    hash: Hash,
    answers: Mutex<BTreeMap<String, Option<OpenTrace>>>,
    replayed: OnceLock<Result<BTreeMap<String, OpenTrace>, OpenUnreadable>>,
}

impl Earlier {
    /// What goes with a snapshot of the log. `None` if the first page is not the one it means.
    pub(super) fn of(
        store: &FileStore,
        snapshot: &Replica<LogState>,
        pages: OpenPages,
    ) -> Option<Arc<Self>> {
        let path = store.ledger_dir(LedgerId::Log).join(PAGES_NAME);
        let file = store.disk().open(&path, Access::Read).ok()?;
        if let Some(root) = pages.root {
            // Any question leads through it.
            pages::find(&*file, root, "").ok()?;
        }
        Some(Arc::new(Self {
            store: store.clone(),
            file: Mutex::new(file),
            pages,
            events: snapshot.chain.events,
            head: snapshot.head,
            last_line: snapshot.last_line,
            hash: snapshot.chain.head,
            answers: Mutex::default(),
            replayed: OnceLock::new(),
        }))
    }

    /// Whether the log still begins with what the snapshot was made of.
    pub(super) fn stands(&self) -> bool {
        let Some(length) = self.head.bytes.checked_sub(self.last_line.bytes) else { return false };
        let Ok(length) = usize::try_from(length) else { return false };
        let lines = self.store.read(LedgerId::Log, self.last_line, length);
        lines.is_ok_and(|lines| lines.len() == length && is_event(&lines, self.hash))
    }

    fn replayed(&self) -> Result<&BTreeMap<String, OpenTrace>, OpenUnreadable> {
        self.replayed.get_or_init(|| self.replay()).as_ref().map_err(Clone::clone)
    }

    fn replay(&self) -> Result<BTreeMap<String, OpenTrace>, OpenUnreadable> {
        let unreadable = |reason: String| OpenUnreadable { reason };
        let mut log = Replica::<LogState>::default();
        while log.head < self.head {
            let lines = self.store.read(LedgerId::Log, log.head, READ_BYTES);
            let mut lines = lines.map_err(|error| unreadable(error.to_string()))?;
            if lines.is_empty() {
                break;
            }
            let left = self.head.bytes.saturating_sub(log.head.bytes);
            lines.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            let taken = log.take_lines(LedgerId::Log, &lines);
            taken.map_err(|damage| unreadable(damage.to_string()))?;
        }
        if log.chain.head != self.hash {
            return Err(unreadable("the log is another one than it was".to_owned()));
        }
        log.state.open.all()
    }
}

impl EarlierOpen for Earlier {
    fn find(&self, trace_id: &str) -> Result<Option<OpenTrace>, OpenUnreadable> {
        let Some(root) = self.pages.root else { return Ok(None) };
        if let Some(answer) = lock(&self.answers).get(trace_id) {
            return Ok(answer.clone());
        }
        let found = pages::find(&**lock(&self.file), root, trace_id);
        let answer = match found {
            Ok(found) => found,
            Err(BadPage) => self.replayed()?.get(trace_id).cloned(),
        };
        lock(&self.answers).insert(trace_id.to_owned(), answer.clone());
        Ok(answer)
    }

    fn all(&self) -> Result<BTreeMap<String, OpenTrace>, OpenUnreadable> {
        let Some(root) = self.pages.root else { return Ok(BTreeMap::new()) };
        let mut all = BTreeMap::new();
        match pages::all(&**lock(&self.file), root, &mut all) {
            Ok(()) => Ok(all),
            Err(BadPage) => self.replayed().cloned(),
        }
    }
}
