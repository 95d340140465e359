//! The end of one trace: its last events, its last decisions, and its questions.
//!
//! Decides how much is read: what is new since the last look, and where that is too much or nothing
//! is known yet, the tail. Questions are asked of the trace's own state, and only after an event
//! that can have changed them.

use std::collections::{BTreeMap, VecDeque};

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json::LINE_BYTES_MAX;
use countersign_protocol::flow::WordsForNo;

use super::sentence::sentence;
use super::{SeenDecision, SeenEvent};
use crate::disk::{Access, read_full};
use crate::index::TraceRow;
use crate::period::{action_of, heard};
use crate::questions::Question;
use crate::replica;
use crate::store::LedgerId;
use crate::workspace::Workspace;

/// Bytes that are read at once, at most: nothing before them is looked at.
const TAIL_BYTES: u64 = 128 << 10;
/// Events and decisions that are kept, and actions whose names are.
const EVENTS_MAX: usize = 20;
const DECISIONS_MAX: usize = 10;
const ACTIONS_MAX: usize = 200;

/// What is known of the end of a trace.
#[derive(Debug, Default)]
pub(super) struct TraceTail {
    /// Where the lines end that were read, and the event that the index had as the last then.
    read_to: u64,
    head: Option<Hash>,
    events: VecDeque<SeenEvent>,
    decisions: VecDeque<SeenDecision>,
    /// What actions are called, by the place of the event that says so.
    actions: BTreeMap<u64, String>,
    words_for_no: WordsForNo,
    questions: Vec<Question>,
    unreadable: Option<String>,
}

impl TraceTail {
    /// The last events, the oldest of them first.
    pub(super) fn events(&self) -> impl DoubleEndedIterator<Item = &SeenEvent> {
        self.events.iter()
    }

    /// The last decisions, the oldest of them first.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &SeenDecision> {
        self.decisions.iter()
    }

    /// The questions that wait.
    pub(super) fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Why its end is not known.
    pub(super) fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// Takes in what is new.
    pub(super) fn look(&mut self, workspace: &Workspace, row: &TraceRow) {
        if self.head.is_some() && self.head == row.head && row.bytes <= self.read_to {
            return;
        }
        // What got shorter is another ledger than the one that was read.
        if row.bytes < self.read_to {
            *self = Self::default();
        }
        let from = self.read_to.max(row.bytes.saturating_sub(TAIL_BYTES));
        let lines = match read(workspace, row.id, from, row.bytes) {
            Ok(lines) => lines,
            Err(why) => return self.unreadable = Some(why),
        };
        let cut = from > self.read_to;
        let Some(whole) = lines.iter().rposition(|&byte| byte == b'\n') else { return };
        self.read_to = from + whole as u64 + 1;
        self.head = row.head;
        self.unreadable = None;
        if cut && row.kind == Some(TraceKind::Flow) {
            self.recall_plan(workspace, row);
        }
        // What was passed over may have asked something.
        let mut ask = cut;
        let lines = lines.get(..whole).unwrap_or_default();
        // The first line of a tail is the end of one, unless it begins where the last one ended.
        let lines = lines.split(|&byte| byte == b'\n').skip(usize::from(cut));
        for line in lines {
            let event = replica::read(line).and_then(|event| {
                replica::belongs(LedgerId::Trace(row.id), &event).map(|()| event)
            });
            match event {
                Ok(event) => ask |= self.take(workspace, row, &event),
                Err(why) => self.unreadable = Some(why),
            }
        }
        if ask && row.kind.is_some_and(asks) && !row.closed {
            self.ask(workspace, row.id);
        }
        if row.closed {
            self.questions.clear();
        }
    }

    /// A flow's first event has its words for no, and a tail does not reach back to it.
    fn recall_plan(&mut self, workspace: &Workspace, row: &TraceRow) {
        let lines = read(workspace, row.id, 0, row.bytes.min(LINE_BYTES_MAX as u64 + 1));
        let lines = lines.unwrap_or_default();
        let first = lines.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if let Ok(event) = replica::read(first) {
            self.words_for_no.take(&event);
        }
    }

    fn ask(&mut self, workspace: &Workspace, id: Ulid) {
        match workspace.questions_of(id) {
            Ok(questions) => self.questions = questions,
            Err(error) => self.unreadable = Some(error.to_string()),
        }
    }

    /// Takes in an event, and says whether it can have changed what waits for a person.
    fn take(&mut self, workspace: &Workspace, row: &TraceRow, event: &Event) -> bool {
        let seq = event.seq.unwrap_or_default();
        match event.event_type {
            EventType::ToolIntentSigned | EventType::ProposalCreated | EventType::StepEscalated => {
                self.name(seq, action_of(workspace, event));
            }
            // No earlier event asks whether a blocked item goes on.
            EventType::WorkUnblocked => self.name(seq, unblocking(row, event)),
            // What a start is called, its end is called too.
            EventType::ToolExecutionStarted => {
                if let Some(name) = self.called(event) {
                    self.name(seq, name);
                }
            }
            _ => {}
        }
        self.words_for_no.take(event);
        let called = self.actions.get(&seq).cloned().or_else(|| self.called(event));
        if let Some(heard) = heard(event, &self.words_for_no) {
            push(
                &mut self.decisions,
                DECISIONS_MAX,
                SeenDecision {
                    at: event.created_at,
                    trace_id: event.trace_id.clone(),
                    ruling: heard.ruling,
                    by: heard.by,
                    action: called.clone().unwrap_or_else(|| "an earlier action".to_owned()),
                    reasons: heard.reasons,
                },
            );
        }
        push(
            &mut self.events,
            EVENTS_MAX,
            SeenEvent {
                at: event.created_at,
                trace_id: event.trace_id.clone(),
                kind: row.kind,
                role: event.actor.role.as_str(),
                sentence: sentence(event, called.as_deref()),
            },
        );
        matches!(
            event.event_type,
            EventType::ToolIntentReviewed | EventType::StepEscalated | EventType::AnswerGiven
        )
    }

    fn name(&mut self, seq: u64, name: String) {
        self.actions.insert(seq, name);
        if self.actions.len() > ACTIONS_MAX {
            self.actions.pop_first();
        }
    }

    /// What the thing is called that an event refers to.
    fn called(&self, event: &Event) -> Option<String> {
        let members = ["subject", "intent", "execution", "question"];
        let seq =
            members.into_iter().find_map(|name| event.payload.get(name)?.get("seq")?.as_u64());
        seq.and_then(|seq| self.actions.get(&seq)).cloned()
    }
}

/// What it is called that a blocked item goes on.
fn unblocking(row: &TraceRow, event: &Event) -> String {
    let phase = event.payload.get("phase").and_then(serde_json::Value::as_str).unwrap_or("?");
    format!("unblock {}, back to {phase}", row.title.as_deref().unwrap_or("a work item"))
}

fn push<T>(kept: &mut VecDeque<T>, most: usize, one: T) {
    kept.push_back(one);
    if kept.len() > most {
        kept.pop_front();
    }
}

/// Whether traces of this kind ask people about what is in them.
const fn asks(kind: TraceKind) -> bool {
    matches!(kind, TraceKind::Session | TraceKind::Recording | TraceKind::Flow)
}

fn read(workspace: &Workspace, id: Ulid, from: u64, to: u64) -> Result<Vec<u8>, String> {
    let file = workspace.store().disk().open(&workspace.trace_file(id), Access::Read);
    let file = file.map_err(|error| error.to_string())?;
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or_default()];
    let read = read_full(&*file, from, &mut bytes).map_err(|error| error.to_string())?;
    bytes.truncate(read);
    Ok(bytes)
}
