//! Which events end a trace, told from the event alone.

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::trace_session::TraceStatus;
use serde_json::Value;

/// How the trace of this kind stands after `event`, if that ends it.
#[must_use]
pub fn ending(kind: TraceKind, event: &Event) -> Option<TraceStatus> {
    let member = |name: &str| event.payload.get(name).and_then(Value::as_str);
    match (kind, event.event_type) {
        (TraceKind::Session | TraceKind::Recording, EventType::VerificationRunCompleted) => {
            Some(match member("verification_status") {
                Some("pass" | "pass-with-warnings") => TraceStatus::Succeeded,
                _ => TraceStatus::Failed,
            })
        }
        (TraceKind::Session | TraceKind::Recording, EventType::SessionAborted) => {
            Some(TraceStatus::Aborted)
        }
        (TraceKind::Session | TraceKind::Recording, EventType::SessionFailed) => {
            Some(TraceStatus::Failed)
        }
        (TraceKind::Work, EventType::AgentSessionCompleted) => {
            (member("next_phase") == Some("COMPLETED")).then_some(TraceStatus::Succeeded)
        }
        (TraceKind::Flow, EventType::FlowFinished) => Some(match member("outcome") {
            Some("completed") => TraceStatus::Succeeded,
            Some("aborted") => TraceStatus::Aborted,
            _ => TraceStatus::Failed,
        }),
        _ => None,
    }
}

/// The kind of trace that `first` begins, if it can begin one.
#[must_use]
pub fn kind_of(first: &Event) -> Option<TraceKind> {
    let kind = match first.payload.get("kind").and_then(Value::as_str) {
        // Schema 1.0 has sessions only, and no member that would say so.
        _ if first.schema_version.starts_with("1.0.") => TraceKind::Session,
        Some(name) => TraceKind::parse(name)?,
        None => TraceKind::Session,
    };
    first.event_type.opens().contains(&kind).then_some(kind)
}
