//! What a signal becomes in the trace of its work item.

use serde::{Deserialize, Serialize};

use super::{ExitReason, ExitSignal, ExitSignalError, WorkPhase};
use crate::shape::{Fields, Shape, Unknown, opt, req};
use crate::text::to_nfc;

/// The members of [`AgentSessionCompleted`].
pub static AGENT_SESSION_COMPLETED_FIELDS: Fields = Fields {
    name: "AgentSessionCompleted",
    doc: "A session ended with a valid exit signal, and its work item moved to the next phase.",
    fields: &[
        req("session_id", Shape::NonEmptyText),
        req("actor_id", Shape::NonEmptyText),
        req("phase_completed", Shape::OneOf(&WorkPhase::NAMES)),
        req("exit_reason", Shape::OneOf(&ExitReason::NAMES)),
        req("next_phase", Shape::OneOf(&WorkPhase::NAMES)),
        opt("pr_url", Shape::Text),
        opt("evidence_bundle_ref", Shape::Text),
        opt("notes", Shape::Text),
    ],
    unknown: Unknown::Kept,
};

/// A session ended with a valid exit signal. The event's id, time and type are its envelope's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSessionCompleted {
    /// The session that ended.
    pub session_id: String,
    /// Who ran it.
    pub actor_id: String,
    /// The phase that was worked on.
    pub phase_completed: WorkPhase,
    /// Why the session ended.
    pub exit_reason: ExitReason,
    /// Where the work item stands now.
    pub next_phase: WorkPhase,
    /// The pull request, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    /// Relative path of the evidence for this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_bundle_ref: Option<String>,
    /// For people, in normalisation form C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

impl AgentSessionCompleted {
    /// The event for `signal`, which is validated again: it may have been made in code.
    pub fn from_exit_signal(
        session_id: &str,
        actor_id: &str,
        signal: ExitSignal,
    ) -> Result<Self, ExitSignalError> {
        signal.validate()?;
        Ok(Self {
            session_id: session_id.to_owned(),
            actor_id: actor_id.to_owned(),
            next_phase: signal.next_phase()?,
            phase_completed: signal.phase_completed,
            exit_reason: signal.exit_reason,
            pr_url: signal.pr_url,
            evidence_bundle_ref: signal.evidence_bundle_ref,
            notes: signal.notes.as_deref().map(to_nfc),
        })
    }
}
