//! The canonical writer, RFC 8785.

use super::{Map, Value, number, string};

/// The canonical bytes of `value`.
#[must_use]
pub fn to_bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out);
    out
}

/// Appends the canonical bytes of `value` to `out`.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => number::write(number, out),
        Value::String(text) => string::write(text, out),
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(element, out);
            }
            out.push(b']');
        }
        Value::Object(members) => write_object(members, out),
    }
}

fn write_object(members: &Map<String, Value>, out: &mut Vec<u8>) {
    // The map is in code point order, unless some crate of the build has asked `serde_json` to keep
    // members as they came. UTF-16 order differs from that of code points only where a character
    // above U+FFFF meets one from U+E000 up, so both agree unless a key holds such a character.
    let same_order = members.keys().all(|key| key.bytes().all(|byte| byte < 0xEE));
    out.push(b'{');
    if same_order && members.keys().is_sorted() {
        for (index, (key, value)) in members.iter().enumerate() {
            write_member(index, key, value, out);
        }
    } else {
        let mut sorted: Vec<_> = members.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
        for (index, (key, value)) in sorted.into_iter().enumerate() {
            write_member(index, key, value, out);
        }
    }
    out.push(b'}');
}

fn write_member(index: usize, key: &str, value: &Value, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
    string::write(key, out);
    out.push(b':');
    write(value, out);
}

/// Appends `text` as a canonical JSON string.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    string::write(text, out);
}
