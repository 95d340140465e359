//! What each type of event carries in its payload.
//!
//! One table per type, grouped by the kind of trace that it belongs to. Unknown members are kept.

mod flow;
mod log;
mod session;
mod work;

use super::EventType;
use crate::json::INTEGER_MAX;
use crate::shape::{Field, Fields, Shape, Unknown, opt, req};

/// A reference to an earlier event of the same trace.
pub static EVENT_REF: Fields = Fields {
    name: "EventRef",
    doc: "An earlier event of the same trace, by id and place.",
    fields: &[req("event_id", Shape::Ulid), req("seq", Shape::Integer(0, INTEGER_MAX))],
    unknown: Unknown::Kept,
};

/// Where the workspace log stood when a trace began.
pub static LOG_PIN: Fields = Fields {
    name: "LogPin",
    doc: "The workspace log as it was when the trace began: every later log must extend it.",
    fields: &[
        req("origin", Shape::NonEmptyText),
        req("size", Shape::Integer(1, INTEGER_MAX)),
        req("head", Shape::Hash),
        req("keys_head", Shape::Hash),
    ],
    unknown: Unknown::Kept,
};

const REF: Shape = Shape::Object(&EVENT_REF);
const PIN: Shape = Shape::Object(&LOG_PIN);
const SIZE: Shape = Shape::Integer(0, INTEGER_MAX);

const fn table(name: &'static str, doc: &'static str, fields: &'static [Field]) -> Fields {
    Fields { name, doc, fields, unknown: Unknown::Kept }
}

/// The members of the payload of `event_type`.
#[must_use]
pub fn fields(event_type: EventType) -> &'static Fields {
    use EventType as T;
    match event_type {
        T::LogOpened => &log::LOG_OPENED,
        T::KeyAdded => &log::KEY_ADDED,
        T::KeyRotated => &log::KEY_ROTATED,
        T::KeyRevoked => &log::KEY_REVOKED,
        T::TraceOpened => &log::TRACE_OPENED,
        T::TraceCheckpointed => &log::TRACE_CHECKPOINTED,
        T::TraceClosed => &log::TRACE_CLOSED,
        T::SessionInitialized => &session::SESSION_INITIALIZED,
        T::ProposalCreated => &session::PROPOSAL_CREATED,
        T::ProposalReviewed => &session::PROPOSAL_REVIEWED,
        T::ToolIntentSigned => &session::TOOL_INTENT_SIGNED,
        T::ToolIntentReviewed => &session::TOOL_INTENT_REVIEWED,
        T::ToolExecutionStarted => &session::TOOL_EXECUTION_STARTED,
        T::ToolExecutionCompleted => &session::TOOL_EXECUTION_COMPLETED,
        T::ToolExecutionFailed => &session::TOOL_EXECUTION_FAILED,
        T::ArtifactRecorded => &session::ARTIFACT_RECORDED,
        T::ArtifactRedacted => &session::ARTIFACT_REDACTED,
        T::ClaimIssued => &session::CLAIM_ISSUED,
        T::ClaimChallenged => &session::CLAIM_CHALLENGED,
        T::FinalStatementSigned => &session::FINAL_STATEMENT_SIGNED,
        T::VerificationRunStarted => &session::VERIFICATION_RUN_STARTED,
        T::VerificationRunCompleted => &session::VERIFICATION_RUN_COMPLETED,
        T::CoverageReported => &session::COVERAGE_REPORTED,
        T::SessionAborted => &session::SESSION_ABORTED,
        T::SessionFailed => &session::SESSION_FAILED,
        T::SessionRecovered => &session::SESSION_RECOVERED,
        T::ToolsListed => &session::TOOLS_LISTED,
        T::WorkOpened => &work::WORK_OPENED,
        T::LeaseGranted => &work::LEASE_GRANTED,
        T::LeaseRenewed => &work::LEASE_RENEWED,
        T::LeaseReleased => &work::LEASE_RELEASED,
        T::AgentSessionCompleted => &work::AGENT_SESSION_COMPLETED,
        T::ExitRefused => &work::EXIT_REFUSED,
        T::WorkUnblocked => &work::WORK_UNBLOCKED,
        T::ClockConfirmed => &work::CLOCK_CONFIRMED,
        T::FlowStarted => &flow::FLOW_STARTED,
        T::StepDispatched => &flow::STEP_DISPATCHED,
        T::StepSkipped => &flow::STEP_SKIPPED,
        T::StepAnswered => &flow::STEP_ANSWERED,
        T::FilesApplied => &flow::FILES_APPLIED,
        T::StepEscalated => &flow::STEP_ESCALATED,
        T::FlowFinished => &flow::FLOW_FINISHED,
        T::AnswerGiven => &flow::ANSWER_GIVEN,
    }
}

/// Whether schema 1.0 needs this payload in the event itself: it has required members.
#[must_use]
pub fn must_be_inline(event_type: EventType) -> bool {
    fields(event_type).fields.iter().any(|field| field.need == crate::shape::Need::Required)
}

/// Members that the first event of every kind of trace may have.
const LINKS: Field = opt("links", Shape::MapOf(&Shape::Any));
