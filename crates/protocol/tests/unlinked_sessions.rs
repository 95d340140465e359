//! Sessions of schema 1.0: which event may follow which, and what an event belongs to.

#![cfg(test)]

use countersign_format::event::{Event, SignatureFaults, check_event};
use countersign_format::hash::Hash;
use countersign_format::json as canonical;
use countersign_protocol::Refusal;
use countersign_protocol::unlinked::{Original, Projection, UnlinkedSession};
use serde_json::{Value, json};

const CLAIM: &str = "claim_01KG9YS7G0000000000000CA01";

/// One event: its type, or a shorthand for it, and what its payload has besides the usual.
type Step = (&'static str, Value);

/// The whole of a session, in the order in which its stages are reached.
const WHOLE: [&str; 11] = [
    "session_initialized",
    "proposal_created",
    "proposal_reviewed",
    "tool_intent_signed",
    "tool_execution_started",
    "artifact_recorded",
    "tool_execution_completed",
    "claim_issued",
    "final_statement_signed",
    "verification_run_started",
    "verification_run_completed",
];

fn output() -> Hash {
    Hash::of(b"output")
}

fn role(name: &str) -> &'static str {
    match name {
        "session_initialized" | "proposal_created" => "planner",
        "proposal_reviewed" | "claim_challenged" => "critic",
        "verification_run_started"
        | "verification_run_completed"
        | "auditor's note"
        | "redaction" => "auditor",
        _ => "executor",
    }
}

fn usual(name: &str) -> Value {
    match name {
        "proposal_reviewed" => json!({ "decision": "approved" }),
        "tool_intent_signed" => json!({
            "tool_name": "make", "normalized_input_hash": Hash::of(b"input"),
            "safety_classification": "standard",
        }),
        "tool_execution_completed" => json!({ "output_artifacts": [output()], "exit_status": 0 }),
        "claim_issued" => json!({
            "claim_id": CLAIM, "claim_text": "it works", "evidence_artifacts": [output()],
        }),
        "final_statement_signed" => {
            json!({ "consolidated_claim_ids": [CLAIM], "final_verdict": "it works" })
        }
        "verification_run_completed" => json!({ "verification_status": "pass" }),
        _ => json!({}),
    }
}

fn listed(hash: Hash, status: &str) -> Value {
    json!({
        "artifact_hash": hash, "hash_algorithm": "sha256", "media_type": "text/plain",
        "encoding": "utf-8", "byte_size": 6, "created_at": "2026-01-31T12:00:00.000Z",
        "producer_event_id": id(4), "storage_uri": "artifacts/x", "redaction_status": status,
    })
}

/// The id of the event at `index`.
fn id(index: usize) -> String {
    format!("01KG9YS7G0{index:016}")
}

fn event(index: usize, (name, more): &Step) -> Event {
    let mut payload = usual(name);
    for (member, value) in more.as_object().unwrap() {
        payload[member] = value.clone();
    }
    let artifacts = match *name {
        "artifact_recorded" | "claim_issued" => vec![listed(output(), "none")],
        "auditor's note" => vec![listed(Hash::of(b"report"), "none")],
        "redaction" => vec![listed(output(), "redacted")],
        _ => Vec::new(),
    };
    let artifacts = more.get("artifacts").cloned().unwrap_or(json!(artifacts));
    let event_type = if role(name) == "auditor" && !name.starts_with("verification") {
        "artifact_recorded"
    } else {
        name
    };
    let claims = payload.get("claim_id").or_else(|| payload.get("challenged_claim_id"));
    let claims: Vec<&Value> = claims.into_iter().collect();
    serde_json::from_value(json!({
        "actor": { "agent_id": "a", "key_id": "k", "role": role(name) },
        "artifacts": artifacts, "claims": claims, "created_at": "2026-01-31T12:00:00.000Z",
        "event_hash": Hash::of(id(index).as_bytes()), "event_id": id(index),
        "event_type": event_type, "payload": payload, "payload_hash": Hash::GENESIS,
        "payload_type": event_type, "prev_event_hash": Hash::GENESIS, "schema_version": "1.0.0",
        "trace_id": id(0),
    }))
    .unwrap()
}

/// Every objection to these events, with the place of the event.
fn judge(steps: &[Step]) -> Vec<(usize, Refusal)> {
    let mut session = UnlinkedSession::default();
    let mut found = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let event = event(index, step);
        found.extend(session.objections(&event).into_iter().map(|refusal| (index, refusal)));
        session.apply(&event);
    }
    found
}

fn whole() -> Vec<Step> {
    WHOLE.iter().map(|&name| (name, json!({}))).collect()
}

/// The whole session with one payload changed.
fn with(name: &str, more: Value) -> Vec<Step> {
    let mut steps = whole();
    steps.iter_mut().find(|step| step.0 == name).unwrap().1 = more;
    steps
}

/// The whole session without the events of this type.
fn without(name: &str) -> Vec<Step> {
    whole().into_iter().filter(|step| step.0 != name).collect()
}

/// The whole session with something more before the first event of a type.
fn inserted(before: &str, step: Step) -> Vec<Step> {
    let mut steps = whole();
    let place = steps.iter().position(|step| step.0 == before).unwrap();
    steps.insert(place, step);
    steps
}

fn told(steps: &[Step]) -> Vec<String> {
    judge(steps).into_iter().map(|(index, refusal)| format!("{index}: {refusal}")).collect()
}

#[test]
fn a_whole_session_is_in_order() {
    assert_eq!(judge(&whole()), []);
}

/// What each state says to each event; a point where it is allowed.
#[test]
fn every_state_answers_every_event() {
    let names = WHOLE.iter().copied().chain([
        "tool_execution_failed",
        "claim_challenged",
        "auditor's note",
        "redaction",
    ]);
    let mut table = String::new();
    for name in names {
        let answers = (0..=WHOLE.len()).map(|reached| {
            let mut steps: Vec<Step> = whole().into_iter().take(reached).collect();
            steps.push((name, json!({})));
            let names: Vec<String> = judge(&steps)
                .into_iter()
                .map(|(_, refusal)| format!("{refusal:?}"))
                .map(|text| text.split([' ', '{']).next().unwrap_or_default().to_owned())
                .collect();
            if names.is_empty() { ".".to_owned() } else { names.join(" and ") }
        });
        let mut runs: Vec<(String, usize)> = Vec::new();
        for answer in answers {
            match runs.last_mut() {
                Some((last, count)) if *last == answer => *count += 1,
                _ => runs.push((answer, 1)),
            }
        }
        let runs = runs.iter().map(|(answer, count)| format!("{count} {answer}"));
        table.push_str(&format!("{name}: {}\n", runs.collect::<Vec<_>>().join(", ")));
    }
    let expected = "\
session_initialized: 1 ., 11 BeganAlready
proposal_created: 1 WrongFirstEvent, 8 ., 2 NotInThisState, 1 Ended
proposal_reviewed: 1 WrongFirstEvent, 1 NothingToBelongTo, 7 ., 2 NotInThisState, 1 Ended
tool_intent_signed: 1 WrongFirstEvent, 1 NothingToBelongTo, 1 ProposalUnreviewed, 6 ., 2 NotInThisState, 1 Ended
tool_execution_started: 1 WrongFirstEvent, 3 NothingToBelongTo, 1 ., 4 NothingToBelongTo, 2 NotInThisState, 1 Ended
artifact_recorded: 1 WrongFirstEvent, 8 ., 2 NotInThisState, 1 Ended
tool_execution_completed: 1 WrongFirstEvent, 4 NothingToBelongTo, 2 ., 2 NothingToBelongTo, 2 NotInThisState, 1 Ended
claim_issued: 1 WrongFirstEvent, 6 NothingToBelongTo, 1 ., 1 ClaimKnown, 2 NotInThisState, 1 Ended
final_statement_signed: 1 WrongFirstEvent, 4 NoClaims, 1 ExecutionWithoutArtifact and NoClaims, 2 NoClaims, 1 ., 2 NotInThisState, 1 Ended
verification_run_started: 1 WrongFirstEvent, 8 NoFinalStatement, 1 ., 1 AuditUnderWay, 1 .
verification_run_completed: 1 WrongFirstEvent, 8 NoFinalStatement, 1 NoAuditUnderWay, 1 ., 1 NoAuditUnderWay
tool_execution_failed: 1 WrongFirstEvent, 4 NothingToBelongTo, 2 ., 2 NothingToBelongTo, 2 NotInThisState, 1 Ended
claim_challenged: 1 WrongFirstEvent, 7 NothingToBelongTo, 1 ., 2 NotInThisState, 1 Ended
auditor's note: 1 WrongFirstEvent, 10 ., 1 Ended
redaction: 1 WrongFirstEvent, 11 .
";
    assert_eq!(table, expected, "\n{table}");
}

/// Each broken rule, and what is said of it: one thing, where it is.
#[test]
fn every_rule_is_told_once() {
    let review = |more: Value| ("proposal_reviewed", more);
    let cases: Vec<(Vec<Step>, &[&str])> = vec![
        (
            with("proposal_reviewed", json!({ "decision": "rejected" })),
            &["3: the proposal at 1 was rejected; a new one must revise it"],
        ),
        (without("proposal_reviewed"), &["2: the proposal at 1 was not approved"]),
        (
            with("proposal_reviewed", json!({ "decision": "perhaps" })),
            &["3: the proposal at 1 was not approved"],
        ),
        (
            with("proposal_reviewed", json!({ "decision": "conditional", "conditions": ["a"] })),
            &["3: the intent does not acknowledge the condition `a` of the proposal at 1"],
        ),
        (
            without("tool_intent_signed"),
            &["3: there is no open intent that `tool_execution_started` could belong to"],
        ),
        (
            without("tool_execution_started"),
            &["5: there is no execution under way that `tool_execution_completed` could belong to"],
        ),
        (
            with("tool_intent_signed", json!({ "safety_classification": "elevated" })),
            &["4: the intent at 3 is elevated and was not approved"],
        ),
        (
            inserted("tool_execution_started", review(json!({ "decision": "blocked" }))),
            &["5: there is no open intent that `tool_execution_started` could belong to"],
        ),
        (
            inserted(
                "tool_execution_started",
                review(json!({ "decision": "rejected", "subject_type": "proposal" })),
            ),
            &["5: the proposal at 1 was rejected; a new one must revise it"],
        ),
        (
            with("tool_execution_started", json!({ "intent_event_id": id(2) })),
            &[
                "4: `tool_execution_started` names event 01KG9YS7G00000000000000002, which is no open intent",
            ],
        ),
        (
            with("claim_issued", json!({ "evidence_artifacts": [] })),
            &[
                "7: the claim claim_01KG9YS7G0000000000000CA01 names 0 distinct artifacts, it needs 1",
            ],
        ),
        (
            with("final_statement_signed", json!({ "consolidated_claim_ids": [] })),
            &["8: the final statement must name exactly the 1 claims that stand, in their order"],
        ),
        (
            with("final_statement_signed", json!({ "consolidated_claim_ids": ["claim_x"] })),
            &["8: no claim claim_x stands"],
        ),
        (without("final_statement_signed"), &["8: there is no final statement to verify"]),
        (
            with("session_initialized", json!({ "requested_roles": ["planner", "critic"] })),
            &["0: the session names 2 distinct roles, it needs 3"],
        ),
    ];
    for (steps, expected) in cases {
        assert_eq!(told(&steps), expected);
    }
}

/// A final statement in the middle is one cause, however much follows it.
#[test]
fn what_follows_a_hasty_final_statement_is_told_once() {
    let mut steps = inserted("tool_intent_signed", ("final_statement_signed", json!({})));
    steps.retain(|step| !step.0.starts_with("verification"));
    assert_eq!(
        told(&steps),
        [
            "3: there is no claim to conclude with",
            "4: `tool_intent_signed` may not be recorded while the session is auditing",
            "9: `final_statement_signed` may not be recorded while the session is auditing",
        ]
    );
}

/// Who approves what, where nothing says so: what may have been in order is no fault.
#[test]
fn intents_belong_to_approved_proposals_and_to_new_ones_first() {
    let step = |name: &'static str| (name, json!({}));
    let rejected = || ("proposal_reviewed", json!({ "decision": "rejected" }));
    let mut parallel = vec![step("session_initialized"), step("proposal_created")];
    parallel.extend([step("proposal_created"), rejected(), step("proposal_reviewed")]);
    parallel.extend([step("tool_intent_signed"), step("tool_intent_signed")]);
    assert_eq!(judge(&parallel), []);

    let mut later = vec![step("session_initialized"), step("proposal_created")];
    later.extend([step("proposal_reviewed"), step("tool_intent_signed")]);
    later.extend([step("proposal_created"), rejected(), step("tool_intent_signed")]);
    assert_eq!(told(&later), ["6: the proposal at 4 was rejected; a new one must revise it"]);
}

/// The intent that may run goes before the one that may not.
#[test]
fn a_start_belongs_to_an_intent_that_may_run() {
    let mut steps: Vec<Step> = whole().into_iter().take(4).collect();
    steps.push(("tool_intent_signed", json!({ "safety_classification": "critical" })));
    steps.push(("tool_execution_started", json!({})));
    assert_eq!(judge(&steps), []);
    steps.push(("tool_execution_started", json!({})));
    assert_eq!(told(&steps), ["6: the intent at 4 is critical and was not approved"]);
}

fn projected(steps: &[Step]) -> Vec<Value> {
    let original = Original {
        schema_version: "1.0.0".into(),
        trace_id: id(0),
        head: Hash::GENESIS,
        events: steps.len() as u64,
    };
    let (mut projection, header) = Projection::begin(&original);
    let events = steps.iter().enumerate();
    let events = events.map(|(index, step)| projection.event(&event(index, step), Hash::GENESIS));
    std::iter::once(header).chain(events).collect()
}

#[test]
fn a_projection_has_the_links_that_were_found() {
    let lines = projected(&whole());
    let links: Vec<Value> = lines
        .iter()
        .skip(1)
        .map(|line| {
            let names = line["inferred"].as_array().unwrap().iter();
            let links = names.map(|name| json!({ name.as_str().unwrap(): line["payload"][name.as_str().unwrap()]["seq"] }));
            json!([line["seq"], links.collect::<Vec<_>>()])
        })
        .collect();
    assert_eq!(
        json!(links),
        json!([
            [0, []],
            [1, []],
            [2, [{ "subject": 1 }]],
            [3, [{ "proposal": 1 }]],
            [4, [{ "intent": 3 }]],
            [5, []],
            [6, [{ "execution": 4 }]],
            [7, [{ "executions": null }]],
            [8, []],
            [9, []],
            [10, [{ "run": 9 }]]
        ])
    );
    assert_eq!(
        lines[8]["payload"]["executions"],
        json!([{ "event_id": id(4).to_lowercase(), "seq": 4 }])
    );
    assert_eq!(
        lines[9]["payload"]["claims"],
        json!([{ "event_id": id(7).to_lowercase(), "seq": 7 }])
    );
}

/// What an older trace does not say stays unsaid, and stands in a list; nothing else is wrong.
#[test]
fn projected_events_have_the_form_of_schema_1_1_but_for_what_nobody_said() {
    let published = [
        include_str!("../../../docs/formats/vectors/projections/whole.jsonl"),
        include_str!("../../../docs/formats/vectors/projections/linked.jsonl"),
        include_str!("../../../docs/formats/vectors/projections/elevated.jsonl"),
        include_str!("../../../docs/formats/vectors/projections/retry.jsonl"),
        include_str!("../../../docs/formats/vectors/projections/challenge-superseded.jsonl"),
    ];
    for text in published {
        for line in text.lines().skip(1) {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(canonical::to_bytes(&event), line.as_bytes());
            let unstated = event["unstated"].as_array().unwrap().iter();
            let mut wanted: Vec<String> = unstated
                .map(|name| format!("/payload/{}: missing", name.as_str().unwrap()))
                .collect();
            wanted.push("/signature: missing".to_owned());
            let faults = check_event(&event, SignatureFaults::Listed);
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            assert_eq!(faults, wanted, "{line}");
        }
    }
}

#[test]
fn every_line_of_a_projection_says_whose_it_is() {
    let lines = projected(&whole());
    assert_eq!(Projection::original_of(&lines[0]), Some(id(0).as_str()));
    for line in &lines[1..] {
        assert_eq!(Projection::original_of(line), Some(id(0).to_lowercase().as_str()));
    }
    assert_eq!(lines[1]["prev_event_hash"], json!(Hash::of(&canonical::to_bytes(&lines[0]))));
    assert_eq!(Projection::original_of(&json!({ "trace_id": "x" })), None);
}
