//! Outside agents that ask before they act, and say what they did: gate, record, seal.
//!
//! An [`AgentRuntime`] is one agent's line to the workspace. Its recording begins with the first
//! thing that it asks or records, and ends when it is sealed. What an agent says of itself is
//! recorded as its word; nothing here makes it true.

mod asked;
mod done;
mod history;
mod live;
mod names;
mod passing;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::receipt::{ActionType, GateDecision};
use countersign_format::report::VerificationReport;
use countersign_format::time::Timestamp;
use countersign_gate::{Decision, Opinion};
use countersign_protocol::receipts::Gating;
use countersign_protocol::recording::{OpenIntent, RecordingCommand, RecordingState, Reporter};
use countersign_protocol::session::Redaction;
use countersign_protocol::{Refusal, ReviewDecision};
use serde_json::Value;

use crate::gate::{LoadedGate, StoredGate};
use crate::recording::Recording;
use crate::secrets::{Counts, Redactor};
use crate::store::Aside;
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{Recorded, WriteError};
pub use history::{FileHistory, FileSession, RecordingSummary, history_of, history_of_all, recent};
use live::LiveEvents;
pub use names::{action_type, plain_paths};
pub use passing::{CallEnd, Waited};

/// The directory beside the workspace in which live events and sealed files lie.
pub const CAPSEAL: &str = ".capseal";
/// How long a verdict may be used.
const TOKEN_SECONDS: u64 = 3_600;
/// How long a person has to answer.
const QUESTION_SECONDS: u64 = 900;
/// What a recording is called that nobody named.
const UNNAMED: &str = "mcp-session";

/// How an agent's runtime behaves.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// The agent, as it calls itself.
    pub agent: Option<String>,
    /// The program through which it speaks, and its model, in words.
    pub client: Option<String>,
    /// The agent's own session, and other traces that the recording belongs to.
    pub links: Option<Value>,
    /// Whether each action follows the last one by itself. Off: the caller names the parent of each,
    /// and a wrong one is refused.
    pub auto_chain: bool,
    /// Whether the gate's word binds.
    pub enforcement: Enforcement,
    /// How long a person has to answer.
    pub question_seconds: u64,
    /// How long a verdict may be used.
    pub token_seconds: u64,
    /// Whether it has a thread that decides while the disk is at work: for one agent that waits for
    /// each answer. Where there are many, the disk is at work for another meanwhile.
    pub decides_aside: bool,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            agent: None,
            client: None,
            links: None,
            auto_chain: true,
            enforcement: Enforcement::Enforced,
            question_seconds: QUESTION_SECONDS,
            token_seconds: TOKEN_SECONDS,
            decides_aside: false,
        }
    }
}

/// Whether the gate's word binds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// It does.
    #[default]
    Enforced,
    /// It is decided and recorded, and stops nothing.
    Shadow,
}

/// Something that an agent wants to do.
#[derive(Debug, Clone, Default)]
pub struct ActionRequest {
    /// What sort of action it is, in the agent's words.
    pub action_type: String,
    /// What it is for.
    pub description: String,
    /// Files that it would touch.
    pub files: Vec<String>,
    /// The change as a unified diff.
    pub diff: Option<String>,
    /// The tool that would be used.
    pub tool: Option<String>,
    /// The command that would be run.
    pub command: Option<String>,
    /// What would be written into its files.
    pub content: Option<String>,
    /// Why the tool itself waits for a person.
    pub held: Option<String>,
    /// The arguments of the call as they came, where it passes through the recorder.
    pub arguments: Option<Vec<u8>>,
    /// What the agent's side calls the call.
    pub call_id: Option<String>,
    /// Whether it begins at once, if it may: then its end is told to [`AgentRuntime::finish`].
    pub begins: bool,
}

/// What the gate says to it.
#[derive(Debug, Clone)]
pub struct GateAnswer {
    /// The recording.
    pub trace_id: Ulid,
    /// The verdict's id, under which the action is to be recorded.
    pub token: String,
    /// From when on it no longer counts.
    pub expires_at: Timestamp,
    /// What sort of action it was taken for.
    pub action_type: ActionType,
    /// What the agent is told.
    pub decision: Decision,
    /// What the gate thinks, and of what.
    pub opinion: Opinion,
    /// Whether that binds the agent.
    pub enforced: bool,
    /// Whether a person has approved it.
    pub approved_by_person: bool,
    /// Where it began, if it was to begin at once and may.
    pub execution: Option<EventRef>,
    /// The question that waits, where a person is asked: its id is that of the intent.
    pub question: Option<String>,
    /// Until when it may be answered.
    pub question_deadline: Option<Timestamp>,
    /// Everything that was said, as recorded.
    pub reasons: Vec<String>,
    /// Whether there is a model.
    pub model_loaded: bool,
}

/// Something that an agent has done.
#[derive(Debug, Clone, Default)]
pub struct ActionReport {
    /// What sort of action it is, in the agent's words.
    pub action_type: String,
    /// What it was for.
    pub description: String,
    /// The tool that was used.
    pub tool_name: String,
    /// Whether it did what it was meant to do.
    pub success: bool,
    /// Files that it touched.
    pub files: Vec<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// The arguments of the call as they came; kept where the gate never saw them.
    pub arguments: Option<Vec<u8>>,
    /// What would have been asked for it, where whoever reports it knows: a verdict covers only that.
    pub asked: Option<ActionRequest>,
    /// What came out.
    pub output: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// The verdict that it was done under.
    pub gate_token: Option<String>,
    /// What the agent's side calls the call; finds its verdict before the token does.
    pub call_id: Option<String>,
    /// Who says so.
    pub reporter: Reporter,
    /// The action before it, where the caller chains by itself.
    pub parent: Option<GivenParent>,
}

/// The action before an action, as a caller names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenParent {
    /// Its id; none for the first action.
    pub action_id: Option<String>,
    /// Its receipt hash; none for the first action.
    pub receipt_hash: Option<Hash>,
}

/// The receipt of an action.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiptGiven {
    /// The recording.
    pub trace_id: Ulid,
    /// The action's id.
    pub action_id: String,
    /// Its receipt hash.
    pub receipt_hash: Hash,
    /// How many receipts the recording has now.
    pub count: u64,
    /// What sort of action it was taken for.
    pub action_type: ActionType,
    /// Its files, as recorded.
    pub files: Vec<String>,
    /// How it is tied to a verdict.
    pub gating: Gating,
    /// What is wrong with the token that was given.
    pub token_fault: Option<String>,
    /// What the gate had said.
    pub gate_decision: Option<GateDecision>,
    /// How likely the gate took it to fail.
    pub gate_score: Option<f64>,
    /// The change in a few words, where the gate saw it in this connection.
    pub label: Option<String>,
}

/// A recording that was sealed.
#[derive(Debug, Clone)]
pub struct SealedRecording {
    /// The recording.
    pub trace_id: Ulid,
    /// What it was called.
    pub name: String,
    /// The file.
    pub cap: PathBuf,
    /// How many actions are in it.
    pub actions: u64,
    /// The last receipt hash.
    pub final_receipt: Option<Hash>,
    /// The hash of CapSeal's capsule in the file.
    pub capsule_hash: Option<Hash>,
    /// What the audit said.
    pub report: VerificationReport,
}

/// Why nothing was sealed.
#[derive(Debug, thiserror::Error)]
pub enum NotSealed {
    /// There is nothing to seal.
    #[error("nothing was recorded yet; record at least one action first")]
    Empty,
    /// It could not be written.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// How far an agent's recording has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// The recording, if one is open.
    pub trace_id: Option<Ulid>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// Receipts in it.
    pub actions: u64,
    /// Verdicts that were asked for.
    pub gates: u64,
    /// Verdicts that said no.
    pub denials: u64,
    /// Questions that wait for a person.
    pub waiting: u64,
    /// Outcomes that the gate's model has learned from; none without a model.
    pub learned: Option<u64>,
}

/// One agent's line to the workspace. Calls block until what they say survives power loss.
#[derive(Debug)]
pub struct AgentRuntime {
    workspace: Workspace,
    redactor: Redactor,
    options: RuntimeOptions,
    live: LiveEvents,
    /// Begun for the first decision, if at all.
    aside: OnceLock<Option<Aside>>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    current: Option<Current>,
    gate: Option<StoredGate>,
    /// One that was loaded before it was needed.
    ready: Option<LoadedGate>,
}

/// The recording that is open.
#[derive(Debug)]
struct Current {
    recording: Recording,
    started_at: Timestamp,
    gates: u64,
    denials: u64,
    /// What the gate called the last changes, by their intents: for the answer when they are done.
    labels: Vec<(String, String)>,
}

impl AgentRuntime {
    /// A line for one agent. Nothing is written yet.
    #[must_use]
    pub fn new(workspace: Workspace, redactor: Redactor, options: RuntimeOptions) -> Self {
        let live = LiveEvents::beside(workspace.home());
        let aside = OnceLock::new();
        Self { workspace, redactor, options, live, aside, inner: Mutex::default() }
    }

    /// The workspace that it writes to.
    #[must_use]
    pub const fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// How far its recording has come.
    #[must_use]
    pub fn status(&self) -> RuntimeStatus {
        let mut inner = self.lock();
        let learned = self.gate_in_force(&mut inner).ok().and_then(|stored| {
            let model = stored.loaded.gate.model().ok().flatten()?;
            Some(model.cells().map(|(_, outcomes)| outcomes.total()).sum())
        });
        let Some(current) = &inner.current else {
            return RuntimeStatus { learned, ..RuntimeStatus::default() };
        };
        let asked = |state: &RecordingState| {
            let intents = state.intents.values();
            let asked = intents.filter(|it| it.decision == Some(ReviewDecision::Asked)).count();
            (state.receipts.count, asked as u64)
        };
        let (actions, waiting) = current.recording.look(asked).unwrap_or_default();
        RuntimeStatus {
            trace_id: Some(current.recording.id()),
            started_at: Some(current.started_at),
            actions,
            gates: current.gates,
            denials: current.denials,
            waiting,
            learned,
        }
    }

    /// Ends the recording and writes it into one file: `.capseal/runs/<trace id>.cap`.
    ///
    /// # Errors
    /// Nothing was recorded, or the recording or its file could not be written.
    pub fn seal(&self, name: Option<&str>) -> Result<SealedRecording, NotSealed> {
        let mut inner = self.lock();
        let current = inner.current.as_ref().ok_or(NotSealed::Empty)?;
        let recording = &current.recording;
        let waits = |intent: &OpenIntent| intent.decision == Some(ReviewDecision::Asked);
        let empty = |state: &RecordingState| {
            let open = state.executions.is_empty() && !state.intents.values().any(waits);
            state.receipts.count == 0 && open
        };
        if recording.look(empty).map_err(WorkspaceError::from)? {
            return Err(NotSealed::Empty);
        }
        let name = self.clean(name.filter(|name| !name.trim().is_empty()).unwrap_or(UNNAMED));
        let (trace_id, cap) = (recording.id(), self.cap_file(recording.id()));
        let report = match recording.conclude(&name) {
            // Somebody else has sealed it; what is left is to write its file.
            Err(WorkspaceError::Write(WriteError::Refused(Refusal::Ended { .. }))) => {
                recording.audit_again()?
            }
            report => report?,
        };
        // Where it cannot be made, the file cannot be written, which says why.
        let _ = live::prepare(&live::directory(self.workspace.home()))
            .and_then(|()| cap.parent().map_or(Ok(()), std::fs::create_dir_all));
        let file = self.workspace.seal(trace_id, &cap)?;
        inner.current = None;
        drop(inner);
        let (actions, final_receipt) = (file.actions, file.final_receipt);
        self.live.sealed(self.workspace.now(), trace_id, actions, final_receipt);
        let capsule_hash = file.capsule_hash;
        Ok(SealedRecording { trace_id, name, cap, actions, final_receipt, capsule_hash, report })
    }

    /// Where the sealed file of a recording lies.
    #[must_use]
    pub fn cap_file(&self, id: Ulid) -> PathBuf {
        live::directory(self.workspace.home()).join("runs").join(format!("{id}.cap"))
    }

    /// Records what `command` brings in the open recording; begins one if there is none, or if
    /// somebody else has sealed it.
    fn submit(
        &self,
        inner: &mut Inner,
        command: &RecordingCommand,
    ) -> Result<Recorded, WorkspaceError> {
        for _ in 0..2 {
            let current = self.current(inner)?;
            match current.recording.submit(command.clone()) {
                Err(WriteError::Refused(Refusal::Ended { .. })) => inner.current = None,
                other => return Ok(other?),
            }
        }
        Ok(self.current(inner)?.recording.submit(command.clone())?)
    }

    fn current<'i>(&self, inner: &'i mut Inner) -> Result<&'i mut Current, WorkspaceError> {
        if inner.current.is_none() {
            let agent = self.options.agent.as_deref().map(|agent| self.clean(agent));
            let client = self.options.client.as_deref().map(|client| self.clean(client));
            let links = self.options.links.clone();
            let recording = self.workspace.begin_recording_through(
                agent.as_deref(),
                client.as_deref(),
                links,
            )?;
            let started_at = self.workspace.now();
            self.live.started(started_at, recording.id(), agent.as_deref(), client.as_deref());
            inner.current =
                Some(Current { recording, started_at, gates: 0, denials: 0, labels: Vec::new() });
        }
        match &mut inner.current {
            Some(current) => Ok(current),
            None => Err(WorkspaceError::Missing { home: self.workspace.home().to_owned() }),
        }
    }

    /// Takes a gate that the caller has loaded already, while it had to wait for something else.
    pub fn expect_gate(&self, ready: LoadedGate) {
        self.lock().ready = Some(ready);
    }

    /// The gate as its files are now, with policy and model in the store.
    fn gate_in_force<'i>(&self, inner: &'i mut Inner) -> Result<&'i StoredGate, WorkspaceError> {
        let stale = inner.gate.as_ref().is_none_or(|stored| stored.loaded.is_stale());
        if stale {
            let loaded = match inner.ready.take().filter(|ready| !ready.is_stale()) {
                Some(ready) => ready,
                None => self.workspace.gate()?,
            };
            inner.gate = Some(self.workspace.store_gate(loaded)?);
        }
        inner.gate.as_ref().ok_or_else(|| self.no_gate())
    }

    fn no_gate(&self) -> WorkspaceError {
        WorkspaceError::Missing { home: self.workspace.home().to_owned() }
    }

    /// The thread beside, if it is to have one and the system gives one.
    fn aside(&self) -> Option<&Aside> {
        self.aside.get_or_init(|| self.options.decides_aside.then(Aside::begin).flatten()).as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What a panicking caller left behind is in the trace, and nowhere else.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A text as it may be recorded.
    fn clean(&self, text: &str) -> String {
        self.clean_counting(text, &mut Counts::new())
    }

    fn clean_counting(&self, text: &str, counts: &mut Counts) -> String {
        let (text, found) = self.redactor.redact_text(text);
        for (rule, count) in found {
            *counts.entry(rule).or_default() += count;
        }
        countersign_format::text::admissible(&text)
    }
}

fn redactions(counts: &Counts) -> Vec<Redaction> {
    counts.iter().map(|(rule, &count)| Redaction { rule: (*rule).to_owned(), count }).collect()
}
