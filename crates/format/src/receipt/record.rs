//! A line of `actions.jsonl`: an action, its receipt hash and the fields that were hashed.

use super::action::{below, not_a, note_unknown, note_unwritable};
use super::check::{UNKNOWN, object};
use super::{AGENT_ACTION, AgentAction, ReceiptForm};
use crate::hash::{Hash, NotAHash};
use crate::python::{self, PyObject, PyValue};
use crate::shape::{Fault, Faults};

/// An action with its receipt. One that was read is well-formed; whether it is true is what
/// [`Record::verify`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// What happened.
    pub action: AgentAction,
    /// The hash that was stored with it.
    pub receipt_hash: Hash,
    /// What is said to have been hashed: exactly the fields of `form`.
    canonical_fields: PyObject,
    form: ReceiptForm,
}

/// The members that a record has beyond those of its action.
pub(super) const RECORD_ONLY: [&str; 2] = ["receipt_hash", "canonical_fields"];
/// Their places.
const RECEIPT_HASH: &str = "/receipt_hash";
const CANONICAL_FIELDS: &str = "/canonical_fields";

impl Record {
    /// A record of `action` with the hash that is due to it.
    #[must_use]
    pub fn new(action: AgentAction, form: ReceiptForm) -> Self {
        let canonical_fields = action.canonical_fields(form);
        let receipt_hash = action.receipt_hash(form);
        Self { action, receipt_hash, canonical_fields, form }
    }

    /// Reads one line. Refuses missing, unknown and mistyped fields, and `canonical_fields` whose
    /// keys are neither the twelve nor the thirteen; does not recompute the hash.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Fault>> {
        let members = object(bytes).map_err(Faults::into_vec)?;
        let mut faults = Faults::default();
        let record = Self::from_members(&members, &mut faults);
        note_unknown(&members, &RECORD_ONLY, UNKNOWN, &mut faults);
        match record {
            Some(record) if faults.is_empty() => Ok(record),
            _ => Err(faults.into_vec()),
        }
    }

    /// As [`AgentAction::from_members`], for a record.
    pub(super) fn from_members(members: &PyObject, faults: &mut Faults) -> Option<Self> {
        let action = AgentAction::from_members(members, faults);
        let receipt_hash = stored_hash(members, faults);
        let (canonical_fields, form) = stored_fields(members, faults)?;
        Some(Self { action: action?, receipt_hash: receipt_hash?, canonical_fields, form })
    }

    /// Which fields were hashed, as the keys of `canonical_fields` say.
    #[must_use]
    pub const fn form(&self) -> ReceiptForm {
        self.form
    }

    /// The fields that are said to have been hashed.
    #[must_use]
    pub const fn canonical_fields(&self) -> &PyObject {
        &self.canonical_fields
    }

    /// The text of the stored `canonical_fields`.
    #[must_use]
    pub fn canonical(&self) -> String {
        python::dumps(&PyValue::Object(self.canonical_fields.clone()))
    }

    /// The hash of the stored `canonical_fields`.
    #[must_use]
    pub fn computed_hash(&self) -> Hash {
        Hash::of(self.canonical().as_bytes())
    }

    /// The first field that the record itself and its `canonical_fields` give differently, with
    /// both texts. `1` and `1.0` differ; NaN and NaN do not.
    #[must_use]
    pub fn disagreement(&self) -> Option<(&'static str, String, String)> {
        self.disagreements().next()
    }

    fn disagreements(&self) -> impl Iterator<Item = (&'static str, String, String)> + '_ {
        let covered = self.action.members().into_iter().filter(|(name, _)| self.form.covers(name));
        covered.filter_map(|(name, own)| {
            let own = python::dumps(&own);
            let stored = python::member(&self.canonical_fields, name).map(python::dumps);
            let stored = stored.unwrap_or_default();
            (own != stored).then_some((name, own, stored))
        })
    }

    /// Everything in which the record does not agree with itself: its fields with its
    /// `canonical_fields`, and the hash of these with `receipt_hash`.
    #[must_use]
    pub fn verify(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        self.note_false(&mut faults);
        faults.into_vec()
    }

    pub(super) fn note_false(&self, faults: &mut Faults) {
        for (name, _, _) in self.disagreements() {
            let message = format!("differs from the record's own `{name}`");
            faults.note(&below(CANONICAL_FIELDS, name), message);
        }
        let computed = self.computed_hash();
        if computed != self.receipt_hash {
            faults.note(RECEIPT_HASH, format!("stored {}, computed {computed}", self.receipt_hash));
        }
    }

    /// The line without its line break, keys in CapSeal's order. Refuses what only Python reads:
    /// NaN, infinities, integers beyond ±(2^53 - 1), lone surrogates; and a record that does not
    /// agree with itself.
    pub fn to_line(&self) -> Result<String, Vec<Fault>> {
        let mut faults = Faults::default();
        self.note_false(&mut faults);
        let mut members = Vec::from(self.action.members());
        for (name, value) in &members {
            note_unwritable(value, &below("", name), &mut faults);
        }
        if !faults.is_empty() {
            return Err(faults.into_vec());
        }
        members.push(("receipt_hash", PyValue::String(self.receipt_hash.to_hex().into())));
        members.push(("canonical_fields", PyValue::Object(self.canonical_fields.clone())));
        let written = members
            .iter()
            .map(|(name, value)| format!("\"{name}\": {}", python::dumps_spaced(value)))
            .collect::<Vec<_>>();
        Ok(format!("{{{}}}", written.join(", ")))
    }
}

fn stored_hash(members: &PyObject, faults: &mut Faults) -> Option<Hash> {
    let wrong = match python::member(members, "receipt_hash") {
        Some(PyValue::String(text)) => match text.as_str().and_then(|text| text.parse().ok()) {
            Some(hash) => return Some(hash),
            None => NotAHash.to_string(),
        },
        Some(other) => not_a("a string", other),
        None => "missing".to_owned(),
    };
    faults.note(RECEIPT_HASH, wrong);
    None
}

/// The stored `canonical_fields`, whose keys say which form they are.
fn stored_fields(members: &PyObject, faults: &mut Faults) -> Option<(PyObject, ReceiptForm)> {
    let fields = match python::member(members, "canonical_fields") {
        Some(PyValue::Object(fields)) => fields,
        other => {
            let wrong = other.map_or_else(|| "missing".to_owned(), |it| not_a("an object", it));
            faults.note(CANONICAL_FIELDS, wrong);
            return None;
        }
    };
    let form = match python::member(fields, "policy_verdict") {
        Some(_) => ReceiptForm::Thirteen,
        None => ReceiptForm::Twelve,
    };
    let before = faults.count();
    for field in AGENT_ACTION.fields.iter().filter(|field| form.covers(field.name)) {
        if python::member(fields, field.name).is_none() {
            faults.note(&below(CANONICAL_FIELDS, field.name), "missing");
        }
    }
    faults.within_list(|faults| {
        for key in fields.keys().filter(|key| !key.as_str().is_some_and(|key| form.covers(key))) {
            faults.note(&below(CANONICAL_FIELDS, &key.to_lossy()), UNKNOWN);
        }
    });
    (faults.count() == before).then(|| (fields.clone(), form))
}
