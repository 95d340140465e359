//! What a trace says of the calls in it, read once from its events.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventRef, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::receipt::ActionType;
use countersign_format::time::Timestamp;
use countersign_protocol::recording::Reporter;
use countersign_protocol::{ending, kind_of};
use serde_json::Value;

use super::CoverageError;
use crate::inspect::each_event;
use crate::store::LedgerId;
use crate::workspace::{Workspace, WorkspaceError};

/// Calls of one trace that are looked at.
pub const RECORDED_CALLS_MAX: usize = 1_000_000;
/// What a snapshot is recorded for.
pub const SNAPSHOT_PURPOSE: &str = "workspace_snapshot";

/// A call as a trace has it.
#[derive(Debug, Clone)]
pub(super) struct RecordedCall {
    pub(super) place: EventRef,
    pub(super) at: Timestamp,
    pub(super) call_id: Option<String>,
    pub(super) tool: String,
    pub(super) action: Option<ActionType>,
    pub(super) description: String,
    pub(super) paths: Vec<String>,
    /// Hash of its input, as it was recorded.
    pub(super) input: Option<Hash>,
    /// Whether that is of the arguments themselves, and nothing was taken out of them.
    pub(super) arguments: bool,
    pub(super) decision: Decided,
    pub(super) despite: bool,
    pub(super) started: bool,
    pub(super) ungated: bool,
    /// Whether a hook reported it, which is asked about every call.
    pub(super) by_hook: bool,
    /// What the gate was told of it.
    pub(super) request: Option<Hash>,
    pub(super) end: Option<EndOfCall>,
}

/// What was last said of a call before it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decided {
    Nothing,
    Approved,
    Asked,
    Blocked,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndOfCall {
    Completed,
    Failed,
    Unknown,
}

impl RecordedCall {
    /// Whether it happened, or may have.
    pub(super) fn may_have_run(&self) -> bool {
        self.started || self.decision == Decided::Approved || self.decision == Decided::Nothing
    }

    /// Whether it is a command that can do anything to any file.
    pub(super) const fn is_command(&self) -> bool {
        matches!(self.action, Some(ActionType::ShellExec | ActionType::Command))
    }

    /// Whether it is meant to write the files that it names.
    pub(super) const fn writes(&self) -> bool {
        use ActionType as A;
        matches!(self.action, Some(A::CodeEdit | A::CodeGen | A::FileWrite | A::FileDelete))
    }

    /// Whether it is known to leave files alone.
    pub(super) const fn only_looks(&self) -> bool {
        use ActionType as A;
        matches!(self.action, Some(A::FileRead | A::Observation | A::Decision))
    }
}

/// A trace, as far as its calls are concerned.
#[derive(Debug)]
pub(super) struct RecordedTrace {
    pub(super) id: Ulid,
    pub(super) kind: TraceKind,
    pub(super) began: Timestamp,
    pub(super) agent: String,
    pub(super) parent: Option<String>,
    pub(super) continues: Option<String>,
    pub(super) ended: bool,
    pub(super) events: u64,
    pub(super) head: Hash,
    pub(super) snapshot: Option<(Hash, Timestamp)>,
    pub(super) calls: Vec<RecordedCall>,
    intents: BTreeMap<u64, usize>,
    executions: BTreeMap<u64, usize>,
    overfull: bool,
}

impl RecordedTrace {
    /// Reads the trace `id`.
    ///
    /// # Errors
    /// It cannot be read to its end, or holds too many calls.
    pub(super) fn read(workspace: &Workspace, id: Ulid) -> Result<Self, CoverageError> {
        let mut trace: Option<Self> = None;
        let outcome = each_event(&workspace.trace_file(id), LedgerId::Trace(id), |event| {
            trace.get_or_insert_with(|| Self::begin(id, &event)).take(&event);
        });
        let doing = "read a trace";
        let outcome = outcome.map_err(|source| WorkspaceError::Io { doing, source })?;
        if let Err(bad) = outcome {
            let (index, what) = (bad.index, bad.what);
            return Err(CoverageError::Damaged { id: id.to_string(), index, what });
        }
        let trace = trace.ok_or_else(|| CoverageError::NoTrace { id: id.to_string() })?;
        match trace.overfull {
            true => Err(CoverageError::TooManyCalls { id: id.to_string() }),
            false => Ok(trace),
        }
    }

    fn begin(id: Ulid, first: &Event) -> Self {
        let text = |pointer: &str| {
            first.payload.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
        };
        Self {
            id,
            kind: kind_of(first).unwrap_or(TraceKind::Session),
            began: first.created_at,
            agent: text("/on_behalf_of/agent_id").unwrap_or_else(|| "-".to_owned()),
            parent: linked(first, "parent"),
            continues: linked(first, "continues"),
            ended: false,
            events: 0,
            head: Hash::GENESIS,
            snapshot: None,
            calls: Vec::new(),
            intents: BTreeMap::new(),
            executions: BTreeMap::new(),
            overfull: false,
        }
    }

    fn take(&mut self, event: &Event) {
        use EventType as T;
        self.events += 1;
        self.head = event.event_hash;
        self.ended |= ending(self.kind, event).is_some();
        match event.event_type {
            T::ToolIntentSigned => self.intend(event),
            T::ToolIntentReviewed => self.review(event),
            T::ToolExecutionStarted => self.start(event),
            T::ToolExecutionCompleted | T::ToolExecutionFailed => {
                let Some(started) = reference(event, "execution") else { return };
                let Some(call) = self.executions.remove(&started.seq) else { return };
                let unknown = event.payload.get("outcome").and_then(Value::as_str);
                let end = match event.event_type {
                    T::ToolExecutionCompleted => EndOfCall::Completed,
                    _ if unknown == Some("unknown") => EndOfCall::Unknown,
                    _ => EndOfCall::Failed,
                };
                let reporter = event.payload.pointer("/action/metadata/reported_by");
                let by_hook = reporter.and_then(Value::as_str) == Some(Reporter::Hook.as_str());
                if let Some(call) = self.calls.get_mut(call) {
                    (call.end, call.by_hook) = (Some(end), by_hook);
                }
            }
            T::ArtifactRecorded if self.snapshot.is_none() => {
                let purpose = event.payload.get("purpose").and_then(Value::as_str);
                let artifact = event.artifacts.first();
                let artifact = artifact.filter(|_| purpose == Some(SNAPSHOT_PURPOSE));
                self.snapshot = artifact.map(|it| (it.artifact_hash, event.created_at));
            }
            _ => {}
        }
    }

    fn intend(&mut self, event: &Event) {
        if self.calls.len() >= RECORDED_CALLS_MAX {
            self.overfull = true;
            return;
        }
        let text = |name: &str| event.payload.get(name).and_then(Value::as_str);
        let answered = reference(event, "retry_of").and_then(|of| self.intents.get(&of.seq));
        let answered = answered.and_then(|&place| self.calls.get(place));
        // Whoever was told what a person answered, without a name or under the same, is no other call.
        if answered
            .is_some_and(|it| text("call_id").is_none() || it.call_id.as_deref() == text("call_id"))
        {
            return;
        }
        // What a person refused was refused to the call that asked again, too.
        let refused = answered.is_some_and(|it| it.decision == Decided::Blocked);
        let paths = event.payload.get("paths").and_then(Value::as_array);
        let paths = paths.into_iter().flatten().filter_map(Value::as_str);
        let place =
            EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap_or_default() };
        self.intents.insert(place.seq, self.calls.len());
        self.calls.push(RecordedCall {
            place,
            at: event.created_at,
            call_id: text("call_id").map(str::to_owned),
            tool: text("tool_name").unwrap_or_default().to_owned(),
            action: text("action_type").and_then(ActionType::from_name),
            description: text("justification").unwrap_or_default().chars().take(160).collect(),
            paths: paths.map(str::to_owned).collect(),
            input: text("normalized_input_hash").and_then(|hash| hash.parse().ok()),
            arguments: event.payload.get("redactions").is_none(),
            decision: if refused { Decided::Blocked } else { Decided::Nothing },
            despite: event.payload.get("despite").is_some(),
            started: false,
            ungated: false,
            by_hook: false,
            request: None,
            end: None,
        });
    }

    fn review(&mut self, event: &Event) {
        let Some(subject) = reference(event, "subject") else { return };
        let Some(call) = self.intents.get(&subject.seq) else { return };
        let Some(call) = self.calls.get_mut(*call) else { return };
        call.decision = match event.payload.get("decision").and_then(Value::as_str) {
            Some("approved") => Decided::Approved,
            Some("asked") => Decided::Asked,
            _ => Decided::Blocked,
        };
        let request = event.payload.pointer("/gate/request").and_then(Value::as_str);
        if let Some(request) = request {
            // Where there were no arguments, the hash is that of the request to the gate.
            call.arguments &= call.input.is_some_and(|input| input.to_hex() != request);
            call.request = request.parse().ok();
        }
    }

    fn start(&mut self, event: &Event) {
        let Some(intent) = reference(event, "intent") else { return };
        let Some(place) = self.intents.remove(&intent.seq) else { return };
        self.executions.insert(event.seq.unwrap_or_default(), place);
        let Some(call) = self.calls.get_mut(place) else { return };
        call.started = true;
        call.ungated = event.payload.get("gating").and_then(Value::as_str) == Some("ungated");
        // What is recorded afterwards has the reporter's words for its input.
        call.arguments &= call.decision != Decided::Nothing;
    }
}

/// The trace that the first event of another names: by its id, or as an object that has it.
pub(super) fn linked(first: &Event, name: &str) -> Option<String> {
    let link = first.payload.get("links")?.get(name)?;
    let id = link.get("trace_id").unwrap_or(link);
    id.as_str().map(str::to_owned)
}

fn reference(event: &Event, member: &str) -> Option<EventRef> {
    serde_json::from_value(event.payload.get(member)?.clone()).ok()
}
