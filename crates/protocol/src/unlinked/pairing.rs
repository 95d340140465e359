//! What an event belongs to.
//!
//! Where it says so itself, that must be there. Where it does not, the most recent event is taken
//! that still lacks it, and of several rather one to which it was allowed to belong: nobody can
//! tell, and what may have been in order is not called a fault.

use countersign_format::event::{Event, EventRef};

use super::words::{acknowledged, claim_id, consolidated, input, named, several, text};
use super::{Claimed, Intended, UnlinkedSession};
use crate::Refusal;

const TO_SUBJECT: [&str; 5] =
    ["subject_event_id", "subject", "intent_event_id", "proposal_event_id", "proposal"];
const TO_PROPOSAL: [&str; 2] = ["proposal_event_id", "proposal"];
const TO_INTENT: [&str; 2] = ["intent_event_id", "intent"];
const TO_EXECUTION: [&str; 3] = ["execution_event_id", "started_event_id", "execution"];
const TO_EXECUTIONS: [&str; 3] = ["execution_event_ids", "executions", "execution_event_id"];
const TO_CLAIM: [&str; 2] = ["claim_event_id", "claim"];

/// Where something stands, and whether the event itself says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair<T> {
    pub(super) to: T,
    pub(super) stated: bool,
}

impl<T> Pair<T> {
    const fn stated(to: T) -> Self {
        Self { to, stated: true }
    }

    const fn inferred(to: T) -> Self {
        Self { to, stated: false }
    }
}

/// What a review is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Proposal(u64),
    Intent(u64),
}

pub(super) fn subject(state: &UnlinkedSession, event: &Event) -> Result<Pair<Subject>, Refusal> {
    if let Some(id) = named(event, &TO_SUBJECT) {
        let place = state.places.get(id).copied();
        return match place {
            Some(place) if state.proposals.contains_key(&place) => {
                Ok(Pair::stated(Subject::Proposal(place)))
            }
            Some(place) if state.intents.contains_key(&place) => {
                Ok(Pair::stated(Subject::Intent(place)))
            }
            _ => Err(no_such(event, id, "proposal or open intent")),
        };
    }
    if let Some(place) = proposal_named(state, event) {
        return Ok(Pair::stated(Subject::Proposal(place)));
    }
    let waiting = state.intents.iter().rev().find(|(_, intent)| !intent.reviewed);
    let waiting = waiting.map(|(&place, _)| place);
    let unreviewed = state.unreviewed.last().copied();
    let newest_proposal = || state.proposals.keys().next_back().copied();
    let found = match text(event, &["subject_type"]) {
        Some("proposal") => unreviewed.or_else(newest_proposal).map(Subject::Proposal),
        Some("tool_intent" | "intent") => {
            waiting.or_else(|| state.intents.keys().next_back().copied()).map(Subject::Intent)
        }
        _ => match (unreviewed, waiting) {
            (proposal, Some(intent)) if proposal.is_none_or(|at| at < intent) => {
                Some(Subject::Intent(intent))
            }
            _ => unreviewed.or_else(newest_proposal).map(Subject::Proposal),
        },
    };
    let wanted = if text(event, &["subject_type"]).is_some_and(|name| name != "proposal") {
        "open intent"
    } else {
        "proposal"
    };
    found.map(Pair::inferred).ok_or_else(|| nothing(event, wanted))
}

/// The proposal of an intent.
pub(super) fn proposal(state: &UnlinkedSession, event: &Event) -> Result<Pair<u64>, Refusal> {
    if let Some(id) = named(event, &TO_PROPOSAL) {
        let place = state.places.get(id).copied();
        let place = place.filter(|place| state.proposals.contains_key(place));
        return place.map(Pair::stated).ok_or_else(|| no_such(event, id, "proposal"));
    }
    if let Some(place) = proposal_named(state, event) {
        return Ok(Pair::stated(place));
    }
    let accepted = acknowledged(event);
    let fits = |place: &&u64| {
        state.proposals.get(*place).is_some_and(|proposal| proposal.unmet(&accepted).is_none())
    };
    let unused = state.unused.iter().rev().find(fits).or_else(|| state.unused.last()).copied();
    // What was proposed since the last intent is what comes next, whatever became of it.
    let since = state.last_intent.map_or(0, |last| last.at);
    let newest = || state.proposals.range(since..).next_back().map(|(&place, _)| place);
    let again = || state.last_intent.and_then(|last| last.proposal);
    let found = unused.or_else(newest).or_else(again);
    found.map(Pair::inferred).ok_or_else(|| nothing(event, "proposal"))
}

/// The intent of a start.
pub(super) fn intent(state: &UnlinkedSession, event: &Event) -> Result<Pair<u64>, Refusal> {
    if let Some(id) = named(event, &TO_INTENT) {
        let place = state.places.get(id).copied();
        let place = place.filter(|place| state.intents.contains_key(place));
        return place.map(Pair::stated).ok_or_else(|| no_such(event, id, "open intent"));
    }
    let same = |intent: &Intended| {
        let input_fits = input(event).is_none_or(|found| intent.input.is_none_or(|it| it == found));
        let tool = text(event, &["tool_name"]);
        input_fits && tool.is_none_or(|tool| intent.tool.as_deref().is_none_or(|it| it == tool))
    };
    let may_run = |intent: &Intended| intent.approved || !intent.risk.needs_approval();
    let newest = |wanted: &dyn Fn(&Intended) -> bool| {
        let found = state.intents.iter().rev().find(|(_, intent)| wanted(intent));
        found.map(|(&place, _)| place)
    };
    let found = newest(&|intent| same(intent) && may_run(intent))
        .or_else(|| newest(&same))
        .or_else(|| newest(&|_| true));
    found.map(Pair::inferred).ok_or_else(|| nothing(event, "open intent"))
}

/// The execution that ends.
pub(super) fn execution(state: &UnlinkedSession, event: &Event) -> Result<Pair<u64>, Refusal> {
    let wanted = "execution under way";
    if let Some(id) = named(event, &TO_EXECUTION) {
        let place = state.places.get(id).copied();
        let place = place.filter(|place| state.running.contains_key(place));
        return place.map(Pair::stated).ok_or_else(|| no_such(event, id, wanted));
    }
    if let Some(id) = named(event, &TO_INTENT) {
        let intent = state.places.get(id).copied();
        let started = |started: &Option<u64>| intent.is_some() && *started == intent;
        let found = state.running.iter().rev().find(|(_, running)| started(&running.intent));
        let place = found.map(|(&place, _)| place);
        return place.map(Pair::stated).ok_or_else(|| no_such(event, id, "intent that runs"));
    }
    let newest = state.running.keys().next_back().copied();
    newest.map(Pair::inferred).ok_or_else(|| nothing(event, wanted))
}

/// The executions that a claim rests on.
pub(super) fn executions(
    state: &UnlinkedSession,
    event: &Event,
) -> Result<Pair<Vec<u64>>, Refusal> {
    let wanted = "ended execution";
    if let Some(ids) = several(event, &TO_EXECUTIONS) {
        let place = |id: &str| {
            let place = state.places.get(id).copied();
            place.filter(|place| state.ended.contains_key(place))
        };
        let places = ids.into_iter().map(|id| place(id).ok_or_else(|| no_such(event, id, wanted)));
        return places.collect::<Result<_, _>>().map(Pair::stated);
    }
    let newest = state.unclaimed.last().or_else(|| state.ended.keys().next_back()).copied();
    let newest = newest.ok_or_else(|| nothing(event, wanted))?;
    Ok(Pair::inferred(vec![newest]))
}

/// The claim that a challenge is about.
pub(super) fn challenged(state: &UnlinkedSession, event: &Event) -> Result<Pair<String>, Refusal> {
    let stands = |id: &str| state.claims.get(id).is_some_and(|claim| !claim.superseded);
    let stated = text(event, &["challenged_claim_id"]).or_else(|| claim_id(event));
    if let Some(id) = stated {
        let refusal = || Refusal::NoSuchClaim { claim_id: id.to_owned() };
        return stands(id).then(|| Pair::stated(id.to_owned())).ok_or_else(refusal);
    }
    if let Some(id) = named(event, &TO_CLAIM) {
        let mut claims = state.claims.iter();
        let found = claims.find(|(_, claim)| claim.at.event_id == id && !claim.superseded);
        let found = found.map(|(id, _)| Pair::stated(id.clone()));
        return found.ok_or_else(|| no_such(event, id, "claim"));
    }
    let newest = |wanted: &dyn Fn(&Claimed) -> bool| {
        let standing = state.claims.iter().filter(|(_, it)| !it.superseded && wanted(it));
        standing.max_by_key(|(_, claim)| claim.at.seq).map(|(id, _)| id.clone())
    };
    let found = newest(&|claim| claim.challenged_at.is_none()).or_else(|| newest(&|_| true));
    found.map(Pair::inferred).ok_or_else(|| nothing(event, "claim"))
}

/// The events of the claims that a final statement stands by, as far as they are there.
pub(super) fn claims(state: &UnlinkedSession, event: &Event) -> Vec<EventRef> {
    let ids = consolidated(event).into_iter();
    ids.filter_map(|id| state.claims.get(id).map(|claim| claim.at.clone())).collect()
}

fn proposal_named(state: &UnlinkedSession, event: &Event) -> Option<u64> {
    state.proposal_names.get(text(event, &["proposal_id"])?).copied()
}

fn no_such(event: &Event, event_id: &str, wanted: &'static str) -> Refusal {
    Refusal::NoSuchEvent { event: event.event_type, event_id: event_id.to_owned(), wanted }
}

const fn nothing(event: &Event, wanted: &'static str) -> Refusal {
    Refusal::NothingToBelongTo { event: event.event_type, wanted }
}
