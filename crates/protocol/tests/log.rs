//! The workspace log: what may follow what, without any file.
#![cfg(test)]

use std::collections::BTreeSet;

use countersign_format::event::{Actor, Draft, Event, EventType, Sealer, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::{AgentIdentity, SecretKey};
use countersign_format::note::origin;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::chain::Chain;
use countersign_protocol::log::{Extent, Held, LogCommand, LogState};
use countersign_protocol::{By, Context, Refusal, State as _};
use serde_json::{Map, json};

struct Log {
    state: LogState,
    chain: Chain,
}

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

fn identity(seed: u8, agent_id: &str, role: Role) -> Box<AgentIdentity> {
    let public_key = key(seed).public_key();
    let identity = json!({
        "schema_version": "1.1.0",
        "agent_id": agent_id,
        "display_name": agent_id,
        "role_capabilities": [role.as_str()],
        "key_id": public_key.key_id().to_string(),
        "public_key": public_key.to_string(),
        "key_algorithm": "ed25519",
        "status": "active",
        "created_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:00.000Z",
    });
    Box::new(serde_json::from_value(identity).unwrap())
}

fn now() -> Timestamp {
    "2026-01-02T00:00:00.000Z".parse().unwrap()
}

const ROOT: u8 = 1;
const RECORDER: u8 = 2;

impl Log {
    fn new() -> Self {
        let mut log = Self { state: LogState::default(), chain: Chain::default() };
        let root = identity(ROOT, "root", Role::Recorder);
        let origin = origin(&root.public_key.fingerprint());
        let open = LogCommand::Open { origin, root, software: "test".into() };
        log.run(open).unwrap();
        log.run(LogCommand::AddKey(identity(RECORDER, "recorder", Role::Recorder))).unwrap();
        log
    }

    fn context(&self) -> Context {
        let id: Ulid = "01arz3ndektsv4rrffq69g5fav".parse().unwrap();
        let next_id = (0..self.chain.events).fold(id, |id, _| id.next());
        Context { now: now(), raw: now(), next_id, next_seq: self.chain.events }
    }

    fn seal(&self, draft: Draft, seed: u8) -> Event {
        let secret = key(seed);
        let actor = Actor {
            agent_id: if seed == ROOT { "root" } else { "recorder" }.into(),
            key_id: secret.public_key().key_id().to_string(),
            role: Role::Recorder,
            unknown: Map::new(),
        };
        let sealer = Sealer {
            trace_id: "01arz3ndektsv4rrffq69g5fav".parse().unwrap(),
            event_id: self.context().next_id,
            seq: self.chain.events,
            prev: self.chain.head,
            created_at: now(),
            raw_clock: None,
            actor: &actor,
        };
        sealer.seal(draft, |bytes| *secret.sign(bytes).as_bytes()).unwrap().event
    }

    fn run(&mut self, command: LogCommand) -> Result<Event, Refusal> {
        let act = self.state.decide(command, &self.context())?.remove(0);
        let event = self.seal(act.draft, if act.by == By::Root { ROOT } else { RECORDER });
        self.take(event)
    }

    fn take(&mut self, event: Event) -> Result<Event, Refusal> {
        self.state.admit(&event)?;
        self.state.apply(&event);
        self.chain.push(&event);
        Ok(event)
    }

    fn open(&mut self, trace_id: &str) -> Result<Event, Refusal> {
        let keys_head = self.state.keys_head.unwrap();
        self.run(LogCommand::OpenTrace {
            trace_id: trace_id.into(),
            kind: TraceKind::Recording,
            first_event_hash: Hash::of(b"first"),
            keys_head,
        })
    }
}

fn extent(trace_id: &str, size: u64) -> Extent {
    Extent {
        trace_id: trace_id.into(),
        size,
        head: Hash::of(b"head"),
        merkle_root: Hash::of(b"root"),
        last_event_at: now(),
    }
}

fn held(ids: &[&str]) -> Held {
    let trace_ids = ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();
    Held { trace_ids, after: now().plus_millis(5) }
}

const TRACE: &str = "01arz3ndektsv4rrffq69g5faw";

#[test]
fn a_trace_is_opened_grows_and_is_closed_once() {
    let mut log = Log::new();
    log.open(TRACE).unwrap();
    assert!(matches!(log.open(TRACE), Err(Refusal::TraceKnown { .. })));
    log.run(LogCommand::CheckpointTrace(extent(TRACE, 1024))).unwrap();
    let shorter = log.run(LogCommand::CheckpointTrace(extent(TRACE, 1024)));
    assert!(matches!(shorter, Err(Refusal::NotLonger { known: 1024, found: 1024, .. })));
    log.run(LogCommand::CloseTrace(extent(TRACE, 1024), TraceStatus::Succeeded)).unwrap();
    assert!(log.state.open.all().unwrap().is_empty());
    let again = log.run(LogCommand::CloseTrace(extent(TRACE, 1030), TraceStatus::Failed));
    assert!(matches!(again, Err(Refusal::TraceNotOpen { .. })));
    // A redaction lengthens a closed trace.
    log.run(LogCommand::CheckpointTrace(extent(TRACE, 1025))).unwrap();
}

#[test]
fn keys_change_only_while_every_open_trace_is_held() {
    let mut log = Log::new();
    log.open(TRACE).unwrap();
    let recorder = key(RECORDER).public_key().key_id().to_string();
    let revoke =
        |held| LogCommand::RevokeKey { key_id: recorder.clone(), reason: "lost".into(), held };
    assert_eq!(log.run(revoke(held(&[]))), Err(Refusal::TraceNotHeld { trace_id: TRACE.into() }));
    let event = log.run(revoke(held(&[TRACE]))).unwrap();
    // The key ends after the last event that was held, not in the middle of its millisecond.
    assert_eq!(event.payload["revoked_at"], json!(now().plus_millis(5).to_string()));
    assert!(matches!(
        log.run(LogCommand::CheckpointTrace(extent(TRACE, 2))),
        Err(Refusal::NoActiveKey { .. })
    ));
}

#[test]
fn a_trace_whose_first_event_was_signed_under_other_keys_is_given_up() {
    let mut log = Log::new();
    let before = log.state.keys_head.unwrap();
    log.run(LogCommand::AddKey(identity(3, "critic", Role::Critic))).unwrap();
    let open = LogCommand::OpenTrace {
        trace_id: TRACE.into(),
        kind: TraceKind::Recording,
        first_event_hash: Hash::of(b"first"),
        keys_head: before,
    };
    assert_eq!(log.run(open), Err(Refusal::KeysChanged { trace_id: TRACE.into() }));
}

#[test]
fn only_the_root_signs_key_events() {
    let log = Log::new();
    let add = LogCommand::AddKey(identity(3, "critic", Role::Critic));
    let act = log.state.decide(add, &log.context()).unwrap().remove(0);
    let forged = log.seal(act.draft.clone(), RECORDER);
    assert!(matches!(log.state.admit(&forged), Err(Refusal::NotTheRoot { .. })));
    let genuine = log.seal(act.draft, ROOT);
    assert_eq!(log.state.admit(&genuine), Ok(()));
}

#[test]
fn an_extract_that_leaves_out_a_key_event_does_not_replay() {
    let mut whole = Log::new();
    let added = LogCommand::AddKey(identity(3, "critic", Role::Critic));
    let mut extract = Log { state: whole.state.clone(), chain: whole.chain.clone() };
    whole.run(added).unwrap();
    let opened = whole.open(TRACE).unwrap();
    assert!(matches!(extract.take(opened), Err(Refusal::KeysHeadDiffers { .. })));
}

#[test]
fn a_log_begins_once_and_with_nothing_else() {
    let log = Log::new();
    let root = identity(ROOT, "root", Role::Recorder);
    let again = json!({ "kind": "log", "origin": "o", "identity": root, "software": "test" });
    let event = log.seal(Draft::new(EventType::LogOpened, again), ROOT);
    assert!(matches!(log.state.admit(&event), Err(Refusal::BeganAlready { .. })));
    let empty = LogState::default();
    let early = json!({
        "trace_id": TRACE,
        "kind": "recording",
        "first_event_hash": Hash::GENESIS,
        "keys_head": Hash::GENESIS,
    });
    let event = log.seal(Draft::new(EventType::TraceOpened, early), RECORDER);
    assert!(matches!(empty.admit(&event), Err(Refusal::WrongFirstEvent { .. })));
}

#[test]
fn the_root_cannot_be_retired_and_a_key_is_replaced_by_its_own_agent() {
    let mut log = Log::new();
    let root = key(ROOT).public_key().key_id().to_string();
    let revoke =
        LogCommand::RevokeKey { key_id: root.clone(), reason: "no".into(), held: held(&[]) };
    assert_eq!(log.run(revoke), Err(Refusal::RootIsFixed { root }));
    let recorder = key(RECORDER).public_key().key_id().to_string();
    let rotate = LogCommand::RotateKey {
        key_id: recorder,
        identity: identity(4, "critic", Role::Critic),
        held: held(&[]),
    };
    assert!(matches!(log.run(rotate), Err(Refusal::OtherAgent { .. })));
}
