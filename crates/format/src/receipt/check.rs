//! What `check receipt` answers: what kind of document this is, and its receipt hash.

use super::action::{fault, note_unknown, wrong_type};
use super::record::RECORD_ONLY;
use super::{AGENT_ACTION, AgentAction, ReceiptForm, Record};
use crate::hash::Hash;
use crate::python::{self, PyObject, PyValue};
use crate::shape::Fault;

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
}

/// Says what the document is and computes its receipt hash, or names everything that is wrong.
///
/// An object with exactly the twelve or the thirteen hashed keys is hashed in that form. One that
/// has `receipt_hash` or `canonical_fields` is a record and must agree with itself. Any other is an
/// action, whose absent optional fields are null.
pub fn check(bytes: &[u8]) -> Result<CheckedReceipt, Vec<Fault>> {
    let members = match python::loads(bytes) {
        Ok(PyValue::Object(members)) => members,
        Ok(other) => return Err(vec![wrong_type("", "an object", &other)]),
        Err(error) => return Err(vec![fault("", &error.to_string())]),
    };
    if RECORD_ONLY.iter().any(|name| python::member(&members, name).is_some()) {
        return check_record(&members);
    }
    let exact_form = [ReceiptForm::Twelve, ReceiptForm::Thirteen]
        .into_iter()
        .find(|&form| has_exactly_the_fields_of(form, &members));
    let (kind, form) = match exact_form {
        Some(form) => (ReceiptKind::CanonicalFields, form),
        None => (ReceiptKind::Action, ReceiptForm::Twelve),
    };
    let unknown = note_unknown(&members, "", &[]);
    match AgentAction::from_members(&members, "") {
        Ok(action) if unknown.is_empty() => {
            let canonical = action.canonical(form);
            let hash = Hash::of(canonical.as_bytes());
            Ok(CheckedReceipt { kind, form, hash, canonical, action })
        }
        Ok(_) => Err(unknown),
        Err(faults) => Err([unknown, faults].concat()),
    }
}

fn check_record(members: &PyObject) -> Result<CheckedReceipt, Vec<Fault>> {
    let record = Record::from_members(members)?;
    let faults = record.verify();
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(CheckedReceipt {
        kind: ReceiptKind::Record,
        form: record.form(),
        hash: record.receipt_hash,
        canonical: record.canonical(),
        action: record.action,
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
