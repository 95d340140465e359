//! Files that show one thing without the rest: an event in its trace, or that somebody said two
//! things that cannot both be true.
//!
//! Such a file is its canonical bytes, so nothing in it can be changed without a meaning. Here is
//! what it holds; what it proves is the verifier's to say.

mod answer;
mod equivocation;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use answer::{
    EQUIVOCATION_REPORT, EquivocationReport, EquivocationStatus, INCLUSION_REPORT, InclusionReport,
    InclusionStatus, ShownEvent,
};
pub use equivocation::{BadLeafHashes, EQUIVOCATION, Equivocation, EquivocationForm, LeafHashes};

use crate::hash::Hash;
use crate::json::{self, INTEGER_MAX, JsonError, JsonFault};
use crate::shape::{Checker, Dialect, Fault, Fields, Shape, Unknown, req};

/// Bytes of a whole file.
pub const PROOF_BYTES_MAX: usize = 64 << 20;
/// JSON elements of a whole file.
pub const PROOF_ELEMENTS_MAX: usize = 1_000_000;
/// Log entries of an extract, and lines of keys.
pub const EXTRACT_ENTRIES_MAX: usize = 100_000;
/// Bytes of an extract that stands by itself, and JSON elements in it.
pub const EXTRACT_BYTES_MAX: usize = 8 << 20;
const EXTRACT_ELEMENTS_MAX: usize = 400_000;
/// Leaves of a tree that is carried whole.
pub const LEAVES_MAX: usize = 1_000_000;
/// Nodes of a path: no tree that can be counted has longer ones.
pub const PATH_NODES_MAX: usize = 64;
/// What such a file begins with; the name of its kind follows.
pub const PROOF_PREFIX: &[u8] = b"{\"countersign\":\"";

/// One event of a trace with everything that shows that it is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventProof {
    /// The kind of file: `proof`.
    pub countersign: String,
    /// The line of the event.
    pub event: String,
    /// Where the log speaks of trees that hold both lines.
    pub extents: Vec<ExtentPaths>,
    /// The line of the first event of the trace.
    pub first: String,
    /// What must be known of the log.
    pub log: LogExtract,
    /// The schema of this object.
    pub schema_version: String,
}

/// The places of both events in the tree of one extent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentPaths {
    /// The entry of the log that names the tree.
    pub entry: u64,
    /// The inclusion proof of the event.
    pub event_path: Vec<Hash>,
    /// The inclusion proof of the first event.
    pub first_path: Vec<Hash>,
}

/// Some entries of a log and the checkpoint that covers them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogExtract {
    /// The signed note.
    pub checkpoint: String,
    /// The entries, in their order.
    pub entries: Vec<ExtractEntry>,
}

impl LogExtract {
    /// Its bytes, with a final line break.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        file_bytes(self)
    }

    /// Reads an extract that stands by itself.
    ///
    /// # Errors
    /// If it is not the canonical form of one within the limits.
    pub fn read(bytes: &[u8]) -> Result<Self, NoProof> {
        let text = bytes.strip_suffix(b"\n").ok_or(NoProof::NotCanonical)?;
        let scanned = json::line::scan_within(text, EXTRACT_BYTES_MAX, EXTRACT_ELEMENTS_MAX);
        scanned.map_err(|error| match error.fault {
            JsonFault::NotCanonical(_) => NoProof::NotCanonical,
            _ => NoProof::Unreadable(error),
        })?;
        // The scan proved that the text has one meaning. A tree of it could have many times its size.
        let misshapen = |pointer: String, message: String| Fault { pointer, message };
        let extract: Self = serde_json::from_slice(text)
            .map_err(|error| misshapen(String::new(), error.to_string()))?;
        let empty = extract.entries.iter().position(|entry| entry.line.is_empty());
        if let Some(index) = empty {
            let message = "must not be empty".to_owned();
            return Err(misshapen(format!("/entries/{index}/line"), message).into());
        }
        if extract.checkpoint.is_empty() {
            return Err(misshapen("/checkpoint".to_owned(), "must not be empty".to_owned()).into());
        }
        too_many("log entries", extract.entries.len(), EXTRACT_ENTRIES_MAX)?;
        let longest = extract.entries.iter().map(|it| it.path.len()).max().unwrap_or(0);
        too_many("nodes in a path", longest, PATH_NODES_MAX)?;
        Ok(extract)
    }
}

/// One entry of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtractEntry {
    /// Its place, from 0.
    pub index: u64,
    /// Its line.
    pub line: String,
    /// Its inclusion proof in the checkpoint's tree.
    pub path: Vec<Hash>,
}

/// A file that proves something by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortableProof {
    /// Of one event.
    Event(Box<EventProof>),
    /// That somebody said two things.
    Equivocation(Box<Equivocation>),
}

/// Why some bytes are no such file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProof {
    /// No strict JSON within the limits.
    #[error("not a proof: {0}")]
    Unreadable(#[from] JsonError),
    /// Another kind of document.
    #[error("not a proof: `countersign` is neither `proof` nor `equivocation`")]
    OtherKind,
    /// Members that are missing, too many or wrong.
    #[error("not a proof: {0}")]
    Shape(Fault),
    /// Readable, but spelled differently.
    #[error("not the canonical bytes of a proof")]
    NotCanonical,
    /// More of something than a proof may hold.
    #[error("a proof holds at most {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        max: usize,
    },
}

impl From<Fault> for NoProof {
    fn from(fault: Fault) -> Self {
        Self::Shape(fault)
    }
}

impl PortableProof {
    /// Reads a file. A line break at its end may be there or not.
    ///
    /// # Errors
    /// If it is not the canonical form of a proof within the limits.
    pub fn read(bytes: &[u8]) -> Result<Self, NoProof> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let value = json::read_within(bytes, PROOF_BYTES_MAX, PROOF_ELEMENTS_MAX)?;
        if json::to_bytes(&value) != bytes {
            return Err(NoProof::NotCanonical);
        }
        match value.get("countersign").and_then(Value::as_str) {
            Some("proof") => {
                let proof: EventProof = shaped(value, &EVENT_PROOF)?;
                proof.within_limits()?;
                Ok(Self::Event(Box::new(proof)))
            }
            Some("equivocation") => {
                let equivocation: Equivocation = shaped(value, &EQUIVOCATION)?;
                equivocation.within_limits()?;
                Ok(Self::Equivocation(Box::new(equivocation)))
            }
            _ => Err(NoProof::OtherKind),
        }
    }
}

impl EventProof {
    /// Its bytes, with a final line break.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        file_bytes(self)
    }

    /// Whether a reader would take it.
    ///
    /// # Errors
    /// If it holds more than a reader takes.
    pub fn within_limits(&self) -> Result<(), NoProof> {
        too_many("log entries", self.log.entries.len(), EXTRACT_ENTRIES_MAX)?;
        too_many("extents", self.extents.len(), EXTRACT_ENTRIES_MAX)?;
        let of_extents = self.extents.iter().flat_map(|it| [&it.event_path, &it.first_path]);
        let paths = self.log.entries.iter().map(|it| &it.path).chain(of_extents);
        let longest = paths.map(Vec::len).max().unwrap_or(0);
        too_many("nodes in a path", longest, PATH_NODES_MAX)
    }
}

/// The canonical bytes of a document, with a line break.
fn file_bytes(document: &impl Serialize) -> Vec<u8> {
    let mut bytes = json::to_bytes(&serde_json::to_value(document).unwrap_or_default());
    bytes.push(b'\n');
    bytes
}

fn too_many(what: &'static str, found: usize, max: usize) -> Result<(), NoProof> {
    if found > max { Err(NoProof::TooMany { what, max }) } else { Ok(()) }
}

/// The document that `value` is, if it has the members that `fields` says.
fn shaped<T: for<'de> Deserialize<'de>>(value: Value, fields: &Fields) -> Result<T, NoProof> {
    let mut checker = Checker::new(Dialect::V1_1);
    checker.object(fields, &value);
    let version = value.get("schema_version").and_then(Value::as_str).unwrap_or_default();
    if !version.starts_with("1.1.") {
        checker.below("schema_version", |below| below.fault("this reader knows schema 1.1"));
    }
    if let Some(fault) = checker.into_faults().into_iter().next() {
        return Err(fault.into());
    }
    serde_json::from_value(value).map_err(|error| {
        NoProof::Shape(Fault { pointer: String::new(), message: error.to_string() })
    })
}

const COUNT: Shape = Shape::Integer(0, INTEGER_MAX);

static EXTRACT_ENTRY: Fields = Fields {
    name: "ExtractEntry",
    doc: "One entry of a log, with its place in the tree of a checkpoint.",
    fields: &[
        req("index", COUNT),
        req("line", Shape::Quoted),
        req("path", Shape::List(&Shape::Hash)),
    ],
    unknown: Unknown::Refused,
};

/// The members of a [`LogExtract`].
pub static LOG_EXTRACT: Fields = Fields {
    name: "LogExtract",
    doc: "Some entries of a log and the checkpoint that covers them.",
    fields: &[
        req("checkpoint", Shape::Quoted),
        req("entries", Shape::List(&Shape::Object(&EXTRACT_ENTRY))),
    ],
    unknown: Unknown::Refused,
};

static EXTENT_PATHS: Fields = Fields {
    name: "ExtentPaths",
    doc: "The places of both events in the tree of one extent.",
    fields: &[
        req("entry", COUNT),
        req("event_path", Shape::List(&Shape::Hash)),
        req("first_path", Shape::List(&Shape::Hash)),
    ],
    unknown: Unknown::Refused,
};

/// The members of an [`EventProof`].
pub static EVENT_PROOF: Fields = Fields {
    name: "EventProof",
    doc: "One event of a trace with everything that shows that it is one.",
    fields: &[
        req("countersign", Shape::OneOf(&["proof"])),
        req("event", Shape::Quoted),
        req("extents", Shape::List(&Shape::Object(&EXTENT_PATHS))),
        req("first", Shape::Quoted),
        req("log", Shape::Object(&LOG_EXTRACT)),
        req("schema_version", Shape::Version),
    ],
    unknown: Unknown::Refused,
};

#[cfg(test)]
mod tests;
