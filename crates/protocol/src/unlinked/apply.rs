//! What an event of schema 1.0 changes. What leads nowhere changes nothing.

use std::collections::BTreeSet;

use countersign_format::event::{Event, EventRef, EventType};
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;

use super::pairing::{self, Subject};
use super::words::{claim_id, conditions, consolidated, decision, hashes, input, named, text};
use super::{Claimed, Ended, Intended, LastIntent, Proposed, Started, UnlinkedSession};
use crate::session::ProposalDecision;

pub(super) fn apply(state: &mut UnlinkedSession, event: &Event) {
    use EventType as T;
    let late = state.concluded && is_of_the_work(event);
    match event.event_type {
        T::ProposalCreated => propose(state, event),
        T::ProposalReviewed => review(state, event),
        T::ToolIntentSigned => intend(state, event),
        T::ToolExecutionStarted => start(state, event),
        T::ToolExecutionCompleted | T::ToolExecutionFailed => end(state, event),
        T::ArtifactRecorded => record(state, event),
        T::ClaimIssued => claim(state, event),
        T::ClaimChallenged => {
            let challenged = pairing::challenged(state, event).ok();
            if let Some(claim) = challenged.and_then(|pair| state.claims.get_mut(&pair.to)) {
                claim.challenged_at = Some(state.events);
            }
        }
        T::FinalStatementSigned => {
            // The first one stands; another is refused, and says nothing new.
            let first = !state.concluded;
            state.disputed = if first { disputed(state, event) } else { BTreeSet::new() };
            state.concluded = true;
        }
        T::VerificationRunStarted => state.run = Some(here(state, event)),
        T::VerificationRunCompleted => {
            state.run = None;
            state.over = true;
        }
        _ => {}
    }
    state.told_late |= late;
    for artifact in &event.artifacts {
        if let Some(execution) = state.undescribed.remove(&artifact.artifact_hash) {
            state.bare.remove(&execution);
        }
        if state.artifacts.insert(artifact.artifact_hash) {
            state.last_artifact_at = Some(state.events);
        }
    }
    state.events += 1;
}

/// Whether planner, executor or critic go on with something.
fn is_of_the_work(event: &Event) -> bool {
    event.actor.role != Role::Auditor && event.event_type != EventType::FinalStatementSigned
}

pub(super) fn here(state: &UnlinkedSession, event: &Event) -> EventRef {
    EventRef { event_id: event.event_id.clone(), seq: state.events }
}

fn remember(state: &mut UnlinkedSession, event: &Event, place: u64) {
    state.places.insert(event.event_id.clone(), place);
}

fn propose(state: &mut UnlinkedSession, event: &Event) {
    let place = state.events;
    let proposal =
        Proposed { event_id: event.event_id.clone(), decision: None, conditions: BTreeSet::new() };
    state.proposals.insert(place, proposal);
    state.unreviewed.insert(place);
    if let Some(name) = text(event, &["proposal_id"]) {
        state.proposal_names.insert(name.to_owned(), place);
    }
    remember(state, event, place);
}

fn review(state: &mut UnlinkedSession, event: &Event) {
    let Ok(pair) = pairing::subject(state, event) else { return };
    // A review that does not say what it decides decides nothing.
    let Some(decision) = decision(event) else { return };
    match pair.to {
        Subject::Proposal(place) => {
            let used = state.intents.values().any(|intent| intent.proposal == Some(place))
                || state.last_intent.is_some_and(|last| last.proposal == Some(place));
            if let Some(proposal) = state.proposals.get_mut(&place) {
                proposal.decision = Some(decision);
                proposal.conditions = conditions(event);
            }
            state.unreviewed.remove(&place);
            if decision == ProposalDecision::Rejected {
                state.unused.remove(&place);
            } else if !used {
                state.unused.insert(place);
            }
        }
        Subject::Intent(place) if decision == ProposalDecision::Rejected => {
            state.intents.remove(&place);
        }
        Subject::Intent(place) => {
            if let Some(intent) = state.intents.get_mut(&place) {
                intent.reviewed = true;
                intent.approved = decision == ProposalDecision::Approved;
            }
        }
    }
}

fn intend(state: &mut UnlinkedSession, event: &Event) {
    let refused = !state.objections(event).is_empty();
    let proposal = pairing::proposal(state, event).ok().map(|pair| pair.to);
    let place = state.events;
    let risk = text(event, &["safety_classification"]).unwrap_or_default();
    let mut classes = RiskClass::ALL.into_iter();
    let intent = Intended {
        event_id: event.event_id.clone(),
        proposal,
        tool: text(event, &["tool_name"]).map(str::to_owned),
        input: input(event),
        // What cannot be read is taken for the worst.
        risk: classes.find(|class| class.as_str() == risk).unwrap_or(RiskClass::Critical),
        approved: false,
        reviewed: false,
        stored: !event.artifacts.is_empty(),
        refused,
    };
    if let Some(proposal) = proposal {
        state.unused.remove(&proposal);
    }
    state.intents.insert(place, intent);
    state.last_intent = Some(LastIntent { at: place, proposal });
    remember(state, event, place);
}

fn start(state: &mut UnlinkedSession, event: &Event) {
    let at = pairing::intent(state, event).ok().map(|pair| pair.to);
    let intent = at.and_then(|at| state.intents.remove(&at));
    let stored = intent.is_some_and(|intent| intent.stored) || !event.artifacts.is_empty();
    let place = state.events;
    if !stored {
        state.bare.insert(place);
    }
    state.running.insert(place, Started { event_id: event.event_id.clone(), intent: at });
    remember(state, event, place);
}

fn end(state: &mut UnlinkedSession, event: &Event) {
    // That nothing had started was told; something ended all the same, and claims may rest on it.
    let at = pairing::execution(state, event).map_or(state.events, |pair| pair.to);
    let started = state.running.remove(&at);
    let event_id = started.map_or_else(|| event.event_id.clone(), |started| started.event_id);
    let completed = event.event_type == EventType::ToolExecutionCompleted;
    let outputs = hashes(event, "output_artifacts");
    if !event.artifacts.is_empty() || outputs.iter().any(|hash| state.artifacts.contains(hash)) {
        state.bare.remove(&at);
    }
    for hash in outputs.difference(&state.artifacts) {
        state.undescribed.insert(*hash, at);
    }
    state.ended.insert(at, Ended { event_id, completed });
    state.unclaimed.insert(at);
    remember(state, event, at);
}

/// Evidence belongs to the execution that it names or that made it, else to the last that has none.
fn record(state: &mut UnlinkedSession, event: &Event) {
    if event.artifacts.is_empty() || event.actor.role != Role::Executor {
        return;
    }
    let stated = named(event, &["execution_event_id", "execution"]);
    let producers = event.artifacts.iter().map(|artifact| artifact.producer_event_id.as_str());
    let mut ids = stated.into_iter().chain(producers);
    let made_by = ids.find_map(|id| {
        let place = state.places.get(id)?;
        (state.running.contains_key(place) || state.ended.contains_key(place)).then_some(*place)
    });
    let outputs = event.artifacts.iter().filter_map(|it| state.undescribed.get(&it.artifact_hash));
    let put_out_by = outputs.copied().next();
    let found = made_by.or(put_out_by).or_else(|| state.bare.last().copied());
    if let Some(execution) = found {
        state.bare.remove(&execution);
    } else if let Some(mut intent) = state.intents.last_entry() {
        intent.get_mut().stored = true;
    }
}

fn claim(state: &mut UnlinkedSession, event: &Event) {
    if let Ok(executions) = pairing::executions(state, event) {
        for place in &executions.to {
            state.unclaimed.remove(place);
        }
    }
    if let Some(earlier) = text(event, &["supersedes"]).and_then(|id| state.claims.get_mut(id)) {
        earlier.superseded = true;
    }
    let Some(id) = claim_id(event) else { return };
    let claim = Claimed { at: here(state, event), superseded: false, challenged_at: None };
    // An id that is used twice stays with the first.
    state.claims.entry(id.to_owned()).or_insert(claim);
}

fn disputed(state: &UnlinkedSession, event: &Event) -> BTreeSet<String> {
    let stale = |id: &&str| {
        let challenged = state.claims.get(*id).and_then(|claim| claim.challenged_at);
        // What the challenge itself brings is the critic's, and answers nothing.
        challenged.is_some_and(|at| state.last_artifact_at.is_none_or(|latest| latest <= at))
    };
    consolidated(event).into_iter().filter(stale).map(str::to_owned).collect()
}
