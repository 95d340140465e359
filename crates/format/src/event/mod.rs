//! Events: one signed, chained line each.
//!
//! [`Event`] is what a line says, [`Sealer`] makes a line of it, [`Reading`] takes a line apart
//! into the values and the bytes that its hashes and signature cover. Whether an event was allowed
//! is the protocol's to say.

pub mod artifact;
mod check;
mod draw_up;
pub mod payload;
mod read;
mod seal;
mod types;
mod whole;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::Hash;
use crate::role::Role;
use crate::time::Timestamp;
pub use artifact::{ArtifactDescriptor, RedactionStatus};
pub use check::{
    PROTOCOL_EVENT, SIGNATURE, SignatureFaults, check_event, check_event_bytes, dialect_of,
    event_faults, event_schema,
};
pub use draw_up::{DrawnUp, Place};
pub use read::{LineFault, Reading};
pub use seal::{Draft, SealError, Sealed, Sealer};
pub use types::{EventType, Since, TraceKind};
pub use whole::{WholeLine, WholeSignature};

/// The schema version that we write.
pub const SCHEMA_VERSION: &str = "1.1.0";

/// What a line says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Who did it.
    pub actor: Actor,
    /// Descriptors of the evidence that it brings or refers to.
    pub artifacts: Vec<ArtifactDescriptor>,
    /// Ids of the claims that it is about.
    pub claims: Vec<String>,
    /// When it was recorded; never before its predecessor.
    pub created_at: Timestamp,
    /// SHA-256 of the canonical event without this member.
    pub event_hash: Hash,
    /// Its id.
    pub event_id: String,
    /// What happened.
    pub event_type: EventType,
    /// The particulars.
    pub payload: Value,
    /// SHA-256 of the canonical payload.
    pub payload_hash: Hash,
    /// What the payload is.
    pub payload_type: String,
    /// `event_hash` of the predecessor, or [`Hash::GENESIS`].
    pub prev_event_hash: Hash,
    /// What the clock said, where it lay before the predecessor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_clock: Option<Timestamp>,
    /// The schema that it follows.
    pub schema_version: String,
    /// Its place in the trace, from 0. Schema 1.0 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The signature as it stands; its shape is the verifier's to judge. Null where the event was
    /// just sealed or taken apart as a [`WholeLine`]: those have it elsewhere.
    #[serde(default)]
    pub signature: Value,
    /// The trace that it belongs to.
    pub trace_id: String,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Who did something, and the key that says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The agent.
    pub agent_id: String,
    /// Its key.
    pub key_id: String,
    /// The part that it played.
    pub role: Role,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A reference from one event to an earlier one of the same trace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventRef {
    /// Its id.
    pub event_id: String,
    /// Its place.
    pub seq: u64,
}
