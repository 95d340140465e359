//! The manifest of a file of ours: what CapSeal's reader looks for, what the trace comes to, and
//! every other member with its size and its hash.
//!
//! Everything in it follows from the trace, so that a reader makes it again and compares.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _, Serialize};
use serde_json::Value;

use crate::event::{SCHEMA_VERSION, TraceKind};
use crate::hash::Hash;
use crate::json::{self, INTEGER_MAX, JsonError, JsonFault, LINE_BYTES_MAX};
use crate::python::{self, PyObject, PyValue};
use crate::shape::{Checker, Dialect, Fault, Fields, Shape, Unknown, req};
use crate::time::Timestamp;

/// Bytes of a manifest: enough for as many members as a file may have.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// JSON elements of a manifest: four for each member.
const ELEMENTS_MAX: usize = 400_000;
/// JSON elements of it beside the list of members, with room for what is refused by its name.
const OTHER_ELEMENTS_MAX: usize = 64;

/// What a trace comes to, as far as a manifest tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapTrace {
    /// Its id.
    pub trace_id: String,
    /// What it records.
    pub kind: TraceKind,
    /// How many events it has.
    pub size: u64,
    /// Hash of the last one.
    pub head: Hash,
    /// Fingerprint of the root of its log.
    pub root: Hash,
    /// The name of its log.
    pub origin: String,
    /// The agent, as it calls itself.
    pub agent: String,
    /// What it is about.
    pub objective: String,
    /// When the last event was recorded.
    pub last_event_at: Timestamp,
    /// How many actions there are.
    pub actions: u64,
    /// The receipt hash of the last one.
    pub last_receipt: Option<Hash>,
}

/// The first member of a file of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapManifest {
    /// How many actions there are.
    pub actions_count: u64,
    /// The agent, as it calls itself.
    pub agent: String,
    /// How rows are archived; there are none.
    pub archive_format: String,
    /// Who wrote it.
    pub backend: String,
    /// The beginning of the last receipt hash.
    pub capsule_id: String,
    /// The last receipt hash; empty where there are no actions.
    pub chain_hash: String,
    /// What it says beyond CapSeal's format.
    pub countersign: CapOrigin,
    /// When the last event was recorded: sealed again, the file has the same bytes.
    pub created_at: Timestamp,
    /// Every other member, in order.
    pub members: Vec<CapMember>,
    /// Always 0.
    pub num_chunks: u64,
    /// Always empty.
    pub policy_hash: String,
    /// Always empty.
    pub policy_id: String,
    /// There is no algebraic proof.
    pub proof_generated: bool,
    /// Always 0.
    pub proof_size: u64,
    /// What there is instead.
    pub proof_type: String,
    /// There is no algebraic proof.
    pub proof_verified: bool,
    /// The last receipt hash once more.
    pub root_hex: String,
    /// The trace.
    pub run_id: String,
    /// What CapSeal's reader calls a session.
    pub run_type: String,
    /// What CapSeal's reader calls such a file.
    pub schema: String,
    /// The schema of this object.
    pub schema_version: String,
    /// What it is about.
    pub session_name: String,
    /// Always 0.
    pub total_rounds: u64,
    /// The trace.
    pub trace_id: String,
    /// What CapSeal's reader calls the check.
    pub verification_profile: String,
}

/// What a manifest says of the trace beyond CapSeal's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapOrigin {
    /// Hash of the last event.
    pub head: Hash,
    /// What it records.
    pub kind: TraceKind,
    /// The name of its log.
    pub origin: String,
    /// Fingerprint of the root of its log.
    pub root: Hash,
    /// How many events it has.
    pub size: u64,
}

/// A member as the manifest lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapMember {
    /// Its name.
    pub name: String,
    /// The hash of its bytes.
    pub sha256: Hash,
    /// How many there are.
    pub size: u64,
}

/// Why some bytes are no manifest of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoManifest {
    /// No strict JSON within the limits.
    #[error("`manifest.json` cannot be read: {0}")]
    Unreadable(#[from] JsonError),
    /// Members that are missing, too many or wrong.
    #[error("`manifest.json`: {0}")]
    Shape(Fault),
    /// Readable, but spelled differently.
    #[error("`manifest.json` is not its canonical bytes")]
    NotCanonical,
}

impl CapManifest {
    /// The manifest of a file with this trace and these members.
    #[must_use]
    pub fn of(trace: &CapTrace, members: Vec<CapMember>) -> Self {
        let receipt = trace.last_receipt.map(|hash| hash.to_hex()).unwrap_or_default();
        Self {
            actions_count: trace.actions,
            agent: trace.agent.clone(),
            archive_format: "json".to_owned(),
            backend: "countersign".to_owned(),
            capsule_id: receipt.get(..16).unwrap_or_default().to_owned(),
            chain_hash: receipt.clone(),
            countersign: CapOrigin {
                head: trace.head,
                kind: trace.kind,
                origin: trace.origin.clone(),
                root: trace.root,
                size: trace.size,
            },
            created_at: trace.last_event_at,
            members,
            num_chunks: 0,
            policy_hash: String::new(),
            policy_id: String::new(),
            proof_generated: false,
            proof_size: 0,
            proof_type: PROOF_TYPE.to_owned(),
            proof_verified: false,
            root_hex: receipt,
            run_id: trace.trace_id.clone(),
            run_type: "mcp".to_owned(),
            schema: "run_cap_v1".to_owned(),
            schema_version: SCHEMA_VERSION.to_owned(),
            session_name: trace.objective.clone(),
            total_rounds: 0,
            trace_id: trace.trace_id.clone(),
            verification_profile: "receipt_chain".to_owned(),
        }
    }

    /// Its bytes, with a final line break.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = json::to_bytes(&serde_json::to_value(self).unwrap_or_default());
        bytes.push(b'\n');
        bytes
    }

    /// Whether these bytes mean to be a manifest of ours rather than of CapSeal's.
    #[must_use]
    pub fn is_ours(bytes: &[u8]) -> bool {
        serde_json::Deserializer::from_slice(bytes).deserialize_map(Mark).unwrap_or(false)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It is not the canonical form of one.
    pub fn read(bytes: &[u8]) -> Result<Self, NoManifest> {
        let text = bytes.strip_suffix(b"\n").ok_or(NoManifest::NotCanonical)?;
        let line =
            json::line::scan_within(text, MANIFEST_BYTES_MAX, ELEMENTS_MAX).map_err(|error| {
                match error.fault {
                    JsonFault::NotCanonical(_) => NoManifest::NotCanonical,
                    _ => NoManifest::Unreadable(error),
                }
            })?;
        // The list of members is most of it, and never becomes a tree.
        let others = line.without(&[MEMBERS]).concat();
        let mut value = json::read_within(&others, LINE_BYTES_MAX, OTHER_ELEMENTS_MAX)?;
        let listed = line.member(MEMBERS);
        if let (Some(_), Value::Object(others)) = (listed, &mut value) {
            others.insert(MEMBERS.to_owned(), Value::Array(Vec::new()));
        }
        let mut checker = Checker::new(Dialect::V1_1);
        checker.check(&Shape::Object(&CAP_MANIFEST), &value);
        if let Some(fault) = checker.into_faults().into_iter().next() {
            return Err(NoManifest::Shape(fault));
        }
        let misshapen = |pointer: String, error: &dyn fmt::Display| {
            NoManifest::Shape(Fault { pointer, message: error.to_string() })
        };
        let manifest = serde_json::from_value::<Self>(value);
        let manifest = manifest.map_err(|error| misshapen(String::new(), &error))?;
        let members: Vec<CapMember> = serde_json::from_slice(listed.unwrap_or_default())
            .map_err(|error| misshapen(format!("/{MEMBERS}"), &error))?;
        let checker = Checker::new(Dialect::V1_1);
        let wrong = members.iter().position(|it| !checker.takes(&Shape::NonEmptyText, &it.name));
        match wrong {
            Some(index) => Err(misshapen(
                format!("/{MEMBERS}/{index}/name"),
                &"must be a text in NFC that is not empty",
            )),
            None => Ok(Self { members, ..manifest }),
        }
    }

    /// The first member in which the two say different things, with both texts. The list of members
    /// is not looked at.
    #[must_use]
    pub fn disagreement(&self, other: &Self) -> Option<(String, String, String)> {
        let fields = |it: &Self| match serde_json::to_value(it) {
            Ok(Value::Object(members)) => members,
            _ => serde_json::Map::new(),
        };
        let (own, others) = (fields(self), fields(other));
        let names = own.keys().filter(|name| *name != "members");
        let mut differing = names.filter_map(|name| {
            let (own, other) = (own.get(name)?, others.get(name)?);
            (own != other).then(|| (name.clone(), own.to_string(), other.to_string()))
        });
        differing.next()
    }
}

/// What stands for a proof: whoever reads the file computes everything again.
pub const PROOF_TYPE: &str = "recomputation";
const MEMBERS: &str = "members";

/// Looks for the member that only manifests of ours have, and keeps nothing of the others.
struct Mark;

impl<'de> Visitor<'de> for Mark {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            found |= name == "countersign";
            members.next_value::<IgnoredAny>()?;
        }
        Ok(found)
    }
}

/// The bytes of `agent_capsule.json`, which CapSeal's reader wants: the end of the chain of receipts.
/// It commits to no rows, since nothing is proven by them.
#[must_use]
pub fn capsule(trace: &CapTrace) -> Vec<u8> {
    let text = |text: &str| PyValue::String(text.into());
    let object = |members: &[(&str, PyValue)]| {
        let members = members.iter().map(|(name, value)| ((*name).into(), value.clone()));
        PyValue::Object(members.collect::<PyObject>())
    };
    let count = PyValue::Integer(i64::try_from(trace.actions).unwrap_or(i64::MAX).into());
    let receipt = trace.last_receipt.map(|hash| hash.to_hex()).unwrap_or_default();
    let inputs = object(&[("final_receipt_hash", text(&receipt)), ("num_actions", count)]);
    let statement = object(&[("public_inputs", inputs), ("statement_version", text("1.0"))]);
    let hash = |value: &PyValue| text(&Hash::of(python::dumps_spaced(value).as_bytes()).to_hex());
    let mut members = vec![
        ("capsule_version", text("1.0")),
        ("schema", text("agent_capsule_v1")),
        ("statement_hash", hash(&statement)),
        ("statement", statement),
        ("timestamp", text(&trace.last_event_at.to_string())),
        (
            "verification",
            object(&[("constraints_valid", PyValue::Bool(true)), ("proof_type", text(PROOF_TYPE))]),
        ),
    ];
    members.push(("capsule_hash", hash(&object(&members))));
    let mut bytes = python::dumps_spaced(&object(&members)).into_bytes();
    bytes.push(b'\n');
    bytes
}

const COUNT: Shape = Shape::Integer(0, INTEGER_MAX);

static ORIGIN: Fields = Fields {
    name: "CapOrigin",
    doc: "What a manifest says of the trace beyond CapSeal's format.",
    fields: &[
        req("head", Shape::Hash),
        req("kind", Shape::OneOf(&["session", "recording", "work", "flow"])),
        req("origin", Shape::NonEmptyText),
        req("root", Shape::Hash),
        req("size", COUNT),
    ],
    unknown: Unknown::Refused,
};

static MEMBER: Fields = Fields {
    name: "CapMember",
    doc: "A member as the manifest lists it.",
    fields: &[req("name", Shape::NonEmptyText), req("sha256", Shape::Hash), req("size", COUNT)],
    unknown: Unknown::Refused,
};

/// The members of a [`CapManifest`].
pub static CAP_MANIFEST: Fields = Fields {
    name: "CapManifest",
    doc: "The first member of a sealed file: what is in it.",
    fields: &[
        req("actions_count", COUNT),
        req("agent", Shape::Text),
        req("archive_format", Shape::OneOf(&["json"])),
        req("backend", Shape::OneOf(&["countersign"])),
        req("capsule_id", Shape::Text),
        req("chain_hash", Shape::Text),
        req("countersign", Shape::Object(&ORIGIN)),
        req("created_at", Shape::Time),
        req("members", Shape::List(&Shape::Object(&MEMBER))),
        req("num_chunks", COUNT),
        req("policy_hash", Shape::Text),
        req("policy_id", Shape::Text),
        req("proof_generated", Shape::Bool),
        req("proof_size", COUNT),
        req("proof_type", Shape::OneOf(&[PROOF_TYPE])),
        req("proof_verified", Shape::Bool),
        req("root_hex", Shape::Text),
        req("run_id", Shape::NonEmptyText),
        req("run_type", Shape::OneOf(&["mcp"])),
        req("schema", Shape::OneOf(&["run_cap_v1"])),
        req("schema_version", Shape::Version),
        req("session_name", Shape::Text),
        req("total_rounds", COUNT),
        req("trace_id", Shape::NonEmptyText),
        req("verification_profile", Shape::OneOf(&["receipt_chain"])),
    ],
    unknown: Unknown::Refused,
};
