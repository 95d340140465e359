//! A line as an item of a list: whole if it is short, else its plain parts.

use countersign_format::json;
use serde_json::{Map, Value};

use super::EventItem;

/// Bytes of a line that is shown whole in a list.
const WHOLE_BYTES_MAX: usize = 16 << 10;
/// Members of a long payload that are shown, and entries of a list in it.
const MEMBERS_MAX: usize = 40;
const ENTRIES_MAX: usize = 20;
/// Characters of a text in a long payload that are shown.
const TEXT_CHARACTERS_MAX: usize = 200;
/// Links of one event that are followed.
const REFERENCES_MAX: usize = 200;
/// The members of an event that are short by themselves.
const SHORT: [&str; 14] = [
    "actor",
    "artifacts",
    "claims",
    "created_at",
    "event_hash",
    "event_id",
    "event_type",
    "payload_hash",
    "payload_type",
    "prev_event_hash",
    "schema_version",
    "seq",
    "signature",
    "trace_id",
];

/// A line for a list.
pub(in crate::viewer) fn item(index: u64, line: &[u8]) -> EventItem {
    let bytes = line.len() as u64;
    let unreadable =
        |why: String| EventItem { index, bytes, event: None, cut: false, unreadable: Some(why) };
    match json::read(line) {
        Ok(Value::Object(event)) if line.len() <= WHOLE_BYTES_MAX => EventItem {
            index,
            bytes,
            event: Some(Value::Object(event)),
            cut: false,
            unreadable: None,
        },
        Ok(Value::Object(event)) => {
            EventItem { index, bytes, event: Some(shortened(event)), cut: true, unreadable: None }
        }
        Ok(_) => unreadable("the line is no object".to_owned()),
        Err(error) => unreadable(error.to_string()),
    }
}

/// An event without what makes it long.
fn shortened(mut event: Map<String, Value>) -> Value {
    let payload = event.remove("payload");
    event.retain(|name, _| SHORT.contains(&name.as_str()));
    for (_, value) in &mut event {
        trim(value);
    }
    if let Some(payload) = payload {
        event.insert("payload".to_owned(), plain(payload));
    }
    Value::Object(event)
}

/// The first entries and characters, to any depth that a short member has.
fn trim(value: &mut Value) {
    match value {
        Value::String(text) => cut(text),
        Value::Array(entries) => {
            entries.truncate(ENTRIES_MAX);
            entries.iter_mut().for_each(trim);
        }
        Value::Object(members) => members.values_mut().for_each(trim),
        _ => {}
    }
}

/// The plain members of a payload: short texts, numbers, links and lists of texts.
pub(in crate::viewer) fn plain(payload: Value) -> Value {
    let Value::Object(members) = payload else { return payload };
    let keep = |value: Value| match value {
        Value::String(mut text) => {
            cut(&mut text);
            Some(Value::String(text))
        }
        Value::Object(ref object) if is_reference(object) => Some(value),
        Value::Array(entries) if entries.iter().all(Value::is_string) => {
            let mut list = Value::Array(entries);
            trim(&mut list);
            Some(list)
        }
        Value::Object(_) | Value::Array(_) => None,
        other => Some(other),
    };
    let kept = members.into_iter().filter_map(|(name, value)| Some((name, keep(value)?)));
    Value::Object(kept.take(MEMBERS_MAX).collect())
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARACTERS_MAX) {
        text.truncate(end);
        text.push('…');
    }
}

fn is_reference(object: &Map<String, Value>) -> bool {
    object.len() == 2
        && object.get("event_id").is_some_and(Value::is_string)
        && object.get("seq").is_some_and(Value::is_u64)
}

/// The links of a payload to other events: how the member is called, which event, and its place.
pub(in crate::viewer) fn references(payload: &Value) -> Vec<(String, String, u64)> {
    let mut found = Vec::new();
    collect("", payload, &mut found);
    found
}

fn collect(name: &str, value: &Value, found: &mut Vec<(String, String, u64)>) {
    match value {
        Value::Object(object) if is_reference(object) => {
            let id = object.get("event_id").and_then(Value::as_str).unwrap_or_default();
            let seq = object.get("seq").and_then(Value::as_u64).unwrap_or_default();
            let link = (name.to_owned(), id.to_owned(), seq);
            if found.len() < REFERENCES_MAX && !found.contains(&link) {
                found.push(link);
            }
        }
        Value::Object(object) => {
            object.iter().for_each(|(name, value)| collect(name, value, found))
        }
        Value::Array(entries) => entries.iter().for_each(|entry| collect(name, entry, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_line_keeps_its_plain_parts_and_says_that_it_was_cut() {
        let long = json!({
            "actor": { "agent_id": "a", "key_id": "k", "role": "planner" },
            "event_type": "final_statement_signed",
            "extra": "x",
            "payload": {
                "text": "é".repeat(9_000),
                "subject": { "event_id": "e", "seq": 3 },
                "reasons": vec!["r"; 30],
                "deep": { "a": [1] },
                "count": 7,
            },
        });
        let line = json::to_bytes(&long);
        let item = item(5, &line);
        assert_eq!((item.index, item.bytes, item.cut), (5, line.len() as u64, true));
        let expected = json!({
            "actor": { "agent_id": "a", "key_id": "k", "role": "planner" },
            "event_type": "final_statement_signed",
            "payload": {
                "text": format!("{}…", "é".repeat(200)),
                "subject": { "event_id": "e", "seq": 3 },
                "reasons": vec!["r"; 20],
                "count": 7,
            },
        });
        assert_eq!(item.event, Some(expected));
    }

    #[test]
    fn what_is_no_object_is_unreadable_with_the_reason() {
        assert_eq!(item(0, b"[1]").unreadable.as_deref(), Some("the line is no object"));
        assert!(item(0, b"{\"a\":1,\"a\":2}").unreadable.is_some_and(|why| why.contains("a")));
        assert!(item(0, b"{}").unreadable.is_none());
    }

    #[test]
    fn links_are_found_wherever_they_stand_in_a_payload() {
        let payload = json!({
            "subject": { "event_id": "e1", "seq": 1 },
            "list": [{ "event_id": "e2", "seq": 2 }, { "event_id": "e2", "seq": 2 }],
            "inner": { "of": { "event_id": "e3", "seq": 3 }, "not": { "event_id": "e4" } },
        });
        let link = |name: &str, id: &str, seq| (name.to_owned(), id.to_owned(), seq);
        let mut found = references(&payload);
        found.sort();
        assert_eq!(found, [link("list", "e2", 2), link("of", "e3", 3), link("subject", "e1", 1)]);
    }
}
