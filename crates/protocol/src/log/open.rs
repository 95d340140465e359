//! The traces that have not ended, as the log knows them.
//!
//! What changed since some entry of the log is kept here. What was open at that entry may lie
//! elsewhere and is looked up when it is asked for: who asks about one trace need not read of all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use countersign_format::event::TraceKind;
use countersign_format::hash::Hash;
use serde::{Deserialize, Serialize};

/// An open trace as the log knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTrace {
    /// What it records.
    pub kind: TraceKind,
    /// Hash of its first event.
    pub first_event_hash: Hash,
    /// How many of its events were durable when it was last checkpointed.
    pub size: u64,
}

/// What the log says of its open traces can be had nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what the log says of its open traces cannot be read: {reason}")]
pub struct OpenUnreadable {
    /// Why.
    pub reason: String,
}

/// The traces that were open at some entry of the log, kept elsewhere. Answers are about that entry
/// for ever, whatever the log says since.
pub trait EarlierOpen: fmt::Debug + Send + Sync {
    /// One of them, if it was open.
    ///
    /// # Errors
    /// It cannot be known.
    fn find(&self, trace_id: &str) -> Result<Option<OpenTrace>, OpenUnreadable>;

    /// All of them.
    ///
    /// # Errors
    /// They cannot be known.
    fn all(&self) -> Result<BTreeMap<String, OpenTrace>, OpenUnreadable>;
}

/// What the log said of a trace last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenChange {
    /// It was opened.
    Opened(OpenTrace),
    /// It is so long, if it is open.
    Grown(u64),
    /// It ended.
    Closed,
}

impl OpenChange {
    /// What an open trace, or none, is after this.
    #[must_use]
    pub fn on(&self, before: Option<OpenTrace>) -> Option<OpenTrace> {
        match self {
            Self::Opened(trace) => Some(trace.clone()),
            Self::Grown(size) => {
                before.map(|open| OpenTrace { size: open.size.max(*size), ..open })
            }
            Self::Closed => None,
        }
    }
}

/// Endings that are remembered beyond what a lookup needs, for who asks what changed.
const ENDINGS_KEPT: usize = 1_024;

/// Traces that have not ended.
#[derive(Debug, Clone, Default)]
pub struct OpenSet {
    /// What was open at the entry of this number, unless everything since the first is known.
    earlier: Option<(u64, Arc<dyn EarlierOpen>)>,
    changes: BTreeMap<Arc<str>, (u64, OpenChange)>,
    /// The traces of `changes` in the order of the entries.
    order: BTreeSet<(u64, Arc<str>)>,
    /// The last of those that ended and need no change to say so.
    ended: VecDeque<(u64, Arc<str>)>,
    /// Whatever ended before this entry may be forgotten.
    forgotten: u64,
}

impl OpenSet {
    /// Those that were open after `events` entries.
    #[must_use]
    pub fn after(events: u64, earlier: Arc<dyn EarlierOpen>) -> Self {
        Self { earlier: Some((events, earlier)), forgotten: events, ..Self::default() }
    }

    /// One of them, if it is open.
    ///
    /// # Errors
    /// What was said earlier cannot be read.
    pub fn find(&self, trace_id: &str) -> Result<Option<OpenTrace>, OpenUnreadable> {
        let change = self.changes.get(trace_id).map(|(_, change)| change);
        let earlier = || match &self.earlier {
            Some((_, earlier)) => earlier.find(trace_id),
            None => Ok(None),
        };
        match change {
            None => earlier(),
            Some(change @ OpenChange::Grown(_)) => Ok(change.on(earlier()?)),
            Some(change) => Ok(change.on(None)),
        }
    }

    /// All of them, by id.
    ///
    /// # Errors
    /// What was said earlier cannot be read.
    pub fn all(&self) -> Result<BTreeMap<String, OpenTrace>, OpenUnreadable> {
        let mut all = match &self.earlier {
            Some((_, earlier)) => earlier.all()?,
            None => BTreeMap::new(),
        };
        for (trace_id, (_, change)) in &self.changes {
            let before = all.remove(&**trace_id);
            if let Some(open) = change.on(before) {
                all.insert(trace_id.to_string(), open);
            }
        }
        Ok(all)
    }

    /// What changed from entry `from` on, by id; `None` if that is more than is known here.
    #[must_use]
    pub fn changes_since(&self, from: u64) -> Option<BTreeMap<&str, &OpenChange>> {
        if from < self.forgotten {
            return None;
        }
        let ended = self.ended.iter().filter(|(entry, _)| *entry >= from);
        let ended = ended.map(|(_, trace_id)| (&**trace_id, &OpenChange::Closed));
        let changed = self.order.range((from, Arc::from(""))..).filter_map(|(_, trace_id)| {
            let (_, change) = self.changes.get(trace_id)?;
            Some((&**trace_id, change))
        });
        Some(ended.chain(changed).collect())
    }

    pub(super) fn open(&mut self, entry: u64, trace_id: &str, trace: OpenTrace) {
        self.change(entry, trace_id, OpenChange::Opened(trace));
    }

    /// A trace that ended may grow as well, which changes nothing here.
    pub(super) fn grow(&mut self, entry: u64, trace_id: &str, size: u64) {
        let grown = match self.changes.get(trace_id) {
            Some((_, OpenChange::Opened(trace))) => {
                let size = trace.size.max(size);
                OpenChange::Opened(OpenTrace { size, ..trace.clone() })
            }
            Some((_, OpenChange::Grown(known))) => OpenChange::Grown(size.max(*known)),
            Some((_, OpenChange::Closed)) => return,
            None if self.earlier.is_some() => OpenChange::Grown(size),
            None => return,
        };
        self.change(entry, trace_id, grown);
    }

    pub(super) fn close(&mut self, entry: u64, trace_id: &str) {
        let opened_here = matches!(self.changes.get(trace_id), Some((_, OpenChange::Opened(_))));
        if self.earlier.is_some() && !opened_here {
            // It may be open there, and must not be looked up.
            return self.change(entry, trace_id, OpenChange::Closed);
        }
        let trace_id: Arc<str> = Arc::from(trace_id);
        self.forget(&trace_id);
        self.ended.push_back((entry, trace_id));
        if self.ended.len() > ENDINGS_KEPT
            && let Some((entry, _)) = self.ended.pop_front()
        {
            self.forgotten = entry.saturating_add(1);
        }
    }

    fn change(&mut self, entry: u64, trace_id: &str, change: OpenChange) {
        let trace_id: Arc<str> = Arc::from(trace_id);
        self.forget(&trace_id);
        self.order.insert((entry, Arc::clone(&trace_id)));
        self.changes.insert(trace_id, (entry, change));
    }

    fn forget(&mut self, trace_id: &Arc<str>) {
        if let Some((entry, _)) = self.changes.remove(trace_id) {
            self.order.remove(&(entry, Arc::clone(trace_id)));
        }
    }
}
