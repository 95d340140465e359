//! Every session of two proposals, two intents and two claims, with a crash anywhere.
//!
//! Breadth first over all states that commands can lead to. At each step a second opinion, written
//! from the specification over the plain events, says whether what was admitted may be so.
#![cfg(test)]

#[expect(dead_code, reason = "the other tests write whole sessions with it")]
mod session;
mod session_second_opinion;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use countersign_format::event::{Event, EventRef, EventType};
use countersign_format::hash::Hash;
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_protocol::session::{
    Claim, ClaimKind, ClaimStatus, Intent, Lifecycle, Outcome, Proposal, ProposalDecision,
    SessionCommand, SessionState,
};
use countersign_protocol::{Refusal, ReviewDecision, Stage, State as _};
use session::*;
use session_second_opinion::Facts;

/// Whether an event may follow: the rules, or the rules with a hole.
type Admit = fn(&SessionState, &Event) -> Result<(), Refusal>;

const PROPOSALS_MAX: usize = 2;
const INTENTS_MAX: usize = 2;
const CLAIMS_MAX: usize = 2;

/// One thing that somebody tries.
#[derive(Debug, Clone)]
enum Move {
    Open,
    Propose,
    Revise(usize),
    FallBack(usize),
    Judge(usize, ProposalDecision),
    Intend { proposal: usize, risk: RiskClass, input: usize, retry_of: Option<usize> },
    Acknowledge { proposal: usize, input: usize, retry_of: Option<usize> },
    Review(usize, Role, ReviewDecision),
    Start(usize),
    StartOther(usize),
    Complete(usize),
    Break(usize),
    Claim { execution: usize, supersedes: Option<usize> },
    Analyse { execution: usize },
    ClaimBarely { execution: usize },
    Challenge(usize),
    Conclude(Option<ClaimStatus>),
    StartAudit,
    CompleteAudit(VerificationStatus),
    Abort,
    Fail,
}

impl Move {
    const fn name(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Propose => "propose",
            Self::Revise(_) => "revise",
            Self::FallBack(_) => "fall-back",
            Self::Judge(_, ProposalDecision::Approved) => "approve-proposal",
            Self::Judge(_, ProposalDecision::Conditional) => "approve-conditionally",
            Self::Judge(_, ProposalDecision::Rejected) => "reject-proposal",
            Self::Intend { retry_of: None, risk: RiskClass::Low, .. } => "intend",
            Self::Intend { retry_of: None, .. } => "intend-risky",
            Self::Intend { .. } => "retry",
            Self::Acknowledge { .. } => "acknowledge",
            Self::Review(_, Role::Executor, _) => "approve-oneself",
            Self::Review(_, Role::Operator, _) => "answer",
            Self::Review(_, _, ReviewDecision::Approved) => "approve-intent",
            Self::Review(_, _, ReviewDecision::Blocked) => "block-intent",
            Self::Review(_, _, ReviewDecision::Asked) => "ask",
            Self::Start(_) => "start",
            Self::StartOther(_) => "start-other",
            Self::Complete(_) => "complete",
            Self::Break(_) => "break",
            Self::Claim { supersedes: None, .. } => "claim",
            Self::Claim { .. } => "supersede",
            Self::Analyse { .. } => "analyse",
            Self::ClaimBarely { .. } => "claim-barely",
            Self::Challenge(_) => "challenge",
            Self::Conclude(None) => "conclude",
            Self::Conclude(Some(_)) => "conclude-resolving",
            Self::StartAudit => "start-audit",
            Self::CompleteAudit(VerificationStatus::Fail) => "fail-audit",
            Self::CompleteAudit(_) => "pass-audit",
            Self::Abort => "abort",
            Self::Fail => "fail",
        }
    }
}

/// A session on its way, and what it can refer to.
#[derive(Debug, Clone, Default)]
struct Node {
    state: SessionState,
    facts: Facts,
    seq: u64,
    story: Option<Arc<Chapter>>,
    proposals: Vec<EventRef>,
    intents: Vec<(EventRef, usize)>,
    executions: Vec<EventRef>,
    claims: Vec<EventRef>,
}

/// The last event, and those before it.
#[derive(Debug)]
struct Chapter {
    event: Event,
    before: Option<Arc<Self>>,
}

fn input(number: usize) -> String {
    format!("input {number}")
}

fn known_hash(number: usize) -> String {
    Hash::of(input(number).as_bytes()).to_hex()
}

fn output(execution: usize) -> String {
    format!("output {execution}")
}

impl Node {
    fn events(&self) -> Vec<&Event> {
        let mut found = Vec::new();
        let mut at = self.story.as_ref();
        while let Some(chapter) = at {
            found.push(&chapter.event);
            at = chapter.before.as_ref();
        }
        found.reverse();
        found
    }

    /// Everything that can be tried here, whether it makes sense or not.
    fn moves(&self) -> Vec<Move> {
        use ProposalDecision as P;
        use ReviewDecision as R;
        let mut all = vec![Move::Open, Move::StartAudit, Move::Abort, Move::Fail];
        let statuses = [VerificationStatus::Pass, VerificationStatus::Fail];
        all.extend(statuses.map(Move::CompleteAudit));
        all.push(Move::Conclude(None));
        all.extend([ClaimStatus::Upheld, ClaimStatus::Retracted].map(Some).map(Move::Conclude));
        if self.proposals.len() < PROPOSALS_MAX {
            all.push(Move::Propose);
            all.extend((0..self.proposals.len()).map(Move::Revise));
            all.extend((0..self.executions.len()).map(Move::FallBack));
        }
        for proposal in 0..self.proposals.len() {
            let decisions = [P::Approved, P::Conditional, P::Rejected];
            all.extend(decisions.map(|decision| Move::Judge(proposal, decision)));
            if self.intents.len() < INTENTS_MAX {
                all.extend(self.intents_for(proposal));
            }
        }
        for intent in 0..self.intents.len() {
            let critic = [R::Approved, R::Blocked, R::Asked];
            all.extend(critic.map(|it| Move::Review(intent, Role::Critic, it)));
            all.extend(
                [R::Approved, R::Blocked].map(|it| Move::Review(intent, Role::Operator, it)),
            );
            all.push(Move::Review(intent, Role::Executor, R::Approved));
            all.extend([Move::Start(intent), Move::StartOther(intent)]);
        }
        for execution in 0..self.executions.len() {
            all.extend([Move::Complete(execution), Move::Break(execution)]);
            if self.claims.len() < CLAIMS_MAX {
                all.extend([Move::Analyse { execution }, Move::ClaimBarely { execution }]);
                let earlier = (0..self.claims.len()).map(Some).chain([None]);
                all.extend(earlier.map(|supersedes| Move::Claim { execution, supersedes }));
            }
        }
        all.extend((0..self.claims.len()).map(Move::Challenge));
        all
    }

    /// Harmless and risky ones; a harmless one acknowledges conditions only if there are any.
    fn intents_for(&self, proposal: usize) -> Vec<Move> {
        let mut all = Vec::new();
        let decision = self.state.proposals[&self.proposals[proposal].seq].decision;
        let retries = (0..self.executions.len()).map(|at| (Some(at), 0));
        let plain = (0..=self.intents.len()).map(|input| (None, input));
        for (retry_of, input) in retries.chain(plain) {
            for risk in [RiskClass::Low, RiskClass::Elevated] {
                all.push(Move::Intend { proposal, risk, input, retry_of });
            }
            if decision == Some(ProposalDecision::Conditional) {
                all.push(Move::Acknowledge { proposal, input, retry_of });
            }
        }
        all
    }

    fn command(&self, tried: &Move) -> SessionCommand {
        let executed = |execution: usize, number: u64| {
            claim(number, &self.executions[execution], &output(execution))
        };
        let next_claim = self.claims.len() as u64 + 1;
        match *tried {
            Move::Open => open(),
            Move::Propose => propose(proposal()),
            Move::Revise(earlier) => {
                propose(Proposal { revises: Some(self.proposals[earlier].clone()), ..proposal() })
            }
            Move::FallBack(failed) => propose(Proposal {
                fallback_for: Some(self.executions[failed].clone()),
                ..proposal()
            }),
            Move::Judge(proposal, decision) => judge(&self.proposals[proposal], decision),
            Move::Intend { proposal, risk, input: number, retry_of } => {
                let mut intent = intent(&self.proposals[proposal], risk, &input(number));
                intent.retry_of = retry_of.map(|execution| self.executions[execution].clone());
                if risk == RiskClass::Low {
                    intent.acknowledged_conditions.clear();
                }
                intend(intent)
            }
            Move::Acknowledge { proposal, input: number, retry_of } => intend(Intent {
                retry_of: retry_of.map(|execution| self.executions[execution].clone()),
                ..intent(&self.proposals[proposal], RiskClass::Low, &input(number))
            }),
            Move::Review(intent, by, decision) => review(by, &self.intents[intent].0, decision),
            Move::Start(intent) => start(&self.intents[intent].0, &input(self.intents[intent].1)),
            Move::StartOther(intent) => start(&self.intents[intent].0, "another input"),
            Move::Complete(execution) => {
                end(&self.executions[execution], Outcome::Completed, &output(execution))
            }
            Move::Break(execution) => {
                let broken = Outcome::Failed("it broke".to_owned());
                end(&self.executions[execution], broken, &output(execution))
            }
            Move::Claim { execution, supersedes } => issue(Claim {
                supersedes: supersedes.map(|claim| claim_id(claim as u64 + 1)),
                ..executed(execution, next_claim)
            }),
            Move::Analyse { execution } => issue(Claim {
                kind: ClaimKind::FailureAnalysis,
                evidence: vec![artifact("analysis")],
                ..executed(execution, next_claim)
            }),
            Move::ClaimBarely { execution } => {
                issue(Claim { evidence: Vec::new(), ..executed(execution, next_claim) })
            }
            Move::Challenge(claim) => challenge(&self.claims[claim], claim as u64 + 1),
            Move::Conclude(status) => {
                let challenged = self.state.claims.values().filter(|it| it.challenged_at.is_some());
                let number = |place: &EventRef| {
                    self.claims.iter().position(|it| it == place).unwrap() as u64 + 1
                };
                let standing = challenged.filter(|it| !it.superseded).map(|it| number(&it.at));
                let resolved = standing.filter_map(|it| status.map(|status| (it, status)));
                conclude(&resolved.collect::<Vec<_>>())
            }
            Move::StartAudit => start_audit(),
            Move::CompleteAudit(status) => complete_audit(status),
            Move::Abort => abort(),
            Move::Fail => fail(),
        }
    }

    /// The session after `event`, which was admitted; or what the specification says against it.
    fn after(&self, event: Event) -> Result<Self, String> {
        let mut next = self.clone();
        next.state.apply(&event);
        next.facts.take(&event)?;
        if next.facts.lifecycle() != next.state.lifecycle().as_str() {
            let (facts, state) = (next.facts.lifecycle(), next.state.lifecycle().as_str());
            return Err(format!("the session is {facts}, not {state}"));
        }
        next.seq += 1;
        let place = EventRef { event_id: event.event_id.clone(), seq: self.seq };
        match event.event_type {
            EventType::ProposalCreated => next.proposals.push(place),
            EventType::ToolIntentSigned => {
                let hash = event.payload["normalized_input_hash"].as_str().unwrap();
                let number = (0..=INTENTS_MAX).find(|&number| known_hash(number) == hash);
                next.intents.push((place, number.unwrap()));
            }
            EventType::ToolExecutionStarted => next.executions.push(place),
            EventType::ClaimIssued => next.claims.push(place),
            _ => {}
        }
        next.story = Some(Arc::new(Chapter { event, before: self.story.clone() }));
        Ok(next)
    }

    /// The recorder dies. Who comes after it knows the events alone, and records of every execution
    /// that was under way that nobody knows how it ended.
    fn crash(&self, admit: Admit) -> Result<Option<Self>, String> {
        let open: Vec<EventRef> = self
            .executions
            .iter()
            .filter(|place| self.state.executions.contains_key(&place.seq))
            .cloned()
            .collect();
        if open.is_empty() || self.state.lifecycle().is_terminal() {
            return Ok(None);
        }
        let mut state = SessionState::default();
        self.events().into_iter().for_each(|event| state.apply(event));
        if state != self.state {
            return Err("what was known is not what the events come to".to_owned());
        }
        let mut node = Self { state, ..self.clone() };
        for execution in open {
            let event = decided(&node.state, node.seq, lose(&execution)).unwrap();
            admit(&node.state, &event)
                .map_err(|refusal| format!("an outcome cannot be called unknown: {refusal}"))?;
            node = node.after(event)?;
        }
        Ok(Some(node))
    }

    /// Two sessions with the same key go on alike. Things of one sort are told apart by their order,
    /// since the rules compare places within a sort alone. After the final statement it matters how
    /// many things there are to refer to; what is left of them does not.
    fn key(&self) -> Vec<u8> {
        let SessionState {
            begun,
            // The same in all.
            rules: _,
            // Grows with every action, and decides nothing.
            receipts: _,
            proposals,
            approved_once,
            intents,
            executions,
            ended_executions,
            unknown,
            starts,
            // Which outputs are known follows from how the executions ended; whether a claim is
            // disputed decides about no event.
            artifacts: _,
            last_artifact_at: _,
            disputed: _,
            claims,
            stage,
            ended,
        } = &self.state;
        let mut key = vec![u8::from(*begun), u8::from(*approved_once)];
        key.extend([
            ended.map_or(9, |it| it as u8),
            match stage {
                Stage::Open => 0,
                Stage::Concluded => 1,
                Stage::Auditing(_) => 2,
                Stage::Ended => 3,
            },
        ]);
        key.extend(self.facts.key());
        if self.state.lifecycle() >= Lifecycle::Auditing {
            let sorts = [self.proposals.len(), intents.len(), executions.len(), claims.len()];
            key.extend(sorts.map(|count| count as u8));
            return key;
        }
        let rank = |places: &[EventRef], seq: u64| {
            places.iter().position(|place| place.seq == seq).map_or(255, |at| at as u8)
        };
        key.push(*starts as u8);
        for it in proposals.values() {
            key.extend([1, it.decision.map_or(9, |it| it as u8), it.conditions.len() as u8]);
        }
        for (seq, it) in intents {
            let at = self.intents.iter().position(|(place, _)| place.seq == *seq).unwrap() as u8;
            key.extend([2, at, rank(&self.proposals, it.proposal), it.risk as u8]);
            key.extend([it.action.input.as_bytes()[0], it.acknowledged.len() as u8]);
            key.push(it.retry_of.map_or(254, |of| rank(&self.executions, of)));
            key.extend(it.review.map_or([9, 9], |(it, by)| [it as u8, by as u8]));
            key.extend([it.asked, it.deadline.is_some()].map(u8::from));
        }
        for (seq, it) in executions {
            let at = rank(&self.executions, *seq);
            let input = it.action.as_ref().unwrap().input.as_bytes()[0];
            key.extend([3, at, rank(&self.proposals, it.proposal), input]);
        }
        for (seq, it) in ended_executions {
            let at = rank(&self.executions, *seq);
            key.extend([4, at, rank(&self.proposals, it.proposal), u8::from(it.completed)]);
        }
        for (seq, it) in unknown {
            key.extend([5, rank(&self.executions, *seq), it.input.as_bytes()[0]]);
        }
        for it in claims.values() {
            let challenged = it.challenged_at.is_some() && !it.superseded;
            let at = rank(&self.claims, it.at.seq);
            key.extend([6, at, u8::from(it.superseded), u8::from(challenged)]);
        }
        key
    }
}

/// How much was seen.
#[derive(Debug, Default)]
struct Seen {
    states: usize,
    transitions: usize,
    refusals: usize,
    crashes: usize,
    lifecycles: BTreeSet<Lifecycle>,
    /// What was tried, and how often it was recorded.
    moves: BTreeMap<&'static str, usize>,
}

/// Explores everything, or stops at the first thing that the specification forbids.
fn explore(admit: Admit) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut known = BTreeSet::from([Node::default().key()]);
    let mut waiting = VecDeque::from([Node::default()]);
    while let Some(node) = waiting.pop_front() {
        seen.states += 1;
        seen.lifecycles.insert(node.state.lifecycle());
        let before = node.state.clone();
        let forbidden = |tried: &dyn fmt::Debug, why: String| {
            let events: Vec<_> =
                node.events().iter().map(|event| event.event_type.as_str()).collect();
            format!("{why}: {tried:?} after {events:?}")
        };
        let mut reached = Vec::new();
        for tried in node.moves() {
            let recorded = seen.moves.entry(tried.name()).or_default();
            let offered = decided(&node.state, node.seq, node.command(&tried));
            match offered.and_then(|event| admit(&node.state, &event).map(|()| event)) {
                Ok(event) => {
                    *recorded += 1;
                    reached.push(node.after(event).map_err(|why| forbidden(&tried, why))?);
                }
                Err(_) => seen.refusals += 1,
            }
        }
        assert_eq!(node.state, before, "a refusal changed something");
        if let Some(next) = node.crash(admit).map_err(|why| forbidden(&"crash", why))? {
            seen.crashes += 1;
            reached.push(next);
        }
        seen.transitions += reached.len();
        waiting.extend(reached.into_iter().filter(|next| known.insert(next.key())));
    }
    Ok(seen)
}

#[test]
fn nothing_that_the_specification_forbids_can_be_recorded() {
    let seen = explore(SessionState::admit).unwrap();
    println!("{seen:#?}");
    assert_eq!(seen.lifecycles, Lifecycle::ALL.into_iter().collect());
    let never: Vec<_> = seen.moves.iter().filter(|(_, recorded)| **recorded == 0).collect();
    assert_eq!(never, [(&"approve-oneself", &0), (&"claim-barely", &0), (&"start-other", &0)]);
    // An exploration that became smaller proves less than it did.
    assert!(seen.states >= 93_000, "{} states", seen.states);
    assert!(seen.transitions >= 1_370_000, "{} transitions", seen.transitions);
    assert!(seen.refusals >= 1_900_000, "{} refusals", seen.refusals);
    assert!(seen.crashes >= 6_600, "{} crashes", seen.crashes);
}

/// The rules without those that answer so.
macro_rules! without {
    ($refusal:pat) => {
        |state, event| match state.admit(event) {
            Err($refusal) => Ok(()),
            answer => answer,
        }
    };
}

/// The broken twins: with any of these rules gone, the second opinion finds what it was for.
#[test]
fn a_rule_that_is_missing_is_noticed() {
    let table: [(Admit, &str); 20] = [
        (without!(Refusal::BeganAlready { .. }), "a session begins once"),
        (without!(Refusal::NotForThisRole { .. }), "only designated roles emit each event type"),
        (without!(Refusal::ProposalRejected { .. }), "rejected proposals cannot proceed"),
        (
            without!(Refusal::ProposalUnreviewed { .. }),
            "nothing is done under an unreviewed proposal",
        ),
        (
            without!(Refusal::ConditionUnmet { .. }),
            "only an intent that acknowledges all conditions is authorised",
        ),
        (without!(Refusal::NotFailed { .. }), "a fallback follows a failure"),
        (without!(Refusal::ApprovalMissing { .. }), "risky tools require approval"),
        (without!(Refusal::IntentUndecided { .. }), "once a person was asked, a person answers"),
        (without!(Refusal::OtherInput { .. }), "what runs was approved"),
        (
            without!(Refusal::OutcomeUnknown { .. }),
            "what ended unknown is repeated if a person says so",
        ),
        (
            without!(Refusal::RetryUnnamed { .. }),
            "what ended unknown is repeated if a person says so",
        ),
        (
            without!(Refusal::NoSuchReference { event: EventType::ToolExecutionStarted, .. }),
            "a blocked intent never starts",
        ),
        (
            |state, event| match state.admit(event) {
                Err(Refusal::NoSuchReference {
                    event: EventType::ToolExecutionStarted, ..
                }) if state.starts > 0 => Ok(()),
                answer => answer,
            },
            "an intent starts once",
        ),
        (without!(Refusal::NoSuchReference { wanted: "execution", .. }), "an execution ends once"),
        (
            without!(Refusal::NoSuchReference { event: EventType::ClaimIssued, .. }),
            "the end of an execution precedes the related claim",
        ),
        (without!(Refusal::EvidenceTooThin { .. }), "claims require artifact references"),
        (without!(Refusal::EvidenceUnmet { .. }), "evidence was produced at or before the claim"),
        (without!(Refusal::ExecutionsOpen { .. }), "nothing runs after the final statement"),
        (without!(Refusal::ChallengeOpen { .. }), "a challenge is answered"),
        (without!(Refusal::Ended { .. }), "after the end only audits follow"),
    ];
    for (admit, words) in table {
        let found = explore(admit).map(|seen| seen.states).unwrap_err();
        assert!(found.starts_with(words), "{found}, not: {words}");
    }
}

/// The same for the order of the whole, where the first thing to go wrong is whatever comes first.
#[test]
fn a_lifecycle_that_is_missing_is_noticed() {
    let table: [(Admit, &str); 4] = [
        (without!(Refusal::NoFinalStatement), "an audit follows the statement"),
        (without!(Refusal::AuditUnderWay), "one audit at a time"),
        (without!(Refusal::NoClaims), "auditing comes after at least one claim"),
        (
            without!(Refusal::NotInThisState { state: "auditing", .. }),
            "the final statement is the last role event before the audit ends",
        ),
    ];
    for (admit, words) in table {
        let found = explore(admit).map(|seen| seen.states).unwrap_err();
        assert!(found.starts_with(words), "{found}, not: {words}");
    }
}
