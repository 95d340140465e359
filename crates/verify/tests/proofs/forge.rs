//! A log and a trace written with keys that the tests hold, by the rules or against them.

use std::collections::BTreeSet;
use std::io::{self, BufRead};

use countersign_format::event::{Actor, Draft, Event, EventType, Sealer};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::SecretKey;
use countersign_format::merkle::{Tree, root};
use countersign_format::note::{Checkpoint, origin};
use countersign_format::proof::{
    EventProof, ExtentPaths, ExtractEntry, InclusionReport, InclusionStatus, LogExtract,
};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_verify::{Options, Profile, Source, verify_proof};
use serde_json::{Map, Value, json};

/// 2026-02-03T04:05:06.000Z.
const START: i64 = 1_770_091_506_000;

/// Whoever holds a key that is made of one byte.
#[derive(Clone, Copy)]
pub(crate) struct Holder(pub(crate) u8, pub(crate) &'static str, pub(crate) Role);

pub(crate) const ROOT: Holder = Holder(1, "root", Role::Recorder);
pub(crate) const RECORDER: Holder = Holder(2, "recorder", Role::Recorder);
pub(crate) const NEXT_RECORDER: Holder = Holder(3, "recorder", Role::Recorder);
pub(crate) const EXECUTOR: Holder = Holder(4, "executor", Role::Executor);
pub(crate) const PLANNER: Holder = Holder(5, "planner", Role::Planner);

impl Holder {
    pub(crate) fn secret(self) -> SecretKey {
        SecretKey::from_seed(&[self.0; 32])
    }

    pub(crate) fn key_id(self) -> String {
        self.secret().public_key().key_id().to_string()
    }

    fn actor(self) -> Actor {
        Actor {
            agent_id: self.1.to_owned(),
            key_id: self.key_id(),
            role: self.2,
            unknown: Map::new(),
        }
    }

    pub(crate) fn identity(self, at: Timestamp) -> Value {
        json!({
            "schema_version": "1.1.0", "agent_id": self.1, "display_name": self.1,
            "role_capabilities": [self.2], "key_id": self.key_id(),
            "public_key": self.secret().public_key(), "key_algorithm": "ed25519",
            "status": "active", "created_at": at, "updated_at": at,
        })
    }
}

/// Lines that follow each other.
#[derive(Clone)]
pub(crate) struct Ledger {
    pub(crate) id: Ulid,
    pub(crate) events: Vec<Event>,
    pub(crate) lines: Vec<String>,
}

impl Ledger {
    fn new(id: Ulid) -> Self {
        Self { id, events: Vec::new(), lines: Vec::new() }
    }

    pub(crate) fn hashes(&self) -> Vec<Hash> {
        self.events.iter().map(|event| event.event_hash).collect()
    }

    pub(crate) fn head(&self) -> Hash {
        self.events.last().map_or(Hash::GENESIS, |event| event.event_hash)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
    }

    /// Appends an event of the given second.
    pub(crate) fn push(&mut self, who: Holder, at: i64, draft: Draft) -> Hash {
        let created_at = second(at);
        let seq = self.events.len() as u64;
        let next = Ulid::from_parts(created_at, 1000 + u128::from(seq));
        let sealer = Sealer {
            trace_id: self.id,
            event_id: if seq == 0 { self.id } else { next },
            seq,
            prev: self.head(),
            created_at,
            raw_clock: None,
            actor: &who.actor(),
        };
        let secret = who.secret();
        let sealed = sealer.seal(draft, |bytes| *secret.sign(bytes).as_bytes()).unwrap();
        let line = String::from_utf8(sealed.line).unwrap();
        self.lines.push(line.trim_end_matches('\n').to_owned());
        self.events.push(sealed.event);
        self.head()
    }
}

pub(crate) fn second(n: i64) -> Timestamp {
    Timestamp::from_millis(START + n * 1000)
}

/// A log and one trace of it.
#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) log: Ledger,
    pub(crate) trace: Ledger,
    pub(crate) keys_head: Hash,
    clock: i64,
}

impl Forge {
    /// A log that knows the recorder, the planner and the executor.
    pub(crate) fn new() -> Self {
        let log = Ledger::new(Ulid::from_parts(second(0), 1));
        let trace = Ledger::new(Ulid::from_parts(second(5), 2));
        let mut forge = Self { log, trace, keys_head: Hash::GENESIS, clock: 0 };
        let payload = json!({ "kind": "log", "origin": forge.origin(), "identity": ROOT.identity(second(0)) });
        forge.keys_head = forge.log.push(ROOT, 0, Draft::new(EventType::LogOpened, payload));
        for holder in [RECORDER, PLANNER, EXECUTOR] {
            forge.add_key(holder);
        }
        forge
    }

    /// The same with a trace of `events` events that is closed.
    pub(crate) fn closed(events: usize) -> Self {
        let mut forge = Self::new();
        forge.begin();
        for _ in 1..events {
            forge.event(EXECUTOR);
        }
        forge.close(RECORDER);
        forge
    }

    pub(crate) fn origin(&self) -> String {
        origin(&ROOT.secret().public_key().fingerprint())
    }

    pub(crate) fn now(&mut self) -> i64 {
        self.clock += 1;
        self.clock
    }

    /// Says something of keys, in the root's name.
    pub(crate) fn key_event(&mut self, event_type: EventType, mut payload: Value) {
        payload["prev_key_event"] = json!(self.keys_head);
        let at = self.now();
        self.keys_head = self.log.push(ROOT, at, Draft::new(event_type, payload));
    }

    pub(crate) fn add_key(&mut self, holder: Holder) {
        let identity = holder.identity(second(self.clock));
        self.key_event(EventType::KeyAdded, json!({ "identity": identity }));
    }

    pub(crate) fn revoke(&mut self, holder: Holder) {
        self.revoke_for(holder, "lost");
    }

    pub(crate) fn revoke_for(&mut self, holder: Holder, reason: &str) {
        let at = second(self.clock + 1);
        let payload = json!({ "key_id": holder.key_id(), "revoked_at": at, "reason": reason });
        self.key_event(EventType::KeyRevoked, payload);
    }

    pub(crate) fn rotate_recorder(&mut self) {
        let at = second(self.clock + 1);
        let payload = json!({
            "identity": NEXT_RECORDER.identity(at), "rotated_key_id": RECORDER.key_id(),
            "rotated_at": at,
        });
        self.key_event(EventType::KeyRotated, payload);
    }

    /// Says something of the trace, in the recorder's name.
    pub(crate) fn log_event(&mut self, who: Holder, event_type: EventType, mut payload: Value) {
        payload["keys_head"] = json!(self.keys_head);
        let at = self.now();
        self.log.push(who, at, Draft::new(event_type, payload));
    }

    /// Begins the trace, a session, and tells the log.
    pub(crate) fn begin(&mut self) {
        let pin = json!({
            "origin": self.origin(), "size": self.log.events.len(), "head": self.log.head(),
            "keys_head": self.keys_head,
        });
        let at = self.now();
        let payload = json!({ "kind": "session", "task_id": "t", "objective": "o", "log": pin });
        let draft = Draft::new(EventType::SessionInitialized, payload);
        let first = self.trace.push(PLANNER, at, draft);
        let trace_id = self.trace.id.to_string();
        let payload = json!({ "trace_id": trace_id, "kind": "session", "first_event_hash": first });
        self.log_event(RECORDER, EventType::TraceOpened, payload);
    }

    /// Adds an event to the trace.
    pub(crate) fn event(&mut self, who: Holder) {
        let at = self.now();
        let payload = json!({ "purpose": format!("n\u{b0} {at}") });
        self.trace.push(who, at, Draft::new(EventType::ArtifactRecorded, payload));
    }

    pub(crate) fn extent(&self) -> Value {
        let last = self.trace.events.last().unwrap();
        json!({
            "trace_id": self.trace.id.to_string(), "size": self.trace.events.len(),
            "head": last.event_hash, "merkle_root": root(&self.trace.hashes()),
            "last_event_at": last.created_at,
        })
    }

    pub(crate) fn checkpoint(&mut self, who: Holder) {
        self.log_event(who, EventType::TraceCheckpointed, self.extent());
    }

    pub(crate) fn close(&mut self, who: Holder) {
        let mut payload = self.extent();
        payload["status"] = json!("succeeded");
        self.log_event(who, EventType::TraceClosed, payload);
    }

    /// The log's checkpoint, signed by `who`.
    pub(crate) fn note(&self, who: Holder) -> String {
        let hashes = self.log.hashes();
        let size = hashes.len() as u64;
        let checkpoint = Checkpoint { origin: self.origin(), size, root: root(&hashes) };
        checkpoint.sign(&who.secret()).unwrap().to_string()
    }

    /// The proof of an event, by an own reading of the page that describes proofs.
    pub(crate) fn proof(&self, seq: u64, signer: Holder) -> EventProof {
        let size = self.log.events.len() as u64;
        let pinned = self.trace.events[0].payload["log"]["size"].as_u64().unwrap();
        let tree = Tree::new(&self.log.hashes());
        let mut entries = Vec::new();
        let mut covering = Vec::new();
        for (event, line) in self.log.events.iter().zip(&self.log.lines) {
            let index = event.seq.unwrap();
            let own = event.payload["trace_id"] == json!(self.trace.id.to_string());
            let of_keys = event.payload.get("keys_head").is_none();
            if own || of_keys || index + 1 == size || index + 1 == pinned {
                let path = tree.inclusion_proof(index, size).unwrap();
                entries.push(ExtractEntry { index, line: line.clone(), path });
            }
            let extent = event.payload.get("size").and_then(Value::as_u64).filter(|_| own);
            covering.extend(extent.filter(|&size| size > seq).map(|size| (index, size)));
        }
        let trace = Tree::new(&self.trace.hashes());
        let ends: BTreeSet<_> = covering.first().into_iter().chain(covering.last()).collect();
        let extents = ends.into_iter().map(|&(entry, size)| ExtentPaths {
            entry,
            event_path: trace.inclusion_proof(seq, size).unwrap(),
            first_path: trace.inclusion_proof(0, size).unwrap(),
        });
        EventProof {
            countersign: "proof".to_owned(),
            event: self.trace.lines[usize::try_from(seq).unwrap()].clone(),
            extents: extents.collect(),
            first: self.trace.lines[0].clone(),
            log: LogExtract { checkpoint: self.note(signer), entries },
            schema_version: "1.1.0".to_owned(),
        }
    }
}

/// Bytes in the place of files.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) log: Option<Vec<u8>>,
    pub(crate) checkpoints: Vec<Vec<u8>>,
}

impl Source for Kept {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(io::empty()))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(self.log.as_deref().map(|log| Box::new(log) as Box<dyn BufRead>))
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(self.checkpoints.clone())
    }
}

/// What a reader brings along who trusts the root of the forge.
pub(crate) fn options() -> Options {
    Options {
        trusted_roots: [ROOT.secret().public_key().fingerprint()].into(),
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: None,
        expect_head: None,
        expect_count: None,
        report_id: "01kg9ysh8g0000000000000002".to_owned(),
        now: second(1000),
    }
}

pub(crate) fn judge(proof: &EventProof) -> InclusionReport {
    judge_with(proof, &Kept::default())
}

pub(crate) fn judge_with(proof: &EventProof, kept: &Kept) -> InclusionReport {
    verify_proof(proof, kept, &options()).unwrap()
}

/// The findings as codes and words, or nothing if the event is included.
pub(crate) fn findings(report: &InclusionReport) -> Vec<String> {
    let included = report.inclusion_status == InclusionStatus::Included;
    assert_eq!(included, report.failures.is_empty());
    let failures = report.failures.iter();
    failures.map(|it| format!("{}: {}", it.failure_code, it.message)).collect()
}
