//! The state of a session as a whole, and who may record what in it.

use countersign_format::event::EventType;
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use serde::{Deserialize, Serialize};

use super::SessionState;
use crate::Stage;

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifecycle {
    /// There is no event yet.
    Initialized,
    /// Nothing was proposed.
    Planning,
    /// Something was proposed, and nothing approved.
    Reviewing,
    /// Something was approved, and no execution has ended.
    Executing,
    /// An execution has ended.
    Claiming,
    /// The final statement stands.
    Auditing,
    /// The audit passed.
    Completed,
    /// The audit failed, or the session could not go on.
    Failed,
    /// A person ended it.
    Aborted,
}

impl Lifecycle {
    /// Every state, in the order in which a session can go through them.
    pub const ALL: [Self; 9] = [
        Self::Initialized,
        Self::Planning,
        Self::Reviewing,
        Self::Executing,
        Self::Claiming,
        Self::Auditing,
        Self::Completed,
        Self::Failed,
        Self::Aborted,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialized => "initialized",
            Self::Planning => "planning",
            Self::Reviewing => "reviewing",
            Self::Executing => "executing",
            Self::Claiming => "claiming",
            Self::Auditing => "auditing",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
        }
    }

    /// Whether the session is over.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Aborted)
    }

    /// Whether it has begun, and the final statement is still to come.
    const fn is_open(self) -> bool {
        matches!(self, Self::Planning | Self::Reviewing | Self::Executing | Self::Claiming)
    }

    /// Whether an event of this type may be recorded now by somebody in this role.
    #[must_use]
    pub fn allows(self, event: EventType, role: Role) -> bool {
        use EventType as T;
        match event {
            T::SessionInitialized => self == Self::Initialized,
            T::ProposalCreated => self.is_open(),
            T::ProposalReviewed => self.is_open() && self >= Self::Reviewing,
            T::ToolIntentSigned
            | T::ToolIntentReviewed
            | T::ToolExecutionStarted
            | T::ToolExecutionCompleted
            | T::ToolExecutionFailed => self.is_open() && self >= Self::Executing,
            T::ClaimIssued | T::ClaimChallenged | T::FinalStatementSigned => self == Self::Claiming,
            // The auditor may add to its own evidence after the final statement.
            T::ArtifactRecorded => {
                self.is_open() || (self == Self::Auditing && role == Role::Auditor)
            }
            T::VerificationRunStarted | T::VerificationRunCompleted => self >= Self::Auditing,
            T::CoverageReported => self.is_open() || self.is_terminal(),
            T::ArtifactRedacted | T::SessionRecovered => self != Self::Initialized,
            T::SessionAborted | T::SessionFailed => self.is_open() || self == Self::Auditing,
            _ => false,
        }
    }
}

impl SessionState {
    /// Where the session stands.
    #[must_use]
    pub fn lifecycle(&self) -> Lifecycle {
        match (self.ended, &self.stage) {
            (Some(TraceStatus::Succeeded), _) => Lifecycle::Completed,
            (Some(TraceStatus::Aborted), _) => Lifecycle::Aborted,
            (Some(_), _) | (None, Stage::Ended) => Lifecycle::Failed,
            (None, Stage::Concluded | Stage::Auditing(_)) => Lifecycle::Auditing,
            (None, Stage::Open) if !self.begun => Lifecycle::Initialized,
            (None, Stage::Open) if self.proposals.is_empty() => Lifecycle::Planning,
            (None, Stage::Open) if !self.approved_once => Lifecycle::Reviewing,
            (None, Stage::Open) if self.ended_executions.is_empty() => Lifecycle::Executing,
            (None, Stage::Open) => Lifecycle::Claiming,
        }
    }
}
