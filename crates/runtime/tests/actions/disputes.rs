//! What an agent says, what a person said, and what nobody said: none of it is lost or talked away.

use countersign_format::event::{EventRef, EventType};
use countersign_gate::Decision;
use countersign_protocol::Refusal;
use countersign_protocol::receipts::Gating;
use countersign_runtime::WriteError;
use countersign_runtime::actions::{
    ActionReport, ActionRequest, AgentRuntime, RuntimeOptions, Waited,
};
use countersign_runtime::questions::PersonsAnswer;
use countersign_testkit::TestHome;
use serde_json::{Value, json};

use super::{SECRET, agent, check_chain, done, edit, runtime};

/// A command that a person is asked about.
fn asked(words: &str) -> ActionRequest {
    ActionRequest {
        action_type: "command".into(),
        description: "publish".into(),
        command: Some(format!("npm publish --otp {words}")),
        ..ActionRequest::default()
    }
}

fn answer(home: &TestHome, agent: &AgentRuntime, answer: PersonsAnswer) {
    let (questions, _) = agent.workspace().questions().unwrap();
    assert_eq!(questions.len(), 1);
    let _ = home.workspace.answer(&questions[0], answer, None).unwrap();
}

fn last_action(home: &TestHome, agent: &AgentRuntime) -> Value {
    let events = home.events(agent.status().trace_id.unwrap());
    events.iter().rev().find_map(|event| event.payload.get("action")).unwrap().clone()
}

#[test]
fn other_words_than_those_of_the_verdict_stay_beside_it() {
    let home = TestHome::new();
    let agent = agent(&home);
    let list = ActionRequest {
        action_type: "code_edit".into(),
        description: "tidy up".into(),
        tool: Some("editor".into()),
        files: vec!["a.rs".into()],
        ..ActionRequest::default()
    };
    let token = agent.gate(&list).unwrap().token;
    let wiped = ActionReport { description: "wiped it".into(), ..done("a.rs") };
    let with = |tool: &str| ActionReport {
        gate_token: Some(token.clone()),
        tool_name: tool.into(),
        ..wiped.clone()
    };
    let other = agent.record(&with("eraser")).unwrap();
    let fault = "the verdict is for an action of another type, with another tool or other files";
    assert_eq!((other.gating, other.token_fault.as_deref()), (Gating::Ungated, Some(fault)));
    assert_eq!(last_action(&home, &agent)["metadata"]["description"], "wiped it");

    assert_eq!(agent.record(&with("editor")).unwrap().gating, Gating::Token);
    let metadata = &last_action(&home, &agent)["metadata"];
    assert_eq!(
        (&metadata["description"], &metadata["reported_description"]),
        (&json!("tidy up"), &json!("wiped it"))
    );
}

#[test]
fn an_approval_is_for_the_secret_that_was_in_the_request() {
    let home = TestHome::new();
    let environment = [("DEPLOY_TOKEN", SECRET), ("OTHER_TOKEN", "another-secret-value-1234")];
    let environment = environment.map(|(name, value)| (name.into(), value.into()));
    let redactor = countersign_runtime::secrets::Redactor::new(environment);
    let agent = AgentRuntime::new(home.workspace.clone(), redactor, RuntimeOptions::default());
    let first = agent.gate(&asked(SECRET)).unwrap();
    assert_eq!(first.decision, Decision::Ask, "{:?}", first.reasons);
    answer(&home, &agent, PersonsAnswer::Yes);
    let other = agent.gate(&asked("another-secret-value-1234")).unwrap();
    assert_eq!((other.decision, other.approved_by_person), (Decision::Ask, false));
    let same = agent.gate(&asked(SECRET)).unwrap();
    assert_eq!((same.decision, same.approved_by_person), (Decision::Allow, true));
    assert_eq!(same.token, first.token);
}

#[test]
fn who_was_refused_by_a_person_is_not_asked_about_again() {
    let home = TestHome::new();
    let agent = agent(&home);
    let first = agent.gate(&asked("1")).unwrap();
    answer(&home, &agent, PersonsAnswer::No);
    let again = agent.gate(&asked("1")).unwrap();
    assert_eq!(
        (again.decision, &*again.reasons),
        (Decision::Deny, &["a person refused it".to_owned()][..])
    );
    assert_eq!((again.token, again.question), (first.token, None));
    assert_eq!(agent.workspace().questions().unwrap().0, []);
}

#[test]
fn a_question_that_nobody_answered_is_refused_with_a_receipt() {
    let home = TestHome::new();
    let options = RuntimeOptions { question_seconds: 60, ..RuntimeOptions::default() };
    let agent = runtime(&home, options);
    let first = agent.gate(&asked("1")).unwrap();
    home.clock.advance(60_000);
    // The same request asks anew; the missed question has become a no.
    let second = agent.gate(&asked("1")).unwrap();
    assert_ne!(second.token, first.token);
    let events = home.events(first.trace_id);
    let missed = events.iter().find(|event| event.payload["decision"] == "blocked").unwrap();
    assert_eq!(missed.event_type, EventType::ToolIntentReviewed);
    assert!(missed.payload["reasons"][0].as_str().unwrap().starts_with("nobody answered before "));
    let sealed = agent.seal(None).unwrap();
    assert_eq!(sealed.actions, 2);
    assert_eq!(sealed.report.failures, []);
    assert_eq!(check_chain(&home.events(first.trace_id)), 2);
}

#[test]
fn what_was_under_way_at_the_end_is_sealed_as_unknown() {
    let home = TestHome::new();
    let agent = agent(&home);
    let begun = ActionRequest { begins: true, ..edit("a.rs") };
    let answer = agent.gate(&begun).unwrap();
    let execution = answer.execution.unwrap();
    let sealed = agent.seal(Some("cut short")).unwrap();
    assert_eq!((sealed.actions, sealed.report.failures.len()), (1, 0));
    let events = home.events(sealed.trace_id);
    let ended = events.iter().find(|event| event.event_type == EventType::ToolExecutionFailed);
    let payload = &ended.unwrap().payload;
    assert_eq!(payload["outcome"], "unknown");
    assert_eq!(payload["execution"], json!(execution));
}

#[test]
fn a_batch_that_power_loss_cut_anywhere_can_be_sealed() {
    // The intent, its review, start and end: as many whole lines as survive.
    for kept in 1..=5 {
        let home = TestHome::new();
        let id = {
            let agent = agent(&home);
            let token = agent.gate(&edit("a.rs")).unwrap().token;
            let report = ActionReport { gate_token: Some(token), ..done("a.rs") };
            agent.record(&report).unwrap().trace_id
        };
        let file = home.workspace.trace_file(id);
        let bytes = std::fs::read(&file).unwrap();
        let ends =
            bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let ends: Vec<usize> = ends.collect();
        let cut = ends[kept - 1] + if kept < 5 { 40 } else { 0 };
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let workspace = home.reopen();
        let recording = workspace.recording(id).unwrap();
        let report = recording.conclude("cut").unwrap();
        assert_eq!(report.failures, [], "{kept}");
        let report = recording.audit_again().unwrap();
        assert_eq!(report.failures, [], "{kept}");
    }
}

#[test]
fn who_waits_for_a_person_is_woken_by_their_answer() {
    let home = TestHome::new();
    let agent = agent(&home);
    let token = agent.gate(&asked("1")).unwrap().token;
    let brief = std::time::Duration::from_millis(1);
    assert_eq!(agent.wait_for_answer(&token, brief).unwrap(), Waited::NotYet);
    let waited = std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| agent.wait_for_answer(&token, std::time::Duration::from_secs(60)));
        answer(&home, &agent, PersonsAnswer::Yes);
        waits.join().unwrap().unwrap()
    });
    assert_eq!(waited, Waited::Yes);
    let started: EventRef = agent.start(&token).unwrap();
    let again = agent.start(&token).unwrap_err();
    assert!(
        matches!(
            &again,
            countersign_runtime::WorkspaceError::Write(WriteError::Refused(
                Refusal::NotAsked { .. }
            ))
        ),
        "{again:?} {started:?}"
    );
}
