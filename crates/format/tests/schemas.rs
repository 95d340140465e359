//! The JSON Schemas: the checked-in files are those that the tables give, and they say of a
//! document what the checkers say of it.

#![cfg(test)]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use countersign_format::event::{EventType, PROTOCOL_EVENT, SignatureFaults, check_event, payload};
use countersign_format::schemas;
use countersign_format::shape::{Checker, Dialect, Fields, Shape, Unknown};
use serde_json::{Value, json};

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the schemas lie in files")]
fn the_checked_in_schemas_are_the_generated_ones() {
    let directory = repository().join("docs/formats/schemas");
    let mut found: Vec<String> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let mut expected: Vec<String> =
        schemas::all().iter().map(|(name, _)| schemas::file_name(name)).collect();
    expected.sort();
    assert_eq!(found, expected);
    for (name, schema) in schemas::all() {
        let text = std::fs::read_to_string(directory.join(schemas::file_name(name))).unwrap();
        assert_eq!(text, schemas::file_text(&schema), "{name}: run `cargo xtask vectors`");
    }
}

#[test]
fn every_schema_names_itself_and_its_draft() {
    for (name, schema) in schemas::all() {
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["$id"], format!("urn:countersign:schema:{name}"));
        assert_eq!(schema["type"], "object");
    }
}

/// A value of this shape, with every optional member.
fn sample(shape: &Shape) -> Value {
    use base64::Engine as _;
    match shape {
        Shape::Any => json!({ "any": [1.5, null, "thing"] }),
        Shape::Bool => json!(true),
        Shape::Text | Shape::NonEmptyText | Shape::Quoted => json!("some text"),
        Shape::Integer(min, _) => json!(min),
        Shape::Number => json!(0.25),
        Shape::Hash => json!("0f".repeat(32)),
        Shape::Ulid => json!("01kj0000000000000000000007"),
        Shape::ClaimId => json!("claim_01kj0000000000000000000007"),
        Shape::Name => json!("planner-1"),
        Shape::Time => json!("2026-01-31T23:59:59.123Z"),
        Shape::Version => json!("1.1.0"),
        Shape::Base64(length) => {
            json!(base64::engine::general_purpose::STANDARD.encode(vec![7; *length]))
        }
        Shape::StorePath => json!("artifacts/sha256/0f/0f/0f0f"),
        Shape::OneOf(values) => json!(values.last().unwrap()),
        Shape::Nullable(inner) => sample(inner),
        Shape::List(inner) => json!([sample(inner), sample(inner)]),
        Shape::MapOf(inner) => json!({ "key": sample(inner) }),
        Shape::Object(fields) => sample_object(fields),
    }
}

fn sample_object(fields: &Fields) -> Value {
    fields.fields.iter().map(|field| (field.name.to_owned(), sample(&field.shape))).collect()
}

fn sample_event(event_type: EventType) -> Value {
    let mut event = sample_object(&PROTOCOL_EVENT);
    event["event_type"] = json!(event_type.as_str());
    event["payload_type"] = json!(event_type.as_str());
    event["raw_clock"] = json!("1999-12-31T23:59:59.999Z");
    event["payload"] = sample_object(payload::fields(event_type));
    event
}

/// The pointers of everything below `value`, members and elements.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let mut step = |key: &str, inner: &Value| {
        let place = format!("{at}/{key}");
        places(inner, &place, out);
        out.push(place);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(key, inner)| step(key, inner)),
        Value::Array(elements) => {
            elements.iter().enumerate().for_each(|(at, inner)| step(&at.to_string(), inner));
        }
        _ => {}
    }
}

/// `whole`, and twins of it in which one place is missing or holds something else.
fn twins(whole: &Value, below: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let start = whole.pointer(below).unwrap();
    places(start, below, &mut found);
    let mut twins = vec![("whole".to_owned(), whole.clone())];
    for place in found {
        let (parent, key) = place.rsplit_once('/').unwrap();
        let mut twin = whole.clone();
        if let Some(members) = twin.pointer_mut(parent).unwrap().as_object_mut() {
            members.remove(key);
            twins.push((format!("{place} removed"), twin));
        }
        for other in [json!(null), json!(-1.5), json!(""), json!("§"), json!({}), json!([1])] {
            let mut twin = whole.clone();
            *twin.pointer_mut(&place).unwrap() = other.clone();
            twins.push((format!("{place} is {other}"), twin));
        }
    }
    let mut more = whole.clone();
    more.pointer_mut(below).unwrap()["member_of_tomorrow"] = json!(1);
    twins.push((format!("{below}/member_of_tomorrow added"), more));
    twins
}

/// Has the schemas judge the cases and wants the judgement that each carries.
#[expect(clippy::disallowed_methods, reason = "the test asks another implementation")]
fn judge(cases: &[Value]) {
    let python = std::env::var_os("COUNTERSIGN_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let mut child = Command::new(python)
        .arg(repository().join("tests/independent/schema.py"))
        .arg(repository().join("docs/formats/schemas"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs `python3`");
    let mut stdin = child.stdin.take().unwrap();
    // The reader prints little, and only we write: the pipes cannot block each other.
    for case in cases {
        writeln!(stdin, "{case}").unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn case(schema: &str, name: String, document: Value, valid: bool) -> Value {
    json!({ "schema": schema, "name": name, "document": document, "valid": valid })
}

#[test]
fn schemas_take_and_refuse_the_same_documents_as_the_tables() {
    let mut cases = Vec::new();
    for (name, fields) in schemas::DOCUMENTS {
        let mut refused = 0;
        for (twin, document) in twins(&sample_object(fields), "") {
            let mut checker = Checker::new(Dialect::V1_1);
            checker.object(fields, &document);
            let valid = checker.into_faults().is_empty();
            assert!(valid || twin != "whole", "{name}");
            assert!(!twin.ends_with("added") || valid == (fields.unknown == Unknown::Kept));
            refused += usize::from(!valid);
            cases.push(case(name, twin, document, valid));
        }
        assert!(refused > 10, "{name}");
    }
    judge(&cases);
}

#[test]
fn the_schema_of_events_agrees_with_their_checker_for_every_type() {
    let mut cases = Vec::new();
    for &event_type in EventType::ALL {
        let below = if event_type == EventType::ClaimIssued { "" } else { "/payload" };
        for (twin, event) in twins(&sample_event(event_type), below) {
            // Whether a signature may be missing is the verifier's to say, not the schema's.
            if twin.starts_with("/signature") {
                continue;
            }
            let valid = check_event(&event, SignatureFaults::LeftOut).is_empty();
            assert!(valid || twin != "whole", "{}", event_type.as_str());
            // The pattern says that a version has three numbers, not which ones we read.
            cases.push(case("event", format!("{} {twin}", event_type.as_str()), event, valid));
        }
    }
    judge(&cases);
}

#[test]
fn a_message_envelope_needs_its_ten_members() {
    let event = sample_event(EventType::ClaimIssued);
    let mut envelope = json!({});
    for name in schemas::MESSAGE_ENVELOPE_MEMBERS {
        envelope[name] = event[name].clone();
    }
    let mut cases = vec![case("message-envelope", "whole".into(), envelope.clone(), true)];
    cases.push(case("message-envelope", "a whole event".into(), event, true));
    for name in schemas::MESSAGE_ENVELOPE_MEMBERS {
        let mut twin = envelope.clone();
        twin.as_object_mut().unwrap().remove(name);
        cases.push(case("message-envelope", format!("{name} removed"), twin.clone(), false));
        twin[name] = json!(null);
        cases.push(case("message-envelope", format!("{name} is null"), twin, false));
    }
    judge(&cases);
}
