//! What can be tried in a session of two proposals, two intents and two claims.

use countersign_format::event::{Actor, Draft, Event, EventRef, SCHEMA_VERSION};
use countersign_format::hash::Hash;
use countersign_format::json::{Map, Value};
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_protocol::session::{
    Claim, ClaimKind, ClaimStatus, Condition, ExecutionEnd, FinalStatement, Intent, Outcome,
    ProposalDecision, Resolution, SessionCommand, SessionState,
};
use countersign_protocol::{By, Context, ReviewDecision, State as _};
use countersign_testkit::session::{claim, completed, descriptor, intent, proposal, statement};

const PROPOSALS_MAX: usize = 2;
pub(crate) const INTENTS_MAX: usize = 2;
const CLAIMS_MAX: usize = 2;
pub(crate) const ANALYSIS: &[u8] = b"what went wrong";

/// One thing that somebody tries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Move {
    Propose,
    Usurp,
    Judge(usize, ProposalDecision),
    Intend { proposal: usize, risk: RiskClass, retry_of: Option<usize> },
    Review(usize, Role, ReviewDecision),
    Start(usize),
    Complete(usize),
    Break(usize),
    Crash(usize),
    Claim(usize),
    Analyse(usize),
    ClaimBarely(usize),
    Supersede(usize, usize),
    Challenge(usize),
    Conclude(Option<ClaimStatus>),
    StartAudit,
    CompleteAudit,
    Abort,
    Fail,
}

impl Move {
    /// Its name, without what it is about.
    pub(crate) fn name(self) -> String {
        let kind = match self {
            Self::Judge(_, decision) => format!("judge {decision:?}"),
            Self::Intend { retry_of: Some(_), .. } => "retry".to_owned(),
            Self::Intend { risk, .. } => format!("intend {risk:?}"),
            Self::Review(_, by, decision) => format!("review {by} {decision:?}"),
            Self::Conclude(status) => format!("conclude {status:?}"),
            other => format!("{other:?}"),
        };
        let end = kind.find('(').filter(|_| !kind.starts_with("conclude"));
        kind[..end.unwrap_or(kind.len())].to_lowercase()
    }
}

/// What a session can refer to, with the number of the input where there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    pub(crate) proposals: Vec<EventRef>,
    pub(crate) intents: Vec<(EventRef, usize)>,
    pub(crate) executions: Vec<(EventRef, usize)>,
    pub(crate) claims: Vec<EventRef>,
}

pub(crate) fn input(number: usize) -> String {
    format!("input {number}")
}

pub(crate) fn output(execution: usize) -> String {
    format!("output {execution}")
}

pub(crate) fn claim_id(claim: &EventRef) -> String {
    format!("claim_{}", claim.event_id)
}

impl Places {
    /// Everything that can be tried, whether it makes sense or not.
    pub(crate) fn moves(&self) -> Vec<Move> {
        use ProposalDecision as P;
        use ReviewDecision as R;
        let mut all = vec![Move::Usurp, Move::Abort, Move::Fail];
        all.extend([Move::StartAudit, Move::CompleteAudit]);
        let resolutions = [None, Some(ClaimStatus::Upheld), Some(ClaimStatus::Retracted)];
        all.extend(resolutions.map(Move::Conclude));
        if self.proposals.len() < PROPOSALS_MAX {
            all.push(Move::Propose);
        }
        for proposal in 0..self.proposals.len() {
            all.extend(
                [P::Approved, P::Conditional, P::Rejected].map(|it| Move::Judge(proposal, it)),
            );
            if self.intents.len() < INTENTS_MAX {
                for retry_of in (0..self.executions.len()).map(Some).chain([None]) {
                    let risks = [RiskClass::Low, RiskClass::Elevated];
                    all.extend(risks.map(|risk| Move::Intend { proposal, risk, retry_of }));
                }
            }
        }
        for intent in 0..self.intents.len() {
            let critic = [R::Approved, R::Blocked, R::Asked].map(|it| (Role::Critic, it));
            let operator = [R::Approved, R::Blocked].map(|it| (Role::Operator, it));
            let reviews = critic.into_iter().chain(operator).chain([(Role::Executor, R::Approved)]);
            all.extend(reviews.map(|(by, it)| Move::Review(intent, by, it)));
            all.push(Move::Start(intent));
        }
        for execution in 0..self.executions.len() {
            all.extend([Move::Complete, Move::Break, Move::Crash].map(|end| end(execution)));
            if self.claims.len() < CLAIMS_MAX {
                all.extend([Move::Claim, Move::Analyse, Move::ClaimBarely].map(|it| it(execution)));
                all.extend((0..self.claims.len()).map(|claim| Move::Supersede(execution, claim)));
            }
        }
        all.extend((0..self.claims.len()).map(Move::Challenge));
        all
    }

    pub(crate) fn command(&self, state: &SessionState, tried: Move) -> SessionCommand {
        match tried {
            Move::Propose | Move::Usurp => SessionCommand::Propose(Box::new(proposal())),
            Move::Judge(proposal, decision) => {
                let dry = Condition { id: "dry-run".to_owned(), text: "without effect".to_owned() };
                let conditional = decision == ProposalDecision::Conditional;
                SessionCommand::ReviewProposal {
                    subject: self.proposals[proposal].clone(),
                    decision,
                    conditions: conditional.then_some(dry).into_iter().collect(),
                    rationale: "so".to_owned(),
                    artifacts: Vec::new(),
                }
            }
            Move::Intend { proposal, risk, retry_of } => {
                self.intend(state, proposal, risk, retry_of)
            }
            Move::Review(intent, by, decision) => SessionCommand::ReviewIntent {
                by,
                subject: self.intents[intent].0.clone(),
                decision,
                reasons: vec!["so".to_owned()],
                gate: None,
                deadline: None,
                channel: None,
                artifacts: Vec::new(),
            },
            Move::Start(intent) => SessionCommand::Start {
                intent: self.intents[intent].0.clone(),
                input: Hash::of(input(self.intents[intent].1).as_bytes()),
                isolation: Value::Null,
            },
            Move::Complete(execution) => self.end(execution, Outcome::Completed),
            Move::Break(execution) => self.end(execution, Outcome::Failed("it broke".to_owned())),
            Move::Crash(execution) => self.end(execution, Outcome::Unknown("it died".to_owned())),
            Move::Claim(execution)
            | Move::Analyse(execution)
            | Move::ClaimBarely(execution)
            | Move::Supersede(execution, _) => self.claim(tried, execution),
            Move::Challenge(claim) => SessionCommand::Challenge {
                claim: self.claims[claim].clone(),
                claim_id: claim_id(&self.claims[claim]),
                reason: "weak".to_owned(),
                artifacts: Vec::new(),
            },
            Move::Conclude(status) => conclude(state, status),
            Move::StartAudit => SessionCommand::StartAudit { profile: "default".to_owned() },
            Move::CompleteAudit => SessionCommand::CompleteAudit {
                status: VerificationStatus::Pass,
                report_id: String::new(),
                report: Box::new(descriptor(b"report")),
                artifacts: Vec::new(),
            },
            Move::Abort => SessionCommand::Abort { reason: "enough".to_owned() },
            Move::Fail => SessionCommand::Fail {
                reason: "it cannot go on".to_owned(),
                failure_code: "agent-failed".to_owned(),
                role: None,
                artifacts: Vec::new(),
            },
        }
    }

    /// Acknowledges the conditions that are known by now. What repeats has the input of the first.
    fn intend(
        &self,
        state: &SessionState,
        proposal: usize,
        risk: RiskClass,
        retry_of: Option<usize>,
    ) -> SessionCommand {
        let proposal = &self.proposals[proposal];
        let conditions = &state.proposals[&proposal.seq].conditions;
        SessionCommand::Intend(Box::new(Intent {
            acknowledged_conditions: conditions.iter().cloned().collect(),
            retry_of: retry_of.map(|execution| self.executions[execution].0.clone()),
            ..intent(proposal, risk, &input(self.next_input(retry_of)))
        }))
    }

    fn next_input(&self, retry_of: Option<usize>) -> usize {
        retry_of.map_or(self.intents.len(), |execution| self.executions[execution].1)
    }

    fn end(&self, execution: usize, outcome: Outcome) -> SessionCommand {
        let well = completed(&self.executions[execution].0, &output(execution));
        SessionCommand::End(Box::new(match outcome {
            Outcome::Completed => well,
            Outcome::Failed(_) => ExecutionEnd { outcome, exit_status: Some(1), ..well },
            Outcome::Unknown(_) => {
                ExecutionEnd { outcome, exit_status: None, stdout: None, elapsed_ms: None, ..well }
            }
        }))
    }

    fn claim(&self, tried: Move, execution: usize) -> SessionCommand {
        let plain = claim(&self.executions[execution].0, &output(execution));
        SessionCommand::Claim(Box::new(match tried {
            Move::Analyse(_) => Claim {
                kind: ClaimKind::FailureAnalysis,
                evidence: vec![descriptor(ANALYSIS)],
                ..plain
            },
            Move::ClaimBarely(_) => Claim { evidence: Vec::new(), ..plain },
            Move::Supersede(_, earlier) => {
                Claim { supersedes: Some(claim_id(&self.claims[earlier])), ..plain }
            }
            _ => plain,
        }))
    }

    /// Takes in that `tried` became the event at `place`.
    pub(crate) fn note(&mut self, tried: Move, place: EventRef) {
        match tried {
            Move::Propose => self.proposals.push(place),
            Move::Intend { retry_of, .. } => self.intents.push((place, self.next_input(retry_of))),
            Move::Start(intent) => self.executions.push((place, self.intents[intent].1)),
            Move::Claim(_) | Move::Analyse(_) | Move::Supersede(..) => self.claims.push(place),
            _ => {}
        }
    }
}

/// Every challenge that stands is answered alike, or none is.
fn conclude(state: &SessionState, status: Option<ClaimStatus>) -> SessionCommand {
    let standing = state.standing_claims().into_iter();
    let challenged = standing.filter(|(_, claim)| claim.challenged_at.is_some());
    let resolutions = challenged
        .filter_map(|(id, _)| Some(Resolution { claim_id: id.clone(), status: status? }))
        .collect();
    SessionCommand::Conclude(Box::new(FinalStatement { resolutions, ..statement() }))
}

/// The event that `tried` brings in `context`, but for hashes and signature; `None` if there is
/// nothing yet that it could be about.
pub(crate) fn offer(
    state: &SessionState,
    places: &Places,
    tried: Move,
    context: &Context,
) -> Option<Event> {
    let act = state.decide(places.command(state, tried), context).ok()?.remove(0);
    let By::Role(role) = act.by else { panic!("the root signs nothing in a session") };
    let role = if matches!(tried, Move::Usurp) { Role::Executor } else { role };
    Some(bare(role, act.draft, context))
}

fn bare(role: Role, draft: Draft, context: &Context) -> Event {
    let agent_id = role.as_str().to_owned();
    Event {
        actor: Actor { key_id: agent_id.clone(), agent_id, role, unknown: Map::new() },
        artifacts: draft.artifacts,
        claims: draft.claims,
        created_at: context.now,
        event_hash: Hash::GENESIS,
        event_id: context.next_id.to_string(),
        event_type: draft.event_type,
        payload: draft.payload,
        payload_hash: Hash::GENESIS,
        payload_type: draft.event_type.as_str().to_owned(),
        prev_event_hash: Hash::GENESIS,
        raw_clock: None,
        schema_version: SCHEMA_VERSION.to_owned(),
        seq: Some(context.next_seq),
        signature: Value::Null,
        trace_id: String::new(),
        unknown: Map::new(),
    }
}
