//! Making a line of an event at once, where its predecessor is known.

use serde_json::{Map, Value};

use super::draw_up::Place;
use super::{Actor, ArtifactDescriptor, Event, EventType, payload};
use crate::hash::Hash;
use crate::id::Ulid;
use crate::json::JsonError;
use crate::shape::{self, Checker, Dialect, Fault, Shape};
use crate::time::Timestamp;

/// An event that has not been recorded yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// What happened.
    pub event_type: EventType,
    /// The particulars.
    pub payload: Value,
    /// Ids of the claims that it is about.
    pub claims: Vec<String>,
    /// Descriptors of its evidence.
    pub artifacts: Vec<ArtifactDescriptor>,
}

impl Draft {
    /// A draft without claims and artifacts.
    #[must_use]
    pub const fn new(event_type: EventType, payload: Value) -> Self {
        Self { event_type, payload, claims: Vec::new(), artifacts: Vec::new() }
    }

    /// What is wrong with it as an event of schema 1.1.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut checker = Checker::new(Dialect::V1_1);
        let fields = payload::fields(self.event_type);
        // Nearly all are as they should be, which is told in less time than what is wrong.
        let fits =
            |members: &Map<String, Value>| shape::fits_members(Dialect::V1_1, fields, members);
        if !self.payload.as_object().is_some_and(fits) {
            checker.below("payload", |below| below.object(fields, &self.payload));
        }
        for (index, artifact) in self.artifacts.iter().enumerate() {
            // What the type does not guarantee already.
            let texts = [
                ("media_type", Shape::NonEmptyText, &artifact.media_type),
                ("encoding", Shape::NonEmptyText, &artifact.encoding),
                ("hash_algorithm", Shape::OneOf(&["sha256"]), &artifact.hash_algorithm),
                ("producer_event_id", Shape::Ulid, &artifact.producer_event_id),
                ("storage_uri", Shape::StorePath, &artifact.storage_uri),
            ];
            for (name, shape, text) in texts {
                if !checker.takes(&shape, text) {
                    checker.below(&format!("artifacts/{index}/{name}"), |below| {
                        below.fault("is not what a descriptor may hold");
                    });
                }
            }
            for value in artifact.unknown.values() {
                checker.check(&Shape::Any, value);
            }
        }
        for claim in &self.claims {
            checker.below("claims", |below| {
                below.check(&Shape::ClaimId, &Value::String(claim.clone()));
            });
        }
        checker.into_faults()
    }

    /// The same draft with these artifacts.
    #[must_use]
    pub fn with_artifacts(mut self, artifacts: Vec<ArtifactDescriptor>) -> Self {
        self.artifacts = artifacts;
        self
    }
}

/// A recorded event and its line.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// What the line says, but for the signature, which only the line has.
    pub event: Event,
    /// The line, with its line break.
    pub line: Vec<u8>,
}

/// Why a draft cannot become a line.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The line would not be one that readers accept.
    #[error("the event cannot be written as a ledger line")]
    Unreadable(#[from] JsonError),
    /// The event is not what its schema says.
    #[error("the event is not valid: {}", first(.0))]
    Invalid(Vec<Fault>),
}

fn first(faults: &[Fault]) -> String {
    faults.first().map(ToString::to_string).unwrap_or_default()
}

/// Where an event goes and who signs it.
#[derive(Debug, Clone)]
pub struct Sealer<'a> {
    /// The trace.
    pub trace_id: Ulid,
    /// The event's id.
    pub event_id: Ulid,
    /// Its place.
    pub seq: u64,
    /// `event_hash` of its predecessor.
    pub prev: Hash,
    /// The time to record.
    pub created_at: Timestamp,
    /// What the clock said, where that was earlier.
    pub raw_clock: Option<Timestamp>,
    /// Who acts.
    pub actor: &'a Actor,
}

impl Sealer<'_> {
    /// Makes the line. `sign` is given the bytes to sign.
    pub fn seal(
        self,
        draft: Draft,
        sign: impl FnOnce(&[u8]) -> [u8; 64],
    ) -> Result<Sealed, SealError> {
        let Self { trace_id, event_id, seq, prev, created_at, raw_clock, actor } = self;
        let place = Place { trace_id, event_id, seq, created_at, raw_clock, actor };
        let drawn_up = place.draw_up(draft)?;
        let mut line = Vec::new();
        let event = drawn_up.sign_behind(prev, &mut line, sign);
        Ok(Sealed { event, line })
    }
}
