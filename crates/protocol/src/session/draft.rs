//! The events that commands bring. Whether they may follow is decided elsewhere.

use std::collections::BTreeSet;

use countersign_format::event::{ArtifactDescriptor, Draft, EventRef, EventType};
use countersign_format::receipt::GateDecision;
use countersign_format::role::Role;
use serde_json::{Map, Value, json};

use super::SessionState;
use super::command::{
    Claim, ClaimStatus, ExecutionEnd, FinalStatement, Intent, Outcome, Proposal, Redaction,
    SessionCommand, SessionOpening,
};
use crate::parts::{coverage, hashes, produced, set};
use crate::receipts::{ActionEnd, ActionFacts, IntendedAction, Parent, attach, output_hash};
use crate::{Act, By, Context, Refusal, ReviewDecision, Stage};

/// The events that `command` brings.
pub(super) fn acts(
    state: &SessionState,
    command: SessionCommand,
    context: &Context,
) -> Result<Vec<Act>, Refusal> {
    use SessionCommand as C;
    let (role, draft) = match command {
        C::Open(opening) => (Role::Planner, open(*opening, context)),
        C::Propose(proposal) => (Role::Planner, propose(*proposal, context)),
        C::ReviewProposal { subject, decision, conditions, rationale, artifacts } => {
            let mut payload =
                json!({ "subject": subject, "decision": decision, "rationale": rationale });
            set(&mut payload, "conditions", (!conditions.is_empty()).then_some(conditions));
            (Role::Critic, with(EventType::ProposalReviewed, payload, artifacts, context))
        }
        C::Intend(intent) => (Role::Executor, intend(*intent, context)),
        C::ReviewIntent { by, subject, decision, reasons, gate, deadline, channel, artifacts } => {
            let mut payload =
                json!({ "subject": subject, "decision": decision, "reasons": reasons });
            set(&mut payload, "deadline", deadline);
            set(&mut payload, "channel", channel);
            if decision == ReviewDecision::Blocked {
                let score = gate.as_ref().and_then(|gate| gate.score);
                refuse(state, &subject, score, &mut payload, context)?;
            }
            set(&mut payload, "gate", gate);
            (by, with(EventType::ToolIntentReviewed, payload, artifacts, context))
        }
        C::Start { intent, input, isolation } => {
            let payload = json!({
                "intent": intent,
                "normalized_input_hash": input,
                "isolation": isolation,
            });
            (Role::Executor, Draft::new(EventType::ToolExecutionStarted, payload))
        }
        C::End(ended) => (Role::Executor, end(state, *ended, context)?),
        C::RecordArtifact { by, purpose, artifacts } => {
            let payload = json!({ "purpose": purpose });
            (by, with(EventType::ArtifactRecorded, payload, artifacts, context))
        }
        C::Claim(claim) => (Role::Executor, issue(*claim, context)),
        C::Challenge { claim, claim_id, reason, artifacts } => {
            let payload =
                json!({ "claim": claim, "challenged_claim_id": claim_id, "reason": reason });
            (Role::Critic, with(EventType::ClaimChallenged, payload, artifacts, context))
        }
        C::Conclude(statement) => (Role::Executor, conclude(state, *statement, context)),
        C::StartAudit { profile } => {
            let payload = json!({ "policy_profile": profile });
            (Role::Auditor, Draft::new(EventType::VerificationRunStarted, payload))
        }
        C::CompleteAudit { status, report_id, report, artifacts } => {
            let Stage::Auditing(run) = &state.stage else { return Err(Refusal::NoAuditUnderWay) };
            let payload = json!({
                "run": run,
                "verification_status": status,
                "report_id": report_id,
                "report_artifact": report.artifact_hash,
            });
            let artifacts = [vec![*report], artifacts].concat();
            (Role::Auditor, with(EventType::VerificationRunCompleted, payload, artifacts, context))
        }
        C::ReportCoverage { gaps, sources, report } => {
            (Role::Auditor, coverage(gaps, sources, *report, context))
        }
        C::Redact { artifact_hash, reason } => {
            let payload = json!({ "artifact_hash": artifact_hash, "reason": reason });
            (Role::Auditor, Draft::new(EventType::ArtifactRedacted, payload))
        }
        C::Abort { reason } => {
            let payload = json!({ "reason": reason });
            (Role::Operator, Draft::new(EventType::SessionAborted, payload))
        }
        C::Fail { reason, failure_code, role, artifacts } => {
            let mut payload = json!({ "reason": reason, "failure_code": failure_code });
            set(&mut payload, "role", role);
            (Role::Recorder, with(EventType::SessionFailed, payload, artifacts, context))
        }
    };
    Ok(vec![Act { by: By::Role(role), draft }])
}

fn open(opening: SessionOpening, context: &Context) -> Draft {
    let mut payload = json!({
        "kind": "session",
        "log": opening.log,
        "task_id": opening.task_id,
        "objective": opening.objective,
        "constraints": opening.constraints,
        "policy_profile": opening.policy_profile,
        "requested_roles": opening.requested_roles,
        "participants": opening.participants,
        "policy": opening.policy,
        "limits": opening.limits,
        "input_artifacts": hashes(&opening.inputs),
        "software": opening.software,
    });
    let task_hash = opening.task.as_ref().map(|task| task.artifact_hash);
    set(&mut payload, "task_artifact", task_hash);
    set(&mut payload, "links", opening.links);
    set_redactions(&mut payload, opening.redactions);
    let artifacts = opening.task.into_iter().chain(opening.inputs).collect();
    with(EventType::SessionInitialized, payload, artifacts, context)
}

fn propose(proposal: Proposal, context: &Context) -> Draft {
    let mut payload = json!({
        "objective": proposal.objective,
        "assumptions": proposal.assumptions,
        "required_tools": proposal.required_tools,
        "expected_evidence": proposal.expected_evidence,
    });
    set(&mut payload, "proposal_id", proposal.proposal_id);
    set(&mut payload, "revises", proposal.revises);
    set(&mut payload, "fallback_for", proposal.fallback_for);
    with(EventType::ProposalCreated, payload, proposal.artifacts, context)
}

fn intend(intent: Intent, context: &Context) -> Draft {
    let mut payload = json!({
        "proposal": intent.proposal,
        "tool_name": intent.tool_name,
        "action_type": intent.action_type.as_str(),
        "normalized_input_hash": intent.input.artifact_hash,
        "input_form": intent.input_form,
        "safety_classification": intent.risk,
        "justification": intent.justification,
        "action_index": intent.action_index,
        "idempotent": intent.idempotent,
    });
    set(&mut payload, "paths", (!intent.paths.is_empty()).then_some(intent.paths));
    let acknowledged = intent.acknowledged_conditions;
    set(
        &mut payload,
        "acknowledged_conditions",
        (!acknowledged.is_empty()).then_some(acknowledged),
    );
    set(&mut payload, "retry_of", intent.retry_of);
    set(&mut payload, "input_binding", intent.input_binding);
    set_redactions(&mut payload, intent.redactions);
    let artifacts = [vec![intent.input], intent.artifacts].concat();
    with(EventType::ToolIntentSigned, payload, artifacts, context)
}

/// Gives a refused intent its receipt.
fn refuse(
    state: &SessionState,
    subject: &EventRef,
    score: Option<f64>,
    payload: &mut Value,
    context: &Context,
) -> Result<(), Refusal> {
    let Some(intent) = state.intents.get(&subject.seq) else { return Ok(()) };
    let mut refused = intent.action.refused();
    refused.gate_score = score.or(refused.gate_score);
    attach(payload, &state.receipts, refused, context.now)
}

fn end(state: &SessionState, ended: ExecutionEnd, context: &Context) -> Result<Draft, Refusal> {
    let artifacts: Vec<_> = [&ended.stdout, &ended.stderr].into_iter().flatten().cloned().collect();
    let hash = |artifact: &Option<ArtifactDescriptor>| {
        artifact.as_ref().map(|artifact| artifact.artifact_hash)
    };
    let mut payload = json!({
        "execution": ended.execution,
        "exit_status": ended.exit_status,
        "output_artifacts": hashes(&artifacts),
        "dropped_bytes": ended.dropped_bytes,
    });
    set(&mut payload, "stdout", hash(&ended.stdout));
    set(&mut payload, "stderr", hash(&ended.stderr));
    set(&mut payload, "elapsed_ms", ended.elapsed_ms);
    set_redactions(&mut payload, ended.redactions.clone());
    let (event_type, how) = match &ended.outcome {
        Outcome::Completed => (EventType::ToolExecutionCompleted, None),
        Outcome::Failed(reason) => (EventType::ToolExecutionFailed, Some(("failed", reason))),
        Outcome::Unknown(reason) => (EventType::ToolExecutionFailed, Some(("unknown", reason))),
    };
    if let Some((outcome, reason)) = how {
        set(&mut payload, "outcome", Some(outcome));
        set(&mut payload, "reason", Some(reason));
    }
    let running = state.executions.get(&ended.execution.seq);
    if let Some(action) = running.and_then(|running| running.action.as_ref()) {
        let facts = done(action, &ended, &artifacts);
        attach(&mut payload, &state.receipts, facts, context.now)?;
    }
    Ok(with(event_type, payload, artifacts, context))
}

/// What an execution that has ended made of the action.
fn done(
    action: &IntendedAction,
    ended: &ExecutionEnd,
    artifacts: &[ArtifactDescriptor],
) -> ActionFacts {
    let mut metadata = Map::new();
    if matches!(ended.outcome, Outcome::Unknown(_)) {
        metadata.insert("outcome".to_owned(), json!("unknown"));
    }
    let mut facts = action.facts(ActionEnd {
        output: output_hash(ended.stdout.as_ref(), artifacts),
        success: ended.outcome == Outcome::Completed,
        duration_ms: ended.elapsed_ms.unwrap_or(0),
        gating: None,
        metadata,
        parent: Parent::Last,
    });
    if ended.given_up {
        facts.gate_decision = Some(GateDecision::Skipped);
    }
    facts
}

fn issue(claim: Claim, context: &Context) -> Draft {
    let claim_id =
        claim.claim_id.unwrap_or_else(|| format!("claim_{}", context.reference(0).event_id));
    let mut payload = json!({
        "claim_id": claim_id,
        "claim_text": claim.text,
        "confidence": claim.confidence,
        "claim_kind": claim.kind,
        "executions": claim.executions,
        "evidence_artifacts": hashes(&claim.evidence),
    });
    set(&mut payload, "supersedes", claim.supersedes);
    let artifacts = [claim.evidence, claim.artifacts].concat();
    let mut draft = with(EventType::ClaimIssued, payload, artifacts, context);
    draft.claims = vec![claim_id];
    draft
}

fn conclude(state: &SessionState, statement: FinalStatement, context: &Context) -> Draft {
    let retracted = |id: &String| {
        statement.resolutions.iter().any(|resolution| {
            resolution.claim_id == *id && resolution.status == ClaimStatus::Retracted
        })
    };
    let standing = state.standing_claims().into_iter().filter(|(id, _)| !retracted(id));
    let (ids, places): (Vec<_>, Vec<_>) =
        standing.map(|(id, claim)| (id.clone(), claim.at.clone())).unzip();
    let mut payload = json!({
        "consolidated_claim_ids": ids,
        "claims": places,
        "final_verdict": statement.verdict,
        "outcome": if statement.achieved { "achieved" } else { "not-achieved" },
    });
    let resolutions = statement.resolutions;
    set(&mut payload, "claim_resolutions", (!resolutions.is_empty()).then_some(resolutions));
    let mut draft = with(EventType::FinalStatementSigned, payload, statement.artifacts, context);
    draft.claims = ids;
    draft
}

fn with(
    event_type: EventType,
    payload: Value,
    mut artifacts: Vec<ArtifactDescriptor>,
    context: &Context,
) -> Draft {
    // Two empty streams are one artifact.
    let mut met = BTreeSet::new();
    artifacts.retain(|artifact| met.insert(artifact.artifact_hash));
    Draft::new(event_type, payload).with_artifacts(produced(artifacts, context))
}

fn set_redactions(payload: &mut Value, redactions: Vec<Redaction>) {
    set(payload, "redactions", (!redactions.is_empty()).then_some(redactions));
}
