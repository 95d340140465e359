//! What of an event is the same in every run of the same thing.
//!
//! Leaves out the envelope that makes each event unique, and calls ids by the order in which they
//! came. Hashes of contents stay: runs that made different things are different.

use std::collections::BTreeMap;

use countersign_format::event::{ArtifactDescriptor, Event};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use serde_json::{Map, Value, json};

/// Members of payloads that differ between any two runs.
const ALWAYS_DIFFER: &[&str] = &[
    // Says again what its event says.
    "action",
    "action_id",
    "duration_ms",
    "elapsed_ms",
    "input_binding",
    "key_id",
    "keys_head",
    "log",
    "nonce",
    "parent_action_id",
    "parent_receipt_hash",
    "receipt_hash",
    "report_artifact",
    "report_id",
    "timestamp",
];
/// The payload's member that names a report, which has times and ids in it.
const REPORT: &str = "report_artifact";

/// What is left of an event.
pub(super) type Skeleton = Map<String, Value>;

/// The names that ids of one trace are given.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<String, String>,
    ids: u64,
}

impl Names {
    /// What is left of the event at `place` of its trace.
    pub(super) fn skeleton(&mut self, place: u64, event: &Event) -> Skeleton {
        self.known.insert(event.trace_id.clone(), "this trace".to_owned());
        self.known.insert(event.event_id.clone(), format!("event {place}"));
        let report = event.payload.get(REPORT).and_then(Value::as_str);
        let report = report.and_then(|hash| hash.parse::<Hash>().ok());
        let artifacts = event.artifacts.iter().filter(|found| Some(found.artifact_hash) != report);
        let artifacts = artifacts.map(|artifact| self.artifact(artifact)).collect();
        let mut actor = json!({ "agent_id": event.actor.agent_id, "role": event.actor.role });
        if let Value::Object(members) = &mut actor {
            members.extend(self.members(&event.actor.unknown));
        }
        let mut members = self.members(&event.unknown);
        members.insert("event_type".into(), json!(event.event_type.as_str()));
        // In schema 1.1 it is the type of the event once more.
        if event.payload_type != event.event_type.as_str() {
            members.insert("payload_type".into(), json!(event.payload_type));
        }
        members.insert("schema_version".into(), json!(event.schema_version));
        members.insert("actor".into(), actor);
        members.insert("claims".into(), self.value(&json!(event.claims)));
        members.insert("artifacts".into(), Value::Array(artifacts));
        members.insert("payload".into(), self.value(&event.payload));
        members
    }

    fn artifact(&mut self, artifact: &ArtifactDescriptor) -> Value {
        let mut members = self.members(&artifact.unknown);
        members.insert("artifact_hash".into(), json!(artifact.artifact_hash));
        members.insert("media_type".into(), json!(artifact.media_type));
        members.insert("encoding".into(), json!(artifact.encoding));
        members.insert("byte_size".into(), json!(artifact.byte_size));
        members.insert("redaction_status".into(), json!(artifact.redaction_status));
        let producer = self.text(&artifact.producer_event_id);
        members.insert("producer_event_id".into(), Value::String(producer));
        Value::Object(members)
    }

    fn members(&mut self, members: &Map<String, Value>) -> Map<String, Value> {
        let kept = members.iter().filter(|(name, _)| !ALWAYS_DIFFER.contains(&&***name));
        kept.map(|(name, value)| (name.clone(), self.value(value))).collect()
    }

    fn value(&mut self, value: &Value) -> Value {
        match value {
            // A reference is its place: the id says the same once more.
            Value::Object(members) if members.contains_key("seq") => {
                let mut members = self.members(members);
                members.remove("event_id");
                Value::Object(members)
            }
            Value::Object(members) => Value::Object(self.members(members)),
            Value::Array(values) => values.iter().map(|value| self.value(value)).collect(),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    /// The text, unless it is an id or a time.
    fn text(&mut self, text: &str) -> String {
        if text.parse::<Timestamp>().is_ok() {
            return "some time".to_owned();
        }
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        let (kind, id) = match text.strip_prefix("claim_") {
            Some(id) => ("claim", id),
            None => ("id", text),
        };
        if Ulid::parse_any_case(id).is_none() {
            return text.to_owned();
        }
        self.ids += 1;
        let name = format!("{kind} {}", self.ids);
        self.known.insert(text.to_owned(), name.clone());
        name
    }
}

/// A member that two skeletons do not agree on.
#[derive(Debug, PartialEq, serde::Serialize)]
pub(super) struct Difference {
    /// Where it stands: `payload.files[2].path`.
    pub(super) member: String,
    /// What the first has there, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) a: Option<Value>,
    /// What the second has there, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) b: Option<Value>,
}

/// Everything that differs between two skeletons: what happened first, then who did it, the
/// particulars, and the rest.
pub(super) fn differences(a: &Skeleton, b: &Skeleton) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_members("", a, b, &mut found);
    found.sort_by_key(|difference| {
        let first = ["event_type", "actor", "payload"];
        first.iter().position(|name| difference.member.starts_with(name)).unwrap_or(first.len())
    });
    found
}

fn compare_members(
    at: &str,
    a: &Map<String, Value>,
    b: &Map<String, Value>,
    found: &mut Vec<Difference>,
) {
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let member = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        compare(member, a.get(name), b.get(name), found);
    }
}

fn compare(member: String, a: Option<&Value>, b: Option<&Value>, found: &mut Vec<Difference>) {
    match (a, b) {
        (a, b) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => compare_members(&member, a, b, found),
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(format!("{member}[{index}]"), Some(a), Some(b), found);
            }
        }
        (a, b) => found.push(Difference { member, a: a.cloned(), b: b.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn ids_are_called_by_their_order_and_times_by_nothing() {
        let mut names = Names::default();
        let value = json!({
            "first": "01kggtstag494h28jgxgpqnqc9",
            "again": ["01kggtstag494h28jgxgpqnqc9", "claim_01kggtsvsc4vywcde6ht4r3fd0"],
            "when": "2026-01-31T23:59:59.123Z",
            "key_id": "34750f98bd59fcfc946da45aaabe933b",
            "text": "01kgg",
        });
        let expected = json!({
            "again": ["id 1", "claim 2"],
            "first": "id 1",
            "text": "01kgg",
            "when": "some time",
        });
        assert_eq!(names.value(&value), expected);
    }

    #[test]
    fn every_member_that_differs_is_named() {
        let a = object(json!({"x": {"y": [1, {"z": 2}], "gone": true}, "same": 1, "list": [1]}));
        let b = object(json!({"x": {"y": [1, {"z": 3}], "new": null}, "same": 1, "list": [1, 2]}));
        let expected = [
            ("list", Some(json!([1])), Some(json!([1, 2]))),
            ("x.gone", Some(json!(true)), None),
            ("x.new", None, Some(json!(null))),
            ("x.y[1].z", Some(json!(2)), Some(json!(3))),
        ];
        let expected: Vec<Difference> = expected
            .into_iter()
            .map(|(member, a, b)| Difference { member: member.to_owned(), a, b })
            .collect();
        assert_eq!(differences(&a, &b), expected);
        assert_eq!(differences(&a, &a), []);
    }
}
