//! Making a line of an event, in two steps: all that can be done without knowing the event before it,
//! and then the signature and the hashes, which cannot.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::{Actor, Draft, Event, EventType, SCHEMA_VERSION, SealError};
use crate::hash::{Hash, Hasher};
use crate::id::Ulid;
use crate::json;
use crate::text;
use crate::time::Timestamp;

/// Members of an event and of the objects in it, the payload's own apart.
const ENVELOPE_MEMBERS: usize = 16 + 3 + 3;
/// A descriptor in its list, and its members.
const DESCRIPTOR_MEMBERS: usize = 1 + 9;
/// Room for the signed bytes of an event with one artifact.
const SIGNED_BYTES: usize = 1024;
/// A hash in hexadecimal.
const HASH_DIGITS: usize = 64;
/// A signature in base64.
const SIGNATURE_DIGITS: usize = 88;

const EVENT_HASH: &[u8] = b",\"event_hash\":\"";
const PAYLOAD: &[u8] = b",\"payload\":";
const SIGNATURE: &[u8] = b",\"signature\":{\"algorithm\":\"ed25519\",\"signature_b64\":\"";
const SIGNED_BYTES_HASH: &[u8] = b"\",\"signed_bytes_hash\":\"";
const SIGNATURE_END: &[u8] = b"\"}";

/// Bytes of a line that are not signed, the payload's own apart: its name, both hashes, the signature,
/// and the line break.
const UNSIGNED_BYTES: usize =
    EVENT_HASH.len() + HASH_DIGITS + 1 + PAYLOAD.len() + SIGNATURE_BYTES + 1;
const SIGNATURE_BYTES: usize = SIGNATURE.len()
    + SIGNATURE_DIGITS
    + SIGNED_BYTES_HASH.len()
    + HASH_DIGITS
    + SIGNATURE_END.len();

/// Where an event goes and whose it is.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// The trace.
    pub trace_id: Ulid,
    /// The event's id.
    pub event_id: Ulid,
    /// How many come before it.
    pub seq: u64,
    /// The time to record.
    pub created_at: Timestamp,
    /// What the clock said, where that was earlier.
    pub raw_clock: Option<Timestamp>,
    /// Who acts.
    pub actor: &'a Actor,
}

/// An event that is checked and written, but for what comes of its predecessor's hash. Nothing can
/// fail any more.
#[derive(Debug, Clone)]
pub struct DrawnUp {
    event: Event,
    payload: Vec<u8>,
    /// What is signed, with zeros where the predecessor's hash goes.
    signed: Vec<u8>,
    cuts: Cuts,
    /// Hash of what both hashes begin with, which is most of the bytes.
    begun: Hasher,
    /// The same, with the payload behind it.
    begun_event: Hasher,
}

/// Where the signed bytes are cut: `event_hash`, `payload` and `signature` go between them.
#[derive(Debug, Clone, Copy)]
struct Cuts {
    after_created_at: usize,
    after_event_type: usize,
    /// Where the predecessor's hash goes.
    prev: usize,
    after_seq: usize,
}

impl Place<'_> {
    /// Draws up the event.
    ///
    /// Text is put into normalisation form C; this is where it enters. What is left is checked
    /// against the schema before anything is signed, and the line scanned, so that nothing ever
    /// gets into a trace that a reader would refuse.
    pub fn draw_up(self, mut draft: Draft) -> Result<DrawnUp, SealError> {
        text::normalise(&mut draft.payload);
        let faults = draft.faults();
        if !faults.is_empty() {
            return Err(SealError::Invalid(faults));
        }
        let mut payload = Vec::with_capacity(512);
        json::write(&draft.payload, &mut payload);
        let payload_hash = Hash::of(&payload);
        let names = Names {
            event_id: self.event_id.to_string(),
            trace_id: self.trace_id.to_string(),
            created_at: (self.created_at, self.created_at.to_string()),
        };

        let mut signed = Vec::with_capacity(SIGNED_BYTES);
        self.write_head(&draft, &names.created_at, &mut signed);
        let after_created_at = signed.len();
        names.write_event(draft.event_type, &mut signed);
        let after_event_type = signed.len();
        let begun = Hasher::default().with(&signed);
        let payload_type = payload_type(draft.event_type);
        let prev = self.write_chain(payload_type, &payload_hash, &mut signed);
        let after_seq = signed.len();
        names.write_trace(&mut signed);

        let artifacts_are_plain = draft.artifacts.iter().all(|it| it.unknown.is_empty());
        let members =
            ENVELOPE_MEMBERS + draft.artifacts.len() * DESCRIPTOR_MEMBERS + draft.claims.len();
        let drawn_up = DrawnUp {
            event: Event {
                actor: self.actor.clone(),
                artifacts: draft.artifacts,
                claims: draft.claims,
                created_at: self.created_at,
                event_hash: Hash::GENESIS,
                event_id: names.event_id,
                event_type: draft.event_type,
                payload: draft.payload,
                payload_hash,
                payload_type: payload_type.to_owned(),
                prev_event_hash: Hash::GENESIS,
                raw_clock: self.raw_clock,
                schema_version: SCHEMA_VERSION.to_owned(),
                seq: Some(self.seq),
                signature: Value::Null,
                trace_id: names.trace_id,
                unknown: Map::new(),
            },
            begun_event: begun.clone().with(PAYLOAD).with(&payload),
            payload,
            signed,
            cuts: Cuts { after_created_at, after_event_type, prev, after_seq },
            begun,
        };
        // Everything around the payload was written canonically just now; what came from outside is
        // the payload, and the unknown members of descriptors where there are any.
        if artifacts_are_plain {
            json::line::check_member(drawn_up.line_bytes() - 1, &drawn_up.payload, members)?;
        } else {
            let mut line = Vec::with_capacity(drawn_up.line_bytes());
            drawn_up.write_line(
                &Hash::GENESIS,
                &signature_member(&[0; 64], &Hash::GENESIS),
                &mut line,
            );
            json::line::scan(line.strip_suffix(b"\n").unwrap_or(&line))?;
        }
        Ok(drawn_up)
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

    /// Gives the place of the predecessor's hash, which is written as zeros.
    fn write_chain(&self, payload_type: &str, payload_hash: &Hash, out: &mut Vec<u8>) -> usize {
        out.extend_from_slice(b",\"payload_hash\":\"");
        out.extend_from_slice(&payload_hash.hex_digits());
        out.extend_from_slice(b"\",\"payload_type\":\"");
        out.extend_from_slice(payload_type.as_bytes());
        out.extend_from_slice(b"\",\"prev_event_hash\":\"");
        let prev = out.len();
        out.extend_from_slice(&Hash::GENESIS.hex_digits());
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
        prev
    }
}

impl DrawnUp {
    /// What is to be recorded. Its own hash and its predecessor's are not known yet.
    #[must_use]
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// How long the line will be, with its line break.
    #[must_use]
    pub const fn line_bytes(&self) -> usize {
        self.signed.len() + self.payload.len() + UNSIGNED_BYTES
    }

    /// Signs it as the successor of the event with hash `prev`, and puts its line behind others. `sign`
    /// is given the bytes to sign. The event has everything that its line says, but for the
    /// signature.
    pub fn sign_behind(
        mut self,
        prev: Hash,
        lines: &mut Vec<u8>,
        sign: impl FnOnce(&[u8]) -> [u8; 64],
    ) -> Event {
        if let Some(blank) = self.signed.get_mut(self.cuts.prev..self.cuts.prev + HASH_DIGITS) {
            blank.copy_from_slice(&prev.hex_digits());
        }
        let behind_names = self.signed.get(self.cuts.after_event_type..).unwrap_or_default();
        let signed_bytes_hash = self.begun.clone().with(behind_names).finish();
        let signature = signature_member(&sign(&self.signed), &signed_bytes_hash);
        let (chain, tail) = (self.chain(), self.tail());
        let event_hash = self.begun_event.clone().with(chain).with(&signature).with(tail).finish();
        self.write_line(&event_hash, &signature, lines);
        self.event.prev_event_hash = prev;
        self.event.event_hash = event_hash;
        self.event
    }

    fn write_line(&self, event_hash: &Hash, signature: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.line_bytes());
        out.extend_from_slice(self.piece(0, self.cuts.after_created_at));
        out.extend_from_slice(EVENT_HASH);
        out.extend_from_slice(&event_hash.hex_digits());
        out.push(b'"');
        out.extend_from_slice(self.piece(self.cuts.after_created_at, self.cuts.after_event_type));
        out.extend_from_slice(PAYLOAD);
        out.extend_from_slice(&self.payload);
        out.extend_from_slice(self.chain());
        out.extend_from_slice(signature);
        out.extend_from_slice(self.tail());
        out.push(b'\n');
    }

    /// From the payload's hash to the place.
    fn chain(&self) -> &[u8] {
        self.piece(self.cuts.after_event_type, self.cuts.after_seq)
    }

    fn tail(&self) -> &[u8] {
        self.piece(self.cuts.after_seq, self.signed.len())
    }

    fn piece(&self, from: usize, to: usize) -> &[u8] {
        self.signed.get(from..to).unwrap_or_default()
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
    let mut out = Vec::with_capacity(SIGNATURE_BYTES);
    out.extend_from_slice(SIGNATURE);
    let digits = out.len();
    out.resize(digits + SIGNATURE_DIGITS, b'=');
    let room = out.get_mut(digits..).unwrap_or_default();
    // There is room for just as many.
    let _ = base64::engine::general_purpose::STANDARD.encode_slice(signature, room);
    out.extend_from_slice(SIGNED_BYTES_HASH);
    out.extend_from_slice(&signed_bytes_hash.hex_digits());
    out.extend_from_slice(SIGNATURE_END);
    out
}

/// The `payload_type` of an event type: in schema 1.1 there is one payload per type, of its name.
const fn payload_type(event_type: EventType) -> &'static str {
    event_type.as_str()
}
