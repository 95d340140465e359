//! Taking a line apart.
//!
//! Canonical lines are cut, never serialised again. Lines of schema 1.0 may have their members in
//! any order; only those are written anew before they are hashed.

use serde_json::Value;

use super::{Event, dialect_of};
use crate::hash::Hash;
use crate::json::line::{Line, scan};
use crate::json::{self, JsonError};
use crate::shape::Dialect;

/// What is wrong with the bytes of a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// No strict JSON; nothing can be read from it.
    #[error("not a JSON object: {0}")]
    Unreadable(JsonError),
    /// Readable, but schema 1.1 stores the canonical bytes and nothing else.
    #[error("not the canonical bytes of its content: {0}")]
    NotCanonical(JsonError),
}

/// A line, its content, and the hashes that its bytes have.
#[derive(Debug)]
pub struct Reading {
    /// The content.
    pub value: Value,
    /// The schema whose rules hold.
    pub dialect: Dialect,
    /// Set where the line must be canonical and is not.
    pub fault: Option<LineFault>,
    /// SHA-256 of the canonical event without `event_hash`.
    pub event_hash: Hash,
    /// SHA-256 of the canonical payload, where there is one.
    pub payload_hash: Option<Hash>,
    /// The canonical event without `event_hash`, `payload` and `signature`, and with the
    /// `payload_hash` that the payload has rather than the one that the event states.
    pub signed_bytes: Vec<u8>,
}

const NOT_IN_EVENT_HASH: [&str; 1] = ["event_hash"];
const NOT_SIGNED: [&str; 3] = ["event_hash", "payload", "signature"];

impl Reading {
    /// Takes apart one line, which is given without its line break.
    pub fn of(line: &[u8]) -> Result<Self, LineFault> {
        match scan(line) {
            Ok(scanned) => {
                // The scan proved that this text has one meaning, so the fast parser is safe here.
                let value: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
                let dialect = dialect_of(&value);
                Ok(Self::cut(&scanned, value, dialect, None))
            }
            Err(error) => {
                let value = json::read(line).map_err(LineFault::Unreadable)?;
                if !value.is_object() {
                    return Err(LineFault::Unreadable(error));
                }
                let dialect = dialect_of(&value);
                let fault = match dialect {
                    Dialect::V1_0 => None,
                    Dialect::V1_1 => Some(LineFault::NotCanonical(error)),
                };
                let canonical = json::to_bytes(&value);
                let scanned = scan(&canonical).map_err(LineFault::Unreadable)?;
                Ok(Self::cut(&scanned, value, dialect, fault))
            }
        }
    }

    fn cut(line: &Line<'_>, value: Value, dialect: Dialect, fault: Option<LineFault>) -> Self {
        let event_hash = Hash::of_pieces(&line.without(&NOT_IN_EVENT_HASH));
        let payload_hash = match line.member("payload") {
            None | Some(b"null") => None,
            Some(payload) => Some(Hash::of(payload)),
        };
        let mut signed_bytes = line.without(&NOT_SIGNED).concat();
        let stated = line.plain_string("payload_hash");
        if let Some((stated, computed)) = stated.zip(payload_hash.map(|hash| hash.to_hex()))
            // A misshapen hash is a fault of its own; the bytes are then taken as they were signed.
            && stated.parse::<Hash>().is_ok()
            && stated != computed
        {
            signed_bytes = with_payload_hash(&value, &computed);
        }
        Self { value, dialect, fault, event_hash, payload_hash, signed_bytes }
    }

    /// What the line says, if it has the members of an event.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        serde_json::from_value(self.value.clone()).ok()
    }

    /// As [`Self::event`], without a copy.
    #[must_use]
    pub fn into_event(self) -> Option<Event> {
        serde_json::from_value(self.value).ok()
    }
}

fn with_payload_hash(value: &Value, computed: &str) -> Vec<u8> {
    let mut members = value.as_object().cloned().unwrap_or_default();
    for name in NOT_SIGNED {
        members.remove(name);
    }
    members.insert("payload_hash".into(), Value::String(computed.to_owned()));
    json::to_bytes(&Value::Object(members))
}
