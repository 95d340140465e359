//! Lines of a ledger as values, and values as lines: hashed, signed and linked by hand.
//!
//! The recorder's own sealing takes no part: it would refuse most of what is written here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::key::SecretKey;
use countersign_format::shape::Dialect;
use serde_json::{Map, Value, json};

/// The order in which writers of schema 1.0 have the members.
const FIRST_ORDER: [&str; 14] = [
    "schema_version",
    "trace_id",
    "event_id",
    "event_type",
    "created_at",
    "actor",
    "payload_hash",
    "payload_type",
    "claims",
    "artifacts",
    "prev_event_hash",
    "payload",
    "signature",
    "event_hash",
];

/// What a line says, if it is an object. Which of two equal keys counts is not defined.
#[must_use]
pub fn value_of(line: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Value>(line).ok().filter(Value::is_object)
}

/// The line of a value: canonical, or in the order of schema 1.0.
#[must_use]
pub fn line_of(value: &Value, dialect: Dialect) -> Vec<u8> {
    let Some(members) = value.as_object().filter(|_| dialect == Dialect::V1_0) else {
        return json::to_bytes(value);
    };
    let others = members.keys().map(String::as_str).filter(|name| !FIRST_ORDER.contains(name));
    let names = FIRST_ORDER.into_iter().chain(others).filter(|name| members.contains_key(*name));
    let written = names.map(|name| {
        let (key, value) = (json::to_bytes(&json!(name)), json::to_bytes(&members[name]));
        [key, value].join(&b':')
    });
    let written: Vec<Vec<u8>> = written.collect();
    [b"{".as_slice(), &written.join(&b','), b"}"].concat()
}

fn members(value: &mut Value) -> &mut Map<String, Value> {
    value.as_object_mut().unwrap()
}

/// States the hash that the payload has. A payload that lies in the store keeps its own.
pub(super) fn hash_payload(value: &mut Value) {
    let payload = value.get("payload").filter(|payload| !payload.is_null());
    if let Some(hash) = payload.map(|payload| Hash::of(&json::to_bytes(payload))) {
        members(value).insert("payload_hash".into(), json!(hash));
    }
}

/// States the hash that the event has, and gives it.
pub(super) fn hash_event(value: &mut Value) -> Hash {
    members(value).remove("event_hash");
    let hash = Hash::of(&json::to_bytes(value));
    members(value).insert("event_hash".into(), json!(hash));
    hash
}

/// What a signature covers.
fn signed_bytes(value: &Value) -> Vec<u8> {
    let mut signed = value.clone();
    for name in ["event_hash", "payload", "signature"] {
        members(&mut signed).remove(name);
    }
    json::to_bytes(&signed)
}

pub(super) fn sign(value: &mut Value, secret: &SecretKey) {
    let signed = signed_bytes(value);
    let signature = STANDARD.encode(secret.sign(&signed).as_bytes().as_slice());
    let signature = json!({
        "algorithm": "ed25519",
        "signature_b64": signature,
        "signed_bytes_hash": Hash::of(&signed),
    });
    members(value).insert("signature".into(), signature);
}

/// Links an event to the one before it and hashes it anew; the signature stays as it is.
pub fn reseal(value: &mut Value, prev: &Hash) -> Hash {
    members(value).insert("prev_event_hash".into(), json!(prev));
    hash_payload(value);
    hash_event(value)
}

/// Numbers an event; schema 1.0 has no numbers.
pub(super) fn number(value: &mut Value, seq: usize, dialect: Dialect) {
    if dialect == Dialect::V1_1 {
        members(value).insert("seq".into(), json!(seq));
    }
}

/// Calls `meet` for every reference from one event to another in `value`.
pub(super) fn each_reference(value: &mut Value, meet: &mut dyn FnMut(&str, &mut Value)) {
    match value {
        Value::Object(members) => {
            if members.len() == 2
                && let Some(id) = members.get("event_id").and_then(Value::as_str)
            {
                let id = id.to_owned();
                if let Some(seq) = members.get_mut("seq") {
                    meet(&id, seq);
                }
            }
            members.values_mut().for_each(|member| each_reference(member, meet));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_reference(item, meet)),
        _ => {}
    }
}

/// Sets what a pointer names; its parent must be there.
pub(super) fn set(value: &mut Value, pointer: &str, new: Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap_or_else(|| panic!("pointer `{pointer}`"));
    let name = last.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.insert(name, new)),
        Some(Value::Array(items)) => match name.parse::<usize>() {
            Ok(index) if index < items.len() => items[index] = new,
            _ => items.push(new),
        },
        _ => panic!("nothing at `{parent}` to set `{name}` in"),
    }
}

/// Removes what a pointer names.
pub(super) fn remove(value: &mut Value, pointer: &str) {
    let (parent, last) = pointer.rsplit_once('/').unwrap_or_else(|| panic!("pointer `{pointer}`"));
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.remove(last)),
        Some(Value::Array(items)) => drop(items.remove(last.parse().unwrap())),
        _ => panic!("nothing at `{parent}` to remove `{last}` from"),
    }
}
