//! What a verifier found.
//!
//! Two runs over the same bytes give the same `report_digest`: it leaves out the report's id, its
//! time and how long things took.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::TraceKind;
use crate::hash::Hash;
use crate::json::{self, INTEGER_MAX};
use crate::shape::{Fields, Shape, Unknown, opt, req};
use crate::time::Timestamp;

/// The verdict on a trace and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerificationReport {
    /// The schema of this object.
    pub schema_version: String,
    /// Its id.
    pub report_id: String,
    /// The trace.
    pub trace_id: String,
    /// What the trace records.
    pub kind: Option<TraceKind>,
    /// Hash of the last event that was read.
    #[serde(default)]
    pub head: Option<Hash>,
    /// When it was verified.
    pub verified_at: Timestamp,
    /// The verdict on what was found.
    pub verification_status: VerificationStatus,
    /// Whether the trace had ended.
    pub closed: Closed,
    /// Whether the keys lead to a root that the reader trusts.
    pub signer: Signer,
    /// Fingerprint of the root key of the log.
    pub root: Option<Hash>,
    /// The rules that were applied.
    pub profile: String,
    /// The verdict in a sentence.
    pub summary: String,
    /// What was looked at.
    pub checks: Vec<Check>,
    /// What is wrong.
    pub failures: Vec<Failure>,
    /// What is worth knowing.
    pub warnings: Vec<Warning>,
    /// What people permitted, and how they were asked.
    #[serde(default)]
    pub approvals: Approvals,
    /// The last comparison of the trace with what its agent did, as the trace has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<CoverageClaim>,
    /// What this report does not show.
    pub not_proven: Vec<String>,
    /// Counts.
    pub metrics: Metrics,
    /// Digest of everything but `report_id`, `verified_at`, `metrics.elapsed_ms` and itself.
    pub report_digest: Option<Hash>,
}

impl VerificationReport {
    /// The digest that equal findings share.
    #[must_use]
    pub fn digest(&self) -> Hash {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(members) = value.as_object_mut() {
            for name in ["report_id", "verified_at", "report_digest"] {
                members.remove(name);
            }
            if let Some(metrics) = members.get_mut("metrics").and_then(Value::as_object_mut) {
                metrics.remove("elapsed_ms");
            }
        }
        Hash::of(&json::to_bytes(&value))
    }
}

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerificationStatus {
    /// Nothing wrong.
    Pass,
    /// Nothing wrong, but something to know.
    PassWithWarnings,
    /// Something is wrong.
    Fail,
}

impl VerificationStatus {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::PassWithWarnings => "pass-with-warnings",
            Self::Fail => "fail",
        }
    }
}

/// Whether a trace had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closed {
    /// By its own last event.
    Yes,
    /// It may go on.
    No,
    /// By a person.
    Aborted,
}

/// Whether the keys lead to a root that the reader trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signer {
    /// They do.
    Pinned,
    /// The trace may agree with itself, but anybody could have signed it.
    Unpinned,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its id, such as `CHK_CHAIN_CONTINUITY`.
    pub check_id: String,
    /// Its name for people.
    pub name: String,
    /// How it ended.
    pub status: CheckStatus,
    /// What it covered.
    pub scope: String,
    /// What it rests on.
    pub evidence: Vec<String>,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckStatus {
    /// It holds.
    Pass,
    /// It holds, with something to know.
    Warn,
    /// It does not hold.
    Fail,
    /// There was nothing to check it with.
    NotChecked,
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of wrong.
    pub failure_code: FailureCode,
    /// How bad.
    pub severity: Severity,
    /// The check that found it.
    pub check_id: String,
    /// Where: the event's id, if it can be read.
    pub event_id: Option<String>,
    /// Where: the place of the line in the ledger, from 0.
    pub index: Option<u64>,
    /// Where: the artifact.
    pub artifact_hash: Option<Hash>,
    /// What exactly.
    pub message: String,
    /// What to do about it.
    pub suggested_action: String,
}

/// Something to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What kind.
    pub warning_code: String,
    /// Where: the event's id.
    pub event_id: Option<String>,
    /// What exactly.
    pub message: String,
}

/// How often people approved something, by the channel that the approval names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvals {
    /// With a key that is protected by a passphrase.
    pub protected_key: u64,
    /// With a key that whatever runs under the same user could have used.
    pub unprotected_key: u64,
    /// At the prompt of the agent's own client.
    pub client_prompt: u64,
    /// In a way that is not stated.
    pub unstated: u64,
}

/// What a trace says of a comparison with what its agent did. Whoever compared says so; nothing
/// shows here that they were given everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageClaim {
    /// The event that says so.
    pub event_id: String,
    /// How much was not recorded.
    pub gaps: u64,
    /// What was looked at.
    pub sources: Vec<String>,
}

/// Counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// Events read.
    pub events: u64,
    /// Signatures that verified.
    pub signatures_verified: u64,
    /// Entries of the workspace log that were read.
    pub log_entries: u64,
    /// Events before the first broken link; the rest cannot be trusted to be in order.
    pub trusted_events: u64,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// The registry of failure codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FailureCode {
    /// A signature does not verify, or its key could not sign then.
    SigInvalid,
    /// A required signature is missing.
    SigMissing,
    /// The order of events is broken, or not what the workspace log says.
    ChainBreak,
    /// A recomputed hash differs from the stored one.
    HashMismatch,
    /// A referenced artifact is not in the store.
    ArtifactMissing,
    /// An artifact's bytes do not have its hash.
    ArtifactHashMismatch,
    /// A claim lacks evidence.
    ClaimUnproven,
    /// A role did what it may not do, or something happened that was not allowed then.
    RolePolicyViolation,
    /// An event or report violates its schema.
    SchemaInvalid,
}

impl FailureCode {
    /// The names of all codes.
    pub const NAMES: [&'static str; 9] = [
        "SIG_INVALID",
        "SIG_MISSING",
        "CHAIN_BREAK",
        "HASH_MISMATCH",
        "ARTIFACT_MISSING",
        "ARTIFACT_HASH_MISMATCH",
        "CLAIM_UNPROVEN",
        "ROLE_POLICY_VIOLATION",
        "SCHEMA_INVALID",
    ];

    /// How bad it is.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Self::SigInvalid | Self::SigMissing | Self::ChainBreak | Self::HashMismatch => {
                Severity::Critical
            }
            Self::ArtifactMissing | Self::ArtifactHashMismatch | Self::ClaimUnproven => {
                Severity::High
            }
            Self::RolePolicyViolation | Self::SchemaInvalid => Severity::Medium,
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SigInvalid => "SIG_INVALID",
            Self::SigMissing => "SIG_MISSING",
            Self::ChainBreak => "CHAIN_BREAK",
            Self::HashMismatch => "HASH_MISMATCH",
            Self::ArtifactMissing => "ARTIFACT_MISSING",
            Self::ArtifactHashMismatch => "ARTIFACT_HASH_MISMATCH",
            Self::ClaimUnproven => "CLAIM_UNPROVEN",
            Self::RolePolicyViolation => "ROLE_POLICY_VIOLATION",
            Self::SchemaInvalid => "SCHEMA_INVALID",
        }
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How bad a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A rule was broken.
    Medium,
    /// Evidence is missing or wrong.
    High,
    /// The record itself cannot be trusted.
    Critical,
}

const COUNT: Shape = Shape::Integer(0, INTEGER_MAX);

pub(crate) static CHECK: Fields = Fields {
    name: "Check",
    doc: "Something that was looked at.",
    fields: &[
        req("check_id", Shape::NonEmptyText),
        req("name", Shape::NonEmptyText),
        req("status", Shape::OneOf(&["pass", "warn", "fail", "not-checked"])),
        req("scope", Shape::Text),
        req("evidence", Shape::List(&Shape::Text)),
    ],
    unknown: Unknown::Kept,
};

pub(crate) static FAILURE: Fields = Fields {
    name: "Failure",
    doc: "Something wrong.",
    fields: &[
        req("failure_code", Shape::OneOf(&FailureCode::NAMES)),
        req("severity", Shape::OneOf(&["medium", "high", "critical"])),
        req("check_id", Shape::NonEmptyText),
        req("event_id", Shape::Nullable(&Shape::Text)),
        req("index", Shape::Nullable(&COUNT)),
        req("artifact_hash", Shape::Nullable(&Shape::Hash)),
        req("message", Shape::NonEmptyText),
        req("suggested_action", Shape::NonEmptyText),
    ],
    unknown: Unknown::Kept,
};

pub(crate) static WARNING: Fields = Fields {
    name: "Warning",
    doc: "Something to know.",
    fields: &[
        req("warning_code", Shape::NonEmptyText),
        req("event_id", Shape::Nullable(&Shape::Text)),
        req("message", Shape::NonEmptyText),
    ],
    unknown: Unknown::Kept,
};

static APPROVALS: Fields = Fields {
    name: "Approvals",
    doc: "How often people approved something, by the channel that the approval names.",
    fields: &[
        req("protected_key", COUNT),
        req("unprotected_key", COUNT),
        req("client_prompt", COUNT),
        req("unstated", COUNT),
    ],
    unknown: Unknown::Kept,
};

static COVERAGE: Fields = Fields {
    name: "CoverageClaim",
    doc: "What a trace says of a comparison with what its agent did.",
    fields: &[
        req("event_id", Shape::Text),
        req("gaps", COUNT),
        req("sources", Shape::List(&Shape::Text)),
    ],
    unknown: Unknown::Kept,
};

static METRICS: Fields = Fields {
    name: "Metrics",
    doc: "Counts of a run.",
    fields: &[
        req("events", COUNT),
        req("signatures_verified", COUNT),
        req("log_entries", COUNT),
        req("trusted_events", COUNT),
        req("elapsed_ms", COUNT),
    ],
    unknown: Unknown::Kept,
};

/// The members of a [`VerificationReport`].
pub static VERIFICATION_REPORT: Fields = Fields {
    name: "VerificationReport",
    doc: "The verdict on a trace and what it rests on.",
    fields: &[
        req("schema_version", Shape::Version),
        req("report_id", Shape::Ulid),
        req("trace_id", Shape::Text),
        req(
            "kind",
            Shape::Nullable(&Shape::OneOf(&["log", "session", "recording", "work", "flow"])),
        ),
        opt("head", Shape::Nullable(&Shape::Hash)),
        req("verified_at", Shape::Time),
        req("verification_status", Shape::OneOf(&["pass", "pass-with-warnings", "fail"])),
        req("closed", Shape::OneOf(&["yes", "no", "aborted"])),
        req("signer", Shape::OneOf(&["pinned", "unpinned"])),
        req("root", Shape::Nullable(&Shape::Hash)),
        req("profile", Shape::Name),
        req("summary", Shape::NonEmptyText),
        req("checks", Shape::List(&Shape::Object(&CHECK))),
        req("failures", Shape::List(&Shape::Object(&FAILURE))),
        req("warnings", Shape::List(&Shape::Object(&WARNING))),
        opt("approvals", Shape::Object(&APPROVALS)),
        opt("coverage", Shape::Object(&COVERAGE)),
        req("not_proven", Shape::List(&Shape::Text)),
        req("metrics", Shape::Object(&METRICS)),
        opt("report_digest", Shape::Nullable(&Shape::Hash)),
    ],
    unknown: Unknown::Kept,
};
