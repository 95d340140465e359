//! Two signed statements of one log that cannot both be true.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::{EXTRACT_ENTRIES_MAX, LEAVES_MAX, NoProof, file_bytes, too_many};
use crate::hash::Hash;
use crate::shape::{Fault, Fields, Shape, Unknown, opt, req};

/// Two statements, and the keys by which they are shown to be of one log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Equivocation {
    /// The kind of file: `equivocation`.
    pub countersign: String,
    /// One statement.
    pub first: String,
    /// What the statements are.
    pub form: EquivocationForm,
    /// Lines of the log: its first event, and key events that the root signed.
    pub keys: Vec<String>,
    /// With the form `prefix`: all leaves of the newer tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<LeafHashes>,
    /// The schema of this object.
    pub schema_version: String,
    /// The other statement.
    pub second: String,
}

/// What two contradicting statements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EquivocationForm {
    /// Checkpoints of the same size with different roots.
    Checkpoints,
    /// Events of the same trace, or of the log, with the same number.
    Events,
    /// An older checkpoint, and a newer one whose tree does not begin with the older.
    Prefix,
}

/// Hashes of entries, from the first on. As text they are base64 of their bytes, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LeafHashes(pub Vec<Hash>);

/// Text that is not the base64 of hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("leaves are base64 of 32 bytes each")]
pub struct BadLeafHashes;

impl TryFrom<String> for LeafHashes {
    type Error = BadLeafHashes;

    fn try_from(text: String) -> Result<Self, BadLeafHashes> {
        let bytes = STANDARD.decode(text).map_err(|_| BadLeafHashes)?;
        let (leaves, rest) = bytes.as_chunks::<32>();
        if !rest.is_empty() {
            return Err(BadLeafHashes);
        }
        Ok(Self(leaves.iter().map(|leaf| Hash::from_bytes(*leaf)).collect()))
    }
}

impl From<LeafHashes> for String {
    fn from(LeafHashes(leaves): LeafHashes) -> Self {
        let bytes: Vec<u8> = leaves.iter().flat_map(|leaf| *leaf.as_bytes()).collect();
        STANDARD.encode(bytes)
    }
}

impl EquivocationForm {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Checkpoints => "checkpoints",
            Self::Events => "events",
            Self::Prefix => "prefix",
        }
    }
}

impl Equivocation {
    /// Its bytes, with a final line break.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        file_bytes(self)
    }

    /// Whether a reader would take it.
    ///
    /// # Errors
    /// If it holds more than a reader takes, or leaves where its form has none.
    pub fn within_limits(&self) -> Result<(), NoProof> {
        too_many("keys", self.keys.len(), EXTRACT_ENTRIES_MAX)?;
        let message = match (self.form, &self.leaves) {
            (EquivocationForm::Prefix, Some(LeafHashes(leaves))) => {
                return too_many("leaves", leaves.len(), LEAVES_MAX);
            }
            (EquivocationForm::Prefix, None) => "missing",
            (_, Some(_)) => "only the form `prefix` has leaves",
            (_, None) => return Ok(()),
        };
        let fault = Fault { pointer: "/leaves".to_owned(), message: message.to_owned() };
        Err(NoProof::Shape(fault))
    }
}

/// The members of an [`Equivocation`].
pub static EQUIVOCATION: Fields = Fields {
    name: "Equivocation",
    doc: "Two signed statements of one log that cannot both be true.",
    fields: &[
        req("countersign", Shape::OneOf(&["equivocation"])),
        req("first", Shape::Quoted),
        req("form", Shape::OneOf(&["checkpoints", "events", "prefix"])),
        req("keys", Shape::List(&Shape::Quoted)),
        opt("leaves", Shape::Quoted),
        req("schema_version", Shape::Version),
        req("second", Shape::Quoted),
    ],
    unknown: Unknown::Refused,
};
