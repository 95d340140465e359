//! A person's yes is given out once, whoever asks the same meanwhile.

use countersign_gate::Decision;
use countersign_protocol::receipts::Gating;
use countersign_runtime::actions::{ActionReport, ActionRequest, AgentRuntime, Waited};
use countersign_runtime::questions::PersonsAnswer;
use countersign_testkit::TestHome;

use super::{agent, check_chain};

/// A command that a person is asked about, as a call of this name or of none.
fn asked(call: Option<&str>) -> ActionRequest {
    ActionRequest {
        action_type: "command".into(),
        description: "publish".into(),
        command: Some("npm publish".into()),
        call_id: call.map(str::to_owned),
        ..ActionRequest::default()
    }
}

fn ran(call: Option<&str>, token: Option<&str>) -> ActionReport {
    ActionReport {
        action_type: "command".into(),
        description: "publish".into(),
        tool_name: "command".into(),
        success: true,
        call_id: call.map(str::to_owned),
        asked: call.map(|_| asked(call)),
        gate_token: token.map(str::to_owned),
        ..ActionReport::default()
    }
}

/// Approves all that waits; how much that was.
fn approve(home: &TestHome, agent: &AgentRuntime) -> usize {
    let (questions, _) = agent.workspace().questions().unwrap();
    for question in &questions {
        let _ = home.workspace.answer(question, PersonsAnswer::Yes, None).unwrap();
    }
    questions.len()
}

fn decision(agent: &AgentRuntime, call: Option<&str>) -> Decision {
    agent.gate(&asked(call)).unwrap().decision
}

/// The trace is in order; so many receipts are in it.
fn check(home: &TestHome, agent: &AgentRuntime, receipts: usize) {
    let id = agent.status().trace_id.unwrap();
    let events = home.events(id);
    assert_eq!(home.check(id, events.len() as u64).failures, []);
    assert_eq!(check_chain(&events), receipts);
}

#[test]
fn an_approval_serves_one_of_two_calls_that_are_asked_for_before_either_is_recorded() {
    let home = TestHome::new();
    let agent = agent(&home);
    let first = agent.gate(&asked(None)).unwrap();
    assert_eq!(first.decision, Decision::Ask, "{:?}", first.reasons);
    assert_eq!(approve(&home, &agent), 1);
    let told = agent.gate(&asked(None)).unwrap();
    assert_eq!((told.decision, &told.token), (Decision::Allow, &first.token));
    let second = agent.gate(&asked(None)).unwrap();
    assert_eq!((second.decision, second.approved_by_person), (Decision::Ask, false));
    assert_ne!(second.token, first.token);
    // Asking on is the same question.
    assert_eq!(agent.gate(&asked(None)).unwrap().token, second.token);
    assert_eq!(agent.record(&ran(None, Some(&first.token))).unwrap().gating, Gating::Token);
    assert_eq!(decision(&agent, None), Decision::Ask);
    assert_eq!(approve(&home, &agent), 1);
    assert_eq!(decision(&agent, None), Decision::Allow);
    let receipt = agent.record(&ran(None, Some(&second.token))).unwrap();
    assert_eq!((receipt.gating, receipt.token_fault), (Gating::Token, None));
    check(&home, &agent, 2);
}

#[test]
fn a_call_with_a_name_keeps_the_approval_that_it_was_told() {
    let home = TestHome::new();
    let agent = agent(&home);
    assert_eq!(decision(&agent, Some("c1")), Decision::Ask);
    assert_eq!(approve(&home, &agent), 1);
    assert_eq!(decision(&agent, Some("c2")), Decision::Allow);
    assert_eq!(decision(&agent, Some("c3")), Decision::Ask);
    assert_eq!(decision(&agent, Some("c2")), Decision::Allow);
    assert_eq!(decision(&agent, Some("c1")), Decision::Ask, "its approval went to another call");
    let receipt = agent.record(&ran(Some("c2"), None)).unwrap();
    assert_eq!((receipt.gating, receipt.token_fault), (Gating::Inferred, None));
    assert_eq!(decision(&agent, Some("c4")), Decision::Ask);
    check(&home, &agent, 1);
}

#[test]
fn what_a_person_said_in_the_client_is_for_the_call_that_waits_there() {
    let home = TestHome::new();
    let agent = agent(&home);
    let first = agent.gate(&asked(None)).unwrap();
    agent.answer_from_client(&first.token, true).unwrap();
    let second = agent.gate(&asked(None)).unwrap();
    assert_eq!(second.decision, Decision::Ask);
    // A form that was shown for the first one, too, says nothing any more.
    assert!(agent.answer_from_client(&first.token, true).is_err());
    assert!(agent.answer_from_client(&first.token, false).is_err());
    assert_eq!(agent.record(&ran(None, Some(&first.token))).unwrap().gating, Gating::Token);
    assert_eq!(decision(&agent, None), Decision::Ask);
    check(&home, &agent, 1);
}

#[test]
fn of_many_that_wait_for_the_same_answer_one_has_it() {
    const WAITING: usize = 4;
    let home = TestHome::new();
    let first = agent(&home);
    let token = first.gate(&asked(None)).unwrap().token;
    let trace = first.status().trace_id.unwrap();
    let others: Vec<AgentRuntime> = (0..WAITING).map(|_| agent(&home)).collect();
    let all_asked = std::sync::Barrier::new(WAITING + 1);
    let served = std::thread::scope(|scope| {
        let waits = others.iter().map(|other| {
            let (token, all_asked) = (&token, &all_asked);
            scope.spawn(move || {
                other.attach(trace).unwrap();
                assert_eq!(other.gate(&asked(None)).unwrap().token, *token);
                all_asked.wait();
                let waited = other.wait_for_answer(token, std::time::Duration::from_secs(60));
                assert_eq!(waited.unwrap(), Waited::Yes);
                other.take(token, None).unwrap()
            })
        });
        let waits: Vec<_> = waits.collect();
        all_asked.wait();
        assert_eq!(approve(&home, &first), 1);
        waits.into_iter().map(|it| it.join().unwrap()).filter(|served| *served).count()
    });
    assert_eq!(served, 1);
    first.record(&ran(None, Some(&token))).unwrap();
    let gone = first.wait_for_answer(&token, std::time::Duration::ZERO).unwrap();
    assert_eq!(gone, Waited::Gone);
    check(&home, &first, 1);
}
