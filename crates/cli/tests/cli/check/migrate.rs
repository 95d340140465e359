//! `check input-envelope --migrate` and `check output-envelope --migrate`.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::binary::run;
use crate::cases::{each, lines_of, text};

const INPUT: [&str; 3] = ["check", "input-envelope", "--migrate"];
const OUTPUT: [&str; 3] = ["check", "output-envelope", "--migrate"];

fn as_json(arguments: [&str; 3]) -> [&str; 4] {
    let [check, kind, migrate] = arguments;
    [check, kind, migrate, "--json"]
}

#[test]
fn a_flat_prompt_is_printed_as_an_input_envelope() {
    let prompt = json!({
        "feature_id": "005", "workflow": "specify", "iteration": 1, "mode": "classify_gaps",
        "spec_path": "specs/005/spec.md", "bounds": { "depth": 3 },
    });
    assert_snapshot!(run(&INPUT, prompt.to_string()), @r#"
        exit 0
        --- stdout
        {
          "context": {
            "feature_id": "005",
            "workflow": "specify",
            "iteration": 1
          },
          "paths": {
            "spec": "specs/005/spec.md"
          },
          "task": {
            "action": "classify_gaps",
            "params": {
              "bounds": {
                "depth": 3
              }
            }
          }
        }

        --- stderr
        /feature_id: moved to `/context/feature_id`
        /workflow: moved to `/context/workflow`
        /iteration: moved to `/context/iteration`
        /spec_path: moved to `/paths/spec`
        /mode: moved to `/task/action`
        /bounds: moved to `/task/params/bounds`
        valid
        "#);
}

#[test]
fn what_is_left_to_a_person_is_a_warning_and_what_is_still_wrong_an_error() {
    let draft = json!({
        "success": true,
        "artifacts": [{ "path": "a.md", "operation": "overwrite", "content": "x" }],
        "state_updates": { "gaps": ["G1"] },
        "validation_report": { "passed": 8, "failed": 1 },
        "next_recommendation": "proceed",
    });
    assert_snapshot!(run(&OUTPUT, draft.to_string()), @r#"
        exit 3
        --- stdout
        {
          "success": true,
          "artifacts": [
            {
              "path": "a.md",
              "operation": "update",
              "content": "x"
            }
          ],
          "notes": [
            "State updates: {\"gaps\":[\"G1\"]}",
            "Validation: 8 passed, 1 failed"
          ],
          "recommendation": "proceed"
        }

        --- stderr
        /next_recommendation: moved to `/recommendation`
        /artifacts/0/operation: `overwrite` is written `update`
        /state_updates: kept as a note at `/notes/0`
        /validation_report: said in a note at `/notes/1`
        warning: /state_updates: return the updated file as an artifact
        error: not a valid output envelope: 1 fault
          /summary: missing
        "#);
}

#[test]
fn an_answer_as_json_has_the_envelope_and_everything_that_is_said_of_it() {
    let draft = json!({
        "success": true, "summary": "s", "collision_risks": ["r1", "r2"],
        "next_recommendation": "skip",
    });
    let screen = run(&as_json(OUTPUT), draft.to_string());
    assert_eq!(screen.code, 3, "{screen}");
    assert_eq!(
        screen.answer(),
        json!({
            "envelope": {
                "success": true, "summary": "s", "artifacts": [],
                "notes": ["2 collision risks detected"], "next_recommendation": "skip",
            },
            "changes": [
                {
                    "pointer": "/collision_risks",
                    "message": "said in a note at `/notes/0`; it is [\"r1\",\"r2\"]",
                },
                { "pointer": "/artifacts", "message": "added, empty: []" },
            ],
            "by_hand": [{
                "pointer": "/next_recommendation",
                "message": "has no counterpart among proceed, retry, escalate",
            }],
            "valid": false,
            "faults": [{
                "pointer": "/recommendation",
                "message": "missing: write `recommendation` instead of `next_recommendation`",
            }],
        })
    );
}

#[test]
fn envelopes_of_the_present_form_have_nothing_to_change() {
    let mut cases = lines_of("envelope-cases.jsonl");
    // The one whose context has a member of a former version.
    let former = |case: &Value| text(case, "name") == "input_extra_context_field";
    cases.retain(|case| {
        text(case, "stage") == "parse" && text(case, "expect") == "ok" && !former(case)
    });
    each(&cases, |case| {
        let (name, document) = (text(case, "name"), text(case, "json"));
        let arguments = if text(case, "kind") == "input" { INPUT } else { OUTPUT };
        let screen = run(&arguments, document);
        assert_eq!((screen.code, screen.stderr.as_str()), (0, "nothing to change\n"), "{name}");
        let before: Value = serde_json::from_str(document).unwrap();
        let after: Value = serde_json::from_slice(&screen.stdout).unwrap();
        assert_eq!(after, before, "{name}");
        let answer = run(&as_json(arguments), document);
        assert_eq!(answer.code, 0, "{name}: {answer}");
        assert_eq!(
            answer.answer(),
            json!({
                "envelope": before, "changes": [], "by_hand": [], "valid": true, "faults": [],
            }),
            "{name}"
        );
    });
    assert!(cases.len() > 15);
}

#[test]
fn what_was_migrated_is_checked_as_it_is_printed() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let prompt = |depth: usize| {
        let context = r#""context":{"feature_id":null,"workflow":"w","iteration":1}"#;
        format!(r#"{{{context},"mode":"m","deep":{}}}"#, nested(depth))
    };
    let screen = run(&INPUT, prompt(61));
    assert_eq!(screen.code, 0, "{screen}");
    assert_eq!(run(&INPUT, &screen.stdout).stderr, "nothing to change\n");
    let screen = run(&INPUT, prompt(63));
    assert_eq!(screen.code, 3, "{screen}");
    assert!(screen.stderr.contains("\nerror: not a valid input envelope: 1 fault\n"), "{screen}");
}

#[test]
fn documents_that_are_not_objects_are_refused_as_without_it() {
    for document in ["", "[]", "null", "{\"a\":1,\"a\":2}", "```json\n{}\n```"] {
        for arguments in [INPUT, OUTPUT] {
            let [check, kind, _] = arguments;
            let screen = run(&arguments, document);
            assert_eq!(screen.code, 3, "{screen}");
            assert_eq!(screen, run(&[check, kind], document));
            let answer = run(&as_json(arguments), document);
            assert_eq!(answer, run(&[check, kind, "--json"], document));
        }
    }
}

#[test]
fn only_envelopes_are_migrated() {
    assert_snapshot!(run(&["check", "task", "--migrate"], ""), @r"
        exit 2
        --- stdout

        --- stderr
        error: `--migrate` is about envelopes
        hint: write `countersign check output-envelope --migrate`, or `input-envelope`
        ");
}

#[test]
fn what_an_agent_wrote_moves_no_cursor() {
    let draft = json!({ "\u{1b}[2J": 1, "result": ["\u{1b}[2J\u{202e}"] });
    let screen = run(&OUTPUT, draft.to_string());
    assert!(!screen.stderr.contains(['\u{1b}', '\u{202e}']), "{screen:?}");
    assert!(screen.stderr.starts_with("/result: said in a note at `/notes/0`; it is "), "{screen}");
}
