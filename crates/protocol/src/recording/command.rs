//! What can be asked of a recording.

use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_format::hash::Hash;
use countersign_format::receipt::ActionType;
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::time::Timestamp;
use serde::Serialize;

use crate::receipts::Parent;
use crate::session::Redaction;
use crate::{LogPin, ReviewDecision};

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

/// What the gate said, and by what.
#[derive(Debug, Clone, Serialize)]
pub struct GateRecord {
    /// `allow`, `ask` or `deny`.
    pub decision: String,
    /// Whether that binds the agent.
    pub enforced: bool,
    /// The stored request.
    pub request: Hash,
    /// The stored policy.
    pub policy: Hash,
    /// The stored model, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Hash>,
    /// How likely the model takes the action to fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The cell of the model that the action falls into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<u16>,
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
