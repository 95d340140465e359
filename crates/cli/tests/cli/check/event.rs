//! `check event`: every fault with its place.

use countersign_testkit::second_reader::{node, repository};
use serde_json::{Value, json};

use crate::binary::{Screen, run};
use crate::cases::{bytes, each, hostile, text};

const VALID: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../format/tests/data/valid-event.json"));

pub(super) fn valid_event() -> Value {
    serde_json::from_str(VALID).unwrap()
}

/// The place that each case is about.
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

/// Runs the check in both forms, which must say the same, and gives the pointers of the faults.
fn pointers(document: &[u8]) -> Vec<String> {
    let screen = run(&["check", "event"], document);
    let answer = run(&["check", "event", "--json"], document);
    assert_eq!((screen.code, screen.stdout()), (answer.code, ""));
    let faults = answer.answer()["faults"].as_array().cloned().unwrap_or_default();
    assert_eq!(screen.code, if faults.is_empty() { 0 } else { 3 });
    assert_same_faults(&screen, &faults);
    faults.iter().map(|fault| text(fault, "pointer").to_owned()).collect()
}

fn assert_same_faults(screen: &Screen, faults: &[Value]) {
    let mut lines = screen.stderr.lines();
    let first = match faults.len() {
        0 => "valid".to_owned(),
        1 => "error: not a valid event: 1 fault".to_owned(),
        count => format!("error: not a valid event: {count} faults"),
    };
    assert_eq!(lines.next(), Some(first.as_str()));
    for fault in faults {
        let line = lines.next().unwrap();
        let place = Some(text(fault, "pointer")).filter(|place| !place.is_empty());
        let start = format!("  {}: {}", place.unwrap_or("(document)"), text(fault, "message"));
        assert!(line.starts_with(&start), "{line} / {start}");
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn event_cases_name_the_field_that_is_wrong() {
    let cases = hostile(&["schema:event"]);
    each(&cases, |case| {
        let (name, document) = (text(case, "name"), bytes(case, "bytes_b64"));
        let found = pointers(&document);
        let Ok(value) = serde_json::from_slice::<Value>(&document) else {
            assert_eq!(found, [place(name)], "{name}");
            return;
        };
        if run(&["check", "json"], &document).code != 0 {
            assert_eq!(found, [place(name)], "{name}");
            return;
        }
        assert!(found.iter().any(|p| p.starts_with(place(name))), "{name}: {found:?}");
        // The same in an otherwise valid event of schema 1.1 is the only fault.
        let twin = valid_twin(&value);
        let found = pointers(twin.to_string().as_bytes());
        let about = if place(name).starts_with("/signature") { "/signature" } else { place(name) };
        assert!(!found.is_empty(), "{name}");
        assert!(found.iter().all(|pointer| pointer.starts_with(about)), "{name}: {found:?}");
    });
    assert_eq!(cases.len(), 25);
}

/// A valid event of schema 1.1 with the one thing that is wrong in `case`.
fn valid_twin(case: &Value) -> Value {
    let mut twin = valid_event();
    for pointer in [
        "/created_at",
        "/event_hash",
        "/payload_hash",
        "/prev_event_hash",
        "/event_id",
        "/trace_id",
        "/actor/agent_id",
        "/event_type",
        "/signature",
    ] {
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

#[test]
fn a_valid_event_is_valid_in_any_layout() {
    assert_eq!(pointers(VALID.as_bytes()), [""; 0]);
    let event = valid_event();
    let pretty = serde_json::to_string_pretty(&event).unwrap().replace('\n', "\r\n");
    assert_eq!(pointers(pretty.as_bytes()), [""; 0]);
    assert_eq!(run(&["check", "ledger-line"], &pretty).code, 3);
}

#[test]
fn text_that_passes_as_json_may_still_not_stand_in_an_event() {
    let mut seen = 0;
    for case in hostile(&["json"]) {
        if !["i-json-nonchar", "nfc-gate"].contains(&text(&case, "rule"))
            || text(&case, "expect") != "policy"
        {
            continue;
        }
        seen += 1;
        let document: Value = serde_json::from_slice(&bytes(&case, "bytes_b64")).unwrap();
        let mut event = valid_event();
        event["payload"]["remark"] = document[0].clone();
        let found = pointers(event.to_string().as_bytes());
        assert_eq!(found, ["/payload/remark"], "{}", text(&case, "name"));
    }
    assert_eq!(seen, 2);
}

/// The valid event as one that ends a tool, with an action in which a member stands that nobody knows.
fn with_action() -> Value {
    let hash = "0".repeat(64);
    let mut event = valid_event();
    event["event_type"] = json!("tool_execution_completed");
    event["payload_type"] = json!("tool_execution_completed");
    event["payload"] = json!({
        "execution": { "event_id": "01arz3ndektsv4rrffq69g5fay", "seq": 6 },
        "output_artifacts": [], "exit_status": 0, "receipt_hash": hash,
        "action": {
            "action_id": "act_0001", "action_type": "command", "instruction_hash": hash,
            "input_hash": hash, "output_hash": hash, "success": true, "duration_ms": 1,
            "timestamp": "2026-01-01T00:00:00.000Z", "member_of_tomorrow": { "b": [1] },
        },
    });
    event
}

#[test]
fn an_action_may_have_members_that_are_not_known_if_their_text_may_stand_in_an_event() {
    let mut event = with_action();
    assert_eq!(pointers(event.to_string().as_bytes()), [""; 0]);
    event["payload"]["action"]["member_of_tomorrow"]["b"][0] = json!("e\u{301}");
    assert_eq!(pointers(event.to_string().as_bytes()), ["/payload/action/member_of_tomorrow/b/0"]);
}

/// The pointers of faults that the second reader finds, which leaves signatures to its verifier.
fn pointers_of_second_reader(document: &str) -> Vec<String> {
    const SCRIPT: &str = "const [from, text] = process.argv.slice(1);
        const { read } = await import(`${from}/json.mjs`);
        const { eventFaults } = await import(`${from}/check.mjs`);
        const faults = eventFaults(read(new TextEncoder().encode(text)).value);
        console.log(JSON.stringify(faults.map(({ pointer }) => pointer)));";
    let mut asked = node();
    asked.args(["--input-type=module", "-e", SCRIPT]);
    asked.arg(repository().join("web/verifier")).arg(document);
    let answered = asked.output().expect("this test needs `node`, version 20 or newer");
    assert!(answered.status.success(), "{}", String::from_utf8_lossy(&answered.stderr));
    serde_json::from_slice(&answered.stdout).unwrap()
}

#[test]
fn the_second_reader_says_the_same_of_versions_and_actions() {
    let mut events = vec![valid_event(), with_action()];
    for version in ["1.0.0", "1.0", "1.00.0", "1.1", "2.0.0"] {
        let mut event = valid_event();
        event["schema_version"] = json!(version);
        event["trace_id"] = event["trace_id"].as_str().map(str::to_uppercase).into();
        events.push(event);
    }
    for event in events {
        let document = event.to_string();
        let (mut ours, mut theirs) =
            (pointers(document.as_bytes()), pointers_of_second_reader(&document));
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{document}");
    }
}

#[test]
fn faults_that_are_not_listed_are_counted() {
    let mut event = valid_event();
    event["payload"]["remark"] = vec!["\u{ffff}"; 50_000].into();
    event["trace_id"] = json!(1);
    let screen = run(&["check", "event"], event.to_string());
    let lines: Vec<&str> = screen.stderr.lines().collect();
    assert_eq!((screen.code, lines.len()), (3, 1 + 1 + 1_000 + 1));
    assert_eq!(lines[0], "error: not a valid event: 50001 faults");
    assert_eq!(lines[1], "  /trace_id: must be a string, found a number");
    assert_eq!(lines[1_001], "  /payload/remark/999: noncharacter U+FFFF");
    assert_eq!(lines[1_002], "  (document): and 49000 more faults, which are not listed");
    let answer = run(&["check", "event", "--json"], event.to_string()).answer();
    assert_eq!(answer["faults"].as_array().unwrap().len(), 1_002);
    assert_eq!(answer["faults"][1_001]["message"], "and 49000 more faults, which are not listed");
}

#[test]
fn long_keys_are_not_repeated_whole() {
    let key = "k".repeat(500_000);
    for document in [
        format!("{{\"{key}\":1,\"{key}\":2}}"),
        format!("{{\"{key}\":[01]}}"),
        format!("{{\"{key}\":\"\u{ffff}\"}}"),
    ] {
        let screen = run(&["check", "event"], &document);
        assert!(screen.code == 3 && screen.stderr.len() < 4_000, "{}", screen.stderr.len());
        let answer = run(&["check", "event", "--json"], &document);
        assert!(answer.code == 3 && answer.stdout.len() < 5_000, "{}", answer.stdout.len());
    }
}

#[test]
fn whatever_is_no_object_or_no_json_has_one_fault() {
    for document in ["", "[]", "null", "{", "\"\u{1b}\"", "{}{}"] {
        assert_eq!(pointers(document.as_bytes()), [""], "{document:?}");
    }
    assert_eq!(pointers(b"{\"a\":[1,{\"b\":\xff}]}"), [""]);
    assert_eq!(pointers(json!({}).to_string().as_bytes()).len(), 15);
}
