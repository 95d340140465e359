//! Verdicts of a gate in a recording: what a review may say, and until when it counts.
#![cfg(test)]

use countersign_format::event::artifact::storage_uri;
use countersign_format::event::{
    Actor, ArtifactDescriptor, Draft, Event, EventType, RedactionStatus, SCHEMA_VERSION,
};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::recording::RecordingState;
use countersign_protocol::{Refusal, State as _};
use serde_json::{Map, Value, json};

const START: i64 = 1_770_091_506_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(START + 1_000 * second)
}

fn id(seq: u64) -> String {
    Ulid::from_parts(at(0), u128::from(seq) + 1).to_string()
}

fn event(seq: u64, second: i64, event_type: EventType, payload: Value) -> Event {
    Event {
        actor: Actor {
            agent_id: "recorder".to_owned(),
            key_id: "key".to_owned(),
            role: Role::Recorder,
            unknown: Map::new(),
        },
        artifacts: Vec::new(),
        claims: Vec::new(),
        created_at: at(second),
        event_hash: Hash::GENESIS,
        event_id: id(seq),
        event_type,
        payload,
        payload_hash: Hash::GENESIS,
        payload_type: event_type.as_str().to_owned(),
        prev_event_hash: Hash::GENESIS,
        raw_clock: None,
        schema_version: SCHEMA_VERSION.to_owned(),
        seq: Some(seq),
        signature: Value::Null,
        trace_id: id(0),
        unknown: Map::new(),
    }
}

fn stored(bytes: &[u8]) -> ArtifactDescriptor {
    let artifact_hash = Hash::of(bytes);
    ArtifactDescriptor {
        artifact_hash,
        hash_algorithm: "sha256".to_owned(),
        media_type: "application/json".to_owned(),
        encoding: "utf-8".to_owned(),
        byte_size: bytes.len() as u64,
        created_at: at(1),
        producer_event_id: id(1),
        storage_uri: storage_uri(&artifact_hash),
        redaction_status: RedactionStatus::None,
        unknown: Map::new(),
    }
}

/// A recording with one intent, which was stored with `request`.
fn intended(call_id: Option<&str>) -> RecordingState {
    let mut state = RecordingState::default();
    state.apply(&event(0, 0, EventType::SessionInitialized, json!({ "kind": "recording" })));
    let request = stored(b"request");
    let mut payload = json!({
        "tool_name": "edit", "normalized_input_hash": request.artifact_hash,
        "safety_classification": "low", "justification": "",
    });
    if let Some(call_id) = call_id {
        payload["call_id"] = json!(call_id);
    }
    let draft = Draft::new(EventType::ToolIntentSigned, payload).with_artifacts(vec![request]);
    let intent = Event {
        artifacts: draft.artifacts,
        ..event(1, 1, EventType::ToolIntentSigned, draft.payload)
    };
    assert_eq!(state.admit(&intent), Ok(()));
    state.apply(&intent);
    state
}

fn review(decision: &str, gate: &str, enforced: bool, request: &[u8]) -> Event {
    let payload = json!({
        "subject": { "event_id": id(1), "seq": 1 },
        "decision": decision,
        "gate": {
            "decision": gate, "enforced": enforced,
            "request": Hash::of(request), "policy": Hash::of(b"policy"),
        },
        "expires_at": at(60),
    });
    event(2, 2, EventType::ToolIntentReviewed, payload)
}

#[test]
fn a_review_says_what_its_gate_said() {
    let state = intended(None);
    for (gate, enforced, follows) in [
        ("allow", true, "approved"),
        ("ask", true, "asked"),
        ("deny", true, "blocked"),
        ("allow", false, "approved"),
        ("ask", false, "approved"),
        ("deny", false, "approved"),
    ] {
        for decision in ["approved", "asked", "blocked"] {
            let admitted = state.admit(&review(decision, gate, enforced, b"request"));
            let expected = match decision == follows {
                true => Ok(()),
                false => Err(Refusal::ReviewNotOfGate {
                    intent: 1,
                    review: decision.to_owned(),
                    gate: gate.to_owned(),
                }),
            };
            assert_eq!(admitted, expected, "{gate} {enforced} {decision}");
        }
    }
}

#[test]
fn a_gate_decides_on_what_its_intent_was_stored_with() {
    let refused = intended(None).admit(&review("approved", "allow", true, b"another"));
    let request = Hash::of(b"another").to_hex();
    assert_eq!(refused, Err(Refusal::RequestOfAnother { intent: 1, request }));
}

#[test]
fn a_verdict_starts_nothing_after_its_time_unless_it_is_of_the_same_call() {
    let start = |second| {
        let payload = json!({ "intent": { "event_id": id(1), "seq": 1 } });
        event(3, second, EventType::ToolExecutionStarted, payload)
    };
    let judged = |call_id| {
        let mut state = intended(call_id);
        state.apply(&review("approved", "allow", true, b"request"));
        state
    };
    assert_eq!(judged(None).admit(&start(59)), Ok(()));
    let expired = Refusal::VerdictExpired { intent: 1, expired: at(60) };
    assert_eq!(judged(None).admit(&start(60)), Err(expired));
    assert_eq!(judged(Some("call")).admit(&start(60)), Ok(()));
}
