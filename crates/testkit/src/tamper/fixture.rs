//! The session that cases start from: plan, review, one tool or more, claims, statement, audit.

use std::collections::BTreeMap;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;
use countersign_protocol::receipts::{ActionEnd, IntendedAction, ReceiptHead};
use countersign_verify::{Profile, verify};
use serde_json::{Value, json};

use super::keys::Registry;
use super::log::pin;
use super::scene::{PayloadHashes, Scene, Signers};

/// 2026-02-03T04:05:06.000Z.
const START: i64 = 1_770_091_506_000;
/// From the first entry of the log to the first event of the session; then one a second.
const LOG_SECONDS: i64 = 60;
/// Events around the steps: three before them, three after.
const AROUND: usize = 6;
/// Events of one step: intent, start, input, end, output, claim.
const STEP: usize = 6;
/// How long each tool ran.
const ELAPSED: u64 = 12;
const REPORT_ID: &str = "01arz3ndektsv4rrffq69g5fav";

impl Scene {
    /// The closed session of twelve events.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self::of_size(dialect, AROUND + STEP)
    }

    /// A closed session of this many events, at least twelve.
    #[must_use]
    pub fn of_size(dialect: Dialect, events: usize) -> Self {
        Self::begun_at(dialect, events, START)
    }

    /// Another session of the same people, an hour later.
    #[must_use]
    pub fn another(dialect: Dialect) -> Self {
        Self::begun_at(dialect, AROUND + STEP, START + 3_600_000)
    }

    fn begun_at(dialect: Dialect, events: usize, start: i64) -> Self {
        let start = Timestamp::from_millis(start);
        let mut scene = Self {
            dialect,
            registry: Registry::new(dialect),
            start,
            trace_id: String::new(),
            lines: Vec::new(),
            ends_whole: true,
            told: Vec::new(),
            log: Vec::new(),
            checkpoint: None,
            blobs: BTreeMap::new(),
            beside: BTreeMap::new(),
            report: Value::Null,
            original: (Hash::GENESIS, 0),
        };
        scene.trace_id = scene.id(Ulid::from_parts(scene.time(0), u128::MAX >> 64));
        scene.plan();
        let mut claims = Vec::new();
        let mut receipts = ReceiptHead::default();
        while scene.lines.len() + STEP + 3 <= events {
            claims.push(scene.step(claims.len(), &mut receipts));
        }
        while scene.lines.len() + 3 < events {
            let note = format!("note {}", scene.lines.len());
            scene.record(note.as_bytes(), "note");
        }
        scene.conclude(&claims);
        scene.seal(0, None, Signers::Original, PayloadHashes::Computed);
        scene.audit();
        scene.tell_log();
        scene.original = (scene.head_before(scene.lines.len()), scene.lines.len());
        scene
    }

    fn time(&self, event: usize) -> Timestamp {
        let seconds = LOG_SECONDS + i64::try_from(event).unwrap();
        self.start.plus_millis(1_000 * seconds)
    }

    /// Time and id of the next event.
    pub(super) fn next(&self) -> (Timestamp, String) {
        let place = self.lines.len();
        let at = self.time(place);
        (at, self.id(Ulid::from_parts(at, place as u128 + 1)))
    }

    fn is_ours(&self) -> bool {
        self.dialect == Dialect::V1_1
    }

    /// Adds an event, not yet sealed; gives a reference to it.
    pub(super) fn add(
        &mut self,
        event_type: &str,
        agent_id: &str,
        payload: Value,
        artifacts: Vec<Value>,
        claims: &[String],
    ) -> Value {
        let (at, event_id) = self.next();
        let role = agent_id.strip_suffix("-agent").unwrap_or(agent_id);
        let version = if self.is_ours() { "1.1.0" } else { "1.0.0" };
        let event = json!({
            "schema_version": version, "trace_id": self.trace_id, "event_id": event_id,
            "event_type": event_type, "created_at": at,
            "actor": {
                "agent_id": agent_id, "key_id": self.registry.key_id(agent_id), "role": role,
            },
            "payload_type": event_type, "payload": payload, "claims": claims,
            "artifacts": artifacts,
        });
        let seq = self.lines.len();
        self.lines.push(Vec::new());
        self.put_value(seq, &event);
        json!({ "event_id": event_id, "seq": seq })
    }

    /// A payload with the members that only our schema has.
    fn payload(&self, both: Value, ours: Value) -> Value {
        let mut payload = both;
        if let (true, Value::Object(ours)) = (self.is_ours(), ours) {
            payload.as_object_mut().unwrap().extend(ours);
        }
        payload
    }

    fn plan(&mut self) {
        let roles = ["planner", "executor", "critic", "auditor"];
        let participants: Vec<Value> = roles
            .iter()
            .map(|role| {
                let agent_id = format!("{role}-agent");
                json!({ "role": role, "agent_id": agent_id, "kind": "built-in" })
            })
            .collect();
        let both = json!({
            "task_id": "menu", "objective": "write the menu of the café",
            "policy_profile": "default", "requested_roles": roles, "participants": participants,
            "constraints": [],
        });
        let pin = if self.is_ours() { pin(&self.registry, self.start) } else { Value::Null };
        let ours = json!({
            "kind": "session", "log": pin, "software": "test",
            "policy": {
                "fallbacks": true, "min_evidence": 1, "revisions": 1, "question_seconds": 60,
            },
            "limits": {}, "input_artifacts": [],
        });
        let opening = self.payload(both, ours);
        self.add("session_initialized", "planner-agent", opening, Vec::new(), &[]);
        let proposal = json!({
            "objective": "list what the café has", "assumptions": ["the kitchen is open"],
            "required_tools": ["echo"], "expected_evidence": ["what it printed"],
        });
        let proposal = self.add("proposal_created", "planner-agent", proposal, Vec::new(), &[]);
        let review = self.payload(
            json!({ "decision": "approved", "rationale": "harmless" }),
            json!({ "subject": proposal }),
        );
        self.add("proposal_reviewed", "critic-agent", review, Vec::new(), &[]);
    }

    /// One tool, from its intent to the claim that rests on it; gives the claim and its event.
    fn step(&mut self, number: usize, receipts: &mut ReceiptHead) -> (String, Value) {
        let input = format!("{{\"dish\":{number}}}");
        let output = format!("dish {number}: soup\n");
        let executor = "executor-agent";
        let (at, id) = self.next();
        let described = self.put(input.as_bytes(), &id, at);
        let proposal = self.reference(1);
        let intent = self.payload(
            json!({
                "tool_name": "echo", "normalized_input_hash": described["artifact_hash"],
                "safety_classification": "low", "justification": "as proposed",
            }),
            json!({
                "proposal": proposal, "input_form": "raw", "action_index": number,
                "idempotent": false, "action_type": "command", "paths": ["menu.txt"],
            }),
        );
        let action = IntendedAction::from_payload(&intent);
        let inputs = vec![described.clone()];
        let intent = self.add("tool_intent_signed", executor, intent, inputs.clone(), &[]);
        let both = json!({ "normalized_input_hash": described["artifact_hash"] });
        let start = self.payload(both, json!({ "intent": intent, "isolation": null }));
        let start = self.add("tool_execution_started", executor, start, inputs, &[]);
        self.record(input.as_bytes(), "input");
        let (at, id) = self.next();
        let printed = self.put(output.as_bytes(), &id, at);
        let (action, receipt) = receipt(&action, &output, at, receipts);
        let end = self.payload(
            json!({ "output_artifacts": [printed["artifact_hash"]], "exit_status": 0 }),
            json!({
                "execution": start, "stdout": printed["artifact_hash"], "dropped_bytes": 0,
                "elapsed_ms": ELAPSED, "action": action, "receipt_hash": receipt,
            }),
        );
        self.add("tool_execution_completed", executor, end, vec![printed.clone()], &[]);
        self.record(output.as_bytes(), "output");
        let (_, id) = self.next();
        let claim_id = format!("claim_{}", id.to_ascii_lowercase());
        let claim = self.payload(
            json!({
                "claim_text": "the menu is listed", "confidence": "high",
                "evidence_artifacts": [printed["artifact_hash"]], "claim_id": claim_id,
            }),
            json!({ "executions": [start], "claim_kind": "result" }),
        );
        let claims = [claim_id.clone()];
        let event = self.add("claim_issued", executor, claim, vec![printed], &claims);
        (claim_id, event)
    }

    /// Evidence that no tool produced.
    fn record(&mut self, bytes: &[u8], purpose: &str) {
        let (at, id) = self.next();
        let described = self.put(bytes, &id, at);
        let payload = json!({ "purpose": purpose });
        self.add("artifact_recorded", "executor-agent", payload, vec![described], &[]);
    }

    fn conclude(&mut self, claims: &[(String, Value)]) {
        let (ids, places): (Vec<String>, Vec<Value>) = claims.iter().cloned().unzip();
        let statement = self.payload(
            json!({ "consolidated_claim_ids": ids, "final_verdict": "the menu is written" }),
            json!({ "claims": places, "outcome": "achieved" }),
        );
        self.add("final_statement_signed", "executor-agent", statement, Vec::new(), &ids);
    }

    /// Audits the session as it is, records the verdict, and seals both events.
    pub(super) fn audit(&mut self) {
        let auditor = "auditor-agent";
        let profile = json!({ "policy_profile": "default" });
        let from = self.lines.len();
        let run = self.add("verification_run_started", auditor, profile, Vec::new(), &[]);
        self.seal(from, None, Signers::Original, PayloadHashes::Computed);
        self.tell_log();
        let options = self.options(Profile::DEFAULT);
        let report = verify(self, &options).unwrap();
        self.report = serde_json::to_value(&report).unwrap();
        let (at, id) = self.next();
        let described = self.put(b"", &id, at);
        let completed = self.payload(
            json!({
                "verification_status": report.verification_status,
                "report_artifact": described["artifact_hash"], "report_id": REPORT_ID,
            }),
            json!({ "run": run }),
        );
        let (event_type, artifacts) = ("verification_run_completed", vec![described]);
        self.add(event_type, auditor, completed, artifacts, &[]);
        self.blobs.remove(&Hash::of(b""));
        self.seal(from, None, Signers::Original, PayloadHashes::Computed);
    }

    pub(super) fn reference(&self, event: usize) -> Value {
        json!({ "event_id": self.value(event)["event_id"], "seq": event })
    }
}

/// The receipt of a tool that printed `output`, which the chain then ends in.
fn receipt(
    action: &IntendedAction,
    output: &str,
    at: Timestamp,
    receipts: &mut ReceiptHead,
) -> (Value, Hash) {
    let facts = action.facts(ActionEnd {
        output: Hash::of(output.as_bytes()),
        success: true,
        duration_ms: ELAPSED,
        ..ActionEnd::nothing()
    });
    let (action, receipt) = receipts.link(facts, at).unwrap();
    *receipts = ReceiptHead::at(action["action_id"].as_str().unwrap(), receipt).unwrap();
    (action, receipt)
}
