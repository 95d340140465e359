//! Where a step stands, and what it has heard and said.

use countersign_format::envelope::{Operation, Recommendation};
use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::AnswerForm;

/// A step of a running flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRun {
    /// Where it stands.
    pub phase: StepPhase,
    /// How often it ran.
    pub iteration: u64,
    /// The calls in this iteration.
    pub attempt: u64,
    /// The calls in this iteration that came to nothing.
    pub failures: u64,
    /// What came of it last.
    pub said: Option<Said>,
    /// Answers that its next call is told of: those for which it runs again.
    pub heard: Vec<Heard>,
    /// What people answered for its next call.
    pub told: Vec<PersonsWord>,
    /// What a person answered, if it asks one.
    pub answer: Option<Value>,
}

/// Where a step stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPhase {
    /// For its turn.
    Waiting {
        /// What its turn will be.
        due: Due,
    },
    /// Its agent was called.
    Running {
        /// The call.
        dispatch: EventRef,
        /// The seconds that are reserved for it.
        seconds: u64,
        /// Since when.
        since: Timestamp,
    },
    /// Its agent answered with files, which are being written.
    Applying {
        /// The answer.
        answer: EventRef,
        /// What is being written.
        files: Vec<FileChange>,
    },
    /// It cannot go on by itself, and that is to be recorded.
    Stuck {
        /// Why.
        why: AskedFor,
    },
    /// A person is asked.
    Asked(OpenQuestion),
    /// A step before it is to run again.
    Returning {
        /// Which.
        to: usize,
    },
    /// It is over, and what follows may begin.
    Done,
    /// Its condition did not hold.
    Skipped,
    /// It is over, and what follows never begins.
    Failed {
        /// Why.
        reason: String,
    },
    /// A bound was reached, and what follows never begins.
    Exhausted {
        /// Which.
        reason: String,
    },
}

impl Default for StepPhase {
    fn default() -> Self {
        Self::Waiting { due: Due::First }
    }
}

impl StepPhase {
    /// What it is called.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Running { .. } => "running",
            Self::Applying { .. } => "applying files",
            Self::Stuck { .. } => "stuck",
            Self::Asked(_) => "asking a person",
            Self::Returning { .. } => "sent back",
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed { .. } => "failed",
            Self::Exhausted { .. } => "exhausted",
        }
    }

    /// Whether something is still to come of it, without anybody beginning it.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        matches!(
            self,
            Self::Running { .. }
                | Self::Applying { .. }
                | Self::Stuck { .. }
                | Self::Asked(_)
                | Self::Returning { .. }
        )
    }
}

/// What a step's turn will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// A run that its condition decides about.
    First,
    /// Another iteration.
    Iteration,
    /// Another attempt at the same.
    Attempt,
}

/// Why a step cannot go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedFor {
    /// It asks a person, by the plan.
    Approval,
    /// Its agent needs somebody else.
    Escalated,
    /// Its agent failed to answer too often.
    Attempts,
    /// It would run more often than it may. Nobody is asked.
    Iterations,
}

impl AskedFor {
    /// Its name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Escalated => "escalated",
            Self::Attempts => "attempts",
            Self::Iterations => "iterations",
        }
    }
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// Where it was asked.
    pub event: EventRef,
    /// Why.
    pub why: AskedFor,
    /// What is asked.
    pub question: String,
    /// What can be answered.
    pub form: AnswerForm,
    /// From when on an answer no longer counts.
    pub deadline: Option<Timestamp>,
    /// When it was asked.
    pub since: Timestamp,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Whether it did its task; for a person, whether it was a yes.
    pub success: bool,
    /// What it recommended.
    pub recommendation: Option<Recommendation>,
    /// The stored answer of its agent.
    pub artifact: Option<Hash>,
}

/// An answer for which a step runs again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The stored answer.
    pub artifact: Hash,
    /// What was wrong with it, if it was no answer.
    pub error: Option<String>,
}

/// What a person answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonsWord {
    /// The question.
    pub question: String,
    /// The answer.
    pub answer: Value,
}

/// A file that is written, with its bytes before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Where, below the workspace root.
    pub path: String,
    /// Whether the agent called it new.
    pub operation: Operation,
    /// What was there.
    pub before: Option<Hash>,
    /// What is there afterwards.
    pub after: Hash,
}
