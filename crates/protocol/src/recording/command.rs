//! What can be asked of a recording.

use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_format::hash::Hash;
use countersign_format::receipt::ActionType;
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::time::Timestamp;
use serde_json::Value;

use crate::receipts::Parent;
use crate::session::Redaction;
use crate::{GateRecord, LogPin, ReviewDecision};

/// What can be asked of a recording.
#[derive(Debug, Clone)]
pub enum RecordingCommand {
    /// Begin.
    Open {
        /// Where the workspace log stands.
        log: LogPin,
        /// The agent, as it calls itself.
        on_behalf_of: Option<String>,
        /// The program through which it speaks.
        client: Option<String>,
        /// What it is about.
        objective: Option<String>,
        /// The agent's own session, and other traces that it belongs to.
        links: Option<Value>,
    },
    /// The agent asks whether it may do something, and the gate answers.
    Gate(Box<GatedIntent>),
    /// A person answers what was asked.
    Answer {
        /// The intent.
        intent: EventRef,
        /// What the person says.
        decision: ReviewDecision,
        /// Why.
        reasons: Vec<String>,
        /// How the answer was given.
        channel: String,
    },
    /// A call is told what a person has answered. A yes is told to one call only.
    AskAgain {
        /// The intent that was answered.
        intent: EventRef,
        /// What the agent's side calls the call, where it has a name.
        call_id: Option<String>,
    },
    /// The agent has done something.
    Record(Box<RecordedAction>),
    /// The agent means to use a tool.
    Intend {
        /// The tool.
        tool_name: String,
        /// Hash of its normalised input.
        input_hash: Hash,
        /// `low`, `standard`, `elevated` or `critical`.
        safety_classification: String,
        /// Why.
        justification: String,
        /// The stored input.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// An intent is judged.
    Review {
        /// The intent.
        intent: EventRef,
        /// Whether it may run.
        decision: ReviewDecision,
        /// Why.
        reasons: Vec<String>,
    },
    /// The tool of an intent begins.
    Start {
        /// The intent.
        intent: EventRef,
    },
    /// A call that passed through the recorder has ended.
    End(Box<EndedCall>),
    /// A server has listed its tools.
    ListTools {
        /// What the server is called here.
        server: String,
        /// How many tools it listed.
        count: u64,
        /// Tools that are not as they were when they were last approved.
        changed: Vec<String>,
        /// The list, stored.
        list: Box<ArtifactDescriptor>,
    },
    /// What the agent did was compared with what was recorded.
    ReportCoverage {
        /// How much was not recorded.
        gaps: u64,
        /// What was looked at.
        sources: Vec<String>,
        /// The report, stored.
        report: Box<ArtifactDescriptor>,
    },
    /// A tool ended well.
    Complete {
        /// Where it began.
        execution: EventRef,
        /// Its exit status.
        exit_status: i32,
        /// The stored output.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// A tool failed.
    Fail {
        /// Where it began.
        execution: EventRef,
        /// How.
        reason: String,
        /// Its exit status, if it is known.
        exit_status: Option<i32>,
        /// The stored output.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// Evidence that no tool produced.
    RecordArtifact {
        /// What it is for.
        purpose: String,
        /// The stored bytes.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// The bytes of an artifact are to go.
    Redact {
        /// The artifact.
        artifact_hash: Hash,
        /// Why.
        reason: String,
    },
    /// Nothing more will be recorded; the audit begins.
    Conclude {
        /// The last word.
        verdict: String,
        /// Whether what it was for was done, where that is known.
        achieved: Option<bool>,
    },
    /// The audit is done.
    CompleteAudit {
        /// Its verdict.
        status: VerificationStatus,
        /// The id of its report.
        report_id: String,
        /// The stored report.
        report: Box<ArtifactDescriptor>,
    },
    /// A person ends it.
    Abort {
        /// Why.
        reason: String,
    },
}

/// Something that an agent wants to do, and what the gate says of it.
#[derive(Debug, Clone)]
pub struct GatedIntent {
    /// What sort of action it is.
    pub action_type: ActionType,
    /// The tool.
    pub tool_name: String,
    /// What it is for.
    pub description: String,
    /// Files that it names, normalised.
    pub paths: Vec<String>,
    /// How dangerous it is.
    pub risk: RiskClass,
    /// The stored request, by which the gate decided.
    pub request: ArtifactDescriptor,
    /// The arguments of the call, where they passed through the recorder.
    pub input: Option<StoredInput>,
    /// What the agent's side calls this call.
    pub call_id: Option<String>,
    /// Whether it begins at once, if it may.
    pub begins: bool,
    /// Binds the request as it was before secrets were taken out of it, where any were.
    pub binding: Option<Hash>,
    /// Secrets that were replaced in it.
    pub redactions: Vec<Redaction>,
    /// What happens.
    pub decision: ReviewDecision,
    /// Everything that was said for and against it.
    pub reasons: Vec<String>,
    /// What the gate said, and by what.
    pub gate: GateRecord,
    /// The policy and the model, stored.
    pub basis: Vec<ArtifactDescriptor>,
    /// From when on the verdict no longer counts.
    pub expires_at: Timestamp,
    /// Until when a person may answer, where one is asked.
    pub deadline: Option<Timestamp>,
}

/// Arguments as they came, without secrets.
#[derive(Debug, Clone)]
pub struct StoredInput {
    /// The stored bytes.
    pub artifact: ArtifactDescriptor,
    /// The hash of their canonical form; of the bytes themselves where they have none.
    pub normalized: Hash,
    /// Whether they have one.
    pub canonical: bool,
}

/// With what something was asked for, by its hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedInput {
    /// The arguments without secrets, in their canonical form; the stored request where there are none.
    pub input: Hash,
    /// Binds the request as it was before secrets were taken out of it, where any were.
    pub binding: Option<Hash>,
}

/// How a call that passed through the recorder ended.
#[derive(Debug, Clone)]
pub struct EndedCall {
    /// Where it began.
    pub execution: EventRef,
    /// What became of it.
    pub outcome: CallOutcome,
    /// How long it took.
    pub duration_ms: u64,
    /// What came out, stored.
    pub output: Option<ArtifactDescriptor>,
    /// Secrets that were replaced in that.
    pub redactions: Vec<Redaction>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// It was answered, and well.
    Succeeded,
    /// It was answered with an error.
    Failed {
        /// Which.
        reason: String,
    },
    /// Nobody knows: it was not answered.
    Unknown {
        /// Why not.
        reason: String,
    },
}

/// Who says that something was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reporter {
    /// The agent itself.
    #[default]
    Agent,
    /// The program that runs the agent, through a hook.
    Hook,
}

impl Reporter {
    /// Its name in receipts.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Hook => "hook",
        }
    }
}

/// Something that an agent has done, as it says.
#[derive(Debug, Clone)]
pub struct RecordedAction {
    /// What sort of action it is.
    pub action_type: ActionType,
    /// The tool.
    pub tool_name: String,
    /// What it was for.
    pub description: String,
    /// Files that it names, normalised.
    pub paths: Vec<String>,
    /// The verdict that it was done under, as the agent says.
    pub token: Option<String>,
    /// What the agent's side calls the call; finds its verdict before anything else does.
    pub call_id: Option<String>,
    /// What it was done with, where whoever reports it says so. A verdict covers only what was asked
    /// for with the same.
    pub asked: Option<AskedInput>,
    /// Who says so.
    pub reporter: Reporter,
    /// How dangerous it is taken to be where no verdict says so.
    pub risk: RiskClass,
    /// What the agent says of it, stored. Needed only where no verdict covers it.
    pub input: Option<ArtifactDescriptor>,
    /// Secrets that were replaced in that, and in the output.
    pub redactions: Vec<Redaction>,
    /// Whether it did what it was meant to do, as the agent says.
    pub success: bool,
    /// How it failed.
    pub failure: String,
    /// How long it took.
    pub duration_ms: u64,
    /// What came out, stored.
    pub output: Option<ArtifactDescriptor>,
    /// The action before it.
    pub parent: Parent,
}
