//! What a verifier says of a proof. Never `pass`: that word is for whole traces.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::TraceKind;
use crate::hash::Hash;
use crate::json::{self, INTEGER_MAX};
use crate::report::{CHECK, Check, FAILURE, Failure, Signer, WARNING, Warning};
use crate::shape::{Fields, Shape, Unknown, req};
use crate::time::Timestamp;

/// What a proof of one event shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InclusionReport {
    /// The schema of this object.
    pub schema_version: String,
    /// Its id.
    pub report_id: String,
    /// When it was verified.
    pub verified_at: Timestamp,
    /// Whether the event is shown.
    pub inclusion_status: InclusionStatus,
    /// Whether the keys lead to a root that the reader trusts.
    pub signer: Signer,
    /// Fingerprint of the root key of the log.
    pub root: Option<Hash>,
    /// How many entries the log had when its keys were looked at.
    pub keys_as_of: u64,
    /// The event, as its line says.
    pub event: Option<ShownEvent>,
    /// The verdict in a sentence.
    pub summary: String,
    /// What was looked at.
    pub checks: Vec<Check>,
    /// What is wrong.
    pub failures: Vec<Failure>,
    /// What is worth knowing.
    pub warnings: Vec<Warning>,
    /// What this report does not show.
    pub not_proven: Vec<String>,
    /// Digest of everything but `report_id`, `verified_at` and itself.
    pub report_digest: Option<Hash>,
}

impl InclusionReport {
    /// The digest that equal findings share.
    #[must_use]
    pub fn digest(&self) -> Hash {
        digest(serde_json::to_value(self).unwrap_or_default())
    }
}

fn digest(mut report: Value) -> Hash {
    if let Some(members) = report.as_object_mut() {
        for name in ["report_id", "verified_at", "report_digest"] {
            members.remove(name);
        }
    }
    Hash::of(&json::to_bytes(&report))
}

/// Whether an event is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InclusionStatus {
    /// It is in the trace that the log knows.
    Included,
    /// It is not shown.
    Fail,
}

/// The event that a proof is about, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownEvent {
    /// Its trace.
    pub trace_id: String,
    /// What the trace records.
    pub kind: Option<TraceKind>,
    /// Its place in the trace.
    pub seq: u64,
    /// Its id.
    pub event_id: String,
    /// Its hash.
    pub event_hash: Hash,
    /// What happened.
    pub event_type: String,
    /// Who did it.
    pub agent_id: String,
    /// In which role.
    pub role: String,
    /// With which key.
    pub key_id: String,
    /// When, by the signer's word.
    pub created_at: Timestamp,
    /// Hashes of the artifacts that it names; a proof does not carry them.
    pub artifacts: Vec<Hash>,
}

/// What a proof of equivocation shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EquivocationReport {
    /// The schema of this object.
    pub schema_version: String,
    /// Its id.
    pub report_id: String,
    /// When it was verified.
    pub verified_at: Timestamp,
    /// Whether it is shown.
    pub equivocation_status: EquivocationStatus,
    /// Whether the keys lead to a root that the reader trusts.
    pub signer: Signer,
    /// Fingerprint of the root key of the log.
    pub root: Option<Hash>,
    /// What both statements are about, and how they differ.
    pub summary: String,
    /// Ids of the keys that signed one and the other.
    pub key_ids: Vec<String>,
    /// What is wrong.
    pub failures: Vec<Failure>,
    /// What this report does not show.
    pub not_proven: Vec<String>,
    /// Digest of everything but `report_id`, `verified_at` and itself.
    pub report_digest: Option<Hash>,
}

impl EquivocationReport {
    /// The digest that equal findings share.
    #[must_use]
    pub fn digest(&self) -> Hash {
        digest(serde_json::to_value(self).unwrap_or_default())
    }
}

/// Whether a contradiction is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EquivocationStatus {
    /// Keys of one log signed both.
    Proven,
    /// It is not shown.
    Fail,
}

const COUNT: Shape = Shape::Integer(0, INTEGER_MAX);
const SIGNER: Shape = Shape::OneOf(&["pinned", "unpinned"]);

static SHOWN_EVENT: Fields = Fields {
    name: "ShownEvent",
    doc: "The event that a proof is about, in its own words.",
    fields: &[
        req("trace_id", Shape::Ulid),
        req(
            "kind",
            Shape::Nullable(&Shape::OneOf(&["log", "session", "recording", "work", "flow"])),
        ),
        req("seq", COUNT),
        req("event_id", Shape::Ulid),
        req("event_hash", Shape::Hash),
        req("event_type", Shape::Name),
        req("agent_id", Shape::Name),
        req("role", Shape::Name),
        req("key_id", Shape::Name),
        req("created_at", Shape::Time),
        req("artifacts", Shape::List(&Shape::Hash)),
    ],
    unknown: Unknown::Kept,
};

/// The members of an [`InclusionReport`].
pub static INCLUSION_REPORT: Fields = Fields {
    name: "InclusionReport",
    doc: "What a proof of one event shows.",
    fields: &[
        req("schema_version", Shape::Version),
        req("report_id", Shape::Ulid),
        req("verified_at", Shape::Time),
        req("inclusion_status", Shape::OneOf(&["included", "fail"])),
        req("signer", SIGNER),
        req("root", Shape::Nullable(&Shape::Hash)),
        req("keys_as_of", COUNT),
        req("event", Shape::Nullable(&Shape::Object(&SHOWN_EVENT))),
        req("summary", Shape::NonEmptyText),
        req("checks", Shape::List(&Shape::Object(&CHECK))),
        req("failures", Shape::List(&Shape::Object(&FAILURE))),
        req("warnings", Shape::List(&Shape::Object(&WARNING))),
        req("not_proven", Shape::List(&Shape::Text)),
        req("report_digest", Shape::Nullable(&Shape::Hash)),
    ],
    unknown: Unknown::Kept,
};

/// The members of an [`EquivocationReport`].
pub static EQUIVOCATION_REPORT: Fields = Fields {
    name: "EquivocationReport",
    doc: "What a proof of equivocation shows.",
    fields: &[
        req("schema_version", Shape::Version),
        req("report_id", Shape::Ulid),
        req("verified_at", Shape::Time),
        req("equivocation_status", Shape::OneOf(&["proven", "fail"])),
        req("signer", SIGNER),
        req("root", Shape::Nullable(&Shape::Hash)),
        req("summary", Shape::NonEmptyText),
        req("key_ids", Shape::List(&Shape::Name)),
        req("failures", Shape::List(&Shape::Object(&FAILURE))),
        req("not_proven", Shape::List(&Shape::Text)),
        req("report_digest", Shape::Nullable(&Shape::Hash)),
    ],
    unknown: Unknown::Kept,
};
