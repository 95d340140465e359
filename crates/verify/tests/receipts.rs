//! Receipts of actions: each statement of one has a broken twin, written by somebody who holds the
//! keys, and the verifier finds it.

#![cfg(test)]

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::receipt;
use countersign_format::report::{Check, CheckStatus, VerificationReport};
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_protocol::ReviewDecision;
use countersign_protocol::receipts::ReceiptHead;
use countersign_protocol::session::{ExecutionEnd, Outcome, SessionCommand};
use countersign_testkit::SessionStory;
use countersign_testkit::session::{SEPARATE, completed};
use countersign_verify::Profile;
use serde_json::{Value, json};

const RECEIPTS: &str = "CHK_RECEIPT_CHAIN";

/// A change of the payload that carries the second of three receipts.
type Change = fn(&mut Value);

/// Code, check and place of every failure.
fn failures(report: &VerificationReport) -> Vec<(&str, &str, Option<u64>)> {
    let failures = report.failures.iter();
    failures.map(|it| (it.failure_code.as_str(), it.check_id.as_str(), it.index)).collect()
}

fn check(report: &VerificationReport) -> &Check {
    report.checks.iter().find(|it| it.check_id == RECEIPTS).unwrap()
}

fn review(subject: &EventRef, by: Role, decision: ReviewDecision) -> SessionCommand {
    SessionCommand::ReviewIntent {
        by,
        subject: subject.clone(),
        decision,
        reasons: Vec::new(),
        gate: None,
        deadline: None,
        channel: None,
        artifacts: Vec::new(),
    }
}

/// Begins to run a tool.
fn start(story: &mut SessionStory, proposal: &EventRef, input: &str) -> EventRef {
    let intent = story.intend(proposal, RiskClass::Low, input);
    let input = Hash::of(input.as_bytes());
    story.submit(SessionCommand::Start { intent, input, isolation: Value::Null })
}

fn ended(story: &mut SessionStory, execution: &EventRef) -> ExecutionEnd {
    story.put(b"output");
    completed(execution, "output")
}

/// Three executions: the one in the middle ends as `change` has it. What follows is told by
/// somebody who knows of nothing, unless the receipt after it is changed too.
fn with_second(change: Change) -> SessionStory {
    let mut story = SessionStory::new(&SEPARATE);
    let proposal = story.plan();
    let executions = ["a", "b", "c"].map(|input| start(&mut story, &proposal, input));
    for (nth, execution) in executions.iter().enumerate() {
        let end = ended(&mut story, execution);
        let (role, mut draft) = story.offer(SessionCommand::End(Box::new(end)));
        if nth == 1 {
            change(&mut draft.payload);
        }
        story.force(role, draft);
    }
    story
}

/// Gives the action in a payload the receipt hash that it has.
fn rehash(payload: &mut Value) {
    payload["receipt_hash"] = json!(receipt::recompute(&payload["action"]));
}

#[test]
fn the_receipts_of_a_session_form_one_chain() {
    let mut story = with_second(|_| {});
    let proposal = EventRef { event_id: story.state().proposals[&1].event_id.clone(), seq: 1 };
    let refused = story.intend(&proposal, RiskClass::Low, "d");
    story.submit(review(&refused, Role::Critic, ReviewDecision::Blocked));
    let asked = story.intend(&proposal, RiskClass::Elevated, "e");
    story.submit(review(&asked, Role::Critic, ReviewDecision::Asked));
    story.submit(review(&asked, Role::Operator, ReviewDecision::Approved));
    story.run(asked, "e", "output");
    let lost = start(&mut story, &proposal, "f");
    let unknown = ExecutionEnd {
        outcome: Outcome::Unknown("nobody knows".into()),
        exit_status: None,
        stdout: None,
        elapsed_ms: None,
        ..completed(&lost, "")
    };
    story.submit(SessionCommand::End(Box::new(unknown)));
    let given_up = start(&mut story, &proposal, "g");
    let outcome = Outcome::Failed("it broke".into());
    let end = ended(&mut story, &given_up);
    let end = ExecutionEnd { outcome, exit_status: Some(1), given_up: true, ..end };
    story.submit(SessionCommand::End(Box::new(end)));
    let report = story.verify(Profile::STRICT);
    assert_eq!(report.failures, []);
    let found = check(&report);
    assert_eq!((found.status, found.scope.as_str()), (CheckStatus::Pass, "7 receipts"));

    let lines = String::from_utf8(story.lines().clone()).unwrap();
    let actions = lines.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["payload"].get("action").cloned()
    });
    let said: Vec<Value> = actions
        .map(|it| {
            json!([it["action_id"], it["gate_decision"], it["policy_verdict"], it["success"]])
        })
        .collect();
    assert_eq!(
        said,
        [
            json!(["act_0001", null, "PROOF_ONLY", true]),
            json!(["act_0002", null, "PROOF_ONLY", true]),
            json!(["act_0003", null, "PROOF_ONLY", true]),
            json!(["act_0004", "skip", "POLICY_ENFORCED", false]),
            json!(["act_0005", "human_approved", "POLICY_ENFORCED", true]),
            json!(["act_0006", null, "PROOF_ONLY", false]),
            json!(["act_0007", "skipped", "PROOF_ONLY", false]),
        ]
    );
}

#[test]
fn a_session_without_any_receipt_is_not_checked_for_them() {
    let mut story = SessionStory::new(&SEPARATE);
    story.plan();
    let report = story.verify(Profile::DEFAULT);
    let found = check(&report);
    assert_eq!((found.status, found.scope.as_str()), (CheckStatus::NotChecked, "no receipts"));
}

/// Every statement that the twelve fields make, and what is found where it is another one: a hash that
/// was made to fit does not help.
#[test]
fn a_statement_that_is_not_that_of_its_events_is_found() {
    const HASH: &str = "HASH_MISMATCH";
    const CHAIN: &str = "CHAIN_BREAK";
    const SCHEMA: &str = "SCHEMA_INVALID";
    let cases: &[(&str, &str, Change)] = &[
        ("action_id", CHAIN, |action| action["action_id"] = json!("act_0003")),
        ("action_type", SCHEMA, |action| action["action_type"] = json!("file_read")),
        ("instruction", HASH, |action| action["instruction_hash"] = json!(Hash::of(b"other"))),
        ("input", HASH, |action| action["input_hash"] = json!(Hash::of(b"a"))),
        ("output", HASH, |action| action["output_hash"] = json!(Hash::of(b"c"))),
        ("parent", CHAIN, |action| action["parent_receipt_hash"] = json!(Hash::of(b"x"))),
        ("no parent", CHAIN, |action| action["parent_receipt_hash"] = Value::Null),
        ("parent id", CHAIN, |action| action["parent_action_id"] = json!("act_0000")),
        ("score", SCHEMA, |action| action["gate_score"] = json!(0.25)),
        ("decision", SCHEMA, |action| action["gate_decision"] = json!("pass")),
        ("given up", SCHEMA, |action| action["gate_decision"] = json!("skipped")),
        ("verdict", SCHEMA, |action| action["policy_verdict"] = json!("POLICY_ENFORCED")),
        ("verified", SCHEMA, |action| action["policy_verdict"] = json!("FULLY_VERIFIED")),
        ("no verdict", SCHEMA, |action| action["policy_verdict"] = Value::Null),
        ("success", SCHEMA, |action| action["success"] = json!(false)),
        ("duration", SCHEMA, |action| action["duration_ms"] = json!(2)),
        ("time", SCHEMA, |action| action["timestamp"] = json!("2026-01-01T00:00:00.000Z")),
    ];
    for &(name, code, change) in cases {
        let mut story = with_second(|_| {});
        let second = story.lines().split(|&byte| byte == b'\n').nth(10).map(<[u8]>::to_vec);
        let mut event: Value = serde_json::from_slice(&second.unwrap()).unwrap();
        change(&mut event["payload"]["action"]);
        rehash(&mut event["payload"]);
        assert_eq!(found_in_second(&event["payload"]), [(code.to_owned(), Some(10))], "{name}");
    }
}

/// What is found where the second receipt is this one, and the third is none the wiser.
fn found_in_second(payload: &Value) -> Vec<(String, Option<u64>)> {
    let mut story = SessionStory::new(&SEPARATE);
    let proposal = story.plan();
    let executions = ["a", "b", "c"].map(|input| start(&mut story, &proposal, input));
    for (nth, execution) in executions.iter().enumerate() {
        let end = ended(&mut story, execution);
        let (role, mut draft) = story.offer(SessionCommand::End(Box::new(end)));
        if nth == 1 {
            draft.payload["action"] = payload["action"].clone();
            draft.payload["receipt_hash"] = payload["receipt_hash"].clone();
        }
        story.force(role, draft);
    }
    let report = story.verify(Profile::LENIENT);
    assert!(report.failures.iter().all(|it| it.check_id == RECEIPTS));
    let failures = report.failures.iter();
    failures.map(|it| (it.failure_code.as_str().to_owned(), it.index)).collect()
}

#[test]
fn a_receipt_hash_that_is_not_that_of_the_action_is_found() {
    for change in [
        |payload: &mut Value| payload["action"]["duration_ms"] = json!(1_000),
        |payload: &mut Value| payload["receipt_hash"] = json!(Hash::of(b"other")),
    ] {
        let report = with_second(change).verify(Profile::DEFAULT);
        assert_eq!(failures(&report), [("HASH_MISMATCH", RECEIPTS, Some(10))]);
    }
}

#[test]
fn a_receipt_that_is_missing_while_others_are_there_is_found() {
    let drop = |payload: &mut Value| {
        let members = payload.as_object_mut().unwrap();
        members.remove("action");
        members.remove("receipt_hash");
    };
    let report = with_second(drop).verify(Profile::DEFAULT);
    assert_eq!(failures(&report), [("SCHEMA_INVALID", RECEIPTS, Some(10))]);
    for name in ["action", "receipt_hash"] {
        let mut story = SessionStory::new(&SEPARATE);
        let proposal = story.plan();
        let execution = start(&mut story, &proposal, "a");
        let end = ended(&mut story, &execution);
        let (role, mut draft) = story.offer(SessionCommand::End(Box::new(end)));
        draft.payload.as_object_mut().unwrap().remove(name);
        story.force(role, draft);
        let report = story.verify(Profile::DEFAULT);
        assert_eq!(failures(&report), [("SCHEMA_INVALID", RECEIPTS, Some(5))], "{name}");
    }
}

#[test]
fn receipts_that_changed_places_are_found() {
    let mut story = SessionStory::new(&SEPARATE);
    let proposal = story.plan();
    let executions = ["a", "b", "c"].map(|input| start(&mut story, &proposal, input));
    let heads: Vec<ReceiptHead> = vec![ReceiptHead::default(); 3];
    for (execution, head) in executions.iter().zip(heads) {
        let end = ended(&mut story, execution);
        let (role, mut draft) = story.offer(SessionCommand::End(Box::new(end)));
        // Each says that it is the first.
        let action = &mut draft.payload["action"];
        action["action_id"] = json!(head.next_id());
        action["parent_action_id"] = Value::Null;
        action["parent_receipt_hash"] = Value::Null;
        rehash(&mut draft.payload);
        story.force(role, draft);
    }
    // The first is right. The second is wrong, and what follows it is taken at its word.
    let report = story.verify(Profile::DEFAULT);
    assert_eq!(failures(&report), [("CHAIN_BREAK", RECEIPTS, Some(10))]);
}

#[test]
fn a_refused_action_that_has_no_receipt_is_found() {
    let mut story = with_second(|_| {});
    let proposal = EventRef { event_id: story.state().proposals[&1].event_id.clone(), seq: 1 };
    let refused = story.intend(&proposal, RiskClass::Low, "d");
    let (role, mut draft) = story.offer(review(&refused, Role::Critic, ReviewDecision::Blocked));
    let members = draft.payload.as_object_mut().unwrap();
    let action = members.remove("action").unwrap();
    let hash = members.remove("receipt_hash").unwrap();
    story.force(role, draft);
    let report = story.verify(Profile::DEFAULT);
    assert_eq!(failures(&report), [("SCHEMA_INVALID", RECEIPTS, Some(13))]);

    // Nor can an intent that was permitted bring one.
    let permitted = story.intend(&proposal, RiskClass::Low, "e");
    let approved = review(&permitted, Role::Critic, ReviewDecision::Approved);
    let (role, mut draft) = story.offer(approved);
    draft.payload["action"] = action;
    draft.payload["receipt_hash"] = hash;
    story.force(role, draft);
    let report = story.verify(Profile::DEFAULT);
    let (missing, misplaced) = (Some(13), Some(15));
    assert_eq!(
        failures(&report),
        [("SCHEMA_INVALID", RECEIPTS, misplaced), ("SCHEMA_INVALID", RECEIPTS, missing)]
    );
}

/// One cause once: a line that has failed gives no second finding, and neither do those that rest
/// on it.
#[test]
fn a_line_that_failed_is_not_blamed_for_its_receipt_too() {
    let mut story = with_second(|_| {});
    let lines = String::from_utf8(story.lines().clone()).unwrap();
    let edited = lines.replace("as proposed", "as it pleases");
    assert_ne!(lines, edited);
    *story.lines() = edited.into_bytes();
    let report = story.verify(Profile::DEFAULT);
    assert!(report.failures.iter().all(|it| it.check_id != RECEIPTS), "{:#?}", report.failures);
}
