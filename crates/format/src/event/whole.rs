//! Taking a line apart that has nothing wrong with its shape, as nearly all have.
//!
//! One pass over the text, no tree of values but for the payload. Whatever is unusual, wrong or
//! not, is left to [`Reading`](super::Reading): it says what, this says only that.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Actor, ArtifactDescriptor, Event, EventType, RedactionStatus, SCHEMA_VERSION, payload,
};
use crate::hash::Hash;
use crate::id::{Ulid, is_claim_id, is_name};
use crate::json::line::scan;
use crate::key::Signature;
use crate::role::Role;
use crate::shape::{Checker, Dialect, Shape, fits_members};
use crate::text;
use crate::time::Timestamp;

/// A line of our schema that is canonical, and whose members are all there and all as they should
/// be. What its hashes state and whether its signature verifies is open.
#[derive(Debug)]
pub struct WholeLine {
    /// What the line says, but for the signature, which stands below.
    pub event: Event,
    /// SHA-256 of the canonical event without `event_hash`.
    pub event_hash: Hash,
    /// SHA-256 of the canonical payload.
    pub payload_hash: Hash,
    /// As in [`Reading`](super::Reading).
    pub signed_bytes: Vec<u8>,
    /// The signature, if there is one.
    pub signature: Option<WholeSignature>,
}

/// A signature that has its members.
#[derive(Debug)]
pub struct WholeSignature {
    /// The signature itself.
    pub signature: Signature,
    /// The hash of the signed bytes, as it is stated.
    pub signed_bytes_hash: Hash,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEvent<'a> {
    #[serde(borrow)]
    actor: RawActor<'a>,
    artifacts: Vec<RawArtifact<'a>>,
    claims: Vec<&'a str>,
    created_at: &'a str,
    event_hash: &'a str,
    event_id: &'a str,
    event_type: &'a str,
    payload: Map<String, Value>,
    payload_hash: &'a str,
    payload_type: &'a str,
    prev_event_hash: &'a str,
    schema_version: &'a str,
    seq: u64,
    #[serde(default)]
    signature: Option<RawSignature<'a>>,
    trace_id: &'a str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawActor<'a> {
    agent_id: &'a str,
    key_id: &'a str,
    role: &'a str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArtifact<'a> {
    artifact_hash: &'a str,
    byte_size: u64,
    created_at: &'a str,
    encoding: &'a str,
    hash_algorithm: &'a str,
    media_type: &'a str,
    producer_event_id: &'a str,
    redaction_status: &'a str,
    storage_uri: &'a str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSignature<'a> {
    algorithm: &'a str,
    signature_b64: &'a str,
    signed_bytes_hash: &'a str,
}

impl WholeLine {
    /// Takes apart one line, which is given without its line break; `None` sends to
    /// [`Reading`](super::Reading).
    #[must_use]
    pub fn of(line: &[u8]) -> Option<Self> {
        let scanned = scan(line).ok()?;
        let raw: RawEvent<'_> = serde_json::from_str(scanned.text()).ok()?;
        let signature = match &raw.signature {
            Some(raw) => Some(raw.whole()?),
            None => None,
        };
        let event_hash = Hash::of_pieces(&scanned.without(&["event_hash"]));
        let payload_hash = Hash::of(scanned.member("payload")?);
        let event = raw.whole()?;
        // An edited payload is rare enough to go the long way.
        if event.payload_hash != payload_hash {
            return None;
        }
        let signed_bytes = scanned.without(&["event_hash", "payload", "signature"]).concat();
        Some(Self { event, event_hash, payload_hash, signed_bytes, signature })
    }
}

impl RawEvent<'_> {
    fn whole(self) -> Option<Event> {
        let event_type = EventType::parse(self.event_type)?;
        let whole = self.schema_version == SCHEMA_VERSION
            && self.payload_type == self.event_type
            && is_ulid(self.event_id)
            && is_ulid(self.trace_id)
            && self.claims.iter().all(|claim| is_claim_id(claim))
            && fits_members(Dialect::V1_1, payload::fields(event_type), &self.payload);
        if !whole {
            return None;
        }
        Some(Event {
            actor: self.actor.whole()?,
            artifacts: self.artifacts.into_iter().map(RawArtifact::whole).collect::<Option<_>>()?,
            claims: self.claims.into_iter().map(str::to_owned).collect(),
            created_at: self.created_at.parse().ok()?,
            event_hash: self.event_hash.parse().ok()?,
            event_id: self.event_id.to_owned(),
            event_type,
            payload: Value::Object(self.payload),
            payload_hash: self.payload_hash.parse().ok()?,
            payload_type: self.payload_type.to_owned(),
            prev_event_hash: self.prev_event_hash.parse().ok()?,
            raw_clock: None,
            schema_version: self.schema_version.to_owned(),
            seq: Some(self.seq),
            signature: Value::Null,
            trace_id: self.trace_id.to_owned(),
            unknown: Map::new(),
        })
    }
}

impl RawActor<'_> {
    fn whole(self) -> Option<Actor> {
        if !is_name(self.agent_id) || !is_name(self.key_id) {
            return None;
        }
        Some(Actor {
            agent_id: self.agent_id.to_owned(),
            key_id: self.key_id.to_owned(),
            role: self.role.parse::<Role>().ok()?,
            unknown: Map::new(),
        })
    }
}

impl RawArtifact<'_> {
    fn whole(self) -> Option<ArtifactDescriptor> {
        let is_text = |text: &str| !text.is_empty() && text::check(text).is_ok();
        let whole = self.hash_algorithm == "sha256"
            && is_text(self.media_type)
            && is_text(self.encoding)
            && is_ulid(self.producer_event_id)
            && Checker::new(Dialect::V1_1).takes(&Shape::StorePath, self.storage_uri);
        if !whole {
            return None;
        }
        Some(ArtifactDescriptor {
            artifact_hash: self.artifact_hash.parse().ok()?,
            hash_algorithm: self.hash_algorithm.to_owned(),
            media_type: self.media_type.to_owned(),
            encoding: self.encoding.to_owned(),
            byte_size: self.byte_size,
            created_at: self.created_at.parse::<Timestamp>().ok()?,
            producer_event_id: self.producer_event_id.to_owned(),
            storage_uri: self.storage_uri.to_owned(),
            redaction_status: RedactionStatus::parse(self.redaction_status)?,
            unknown: Map::new(),
        })
    }
}

impl RawSignature<'_> {
    fn whole(&self) -> Option<WholeSignature> {
        if self.algorithm != "ed25519" {
            return None;
        }
        Some(WholeSignature {
            signature: self.signature_b64.parse().ok()?,
            signed_bytes_hash: self.signed_bytes_hash.parse().ok()?,
        })
    }
}

fn is_ulid(text: &str) -> bool {
    text.parse::<Ulid>().is_ok()
}
