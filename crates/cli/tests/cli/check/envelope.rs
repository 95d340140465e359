//! `check input-envelope` and `check output-envelope`.

use serde_json::json;

use crate::binary::run;
use crate::cases::{bytes, each, hostile, lines_of, text};

#[test]
fn every_envelope_case_has_its_outcome() {
    let mut cases = lines_of("envelope-cases.jsonl");
    cases.retain(|case| text(case, "stage") == "parse");
    each(&cases, |case| {
        let (name, document) = (text(case, "name"), text(case, "json"));
        let kind = format!("{}-envelope", text(case, "kind"));
        let screen = run(&["check", &kind], document);
        let answer = run(&["check", &kind, "--json"], document);
        let valid = text(case, "expect") == "ok";
        let code = if valid { 0 } else { 3 };
        assert_eq!((screen.code, answer.code), (code, code), "{name}: {screen}");
        assert_eq!(screen.stdout(), "", "{name}");
        let answer = answer.answer();
        assert_eq!(answer["valid"], valid, "{name}");
        if !valid {
            let faults = answer["faults"].as_array().unwrap().len();
            assert!(faults > 0, "{name}");
            assert_eq!(screen.stderr.lines().count(), 1 + faults, "{name}: {screen}");
            let what = format!("error: not a valid {} envelope: ", text(case, "kind"));
            assert!(screen.stderr.starts_with(&what), "{name}: {screen}");
        }
    });
    assert_eq!(cases.len(), 97);
}

#[test]
fn hostile_envelopes_are_refused_and_what_the_gate_decides_passes() {
    let cases = hostile(&["schema:adr007"]);
    each(&cases, |case| {
        let screen = run(&["check", "output-envelope"], bytes(case, "bytes_b64"));
        let code = if text(case, "expect") == "policy" { 0 } else { 3 };
        assert_eq!(screen.code, code, "{}: {screen}", text(case, "name"));
    });
    assert_eq!(cases.len(), 24);
}

#[test]
fn members_of_former_versions_give_hints() {
    let input = json!({
        "context": { "feature_id": "a", "workflow": "w", "iteration": 1 },
        "paths": {},
        "task": { "action": "plan", "params": {}, "mode": "fast" },
    });
    let screen = run(&["check", "input-envelope"], input.to_string());
    assert_eq!(screen.code, 0);
    assert_eq!(screen.stderr, "valid\nhint: /task/mode: write `action` instead of `mode`\n");
    let answer = run(&["check", "input-envelope", "--json"], input.to_string()).answer();
    assert_eq!(
        answer["hints"],
        json!([{ "pointer": "/task/mode", "message": "write `action` instead of `mode`" }])
    );
}

#[test]
fn what_is_too_much_or_too_long_to_be_told_is_told_in_short() {
    let artifact = json!({ "path": "../x", "operation": "create", "content": "" });
    let envelope = json!({
        "success": true, "summary": "s", "recommendation": "merge",
        "artifacts": vec![artifact; 9_000],
    });
    let screen = run(&["check", "output-envelope"], envelope.to_string());
    let lines: Vec<&str> = screen.stderr.lines().collect();
    assert_eq!((screen.code, lines.len()), (3, 1 + 1_000 + 1 + 1));
    assert_eq!(lines[0], "error: not a valid output envelope: 9001 faults");
    assert_eq!(lines[1_001], "  /recommendation: must be one of: proceed, retry, escalate");
    assert_eq!(lines[1_002], "  (document): and 8000 more faults, which are not listed");

    let key = "k".repeat(4 << 20);
    let screen = run(&["check", "output-envelope"], format!("{{\"{key}\":1,\"{key}\":2}}"));
    assert!(screen.code == 3 && screen.stderr.len() < 500, "{}", screen.stderr.len());
}
