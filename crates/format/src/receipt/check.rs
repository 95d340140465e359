//! What `check receipt` answers: what kind of document this is, and its receipt hash.

use super::action::{not_a, note_unknown};
use super::record::RECORD_ONLY;
use super::{AGENT_ACTION, AgentAction, ReceiptForm, Record};
use crate::hash::Hash;
use crate::python::{self, PyObject, PyValue};
use crate::shape::{Fault, Faults, LIST_FAULTS_MAX, Unknown};

/// What is said of a member that must not be there.
pub(super) const UNKNOWN: &str = "unknown field";
/// What is said of one that may.
const UNCOVERED: &str = "unknown field, which no receipt hash covers";

/// What a document with a receipt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptKind {
    /// Exactly the twelve or thirteen fields that are hashed.
    CanonicalFields,
    /// A whole record, with its hash and the fields that were hashed.
    Record,
    /// An action without a receipt; its twelve fields are hashed.
    Action,
}

impl ReceiptKind {
    /// Its name in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CanonicalFields => "canonical_fields",
            Self::Record => "record",
            Self::Action => "action",
        }
    }
}

/// A document with which nothing is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedReceipt {
    /// What it is.
    pub kind: ReceiptKind,
    /// Which fields were hashed.
    pub form: ReceiptForm,
    /// The receipt hash.
    pub hash: Hash,
    /// The ASCII text that was hashed.
    pub canonical: String,
    /// What happened.
    pub action: AgentAction,
    /// Members that an action and a record do not have. Nothing that a receipt says is about them.
    pub unknown: Vec<Fault>,
}

/// As [`check_with`], for a document in which nothing stands that a table does not name: where no
/// signature binds the document, an unknown member is bound by nothing.
pub fn check(bytes: &[u8]) -> Result<CheckedReceipt, Vec<Fault>> {
    check_with(bytes, Unknown::Refused).map_err(Faults::into_vec)
}

/// Says what the document is and computes its receipt hash, or names everything that is wrong.
///
/// An object with exactly the twelve or the thirteen hashed keys is hashed in that form. One that
/// has `receipt_hash` or `canonical_fields` is a record and must agree with itself. Any other is an
/// action, whose absent optional fields are null. Members that a table does not name are faults, or
/// are told and not looked at, as `unknown` says.
pub fn check_with(bytes: &[u8], unknown: Unknown) -> Result<CheckedReceipt, Faults> {
    let members = object(bytes)?;
    let mut faults = Faults::default();
    let is_record = RECORD_ONLY.iter().any(|name| python::member(&members, name).is_some());
    let checked = match is_record {
        true => record(&members, &mut faults),
        false => action(&members, &mut faults),
    };
    let more = if is_record { &RECORD_ONLY[..] } else { &[] };
    let mut told = Faults::listing(LIST_FAULTS_MAX);
    match unknown {
        Unknown::Refused => note_unknown(&members, more, UNKNOWN, &mut faults),
        Unknown::Kept => note_unknown(&members, more, UNCOVERED, &mut told),
    }
    match checked {
        Some(checked) if faults.is_empty() => {
            Ok(CheckedReceipt { unknown: told.into_hints(), ..checked })
        }
        _ => Err(faults),
    }
}

/// The members of a document that should be an object.
pub(super) fn object(bytes: &[u8]) -> Result<PyObject, Faults> {
    let wrong = match python::loads(bytes) {
        Ok(PyValue::Object(members)) => return Ok(members),
        Ok(other) => not_a("an object", &other),
        Err(error) => error.to_string(),
    };
    let mut faults = Faults::default();
    faults.note("", wrong);
    Err(faults)
}

fn action(members: &PyObject, faults: &mut Faults) -> Option<CheckedReceipt> {
    let exact_form = [ReceiptForm::Twelve, ReceiptForm::Thirteen]
        .into_iter()
        .find(|&form| has_exactly_the_fields_of(form, members));
    let (kind, form) = match exact_form {
        Some(form) => (ReceiptKind::CanonicalFields, form),
        None => (ReceiptKind::Action, ReceiptForm::Twelve),
    };
    let action = AgentAction::from_members(members, faults)?;
    let canonical = action.canonical(form);
    let hash = Hash::of(canonical.as_bytes());
    Some(CheckedReceipt { kind, form, hash, canonical, action, unknown: Vec::new() })
}

fn record(members: &PyObject, faults: &mut Faults) -> Option<CheckedReceipt> {
    let record = Record::from_members(members, faults)?;
    if faults.is_empty() {
        record.note_false(faults);
    }
    Some(CheckedReceipt {
        kind: ReceiptKind::Record,
        form: record.form(),
        hash: record.receipt_hash,
        canonical: record.canonical(),
        action: record.action,
        unknown: Vec::new(),
    })
}

fn has_exactly_the_fields_of(form: ReceiptForm, members: &PyObject) -> bool {
    members.len() == form.field_count()
        && AGENT_ACTION
            .fields
            .iter()
            .filter(|field| form.covers(field.name))
            .all(|field| python::member(members, field.name).is_some())
}
