//! What an event of a session changes.

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::risk::RiskClass;
use countersign_format::time::Timestamp;
use serde_json::Value;

use super::{
    ClaimRecord, EndedRecord, IntentRecord, ProposalDecision, ProposalRecord, Rules, RunningRecord,
    SessionState, UnknownRecord,
};
use crate::parts::{member, optional, place, reference};
use crate::receipts::IntendedAction;
use crate::{ReviewDecision, Stage, ending};

pub(super) fn apply(state: &mut SessionState, event: &Event) {
    use EventType as T;
    match event.event_type {
        T::SessionInitialized => {
            state.begun = true;
            state.rules = rules(event);
        }
        T::ProposalCreated => propose(state, event),
        T::ProposalReviewed => review_proposal(state, event),
        T::ToolIntentSigned => intend(state, event),
        T::ToolIntentReviewed => review_intent(state, event),
        T::ToolExecutionStarted => start(state, event),
        T::ToolExecutionCompleted | T::ToolExecutionFailed => end(state, event),
        T::ClaimIssued => claim(state, event),
        T::ClaimChallenged => {
            let id: Option<String> = member(event, "challenged_claim_id").ok();
            if let Some(claim) = id.and_then(|id| state.claims.get_mut(&id)) {
                claim.challenged_at = Some(place(event).seq);
            }
        }
        T::FinalStatementSigned => {
            state.disputed = disputed(state, event);
            state.stage = Stage::Concluded;
        }
        T::VerificationRunStarted => state.stage = Stage::Auditing(place(event)),
        _ => {
            if let Some(status) = ending(TraceKind::Session, event) {
                state.stage = Stage::Ended;
                state.ended = state.ended.or(Some(status));
            }
        }
    }
    state.receipts.apply(event);
    for artifact in &event.artifacts {
        state.artifacts.entry(artifact.artifact_hash).or_insert_with(|| {
            state.last_artifact_at = event.seq;
            event.seq.unwrap_or_default()
        });
    }
}

fn rules(event: &Event) -> Rules {
    let at = |pointer: &str| event.payload.pointer(pointer);
    let usual = Rules::default();
    Rules {
        fallbacks: at("/policy/fallbacks").and_then(Value::as_bool).unwrap_or(usual.fallbacks),
        min_evidence: at("/policy/min_evidence")
            .and_then(Value::as_u64)
            .unwrap_or(usual.min_evidence),
        tool_calls: at("/limits/tool_calls").and_then(Value::as_u64),
    }
}

fn propose(state: &mut SessionState, event: &Event) {
    let proposal = ProposalRecord {
        event_id: event.event_id.clone(),
        proposal_id: optional(event, "proposal_id").ok().flatten(),
        required_tools: member(event, "required_tools").unwrap_or_default(),
        decision: None,
        conditions: Default::default(),
    };
    state.proposals.insert(place(event).seq, proposal);
}

fn review_proposal(state: &mut SessionState, event: &Event) {
    let Ok(subject) = reference(event, "subject") else { return };
    let Some(proposal) = state.proposals.get_mut(&subject.seq) else { return };
    proposal.decision = member::<ProposalDecision>(event, "decision").ok();
    proposal.conditions = condition_ids(event).collect();
    state.approved_once |= proposal.is_approved();
}

/// The ids of the conditions that a review lists.
pub(super) fn condition_ids(event: &Event) -> impl Iterator<Item = String> {
    let conditions = event.payload.get("conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .filter_map(|condition| Some(condition.get("id")?.as_str()?.to_owned()))
}

fn intend(state: &mut SessionState, event: &Event) {
    let intent = IntentRecord {
        event_id: event.event_id.clone(),
        proposal: reference(event, "proposal").map_or(u64::MAX, |proposal| proposal.seq),
        action: IntendedAction::of(event),
        // What cannot be read is taken for the worst.
        risk: member(event, "safety_classification").unwrap_or(RiskClass::Critical),
        idempotent: optional(event, "idempotent").ok().flatten().unwrap_or(false),
        acknowledged: optional(event, "acknowledged_conditions").ok().flatten().unwrap_or_default(),
        retry_of: reference(event, "retry_of").ok().map(|execution| execution.seq),
        review: None,
        asked: false,
        deadline: None,
    };
    state.intents.insert(place(event).seq, intent);
}

fn review_intent(state: &mut SessionState, event: &Event) {
    let Ok(subject) = reference(event, "subject") else { return };
    let Ok(decision) = member::<ReviewDecision>(event, "decision") else { return };
    // A blocked intent is done with; it can no longer start.
    if decision == ReviewDecision::Blocked {
        state.intents.remove(&subject.seq);
    } else if let Some(intent) = state.intents.get_mut(&subject.seq) {
        intent.review = Some((decision, event.actor.role));
        intent.action.review(event);
        if decision == ReviewDecision::Asked {
            intent.asked = true;
            intent.deadline = optional::<Timestamp>(event, "deadline").ok().flatten();
        }
    }
}

fn start(state: &mut SessionState, event: &Event) {
    state.starts = state.starts.saturating_add(1);
    let intent = reference(event, "intent").ok();
    let intent = intent.and_then(|intent| state.intents.remove(&intent.seq));
    // What was repeated with permission is no longer in the way of whoever runs the same later.
    if let Some(repeated) = intent.as_ref().and_then(|intent| intent.retry_of) {
        state.unknown.remove(&repeated);
    }
    let running = match intent {
        Some(intent) => RunningRecord {
            event_id: event.event_id.clone(),
            proposal: intent.proposal,
            action: Some(intent.action),
            idempotent: intent.idempotent,
        },
        None => RunningRecord {
            event_id: event.event_id.clone(),
            proposal: u64::MAX,
            action: None,
            idempotent: false,
        },
    };
    state.executions.insert(place(event).seq, running);
}

fn end(state: &mut SessionState, event: &Event) {
    let Ok(execution) = reference(event, "execution") else { return };
    let Some(running) = state.executions.remove(&execution.seq) else { return };
    let completed = event.event_type == EventType::ToolExecutionCompleted;
    if !completed && event.payload.get("outcome").and_then(Value::as_str) == Some("unknown") {
        let action = running.action.as_ref();
        let unknown = UnknownRecord {
            tool_name: action.map(|action| action.tool_name.clone()).unwrap_or_default(),
            input: action.map_or(Hash::GENESIS, |action| action.input),
            idempotent: running.idempotent,
        };
        state.unknown.insert(execution.seq, unknown);
    }
    let ended = EndedRecord { event_id: running.event_id, proposal: running.proposal, completed };
    state.ended_executions.insert(execution.seq, ended);
}

fn claim(state: &mut SessionState, event: &Event) {
    if let Ok(Some(earlier)) = optional::<String>(event, "supersedes")
        && let Some(earlier) = state.claims.get_mut(&earlier)
    {
        earlier.superseded = true;
    }
    if let Ok(id) = member::<String>(event, "claim_id") {
        let claim = ClaimRecord { at: place(event), superseded: false, challenged_at: None };
        state.claims.insert(id, claim);
    }
}

/// Claims that were challenged and stand in the final statement, with nothing new since.
fn disputed(state: &SessionState, event: &Event) -> std::collections::BTreeSet<String> {
    let named: Vec<String> = member(event, "consolidated_claim_ids").unwrap_or_default();
    let stale = |id: &String| {
        let challenged = state.claims.get(id).and_then(|claim| claim.challenged_at);
        // What the challenge itself brings is the critic's, and answers nothing.
        challenged.is_some_and(|at| state.last_artifact_at.is_none_or(|latest| latest <= at))
    };
    named.into_iter().filter(stale).collect()
}
