//! Which rules an event of schema 1.0 breaks. They are numbered on the page on sessions.

use countersign_format::event::{Event, EventType, RedactionStatus, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::role::Role;

use super::UnlinkedSession;
use super::pairing::{self, Subject};
use super::words::{acknowledged, claim_id, consolidated, hashes, input, retracts, roles, text};
use crate::session::ProposalDecision;
use crate::{Refusal, roles as role_table};

/// Roles that take part in a session at least.
const ROLES_MIN: usize = 3;

pub(super) fn objections(state: &UnlinkedSession, event: &Event) -> Vec<Refusal> {
    use EventType as T;
    // Of what stands in the wrong place, or is somebody else's to record, nothing more is said.
    if let Err(refusal) = admit_at_all(state, event) {
        return refusal.into_iter().collect();
    }
    let found = match event.event_type {
        T::SessionInitialized => opening(event),
        T::ProposalReviewed => pairing::subject(state, event).map(|_: pairing::Pair<Subject>| ()),
        T::ToolIntentSigned => intent(state, event),
        T::ToolExecutionStarted => start(state, event),
        T::ToolExecutionCompleted | T::ToolExecutionFailed => {
            pairing::execution(state, event).map(|_| ())
        }
        T::ClaimIssued => claim(state, event),
        T::ClaimChallenged => pairing::challenged(state, event).map(|_| ()),
        T::FinalStatementSigned => return final_statement(state, event),
        _ => Ok(()),
    };
    found.err().into_iter().collect()
}

/// Rules 1 to 3. The error is empty where the same was told before.
fn admit_at_all(state: &UnlinkedSession, event: &Event) -> Result<(), Option<Refusal>> {
    use EventType as T;
    let found = event.event_type;
    match (state.events, found) {
        (0, T::SessionInitialized) => {}
        (0, _) => return Err(Some(Refusal::WrongFirstEvent { found })),
        (_, T::SessionInitialized) => return Err(Some(Refusal::BeganAlready { found })),
        _ => {}
    }
    role_table::admit(TraceKind::Session, event).map_err(Some)?;
    match found {
        T::VerificationRunStarted if state.run.is_some() => Err(Some(Refusal::AuditUnderWay)),
        T::VerificationRunStarted if !state.concluded && !state.over => {
            Err(Some(Refusal::NoFinalStatement))
        }
        T::VerificationRunCompleted if state.run.is_none() => Err(Some(if state.concluded {
            Refusal::NoAuditUnderWay
        } else {
            Refusal::NoFinalStatement
        })),
        T::VerificationRunStarted | T::VerificationRunCompleted => Ok(()),
        T::ArtifactRecorded if event.actor.role == Role::Auditor => {
            let may = !state.over || state.run.is_some() || redacts(event);
            if may { Ok(()) } else { Err(Some(Refusal::Ended { found })) }
        }
        _ if state.over => Err(Some(Refusal::Ended { found })),
        T::FinalStatementSigned if state.concluded => {
            Err(Some(Refusal::NotInThisState { found, state: "auditing" }))
        }
        // A final statement that came too early is one cause, however much follows it.
        _ if state.concluded => {
            let refusal = Refusal::NotInThisState { found, state: "auditing" };
            Err((!state.told_late).then_some(refusal))
        }
        _ => Ok(()),
    }
}

/// Whether the event says of every artifact that it lists that it was redacted.
fn redacts(event: &Event) -> bool {
    let redacted = |status: RedactionStatus| status != RedactionStatus::None;
    !event.artifacts.is_empty()
        && event.artifacts.iter().all(|artifact| redacted(artifact.redaction_status))
}

/// Rule 4.
fn opening(event: &Event) -> Result<(), Refusal> {
    for name in ["participants", "requested_roles"] {
        let found = roles(event, name).len();
        if (1..ROLES_MIN).contains(&found) {
            return Err(Refusal::TooFewRoles { found, wanted: ROLES_MIN });
        }
    }
    Ok(())
}

/// Rule 6.
fn intent(state: &UnlinkedSession, event: &Event) -> Result<(), Refusal> {
    let at = pairing::proposal(state, event)?.to;
    let Some(proposal) = state.proposals.get(&at) else { return Ok(()) };
    match proposal.decision {
        None => return Err(Refusal::ProposalUnreviewed { proposal: at }),
        Some(ProposalDecision::Rejected) => return Err(Refusal::ProposalRejected { proposal: at }),
        Some(ProposalDecision::Approved | ProposalDecision::Conditional) => {}
    }
    match proposal.unmet(&acknowledged(event)) {
        Some(condition) => {
            Err(Refusal::ConditionUnmet { proposal: at, condition: condition.clone() })
        }
        None => Ok(()),
    }
}

/// Rule 7.
fn start(state: &UnlinkedSession, event: &Event) -> Result<(), Refusal> {
    let at = pairing::intent(state, event)?.to;
    let Some(intent) = state.intents.get(&at) else { return Ok(()) };
    let proposal = intent.proposal.filter(|_| !intent.refused);
    if let Some((place, proposal)) =
        proposal.and_then(|place| state.proposals.get(&place).map(|found| (place, found)))
        && proposal.decision == Some(ProposalDecision::Rejected)
    {
        return Err(Refusal::ProposalRejected { proposal: place });
    }
    if let (Some(approved), Some(found)) = (intent.input, input(event))
        && approved != found
    {
        return Err(Refusal::OtherInput { intent: at, approved, found });
    }
    if intent.risk.needs_approval() && !intent.approved {
        return Err(Refusal::ApprovalMissing { intent: at, risk: intent.risk });
    }
    Ok(())
}

/// Rule 9.
fn claim(state: &UnlinkedSession, event: &Event) -> Result<(), Refusal> {
    let Some(id) = claim_id(event) else { return Err(Refusal::ClaimUnnamed) };
    let claim_id = || id.to_owned();
    if state.claims.contains_key(id) {
        return Err(Refusal::ClaimKnown { claim_id: claim_id() });
    }
    if !event.claims.iter().any(|listed| listed == id) {
        return Err(Refusal::ClaimUnlisted { claim_id: claim_id() });
    }
    let executions = pairing::executions(state, event)?;
    let completed = |place: &u64| state.ended.get(place).is_some_and(|ended| ended.completed);
    let about_failure = text(event, &["claim_kind"]) == Some("failure_analysis");
    if executions.stated && !about_failure && !executions.to.iter().any(completed) {
        return Err(Refusal::ClaimOnFailure { claim_id: claim_id() });
    }
    if let Some(earlier) = text(event, &["supersedes"])
        && state.claims.get(earlier).is_none_or(|claim| claim.superseded)
    {
        return Err(Refusal::NoSuchClaim { claim_id: earlier.to_owned() });
    }
    evidence(state, event, id)
}

fn evidence(state: &UnlinkedSession, event: &Event, claim_id: &str) -> Result<(), Refusal> {
    let member = "evidence_artifacts";
    let named = hashes(event, member);
    if named.is_empty() {
        let claim_id = claim_id.to_owned();
        return Err(Refusal::EvidenceTooThin { claim_id, found: 0, wanted: 1 });
    }
    for hash in named {
        let Some(listed) = event.artifacts.iter().find(|it| it.artifact_hash == hash) else {
            let event = event.event_type;
            return Err(Refusal::ArtifactUnlisted { event, member, artifact: hash });
        };
        let own = listed.producer_event_id == event.event_id;
        if !own && !met(state, &hash) {
            return Err(Refusal::EvidenceUnmet { claim_id: claim_id.to_owned(), artifact: hash });
        }
    }
    Ok(())
}

/// Whether an earlier event lists the artifact, or a tool put it out.
fn met(state: &UnlinkedSession, hash: &Hash) -> bool {
    state.artifacts.contains(hash) || state.undescribed.contains_key(hash)
}

/// Rules 8 and 11.
fn final_statement(state: &UnlinkedSession, event: &Event) -> Vec<Refusal> {
    let mut found = Vec::new();
    for &execution in &state.bare {
        if !state.undescribed.values().any(|&of| of == execution) {
            found.push(Refusal::ExecutionWithoutArtifact { execution });
        }
    }
    for &artifact in state.undescribed.keys() {
        let (event, member) = (EventType::ToolExecutionCompleted, "output_artifacts");
        found.push(Refusal::ArtifactUnlisted { event, member, artifact });
    }
    found.extend(consolidation(state, event).err());
    found
}

fn consolidation(state: &UnlinkedSession, event: &Event) -> Result<(), Refusal> {
    if state.claims.is_empty() {
        return Err(Refusal::NoClaims);
    }
    let ids = consolidated(event);
    let stands = |id: &str| state.claims.get(id).is_some_and(|claim| !claim.superseded);
    if let Some(unknown) = ids.iter().find(|id| !stands(id)) {
        return Err(Refusal::NoSuchClaim { claim_id: (*unknown).to_owned() });
    }
    let standing = state.claims.iter().filter(|(id, it)| !it.superseded && !retracts(event, id));
    match standing.count() {
        count if count > 0 && ids.is_empty() => Err(Refusal::OtherClaims { standing: count }),
        _ => Ok(()),
    }
}
