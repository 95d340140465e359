//! Pieces of decisions and rules that several kinds of trace share.

use countersign_format::event::{ArtifactDescriptor, Event, EventRef};
use countersign_format::hash::Hash;
use serde::de::DeserializeOwned;

use crate::{Context, Refusal};

/// Artifacts that this decision brings name the event that it makes.
pub(crate) fn produced(
    artifacts: Vec<ArtifactDescriptor>,
    context: &Context,
) -> Vec<ArtifactDescriptor> {
    let event_id = context.reference(0).event_id;
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

pub(crate) fn no_such(event: &Event, reference: &EventRef, wanted: &'static str) -> Refusal {
    Refusal::NoSuchReference {
        event: event.event_type,
        event_id: reference.event_id.clone(),
        seq: reference.seq,
        wanted,
    }
}
