//! Who may record what: the role table.

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::role::Role;

use crate::Refusal;

/// The roles that may record `event` in a trace of this kind; empty if none may.
#[must_use]
pub fn allowed(kind: TraceKind, event: EventType) -> &'static [Role] {
    use EventType as T;
    // A torn tail can be found in any ledger.
    if event == T::SessionRecovered {
        return &[Role::Recorder];
    }
    match kind {
        TraceKind::Log => match event {
            T::LogOpened
            | T::KeyAdded
            | T::KeyRotated
            | T::KeyRevoked
            | T::TraceOpened
            | T::TraceCheckpointed
            | T::TraceClosed
            | T::ArtifactRedacted => &[Role::Recorder],
            _ => &[],
        },
        TraceKind::Session => match event {
            T::SessionInitialized | T::ProposalCreated => &[Role::Planner],
            T::ProposalReviewed | T::ClaimChallenged => &[Role::Critic],
            T::ToolIntentSigned
            | T::ToolExecutionStarted
            | T::ToolExecutionCompleted
            | T::ToolExecutionFailed
            | T::ClaimIssued
            | T::FinalStatementSigned => &[Role::Executor],
            T::ToolIntentReviewed => &[Role::Critic, Role::Operator],
            T::ArtifactRecorded => &[Role::Executor, Role::Auditor],
            T::VerificationRunStarted
            | T::VerificationRunCompleted
            | T::CoverageReported
            | T::ArtifactRedacted => &[Role::Auditor],
            T::SessionAborted => &[Role::Operator],
            T::SessionFailed => &[Role::Recorder],
            _ => &[],
        },
        TraceKind::Recording => match event {
            T::SessionInitialized
            | T::ToolsListed
            | T::ToolIntentSigned
            | T::ToolExecutionStarted
            | T::ToolExecutionCompleted
            | T::ToolExecutionFailed
            | T::ArtifactRecorded
            | T::FinalStatementSigned
            | T::VerificationRunStarted
            | T::VerificationRunCompleted
            | T::CoverageReported
            | T::SessionFailed => &[Role::Recorder],
            T::ToolIntentReviewed => &[Role::Recorder, Role::Operator],
            T::ArtifactRedacted => &[Role::Auditor],
            T::SessionAborted => &[Role::Operator],
            _ => &[],
        },
        TraceKind::Work => match event {
            T::WorkOpened
            | T::LeaseGranted
            | T::LeaseRenewed
            | T::LeaseReleased
            | T::AgentSessionCompleted
            | T::ExitRefused
            | T::ArtifactRedacted => &[Role::Recorder],
            T::WorkUnblocked | T::ClockConfirmed => &[Role::Operator],
            _ => &[],
        },
        TraceKind::Flow => match event {
            T::FlowStarted
            | T::StepDispatched
            | T::StepSkipped
            | T::StepAnswered
            | T::FilesApplied
            | T::StepEscalated
            | T::FlowFinished
            | T::ArtifactRedacted => &[Role::Recorder],
            T::AnswerGiven => &[Role::Operator, Role::Recorder],
            _ => &[],
        },
    }
}

/// Whether the actor of `event` has a role that may record it.
pub fn admit(kind: TraceKind, event: &Event) -> Result<(), Refusal> {
    let (role, event_type) = (event.actor.role, event.event_type);
    let allowed = allowed(kind, event_type);
    if allowed.is_empty() {
        Err(Refusal::NotInThisKind { kind, found: event_type })
    } else if allowed.contains(&role) {
        Ok(())
    } else {
        Err(Refusal::NotForThisRole { event: event_type, role })
    }
}
