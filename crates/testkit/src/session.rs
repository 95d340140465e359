//! A whole session in memory: its log, its events, its artifacts.
//!
//! Written by the rules, or against them where a test says so; always with real keys. Nothing of the
//! recorder takes part, so that what a verifier finds is found in the bytes alone.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::path::Path;

use countersign_format::event::artifact::storage_uri;
use countersign_format::event::{
    Actor, ArtifactDescriptor, Draft, Event, EventRef, RedactionStatus, SCHEMA_VERSION, Sealer,
    TraceKind,
};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json::{self, Map, Value};
use countersign_format::key::{AgentIdentity, KEY_ALGORITHM, KeyStatus, SecretKey};
use countersign_format::note::origin;
use countersign_format::receipt::ActionType;
use countersign_format::report::VerificationReport;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::chain::Chain;
use countersign_protocol::log::{Extent, LogCommand, LogState};
use countersign_protocol::session::{
    Claim, ClaimKind, Confidence, ExecutionEnd, FinalStatement, Intent, Outcome, Proposal,
    ProposalDecision, SessionCommand, SessionOpening, SessionPolicy, SessionState,
};
use countersign_protocol::{By, Context, LogPin, State};
use countersign_verify::{Options, Profile, Source, StoredArtifact, verify};

use crate::home::options;

/// 2026-02-03T04:05:06.000Z; every event comes a second after the one before.
const START: i64 = 1_770_091_506_000;
const ROOT: u8 = 1;

/// Who holds a key: the agent, the byte from which its key is made, and the roles that it plays.
pub type Player = (&'static str, u8, &'static [Role]);

/// Every role is played by an agent of its own.
pub const SEPARATE: [Player; 6] = [
    ("recorder", 2, &[Role::Recorder]),
    ("operator", 3, &[Role::Operator]),
    ("planner", 4, &[Role::Planner]),
    ("executor", 5, &[Role::Executor]),
    ("critic", 6, &[Role::Critic]),
    ("auditor", 7, &[Role::Auditor]),
];

/// Somebody who signs: a key, and who it says that it is.
#[derive(Debug)]
pub struct Party {
    /// The key.
    pub secret: SecretKey,
    /// How events name its holder.
    pub actor: Actor,
}

impl Party {
    /// The holder of the key that is made from this byte.
    #[must_use]
    pub fn new(agent_id: &str, seed: u8, role: Role) -> Self {
        let secret = SecretKey::from_seed(&[seed; 32]);
        let key_id = secret.public_key().key_id().to_string();
        let actor = Actor { agent_id: agent_id.to_owned(), key_id, role, unknown: Map::new() };
        Self { secret, actor }
    }

    /// The record of the key, which counts from `now` on.
    #[must_use]
    pub fn identity(&self, roles: &[Role], now: Timestamp) -> Box<AgentIdentity> {
        Box::new(AgentIdentity {
            schema_version: SCHEMA_VERSION.to_owned(),
            agent_id: self.actor.agent_id.clone(),
            display_name: self.actor.agent_id.clone(),
            role_capabilities: roles.to_vec(),
            key_id: self.actor.key_id.clone(),
            public_key: self.secret.public_key(),
            key_algorithm: KEY_ALGORITHM.to_owned(),
            status: KeyStatus::Active,
            created_at: now,
            updated_at: now,
            revoked_at: None,
            rotated_at: None,
            revoked_reason: None,
            unknown: Map::new(),
        })
    }
}

#[derive(Debug)]
struct Ledger<S> {
    trace_id: Ulid,
    state: S,
    chain: Chain,
    lines: Vec<u8>,
}

impl<S: State> Ledger<S> {
    fn new(trace_id: Ulid) -> Self {
        Self { trace_id, state: S::default(), chain: Chain::default(), lines: Vec::new() }
    }

    fn context(&self, now: Timestamp) -> Context {
        // A log is named by the id of its first event.
        let next_id = match self.chain.events {
            0 => self.trace_id,
            events => Ulid::from_parts(now, u128::from(events)),
        };
        Context { now, raw: now, next_id, next_seq: self.chain.events }
    }

    fn push(&mut self, party: &Party, now: Timestamp, draft: Draft) -> Event {
        let sealer = Sealer {
            trace_id: self.trace_id,
            event_id: self.context(now).next_id,
            seq: self.chain.events,
            prev: self.chain.head,
            created_at: now,
            raw_clock: None,
            actor: &party.actor,
        };
        let sealed = sealer.seal(draft, |bytes| *party.secret.sign(bytes).as_bytes()).unwrap();
        self.lines.extend_from_slice(&sealed.line);
        self.chain.push(&sealed.event);
        self.state.apply(&sealed.event);
        sealed.event
    }
}

/// A session that is being written, with everything that a verifier needs.
#[derive(Debug)]
pub struct SessionStory {
    root: Party,
    players: BTreeMap<Role, Party>,
    log: Ledger<LogState>,
    session: Ledger<SessionState>,
    seconds: i64,
    /// The artifacts, which a test may change.
    pub blobs: BTreeMap<Hash, Vec<u8>>,
}

impl SessionStory {
    /// A log that names the keys of these players, and a session without events.
    #[must_use]
    pub fn new(players: &[Player]) -> Self {
        Self::rooted(ROOT, players)
    }

    /// The same with the root key made from this byte.
    fn rooted(root: u8, players: &[Player]) -> Self {
        let root = Party::new("root", root, Role::Recorder);
        let at = |seconds: i64| Timestamp::from_millis(START + 1_000 * seconds);
        let mut story = Self {
            root,
            players: BTreeMap::new(),
            log: Ledger::new(Ulid::from_parts(at(1), 1)),
            session: Ledger::new(Ulid::from_parts(at(60), 2)),
            seconds: 0,
            blobs: BTreeMap::new(),
        };
        let now = story.tick();
        story.tell_log(LogCommand::Open {
            origin: origin(&story.fingerprint()),
            root: story.root.identity(&[Role::Recorder], now),
            software: "test".to_owned(),
        });
        for &(agent_id, seed, roles) in players {
            let now = story.tick();
            let identity = Party::new(agent_id, seed, roles[0]).identity(roles, now);
            story.tell_log(LogCommand::AddKey(identity));
            for &role in roles {
                story.players.insert(role, Party::new(agent_id, seed, role));
            }
        }
        story.seconds = story.seconds.max(60);
        story
    }

    /// A session that went well, from plan to audit.
    #[must_use]
    pub fn whole() -> Self {
        Self::claimed().concluded()
    }

    /// The same session, told by somebody who has keys of their own: every one is another.
    #[must_use]
    pub fn signed_by_others() -> Self {
        let others = SEPARATE.map(|(agent_id, seed, roles)| (agent_id, seed + 100, roles));
        Self::rooted(ROOT + 100, &others).with_claim().concluded()
    }

    fn concluded(mut self) -> Self {
        self.conclude();
        self.audit();
        self.close();
        self
    }

    /// The same up to its only claim.
    #[must_use]
    pub fn claimed() -> Self {
        Self::new(&SEPARATE).with_claim()
    }

    fn with_claim(mut self) -> Self {
        let proposal = self.plan();
        let execution = self.execute(&proposal, RiskClass::Low, "output");
        self.claim(&execution, "output");
        self
    }

    /// The root that signs for all keys.
    #[must_use]
    pub fn fingerprint(&self) -> Hash {
        self.root.secret.public_key().fingerprint()
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> Ulid {
        self.session.trace_id
    }

    /// What the events come to.
    #[must_use]
    pub fn state(&self) -> &SessionState {
        &self.session.state
    }

    /// The hash of the last event.
    #[must_use]
    pub fn head(&self) -> Hash {
        self.session.chain.head
    }

    /// From now on somebody plays a role of which the log does not know.
    pub fn play(&mut self, role: Role, (agent_id, seed): (&str, u8)) {
        self.players.insert(role, Party::new(agent_id, seed, role));
    }

    /// The lines of the session, which a test may change.
    pub fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.session.lines
    }

    fn tick(&mut self) -> Timestamp {
        self.seconds += 1;
        Timestamp::from_millis(START + 1_000 * self.seconds)
    }

    fn tell_log(&mut self, command: LogCommand) {
        let now = Timestamp::from_millis(START + 1_000 * self.seconds);
        let act = self.log.state.decide(command, &self.log.context(now)).unwrap().remove(0);
        let party = match act.by {
            By::Root => &self.root,
            By::Role(role) => &self.players[&role],
        };
        self.log.push(party, now, act.draft);
    }

    /// Stores bytes, for the next event to name.
    pub fn put(&mut self, bytes: &[u8]) -> ArtifactDescriptor {
        self.blobs.insert(Hash::of(bytes), bytes.to_vec());
        descriptor(bytes)
    }

    /// What is known when the next event is decided.
    #[must_use]
    pub fn context(&self) -> Context {
        self.session.context(Timestamp::from_millis(START + 1_000 * (self.seconds + 1)))
    }

    /// Who would record what `command` brings, and what that is.
    #[must_use]
    pub fn offer(&self, command: SessionCommand) -> (Role, Draft) {
        let act = self.session.state.decide(command, &self.context()).unwrap().remove(0);
        let By::Role(role) = act.by else { panic!("the root signs nothing in a session") };
        (role, act.draft)
    }

    /// Records what `command` brings, whether the rules allow it or not.
    pub fn submit(&mut self, command: SessionCommand) -> EventRef {
        let (role, draft) = self.offer(command);
        self.force(role, draft)
    }

    /// Records anything.
    pub fn force(&mut self, role: Role, draft: Draft) -> EventRef {
        let now = self.tick();
        let seq = self.session.chain.events;
        let event = self.session.push(&self.players[&role], now, draft);
        if seq == 0 {
            let keys_head = self.log.state.keys_head.unwrap();
            self.tell_log(LogCommand::OpenTrace {
                trace_id: event.trace_id,
                kind: TraceKind::Session,
                first_event_hash: event.event_hash,
                keys_head,
            });
        }
        EventRef { event_id: event.event_id, seq }
    }

    /// How the session begins.
    #[must_use]
    pub fn opening(&self) -> SessionOpening {
        SessionOpening {
            log: LogPin {
                origin: self.log.state.origin.clone(),
                size: self.log.chain.events,
                head: self.log.chain.head,
                keys_head: self.log.state.keys_head.unwrap(),
            },
            task_id: "greet".to_owned(),
            objective: "to greet".to_owned(),
            constraints: Vec::new(),
            policy_profile: "default".to_owned(),
            requested_roles: vec![Role::Planner, Role::Executor, Role::Critic, Role::Auditor],
            participants: Vec::new(),
            policy: SessionPolicy {
                fallbacks: true,
                min_evidence: 1,
                revisions: 1,
                question_seconds: 60,
            },
            limits: Value::Object(Map::new()),
            task: None,
            inputs: Vec::new(),
            redactions: Vec::new(),
            links: None,
            software: "test".to_owned(),
        }
    }

    /// Begins, and has a proposal approved.
    pub fn plan(&mut self) -> EventRef {
        self.submit(SessionCommand::Open(Box::new(self.opening())));
        let subject = self.submit(SessionCommand::Propose(Box::new(proposal())));
        self.submit(SessionCommand::ReviewProposal {
            subject: subject.clone(),
            decision: ProposalDecision::Approved,
            conditions: Vec::new(),
            rationale: "harmless".to_owned(),
            artifacts: Vec::new(),
        });
        subject
    }

    /// Signs an intent, with `input` as its input.
    pub fn intend(&mut self, proposal: &EventRef, risk: RiskClass, input: &str) -> EventRef {
        self.put(input.as_bytes());
        self.submit(SessionCommand::Intend(Box::new(intent(proposal, risk, input))))
    }

    /// Starts an intent with its input, and ends it with `output`; gives the place of its start.
    pub fn run(&mut self, intent: EventRef, input: &str, output: &str) -> EventRef {
        let execution = self.submit(SessionCommand::Start {
            intent,
            input: Hash::of(input.as_bytes()),
            isolation: Value::Null,
        });
        self.put(output.as_bytes());
        self.submit(SessionCommand::End(Box::new(completed(&execution, output))));
        execution
    }

    /// Runs a tool that prints `output`; gives the place of its start.
    pub fn execute(&mut self, proposal: &EventRef, risk: RiskClass, output: &str) -> EventRef {
        let intent = self.intend(proposal, risk, "input");
        self.run(intent, "input", output)
    }

    /// Such a claim as [`claim`] gives, with its evidence stored.
    #[must_use]
    pub fn claim_on(&mut self, execution: &EventRef, output: &str) -> Claim {
        self.put(output.as_bytes());
        claim(execution, output)
    }

    /// Issues such a claim.
    pub fn claim(&mut self, execution: &EventRef, output: &str) -> EventRef {
        let claim = self.claim_on(execution, output);
        self.submit(SessionCommand::Claim(Box::new(claim)))
    }

    /// Signs the final statement.
    pub fn conclude(&mut self) -> EventRef {
        self.submit(SessionCommand::Conclude(Box::new(statement())))
    }

    /// Audits the session as it is, and records the verdict.
    pub fn audit(&mut self) -> VerificationReport {
        self.submit(SessionCommand::StartAudit { profile: "default".to_owned() });
        let report = self.verify(Profile::DEFAULT);
        self.complete_audit(&report);
        report
    }

    /// Records the verdict of `report`, which is stored.
    pub fn complete_audit(&mut self, report: &VerificationReport) -> EventRef {
        let bytes = json::to_bytes(&as_value(report));
        let artifact = Box::new(self.put(&bytes));
        self.submit(SessionCommand::CompleteAudit {
            status: report.verification_status,
            report_id: report.report_id.clone(),
            report: artifact,
            artifacts: Vec::new(),
        })
    }

    /// Tells the log that the session ended.
    pub fn close(&mut self) {
        let chain = &self.session.chain;
        let extent = Extent {
            trace_id: self.session.trace_id.to_string(),
            size: chain.events,
            head: chain.head,
            merkle_root: chain.tree.root(),
            last_event_at: chain.last_at,
        };
        let status = self.session.state.ended().unwrap();
        self.tell_log(LogCommand::CloseTrace(extent, status));
    }

    /// What a verifier says of the session to somebody who trusts its root.
    #[must_use]
    pub fn verify(&self, profile: Profile) -> VerificationReport {
        verify(self, &self.options(profile)).unwrap()
    }

    /// The options with which it is verified.
    #[must_use]
    pub fn options(&self, profile: Profile) -> Options {
        let expect_trace = Some(self.session.trace_id.to_string());
        Options { expect_trace, ..options(&[self.fingerprint()], profile) }
    }

    /// Writes everything to files, as a workspace keeps them.
    pub fn write_to(&self, home: &Path) {
        let trace = home.join("traces").join(self.session.trace_id.to_string());
        let mut files = vec![
            (home.join("log/events.jsonl"), &self.log.lines),
            (trace.join("events.jsonl"), &self.session.lines),
        ];
        files.extend(self.blobs.iter().map(|(hash, bytes)| (home.join(storage_uri(hash)), bytes)));
        for (path, bytes) in files {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// The descriptor of bytes that the next event brings.
#[must_use]
pub fn descriptor(bytes: &[u8]) -> ArtifactDescriptor {
    let artifact_hash = Hash::of(bytes);
    ArtifactDescriptor {
        artifact_hash,
        hash_algorithm: "sha256".to_owned(),
        media_type: "text/plain".to_owned(),
        encoding: "utf-8".to_owned(),
        byte_size: bytes.len() as u64,
        created_at: Timestamp::from_millis(START),
        producer_event_id: String::new(),
        storage_uri: storage_uri(&artifact_hash),
        redaction_status: RedactionStatus::None,
        unknown: Map::new(),
    }
}

/// A proposal for one tool.
#[must_use]
pub fn proposal() -> Proposal {
    Proposal {
        proposal_id: None,
        objective: "to greet".to_owned(),
        assumptions: Vec::new(),
        required_tools: vec!["echo".to_owned()],
        expected_evidence: vec!["what it printed".to_owned()],
        revises: None,
        fallback_for: None,
        artifacts: Vec::new(),
    }
}

/// An intent to call that tool.
#[must_use]
pub fn intent(proposal: &EventRef, risk: RiskClass, input: &str) -> Intent {
    Intent {
        proposal: proposal.clone(),
        tool_name: "echo".to_owned(),
        action_type: ActionType::Command,
        paths: Vec::new(),
        input: descriptor(input.as_bytes()),
        input_form: "raw".to_owned(),
        risk,
        justification: "as proposed".to_owned(),
        action_index: 0,
        acknowledged_conditions: Vec::new(),
        retry_of: None,
        idempotent: false,
        input_binding: None,
        redactions: Vec::new(),
        artifacts: Vec::new(),
    }
}

/// The end of an execution that printed `output` and went well.
#[must_use]
pub fn completed(execution: &EventRef, output: &str) -> ExecutionEnd {
    ExecutionEnd {
        execution: execution.clone(),
        outcome: Outcome::Completed,
        exit_status: Some(0),
        stdout: Some(descriptor(output.as_bytes())),
        stderr: None,
        dropped_bytes: 0,
        elapsed_ms: Some(1),
        redactions: Vec::new(),
        given_up: false,
    }
}

/// A claim that rests on an execution and what it printed.
#[must_use]
pub fn claim(execution: &EventRef, output: &str) -> Claim {
    let producer_event_id = execution.event_id.clone();
    Claim {
        claim_id: None,
        text: "it greeted".to_owned(),
        confidence: Confidence::High,
        kind: ClaimKind::Result,
        executions: vec![execution.clone()],
        evidence: vec![ArtifactDescriptor { producer_event_id, ..descriptor(output.as_bytes()) }],
        supersedes: None,
        artifacts: Vec::new(),
    }
}

/// A final statement that resolves nothing.
#[must_use]
pub fn statement() -> FinalStatement {
    FinalStatement {
        verdict: "greeted".to_owned(),
        achieved: true,
        resolutions: Vec::new(),
        artifacts: Vec::new(),
    }
}

fn as_value(report: &VerificationReport) -> Value {
    serde_json::to_value(report).unwrap()
}

impl Source for SessionStory {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.session.lines.as_slice()))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(Some(Box::new(self.log.lines.as_slice())))
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        Ok(match self.blobs.get(hash) {
            Some(bytes) => StoredArtifact::Bytes(Box::new(bytes.as_slice())),
            None => StoredArtifact::Absent,
        })
    }
}
