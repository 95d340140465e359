//! A person is asked, and answers from another terminal, or does not.

use std::io::BufReader;
use std::process::Child;

use serde_json::{Value, json};

use super::stage::Stage;

/// Deletes a file, which a critic of strict policy does not decide alone.
fn deletion(seconds: u32) -> String {
    format!(
        r#"
        task_id = "deletion"
        objective = "Have the file gone"
        policy_profile = "strict"
        policy = {{ question_seconds = {seconds} }}
        [[steps]]
        id = "delete"
        objective = "Delete the file"
        actions = [{{ tool = "file_delete", path = "doomed" }}]
        claims = [{{ text = "The file is gone" }}]
        "#
    )
}

/// A session that waits for an answer, and the id of its question.
fn asked(stage: &Stage) -> (Child, BufReader<std::process::ChildStdout>, String) {
    stage.write("doomed", "x");
    stage.write("task.toml", &deletion(60));
    let mut child = stage.spawn(&["run", "task.toml", "--json"]);
    let mut events = BufReader::new(child.stdout.take().unwrap());
    let question = asked_in(&mut events);
    (child, events, question)
}

/// Reads events until a person is asked; gives the id of the question.
pub(super) fn asked_in(events: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "nobody was asked");
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["payload"]["decision"] == "asked" {
            return event["payload"]["subject"]["event_id"].as_str().unwrap().to_owned();
        }
    }
}

#[test]
fn what_a_person_approves_from_another_terminal_runs() {
    let stage = Stage::new();
    let (mut child, _events, question) = asked(&stage);
    let listed = stage.place.run(&["approve", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["id"], json!(question));
    assert_eq!(listed[0]["title"], "file_delete doomed");
    let screen = stage.place.run(&["approve", &question, "--yes", "--reason", "it is mine"]);
    assert_eq!(screen.code, 0, "{screen}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!stage.path("doomed").exists());
    let review = stage.payloads("tool_intent_reviewed").pop().unwrap();
    assert_eq!(
        (&review["decision"], &review["reasons"], &review["channel"]),
        (&json!("approved"), &json!(["it is mine"]), &json!("unprotected-key"))
    );
    assert_eq!(stage.verify().code, 0);
    let late = stage.place.run(&["approve", &question, "--yes"]);
    assert_eq!(late.code, 3, "{late}");
}

#[test]
fn what_a_person_refuses_does_not_run() {
    let stage = Stage::new();
    let (mut child, _events, question) = asked(&stage);
    assert_eq!(stage.place.run(&["approve", &question, "--no"]).code, 0);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(stage.path("doomed").exists());
    assert_eq!(stage.payloads("tool_execution_started"), Vec::<Value>::new());
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn silence_until_the_deadline_is_a_no() {
    let stage = Stage::new();
    stage.write("doomed", "x");
    let screen = stage.run_task(&deletion(1));
    assert_eq!(screen.code, 3, "{screen}");
    assert!(stage.path("doomed").exists());
    let review = stage.payloads("tool_intent_reviewed").pop().unwrap();
    let reason = review["reasons"][0].as_str().unwrap();
    assert!(reason.starts_with("nobody answered before "), "{reason}");
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn an_abort_from_another_terminal_ends_the_session_that_waits() {
    let stage = Stage::new();
    let (mut child, _events, _) = asked(&stage);
    let trace = stage.trace();
    let screen = stage.place.run(&["trace", "abort", &trace, "--reason", "changed my mind"]);
    assert_eq!(screen.code, 0, "{screen}");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let last = stage.events().pop().unwrap();
    assert_eq!(
        (&last["event_type"], &last["actor"]["role"]),
        (&json!("session_aborted"), &json!("operator"))
    );
    let verified = stage.verify();
    assert_eq!(verified.code, 0, "{verified}");
    assert!(verified.stdout().contains("closed: aborted"), "{verified}");
    assert_eq!(stage.place.run(&["trace", "abort", &trace]).code, 3);
}
