//! The hostile JSON cases of the layers `json`, `canon`, `ledger-line`, `render` and `schema:event`,
//! and properties of the reader, the writer and the scanner against an independent canonicaliser.
#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "tests read their cases from files")]

use base64::Engine as _;
use countersign_format::event::{SignatureFaults, check_event, check_event_bytes, event_faults};
use countersign_format::json::{self, Value, line};
use countersign_format::shape::FAULTS_MAX;
use proptest::prelude::*;

struct Case {
    name: String,
    layer: String,
    expect: String,
    why: String,
    bytes: Vec<u8>,
    canonical: Option<Vec<u8>>,
}

fn cases() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/hostile-json.jsonl");
    let decode = |value: &Value| {
        base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap()).unwrap()
    };
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| {
            let case: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| case[name].as_str().unwrap().to_owned();
            Case {
                name: text("name"),
                layer: text("layer"),
                expect: text("expect"),
                why: text("why"),
                bytes: decode(&case["bytes_b64"]),
                canonical: case.get("canonical_b64").map(decode),
            }
        })
        .collect()
}

fn of_layers(layers: &[&str]) -> Vec<Case> {
    let chosen: Vec<_> =
        cases().into_iter().filter(|case| layers.contains(&case.layer.as_str())).collect();
    assert!(!chosen.is_empty());
    chosen
}

#[test]
fn json_and_canon_cases_are_read_as_they_should_be() {
    for case in of_layers(&["json", "canon", "render"]) {
        let outcome = json::read(&case.bytes);
        let accept = match case.expect.as_str() {
            "accept" => true,
            "reject" => false,
            // Text rules are an event's matter; of the rest, an unsafe magnitude is refused.
            "policy" => case.name != "num-halfway",
            other => panic!("{other}"),
        };
        assert_eq!(outcome.is_ok(), accept, "{}: {outcome:?} ({})", case.name, case.why);
        if let (Ok(value), Some(canonical)) = (&outcome, &case.canonical) {
            assert_eq!(&json::to_bytes(value), canonical, "{}", case.name);
        }
    }
}

#[test]
fn ledger_lines_are_their_canonical_bytes_or_refused() {
    for case in of_layers(&["ledger-line"]) {
        let accept = case.expect == "accept";
        assert_eq!(line::scan(&case.bytes).is_ok(), accept, "{}", case.name);
    }
    // Whatever can be read as an object: its canonical form is a line, and no other form is.
    for case in of_layers(&["json", "canon", "ledger-line"]) {
        let Ok(value) = json::read(&case.bytes) else { continue };
        if !value.is_object() {
            continue;
        }
        let canonical = json::to_bytes(&value);
        assert!(line::scan(&canonical).is_ok(), "{}", case.name);
        assert_eq!(line::scan(&case.bytes).is_ok(), case.bytes == canonical, "{}", case.name);
    }
}

/// The place that each `schema:event` case is about.
fn place(name: &str) -> &'static str {
    match name {
        name if name.starts_with("ts-") => "/created_at",
        name if name.starts_with("hash-") => "/payload_hash",
        name if name.starts_with("ulid-") => "/trace_id",
        name if name.starts_with("id-") => "/actor/agent_id",
        "sig-null" => "/signature",
        name if name.starts_with("sig-alg") => "/signature/algorithm",
        name if name.starts_with("sig-") => "/signature/signature_b64",
        name if name.starts_with("schema-version") => "/schema_version",
        name if name.starts_with("event-type") => "/event_type",
        name if name.starts_with("artifact-size") => "/artifacts/0/byte_size",
        other => panic!("no place for {other}"),
    }
}

#[test]
fn event_cases_name_the_field_that_is_wrong() {
    for case in of_layers(&["schema:event"]) {
        let faults = check_event_bytes(&case.bytes);
        let Ok(value) = json::read(&case.bytes) else {
            assert_eq!(faults[0].pointer, place(&case.name), "{}", case.name);
            continue;
        };
        let differs = base_difference(&value);
        let wanted = if differs.is_empty() { place(&case.name) } else { &differs };
        assert!(
            faults.iter().any(|fault| fault.pointer.starts_with(wanted)),
            "{}: {wanted} not in {faults:?}",
            case.name
        );
        // The same fault in an otherwise valid event of schema 1.1 is the only one.
        let twin = valid_twin(&value);
        let faults = check_event(&twin, SignatureFaults::Listed);
        assert!(!faults.is_empty(), "{}", case.name);
        assert!(
            faults.iter().all(|fault| fault.pointer.starts_with(wanted)
                || (wanted.starts_with("/signature") && fault.pointer.starts_with("/signature"))),
            "{}: {faults:?}",
            case.name
        );
    }
}

/// The pointer at which a case differs from the event that all of them were made from.
fn base_difference(value: &Value) -> String {
    let zero = "0".repeat(64);
    let base: Vec<(&str, Value)> = vec![
        ("/created_at", "2026-01-01T00:00:00.000Z".into()),
        ("/event_hash", zero.clone().into()),
        ("/payload_hash", zero.clone().into()),
        ("/prev_event_hash", zero.into()),
        ("/event_id", "01arz3ndektsv4rrffq69g5faw".into()),
        ("/trace_id", "01arz3ndektsv4rrffq69g5fav".into()),
        ("/event_type", "claim_issued".into()),
        ("/actor/agent_id", "a1".into()),
    ];
    base.into_iter()
        .find(|(pointer, expected)| value.pointer(pointer) != Some(expected))
        .map(|(pointer, _)| pointer.to_owned())
        .unwrap_or_default()
}

/// A valid event of schema 1.1 with the one thing that is wrong in `case`.
fn valid_twin(case: &Value) -> Value {
    let mut twin: Value =
        serde_json::from_str(include_str!("data/valid-event.json")).expect("fixture");
    assert_eq!(check_event(&twin, SignatureFaults::Listed), vec![]);
    for pointer in [
        "/created_at",
        "/event_hash",
        "/payload_hash",
        "/prev_event_hash",
        "/event_id",
        "/trace_id",
    ] {
        *twin.pointer_mut(pointer).unwrap() = case.pointer(pointer).unwrap().clone();
    }
    for pointer in ["/actor/agent_id", "/event_type", "/signature"] {
        *twin.pointer_mut(pointer).unwrap() = case.pointer(pointer).unwrap().clone();
    }
    if case["schema_version"] != "1.0" {
        twin["schema_version"] = case["schema_version"].clone();
    }
    if let Some(size) = case.pointer("/artifacts/0/byte_size") {
        twin["artifacts"][0]["byte_size"] = size.clone();
    }
    twin
}

/// An event whose ids are in upper case, of the schema version `version`.
fn with_version(version: &str) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("data/valid-event.json")).expect("fixture");
    for member in ["trace_id", "event_id"] {
        event[member] = event[member].as_str().map(str::to_uppercase).into();
    }
    event["schema_version"] = version.into();
    event
}

#[test]
fn only_a_whole_version_of_schema_1_0_frees_the_case_of_ids() {
    for (version, free) in [("1.0.0", true), ("1.0.12", true), ("1.0", false), ("1.00.0", false)] {
        let faults = check_event(&with_version(version), SignatureFaults::Listed);
        let named = |place: &str| faults.iter().any(|fault| fault.pointer == place);
        assert_eq!(named("/schema_version"), !free, "{version}: {faults:?}");
        for place in ["/trace_id", "/event_id"] {
            assert_eq!(named(place), !free, "{version}: {faults:?}");
        }
    }
}

/// A key may be half a mebibyte long and hold tens of thousands of faults; each repeated the key.
#[test]
fn a_document_full_of_faults_below_a_long_key_does_not_exhaust_memory() {
    let faults = vec![r#""\uffff""#; 60_000].join(",");
    let text = format!(r#"{{"payload":{{"{}":[{faults}]}}}}"#, "k".repeat(400_000));
    let found = check_event_bytes(text.as_bytes());
    assert!(found.len() < 1_100, "{}", found.len());
    assert!(found.iter().all(|fault| fault.pointer.len() < 1_100));
}

/// The valid event with `members` put into it.
fn with_members(members: &[(&str, Value)]) -> Value {
    let mut event: Value =
        serde_json::from_str(include_str!("data/valid-event.json")).expect("fixture");
    for (pointer, value) in members {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        event.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    event
}

/// A list of `count` texts that may not stand in an event.
fn texts(count: usize) -> Value {
    vec!["\u{ffff}"; count].into()
}

#[test]
fn every_fault_is_listed_up_to_a_thousand_in_a_list_and_the_others_are_counted() {
    for (count, listed) in [(201, 201), (1_000, 1_000), (1_001, 1_001), (50_000, 1_001)] {
        let event = with_members(&[("/payload/remark", texts(count))]);
        let faults = check_event(&event, SignatureFaults::Listed);
        assert_eq!(faults.len(), listed, "{count}");
        assert_eq!(faults[0].pointer, "/payload/remark/0");
        assert_eq!(faults[listed - 1].pointer.is_empty(), count > 1_000, "{count}");
        let all = event_faults(&event, SignatureFaults::Listed, FAULTS_MAX);
        assert_eq!(all.count(), count);
    }
    let event = with_members(&[("/payload/remark", texts(50_000))]);
    let last = check_event(&event, SignatureFaults::Listed).pop().unwrap();
    assert_eq!(last.message, "and 49000 more faults, which are not listed");
}

#[test]
fn no_list_and_no_unknown_member_hides_the_faults_of_what_an_event_must_have() {
    let mut members: Vec<_> =
        ["/artifacts", "/claims", "/a", "/payload/a", "/payload/evidence_artifacts"]
            .map(|place| (place, texts(9_000)))
            .into();
    let many = (0..20).map(|number| (number.to_string(), texts(1_000))).collect();
    members.extend([
        ("/b", Value::Object(many)),
        ("/trace_id", 1.into()),
        ("/payload/claim_text", 1.into()),
    ]);
    members.extend([("/signature/algorithm", "none".into()), ("/payload_type", "other".into())]);
    let event = with_members(&members);
    let faults = check_event(&event, SignatureFaults::Listed);
    assert!(faults.len() <= FAULTS_MAX + 1);
    for place in [
        "/trace_id",
        "/payload/claim_text",
        "/signature/algorithm",
        "/payload_type",
        "/a/0",
        "/b/0/0",
    ] {
        assert!(faults.iter().any(|fault| fault.pointer == place), "{place}");
    }
}

#[test]
fn whoever_wants_a_few_faults_gets_the_first_ones_and_their_number() {
    let event = with_members(&[("/payload/remark", texts(50_000)), ("/trace_id", 1.into())]);
    let faults = event_faults(&event, SignatureFaults::LeftOut, 8);
    assert_eq!((faults.listed().count(), faults.count()), (8, 50_001));
    assert_eq!(faults.listed().next().map(|fault| &*fault.pointer), Some("/trace_id"));
}

#[test]
fn nesting_and_element_limits_are_exact() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert!(json::read(&nested(json::DEPTH_MAX)).is_ok());
    assert!(json::read(&nested(json::DEPTH_MAX + 1)).is_err());
    let wide = |count: usize| format!("[{}]", vec!["0"; count].join(","));
    assert!(json::read(wide(json::ELEMENTS_MAX).as_bytes()).is_ok());
    assert!(json::read(wide(json::ELEMENTS_MAX + 1).as_bytes()).is_err());
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert!(json::read(long(json::LINE_BYTES_MAX).as_bytes()).is_ok());
    assert!(json::read(long(json::LINE_BYTES_MAX + 1).as_bytes()).is_err());
}

#[test]
fn members_of_the_same_name_inside_others_are_not_touched() {
    let text = br#"{"a":{"event_hash":"x","payload":1},"event_hash":"y","payload":{"a":[1,{"event_hash":2}]},"z":"\"event_hash\":\"no\""}"#;
    let scanned = line::scan(text).unwrap();
    assert_eq!(
        String::from_utf8(scanned.without(&["event_hash"]).concat()).unwrap(),
        r#"{"a":{"event_hash":"x","payload":1},"payload":{"a":[1,{"event_hash":2}]},"z":"\"event_hash\":\"no\""}"#
    );
    assert_eq!(scanned.without(&["a", "event_hash", "payload", "z"]).concat(), b"{}");
    assert_eq!(
        scanned.without(&["a", "event_hash", "payload"]).concat(),
        br#"{"z":"\"event_hash\":\"no\""}"#
    );
    assert_eq!(scanned.plain_string("event_hash"), Some("y"));
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-json::INTEGER_MAX..=json::INTEGER_MAX).prop_map(Value::from),
        any::<f64>()
            .prop_filter("safe", |f| f.is_finite()
                && !(f.fract() == 0.0 && f.abs() > 9e15 && f.abs() < 1e21))
            .prop_map(Value::from),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 48, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn canonical_bytes_agree_with_an_independent_canonicaliser(value in arbitrary_json()) {
        let ours = json::to_bytes(&value);
        let theirs = serde_json_canonicalizer::to_vec(&value).unwrap();
        prop_assert_eq!(String::from_utf8(ours.clone()).unwrap(), String::from_utf8(theirs).unwrap());
        let again = json::read(&ours).unwrap();
        prop_assert_eq!(json::to_bytes(&again), ours);
    }

    #[test]
    fn pretty_printed_text_reads_back_to_the_same_canonical_bytes(value in arbitrary_json()) {
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        let read = json::read(&pretty).unwrap();
        prop_assert_eq!(json::to_bytes(&read), json::to_bytes(&value));
    }

    #[test]
    fn a_line_is_accepted_exactly_if_it_is_its_canonical_form(
        members in prop::collection::vec((any::<String>(), arbitrary_json()), 0..6),
        edit in any::<(prop::sample::Index, u8)>(),
    ) {
        let value = Value::Object(members.into_iter().collect());
        let mut bytes = json::to_bytes(&value);
        prop_assert!(line::scan(&bytes).is_ok());
        let at = edit.0.index(bytes.len());
        bytes[at] = edit.1;
        let canonical = json::read(&bytes).is_ok_and(|value| {
            value.is_object() && json::to_bytes(&value) == bytes
        });
        prop_assert_eq!(line::scan(&bytes).is_ok(), canonical);
    }

    #[test]
    fn dropping_members_equals_canonicalising_without_them(
        members in prop::collection::vec(("[a-f\u{e9}\u{1f600}\u{fb33}\"]{1,2}", arbitrary_json()), 0..8),
        dropped in prop::collection::vec("[a-f]{1,2}", 0..5),
    ) {
        let mut object: serde_json::Map<_, _> = members.into_iter().collect();
        let bytes = json::to_bytes(&Value::Object(object.clone()));
        let names: Vec<&str> = dropped.iter().map(String::as_str).collect();
        let cut = line::scan(&bytes).unwrap().without(&names).concat();
        for name in &names {
            object.remove(*name);
        }
        prop_assert_eq!(cut, json::to_bytes(&Value::Object(object)));
    }
}
