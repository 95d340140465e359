//! Descriptors of stored evidence.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::hash::Hash;
use crate::json::INTEGER_MAX;
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

/// Where the bytes of the artifact `hash` lie, relative to the store.
#[must_use]
pub fn storage_uri(hash: &Hash) -> String {
    let hex = hash.to_hex();
    let (first, rest) = hex.split_at(2);
    let (second, _) = rest.split_at(2);
    format!("artifacts/sha256/{first}/{second}/{hex}")
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
