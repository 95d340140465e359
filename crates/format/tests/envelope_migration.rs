//! Envelopes of former versions, and documents that are almost envelopes.

#![expect(clippy::expect_used, reason = "a failing helper is a failing test")]

use countersign_format::envelope::{
    EnvelopeError, InputEnvelope, Migration, NOTES_MAX, OutputEnvelope, migrate_input,
    migrate_output,
};
use countersign_format::json::to_bytes;
use countersign_format::shape::Fault;
use proptest::prelude::*;
use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "the cases lie in a file")]
fn cases() -> Vec<Value> {
    let path = format!("{}/../../tests/cases/envelope-cases.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("case file");
    text.lines().map(|line| serde_json::from_str(line).expect("case")).collect()
}

fn lines(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

fn faults<T>(read: Result<T, EnvelopeError>) -> Vec<String> {
    read.err().map(|error| lines(&error.faults())).unwrap_or_default()
}

/// What a migration gives, what it changed and what it left, and what is still wrong.
type Outcome = (Value, Vec<String>, Vec<String>, Vec<String>);

fn outcome(migration: Migration, check: impl FnOnce(Value) -> Vec<String>) -> Outcome {
    let Migration { value, changes, by_hand } = migration;
    (value.clone(), lines(&changes), lines(&by_hand), check(value))
}

fn input_outcome(document: Value) -> Outcome {
    outcome(migrate_input(document), |value| faults(InputEnvelope::from_value(value)))
}

fn output_outcome(document: Value) -> Outcome {
    outcome(migrate_output(document), |value| faults(OutputEnvelope::from_value(value)))
}

fn expected(value: Value, changes: &[&str], by_hand: &[&str], faults: &[&str]) -> Outcome {
    let owned = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
    (value, owned(changes), owned(by_hand), owned(faults))
}

fn input() -> Value {
    json!({
        "context": { "feature_id": "005", "workflow": "specify", "iteration": 1 },
        "paths": { "spec": "specs/005/spec.md" },
        "task": { "action": "validate", "params": {} },
    })
}

fn output() -> Value {
    json!({
        "success": true, "summary": "done", "artifacts": [], "recommendation": "proceed",
    })
}

/// `document` with these members at the top.
fn with(mut document: Value, more: Value) -> Value {
    let (Value::Object(members), Value::Object(more)) = (&mut document, more) else {
        return document;
    };
    members.extend(more);
    document
}

#[test]
fn a_flat_prompt_is_put_in_its_places() {
    let prompt = json!({
        "feature_id": "005", "workflow": "plan", "iteration": 2, "phase": 0,
        "artifact_paths": ["a.md", "b.md"], "spec_path": "specs/005/spec.md",
        "index_path": "i.md", "check_module": "checks.md", "mode": "validate",
        "bounds": { "depth": 3 }, "odd_path": 7,
    });
    let after = json!({
        "context": { "feature_id": "005", "workflow": "plan", "iteration": 2 },
        "paths": {
            "artifacts": ["a.md", "b.md"], "spec": "specs/005/spec.md", "index": "i.md",
            "check_module": "checks.md",
        },
        "task": {
            "action": "validate", "params": { "phase": 0, "bounds": { "depth": 3 }, "odd_path": 7 },
        },
    });
    let changes = [
        "/feature_id: moved to `/context/feature_id`",
        "/workflow: moved to `/context/workflow`",
        "/iteration: moved to `/context/iteration`",
        "/artifact_paths: moved to `/paths/artifacts`",
        "/spec_path: moved to `/paths/spec`",
        "/check_module: moved to `/paths/check_module`",
        "/mode: moved to `/task/action`",
        "/phase: moved to `/task/params/phase`",
        "/bounds: moved to `/task/params/bounds`",
        "/index_path: moved to `/paths/index`",
        "/odd_path: moved to `/task/params/odd_path`",
    ];
    assert_eq!(input_outcome(prompt), expected(after, &changes, &[], &[]));
}

#[test]
fn what_a_flat_prompt_does_not_say_is_not_made_up() {
    let prompt = json!({ "mode": "classify_gaps", "gaps": ["G1"], "a/b": null });
    assert_eq!(
        input_outcome(prompt),
        expected(
            json!({
                "paths": {},
                "task": { "action": "classify_gaps", "params": { "gaps": ["G1"], "a/b": null } },
            }),
            &[
                "/mode: moved to `/task/action`",
                "/a~1b: moved to `/task/params/a~1b`",
                "/gaps: moved to `/task/params/gaps`",
                "/paths: added, empty: {}",
            ],
            &[],
            &["/context: missing"],
        )
    );
}

#[test]
fn the_first_draft_of_an_input_becomes_valid() {
    let draft = json!({
        "context": {
            "feature_id": null, "workflow": "specify", "iteration": 1, "plugin": "specs",
        },
        "paths": {},
        "task": { "mode": "create", "title": "x" },
    });
    assert_eq!(
        input_outcome(draft),
        expected(
            json!({
                "context": { "feature_id": null, "workflow": "specify", "iteration": 1 },
                "paths": {},
                "task": { "action": "create", "params": { "plugin": "specs", "title": "x" } },
            }),
            &[
                "/task/mode: moved to `/task/action`",
                "/context/plugin: moved to `/task/params/plugin`",
                "/task/title: moved to `/task/params/title`",
            ],
            &[],
            &[],
        )
    );
}

#[test]
fn two_members_that_disagree_are_left_to_a_person() {
    let document = with(
        input(),
        json!({
            "workflow": "plan", "iteration": 1, "mode": "fast", "spec_path": "other.md",
            "params": { "x": 1 }, "trace_id": "t",
        }),
    );
    let after = with(
        input(),
        json!({
            "workflow": "plan", "mode": "fast", "spec_path": "other.md", "trace_id": "t",
            "task": { "action": "validate", "params": { "x": 1 } },
        }),
    );
    assert_eq!(
        input_outcome(document),
        expected(
            after,
            &[
                "/iteration: dropped: `/context/iteration` says the same",
                "/params/x: moved to `/task/params/x`",
                "/params: dropped: `/task/params` has its members",
            ],
            &[
                "/workflow: says something else than `/context/workflow`: keep one of them",
                "/spec_path: says something else than `/paths/spec`: keep one of them",
                "/mode: says something else than `/task/action`: keep one of them",
            ],
            &[],
        )
    );
    let document = json!({ "task": "validate", "bounds": 1, "context": [], "workflow": "w" });
    assert_eq!(
        input_outcome(document.clone()),
        expected(
            document,
            &[],
            &[
                "/workflow: belongs at `/context/workflow`, but `/context` is not an object",
                "/bounds: belongs at `/task/params/bounds`, but `/task` is not an object",
            ],
            &[
                "/context: must be an object, found an array",
                "/paths: missing",
                "/task: must be an object, found a string",
            ],
        )
    );
}

#[test]
fn reports_become_notes_in_the_words_of_the_specification() {
    let (value, ..) = output_outcome(json!({
        "collision_risks": [{ "a": 1 }, { "a": 2 }],
        "validation_report": { "failed": 1, "passed": 8 },
    }));
    assert_eq!(
        value,
        json!({
            "artifacts": [],
            "notes": ["Validation: 8 passed, 1 failed", "2 collision risks detected"],
        })
    );
}

#[test]
fn every_kind_of_report_has_its_words() {
    for (key, value, note) in [
        ("result", json!("partial"), "Result: partial"),
        ("clarification_count", json!(3), "Clarification count: 3"),
        ("ready", json!(false), "Ready: false"),
        ("previous", json!(null), "Previous: null"),
        ("coverage", json!(0.5), "Coverage: 0.5"),
        ("gaps", json!([]), "0 gaps detected"),
        ("gaps", json!(["G1"]), "1 gap detected"),
        ("open-queries", json!([1]), "1 open query detected"),
        ("analysis", json!([1]), "Analysis: 1 entry"),
        ("history", json!([1, 2]), "History: 2 entries"),
        ("report", json!({ "passed": 1 }), "Report: 1 passed"),
        ("empty_report", json!({}), "Empty: {}"),
        (
            "tests",
            json!({ "skipped": 2, "failed": 0, "passed": 1 }),
            "Tests: 1 passed, 0 failed, 2 skipped",
        ),
        ("plan_report", json!({ "b": 1.5, "a": ["x"] }), "Plan: {\"a\":[\"x\"],\"b\":1.5}"),
        ("", json!(1), "Unnamed: 1"),
    ] {
        let (value, _, by_hand, _) = output_outcome(json!({ key: value }));
        assert_eq!(value, json!({ "artifacts": [], "notes": [note] }), "{key}");
        assert_eq!(by_hand, Vec::<String>::new(), "{key}");
    }
}

#[test]
fn the_first_draft_of_an_output_keeps_everything_that_it_says() {
    let draft = json!({
        "success": true,
        "artifacts": [
            { "path": "a.md", "operation": "overwrite", "content": "x" },
            { "path": "b.md", "operation": "create", "content": "y" },
        ],
        "notes": ["first"],
        "state_updates": { "workflow_status": { "specify": "in_progress" } },
        "collision_risks": ["r1", "r2"],
        "next_recommendation": "Proceed",
    });
    assert_eq!(
        output_outcome(draft),
        expected(
            json!({
                "success": true,
                "artifacts": [
                    { "path": "a.md", "operation": "update", "content": "x" },
                    { "path": "b.md", "operation": "create", "content": "y" },
                ],
                "notes": [
                    "first",
                    "State updates: {\"workflow_status\":{\"specify\":\"in_progress\"}}",
                    "2 collision risks detected",
                ],
                "recommendation": "proceed",
            }),
            &[
                "/next_recommendation: \"Proceed\" is written `proceed`",
                "/next_recommendation: moved to `/recommendation`",
                "/artifacts/0/operation: `overwrite` is written `update`",
                "/state_updates: kept as a note at `/notes/1`",
                "/collision_risks: said in a note at `/notes/2`; it is [\"r1\",\"r2\"]",
            ],
            &["/state_updates: return the updated file as an artifact"],
            &["/summary: missing"],
        )
    );
}

#[test]
fn recommendations_without_a_counterpart_are_left_to_a_person() {
    for former in [json!("complete"), json!("skip"), json!(""), json!(1), json!({ "to": "x" })] {
        let mut document = with(output(), json!({ "next_recommendation": former }));
        document.as_object_mut().expect("object").remove("recommendation");
        let by_hand = ["/next_recommendation: has no counterpart among proceed, retry, escalate"];
        let faults =
            ["/recommendation: missing: write `recommendation` instead of `next_recommendation`"];
        let outcome = output_outcome(document.clone());
        assert_eq!(outcome, expected(document, &[], &by_hand, &faults));
    }
    let document = with(output(), json!({ "next_recommendation": "retry" }));
    let by_hand =
        ["/next_recommendation: says something else than `/recommendation`: keep one of them"];
    assert_eq!(output_outcome(document.clone()), expected(document, &[], &by_hand, &[]));
}

#[test]
fn long_reports_are_cut_with_a_mark_and_said_whole_beside_it() {
    let long = "é".repeat(40_000);
    let (value, changes, by_hand, faults) = output_outcome(with(
        output(),
        json!({ "result": long.clone(), "state_updates": { "log": long.clone() } }),
    ));
    assert_eq!(faults, Vec::<String>::new());
    let notes = value["notes"].as_array().expect("notes");
    let note = |index: usize| notes[index].as_str().expect("note");
    assert!(note(0).len() <= 65_536 && note(0).ends_with("é… (cut, 80025 bytes in all)"));
    assert!(note(1).len() <= 2048 && note(1).ends_with("é… (cut, 80008 bytes in all)"));
    assert_eq!(changes[1], format!("/result: said in a note at `/notes/1`; it is \"{long}\""));
    assert!(by_hand[0].ends_with(&format!("as an artifact; it is {{\"log\":\"{long}\"}}")));
}

#[test]
fn notes_that_cannot_take_more_leave_the_member_where_it_is() {
    let full = with(output(), json!({ "notes": vec!["x"; NOTES_MAX], "result": "r" }));
    let by_hand = ["/result: belongs in `notes`, which is full"];
    assert_eq!(output_outcome(full.clone()), expected(full, &[], &by_hand, &[]));
    let odd = with(output(), json!({ "notes": "x", "state_updates": { "a": 1 } }));
    let by_hand = ["/state_updates: belongs in `notes`, which is not an array"];
    let faults = ["/notes: must be an array, found a string"];
    assert_eq!(output_outcome(odd.clone()), expected(odd, &[], &by_hand, &faults));
    let empty = with(output(), json!({ "state_updates": {} }));
    let changes = ["/state_updates: dropped: it is empty: {}"];
    assert_eq!(output_outcome(empty), expected(output(), &changes, &[], &[]));
}

#[test]
fn a_note_holds_only_text_that_an_event_can() {
    let (value, changes, _, faults) =
        output_outcome(with(output(), json!({ "result": "a\u{ffff}b" })));
    assert_eq!((value["notes"].clone(), faults), (json!(["Result: a\u{fffd}b"]), Vec::new()));
    assert_eq!(changes.len(), 1);
    assert!(changes[0].ends_with("it is \"a\\u{ffff}b\""), "{changes:?}");
}

#[test]
fn documents_that_are_not_objects_stay_as_they_are() {
    for document in [json!(null), json!([]), json!("x"), json!([{ "mode": 1 }]), json!(5)] {
        for migrate in [migrate_input, migrate_output] {
            let unchanged =
                Migration { value: document.clone(), changes: Vec::new(), by_hand: Vec::new() };
            assert_eq!(migrate(document.clone()), unchanged);
        }
    }
}

#[test]
fn hints_name_the_place_and_what_to_write_there() {
    let document = with(
        input(),
        json!({
            "feature_id": "5", "workflow": "w", "iteration": 2, "phase": 1, "mode": "m",
            "artifact_paths": [], "spec_path": "s", "check_module": "c", "trace_id": "t",
            "context": { "feature_id": "5", "workflow": "w", "iteration": 2, "plugin": "p" },
            "task": { "action": "a", "params": {}, "mode": "m" },
        }),
    );
    assert_eq!(
        lines(&InputEnvelope::from_value(document).expect("valid").legacy_hints()),
        [
            "/feature_id: write it as `context.feature_id`",
            "/workflow: write it as `context.workflow`",
            "/iteration: write it as `context.iteration`",
            "/artifact_paths: write it as `paths.artifacts`",
            "/spec_path: write it as `paths.spec`",
            "/check_module: write it as `paths.check_module`",
            "/mode: write it as `task.action`",
            "/phase: write it as `task.params.phase`",
            "/context/plugin: write it as `task.params.plugin`",
            "/task/mode: write `action` instead of `mode`",
        ]
    );
    let document = with(
        output(),
        json!({
            "next_recommendation": "retry", "result": 1, "validation_report": {},
            "a/b_report": 1, "collision_risks": [], "clarification_count": 0, "tokens_used": 1,
        }),
    );
    assert_eq!(
        lines(&OutputEnvelope::from_value(document).expect("valid").legacy_hints()),
        [
            "/next_recommendation: write `recommendation` instead of `next_recommendation`",
            "/a~1b_report: summarise it in `notes`",
            "/clarification_count: summarise it in `notes`",
            "/collision_risks: summarise it in `notes`",
            "/result: say it in `success`, `summary` and `notes` instead of `result`",
            "/validation_report: summarise it in `notes`",
        ]
    );
}

#[test]
fn a_member_that_stands_at_the_top_is_told_where_it_is_missed() {
    let document = json!({
        "context": {}, "paths": {}, "task": {}, "workflow": "w", "iteration": 1, "mode": "m",
    });
    assert_eq!(
        faults(InputEnvelope::from_value(document)),
        [
            "/context/feature_id: missing",
            "/context/workflow: missing: write it here instead of at the top",
            "/context/iteration: missing: write it here instead of at the top",
            "/task/action: missing: write it here instead of at the top",
            "/task/params: missing",
        ]
    );
    let document = json!({ "result": "pass", "artifacts": [], "recommendation": "proceed" });
    assert_eq!(
        faults(OutputEnvelope::from_value(document)),
        [
            "/success: missing: say it in `success` and `summary` instead of `result`",
            "/summary: missing"
        ]
    );
}

const INPUT: &str = concat!(
    r#"{"context":{"feature_id":"005","workflow":"w","iteration":1},"paths":{"a":"b"},"#,
    r#""task":{"action":"v","params":{}},"prior_context":["n"]}"#,
);
const OUTPUT: &str = concat!(
    r#"{"success":true,"summary":"s","artifacts":[{"path":"a/b.md","operation":"create","#,
    r#""content":"c"}],"notes":["n"],"recommendation":"proceed"}"#,
);

/// What readers are known to refuse for no reason: an envelope, a part of it, and what stands
/// there instead.
const FINE: [(&str, &str, &str); 25] = [
    (INPUT, r#""005""#, "null"),
    (INPUT, r#""005""#, r#""v1..2""#),
    (INPUT, r#""b""#, "[]"),
    (INPUT, r#""b""#, r#""specs/x/""#),
    (INPUT, r#""b""#, r#""docs/\u00e4 b.md""#),
    (INPUT, r#""iteration":1"#, r#""iteration":4294967296"#),
    (INPUT, r#"["n"]"#, "[]"),
    (INPUT, r#"["n"]"#, r#"["","\ud83d\ude80","\u0000"]"#),
    (INPUT, r#""params":{}"#, r#""params":{"action":null,"a":[[],{}],"n":-0.5e-3}"#),
    (INPUT, r#""v""#, r#""a verb of several words""#),
    (INPUT, r#""task""#, r#""Task":1,"__proto__":{},"task""#),
    (OUTPUT, "true", "true ,\r\n\t \"x\":[] "),
    (OUTPUT, r#""s""#, r#""\u0073""#),
    (OUTPUT, r#""s""#, r#"" . ""#),
    (OUTPUT, r#"["n"]"#, r#"["n","n"]"#),
    (OUTPUT, r#""proceed""#, r#""escalate""#),
    (OUTPUT, r#"true,"summary":"s""#, r#"true,"summary":"s","version":2"#),
    (OUTPUT, r#""c""#, r#""""#),
    (OUTPUT, r#""c""#, r#""\u0000\r\n\ufeff""#),
    (OUTPUT, "a/b.md", ".gitignore"),
    (OUTPUT, "a/b.md", ".github/workflows/ci.yml"),
    (OUTPUT, "a/b.md", "a/.workflow/index.md"),
    (OUTPUT, "a/b.md", "a/b...c/.x"),
    (OUTPUT, "a/b.md", "com10/auxiliary/nul-"),
    (OUTPUT, r#"[{"path":"a/b.md","operation":"create","content":"c"}]"#, "[]"),
];

/// What readers are known to take too lightly.
const REFUSED: [(&str, &str, &str); 68] = [
    (INPUT, r#""005""#, r#""""#),
    (INPUT, r#""005""#, r#""..""#),
    (INPUT, r#""005""#, r#"["005"]"#),
    (INPUT, r#"{"feature_id":"005","workflow":"w","iteration":1}"#, r#"["005","w",1]"#),
    (INPUT, r#"{"action":"v","params":{}}"#, r#"["v",{}]"#),
    (INPUT, r#""params":{}"#, r#""params":[]"#),
    (INPUT, r#""params":{}"#, r#""params":"""#),
    (INPUT, r#""params":{}"#, r#""params":{"a":1,"a":1}"#),
    (INPUT, r#""params":{}"#, r#""params":{"a":1,"\u0061":1}"#),
    (INPUT, r#""workflow""#, r#""Workflow""#),
    (INPUT, r#""w""#, r#"" \t""#),
    (INPUT, r#""w""#, "null"),
    (INPUT, r#""iteration":1"#, r#""iteration":0"#),
    (INPUT, r#""iteration":1"#, r#""iteration":-0"#),
    (INPUT, r#""iteration":1"#, r#""iteration":1.5"#),
    (INPUT, r#""iteration":1"#, r#""iteration":9007199254740992"#),
    (INPUT, r#""iteration":1"#, r#""iteration":1e999"#),
    (INPUT, r#""b""#, "1"),
    (INPUT, r#""b""#, r#""""#),
    (INPUT, r#""b""#, r#""/etc/passwd""#),
    (INPUT, r#""b""#, r#""../x""#),
    (INPUT, r#""b""#, r#"["a",null]"#),
    (INPUT, r#""b""#, r#"[["a"]]"#),
    (INPUT, r#"["n"]"#, "null"),
    (INPUT, r#"["n"]"#, r#"["n",1]"#),
    (INPUT, r#"["n"]"#, r#"{"from":"validator"}"#),
    (OUTPUT, "true", "\"false\""),
    (OUTPUT, "true", "null"),
    (OUTPUT, "true", "TRUE"),
    (OUTPUT, r#""s""#, r#""\n""#),
    (OUTPUT, r#""s""#, "null"),
    (OUTPUT, r#""s""#, r#""\ud800""#),
    (OUTPUT, r#""s""#, r#""\udc00\ud800""#),
    (OUTPUT, r#""proceed""#, r#""""#),
    (OUTPUT, r#""proceed""#, r#"" proceed""#),
    (OUTPUT, r#""proceed""#, r#""complete""#),
    (OUTPUT, r#""proceed""#, r#"["proceed"]"#),
    (OUTPUT, r#""proceed""#, "0"),
    (OUTPUT, r#""recommendation""#, r#""Recommendation""#),
    (OUTPUT, r#"["n"]"#, r#"["n",null]"#),
    (OUTPUT, r#"["n"]"#, r#"[["n"]]"#),
    (OUTPUT, r#""create""#, r#""CREATE""#),
    (OUTPUT, r#""create""#, r#""append""#),
    (OUTPUT, r#""c""#, "null"),
    (OUTPUT, r#""c""#, "[\"c\"]"),
    (OUTPUT, r#""c""#, r#""\udfff""#),
    (OUTPUT, r#""path""#, r#""file""#),
    (OUTPUT, r#"[{"#, r#"[null,{"#),
    (OUTPUT, "a/b.md", ""),
    (OUTPUT, "a/b.md", "."),
    (OUTPUT, "a/b.md", "./a"),
    (OUTPUT, "a/b.md", "a/../b"),
    (OUTPUT, "a/b.md", "a//b"),
    (OUTPUT, "a/b.md", "~/a"),
    (OUTPUT, "a/b.md", "C:/a"),
    (OUTPUT, "a/b.md", "a\\u0000b"),
    (OUTPUT, "a/b.md", "a\\u202eb"),
    (OUTPUT, "a/b.md", "e\\u0301"),
    (OUTPUT, "a/b.md", "a/.GIT/config"),
    (OUTPUT, "a/b.md", "git~1/config"),
    (OUTPUT, "a/b.md", "a/con.txt"),
    (OUTPUT, "a/b.md", "a./b"),
    (OUTPUT, r#"}],"#, r#"},{"path":"a/b.md","operation":"update","content":""}],"#),
    (OUTPUT, r#"}],"#, r#"},{"path":"A","operation":"create","content":""}],"#),
    (OUTPUT, r#""proceed"}"#, r#""proceed"}{}"#),
    (OUTPUT, r#""proceed"}"#, r#""proceed"}//"#),
    (OUTPUT, r#""proceed"}"#, r#""proceed""#),
    (OUTPUT, "{\"success\"", "\u{feff}{\"success\""),
];

#[test]
fn traps_of_other_readers_are_none_of_ours() {
    let rows = FINE.map(|row| (row, true)).into_iter().chain(REFUSED.map(|row| (row, false)));
    for ((base, old, new), expected) in rows {
        assert!(base.contains(old), "{old}");
        let text = base.replacen(old, new, 1);
        let found = if base == INPUT {
            faults(InputEnvelope::from_bytes(text.as_bytes()))
        } else {
            faults(OutputEnvelope::from_bytes(text.as_bytes()))
        };
        assert_eq!(found.is_empty(), expected, "{text}: {found:?}");
    }
}

/// The texts of all values that are neither lists nor objects; of numbers the canonical one.
fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(elements) => elements.iter().for_each(|element| leaves(element, found)),
        Value::Object(members) => members.values().for_each(|member| leaves(member, found)),
        Value::String(text) => found.push(text.clone()),
        other => found.push(String::from_utf8_lossy(&to_bytes(other)).into_owned()),
    }
}

fn migration_is_sound(document: &Value, migrate: fn(Value) -> Migration, valid_and_new: bool) {
    let once = migrate(document.clone());
    let again = migrate(once.value.clone());
    assert_eq!((&again.value, again.changes), (&once.value, Vec::new()), "{document}");
    if valid_and_new {
        assert_eq!((&once.value, &once.changes, &once.by_hand), (document, &vec![], &vec![]));
    }
    let mut said = Vec::new();
    leaves(&once.value, &mut said);
    said.extend(once.changes.iter().chain(&once.by_hand).map(|fault| fault.message.clone()));
    let said = said.join("\n");
    let mut all = Vec::new();
    leaves(document, &mut all);
    for leaf in all {
        // Inside of a report that is told as JSON, a text is escaped.
        let escaped = json!(leaf).to_string();
        let found = said.contains(&leaf) || said.contains(escaped.trim_matches('"'));
        assert!(found, "{leaf:?} of {document} is not in {said}");
    }
}

fn both_are_sound(document: &Value) {
    let new = InputEnvelope::from_value(document.clone())
        .is_ok_and(|envelope| envelope.legacy_hints().is_empty());
    migration_is_sound(document, migrate_input, new);
    let new = OutputEnvelope::from_value(document.clone())
        .is_ok_and(|envelope| envelope.legacy_hints().is_empty());
    migration_is_sound(document, migrate_output, new);
}

#[test]
fn shared_cases_lose_nothing_and_valid_ones_change_nothing() {
    let mut tried = 0;
    for case in cases() {
        let text = case["json"].as_str().expect("text");
        if let Ok(document) = serde_json::from_str::<Value>(text) {
            both_are_sound(&document);
            tried += 1;
        }
    }
    assert!(tried > 90);
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|boolean| json!(boolean)),
        (-1000..1000_i64).prop_map(|integer| json!(integer)),
        "[a-z\\\\\"é\u{1}\u{ffff} /._]{0,8}".prop_map(|text| json!(text)),
        prop_oneof![Just("proceed"), Just("Retry"), Just("overwrite"), Just("a.md")]
            .prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_key(), inner, 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    const KEYS: [&str; 29] = [
        "context",
        "paths",
        "task",
        "prior_context",
        "feature_id",
        "workflow",
        "iteration",
        "phase",
        "artifact_paths",
        "spec_path",
        "x_path",
        "x_paths",
        "check_module",
        "mode",
        "action",
        "params",
        "plugin",
        "success",
        "summary",
        "artifacts",
        "notes",
        "recommendation",
        "next_recommendation",
        "state_updates",
        "result",
        "validation_report",
        "passed",
        "failed",
        "operation",
    ];
    prop_oneof![9 => prop::sample::select(&KEYS[..]).prop_map(str::to_owned), 1 => "[a-c/~_s]{0,4}"]
}

fn any_document() -> impl Strategy<Value = Value> {
    let base = prop_oneof![Just(json!({})), Just(input()), Just(output())];
    let more = prop::collection::btree_map(any_key(), any_value(), 0..8);
    (base, more).prop_map(|(base, more)| with(base, more.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn migrating_twice_is_migrating_once_and_nothing_vanishes(document in any_document()) {
        both_are_sound(&document);
    }
}
