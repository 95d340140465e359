//! The rules of the page on sessions one by one: what they allow, what they refuse, and in which
//! words.
#![cfg(test)]

mod session;

use countersign_format::event::{ArtifactDescriptor, Event, EventRef};
use countersign_format::hash::Hash;
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_protocol::session::{
    Claim, ClaimKind, ClaimStatus, Intent, Outcome, Proposal, ProposalDecision, SessionCommand,
    SessionOpening, SessionPolicy,
};
use countersign_protocol::{GateRecord, ReviewDecision, State as _};
use serde_json::json;
use session::*;

const ALLOWED: &str = "allowed";

/// Whether what `command` brings may follow; if not, why. Asking changes nothing.
fn says(session: &Session, command: SessionCommand) -> String {
    match session.offer(command) {
        Ok(event) => answer(session, &event),
        Err(refusal) => refusal.to_string(),
    }
}

/// As [`says`], of an event that is not quite what the command brings.
fn says_of(session: &Session, command: SessionCommand, change: impl FnOnce(&mut Event)) -> String {
    let mut event = session.offer(command).unwrap();
    change(&mut event);
    answer(session, &event)
}

fn answer(session: &Session, event: &Event) -> String {
    let before = session.state.clone();
    let answer = session.state.admit(event);
    assert_eq!(session.state, before);
    answer.map_or_else(|refusal| refusal.to_string(), |()| ALLOWED.to_owned())
}

fn planned(opening: SessionOpening) -> Session {
    let mut session = Session::default();
    session.run(SessionCommand::Open(Box::new(opening)));
    session
}

/// One proposal, at 1, and the critic's word on it.
fn judged(decision: ProposalDecision) -> (Session, EventRef) {
    judged_under(opening(), decision)
}

fn judged_under(opening: SessionOpening, decision: ProposalDecision) -> (Session, EventRef) {
    let mut session = planned(opening);
    let proposed = session.run(propose(proposal()));
    session.run(judge(&proposed, decision));
    (session, proposed)
}

/// The same, approved, and an intent at 3.
fn intended(risk: RiskClass) -> (Session, EventRef, EventRef) {
    let (mut session, proposed) = judged(ProposalDecision::Approved);
    let signed = session.run(intend(intent(&proposed, risk, "input")));
    (session, proposed, signed)
}

/// The same, and an execution, begun at 4.
fn running() -> (Session, EventRef, EventRef) {
    let (mut session, proposed, signed) = intended(RiskClass::Low);
    let started = session.run(start(&signed, "input"));
    (session, proposed, started)
}

/// The same, ended at 5.
fn ended(outcome: Outcome) -> (Session, EventRef, EventRef) {
    let (mut session, proposed, started) = running();
    session.run(end(&started, outcome, "output"));
    (session, proposed, started)
}

fn failed() -> Outcome {
    Outcome::Failed("it broke".to_owned())
}

/// The same, and a claim at 6.
fn claimed() -> (Session, EventRef, EventRef) {
    let (mut session, _, started) = ended(Outcome::Completed);
    let place = session.run(issue(claim(1, &started, "output")));
    (session, started, place)
}

fn other(place: &EventRef) -> EventRef {
    EventRef { event_id: place.event_id.clone(), seq: place.seq + 1 }
}

#[test]
fn rule_1_a_session_begins_once_with_its_task_and_three_roles() {
    let fresh = Session::default();
    assert_eq!(says(&fresh, open()), ALLOWED);
    assert_eq!(says(&fresh, abort()), "a trace cannot begin with `session_aborted`");
    let requested_roles = vec![Role::Planner, Role::Executor, Role::Auditor];
    let two = SessionCommand::Open(Box::new(SessionOpening { requested_roles, ..opening() }));
    assert_eq!(says(&fresh, two), "`requested_roles` lacks `critic`");
    let no_task = says_of(&fresh, open(), |event| {
        event.payload.as_object_mut().unwrap().remove("task_id");
    });
    assert_eq!(no_task, "`session_initialized` has no usable `task_id` in its payload");
    let begun = planned(opening());
    assert_eq!(
        says(&begun, open()),
        "`session_initialized` can only be the first event of a trace"
    );
}

#[test]
fn rule_2_the_state_and_the_run_under_way_decide() {
    let (mut session, _, _) = claimed();
    assert_eq!(says(&session, start_audit()), "there is no final statement to verify");
    session.run(conclude(&[]));
    let pass = || complete_audit(VerificationStatus::Pass);
    assert_eq!(says(&session, pass()), "no verification run is under way");
    assert_eq!(
        says(&session, propose(proposal())),
        "`proposal_created` may not be recorded while the session is auditing"
    );
    let run = session.run(start_audit());
    assert_eq!(says(&session, start_audit()), "a verification run is under way already");
    let another = says_of(&session, pass(), |event| event.payload["run"] = json!(other(&run)));
    assert_eq!(
        another,
        format!(
            "`verification_run_completed` refers to event {} at 9, which is no open run",
            run.event_id
        )
    );
    assert_eq!(says(&session, pass()), ALLOWED);
    session.run(pass());
    assert_eq!(says(&session, abort()), "the trace has ended; `session_aborted` may not follow");
    assert_eq!(says(&session, fail()), "the trace has ended; `session_failed` may not follow");
    assert_eq!(says(&session, start_audit()), ALLOWED);
    let by_critic = says_of(&session, start_audit(), |event| event.actor.role = Role::Critic);
    assert_eq!(by_critic, "`verification_run_started` is not for the role `critic`");
}

#[test]
fn rule_3_proposals_have_names_of_their_own_and_refer_to_what_is_there() {
    let (mut session, proposed, started) = ended(failed());
    let named = |name: &str| Proposal { proposal_id: Some(name.to_owned()), ..proposal() };
    session.run(propose(named("one")));
    assert_eq!(says(&session, propose(named("two"))), ALLOWED);
    let again = "a proposal `one` is in the session already";
    assert_eq!(says(&session, propose(named("one"))), again);

    let revising =
        |place: &EventRef| propose(Proposal { revises: Some(place.clone()), ..proposal() });
    assert_eq!(says(&session, revising(&proposed)), ALLOWED);
    assert_eq!(
        says(&session, revising(&started)),
        format!(
            "`proposal_created` refers to event {} at 4, which is no open proposal",
            started.event_id
        )
    );
    let making_up =
        |place: &EventRef| propose(Proposal { fallback_for: Some(place.clone()), ..proposal() });
    assert_eq!(says(&session, making_up(&started)), ALLOWED);
    let (well, _, completed) = ended(Outcome::Completed);
    let none = "the execution at 4 is none of this proposal that failed";
    assert_eq!(says(&well, making_up(&completed)), none);
}

#[test]
fn rule_3_a_policy_without_fallbacks_permits_none() {
    let policy = SessionPolicy { fallbacks: false, ..opening().policy };
    let (mut session, proposed) =
        judged_under(SessionOpening { policy, ..opening() }, ProposalDecision::Approved);
    let signed = session.run(intend(intent(&proposed, RiskClass::Low, "input")));
    let started = session.run(start(&signed, "input"));
    session.run(end(&started, failed(), "output"));
    let fallback = propose(Proposal { fallback_for: Some(started), ..proposal() });
    assert_eq!(says(&session, fallback), "the policy of the session permits no fallbacks");
    assert_eq!(says(&session, propose(proposal())), ALLOWED);
}

#[test]
fn rule_4_a_rejection_is_final_and_only_conditional_approvals_have_conditions() {
    use ProposalDecision::{Approved, Conditional, Rejected};
    let (session, proposed) = judged(Approved);
    assert_eq!(says(&session, judge(&proposed, Rejected)), ALLOWED);
    assert_eq!(says(&session, judge(&proposed, Conditional)), ALLOWED);
    assert_eq!(
        says(&session, judge(&other(&proposed), Approved)),
        format!(
            "`proposal_reviewed` refers to event {} at 2, which is no open proposal",
            proposed.event_id
        )
    );
    let conditions = |decision: ProposalDecision, ids: &[&str]| {
        says_of(&session, judge(&proposed, decision), |event| {
            let listed: Vec<_> = ids.iter().map(|id| json!({ "id": id, "text": "so" })).collect();
            event.payload["conditions"] = json!(listed);
        })
    };
    assert_eq!(conditions(Conditional, &["a", "b"]), ALLOWED);
    assert_eq!(
        conditions(Conditional, &[]),
        "a review that says `conditional` cannot have 0 conditions, or they repeat"
    );
    assert_eq!(
        conditions(Conditional, &["a", "a"]),
        "a review that says `conditional` cannot have 2 conditions, or they repeat"
    );
    assert_eq!(
        conditions(Approved, &["a"]),
        "a review that says `approved` cannot have 1 conditions, or they repeat"
    );
    let (rejected, proposed) = judged(Rejected);
    assert_eq!(
        says(&rejected, judge(&proposed, Approved)),
        "the proposal at 1 was rejected; a new one must revise it"
    );
}

#[test]
fn rule_5_intents_carry_out_what_was_approved() {
    use ProposalDecision::{Approved, Conditional, Rejected};
    let plain = |proposed: &EventRef| intent(proposed, RiskClass::Low, "input");
    let (session, proposed) = judged(Approved);
    assert_eq!(says(&session, intend(plain(&proposed))), ALLOWED);
    let tool = Intent { tool_name: "fetch".to_owned(), ..plain(&proposed) };
    assert_eq!(says(&session, intend(tool)), "the proposal at 1 does not ask for the tool `fetch`");
    let unlisted = says_of(&session, intend(plain(&proposed)), |event| event.artifacts.clear());
    assert_eq!(
        unlisted,
        format!(
            "`tool_intent_signed` names {} in `normalized_input_hash`, but does not list it",
            Hash::of(b"input")
        )
    );
    let mut two = session.clone();
    let second = two.run(propose(proposal()));
    assert_eq!(says(&two, intend(plain(&second))), "the proposal at 3 was not approved");

    let (rejected, proposed) = judged(Rejected);
    assert_eq!(
        says(&rejected, intend(plain(&proposed))),
        "`tool_intent_signed` may not be recorded while the session is reviewing"
    );
    let (mut withdrawn, proposed) = judged(Approved);
    withdrawn.run(judge(&proposed, Rejected));
    assert_eq!(
        says(&withdrawn, intend(plain(&proposed))),
        "the proposal at 1 was rejected; a new one must revise it"
    );
    let (conditional, proposed) = judged(Conditional);
    assert_eq!(says(&conditional, intend(plain(&proposed))), ALLOWED);
    let silent = Intent { acknowledged_conditions: Vec::new(), ..plain(&proposed) };
    assert_eq!(
        says(&conditional, intend(silent)),
        "the intent does not acknowledge the condition `dry-run` of the proposal at 1"
    );
}

#[test]
fn rule_5_retries_name_what_failed_and_must_name_what_ended_unknown() {
    let retry = |proposed: &EventRef, of: &EventRef, input: &str| {
        intend(Intent { retry_of: Some(of.clone()), ..intent(proposed, RiskClass::Low, input) })
    };
    let (session, proposed, started) = ended(failed());
    assert_eq!(says(&session, retry(&proposed, &started, "input")), ALLOWED);
    assert_eq!(says(&session, intend(intent(&proposed, RiskClass::Low, "input"))), ALLOWED);
    let none = "the execution at 4 is none of this proposal that failed";
    let (well, proposed, started) = ended(Outcome::Completed);
    assert_eq!(says(&well, retry(&proposed, &started, "input")), none);
    let (open, proposed, started) = running();
    assert_eq!(
        says(&open, retry(&proposed, &started, "input")),
        format!(
            "`tool_intent_signed` refers to event {} at 4, which is no open ended execution",
            started.event_id
        )
    );
    let (mut lost, proposed, started) = running();
    lost.run(lose(&started));
    assert_eq!(says(&lost, retry(&proposed, &started, "input")), ALLOWED);
    assert_eq!(
        says(&lost, intend(intent(&proposed, RiskClass::Low, "input"))),
        "the execution at 4 ran the same with unknown outcome; `retry_of` must name it"
    );
    assert_eq!(says(&lost, intend(intent(&proposed, RiskClass::Low, "another"))), ALLOWED);
    let second = lost.run(propose(proposal()));
    lost.run(judge(&second, ProposalDecision::Approved));
    // The same in another proposal repeats it as well; something else there does not.
    assert_eq!(says(&lost, retry(&second, &started, "input")), ALLOWED);
    assert_eq!(says(&lost, retry(&second, &started, "another")), none);
    assert_eq!(
        says(&lost, intend(intent(&second, RiskClass::Low, "input"))),
        "the execution at 4 ran the same with unknown outcome; `retry_of` must name it"
    );
}

#[test]
fn rule_6_a_review_is_never_milder_than_the_gate_that_it_names() {
    use ReviewDecision::{Approved, Asked, Blocked};
    let (session, _, signed) = intended(RiskClass::Elevated);
    for (said, enforced, decision, admitted) in [
        ("allow", true, Approved, true),
        ("allow", true, Asked, true),
        ("allow", true, Blocked, true),
        ("ask", true, Approved, false),
        ("ask", true, Asked, true),
        ("ask", true, Blocked, true),
        ("deny", true, Approved, false),
        ("deny", true, Asked, false),
        ("deny", true, Blocked, true),
        ("deny", false, Approved, true),
    ] {
        let mut command = review(Role::Critic, &signed, decision);
        if let SessionCommand::ReviewIntent { gate, .. } = &mut command {
            *gate = Some(Box::new(GateRecord {
                decision: said.to_owned(),
                enforced,
                request: Hash::of(b"request"),
                policy: Hash::of(b"policy"),
                model: None,
                score: None,
                cell: None,
                reasons: vec!["so".to_owned()],
            }));
        }
        let review = serde_json::to_value(decision).unwrap();
        let expected = match admitted {
            true => ALLOWED.to_owned(),
            false => format!(
                "the review of the intent at 3 says `{}` where the gate said `{said}`",
                review.as_str().unwrap()
            ),
        };
        assert_eq!(says(&session, command), expected, "{said} {decision:?}");
    }
}

#[test]
fn rule_6_once_a_person_was_asked_only_a_person_approves() {
    use ReviewDecision::{Approved, Asked, Blocked};
    let (mut session, _, signed) = intended(RiskClass::Elevated);
    for decision in [Approved, Asked, Blocked] {
        assert_eq!(says(&session, review(Role::Critic, &signed, decision)), ALLOWED);
    }
    assert_eq!(says(&session, review(Role::Operator, &signed, Approved)), ALLOWED);
    assert_eq!(
        says(&session, review(Role::Operator, &signed, Asked)),
        "an operator cannot leave the intent at 3 to somebody else"
    );
    assert_eq!(
        says(&session, review(Role::Executor, &signed, Approved)),
        "`tool_intent_reviewed` is not for the role `executor`"
    );
    let deadline = Some(at(6));
    let mut asked = review(Role::Critic, &signed, Asked);
    if let SessionCommand::ReviewIntent { deadline: until, .. } = &mut asked {
        *until = deadline;
    }
    session.run(asked);
    assert_eq!(
        says(&session, review(Role::Critic, &signed, Approved)),
        "the intent at 3 waits for an answer"
    );
    assert_eq!(says(&session, review(Role::Critic, &signed, Blocked)), ALLOWED);
    // At 5, a second before the deadline; then at 6.
    assert_eq!(says(&session, review(Role::Operator, &signed, Approved)), ALLOWED);
    session.run(propose(proposal()));
    assert_eq!(
        says(&session, review(Role::Operator, &signed, Approved)),
        "the answer on the intent at 3 had to come before 2026-02-03T04:05:12.000Z"
    );
    assert_eq!(says(&session, review(Role::Operator, &signed, Blocked)), ALLOWED);
    session.run(review(Role::Operator, &signed, Blocked));
    assert_eq!(
        says(&session, review(Role::Operator, &signed, Approved)),
        format!(
            "`tool_intent_reviewed` refers to event {} at 3, which is no open intent",
            signed.event_id
        )
    );
}

#[test]
fn rule_7_what_runs_is_what_was_approved_and_runs_once() {
    use ReviewDecision::{Approved, Asked, Blocked};
    let gone = |signed: &EventRef| {
        format!(
            "`tool_execution_started` refers to event {} at 3, which is no open intent",
            signed.event_id
        )
    };
    let (mut session, _, signed) = intended(RiskClass::Low);
    assert_eq!(says(&session, start(&signed, "input")), ALLOWED);
    assert_eq!(
        says(&session, start(&signed, "another")),
        format!(
            "the intent at 3 is for the input {}, not for {}",
            Hash::of(b"input"),
            Hash::of(b"another")
        )
    );
    session.run(review(Role::Critic, &signed, Asked));
    assert_eq!(says(&session, start(&signed, "input")), "the intent at 3 waits for an answer");
    session.run(review(Role::Operator, &signed, Approved));
    session.run(start(&signed, "input"));
    assert_eq!(says(&session, start(&signed, "input")), gone(&signed));

    for risk in [RiskClass::Elevated, RiskClass::Critical] {
        let (mut session, _, signed) = intended(risk);
        assert_eq!(
            says(&session, start(&signed, "input")),
            format!("the intent at 3 is {} and was not approved", risk.as_str())
        );
        session.run(review(Role::Critic, &signed, Approved));
        assert_eq!(says(&session, start(&signed, "input")), ALLOWED);
        session.run(review(Role::Critic, &signed, Blocked));
        assert_eq!(says(&session, start(&signed, "input")), gone(&signed));
    }
}

/// The critic may change its mind between an intent and its start; what it says last counts.
#[test]
fn rule_7_the_proposal_is_still_approved_when_its_intent_starts() {
    let (mut session, proposed) = judged(ProposalDecision::Approved);
    let silent = Intent {
        acknowledged_conditions: Vec::new(),
        ..intent(&proposed, RiskClass::Low, "input")
    };
    let silent = session.run(intend(silent));
    let acknowledging = session.run(intend(intent(&proposed, RiskClass::Low, "input")));
    session.run(judge(&proposed, ProposalDecision::Conditional));
    assert_eq!(
        says(&session, start(&silent, "input")),
        "the intent does not acknowledge the condition `dry-run` of the proposal at 1"
    );
    assert_eq!(says(&session, start(&acknowledging, "input")), ALLOWED);
    session.run(judge(&proposed, ProposalDecision::Rejected));
    assert_eq!(
        says(&session, start(&acknowledging, "input")),
        "the proposal at 1 was rejected; a new one must revise it"
    );
}

#[test]
fn rule_7_what_ended_unknown_is_repeated_only_with_a_persons_word() {
    let (mut session, proposed, started) = running();
    session.run(lose(&started));
    let retry = Intent { retry_of: Some(started), ..intent(&proposed, RiskClass::Low, "input") };
    let signed = session.run(intend(retry));
    let unknown = "how the execution at 4 ended is not known; only an operator permits the intent \
                   at 6 to repeat it";
    assert_eq!(says(&session, start(&signed, "input")), unknown);
    session.run(review(Role::Critic, &signed, ReviewDecision::Approved));
    assert_eq!(says(&session, start(&signed, "input")), unknown);
    session.run(review(Role::Operator, &signed, ReviewDecision::Approved));
    assert_eq!(says(&session, start(&signed, "input")), ALLOWED);
}

/// Two intents for the same, signed one after the other: when the first ended unknown, the second is
/// a repetition that nobody permitted as such, unless repeating does no harm.
#[test]
fn rule_7_an_intent_signed_before_the_same_ended_unknown_does_not_start() {
    for idempotent in [false, true] {
        let (mut session, proposed) = judged(ProposalDecision::Approved);
        let same = Intent { idempotent, ..intent(&proposed, RiskClass::Low, "input") };
        let first = session.run(intend(same.clone()));
        let second = session.run(intend(same));
        let started = session.run(start(&first, "input"));
        assert_eq!(says(&session, start(&second, "input")), ALLOWED);
        session.run(lose(&started));
        let wanted = match idempotent {
            true => ALLOWED,
            false => {
                "the execution at 5 ran the same with unknown outcome; `retry_of` must name it"
            }
        };
        assert_eq!(says(&session, start(&second, "input")), wanted);
    }
}

#[test]
fn rule_7_no_more_starts_than_the_task_permits() {
    let limits = json!({ "tool_calls": 1 });
    let (mut session, proposed) =
        judged_under(SessionOpening { limits, ..opening() }, ProposalDecision::Approved);
    let first = session.run(intend(intent(&proposed, RiskClass::Low, "input")));
    let second = session.run(intend(intent(&proposed, RiskClass::Low, "input")));
    assert_eq!(says(&session, start(&second, "input")), ALLOWED);
    session.run(start(&first, "input"));
    assert_eq!(
        says(&session, start(&second, "input")),
        "the session may start 1 executions, and has"
    );
}

#[test]
fn rule_8_an_execution_ends_once_and_lists_what_it_put_out() {
    let (mut session, _, started) = running();
    let done = || end(&started, Outcome::Completed, "output");
    assert_eq!(says(&session, done()), ALLOWED);
    assert_eq!(says(&session, end(&started, failed(), "output")), ALLOWED);
    assert_eq!(
        says_of(&session, done(), |event| event.artifacts.clear()),
        format!(
            "`tool_execution_completed` names {} in `output_artifacts`, but does not list it",
            Hash::of(b"output")
        )
    );
    session.run(done());
    assert_eq!(
        says(&session, lose(&started)),
        format!(
            "`tool_execution_failed` refers to event {} at 4, which is no open execution",
            started.event_id
        )
    );
}

#[test]
fn rule_9_claims_rest_on_evidence_that_is_listed_and_was_met() {
    let policy = SessionPolicy { min_evidence: 2, ..opening().policy };
    let (mut session, proposed) =
        judged_under(SessionOpening { policy, ..opening() }, ProposalDecision::Approved);
    let signed = session.run(intend(intent(&proposed, RiskClass::Low, "input")));
    let started = session.run(start(&signed, "input"));
    session.run(end(&started, Outcome::Completed, "output"));
    let with = |evidence: Vec<ArtifactDescriptor>| {
        issue(Claim { evidence, ..claim(1, &started, "output") })
    };
    let (input, output) = (known_artifact("input"), known_artifact("output"));
    assert_eq!(says(&session, with(vec![input.clone(), output.clone()])), ALLOWED);
    assert_eq!(says(&session, with(vec![output.clone(), artifact("own")])), ALLOWED);
    let id = claim_id(1);
    assert_eq!(
        says(&session, with(vec![output.clone(), output.clone()])),
        format!("the claim {id} names 1 distinct artifacts, it needs 2")
    );
    assert_eq!(
        says(&session, with(vec![output.clone(), known_artifact("elsewhere")])),
        format!(
            "the evidence {} of the claim {id} was not met before in this trace",
            Hash::of(b"elsewhere")
        )
    );
    let unlisted = says_of(&session, with(vec![input, output]), |event| {
        event.artifacts.retain(|artifact| artifact.artifact_hash == Hash::of(b"input"));
    });
    assert_eq!(
        unlisted,
        format!(
            "`claim_issued` names {} in `evidence_artifacts`, but does not list it",
            Hash::of(b"output")
        )
    );
    let (plain, _, started) = ended(Outcome::Completed);
    let none = issue(Claim { evidence: Vec::new(), ..claim(1, &started, "output") });
    assert_eq!(
        says(&plain, none),
        format!("the claim {id} names 0 distinct artifacts, it needs 1")
    );
}

#[test]
fn rule_9_claims_rest_on_executions_that_ended_and_have_ids_of_their_own() {
    let (mut session, started, _) = claimed();
    let (first, second) = (claim_id(1), claim_id(2));
    let plain = || claim(2, &started, "output");
    assert_eq!(says(&session, issue(plain())), ALLOWED);
    assert_eq!(
        says(&session, issue(claim(1, &started, "output"))),
        format!("the claim {first} is in the session already")
    );
    assert_eq!(
        says_of(&session, issue(plain()), |event| event.claims.clear()),
        format!("the event does not list the claim {second} in `claims`")
    );
    assert_eq!(
        says(&session, issue(Claim { executions: Vec::new(), ..plain() })),
        format!("the claim {second} names no execution that it rests on")
    );
    let superseding = |id: &str| issue(Claim { supersedes: Some(id.to_owned()), ..plain() });
    assert_eq!(says(&session, superseding(&first)), ALLOWED);
    let nothing = format!("no claim {} stands", claim_id(3));
    assert_eq!(says(&session, superseding(&claim_id(3))), nothing);
    session.run(superseding(&first));
    let third = Claim { supersedes: Some(first.clone()), ..claim(3, &started, "output") };
    assert_eq!(says(&session, issue(third)), format!("no claim {first} stands"));

    let (broken, _, started) = ended(failed());
    assert_eq!(
        says(&broken, issue(claim(1, &started, "output"))),
        format!("the claim {first} rests on failed executions only, and is no `failure_analysis`")
    );
    let kind = ClaimKind::FailureAnalysis;
    assert_eq!(says(&broken, issue(Claim { kind, ..claim(1, &started, "output") })), ALLOWED);

    let (mut open, proposed, first) = ended(Outcome::Completed);
    let signed = open.run(intend(intent(&proposed, RiskClass::Low, "input")));
    let second = open.run(start(&signed, "input"));
    let both =
        Claim { executions: vec![first.clone(), second.clone()], ..claim(1, &first, "output") };
    assert_eq!(
        says(&open, issue(both)),
        format!(
            "`claim_issued` refers to event {} at 7, which is no open ended execution",
            second.event_id
        )
    );
}

#[test]
fn rule_10_challenges_name_a_claim_that_stands() {
    let (mut session, started, place) = claimed();
    assert_eq!(says(&session, challenge(&place, 1)), ALLOWED);
    assert_eq!(
        says(&session, challenge(&started, 1)),
        format!(
            "`claim_challenged` refers to event {} at 4, which is no open claim",
            started.event_id
        )
    );
    assert_eq!(says(&session, challenge(&place, 2)), format!("no claim {} stands", claim_id(2)));
    let second = Claim { supersedes: Some(claim_id(1)), ..claim(2, &started, "output") };
    session.run(issue(second));
    assert_eq!(says(&session, challenge(&place, 1)), format!("no claim {} stands", claim_id(1)));
}

#[test]
fn rule_11_the_final_statement_names_exactly_the_claims_that_stand() {
    let (mut session, _, started) = ended(Outcome::Completed);
    assert_eq!(says(&session, conclude(&[])), "there is no claim to conclude with");
    let first = session.run(issue(claim(1, &started, "output")));
    session.run(issue(claim(2, &started, "output")));
    assert_eq!(says(&session, conclude(&[])), ALLOWED);
    let others = "the final statement must name exactly the 2 claims that stand, in their order";
    for change in [
        |ids: &mut Vec<String>| ids.truncate(1),
        |ids: &mut Vec<String>| ids.reverse(),
        |ids: &mut Vec<String>| ids.push(claim_id(1)),
    ] {
        let said = says_of(&session, conclude(&[]), |event| {
            let mut ids = vec![claim_id(1), claim_id(2)];
            change(&mut ids);
            event.payload["consolidated_claim_ids"] = json!(ids);
        });
        assert_eq!(said, others);
    }
    let places = says_of(&session, conclude(&[]), |event| event.payload["claims"] = json!([first]));
    assert_eq!(places, others);
}

#[test]
fn rule_11_every_challenge_is_resolved_once_and_as_it_happened() {
    use ClaimStatus::{Retracted, Superseded, Upheld};
    let (mut session, started, place) = claimed();
    session.run(challenge(&place, 1));
    assert_eq!(
        says(&session, conclude(&[])),
        format!(
            "the claim {} was challenged, and the final statement does not say what became of it",
            claim_id(1)
        )
    );
    assert_eq!(says(&session, conclude(&[(1, Upheld)])), ALLOWED);
    assert_eq!(says(&session, conclude(&[(1, Retracted)])), ALLOWED);
    assert_eq!(
        says(&session, conclude(&[(1, Superseded)])),
        format!("the claim {} cannot be called superseded", claim_id(1))
    );
    assert_eq!(
        says(&session, conclude(&[(1, Upheld), (1, Retracted)])),
        format!("the claim {} cannot be called retracted", claim_id(1))
    );
    assert_eq!(
        says(&session, conclude(&[(1, Upheld), (2, Upheld)])),
        format!("no claim {} stands", claim_id(2))
    );
    let second = Claim { supersedes: Some(claim_id(1)), ..claim(2, &started, "output") };
    session.run(issue(second));
    assert_eq!(says(&session, conclude(&[])), ALLOWED);
    assert_eq!(says(&session, conclude(&[(1, Superseded)])), ALLOWED);
    assert_eq!(
        says(&session, conclude(&[(1, Upheld)])),
        format!("the claim {} cannot be called upheld", claim_id(1))
    );
}

#[test]
fn rule_11_nothing_is_under_way_at_the_final_statement() {
    let (mut session, _, _) = claimed();
    let second = session.run(propose(proposal()));
    session.run(judge(&second, ProposalDecision::Approved));
    let signed = session.run(intend(intent(&second, RiskClass::Low, "input")));
    assert_eq!(says(&session, conclude(&[])), ALLOWED);
    session.run(start(&signed, "input"));
    assert_eq!(says(&session, conclude(&[])), "1 executions are still under way, the first at 10");
}

/// A claim that is upheld without anything new stays in doubt, and what the critic brought along with
/// its challenge is nothing new.
#[test]
fn an_upheld_claim_is_disputed_unless_something_new_was_listed_after_the_challenge() {
    let fresh = || SessionCommand::RecordArtifact {
        by: Role::Executor,
        purpose: "to answer".to_owned(),
        artifacts: vec![artifact("new")],
    };
    let mut with_transcript = challenge(&claimed().2, 1);
    if let SessionCommand::Challenge { artifacts, .. } = &mut with_transcript {
        artifacts.push(artifact("what the critic was given"));
    }
    let plain = challenge(&claimed().2, 1);
    let table = [
        (vec![plain.clone()], true),
        (vec![with_transcript.clone()], true),
        (vec![fresh(), plain.clone()], true),
        (vec![plain, fresh()], false),
        (vec![with_transcript.clone(), fresh()], false),
        (vec![fresh(), with_transcript, fresh()], true),
    ];
    for (commands, disputed) in table {
        let (mut session, _, _) = claimed();
        for command in commands {
            session.run(command);
        }
        session.run(conclude(&[(1, ClaimStatus::Upheld)]));
        let wanted: Vec<_> = disputed.then(|| claim_id(1)).into_iter().collect();
        assert_eq!(session.state.disputed.into_iter().collect::<Vec<_>>(), wanted);
    }
}
