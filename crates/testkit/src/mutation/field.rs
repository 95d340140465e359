//! Edits of single members, by somebody who can compute every hash and sign nothing.

use std::fmt;

use countersign_format::hash::Hash;
use countersign_format::shape::Dialect;
use serde_json::{Map, Value, json};

use crate::tamper::{line_of, reseal, value_of};

/// What is done to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    /// A text gets a letter more, a number one more, a list its first item again.
    Grown,
    /// The last letter of a text is another; a number is one less; a list loses its first item.
    Altered,
    /// A text, list or object is empty, a number zero, a truth the other one.
    Emptied,
    /// It is null.
    Nulled,
    /// It is not there.
    Removed,
    /// An object has one more member.
    Joined,
}

const EDITS: [Edit; 6] =
    [Edit::Grown, Edit::Altered, Edit::Emptied, Edit::Nulled, Edit::Removed, Edit::Joined];

/// An edit of one member of one event.
#[derive(Debug, Clone)]
pub(super) struct FieldEdit {
    event: usize,
    pointer: String,
    edit: Edit,
}

impl fmt::Display for FieldEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of event {} {:?}, hashes made to fit", self.pointer, self.event, self.edit)
    }
}

/// Every edit of every member, however deep, that changes anything.
pub(super) fn edits(lines: &[Vec<u8>]) -> Vec<FieldEdit> {
    let mut found = Vec::new();
    for (event, line) in lines.iter().enumerate() {
        let value = value_of(line).unwrap();
        let mut pointers = Vec::new();
        each_pointer(&value, "", &mut pointers);
        for pointer in pointers {
            for edit in EDITS {
                let mut edited = value.clone();
                if edit.apply(&mut edited, &pointer) && edited != value {
                    found.push(FieldEdit { event, pointer: pointer.clone(), edit });
                }
            }
        }
    }
    found
}

fn each_pointer(value: &Value, at: &str, out: &mut Vec<String>) {
    let mut below = |name: &str, value: &Value| {
        let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        out.push(pointer.clone());
        each_pointer(value, &pointer, out);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| below(name, value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| below(&index.to_string(), item));
        }
        _ => {}
    }
}

impl Edit {
    /// Edits what `pointer` names; false where there is nothing of the kind to do.
    fn apply(self, value: &mut Value, pointer: &str) -> bool {
        if self == Self::Removed {
            return removed(value, pointer);
        }
        let Some(place) = value.pointer_mut(pointer) else { return false };
        let new = match (self, &*place) {
            (Self::Nulled, _) => Value::Null,
            (Self::Joined, Value::Object(members)) => {
                let more = Map::from_iter([("zz_more".to_owned(), json!(1))]);
                Value::Object(members.clone().into_iter().chain(more).collect())
            }
            (Self::Grown, Value::String(text)) => json!(format!("{text}x")),
            (Self::Grown, Value::Number(number)) => json!(number.as_i64().unwrap_or(0) + 1),
            (Self::Grown, Value::Array(items)) => {
                let first = items.first().cloned().unwrap_or_else(|| json!("x"));
                Value::Array(items.iter().cloned().chain([first]).collect())
            }
            (Self::Altered, Value::String(text)) => {
                let mut text = text.clone();
                let last = text.pop();
                text.push(if last == Some('0') { '1' } else { '0' });
                json!(text)
            }
            (Self::Altered, Value::Number(number)) => json!(number.as_i64().unwrap_or(0) - 1),
            (Self::Altered, Value::Array(items)) => {
                Value::Array(items.iter().skip(1).cloned().collect())
            }
            (Self::Emptied, Value::String(_)) => json!(""),
            (Self::Emptied, Value::Number(_)) => json!(0),
            (Self::Emptied, Value::Bool(truth)) => json!(!truth),
            (Self::Emptied, Value::Array(_)) => json!([]),
            (Self::Emptied, Value::Object(_)) => json!({}),
            _ => return false,
        };
        *place = new;
        true
    }
}

fn removed(value: &mut Value, pointer: &str) -> bool {
    let Some((parent, name)) = pointer.rsplit_once('/') else { return false };
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => members.remove(name).is_some(),
        _ => false,
    }
}

impl FieldEdit {
    /// The lines after the edit. What was edited stays so; every other hash and link fits.
    pub(super) fn applied(&self, lines: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut lines = lines.to_vec();
        let mut value = value_of(&lines[self.event]).unwrap();
        let stated = |value: &Value, name: &str| value.get(name).cloned();
        let edited = |name: &str| self.pointer == format!("/{name}");
        self.edit.apply(&mut value, &self.pointer);
        let kept: Vec<(&str, Option<Value>)> = ["payload_hash", "prev_event_hash", "event_hash"]
            .into_iter()
            .filter(|name| edited(name))
            .map(|name| (name, stated(&value, name)))
            .collect();
        let before = self.event.checked_sub(1).map(|before| stated_hash(&lines[before]));
        let mut head = reseal(&mut value, &before.unwrap_or(Hash::GENESIS));
        // The hash that was edited is not computed again, but what covers it is.
        for (name, found) in kept {
            put(&mut value, name, found);
            if name != "event_hash" {
                let members = value.as_object_mut().unwrap();
                members.remove("event_hash");
                head = Hash::of(&countersign_format::json::to_bytes(&value));
                put(&mut value, "event_hash", Some(json!(head)));
            }
        }
        lines[self.event] = line_of(&value, Dialect::V1_1);
        for line in &mut lines[self.event + 1..] {
            let mut value = value_of(line).unwrap();
            head = reseal(&mut value, &head);
            *line = line_of(&value, Dialect::V1_1);
        }
        lines
    }
}

fn stated_hash(line: &[u8]) -> Hash {
    value_of(line).unwrap()["event_hash"].as_str().unwrap().parse().unwrap()
}

fn put(value: &mut Value, name: &str, new: Option<Value>) {
    let members = value.as_object_mut().unwrap();
    match new {
        Some(new) => drop(members.insert(name.to_owned(), new)),
        None => drop(members.remove(name)),
    }
}
