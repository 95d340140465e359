//! Whether an event may follow in a session. The rules are numbered on the page on sessions.

use std::collections::BTreeSet;

use countersign_format::event::{Event, EventRef, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::role::Role;
use serde_json::Value;

use super::apply::condition_ids;
use super::{
    ClaimKind, ClaimRecord, ClaimStatus, EndedRecord, IntentRecord, ProposalDecision,
    ProposalRecord, Resolution, SessionState, UnknownRecord,
};
use crate::parts::{member, no_such, optional, reference};
use crate::{Refusal, ReviewDecision, Stage, roles};

pub(super) fn admit(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    let found = event.event_type;
    match (state.begun, found == EventType::SessionInitialized) {
        (false, false) => return Err(Refusal::WrongFirstEvent { found }),
        (true, true) => return Err(Refusal::BeganAlready { found }),
        _ => {}
    }
    roles::admit(TraceKind::Session, event)?;
    admit_stage(state, event)?;
    admit_body(state, event)
}

fn admit_stage(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    use EventType as T;
    let found = event.event_type;
    let lifecycle = state.lifecycle();
    if !lifecycle.allows(found, event.actor.role) {
        return Err(match found {
            T::VerificationRunStarted => Refusal::NoFinalStatement,
            T::VerificationRunCompleted => Refusal::NoAuditUnderWay,
            _ if lifecycle.is_terminal() => Refusal::Ended { found },
            _ => Refusal::NotInThisState { found, state: lifecycle.as_str() },
        });
    }
    match (&state.stage, found) {
        (Stage::Auditing(_), T::VerificationRunStarted) => Err(Refusal::AuditUnderWay),
        (Stage::Auditing(run), T::VerificationRunCompleted) => {
            let named = reference(event, "run")?;
            if named == *run { Ok(()) } else { Err(no_such(event, &named, "run")) }
        }
        (_, T::VerificationRunCompleted) => Err(Refusal::NoAuditUnderWay),
        _ => Ok(()),
    }
}

fn admit_body(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    use EventType as T;
    match event.event_type {
        T::SessionInitialized => opening(event),
        T::ProposalCreated => proposal(state, event),
        T::ProposalReviewed => proposal_review(state, event),
        T::ToolIntentSigned => intent(state, event),
        T::ToolIntentReviewed => intent_review(state, event),
        T::ToolExecutionStarted => start(state, event),
        T::ToolExecutionCompleted | T::ToolExecutionFailed => end(state, event),
        T::ClaimIssued => claim(state, event),
        T::ClaimChallenged => challenge(state, event),
        T::FinalStatementSigned => final_statement(state, event),
        _ => Ok(()),
    }
}

/// Rule 1.
fn opening(event: &Event) -> Result<(), Refusal> {
    member::<String>(event, "task_id")?;
    let roles: BTreeSet<Role> = member(event, "requested_roles")?;
    match [Role::Planner, Role::Executor, Role::Critic].into_iter().find(|r| !roles.contains(r)) {
        Some(missing) => Err(Refusal::RoleMissing { role: missing }),
        None => Ok(()),
    }
}

/// Rule 3.
fn proposal(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    if let Some(id) = optional::<String>(event, "proposal_id")?
        && state.proposals.values().any(|known| known.proposal_id.as_ref() == Some(&id))
    {
        return Err(Refusal::ProposalKnown { proposal_id: id });
    }
    if event.payload.get("revises").is_some() {
        find_proposal(state, event, "revises")?;
    }
    if event.payload.get("fallback_for").is_some() {
        let (_, failed) = find_ended(state, event, &reference(event, "fallback_for")?)?;
        if failed.completed {
            return Err(Refusal::NotFailed { execution: reference(event, "fallback_for")?.seq });
        }
        if !state.rules.fallbacks {
            return Err(Refusal::NoFallbacks);
        }
    }
    Ok(())
}

/// Rule 4.
fn proposal_review(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    let (seq, proposal) = find_proposal(state, event, "subject")?;
    if proposal.decision == Some(ProposalDecision::Rejected) {
        return Err(Refusal::ProposalRejected { proposal: seq });
    }
    let decision: ProposalDecision = member(event, "decision")?;
    let listed = condition_ids(event).count();
    let distinct = condition_ids(event).collect::<BTreeSet<_>>().len();
    let fits = match decision {
        ProposalDecision::Conditional => listed > 0 && distinct == listed,
        ProposalDecision::Approved | ProposalDecision::Rejected => listed == 0,
    };
    if fits {
        Ok(())
    } else {
        Err(Refusal::ConditionsUnfit { decision: decision.as_str(), listed })
    }
}

/// Rule 5.
fn intent(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    let (seq, proposal) = find_proposal(state, event, "proposal")?;
    approved(seq, proposal)?;
    let acknowledged = optional(event, "acknowledged_conditions")?.unwrap_or_default();
    conditions_met(seq, proposal, &acknowledged)?;
    let tool: String = member(event, "tool_name")?;
    if !proposal.required_tools.contains(&tool) {
        return Err(Refusal::ToolNotProposed { proposal: seq, tool });
    }
    let input: Hash = member(event, "normalized_input_hash")?;
    listed(event, "normalized_input_hash", &input)?;
    let unknown = last_unknown(state, &tool, &input).map(|(at, _)| at);
    let retried = match event.payload.get("retry_of") {
        Some(_) => {
            let execution = reference(event, "retry_of")?;
            let (at, ended) = find_ended(state, event, &execution)?;
            // What ended with an unknown outcome is repeated by whoever runs the same.
            if ended.completed || (ended.proposal != seq && unknown != Some(at)) {
                return Err(Refusal::NotFailed { execution: at });
            }
            Some(at)
        }
        None => None,
    };
    match unknown {
        Some(at) if retried != Some(at) => Err(Refusal::RetryUnnamed { execution: at }),
        _ => Ok(()),
    }
}

/// Rule 6.
fn intent_review(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    let (seq, intent) = find_intent(state, event, "subject")?;
    let decision: ReviewDecision = member(event, "decision")?;
    let by_operator = event.actor.role == Role::Operator;
    not_milder_than_gate(event, seq, decision)?;
    match decision {
        ReviewDecision::Blocked => Ok(()),
        ReviewDecision::Asked if by_operator => Err(Refusal::OperatorAsks { intent: seq }),
        ReviewDecision::Asked => Ok(()),
        ReviewDecision::Approved if intent.asked && !by_operator => {
            Err(Refusal::IntentUndecided { intent: seq })
        }
        ReviewDecision::Approved => match intent.deadline {
            Some(deadline) if by_operator && event.created_at >= deadline => {
                Err(Refusal::AnswerTooLate { intent: seq, deadline })
            }
            _ => Ok(()),
        },
    }
}

/// A critic may be stricter than the gate, never milder.
fn not_milder_than_gate(event: &Event, seq: u64, decision: ReviewDecision) -> Result<(), Refusal> {
    let Some(gate) = event.payload.get("gate") else { return Ok(()) };
    let said = gate.get("decision").and_then(Value::as_str).unwrap_or_default();
    let enforced = gate.get("enforced").and_then(Value::as_bool).unwrap_or(true);
    let keeps = match (said, decision) {
        ("allow", _) | (_, ReviewDecision::Blocked) => true,
        ("ask", decision) => decision == ReviewDecision::Asked,
        _ => false,
    };
    if keeps || !enforced {
        return Ok(());
    }
    let review = event.payload.get("decision").and_then(Value::as_str).unwrap_or_default();
    let (review, gate) = (review.to_owned(), said.to_owned());
    Err(Refusal::ReviewNotOfGate { intent: seq, review, gate })
}

/// Rule 7.
fn start(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    let (seq, intent) = find_intent(state, event, "intent")?;
    if let Some(proposal) = state.proposals.get(&intent.proposal) {
        approved(intent.proposal, proposal)?;
        // The critic may have set conditions since the intent was signed.
        conditions_met(intent.proposal, proposal, &intent.acknowledged)?;
    }
    let input: Hash = member(event, "normalized_input_hash")?;
    let approved = intent.action.input;
    if input != approved {
        return Err(Refusal::OtherInput { intent: seq, approved, found: input });
    }
    match intent.review {
        Some((ReviewDecision::Approved, _)) => {}
        Some(_) => return Err(Refusal::IntentUndecided { intent: seq }),
        None if intent.risk.needs_approval() => {
            return Err(Refusal::ApprovalMissing { intent: seq, risk: intent.risk });
        }
        None => {}
    }
    let unknown = intent.retry_of.and_then(|at| state.unknown.get(&at).map(|found| (at, found)));
    if let Some((at, found)) = unknown
        && !found.idempotent
        && intent.review != Some((ReviewDecision::Approved, Role::Operator))
    {
        return Err(Refusal::OutcomeUnknown { intent: seq, execution: at });
    }
    // Two intents for the same may have been signed before the first of them came to grief.
    if let Some((at, found)) = last_unknown(state, &intent.action.tool_name, &intent.action.input)
        && !found.idempotent
        && intent.retry_of != Some(at)
    {
        return Err(Refusal::RetryUnnamed { execution: at });
    }
    match state.rules.tool_calls {
        Some(limit) if state.starts >= limit => Err(Refusal::TooManyCalls { limit }),
        _ => Ok(()),
    }
}

/// Rule 8.
fn end(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    let execution = reference(event, "execution")?;
    match state.executions.get(&execution.seq) {
        Some(running) if running.event_id == execution.event_id => {}
        _ => return Err(no_such(event, &execution, "execution")),
    }
    let outputs: Vec<Hash> = optional(event, "output_artifacts")?.unwrap_or_default();
    outputs.iter().try_for_each(|output| listed(event, "output_artifacts", output))
}

/// Rule 9.
fn claim(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    let id: String = member(event, "claim_id")?;
    if state.claims.contains_key(&id) {
        return Err(Refusal::ClaimKnown { claim_id: id });
    }
    if !event.claims.contains(&id) {
        return Err(Refusal::ClaimUnlisted { claim_id: id });
    }
    evidence(state, event, &id)?;
    let executions: Vec<EventRef> = member(event, "executions")?;
    if executions.is_empty() {
        return Err(Refusal::ClaimBaseless { claim_id: id });
    }
    let mut completed = false;
    for execution in &executions {
        completed |= find_ended(state, event, execution)?.1.completed;
    }
    let kind: ClaimKind = optional(event, "claim_kind")?.unwrap_or_default();
    if !completed && kind != ClaimKind::FailureAnalysis {
        return Err(Refusal::ClaimOnFailure { claim_id: id });
    }
    match optional::<String>(event, "supersedes")? {
        Some(earlier) => standing(state, &earlier).map(|_| ()),
        None => Ok(()),
    }
}

fn evidence(state: &SessionState, event: &Event, claim_id: &str) -> Result<(), Refusal> {
    let named: BTreeSet<Hash> = member(event, "evidence_artifacts")?;
    let wanted = state.rules.min_evidence.max(1);
    if (named.len() as u64) < wanted {
        let found = named.len() as u64;
        return Err(Refusal::EvidenceTooThin { claim_id: claim_id.to_owned(), found, wanted });
    }
    for hash in &named {
        listed(event, "evidence_artifacts", hash)?;
        let own = event.artifacts.iter().any(|artifact| {
            artifact.artifact_hash == *hash && artifact.producer_event_id == event.event_id
        });
        if !own && !state.artifacts.contains_key(hash) {
            return Err(Refusal::EvidenceUnmet { claim_id: claim_id.to_owned(), artifact: *hash });
        }
    }
    Ok(())
}

/// Rule 10.
fn challenge(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    let id: String = member(event, "challenged_claim_id")?;
    let claim = standing(state, &id)?;
    let named = reference(event, "claim")?;
    if claim.at == named { Ok(()) } else { Err(no_such(event, &named, "claim")) }
}

/// Rule 11.
fn final_statement(state: &SessionState, event: &Event) -> Result<(), Refusal> {
    if let Some(&first) = state.executions.keys().next() {
        return Err(Refusal::ExecutionsOpen { count: state.executions.len(), first });
    }
    if state.claims.is_empty() {
        return Err(Refusal::NoClaims);
    }
    let resolutions: Vec<Resolution> = optional(event, "claim_resolutions")?.unwrap_or_default();
    let resolved = |id: &str| {
        resolutions.iter().find(|resolution| resolution.claim_id == id).map(|found| found.status)
    };
    let mut named = BTreeSet::new();
    for resolution in &resolutions {
        resolution_fits(state, resolution)?;
        if !named.insert(&resolution.claim_id) {
            return Err(unfit(resolution));
        }
    }
    let mut wanted = (Vec::new(), Vec::new());
    for (id, claim) in state.standing_claims() {
        match resolved(id) {
            Some(ClaimStatus::Retracted) => {}
            None if claim.challenged_at.is_some() => {
                return Err(Refusal::ChallengeOpen { claim_id: id.clone() });
            }
            _ => {
                wanted.0.push(id.clone());
                wanted.1.push(claim.at.clone());
            }
        }
    }
    let ids: Vec<String> = member(event, "consolidated_claim_ids")?;
    let places: Vec<EventRef> = member(event, "claims")?;
    if (ids, places) == wanted {
        Ok(())
    } else {
        Err(Refusal::OtherClaims { standing: wanted.0.len() })
    }
}

fn resolution_fits(state: &SessionState, resolution: &Resolution) -> Result<(), Refusal> {
    let id = &resolution.claim_id;
    let Some(claim) = state.claims.get(id) else {
        return Err(Refusal::NoSuchClaim { claim_id: id.clone() });
    };
    if claim.superseded == (resolution.status == ClaimStatus::Superseded) {
        Ok(())
    } else {
        Err(unfit(resolution))
    }
}

fn unfit(resolution: &Resolution) -> Refusal {
    let claim_id = resolution.claim_id.clone();
    Refusal::ResolutionUnfit { claim_id, status: resolution.status.as_str() }
}

fn approved(seq: u64, proposal: &ProposalRecord) -> Result<(), Refusal> {
    match proposal.decision {
        Some(ProposalDecision::Rejected) => Err(Refusal::ProposalRejected { proposal: seq }),
        Some(_) => Ok(()),
        None => Err(Refusal::ProposalUnreviewed { proposal: seq }),
    }
}

fn conditions_met(
    seq: u64,
    proposal: &ProposalRecord,
    acknowledged: &BTreeSet<String>,
) -> Result<(), Refusal> {
    match proposal.conditions.difference(acknowledged).next() {
        Some(missing) => Err(Refusal::ConditionUnmet { proposal: seq, condition: missing.clone() }),
        None => Ok(()),
    }
}

/// The last execution of the same tool with the same input of which nobody knows how it ended.
fn last_unknown<'s>(
    state: &'s SessionState,
    tool: &str,
    input: &Hash,
) -> Option<(u64, &'s UnknownRecord)> {
    let mut unknown = state.unknown.iter().rev().map(|(&at, found)| (at, found));
    unknown.find(|(_, found)| found.tool_name == tool && found.input == *input)
}

/// Whether the event lists an artifact of this hash.
fn listed(event: &Event, member: &'static str, hash: &Hash) -> Result<(), Refusal> {
    if event.artifacts.iter().any(|artifact| artifact.artifact_hash == *hash) {
        Ok(())
    } else {
        Err(Refusal::ArtifactUnlisted { event: event.event_type, member, artifact: *hash })
    }
}

fn find_proposal<'s>(
    state: &'s SessionState,
    event: &Event,
    name: &'static str,
) -> Result<(u64, &'s ProposalRecord), Refusal> {
    let named = reference(event, name)?;
    state
        .proposals
        .get(&named.seq)
        .filter(|proposal| proposal.event_id == named.event_id)
        .map(|proposal| (named.seq, proposal))
        .ok_or_else(|| no_such(event, &named, "proposal"))
}

fn find_intent<'s>(
    state: &'s SessionState,
    event: &Event,
    name: &'static str,
) -> Result<(u64, &'s IntentRecord), Refusal> {
    let named = reference(event, name)?;
    state
        .intents
        .get(&named.seq)
        .filter(|intent| intent.event_id == named.event_id)
        .map(|intent| (named.seq, intent))
        .ok_or_else(|| no_such(event, &named, "intent"))
}

fn find_ended<'s>(
    state: &'s SessionState,
    event: &Event,
    named: &EventRef,
) -> Result<(u64, &'s EndedRecord), Refusal> {
    state
        .ended_executions
        .get(&named.seq)
        .filter(|ended| ended.event_id == named.event_id)
        .map(|ended| (named.seq, ended))
        .ok_or_else(|| no_such(event, named, "ended execution"))
}

fn standing<'s>(state: &'s SessionState, id: &str) -> Result<&'s ClaimRecord, Refusal> {
    match state.claims.get(id) {
        Some(claim) if !claim.superseded => Ok(claim),
        _ => Err(Refusal::NoSuchClaim { claim_id: id.to_owned() }),
    }
}
