//! What an agent does under a gate, and against it, as it is recorded and as two verifiers see it.
#![cfg(test)]

use countersign_format::event::EventRef;
use countersign_format::receipt::ActionType;
use countersign_format::risk::RiskClass;
use countersign_protocol::receipts::Parent;
use countersign_protocol::recording::{GatedIntent, RecordedAction, RecordingCommand, Reporter};
use countersign_protocol::{GateRecord, ReviewDecision};
use countersign_runtime::Recording;
use countersign_testkit::TestHome;
use countersign_testkit::second_reader::{Inquiry, SecondReader, Subject, difference};
use countersign_verify::Profile;
use serde_json::{Value, json};

/// What a gate says: the word, whether it binds, and what happens.
type Word = (&'static str, bool, ReviewDecision);

/// Asks the gate about a file; gives the intent and the verdict's token.
fn ask(
    recording: &Recording,
    file: &str,
    (decision, enforced, happens): Word,
) -> (EventRef, String) {
    let put = |bytes: &[u8]| recording.put_artifact(bytes, "application/json").unwrap();
    let (request, policy) = (put(file.as_bytes()), put(b"policy"));
    let gate = GateRecord {
        decision: decision.to_owned(),
        enforced,
        request: request.artifact_hash,
        policy: policy.artifact_hash,
        model: None,
        score: Some(0.015),
        cell: None,
        reasons: Vec::new(),
    };
    let later = "2030-01-01T00:00:00.000Z".parse().unwrap();
    let intent = GatedIntent {
        action_type: ActionType::FileWrite,
        tool_name: "write".to_owned(),
        description: format!("write {file} — naïve"),
        paths: vec![file.to_owned()],
        risk: RiskClass::Low,
        request,
        input: None,
        call_id: None,
        begins: false,
        binding: None,
        redactions: Vec::new(),
        decision: happens,
        reasons: Vec::new(),
        gate,
        basis: vec![policy],
        expires_at: later,
        deadline: (happens == ReviewDecision::Asked).then_some(later),
    };
    let events = recording.submit(RecordingCommand::Gate(Box::new(intent))).unwrap().events;
    let intent = EventRef { event_id: events[0].event_id.clone(), seq: events[0].seq.unwrap() };
    (intent, events[1].event_id.clone())
}

/// Records that a file was written.
fn record(recording: &Recording, file: &str, token: Option<String>) {
    let done = RecordedAction {
        action_type: ActionType::FileWrite,
        tool_name: "write".to_owned(),
        description: format!("wrote {file}"),
        paths: vec![file.to_owned()],
        token,
        call_id: None,
        asked: None,
        reporter: Reporter::Agent,
        risk: RiskClass::Standard,
        input: Some(recording.put_artifact(b"{}", "application/json").unwrap()),
        redactions: Vec::new(),
        success: true,
        failure: String::new(),
        duration_ms: 5,
        output: Some(recording.put_artifact(file.as_bytes(), "text/plain").unwrap()),
        parent: Parent::Last,
    };
    recording.submit(RecordingCommand::Record(Box::new(done))).unwrap();
}

/// Everything that a gate can say, and everything that an agent can make of it.
#[test]
fn what_was_done_against_the_gate_is_recorded_and_told() {
    let home = TestHome::new();
    let recording = home.recording();
    let allowed = ask(&recording, "allowed", ("allow", true, ReviewDecision::Approved));
    record(&recording, "allowed", Some(allowed.1));
    ask(&recording, "inferred", ("allow", true, ReviewDecision::Approved));
    record(&recording, "inferred", None);
    record(&recording, "ungated", None);
    let shadow = ask(&recording, "shadow", ("deny", false, ReviewDecision::Approved));
    record(&recording, "shadow", Some(shadow.1));
    let (intent, token) = ask(&recording, "answered", ("ask", true, ReviewDecision::Asked));
    let answer = RecordingCommand::Answer {
        intent,
        decision: ReviewDecision::Approved,
        reasons: Vec::new(),
        channel: "unprotected-key".to_owned(),
    };
    recording.submit(answer).unwrap();
    record(&recording, "answered", Some(token));
    let denied = ask(&recording, "denied", ("deny", true, ReviewDecision::Blocked));
    record(&recording, "denied", Some(denied.1));
    ask(&recording, "unanswered", ("ask", true, ReviewDecision::Asked));
    record(&recording, "unanswered", None);
    recording.conclude("done").unwrap();

    let said: Vec<Value> = home
        .events(recording.id())
        .iter()
        .filter_map(|event| event.payload.get("action"))
        .map(|it| {
            json!([it["gate_decision"], it["gate_score"], it["policy_verdict"], it["success"]])
        })
        .collect();
    assert_eq!(
        said,
        [
            json!(["pass", 0.015, "POLICY_ENFORCED", true]),
            json!(["pass", 0.015, "POLICY_ENFORCED", true]),
            json!([null, null, "PROOF_ONLY", true]),
            json!(["skip", 0.015, "PROOF_ONLY", true]),
            json!(["human_approved", 0.015, "POLICY_ENFORCED", true]),
            json!(["skip", 0.015, "POLICY_ENFORCED", false]),
            json!(["skip", 0.015, "POLICY_ENFORCED", true]),
            json!(["human_review", 0.015, "POLICY_ENFORCED", true]),
        ]
    );
    let report = home.verify(recording.id());
    assert_eq!(report.failures, []);
    let warnings: Vec<_> =
        report.warnings.iter().map(|it| (it.warning_code.as_str(), it.message.as_str())).collect();
    assert_eq!(
        warnings,
        [
            ("DENIED_ACTION_RECORDED", "recorded as done although the gate refused it"),
            ("DENIED_ACTION_RECORDED", "recorded as done although nobody had allowed it"),
        ]
    );
    let check = report.checks.iter().find(|it| it.check_id == "CHK_RECEIPT_CHAIN").unwrap();
    assert_eq!(check.scope, "8 receipts");
    let (path, root) = (home.path(), home.workspace.root());
    let subject = Subject::InHome { home: path, ledger: recording.id().to_string(), root };
    let inquiry = Inquiry { subject, profile: Profile::DEFAULT, expected: None };
    assert_eq!(difference(&mut SecondReader::start(), &inquiry), None);
}
