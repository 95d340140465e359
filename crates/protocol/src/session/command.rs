//! What can be asked of a session.

use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_format::hash::Hash;
use countersign_format::receipt::ActionType;
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{GateRecord, LogPin, ReviewDecision};

/// What can be asked of a session.
#[derive(Debug, Clone)]
pub enum SessionCommand {
    /// Begin.
    Open(Box<SessionOpening>),
    /// The planner proposes something.
    Propose(Box<Proposal>),
    /// The critic judges a proposal.
    ReviewProposal {
        /// The proposal.
        subject: EventRef,
        /// Whether it may go ahead.
        decision: ProposalDecision,
        /// What an intent must acknowledge.
        conditions: Vec<Condition>,
        /// Why.
        rationale: String,
        /// What the critic was given and gave back.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// The executor means to use a tool.
    Intend(Box<Intent>),
    /// An intent is judged.
    ReviewIntent {
        /// By the critic or by an operator.
        by: Role,
        /// The intent.
        subject: EventRef,
        /// Whether it may run.
        decision: ReviewDecision,
        /// Why.
        reasons: Vec<String>,
        /// What the gate said, where it was asked.
        gate: Option<Box<GateRecord>>,
        /// Until when a person may answer.
        deadline: Option<Timestamp>,
        /// How a person answered.
        channel: Option<String>,
        /// What the critic was given and gave back, and what the gate decided by.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// The tool of an intent begins.
    Start {
        /// The intent.
        intent: EventRef,
        /// The hash of the input that is about to run.
        input: Hash,
        /// How far the tool is kept from the rest of the machine.
        isolation: Value,
    },
    /// A tool ended.
    End(Box<ExecutionEnd>),
    /// Evidence that no tool produced.
    RecordArtifact {
        /// By the executor or the auditor.
        by: Role,
        /// What it is for.
        purpose: String,
        /// The stored bytes.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// The executor asserts something.
    Claim(Box<Claim>),
    /// The critic doubts a claim.
    Challenge {
        /// The claim's event.
        claim: EventRef,
        /// The claim's id.
        claim_id: String,
        /// Why.
        reason: String,
        /// What the critic was given and gave back.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// The executor's last word.
    Conclude(Box<FinalStatement>),
    /// The audit begins.
    StartAudit {
        /// How strictly it is done.
        profile: String,
    },
    /// The audit is done.
    CompleteAudit {
        /// Its verdict.
        status: VerificationStatus,
        /// The id of its report.
        report_id: String,
        /// The stored report.
        report: Box<ArtifactDescriptor>,
        /// What an auditor that is not built in was given and gave back.
        artifacts: Vec<ArtifactDescriptor>,
    },
    /// What was done was compared with what was recorded.
    ReportCoverage {
        /// How much was not recorded.
        gaps: u64,
        /// What was looked at.
        sources: Vec<String>,
        /// The report, stored.
        report: Box<ArtifactDescriptor>,
    },
    /// The bytes of an artifact are to go.
    Redact {
        /// The artifact.
        artifact_hash: Hash,
        /// Why.
        reason: String,
    },
    /// A person ends it.
    Abort {
        /// Why.
        reason: String,
    },
    /// It cannot go on.
    Fail {
        /// Why.
        reason: String,
        /// A short name for the cause.
        failure_code: String,
        /// The agent that failed, if one did.
        role: Option<Role>,
        /// What is left of it.
        artifacts: Vec<ArtifactDescriptor>,
    },
}

/// How a session begins.
#[derive(Debug, Clone)]
pub struct SessionOpening {
    /// Where the workspace log stands.
    pub log: LogPin,
    /// The task's name.
    pub task_id: String,
    /// What is to be reached.
    pub objective: String,
    /// What must hold on the way.
    pub constraints: Vec<String>,
    /// How strict critic and auditor are.
    pub policy_profile: String,
    /// The roles that the task asks for.
    pub requested_roles: Vec<Role>,
    /// Who plays them.
    pub participants: Vec<Enrolled>,
    /// What the task permits and demands.
    pub policy: SessionPolicy,
    /// The task's bounds, as stored.
    pub limits: Value,
    /// The task itself.
    pub task: Option<ArtifactDescriptor>,
    /// What the task starts from.
    pub inputs: Vec<ArtifactDescriptor>,
    /// Secrets that were replaced in them.
    pub redactions: Vec<Redaction>,
    /// Traces that this one belongs to.
    pub links: Option<Value>,
    /// What writes this.
    pub software: String,
}

/// Who plays a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enrolled {
    /// The role.
    pub role: Role,
    /// Whose key signs.
    pub agent_id: String,
    /// `built-in`, `command` or `prompt`.
    pub kind: String,
    /// What is run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// What a task permits and demands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPolicy {
    /// Whether another proposal may follow a failed execution.
    pub fallbacks: bool,
    /// How many distinct artifacts a claim needs.
    pub min_evidence: u64,
    /// How often a rejected proposal may be revised.
    pub revisions: u64,
    /// How long a person has to answer.
    pub question_seconds: u64,
}

/// Secrets that were replaced before anything was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redaction {
    /// The rule that found them.
    pub rule: String,
    /// How many.
    pub count: u64,
}

/// A unit of work that the planner proposes.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Its name within the session.
    pub proposal_id: Option<String>,
    /// What it is to reach.
    pub objective: String,
    /// What it takes for granted.
    pub assumptions: Vec<String>,
    /// The tools that it needs.
    pub required_tools: Vec<String>,
    /// What will show that it worked.
    pub expected_evidence: Vec<String>,
    /// The proposal that it revises.
    pub revises: Option<EventRef>,
    /// The failed execution that it makes up for.
    pub fallback_for: Option<EventRef>,
    /// What the planner was given and gave back.
    pub artifacts: Vec<ArtifactDescriptor>,
}

/// What the critic says of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProposalDecision {
    /// It may go ahead.
    Approved,
    /// It may go ahead if every intent acknowledges the conditions.
    Conditional,
    /// It may not.
    Rejected,
}

impl ProposalDecision {
    /// Its name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Conditional => "conditional",
            Self::Rejected => "rejected",
        }
    }
}

/// Something that an intent must acknowledge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its name.
    pub id: String,
    /// What it says.
    pub text: String,
}

/// What is to be run, and why.
#[derive(Debug, Clone)]
pub struct Intent {
    /// The proposal that it carries out.
    pub proposal: EventRef,
    /// The tool.
    pub tool_name: String,
    /// What sort of action it is.
    pub action_type: ActionType,
    /// Files that it names.
    pub paths: Vec<String>,
    /// The stored input.
    pub input: ArtifactDescriptor,
    /// `canonical` or `raw`: of which bytes the input's hash is.
    pub input_form: String,
    /// How dangerous it is.
    pub risk: RiskClass,
    /// Why.
    pub justification: String,
    /// Which of the proposal's actions it is.
    pub action_index: u64,
    /// The conditions that it accepts.
    pub acknowledged_conditions: Vec<String>,
    /// The failed execution that it repeats.
    pub retry_of: Option<EventRef>,
    /// Whether running it twice does no more than running it once.
    pub idempotent: bool,
    /// Binds the input as it was before secrets were replaced.
    pub input_binding: Option<Hash>,
    /// Secrets that were replaced in the stored input.
    pub redactions: Vec<Redaction>,
    /// What the executor was given and gave back.
    pub artifacts: Vec<ArtifactDescriptor>,
}

/// How a tool ended.
#[derive(Debug, Clone)]
pub struct ExecutionEnd {
    /// Where it began.
    pub execution: EventRef,
    /// How it ended.
    pub outcome: Outcome,
    /// Its exit status; the negative number of the signal that ended it.
    pub exit_status: Option<i32>,
    /// What it printed.
    pub stdout: Option<ArtifactDescriptor>,
    /// What it complained about.
    pub stderr: Option<ArtifactDescriptor>,
    /// How much of its output was not kept.
    pub dropped_bytes: u64,
    /// How long it ran.
    pub elapsed_ms: Option<u64>,
    /// Secrets that were replaced in its output.
    pub redactions: Vec<Redaction>,
    /// Whether it failed for the last time: it was tried again, and will not be once more.
    pub given_up: bool,
}

/// How a tool ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// As its step declares success.
    Completed,
    /// Otherwise, for this reason.
    Failed(String),
    /// Nobody knows, for this reason.
    Unknown(String),
}

/// Something that the executor asserts.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its id, if it has one already; else it gets one from its event.
    pub claim_id: Option<String>,
    /// What is asserted.
    pub text: String,
    /// How sure the executor is.
    pub confidence: Confidence,
    /// A result, or what is known of a failure.
    pub kind: ClaimKind,
    /// The executions that it rests on.
    pub executions: Vec<EventRef>,
    /// The evidence.
    pub evidence: Vec<ArtifactDescriptor>,
    /// The claim that it replaces.
    pub supersedes: Option<String>,
    /// What the executor was given and gave back.
    pub artifacts: Vec<ArtifactDescriptor>,
}

/// How sure the executor is of a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It may well be wrong.
    Low,
    /// More likely right than wrong.
    Medium,
    /// The evidence shows it.
    #[default]
    High,
}

impl Confidence {
    /// Every degree, the lowest first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] = ["low", "medium", "high"];

    /// Its name in task files and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The degree of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|confidence| confidence.as_str() == name)
    }
}

/// What a claim is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// What was reached.
    #[default]
    Result,
    /// What is known of a failure.
    FailureAnalysis,
}

/// The executor's last word.
#[derive(Debug, Clone)]
pub struct FinalStatement {
    /// In words.
    pub verdict: String,
    /// Whether the task's objective was reached, as the executor says.
    pub achieved: bool,
    /// What became of challenged claims.
    pub resolutions: Vec<Resolution>,
    /// What the executor was given and gave back.
    pub artifacts: Vec<ArtifactDescriptor>,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The claim.
    pub claim_id: String,
    /// What became of it.
    pub status: ClaimStatus,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimStatus {
    /// It stands.
    Upheld,
    /// It was taken back.
    Retracted,
    /// Another one took its place.
    Superseded,
}

impl ClaimStatus {
    /// Its name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Upheld => "upheld",
            Self::Retracted => "retracted",
            Self::Superseded => "superseded",
        }
    }
}
