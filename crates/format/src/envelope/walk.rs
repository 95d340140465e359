//! Taking a document apart while noting every fault.
//!
//! Text is kept as it was written, whatever its normalisation form: what an agent prints is
//! normalised by whoever records it. Only what no event could hold is refused.

use serde_json::{Map, Value};

use super::EnvelopeError;
use crate::json;
use crate::shape::{Checker, Dialect, Fault, Faults, LIST_FAULTS_MAX};
use crate::text;

pub(super) type Members = Map<String, Value>;

/// What is said of a member that is not there and has no former name.
pub(super) const MISSING: &str = "missing";

/// Reads a whole document with `read`, and gives what it made only if nothing was wrong.
pub(super) fn document<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Checker, Value) -> Option<T>,
) -> Result<T, EnvelopeError> {
    value(json::read_up_to(bytes, super::ENVELOPE_BYTES_MAX)?, read)
}

pub(super) fn value<T>(
    document: Value,
    read: impl FnOnce(&mut Checker, Value) -> Option<T>,
) -> Result<T, EnvelopeError> {
    let mut checker = Checker::new(Dialect::V1_1);
    let made = read(&mut checker, document);
    match (made, checker.found()) {
        (Some(made), faults) if faults.is_empty() => Ok(made),
        (_, mut faults) => {
            if faults.is_empty() {
                faults.note("", "not an envelope");
            }
            Err(EnvelopeError::Faults(faults))
        }
    }
}

/// Takes the member `key` out of `members`; `missing` is what to say if it is not there.
pub(super) fn required<T>(
    checker: &mut Checker,
    members: &mut Members,
    key: &str,
    missing: &str,
    read: impl FnOnce(&mut Checker, Value) -> Option<T>,
) -> Option<T> {
    let member = members.remove(key);
    let mut made = None;
    checker.below(key, |checker| match member {
        Some(member) => made = read(checker, member),
        None => checker.fault(missing),
    });
    made
}

/// As [`required`], for a member that may be absent. It may not be `null`.
pub(super) fn optional<T>(
    checker: &mut Checker,
    members: &mut Members,
    key: &str,
    read: impl FnOnce(&mut Checker, Value) -> Option<T>,
) -> Option<Option<T>> {
    if !members.contains_key(key) {
        return Some(None);
    }
    required(checker, members, key, MISSING, |checker, member| {
        if member.is_null() {
            checker.fault("must not be null: leave an optional field out instead");
            return None;
        }
        read(checker, member).map(Some)
    })
}

pub(super) fn object(checker: &mut Checker, value: Value) -> Option<Members> {
    match value {
        Value::Object(members) => Some(members),
        other => wrong_type(checker, "an object", &other),
    }
}

pub(super) fn boolean(checker: &mut Checker, value: Value) -> Option<bool> {
    match value {
        Value::Bool(boolean) => Some(boolean),
        other => wrong_type(checker, "true or false", &other),
    }
}

/// Any text, of any length that the document allows.
pub(super) fn raw_text(checker: &mut Checker, value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        other => wrong_type(checker, "a string", &other),
    }
}

/// Text of at most `max` bytes that an event can hold.
pub(super) fn short_text(checker: &mut Checker, value: Value, max: usize) -> Option<String> {
    let text = raw_text(checker, value)?;
    if text.len() > max {
        checker.fault(format!("is {} bytes long, the limit is {max}", text.len()));
        return None;
    }
    if let Err(fault) = text::check(&text::to_nfc(&text)) {
        checker.fault(fault.to_string());
        return None;
    }
    Some(text)
}

/// As [`short_text`], with something in it besides white space.
pub(super) fn said(checker: &mut Checker, value: Value, max: usize) -> Option<String> {
    let text = short_text(checker, value, max)?;
    if text.trim().is_empty() {
        checker.fault("must not be empty");
        return None;
    }
    Some(text)
}

/// An array of at most `max` elements; every one is read, even after a fault.
pub(super) fn list<T>(
    checker: &mut Checker,
    value: Value,
    max: usize,
    mut read: impl FnMut(&mut Checker, Value) -> Option<T>,
) -> Option<Vec<T>> {
    let Value::Array(elements) = value else {
        return wrong_type(checker, "an array", &value);
    };
    if elements.len() > max {
        checker.fault(format!("has {} entries, the limit is {max}", elements.len()));
        return None;
    }
    let mut made = Some(Vec::with_capacity(elements.len()));
    checker.within_list(|checker| {
        for (index, element) in elements.into_iter().enumerate() {
            checker.below(&index.to_string(), |checker| {
                match (read(checker, element), &mut made) {
                    (Some(element), Some(made)) => made.push(element),
                    _ => made = None,
                }
            });
        }
    });
    made
}

pub(super) fn notes(checker: &mut Checker, value: Value) -> Option<Vec<String>> {
    list(checker, value, super::NOTES_MAX, |checker, note| {
        short_text(checker, note, super::NOTE_BYTES_MAX)
    })
}

pub(super) fn wrong_type<T>(checker: &mut Checker, wanted: &str, value: &Value) -> Option<T> {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    checker.fault(format!("must be {wanted}, found {found}"));
    None
}

/// A hint for each member of `members` that `former` names, at the place `parent`.
pub(super) fn legacy_hints(parent: &str, members: &Members, former: &[(&str, &str)]) -> Vec<Fault> {
    let mut hints = Faults::listing(LIST_FAULTS_MAX);
    for (key, hint) in former.iter().filter(|(key, _)| members.contains_key(*key)) {
        hints.note(&format!("{parent}{}", pointer(&[key])), *hint);
    }
    hints.into_hints()
}

/// The JSON pointer of these steps.
pub(super) fn pointer(steps: &[&str]) -> String {
    let step = |step: &&str| format!("/{}", step.replace('~', "~0").replace('/', "~1"));
    steps.iter().map(step).collect()
}
