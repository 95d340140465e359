//! The two traces of the story: a recording that ends, and a session that goes on.

use countersign_format::event::artifact::storage_uri;
use countersign_format::event::{
    ArtifactDescriptor, Draft, EventRef, EventType, RedactionStatus, SCHEMA_VERSION,
};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::receipt::GateDecision;
use countersign_protocol::receipts::{ActionEnd, GateStanding, IntendedAction, ReceiptHead};
use serde_json::{Map, Value, json};

use super::home::{Ledger, Party, second};

/// What the tool of the recording printed.
pub(super) const OUTPUT: &[u8] = b"hello\n";
/// How long it ran, and how likely the gate took it to fail.
const ELAPSED: u64 = 3;
const GATE_SCORE: f64 = 0.000_015;
/// What the tool of the session is to be given.
pub(super) const INPUT: &[u8] = b"hello";

fn descriptor(bytes: &[u8], media_type: &str, at: i64, producer: &Ulid) -> ArtifactDescriptor {
    let hash = Hash::of(bytes);
    ArtifactDescriptor {
        artifact_hash: hash,
        hash_algorithm: "sha256".to_owned(),
        media_type: media_type.to_owned(),
        encoding: "utf-8".to_owned(),
        byte_size: bytes.len() as u64,
        created_at: second(at),
        producer_event_id: producer.to_string(),
        storage_uri: storage_uri(&hash),
        redaction_status: RedactionStatus::None,
        unknown: Map::new(),
    }
}

/// Up to the start of a tool; the clock goes back once.
pub(super) fn begin_recording(
    trace: &mut Ledger,
    by: &Party,
    pin: &Value,
) -> Result<EventRef, String> {
    let behalf = json!({ "agent_id": "somebody's agent", "model": "unknown" });
    let first = json!({ "kind": "recording", "log": pin, "on_behalf_of": behalf });
    trace.push(by, 10, Draft::new(EventType::SessionInitialized, first))?;
    let mut intent = recorded_intent();
    if let Value::Object(members) = &mut intent {
        members.insert("on_behalf_of".to_owned(), behalf.clone());
    }
    let request = intent.get("normalized_input_hash").cloned().unwrap_or_default();
    let intent = trace.push(by, 11, Draft::new(EventType::ToolIntentSigned, intent))?;
    let review = json!({
        "subject": intent, "decision": "approved", "reasons": ["risk 0.000015"],
        "gate": {
            "decision": "allow", "enforced": true, "request": request,
            "policy": Hash::of(b"policy"), "score": GATE_SCORE,
        },
    });
    let draft = Draft::new(EventType::ToolIntentReviewed, review);
    trace.push_clocked(by, second(11), Some(second(9)), draft)?;
    let start = json!({ "intent": intent, "on_behalf_of": behalf });
    trace.push(by, 12, Draft::new(EventType::ToolExecutionStarted, start))
}

/// What the intent of the recording says.
fn recorded_intent() -> Value {
    json!({
        "tool_name": "echo", "normalized_input_hash": Hash::of(b"{\"text\":\"hello\"}"),
        "input_form": "canonical", "safety_classification": "low", "justification": "to greet 🌍",
        "action_type": "command", "paths": [],
    })
}

/// The receipt of what the recording's tool did, and its hash: it says that this came out.
fn receipt(output: &[u8]) -> Result<(Value, Hash), String> {
    let decision = GateDecision::Pass.as_str().to_owned();
    let standing = GateStanding { decision, score: Some(GATE_SCORE), enforced: true };
    let intended = IntendedAction::from_payload(&recorded_intent());
    let intended = IntendedAction { standing: Some(standing), ..intended };
    let facts = intended.facts(ActionEnd {
        output: Hash::of(output),
        success: true,
        duration_ms: ELAPSED,
        ..ActionEnd::nothing()
    });
    ReceiptHead::default().link(facts, second(25)).map_err(|refusal| refusal.to_string())
}

/// From the end of the tool to the end of the trace. The receipt says that `receipted` came out. Gives
/// the bytes of the report, which has this verdict.
pub(super) fn end_recording(
    trace: &mut Ledger,
    by: &Party,
    execution: &EventRef,
    (receipted, verdict): (&[u8], &str),
) -> Result<Vec<u8>, String> {
    let output = descriptor(OUTPUT, "text/plain", 25, &trace.next_id(second(25)));
    let (action, receipt) = receipt(receipted)?;
    let end = json!({
        "execution": execution, "exit_status": 0, "output_artifacts": [output.artifact_hash],
        "elapsed_ms": ELAPSED, "action": action, "receipt_hash": receipt,
    });
    let draft = Draft::new(EventType::ToolExecutionCompleted, end).with_artifacts(vec![output]);
    trace.push(by, 25, draft)?;
    let last = json!({ "consolidated_claim_ids": [], "claims": [], "final_verdict": "greeted" });
    trace.push(by, 26, Draft::new(EventType::FinalStatementSigned, last))?;
    let run = trace.push(by, 27, Draft::new(EventType::VerificationRunStarted, json!({})))?;
    let report_id = Ulid::from_parts(second(28), 99);
    let bytes = audit_report(trace, &report_id, verdict);
    let report = descriptor(&bytes, "application/json", 28, &trace.next_id(second(28)));
    let end = json!({
        "run": run, "verification_status": "pass",
        "report_id": report_id, "report_artifact": report.artifact_hash,
    });
    let draft = Draft::new(EventType::VerificationRunCompleted, end).with_artifacts(vec![report]);
    trace.push(by, 28, draft)?;
    Ok(bytes)
}

/// The report of an audit of the trace as it stands.
fn audit_report(trace: &Ledger, report_id: &Ulid, verdict: &str) -> Vec<u8> {
    let checks = CHECKS.split_whitespace().map(
        |id| json!({ "check_id": id, "name": id, "status": "pass", "scope": "", "evidence": [] }),
    );
    let report = json!({
        "schema_version": SCHEMA_VERSION, "report_id": report_id, "trace_id": trace.trace_id,
        "kind": "recording", "head": trace.head(), "verified_at": second(28),
        "verification_status": verdict, "closed": "no", "signer": "pinned", "root": null,
        "profile": "default", "summary": "made by hand", "checks": checks.collect::<Vec<_>>(),
        "failures": [], "warnings": [], "not_proven": [],
        "metrics": {
            "events": trace.size(), "signatures_verified": trace.size(), "log_entries": 0,
            "trusted_events": trace.size(), "elapsed_ms": 0,
        },
    });
    json::to_bytes(&report)
}

/// The ids of a report's checks, in their order.
const CHECKS: &str = "CHK_SCHEMA_CONFORMANCE CHK_EVENT_HASH_INTEGRITY CHK_CHAIN_CONTINUITY \
    CHK_SIGNATURE_VALIDITY CHK_KEY_STATUS CHK_LOG CHK_ARTIFACT_EXISTENCE CHK_ARTIFACT_HASH_MATCH \
    CHK_RECEIPT_CHAIN CHK_CLAIM_EVIDENCE_SUFFICIENCY CHK_ROLE_POLICY_CONFORMANCE \
    CHK_SEPARATION_OF_DUTIES CHK_FINALIZATION_INTEGRITY";

/// A proposal, its review and an intent, which is given back.
pub(super) fn begin_session(
    trace: &mut Ledger,
    [planner, critic, executor]: [&Party; 3],
    pin: &Value,
) -> Result<EventRef, String> {
    let first = json!({
        "kind": "session", "task_id": "greet", "log": pin,
        "requested_roles": ["planner", "executor", "critic", "auditor"],
    });
    trace.push(planner, 13, Draft::new(EventType::SessionInitialized, first))?;
    let proposal = json!({
        "objective": "grüße 🌍", "assumptions": [], "required_tools": ["echo"],
        "expected_evidence": ["what it printed"],
    });
    let proposal = trace.push(planner, 15, Draft::new(EventType::ProposalCreated, proposal))?;
    let review = json!({ "subject": proposal, "decision": "approved" });
    trace.push(critic, 16, Draft::new(EventType::ProposalReviewed, review))?;
    let intent = json!({
        "tool_name": "echo", "normalized_input_hash": Hash::of(INPUT), "input_form": "raw",
        "safety_classification": "low", "justification": "approved", "proposal": proposal,
    });
    let input = descriptor(INPUT, "text/plain", 17, &trace.next_id(second(17)));
    let draft = Draft::new(EventType::ToolIntentSigned, intent).with_artifacts(vec![input]);
    trace.push(executor, 17, draft)
}
