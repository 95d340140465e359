//! Making a line of an event: payload hash, signature, event hash, in one pass over the pieces.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::{Actor, ArtifactDescriptor, Event, EventType, SCHEMA_VERSION, payload};
use crate::hash::{Hash, Hasher};
use crate::id::Ulid;
use crate::json::{self, JsonError};
use crate::shape::{self, Checker, Dialect, Fault, Shape};
use crate::text;
use crate::time::Timestamp;

/// Members of an event and of the objects in it, the payload's own apart.
const ENVELOPE_MEMBERS: usize = 16 + 3 + 3;
/// A descriptor in its list, and its members.
const DESCRIPTOR_MEMBERS: usize = 1 + 9;
/// Room for the signed bytes of an event with one artifact.
const SIGNED_BYTES: usize = 1024;
/// A signature in base64.
const SIGNATURE_DIGITS: usize = 88;

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
    fn faults(&self) -> Vec<Fault> {
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
    ///
    /// Text is put into normalisation form C; this is where it enters. What is left is checked
    /// against the schema before it is signed, and the line scanned before it is handed out, so
    /// that nothing ever gets into a trace that a reader would refuse.
    pub fn seal(
        self,
        draft: Draft,
        sign: impl FnOnce(&[u8]) -> [u8; 64],
    ) -> Result<Sealed, SealError> {
        let mut line = Vec::new();
        let event = self.seal_behind(draft, &mut line, sign)?;
        Ok(Sealed { event, line })
    }

    /// The same, with the line put behind others. On error these are as they were.
    pub fn seal_behind(
        self,
        mut draft: Draft,
        lines: &mut Vec<u8>,
        sign: impl FnOnce(&[u8]) -> [u8; 64],
    ) -> Result<Event, SealError> {
        text::normalise(&mut draft.payload);
        let faults = draft.faults();
        if !faults.is_empty() {
            return Err(SealError::Invalid(faults));
        }
        let artifacts_are_plain = draft.artifacts.iter().all(|it| it.unknown.is_empty());
        let members =
            ENVELOPE_MEMBERS + draft.artifacts.len() * DESCRIPTOR_MEMBERS + draft.claims.len();
        let mut payload = Vec::with_capacity(512);
        json::write(&draft.payload, &mut payload);
        let payload_hash = Hash::of(&payload);
        let names = Names {
            event_id: self.event_id.to_string(),
            trace_id: self.trace_id.to_string(),
            created_at: (self.created_at, self.created_at.to_string()),
        };

        // The members in canonical order, cut where `event_hash`, `payload` and `signature` go.
        let mut signed = Vec::with_capacity(SIGNED_BYTES);
        self.write_head(&draft, &names.created_at, &mut signed);
        let after_created_at = signed.len();
        names.write_event(draft.event_type, &mut signed);
        let after_event_type = signed.len();
        let payload_type = payload_type(draft.event_type);
        self.write_chain(payload_type, &payload_hash, &mut signed);
        let after_seq = signed.len();
        names.write_trace(&mut signed);

        let piece = |from: usize, to: usize| signed.get(from..to).unwrap_or_default();
        let head = piece(0, after_created_at);
        let event_names = piece(after_created_at, after_event_type);
        let chain = piece(after_event_type, after_seq);
        let tail = piece(after_seq, signed.len());

        // Both hashes begin with the same members, which are most of the bytes.
        let begun = Hasher::default().with(head).with(event_names);
        let signed_bytes_hash = begun.clone().with(chain).with(tail).finish();
        let signature = signature_member(&sign(&signed), &signed_bytes_hash);
        let event_hash = begun
            .with(b",\"payload\":")
            .with(&payload)
            .with(chain)
            .with(&signature)
            .with(tail)
            .finish();

        let start = lines.len();
        lines.reserve(signed.len() + payload.len() + signature.len() + 128);
        lines.extend_from_slice(head);
        lines.extend_from_slice(b",\"event_hash\":\"");
        lines.extend_from_slice(&event_hash.hex_digits());
        lines.push(b'"');
        lines.extend_from_slice(event_names);
        lines.extend_from_slice(b",\"payload\":");
        lines.extend_from_slice(&payload);
        lines.extend_from_slice(chain);
        lines.extend_from_slice(&signature);
        lines.extend_from_slice(tail);
        // Everything around the payload was written canonically just now; what came from outside is
        // the payload, and the unknown members of descriptors where there are any.
        let line = lines.get(start..).unwrap_or_default();
        let checked = if artifacts_are_plain {
            json::line::check_member(line, &payload, members)
        } else {
            json::line::scan(line).map(|_| ())
        };
        if let Err(error) = checked {
            lines.truncate(start);
            return Err(error.into());
        }
        lines.push(b'\n');

        Ok(Event {
            actor: self.actor.clone(),
            artifacts: draft.artifacts,
            claims: draft.claims,
            created_at: self.created_at,
            event_hash,
            event_id: names.event_id,
            event_type: draft.event_type,
            payload: draft.payload,
            payload_hash,
            payload_type: payload_type.to_owned(),
            prev_event_hash: self.prev,
            raw_clock: self.raw_clock,
            schema_version: SCHEMA_VERSION.to_owned(),
            seq: Some(self.seq),
            signature: Value::Null,
            trace_id: names.trace_id,
            unknown: Map::new(),
        })
    }

    fn write_head(&self, draft: &Draft, created_at: &(Timestamp, String), out: &mut Vec<u8>) {
        let text = json::write_string;
        out.extend_from_slice(b"{\"actor\":{\"agent_id\":");
        text(&self.actor.agent_id, out);
        out.extend_from_slice(b",\"key_id\":");
        text(&self.actor.key_id, out);
        out.extend_from_slice(b",\"role\":");
        text(self.actor.role.as_str(), out);
        out.extend_from_slice(b"},\"artifacts\":[");
        for (index, artifact) in draft.artifacts.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            artifact.write(created_at, out);
        }
        out.extend_from_slice(b"],\"claims\":[");
        for (index, claim) in draft.claims.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            text(claim, out);
        }
        out.extend_from_slice(b"],\"created_at\":\"");
        out.extend_from_slice(created_at.1.as_bytes());
        out.push(b'"');
    }

    fn write_chain(&self, payload_type: &str, payload_hash: &Hash, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"payload_hash\":\"");
        out.extend_from_slice(&payload_hash.hex_digits());
        out.extend_from_slice(b"\",\"payload_type\":\"");
        out.extend_from_slice(payload_type.as_bytes());
        out.extend_from_slice(b"\",\"prev_event_hash\":\"");
        out.extend_from_slice(&self.prev.hex_digits());
        out.push(b'"');
        if let Some(raw_clock) = self.raw_clock {
            out.extend_from_slice(b",\"raw_clock\":\"");
            out.extend_from_slice(raw_clock.to_string().as_bytes());
            out.push(b'"');
        }
        out.extend_from_slice(b",\"schema_version\":\"");
        out.extend_from_slice(SCHEMA_VERSION.as_bytes());
        out.extend_from_slice(b"\",\"seq\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.seq).as_bytes());
    }
}

/// What is written in more than one place.
struct Names {
    event_id: String,
    trace_id: String,
    created_at: (Timestamp, String),
}

impl Names {
    fn write_event(&self, event_type: EventType, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"event_id\":\"");
        out.extend_from_slice(self.event_id.as_bytes());
        out.extend_from_slice(b"\",\"event_type\":\"");
        out.extend_from_slice(event_type.as_str().as_bytes());
        out.push(b'"');
    }

    fn write_trace(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"trace_id\":\"");
        out.extend_from_slice(self.trace_id.as_bytes());
        out.extend_from_slice(b"\"}");
    }
}

/// The member `signature`, with the comma before it.
fn signature_member(signature: &[u8; 64], signed_bytes_hash: &Hash) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b",\"signature\":{\"algorithm\":\"ed25519\",\"signature_b64\":\"");
    let digits = out.len();
    out.resize(digits + SIGNATURE_DIGITS, b'=');
    let room = out.get_mut(digits..).unwrap_or_default();
    // There is room for just as many.
    let _ = base64::engine::general_purpose::STANDARD.encode_slice(signature, room);
    out.extend_from_slice(b"\",\"signed_bytes_hash\":\"");
    out.extend_from_slice(&signed_bytes_hash.hex_digits());
    out.extend_from_slice(b"\"}");
    out
}

/// The `payload_type` of an event type: in schema 1.1 there is one payload per type, of its name.
const fn payload_type(event_type: EventType) -> &'static str {
    event_type.as_str()
}
