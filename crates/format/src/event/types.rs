//! The kinds of trace, and the types of event that each may hold.

use serde::{Deserialize, Serialize};

/// What a trace records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceKind {
    /// Keys and traces of a workspace.
    Log,
    /// One task under the full lifecycle.
    Session,
    /// What an outside agent did.
    Recording,
    /// The life of one work item.
    Work,
    /// One run of a workflow.
    Flow,
}

impl TraceKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Log, Self::Session, Self::Recording, Self::Work, Self::Flow];
    /// The names of the kinds that are traces of their own, the log not being one.
    pub const TRACE_NAMES: [&'static str; 4] = ["session", "recording", "work", "flow"];

    /// Its name in the first event of a trace.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Session => "session",
            Self::Recording => "recording",
            Self::Work => "work",
            Self::Flow => "flow",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Whether schema 1.0 knows an event type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// One of the thirteen of the specification.
    V1_0,
    /// Added by schema 1.1.
    V1_1,
}

macro_rules! event_types {
    ($($(#[doc = $doc:literal])* $variant:ident $name:literal $since:ident),+ $(,)?) => {
        /// What happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum EventType {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)+
        }

        impl EventType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// The names of all types, in the order of [`Self::ALL`].
            pub const NAMES: &'static [&'static str] = &[$($name,)+];

            /// Its name in events.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The schema version that brought it.
            #[must_use]
            pub const fn since(self) -> Since {
                match self { $(Self::$variant => Since::$since,)+ }
            }
        }
    };
}

event_types! {
    /// The workspace log began, with its root key.
    LogOpened "log_opened" V1_1,
    /// A key may sign from now on.
    KeyAdded "key_added" V1_1,
    /// A key was replaced by another one of the same agent.
    KeyRotated "key_rotated" V1_1,
    /// A key may no longer sign.
    KeyRevoked "key_revoked" V1_1,
    /// A trace began.
    TraceOpened "trace_opened" V1_1,
    /// A trace had grown to this size.
    TraceCheckpointed "trace_checkpointed" V1_1,
    /// A trace ended at this size.
    TraceClosed "trace_closed" V1_1,
    /// A session or recording began.
    SessionInitialized "session_initialized" V1_0,
    /// The planner proposed something.
    ProposalCreated "proposal_created" V1_0,
    /// The critic judged a proposal.
    ProposalReviewed "proposal_reviewed" V1_0,
    /// The executor means to use a tool.
    ToolIntentSigned "tool_intent_signed" V1_0,
    /// Somebody judged an intent.
    ToolIntentReviewed "tool_intent_reviewed" V1_1,
    /// A tool began to run.
    ToolExecutionStarted "tool_execution_started" V1_0,
    /// A tool ended as its step declares success.
    ToolExecutionCompleted "tool_execution_completed" V1_0,
    /// A tool ended otherwise, or its outcome is unknown.
    ToolExecutionFailed "tool_execution_failed" V1_0,
    /// An artifact that no tool produced was stored.
    ArtifactRecorded "artifact_recorded" V1_0,
    /// An artifact's bytes were removed.
    ArtifactRedacted "artifact_redacted" V1_1,
    /// The executor asserts something, with evidence.
    ClaimIssued "claim_issued" V1_0,
    /// The critic doubts a claim.
    ClaimChallenged "claim_challenged" V1_0,
    /// The executor's last word.
    FinalStatementSigned "final_statement_signed" V1_0,
    /// The auditor began to verify.
    VerificationRunStarted "verification_run_started" V1_0,
    /// The auditor's verdict.
    VerificationRunCompleted "verification_run_completed" V1_0,
    /// What went past the recorder, as far as it can be seen.
    CoverageReported "coverage_reported" V1_1,
    /// A person ended the session.
    SessionAborted "session_aborted" V1_1,
    /// The session cannot go on.
    SessionFailed "session_failed" V1_1,
    /// A writer found an unfinished line and put it aside.
    SessionRecovered "session_recovered" V1_1,
    /// The tools that a server offers.
    ToolsListed "tools_listed" V1_1,
    /// A work item began.
    WorkOpened "work_opened" V1_1,
    /// An agent holds the item until its lease ends.
    LeaseGranted "lease_granted" V1_1,
    /// The holder keeps the item longer.
    LeaseRenewed "lease_renewed" V1_1,
    /// The item is free.
    LeaseReleased "lease_released" V1_1,
    /// The holder finished its phase; the item moved on and is free.
    AgentSessionCompleted "agent_session_completed" V1_1,
    /// An exit signal was not accepted.
    ExitRefused "exit_refused" V1_1,
    /// A person freed a blocked item.
    WorkUnblocked "work_unblocked" V1_1,
    /// A person vouched for the clock after it jumped.
    ClockConfirmed "clock_confirmed" V1_1,
    /// A run of a workflow began.
    FlowStarted "flow_started" V1_1,
    /// An agent was given an input envelope.
    StepDispatched "step_dispatched" V1_1,
    /// A step was left out, because its condition did not hold.
    StepSkipped "step_skipped" V1_1,
    /// An agent gave an output envelope, or failed to.
    StepAnswered "step_answered" V1_1,
    /// The files of an answer were written.
    FilesApplied "files_applied" V1_1,
    /// A step waits for a person.
    StepEscalated "step_escalated" V1_1,
    /// The run ended.
    FlowFinished "flow_finished" V1_1,
    /// A question was answered.
    AnswerGiven "answer_given" V1_1,
}

impl EventType {
    /// The type of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// The six types that the specification never takes without a signature.
    #[must_use]
    pub const fn signature_is_mandatory(self) -> bool {
        matches!(
            self,
            Self::ProposalCreated
                | Self::ToolIntentSigned
                | Self::ClaimIssued
                | Self::ClaimChallenged
                | Self::FinalStatementSigned
                | Self::VerificationRunCompleted
        )
    }

    /// Whether it can be the first event of a trace, and of which kinds.
    #[must_use]
    pub const fn opens(self) -> &'static [TraceKind] {
        match self {
            Self::LogOpened => &[TraceKind::Log],
            Self::SessionInitialized => &[TraceKind::Session, TraceKind::Recording],
            Self::WorkOpened => &[TraceKind::Work],
            Self::FlowStarted => &[TraceKind::Flow],
            _ => &[],
        }
    }
}
