//! Envelopes: what an agent is given, and what it gives back.
//!
//! Decides whether a document is an envelope and lists every fault if it is not. Members that no
//! table names are kept and never acted on. Leaves out routing, and writing the artifacts.

mod input;
mod migrate;
mod output;
mod walk;

use crate::json::JsonError;
use crate::shape::{Fault, Faults};

pub use input::{
    INPUT_CONTEXT_FIELDS, INPUT_ENVELOPE_FIELDS, INPUT_TASK_FIELDS, InputContext, InputEnvelope,
    InputPath, InputTask,
};
pub use migrate::{Migration, migrate_input, migrate_output};
pub use output::{
    ARTIFACT_FIELDS, Artifact, OUTPUT_ENVELOPE_FIELDS, Operation, OutputEnvelope, Recommendation,
};

/// Bytes of a whole envelope. Whole files travel in it, so it is larger than a ledger line.
pub const ENVELOPE_BYTES_MAX: usize = 16 << 20;
/// Bytes of `summary`, and of each note.
pub const NOTE_BYTES_MAX: usize = 64 << 10;
/// Entries of `notes` and of `prior_context`.
pub const NOTES_MAX: usize = 1000;
/// Entries of `artifacts`.
pub const ARTIFACTS_MAX: usize = 10_000;
/// Entries of one list in `paths`.
pub const PATHS_MAX: usize = 10_000;
/// Bytes of `workflow`, of `action` and of each key of `paths`.
pub const LABEL_BYTES_MAX: usize = 255;

/// Faults that the text of an error repeats: it is told to the agent, and recorded.
const SAID_MAX: usize = 200;

/// Why a document is not an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not JSON that every reader takes alike, or too large.
    #[error("invalid JSON: {0}")]
    Json(#[from] JsonError),
    /// JSON, but not this envelope. There is at least one fault.
    #[error("{}", list(.0))]
    Faults(Faults),
}

impl EnvelopeError {
    /// Everything that is wrong; a syntax error counts as one fault of the document.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        match self {
            Self::Json(_) => vec![Fault { pointer: String::new(), message: self.to_string() }],
            Self::Faults(faults) => faults.clone().into_vec(),
        }
    }
}

fn list(faults: &Faults) -> String {
    let mut lines: Vec<String> = faults.listed().take(SAID_MAX).map(ToString::to_string).collect();
    let more = faults.count() - lines.len();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("; ")
}
