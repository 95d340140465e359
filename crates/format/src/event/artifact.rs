//! Descriptors of stored evidence.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::Hash;
use crate::json::{self, INTEGER_MAX};
use crate::shape::{Fields, Shape, Unknown, req};
use crate::time::Timestamp;

/// What is known of an artifact. Descriptors live in events; the store holds bytes alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactDescriptor {
    /// SHA-256 of the raw bytes.
    pub artifact_hash: Hash,
    /// `sha256`.
    pub hash_algorithm: String,
    /// What the bytes are, such as `text/plain`.
    pub media_type: String,
    /// How the bytes are to be read, such as `utf-8` or `binary`.
    pub encoding: String,
    /// Number of raw bytes.
    pub byte_size: u64,
    /// When it was stored.
    pub created_at: Timestamp,
    /// The event that brought it, which may be the one that holds this descriptor.
    pub producer_event_id: String,
    /// Where it lies, relative to the workspace's store.
    pub storage_uri: String,
    /// Whether the bytes are whole.
    pub redaction_status: RedactionStatus,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl ArtifactDescriptor {
    /// Appends its canonical bytes. Sealing an event with evidence spends its time here, so what
    /// every descriptor has is written as it stands; and the time, which most often is that of the
    /// event, comes with its text.
    pub(super) fn write(&self, (now, now_text): &(Timestamp, String), out: &mut Vec<u8>) {
        if !self.unknown.is_empty() {
            json::write(&serde_json::to_value(self).unwrap_or_default(), out);
            return;
        }
        let text = |name: &[u8], text: &str, out: &mut Vec<u8>| {
            out.extend_from_slice(name);
            json::write_string(text, out);
        };
        out.extend_from_slice(b"{\"artifact_hash\":\"");
        out.extend_from_slice(&self.artifact_hash.hex_digits());
        out.extend_from_slice(b"\",\"byte_size\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.byte_size).as_bytes());
        if self.created_at == *now {
            text(b",\"created_at\":", now_text, out);
        } else {
            text(b",\"created_at\":", &self.created_at.to_string(), out);
        }
        text(b",\"encoding\":", &self.encoding, out);
        text(b",\"hash_algorithm\":", &self.hash_algorithm, out);
        text(b",\"media_type\":", &self.media_type, out);
        text(b",\"producer_event_id\":", &self.producer_event_id, out);
        text(b",\"redaction_status\":", self.redaction_status.as_str(), out);
        text(b",\"storage_uri\":", &self.storage_uri, out);
        out.push(b'}');
    }
}

/// Whether an artifact's bytes are whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RedactionStatus {
    /// Nothing was taken out.
    None,
    /// Something was replaced before the bytes were stored.
    Redacted,
    /// The bytes are gone and a record says why.
    RedactedWithPointer,
}

impl RedactionStatus {
    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Redacted => "redacted",
            Self::RedactedWithPointer => "redacted-with-pointer",
        }
    }

    /// The status of this name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Redacted, Self::RedactedWithPointer]
            .into_iter()
            .find(|status| status.as_str() == name)
    }
}

/// Where the bytes of the artifact `hash` lie, relative to the store.
#[must_use]
pub fn storage_uri(hash: &Hash) -> String {
    let hex = hash.to_hex();
    let (first, rest) = hex.split_at(2);
    let (second, _) = rest.split_at(2);
    format!("artifacts/sha256/{first}/{second}/{hex}")
}

/// Where the bytes of the artifact `hash` may lie until they are in their place, relative to the store.
#[must_use]
pub fn new_uri(hash: &Hash) -> String {
    format!("artifacts/new/{}", hash.to_hex())
}

/// The members of a descriptor.
pub static ARTIFACT_DESCRIPTOR: Fields = Fields {
    name: "ArtifactDescriptor",
    doc: "Describes stored bytes that serve as evidence.",
    fields: &[
        req("artifact_hash", Shape::Hash),
        req("hash_algorithm", Shape::OneOf(&["sha256"])),
        req("media_type", Shape::NonEmptyText),
        req("encoding", Shape::NonEmptyText),
        req("byte_size", Shape::Integer(0, INTEGER_MAX)),
        req("created_at", Shape::Time),
        req("producer_event_id", Shape::Ulid),
        req("storage_uri", Shape::StorePath),
        req("redaction_status", Shape::OneOf(&["none", "redacted", "redacted-with-pointer"])),
    ],
    unknown: Unknown::Kept,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The writer knows the members by heart; a member that is added must be added there as well.
    #[test]
    fn a_descriptor_is_written_as_its_value_would_be() {
        let artifact_hash = Hash::of(b"bytes");
        let mut artifact = ArtifactDescriptor {
            artifact_hash,
            hash_algorithm: "sha256".to_owned(),
            media_type: "text/\"plain\"\n".to_owned(),
            encoding: "utf-8 é".to_owned(),
            byte_size: 9_007_199_254_740_991,
            created_at: Timestamp::from_millis(1_800_000_000_123),
            producer_event_id: "01aryz6s410000000000000007".to_owned(),
            storage_uri: storage_uri(&artifact_hash),
            redaction_status: RedactionStatus::None,
            unknown: Map::new(),
        };
        for status in
            [RedactionStatus::None, RedactionStatus::Redacted, RedactionStatus::RedactedWithPointer]
        {
            artifact.redaction_status = status;
            for unknown in [None, Some("a_new_member")] {
                artifact.unknown.extend(unknown.map(|name| (name.to_owned(), Value::Bool(true))));
                let expected = json::to_bytes(&serde_json::to_value(&artifact).unwrap());
                for now in [Timestamp::EPOCH, artifact.created_at] {
                    let mut written = Vec::new();
                    artifact.write(&(now, now.to_string()), &mut written);
                    assert_eq!(written, expected, "{}", String::from_utf8_lossy(&written));
                }
            }
            artifact.unknown.clear();
        }
    }
}
