//! A workspace at a glance, again and again: what runs, what waits, what was decided last.
//!
//! Decides what is read for it: the index for lists, and of a ledger only what is new since the last
//! look, or its tail. A trace that cannot be read is named, and hides no other. Nothing is decided
//! by what is seen here.

mod sentence;
mod tail;

use std::collections::BTreeMap;

use countersign_format::event::TraceKind;
use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use serde::Serialize;

use crate::index::{Index, IndexError, TraceRow, WorkRow};
use crate::period::{Decider, Ruling};
use crate::questions::Question;
use crate::workspace::Workspace;
use tail::TraceTail;

/// Open traces that are looked at, the newest of them.
pub const OPEN_TRACES_MAX: usize = 200;
/// Traces, open or not, of which the last events are looked at.
const NEWEST_TRACES_MAX: usize = 40;
/// Decisions and events that are told.
const TOLD_MAX: usize = 50;

/// A trace that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenTrace {
    /// Its id.
    pub trace_id: String,
    /// What it records.
    pub kind: Option<TraceKind>,
    /// What people would call it.
    pub title: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// Its events.
    pub events: u64,
    /// The last of them; none if its end cannot be read.
    pub last: Option<SeenEvent>,
}

/// An event as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenEvent {
    /// When.
    pub at: Timestamp,
    /// Its trace.
    pub trace_id: String,
    /// The trace's kind.
    pub kind: Option<TraceKind>,
    /// The role that acted.
    pub role: &'static str,
    /// What happened.
    pub sentence: String,
}

/// A decision about an action or a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenDecision {
    /// When.
    pub at: Timestamp,
    /// Its trace.
    pub trace_id: String,
    /// How it came out.
    pub ruling: Ruling,
    /// Who decided.
    pub by: Decider,
    /// What it was about.
    pub action: String,
    /// Why.
    pub reasons: Vec<String>,
}

/// A workspace at some moment.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// Traces that are not over, the one that moved last first.
    pub running: Vec<SeenTrace>,
    /// All such traces, those that are not listed among them.
    pub running_total: u64,
    /// Questions that wait, the oldest first.
    pub questions: Vec<Question>,
    /// The last decisions, the newest first.
    pub decisions: Vec<SeenDecision>,
    /// Work items that are not completed: held ones first, then blocked ones, then by phase.
    pub work: Vec<WorkRow>,
    /// The last events of all traces, the newest first.
    pub events: Vec<SeenEvent>,
    /// Traces that cannot be read to their end, and why.
    pub unreadable: Vec<(String, String)>,
}

/// Looks at a workspace again and again, and reads only what is new.
#[derive(Debug)]
pub struct Lookout {
    workspace: Workspace,
    index: Index,
    /// Whether the index was just brought up to date.
    fresh: bool,
    tails: BTreeMap<Ulid, TraceTail>,
    /// The blocked items by which the questions were asked for, and those questions.
    blocked: (Vec<(Ulid, Timestamp)>, Vec<Question>, Vec<String>),
}

impl Lookout {
    /// A first look is still to be taken.
    ///
    /// # Errors
    /// The traces cannot be listed.
    pub fn open(workspace: &Workspace) -> Result<Self, IndexError> {
        Ok(Self {
            workspace: workspace.clone(),
            index: workspace.index()?,
            fresh: true,
            tails: BTreeMap::new(),
            blocked: Default::default(),
        })
    }

    /// The workspace as it is now.
    ///
    /// # Errors
    /// The traces cannot be listed.
    pub fn look(&mut self) -> Result<Overview, IndexError> {
        if !std::mem::take(&mut self.fresh) {
            self.index.catch_up()?;
        }
        let mut rows = self.index.traces()?;
        let items = self.index.work_items()?;
        rows.sort_by_key(|row| std::cmp::Reverse((row.last_at, row.id)));
        let mut seen = Overview::default();
        let mut wanted = Vec::new();
        let mut open = 0;
        for (place, row) in rows.iter().enumerate() {
            let is_open = runs(row);
            open += usize::from(is_open);
            if place < NEWEST_TRACES_MAX || (is_open && open <= OPEN_TRACES_MAX) {
                wanted.push(row);
            }
            if let Some(why) = &row.unreadable {
                seen.unreadable.push((row.id.to_string(), why.clone()));
            }
        }
        seen.running_total = open as u64;
        self.tails.retain(|id, _| wanted.iter().any(|row| row.id == *id));
        for row in wanted {
            let tail = self.tails.entry(row.id).or_default();
            tail.look(&self.workspace, row);
            tell(row, tail, &mut seen);
        }
        self.ask_blocked(&items);
        seen.questions.extend(self.blocked.1.iter().cloned());
        let silent = self.blocked.2.iter();
        seen.unreadable.extend(silent.map(|id| (id.clone(), "its question".to_owned())));
        seen.work = items.into_iter().filter(|it| it.phase != WorkPhase::Completed).collect();
        arrange(&mut seen, self.workspace.now());
        Ok(seen)
    }

    /// The questions of blocked items, asked for anew only if others are blocked than before.
    fn ask_blocked(&mut self, items: &[WorkRow]) {
        let blocked = items.iter().filter(|item| item.phase == WorkPhase::Blocked);
        let blocked: Vec<_> = blocked.map(|item| (item.id, item.phase_since)).collect();
        if blocked == self.blocked.0 {
            return;
        }
        let (questions, unreadable) = match blocked.is_empty() {
            true => Default::default(),
            false => self.workspace.blocked_items().unwrap_or_default(),
        };
        self.blocked = (blocked, questions, unreadable);
    }
}

/// Whether a trace is one that agents act in, and not over. Of one that cannot be read to its end
/// nobody can say so.
fn runs(row: &TraceRow) -> bool {
    let acting = [TraceKind::Session, TraceKind::Recording, TraceKind::Flow];
    !row.closed && row.unreadable.is_none() && row.kind.is_some_and(|kind| acting.contains(&kind))
}

fn tell(row: &TraceRow, tail: &TraceTail, seen: &mut Overview) {
    if runs(row) && seen.running.len() < OPEN_TRACES_MAX {
        seen.running.push(SeenTrace {
            trace_id: row.id.to_string(),
            kind: row.kind,
            title: row.title.clone(),
            started_at: row.first_at,
            events: row.events,
            last: tail.events().next_back().cloned(),
        });
    }
    if runs(row) {
        seen.questions.extend(tail.questions().iter().cloned());
    }
    seen.decisions.extend(tail.decisions().cloned());
    seen.events.extend(tail.events().cloned());
    if let Some(why) = tail.unreadable() {
        seen.unreadable.push((row.id.to_string(), why.to_owned()));
    }
}

fn arrange(seen: &mut Overview, now: Timestamp) {
    seen.questions.retain(|question| question.deadline.is_none_or(|deadline| now < deadline));
    seen.questions.sort_by(|a, b| (a.asked_at, &a.id).cmp(&(b.asked_at, &b.id)));
    // Stable: what one trace has of one time stays in its order, the last first.
    seen.decisions.reverse();
    seen.decisions.sort_by_key(|decision| std::cmp::Reverse(decision.at));
    seen.decisions.truncate(TOLD_MAX);
    seen.events.reverse();
    seen.events.sort_by_key(|event| std::cmp::Reverse(event.at));
    seen.events.truncate(TOLD_MAX);
    seen.work.sort_by_key(|item| (urgency(item), item.phase, item.phase_since, item.id));
    seen.unreadable.sort_unstable();
    seen.unreadable.dedup_by(|a, b| a.0 == b.0);
}

/// Where much lies about, what somebody works on or waits for must not be lost among it.
fn urgency(item: &WorkRow) -> u8 {
    match (&item.holder, item.phase) {
        (Some(_), _) => 0,
        (None, WorkPhase::Blocked) => 1,
        (None, _) => 2,
    }
}
