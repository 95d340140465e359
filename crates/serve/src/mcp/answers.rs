//! What the tools answer, in CapSeal's fields and a few of ours.
//!
//! A field that stands for something which does not exist here says so by its value: there is no
//! algebraic proof, and a model is trained by its own command.

use std::path::{Path, PathBuf};

use countersign_format::cap::PROOF_TYPE;
use countersign_format::id::Ulid;
use countersign_format::report::VerificationStatus;
use countersign_format::time::Timestamp;
use countersign_gate::Decision;
use countersign_runtime::actions::{
    FileHistory, GateAnswer, ReceiptGiven, RecordingSummary, RuntimeStatus, SealedRecording,
};
use serde_json::{Map, Value, json};

use super::input::GateInput;
use super::tools::ToolName;

/// The version of the answers' shape.
const SCHEMA_VERSION: &str = "1.0";
/// What an action is taken for of which nothing is known.
const UNKNOWN: f64 = 0.5;
/// Below the first an action is approved, from the second on it is denied.
const APPROVE_BELOW: f64 = 0.3;
const DENY_ABOVE: f64 = 0.6;
/// Characters of a description in a summary.
const SUMMARY_CHARACTERS: usize = 80;

/// What every answer begins with.
#[derive(Debug)]
pub(super) struct Envelope {
    tool: ToolName,
    session: Option<Ulid>,
    now: Timestamp,
}

impl Envelope {
    pub(super) const fn of(tool: ToolName, session: Option<Ulid>, now: Timestamp) -> Self {
        Self { tool, session, now }
    }

    fn well(self, summary: &str, fields: Value) -> Value {
        self.with("ok", true, summary, fields)
    }

    /// The answer of a call that failed for this reason.
    pub(super) fn failed(self, reason: &str, fields: Value) -> Value {
        let summary = format!("{} failed: {reason}", self.tool.as_str());
        self.with("ok", false, &summary, fields)
    }

    fn with(self, ok: &str, is_ok: bool, summary: &str, fields: Value) -> Value {
        let mut answer = Map::new();
        answer.insert(ok.to_owned(), json!(is_ok));
        answer.insert("tool".to_owned(), json!(self.tool.as_str()));
        answer.insert("session_id".to_owned(), json!(self.session.map(|id| id.to_string())));
        answer.insert("timestamp".to_owned(), json!(compact(self.now)));
        answer.insert("schema_version".to_owned(), json!(SCHEMA_VERSION));
        answer.insert("human_summary".to_owned(), json!(summary));
        if let Value::Object(fields) = fields {
            answer.extend(fields);
        }
        Value::Object(answer)
    }
}

/// The directory that a workspace's store lies in.
pub(super) fn directory(home: &Path) -> PathBuf {
    let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
    home.parent().unwrap_or(&home).to_owned()
}

pub(super) fn gate(envelope: Envelope, input: &GateInput, answer: &GateAnswer) -> Value {
    let opinion = &answer.opinion;
    let estimate = opinion.estimate;
    let q = rounded(estimate.map_or(UNKNOWN, |estimate| estimate.q));
    let cell = opinion.cell.index();
    let decision = answer.decision.name_over_mcp();
    let mut summary = format!("{decision}: {} (p_fail={q:.2})", short(&input.description));
    if let (Decision::Ask, Some(question)) = (answer.decision, &answer.question) {
        summary = format!(
            "{summary}; ask your user, who can also answer with `countersign approve {question} --yes`"
        );
    }
    let receipt_id = format!("{}-gate-{cell}", compact(envelope.now));
    envelope.well(
        &summary,
        json!({
            "decision": decision,
            "gate_token": answer.token,
            "expires_at": answer.expires_at,
            "reasons": answer.reasons,
            "reason": answer.reasons.join("; "),
            "enforced": answer.enforced,
            "gate_opinion": opinion.verdict.decision().name_over_mcp(),
            "approved_by_person": answer.approved_by_person,
            "question": answer.question,
            "question_deadline": answer.question_deadline,
            "predicted_failure": q,
            "p_fail": q,
            "confidence": rounded(estimate.map_or(0.0, |estimate| estimate.confidence)),
            "uncertainty": rounded(estimate.map_or(UNKNOWN, |estimate| estimate.uncertainty)),
            "observations": estimate.map_or(0, |estimate| estimate.observations),
            "grid_cell": cell,
            "grid_idx": cell,
            "label": opinion.label,
            "features": opinion.features,
            "thresholds": { "approve_below": APPROVE_BELOW, "deny_above": DENY_ABOVE },
            "receipt_id": receipt_id,
            "action_type": answer.action_type.as_str(),
            "description": input.description,
            "files_affected": input.files_affected,
            "model_loaded": answer.model_loaded,
            "similar_patches": [],
        }),
    )
}

pub(super) fn record(
    envelope: Envelope,
    given: &ReceiptGiven,
    description: &str,
    error: Option<&str>,
) -> Value {
    let kind = given.action_type.as_str();
    let gating = given.gating.as_str();
    let receipt: String = given.receipt_hash.to_hex().chars().take(16).collect();
    let summary = format!("{kind}: {} ({gating}, sha:{receipt})", short(description));
    envelope.well(
        &summary,
        json!({
            "recorded": true,
            "action_id": given.action_id,
            "receipt_hash": given.receipt_hash,
            "receipt_chain_length": given.count,
            "gating": gating,
            "token_fault": given.token_fault,
            "gate_decision": given.gate_decision.map(|decision| decision.as_str()),
            "action_type": kind,
            "files_affected": given.files,
            "label": given.label,
            "p_fail": given.gate_score,
            "error": error,
        }),
    )
}

pub(super) fn seal(
    envelope: Envelope,
    sealed: &SealedRecording,
    directory: &Path,
    learned: Option<u64>,
) -> Value {
    let file = sealed.cap.strip_prefix(directory).unwrap_or(&sealed.cap).display().to_string();
    let passed = sealed.report.verification_status != VerificationStatus::Fail;
    let summary = format!("Sealed {} actions into {file}", sealed.actions);
    envelope.well(
        &summary,
        json!({
            "sealed": true,
            "session_name": sealed.name,
            "cap_file": file,
            "hash": sealed.final_receipt,
            "actions_count": sealed.actions,
            "verification": if passed { "passed" } else { "failed" },
            "proof_generated": false,
            "proof_verified": false,
            "proof_type": PROOF_TYPE,
            "capsule_hash": sealed.capsule_hash,
            "model_updated": false,
            "model_episodes": learned.unwrap_or(0),
            "verify_command": format!("countersign verify {file}"),
            "error": null,
        }),
    )
}

pub(super) fn status<'s>(
    envelope: Envelope,
    status: &RuntimeStatus,
    directory: &Path,
    uptime: f64,
    listed: impl Iterator<Item = &'s RecordingSummary>,
    totals: Value,
) -> Value {
    let summary = match status.trace_id {
        Some(id) => format!("Recording {id}: {} actions, {} gates", status.actions, status.gates),
        None => "No recording yet; the first gate or record begins one".to_owned(),
    };
    let listed: Vec<Value> = listed
        .map(|one| {
            json!({
                "session_id": one.session_id,
                "date": one.date,
                "agent": one.agent,
                "actions": one.actions,
                "approved": one.approved,
                "denied": one.denied,
                "files_changed": one.files_changed,
                "summary": one.summary.as_deref().unwrap_or("not sealed"),
                "receipt": one.receipt,
            })
        })
        .collect();
    envelope.well(
        &summary,
        json!({
            "session_active": status.trace_id.is_some(),
            "workspace": directory.display().to_string(),
            "actions_count": status.actions,
            "gates_count": status.gates,
            "denials_count": status.denials,
            "questions_count": status.waiting,
            "model_loaded": status.learned.is_some(),
            "uptime_seconds": (uptime * 1000.0).round() / 1000.0,
            "recent_sessions": listed,
            "project_stats": totals,
        }),
    )
}

/// Totals over these recordings.
pub(super) fn totals(summaries: &[RecordingSummary], model_trained: bool) -> Value {
    let sum = |of: fn(&RecordingSummary) -> u64| summaries.iter().map(of).sum::<u64>();
    json!({
        "total_sessions": summaries.len(),
        "total_actions": sum(|one| one.actions),
        "total_denied": sum(|one| one.denied),
        "model_trained": model_trained,
    })
}

pub(super) fn context(envelope: Envelope, history: &FileHistory) -> Value {
    let (changes, sessions) = (history.total_changes, history.sessions.len());
    let summary = format!("{}: {changes} recorded changes in {sessions} sessions", history.file);
    envelope.well(
        &summary,
        json!({
            "file": history.file,
            "total_changes": changes,
            "total_sessions": sessions,
            "sessions": history.sessions,
        }),
    )
}

/// A time as CapSeal writes it: `20260131T235959`.
fn compact(time: Timestamp) -> String {
    let text = time.to_string();
    let seconds = text.split('.').next().unwrap_or_default();
    seconds.chars().filter(|character| !matches!(character, '-' | ':')).collect()
}

fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn short(text: &str) -> String {
    let mut characters = text.chars();
    let short: String = characters.by_ref().take(SUMMARY_CHARACTERS).collect();
    if characters.next().is_some() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_capseal_writes_them() {
        let time: Timestamp = "2026-01-31T23:59:59.123Z".parse().unwrap();
        assert_eq!(compact(time), "20260131T235959");
    }

    #[test]
    fn a_failure_has_the_envelope_and_the_reason() {
        let now = Timestamp::EPOCH;
        let envelope = Envelope::of(ToolName::Seal, None, now);
        let expected = json!({
            "ok": false, "tool": "capseal_seal", "session_id": null,
            "timestamp": "19700101T000000", "schema_version": "1.0",
            "human_summary": "capseal_seal failed: no disk", "sealed": false, "error": "no disk",
        });
        assert_eq!(
            envelope.failed("no disk", json!({ "sealed": false, "error": "no disk" })),
            expected
        );
    }
}
