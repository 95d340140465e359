//! Sessions without files and keys: events as a recorder would seal them, but for the signature.

use countersign_format::event::artifact::storage_uri;
use countersign_format::event::{
    Actor, ArtifactDescriptor, Draft, Event, EventRef, RedactionStatus, SCHEMA_VERSION,
};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::receipt::ActionType;
use countersign_format::report::VerificationStatus;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::session::{
    Claim, ClaimKind, ClaimStatus, Condition, Confidence, ExecutionEnd, FinalStatement, Intent,
    Outcome, Proposal, ProposalDecision, Resolution, SessionCommand, SessionOpening, SessionPolicy,
    SessionState,
};
use countersign_protocol::{By, Context, LogPin, Refusal, ReviewDecision, State as _};
use serde_json::{Map, Value, json};

/// 2026-02-03T04:05:06.000Z; every event comes a second after the one before.
const START: i64 = 1_770_091_506_000;

/// When the event at `seq` is recorded.
pub(crate) fn at(seq: u64) -> Timestamp {
    Timestamp::from_millis(START + 1_000 * i64::try_from(seq).unwrap())
}

/// What may be known when the event at `seq` is decided.
pub(crate) fn context(seq: u64) -> Context {
    let next_id = Ulid::from_parts(at(0), u128::from(seq) + 1);
    Context { now: at(seq), raw: at(seq), next_id, next_seq: seq }
}

/// The event that `draft` becomes at `seq`.
pub(crate) fn event(seq: u64, role: Role, draft: Draft) -> Event {
    let context = context(seq);
    Event {
        actor: Actor {
            agent_id: role.as_str().to_owned(),
            key_id: format!("key-of-{role}"),
            role,
            unknown: Map::new(),
        },
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
        seq: Some(seq),
        signature: Value::Null,
        trace_id: Ulid::from_parts(at(0), 1).to_string(),
        unknown: Map::new(),
    }
}

/// The event that `command` brings at `seq`, whether it may follow or not.
pub(crate) fn decided(
    state: &SessionState,
    seq: u64,
    command: SessionCommand,
) -> Result<Event, Refusal> {
    let act = state.decide(command, &context(seq))?.remove(0);
    let By::Role(role) = act.by else { panic!("the root signs nothing in a session") };
    Ok(event(seq, role, act.draft))
}

/// A session that is being written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    pub(crate) state: SessionState,
    pub(crate) events: Vec<Event>,
}

impl Session {
    pub(crate) fn seq(&self) -> u64 {
        self.events.len() as u64
    }

    /// The event that `command` would bring.
    pub(crate) fn offer(&self, command: SessionCommand) -> Result<Event, Refusal> {
        decided(&self.state, self.seq(), command)
    }

    /// Records what `command` brings, if that may follow.
    pub(crate) fn submit(&mut self, command: SessionCommand) -> Result<EventRef, Refusal> {
        let event = self.offer(command)?;
        self.state.admit(&event)?;
        Ok(self.take(event))
    }

    /// As [`Session::submit`], of something that may follow.
    pub(crate) fn run(&mut self, command: SessionCommand) -> EventRef {
        self.submit(command).unwrap()
    }

    /// Takes an event in, allowed or not.
    pub(crate) fn take(&mut self, event: Event) -> EventRef {
        self.state.apply(&event);
        let place = EventRef { event_id: event.event_id.clone(), seq: self.seq() };
        self.events.push(event);
        place
    }
}

/// The descriptor of `text`, which the event at hand brings.
pub(crate) fn artifact(text: &str) -> ArtifactDescriptor {
    let artifact_hash = Hash::of(text.as_bytes());
    ArtifactDescriptor {
        artifact_hash,
        hash_algorithm: "sha256".to_owned(),
        media_type: "text/plain".to_owned(),
        encoding: "utf-8".to_owned(),
        byte_size: text.len() as u64,
        created_at: at(0),
        producer_event_id: String::new(),
        storage_uri: storage_uri(&artifact_hash),
        redaction_status: RedactionStatus::None,
        unknown: Map::new(),
    }
}

/// The descriptor of `text` as an earlier event brought it.
pub(crate) fn known_artifact(text: &str) -> ArtifactDescriptor {
    ArtifactDescriptor { producer_event_id: context(0).next_id.to_string(), ..artifact(text) }
}

pub(crate) const TOOL: &str = "exec";
pub(crate) const CONDITION: &str = "dry-run";

pub(crate) fn opening() -> SessionOpening {
    SessionOpening {
        log: LogPin {
            origin: "countersign/test".to_owned(),
            size: 8,
            head: Hash::of(b"head"),
            keys_head: Hash::of(b"keys"),
        },
        task_id: "task".to_owned(),
        objective: "to see".to_owned(),
        constraints: Vec::new(),
        policy_profile: "default".to_owned(),
        requested_roles: vec![Role::Planner, Role::Executor, Role::Critic],
        participants: Vec::new(),
        policy: SessionPolicy {
            fallbacks: true,
            min_evidence: 1,
            revisions: 1,
            question_seconds: 60,
        },
        limits: json!({}),
        task: None,
        inputs: Vec::new(),
        redactions: Vec::new(),
        links: None,
        software: "test".to_owned(),
    }
}

pub(crate) fn open() -> SessionCommand {
    SessionCommand::Open(Box::new(opening()))
}

pub(crate) fn proposal() -> Proposal {
    Proposal {
        proposal_id: None,
        objective: "to see".to_owned(),
        assumptions: Vec::new(),
        required_tools: vec![TOOL.to_owned()],
        expected_evidence: vec!["what it printed".to_owned()],
        revises: None,
        fallback_for: None,
        artifacts: Vec::new(),
    }
}

pub(crate) fn propose(proposal: Proposal) -> SessionCommand {
    SessionCommand::Propose(Box::new(proposal))
}

/// The critic's word on a proposal; a conditional one has one condition.
pub(crate) fn judge(subject: &EventRef, decision: ProposalDecision) -> SessionCommand {
    let condition = Condition { id: CONDITION.to_owned(), text: "first without effect".to_owned() };
    let conditional = decision == ProposalDecision::Conditional;
    SessionCommand::ReviewProposal {
        subject: subject.clone(),
        decision,
        conditions: conditional.then_some(condition).into_iter().collect(),
        rationale: "so".to_owned(),
        artifacts: Vec::new(),
    }
}

pub(crate) fn intent(proposal: &EventRef, risk: RiskClass, input: &str) -> Intent {
    Intent {
        proposal: proposal.clone(),
        tool_name: TOOL.to_owned(),
        action_type: ActionType::Command,
        paths: Vec::new(),
        input: artifact(input),
        input_form: "canonical".to_owned(),
        risk,
        justification: "as proposed".to_owned(),
        action_index: 0,
        acknowledged_conditions: vec![CONDITION.to_owned()],
        retry_of: None,
        idempotent: false,
        input_binding: None,
        redactions: Vec::new(),
        artifacts: Vec::new(),
    }
}

pub(crate) fn intend(intent: Intent) -> SessionCommand {
    SessionCommand::Intend(Box::new(intent))
}

pub(crate) fn review(by: Role, subject: &EventRef, decision: ReviewDecision) -> SessionCommand {
    SessionCommand::ReviewIntent {
        by,
        subject: subject.clone(),
        decision,
        reasons: vec!["so".to_owned()],
        gate: None,
        deadline: None,
        channel: None,
        artifacts: Vec::new(),
    }
}

pub(crate) fn start(intent: &EventRef, input: &str) -> SessionCommand {
    SessionCommand::Start {
        intent: intent.clone(),
        input: Hash::of(input.as_bytes()),
        isolation: Value::Null,
    }
}

/// A tool ends, having printed `output`.
pub(crate) fn end(execution: &EventRef, outcome: Outcome, output: &str) -> SessionCommand {
    SessionCommand::End(Box::new(ExecutionEnd {
        execution: execution.clone(),
        exit_status: (outcome == Outcome::Completed).then_some(0),
        outcome,
        stdout: Some(artifact(output)),
        stderr: None,
        dropped_bytes: 0,
        elapsed_ms: Some(1),
        redactions: Vec::new(),
        given_up: false,
    }))
}

/// What recovery records of an execution that was under way.
pub(crate) fn lose(execution: &EventRef) -> SessionCommand {
    SessionCommand::End(Box::new(ExecutionEnd {
        execution: execution.clone(),
        outcome: Outcome::Unknown("the recorder died".to_owned()),
        exit_status: None,
        stdout: None,
        stderr: None,
        dropped_bytes: 0,
        elapsed_ms: None,
        redactions: Vec::new(),
        given_up: false,
    }))
}

/// A claim that rests on one execution and what it printed.
pub(crate) fn claim(number: u64, execution: &EventRef, evidence: &str) -> Claim {
    Claim {
        claim_id: Some(claim_id(number)),
        text: "it was seen".to_owned(),
        confidence: Confidence::High,
        kind: ClaimKind::Result,
        executions: vec![execution.clone()],
        evidence: vec![known_artifact(evidence)],
        supersedes: None,
        artifacts: Vec::new(),
    }
}

pub(crate) fn issue(claim: Claim) -> SessionCommand {
    SessionCommand::Claim(Box::new(claim))
}

pub(crate) fn claim_id(number: u64) -> String {
    format!("claim_{}", Ulid::from_parts(at(0), u128::from(number)))
}

pub(crate) fn challenge(claim: &EventRef, number: u64) -> SessionCommand {
    SessionCommand::Challenge {
        claim: claim.clone(),
        claim_id: claim_id(number),
        reason: "weak".to_owned(),
        artifacts: Vec::new(),
    }
}

pub(crate) fn conclude(resolutions: &[(u64, ClaimStatus)]) -> SessionCommand {
    let resolutions = resolutions
        .iter()
        .map(|&(number, status)| Resolution { claim_id: claim_id(number), status })
        .collect();
    SessionCommand::Conclude(Box::new(FinalStatement {
        verdict: "seen".to_owned(),
        achieved: true,
        resolutions,
        artifacts: Vec::new(),
    }))
}

pub(crate) fn start_audit() -> SessionCommand {
    SessionCommand::StartAudit { profile: "default".to_owned() }
}

pub(crate) fn complete_audit(status: VerificationStatus) -> SessionCommand {
    SessionCommand::CompleteAudit {
        status,
        report_id: Ulid::from_parts(at(0), 77).to_string(),
        report: Box::new(artifact("report")),
        artifacts: Vec::new(),
    }
}

pub(crate) fn abort() -> SessionCommand {
    SessionCommand::Abort { reason: "enough".to_owned() }
}

pub(crate) fn fail() -> SessionCommand {
    SessionCommand::Fail {
        reason: "it cannot go on".to_owned(),
        failure_code: "agent-failed".to_owned(),
        role: None,
        artifacts: Vec::new(),
    }
}
