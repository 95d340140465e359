//! Outside agents: gate, record and what the trace says of it.
#![cfg(test)]

mod approvals;
mod aside;
mod disputes;

use std::ffi::OsString;

use countersign_format::event::{Event, EventType};
use countersign_format::receipt::{ActionType, AgentAction, GateDecision, ReceiptForm};
use countersign_gate::Decision;
use countersign_protocol::Refusal;
use countersign_protocol::receipts::Gating;
use countersign_runtime::actions::{
    ActionReport, ActionRequest, AgentRuntime, Enforcement, GivenParent, RuntimeOptions,
    history_of, recent,
};
use countersign_runtime::questions::PersonsAnswer;
use countersign_runtime::secrets::Redactor;
use countersign_runtime::{WorkspaceError, WriteError};
use countersign_testkit::TestHome;
use serde_json::{Value, json};

const SECRET: &str = "zq81-very-secret-value-77xk";

fn runtime(home: &TestHome, options: RuntimeOptions) -> AgentRuntime {
    let environment = [(OsString::from("DEPLOY_TOKEN"), OsString::from(SECRET))];
    AgentRuntime::new(home.workspace.clone(), Redactor::new(environment), options)
}

fn agent(home: &TestHome) -> AgentRuntime {
    runtime(home, RuntimeOptions { agent: Some("ana".into()), ..RuntimeOptions::default() })
}

fn edit(file: &str) -> ActionRequest {
    ActionRequest {
        action_type: "code_edit".into(),
        description: format!("change {file}"),
        files: vec![file.into()],
        diff: Some(format!("--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-a\n+b\n")),
        ..ActionRequest::default()
    }
}

fn done(file: &str) -> ActionReport {
    ActionReport {
        action_type: "edit".into(),
        description: format!("changed {file}"),
        tool_name: "editor".into(),
        success: true,
        files: vec![format!("./{file}")],
        duration_ms: 12,
        output: Some("ok".into()),
        ..ActionReport::default()
    }
}

fn actions(events: &[Event]) -> Vec<AgentAction> {
    let actions = events.iter().filter_map(|event| event.payload.get("action"));
    actions.map(|action| AgentAction::from_json(action).unwrap()).collect()
}

/// The chain of spec 1, by its four steps, over what the events carry.
fn check_chain(events: &[Event]) -> usize {
    let mut before: Option<(String, String)> = None;
    let mut count = 0;
    for event in events {
        let Some(action) = event.payload.get("action") else { continue };
        let action = AgentAction::from_json(action).unwrap();
        let hash = action.receipt_hash(ReceiptForm::Twelve).to_string();
        assert_eq!(event.payload["receipt_hash"], json!(hash));
        let parent = action.parent_receipt_hash.as_ref().map(|it| it.to_lossy());
        let parent_id = action.parent_action_id.as_ref().map(|it| it.to_lossy());
        assert_eq!(parent_id.zip(parent), before);
        before = Some((action.action_id.to_lossy(), hash));
        count += 1;
    }
    count
}

#[test]
fn what_was_gated_and_done_is_one_chain_of_receipts() {
    let home = TestHome::new();
    let agent = agent(&home);
    let answer = agent.gate(&edit("src/a.rs")).unwrap();
    assert_eq!(answer.decision, Decision::Allow, "{:?}", answer.reasons);
    let report = ActionReport { gate_token: Some(answer.token.clone()), ..done("src/a.rs") };
    let first = agent.record(&report).unwrap();
    assert_eq!((first.gating, first.token_fault.clone()), (Gating::Token, None));
    assert_eq!(first.gate_decision, Some(GateDecision::Pass));
    assert_eq!(first.label, Some(answer.opinion.label));

    agent.gate(&edit("src/b.rs")).unwrap();
    let second = agent.record(&done("src/b.rs")).unwrap();
    assert_eq!(second.gating, Gating::Inferred);
    let third = agent.record(&ActionReport { success: false, ..done("src/c.rs") }).unwrap();
    assert_eq!((third.gating, third.gate_decision), (Gating::Ungated, None));
    assert_eq!((&*third.action_id, third.count), ("act_0003", 3));

    // Session, 2 + 2, 2 + 2, 1 + 2 events.
    let report = home.check(first.trace_id, 12);
    assert_eq!(report.failures, []);
    let events = home.events(first.trace_id);
    assert_eq!(check_chain(&events), 3);
    let types: Vec<ActionType> = actions(&events).iter().map(|it| it.action_type).collect();
    assert_eq!(types, [ActionType::CodeEdit; 3]);
    let verdicts: Vec<&str> = actions(&events)
        .iter()
        .map(|it| it.policy_verdict.map_or("", countersign_format::receipt::PolicyVerdict::as_str))
        .collect();
    assert_eq!(verdicts, ["POLICY_ENFORCED", "POLICY_ENFORCED", "PROOF_ONLY"]);
}

#[test]
fn a_token_is_used_once_and_for_what_it_was_given() {
    let home = TestHome::new();
    let agent = agent(&home);
    let token = agent.gate(&edit("a.rs")).unwrap().token;
    let with = |file: &str| ActionReport { gate_token: Some(token.clone()), ..done(file) };
    let other = agent.record(&with("b.rs")).unwrap();
    let fault = "the verdict is for an action of another type, with another tool or other files";
    assert_eq!((other.gating, other.token_fault.as_deref()), (Gating::Ungated, Some(fault)));
    assert_eq!(agent.record(&with("a.rs")).unwrap().gating, Gating::Token);
    let again = agent.record(&with("a.rs")).unwrap();
    assert_eq!(again.gating, Gating::Ungated);
    assert!(again.token_fault.unwrap().contains("used"));
}

#[test]
fn a_verdict_expires() {
    let home = TestHome::new();
    let options = RuntimeOptions { token_seconds: 60, ..RuntimeOptions::default() };
    let agent = runtime(&home, options);
    let token = agent.gate(&edit("a.rs")).unwrap().token;
    home.clock.advance(60_000);
    let report = ActionReport { gate_token: Some(token), ..done("a.rs") };
    let late = agent.record(&report).unwrap();
    assert_eq!(late.gating, Gating::Ungated);
    assert!(late.token_fault.is_some());
}

#[test]
fn what_is_refused_gets_its_receipt_and_doing_it_all_the_same_shows() {
    let home = TestHome::new();
    let agent = agent(&home);
    let answer = agent.gate(&edit(".countersign/log/events.jsonl")).unwrap();
    assert_eq!(answer.decision, Decision::Deny, "{:?}", answer.reasons);
    let done = agent.record(&done(".countersign/log/events.jsonl")).unwrap();
    assert_eq!(done.gate_decision, Some(GateDecision::Skip));
    assert_eq!((&*done.action_id, done.count), ("act_0002", 2));
    let events = home.events(done.trace_id);
    assert_eq!(check_chain(&events), 2);
    let despite: Vec<&Value> =
        events.iter().filter_map(|event| event.payload.get("despite")).collect();
    assert_eq!(despite, [&json!({ "event_id": answer.token, "seq": 2 })]);
    let report = home.verify(done.trace_id);
    assert_eq!((report.failures.len(), report.metrics.events), (0, 6));
    let warnings: Vec<&str> = report.warnings.iter().map(|it| &*it.warning_code).collect();
    assert_eq!(warnings, ["DENIED_ACTION_RECORDED"]);
    assert_eq!(agent.status().denials, 1);
}

#[test]
fn a_question_is_asked_once_and_its_answer_counts_for_the_same_action() {
    let home = TestHome::new();
    let agent = agent(&home);
    let asked = agent.gate(&edit(".env")).unwrap();
    assert_eq!(asked.decision, Decision::Ask, "{:?}", asked.reasons);
    let again = agent.gate(&edit(".env")).unwrap();
    assert_eq!((again.decision, &again.token), (Decision::Ask, &asked.token));
    let (questions, unreadable) = home.workspace.questions().unwrap();
    assert_eq!((questions.len(), unreadable.len()), (1, 0));
    assert_eq!(Some(&questions[0].id), asked.question.as_ref());
    assert_eq!(questions[0].title, "ana: code_edit .env");
    home.workspace.answer(&questions[0], PersonsAnswer::Yes, None).unwrap();
    let approved = agent.gate(&edit(".env")).unwrap();
    assert_eq!((approved.decision, &approved.token), (Decision::Allow, &asked.token));
    assert!(approved.approved_by_person);
    let receipt = agent.record(&done(".env")).unwrap();
    assert_eq!(receipt.gate_decision, Some(GateDecision::HumanApproved));
    assert_eq!(receipt.gating, Gating::Inferred);
    // The approval is used up.
    let fresh = agent.gate(&edit(".env")).unwrap();
    assert_ne!(fresh.token, asked.token);
    // Session, question, answer, that it was told, start and end, and the next question.
    let report = home.check(receipt.trace_id, 9);
    assert_eq!(report.approvals.unprotected_key, 1);
}

#[test]
fn a_refusal_by_a_person_is_a_receipt_too() {
    let home = TestHome::new();
    let agent = agent(&home);
    let asked = agent.gate(&edit(".env")).unwrap();
    agent.answer_from_client(&asked.token, false).unwrap();
    let events = home.events(asked.trace_id);
    let last = events.last().unwrap();
    assert_eq!(last.event_type, EventType::ToolIntentReviewed);
    assert_eq!(last.payload["channel"], json!("client-prompt"));
    assert_eq!(actions(&events)[0].gate_decision, Some(GateDecision::Skip));
    assert_eq!(check_chain(&events), 1);
}

#[test]
fn in_shadow_everything_passes_and_the_verdict_is_recorded() {
    let home = TestHome::new();
    let options = RuntimeOptions { enforcement: Enforcement::Shadow, ..RuntimeOptions::default() };
    let agent = runtime(&home, options);
    let answer = agent.gate(&edit(".countersign/x")).unwrap();
    assert_eq!((answer.decision, answer.enforced), (Decision::Allow, false));
    assert_eq!(answer.opinion.verdict.decision(), Decision::Deny);
    let receipt = agent.record(&done(".countersign/x")).unwrap();
    assert_eq!(receipt.gate_decision, Some(GateDecision::Skip));
    let events = home.events(receipt.trace_id);
    let verdict = actions(&events)[0].policy_verdict;
    assert_eq!(verdict, Some(countersign_format::receipt::PolicyVerdict::ProofOnly));
    assert_eq!(events[2].payload["gate"]["decision"], json!("deny"));
    assert_eq!(events[2].payload["decision"], json!("approved"));
}

#[test]
fn who_chains_by_hand_must_name_the_last_action() {
    let home = TestHome::new();
    let options = RuntimeOptions { auto_chain: false, ..RuntimeOptions::default() };
    let agent = runtime(&home, options);
    let first = agent.record(&done("a.rs")).unwrap();
    let wrong = agent.record(&done("b.rs")).unwrap_err();
    assert!(
        matches!(&wrong, WorkspaceError::Write(WriteError::Refused(Refusal::OtherParent { .. }))),
        "{wrong:?}"
    );
    let parent = GivenParent {
        action_id: Some(first.action_id.clone()),
        receipt_hash: Some(first.receipt_hash),
    };
    let second = agent.record(&ActionReport { parent: Some(parent), ..done("b.rs") }).unwrap();
    assert_eq!(second.action_id, "act_0002");
    assert_eq!(check_chain(&home.events(first.trace_id)), 2);
}

#[test]
fn no_secret_and_no_diff_leaves_the_agent() {
    let home = TestHome::new();
    let agent = agent(&home);
    let request = ActionRequest {
        description: format!("use {SECRET}"),
        diff: Some(format!("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+key = \"{SECRET}\"\n")),
        command: Some(format!("deploy --with {SECRET}")),
        ..edit("x")
    };
    let answer = agent.gate(&request).unwrap();
    let report = ActionReport {
        output: Some(format!("used {SECRET}")),
        error: Some(SECRET.into()),
        description: SECRET.into(),
        ..done("x")
    };
    agent.record(&report).unwrap();
    let mut files = vec![home.path()];
    let mut read = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        read += 1;
        assert!(
            !bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()),
            "{}",
            path.display()
        );
    }
    assert!(read > 5);
    let events = home.events(answer.trace_id);
    assert_eq!(events[1].payload["redactions"][0]["rule"], json!("environment"));
    let live = home.path().parent().unwrap().join(".capseal/events.jsonl");
    let live = std::fs::read_to_string(live).unwrap();
    assert!(!live.contains(SECRET) && !live.contains("@@"), "{live}");
    let kinds: Vec<Value> = live
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone())
        .collect();
    assert_eq!(kinds, ["session_start", "gate", "record"]);
}

#[test]
fn the_history_of_a_file_is_that_of_exactly_this_file() {
    let home = TestHome::new();
    let agent = agent(&home);
    agent.gate(&edit("src/data.py")).unwrap();
    agent.record(&done("src/data.py")).unwrap();
    agent.record(&done("a.py")).unwrap();
    let lines = |file: &str| {
        let history = history_of(&home.workspace, file).unwrap();
        let sessions = history.sessions.into_iter();
        sessions.flat_map(|session| session.changes).collect::<Vec<_>>()
    };
    assert_eq!(lines("./src/data.py"), ["change src/data.py (approved)"]);
    assert_eq!(lines("a.py"), ["changed a.py (ungated)"]);
    assert_eq!(lines("src"), ["change src/data.py (approved)"]);
    assert_eq!(lines("data.py"), [""; 0]);
    let recent = recent(&home.workspace, 10).unwrap();
    assert_eq!(recent.len(), 1);
    assert_eq!((recent[0].actions, recent[0].approved, recent[0].files_changed), (2, 1, 2));
}

#[test]
fn an_agent_whose_recording_was_sealed_elsewhere_begins_another() {
    let home = TestHome::new();
    let agent = agent(&home);
    let first = agent.record(&done("a.rs")).unwrap();
    let recording = home.workspace.recording(first.trace_id).unwrap();
    recording.conclude("sealed by somebody else").unwrap();
    let second = agent.record(&done("b.rs")).unwrap();
    assert_ne!(second.trace_id, first.trace_id);
    assert_eq!(second.action_id, "act_0001");
    home.check(second.trace_id, 4);
}
