//! Pieces of decisions and rules that several kinds of trace share.

use countersign_format::event::{ArtifactDescriptor, Draft, Event, EventRef, EventType};
use countersign_format::hash::Hash;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{Context, Refusal};

/// Artifacts that this decision brings name the event that it makes.
pub(crate) fn produced(
    artifacts: Vec<ArtifactDescriptor>,
    context: &Context,
) -> Vec<ArtifactDescriptor> {
    produced_by(0, artifacts, context)
}

/// The same for the event that is the `nth` of this decision, from 0.
pub(crate) fn produced_by(
    nth: u64,
    artifacts: Vec<ArtifactDescriptor>,
    context: &Context,
) -> Vec<ArtifactDescriptor> {
    let event_id = context.reference(nth).event_id;
    artifacts
        .into_iter()
        .map(|mut artifact| {
            if artifact.producer_event_id.is_empty() {
                artifact.producer_event_id.clone_from(&event_id);
                artifact.created_at = context.now;
            }
            artifact
        })
        .collect()
}

/// Members that may still come to an object, for which there is room.
const MORE_MEMBERS: usize = 4;

/// An object with these members. Made for what is recorded with every call: `json!` lets its objects
/// grow, and finds a place for what they have each time.
pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut object = Map::with_capacity(N + MORE_MEMBERS);
    object.extend(members.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(object)
}

pub(crate) fn hashes(artifacts: &[ArtifactDescriptor]) -> Vec<Hash> {
    artifacts.iter().map(|artifact| artifact.artifact_hash).collect()
}

/// A member of the payload that must be there.
pub(crate) fn member<T: DeserializeOwned>(
    event: &Event,
    member: &'static str,
) -> Result<T, Refusal> {
    optional(event, member)?.ok_or(Refusal::UnusablePayload { event: event.event_type, member })
}

/// A member of the payload that may be absent, but not be something else.
pub(crate) fn optional<T: DeserializeOwned>(
    event: &Event,
    member: &'static str,
) -> Result<Option<T>, Refusal> {
    match event.payload.get(member) {
        None => Ok(None),
        Some(value) => T::deserialize(value)
            .map(Some)
            .map_err(|_| Refusal::UnusablePayload { event: event.event_type, member }),
    }
}

pub(crate) fn reference(event: &Event, name: &'static str) -> Result<EventRef, Refusal> {
    member(event, name)
}

/// Where an event stands, as others refer to it.
pub(crate) fn place(event: &Event) -> EventRef {
    EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap_or_default() }
}

/// The same, before there is an event.
pub(crate) fn no_such_command(
    event: EventType,
    reference: &EventRef,
    wanted: &'static str,
) -> Refusal {
    Refusal::NoSuchReference {
        event,
        event_id: reference.event_id.clone(),
        seq: reference.seq,
        wanted,
    }
}

pub(crate) fn no_such(event: &Event, reference: &EventRef, wanted: &'static str) -> Refusal {
    no_such_command(event.event_type, reference, wanted)
}

/// Adds a member that is left out where there is nothing to say.
pub(crate) fn set(payload: &mut Value, name: &str, value: Option<impl Serialize>) {
    if let (Value::Object(members), Some(value)) = (payload, value) {
        members.insert(name.to_owned(), json!(value));
    }
}

/// What was compared with a trace, and where the report of that lies.
pub(crate) fn coverage(
    gaps: u64,
    sources: Vec<String>,
    report: ArtifactDescriptor,
    context: &Context,
) -> Draft {
    let payload = json!({
        "gaps": gaps, "report_artifact": report.artifact_hash, "sources": sources,
    });
    Draft::new(EventType::CoverageReported, payload).with_artifacts(produced(vec![report], context))
}
