//! The hook for any other program.

use serde_json::{Value, json};

use super::{events, receipts, traces, verify_all, workspace};
use crate::binary::Screen;
use crate::place::Place;

fn generic(place: &Place, options: &[&str], input: &Value) -> Screen {
    let arguments = [&["hook", "generic"], options].concat();
    place.run_with(&arguments, input.to_string().as_bytes())
}

fn told(screen: &Screen) -> Value {
    serde_json::from_slice(&screen.stdout).unwrap()
}

fn run(event: &str, call: &str, command: &str) -> Value {
    json!({
        "event": event, "client": "my-agent", "session": "s1", "call": call,
        "action": { "type": "shell_exec", "tool": "shell", "command": command,
                    "arguments": { "cmd": command } },
    })
}

#[test]
fn where_an_agent_stands_is_a_whole_path_or_where_the_hook_runs() {
    let place = workspace();
    let mut call = run("before", "c1", "echo x > settings.json");
    call["cwd"] = json!(".claude");
    let relative = generic(&place, &[], &call);
    assert_eq!(relative.code, 2, "{relative}");
    assert!(relative.stderr.contains("`cwd` in the input is not an absolute path"), "{relative}");
    // The same from there, by a whole path and by none.
    std::fs::create_dir_all(place.path().join(".claude")).unwrap();
    call["cwd"] = json!(place.path().join(".claude"));
    let whole = generic(&place, &[], &call);
    call.as_object_mut().unwrap().remove("cwd");
    let home = place.path().join(".countersign");
    let mut here = place.command(&["--home", home.to_str().unwrap(), "hook", "generic"]);
    here.current_dir(place.path().join(".claude"));
    let here = crate::binary::run_with(here, call.to_string().as_bytes());
    assert_ne!(told(&whole)["decision"], json!("allow"), "{whole}");
    assert_eq!(told(&here)["decision"], told(&whole)["decision"], "{here}");
}

#[test]
fn a_program_asks_acts_and_tells() {
    let place = workspace();
    let started =
        generic(&place, &[], &json!({ "event": "start", "client": "my-agent", "session": "s1" }));
    let trace = traces(&place).pop().unwrap();
    assert_eq!(
        (started.code, told(&started)),
        (0, json!({ "decision": "allow", "trace_id": trace }))
    );
    for (call, command, code, decision) in [
        ("c1", "ls", 0, "allow"),
        ("c2", "cat ~/.ssh/id_rsa", 3, "deny"),
        ("c3", "npm publish", 4, "ask"),
    ] {
        let answer = generic(&place, &[], &run("before", call, command));
        assert_eq!((answer.code, &*answer.stderr), (code, ""), "{answer}");
        let answer = told(&answer);
        assert_eq!(answer["decision"], decision, "{answer}");
        assert_eq!((&answer["trace_id"], &answer["enforced"]), (&json!(trace), &json!(true)));
        assert_eq!(answer.get("question").is_some(), decision == "ask");
    }
    let mut done = run("after", "c1", "ls");
    done["result"] = json!({ "success": true, "output": "a\nb\n", "duration_ms": 3 });
    let answer = generic(&place, &[], &done);
    assert_eq!(answer.code, 0, "{answer}");
    assert_eq!(told(&answer)["gating"], "token");
    let mut done = run("after", "c3", "npm publish");
    done["result"] = json!({ "success": false, "error": "offline" });
    done["approved"] = json!(true);
    assert_eq!(told(&generic(&place, &[], &done))["gate_decision"], "human_approved");
    let end = json!({ "event": "end", "client": "my-agent", "session": "s1", "reason": "done" });
    let ended = generic(&place, &[], &end);
    assert_eq!((ended.code, told(&ended)), (0, json!({ "decision": "allow", "ended": [trace] })));
    let receipts = receipts(&events(&place, &trace));
    assert_eq!(
        receipts,
        [
            json!(["skip", null, false]),
            json!(["pass", "token", true]),
            json!(["human_approved", "token", false]),
        ]
    );
    let verified = place.run(&["verify", &trace]);
    assert_eq!(verified.code, 0, "{verified}");
}

#[test]
fn a_person_can_answer_while_the_program_waits() {
    let place = workspace();
    let asked = generic(&place, &[], &run("before", "c1", "npm publish"));
    let question = told(&asked)["question"].as_str().unwrap().to_owned();
    let still = generic(&place, &["--wait", "1"], &run("before", "c1", "npm publish"));
    assert_eq!(still.code, 4, "{still}");
    let approved = place.run(&["approve", &question, "--yes"]);
    assert_eq!(approved.code, 0, "{approved}");
    let answer = generic(&place, &["--wait", "60"], &run("before", "c2", "npm publish"));
    assert_eq!((answer.code, told(&answer)["decision"].clone()), (0, json!("allow")), "{answer}");
    verify_all(&place);
}

#[test]
fn waiting_for_a_person_ends_before_the_deadline_that_was_given() {
    let place = workspace();
    let begun = std::time::Instant::now();
    let options = ["--wait", "3000", "--deadline", "4"];
    let answer = generic(&place, &options, &run("before", "c1", "npm publish"));
    // Nobody has answered, and nothing has failed.
    assert_eq!((answer.code, told(&answer)["decision"].clone()), (4, json!("ask")), "{answer}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    verify_all(&place);
}

#[test]
fn an_approval_lets_one_of_two_programs_through_that_wait_for_it() {
    let place = workspace();
    let mut unnamed = run("before", "", "npm publish");
    unnamed.as_object_mut().unwrap().remove("call");
    let asked = generic(&place, &[], &unnamed);
    let question = told(&asked)["question"].as_str().unwrap().to_owned();
    let answers = std::thread::scope(|scope| {
        let waits = [(); 2].map(|()| scope.spawn(|| generic(&place, &["--wait", "60"], &unnamed)));
        assert_eq!(place.run(&["approve", &question, "--yes"]).code, 0);
        // One of them is told; the other one asks a question of its own.
        let second = loop {
            let listed = place.run(&["approve", "--json"]);
            let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
            if let Some(id) = listed[0]["id"].as_str() {
                break id.to_owned();
            }
        };
        assert_ne!(second, question);
        assert_eq!(place.run(&["approve", &second, "--no"]).code, 0);
        let mut codes = waits.map(|it| it.join().unwrap().code);
        codes.sort_unstable();
        codes
    });
    assert_eq!(answers, [0, 3]);
    verify_all(&place);
}

#[test]
fn an_action_as_receipts_have_it_is_recorded_as_done() {
    let place = workspace();
    let action = json!({
        "action_id": "act-7", "action_type": "code_edit", "instruction_hash": "a", "input_hash": "b",
        "output_hash": "c", "success": true, "duration_ms": 12, "timestamp": "2026-01-02T03:04:05Z",
        "metadata": { "description": "fix it", "tool_name": "editor", "files_affected": ["src/a.rs"] },
    });
    let lacking = generic(&place, &[], &action);
    assert_eq!(lacking.code, 2, "{lacking}");
    assert_eq!(told(&lacking)["reasons"], json!(["the input has no `session`"]));
    let answer = generic(&place, &["--session", "s"], &action);
    assert_eq!(answer.code, 0, "{answer}");
    let answer = told(&answer);
    assert_eq!((&answer["recorded"], &answer["gating"]), (&json!(true), &json!("ungated")));
    let check = place.run_with(&["check", "receipt"], action.to_string().as_bytes());
    assert_eq!(answer["given_receipt_hash"], check.stdout().trim(), "{check}");
    let [trace] = traces(&place).try_into().unwrap();
    let events = events(&place, &trace);
    assert_eq!(events[1]["payload"]["paths"], json!(["src/a.rs"]));
    let hash = events.last().unwrap()["artifacts"][0]["artifact_hash"].as_str().unwrap().to_owned();
    let kept: Value =
        serde_json::from_str(place.run(&["artifact", "show", &hash]).stdout()).unwrap();
    assert_eq!(kept, action);
    verify_all(&place);
}

#[test]
fn whatever_fails_is_a_refusal() {
    let place = workspace();
    let nowhere = Place::empty();
    let mut bad = run("before", "c1", "ls");
    bad["action"] = json!([]);
    for (place, input) in [(&place, &bad), (&nowhere, &run("before", "c1", "ls"))] {
        let answer = generic(place, &[], input);
        assert_eq!(answer.code, 2, "{answer}");
        assert_eq!(
            (&told(&answer)["decision"], &told(&answer)["failed"]),
            (&json!("deny"), &json!(true))
        );
        let chosen = generic(place, &["--on-failure", "allow"], input);
        assert_eq!((chosen.code, &told(&chosen)["decision"]), (0, &json!("allow")), "{chosen}");
        assert!(chosen.stderr.starts_with("error: "), "{chosen}");
    }
    let shadow = generic(&place, &["--shadow"], &run("before", "c1", "cat ~/.ssh/id_rsa"));
    let answer = told(&shadow);
    assert_eq!(
        (shadow.code, &answer["decision"], &answer["opinion"], &answer["enforced"]),
        (0, &json!("allow"), &json!("deny"), &json!(false))
    );
}
