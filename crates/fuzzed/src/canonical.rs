//! The canonical writer and the proof that a line is canonical: one form, and only that one.

use countersign_format::json::line::scan;
use countersign_format::json::{self, Map, Value};
use countersign_format::text::to_nfc;

use crate::Target;
use crate::json::WORDS;

pub(crate) const TARGET: Target = Target {
    name: "canonical",
    holds: |data| holds(data, json::to_bytes),
    twin: |data| holds(data, |value| json::to_bytes(&normalised(value))),
    tries: 30_000,
    words: WORDS,
};

fn holds(data: &[u8], write: fn(&Value) -> Vec<u8>) {
    let read = json::read(data);
    let Ok(value) = read else {
        return assert!(scan(data).is_err(), "canonical, but no JSON");
    };
    let form = write(&value);
    assert_eq!(form, oracle(&value), "another writer writes otherwise");
    let again = json::read(&form).map(|again| write(&again));
    assert_eq!(again.as_deref(), Ok(form.as_slice()), "the form of the form is another");
    assert_eq!(scan(data).is_ok(), value.is_object() && form == data, "is it canonical?");
    if let Value::Object(members) = &value {
        cuts(members, &form, write);
    }
}

/// What is cut out of the line of an object is what would be written without it.
fn cuts(members: &Map<String, Value>, form: &[u8], write: fn(&Value) -> Vec<u8>) {
    let line = scan(form).expect("what was written is canonical");
    assert_eq!(line.without(&[]).concat(), form);
    for (index, (name, value)) in members.iter().enumerate().take(8) {
        // Names are compared as they stand in the line.
        let plain = name.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
        if !plain {
            continue;
        }
        assert_eq!(line.member(name), Some(&*write(value)), "member `{name}`");
        let mut left = members.clone();
        left.remove(name);
        let dropped = [name.as_str(), members.keys().nth(index / 2).map_or("", String::as_str)];
        assert_eq!(line.without(&[name]).concat(), write(&Value::Object(left.clone())));
        if dropped.iter().all(|name| !name.contains(['\\', '"']) && !has_control(name)) {
            dropped.iter().for_each(|name| drop(left.remove(*name)));
            assert_eq!(line.without(&dropped).concat(), write(&Value::Object(left)));
        }
    }
}

fn has_control(text: &str) -> bool {
    text.bytes().any(|byte| byte < b' ')
}

fn oracle(value: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("a value can be written")
}

/// A form that many would think harmless.
fn normalised(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(to_nfc(text)),
        Value::Array(elements) => elements.iter().map(normalised).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, it)| (to_nfc(name), normalised(it))).collect())
        }
        other => other.clone(),
    }
}
