//! Agents: whoever plays a role in a session.
//!
//! One trait, three ways to play: built in, a program that speaks envelopes, or a coding agent that
//! is given the envelope as text. An agent only answers; what it answers is judged by the rules of
//! sessions and recorded under its role by the recorder.

mod answer;
mod built_in;
mod envelope;
mod outside;
mod request;

use std::fmt;

use countersign_format::role::Role;
use serde_json::Value;

pub use answer::{
    AuditOpinion, Doubt, DoubtsAnswered, IntentReview, MadeClaim, PlannedAction, PlannedClaim,
    PlannedStep, ProposalReview,
};
pub(crate) use built_in::proposed;
pub use built_in::{BuiltInAuditor, BuiltInCritic, BuiltInExecutor, BuiltInPlanner};
pub use envelope::Setting;
pub(crate) use envelope::find as find_envelope;
pub use outside::{OutsideAgent, Speech};
pub use request::{ClaimBrief, ExecutionBrief, Request, StepBrief, StepOutcome, Stored};

/// Whoever plays a role.
pub trait Agent: Send + Sync + fmt::Debug {
    /// Answers a request, within the agent's own limits. `attempt` is 1 for the first try.
    ///
    /// # Errors
    /// It gave no usable answer.
    fn answer(&self, request: &Request<'_>, attempt: u32) -> Result<Reply, AgentFailure>;
}

/// An answer, and what was said for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The answer, in the shape that the request wants.
    pub value: Value,
    /// What the agent was given and gave back, where it is not built in.
    pub exchange: Option<Exchange>,
}

impl From<Value> for Reply {
    fn from(value: Value) -> Self {
        Self { value, exchange: None }
    }
}

/// What an outside agent was given and gave back, as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The input envelope.
    pub input: Vec<u8>,
    /// What it printed.
    pub output: Vec<u8>,
    /// What it printed to standard error.
    pub complaints: Vec<u8>,
}

/// Why an agent gave no usable answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the {} {reason}", role.as_str())]
pub struct AgentFailure {
    /// Who it was.
    pub role: Role,
    /// What happened, as the end of a sentence.
    pub reason: String,
    /// What is left of it.
    pub exchange: Option<Box<Exchange>>,
}

/// The answer in what an outside agent printed before, or why there is none.
pub(crate) fn recall(printed: &[u8], request: &Request<'_>) -> Result<Value, String> {
    envelope::answer(printed, request).or_else(|reason| match envelope::find(printed) {
        Some(found) => envelope::answer(&found, request),
        None => Err(reason),
    })
}
