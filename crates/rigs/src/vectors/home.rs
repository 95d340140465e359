//! Whole workspaces: one in which everything holds, and others in which one thing does not.

use countersign_format::event::artifact::storage_uri;
use countersign_format::event::{Actor, Draft, Event, EventRef, EventType, SCHEMA_VERSION, Sealer};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::{KEY_ALGORITHM, SecretKey};
use countersign_format::merkle;
use countersign_format::note::{Checkpoint, origin};
use countersign_format::role::Role;
use countersign_format::schemas;
use countersign_format::time::Timestamp;
use serde_json::{Map, Value, json};

use super::traces::{INPUT, OUTPUT, begin_recording, begin_session, end_recording};
use super::{cannot, set};

/// 2026-01-31T12:00:00.000Z.
const START: i64 = 1_769_860_800_000;

/// A key made from one byte, repeated 32 times, and whoever holds it.
pub(super) struct Party {
    pub(super) secret: SecretKey,
    pub(super) actor: Actor,
}

impl Party {
    pub(super) fn new(seed: u8, agent_id: &str, role: Role) -> Self {
        let secret = SecretKey::from_seed(&[seed; 32]);
        let key_id = secret.public_key().key_id().to_string();
        let actor = Actor { agent_id: agent_id.to_owned(), key_id, role, unknown: Map::new() };
        Self { secret, actor }
    }

    /// Its record, made at `at`.
    pub(super) fn identity(&self, at: Timestamp) -> Value {
        json!({
            "schema_version": SCHEMA_VERSION, "agent_id": self.actor.agent_id,
            "display_name": self.actor.agent_id, "role_capabilities": [self.actor.role],
            "key_id": self.actor.key_id, "public_key": self.secret.public_key(),
            "key_algorithm": KEY_ALGORITHM, "status": "active",
            "created_at": at, "updated_at": at,
        })
    }
}

/// The `n`th second of the story.
pub(super) fn second(n: i64) -> Timestamp {
    Timestamp::from_millis(START + n * 1000)
}

/// A ledger that is being written.
pub(super) struct Ledger {
    pub(super) trace_id: Ulid,
    pub(super) lines: Vec<u8>,
    pub(super) events: Vec<Event>,
}

impl Ledger {
    pub(super) fn new(trace_id: Ulid) -> Self {
        Self { trace_id, lines: Vec::new(), events: Vec::new() }
    }

    pub(super) fn head(&self) -> Hash {
        self.events.last().map_or(Hash::GENESIS, |event| event.event_hash)
    }

    fn root(&self) -> Hash {
        let leaves: Vec<Hash> = self.events.iter().map(|event| event.event_hash).collect();
        merkle::root(&leaves)
    }

    pub(super) fn size(&self) -> u64 {
        self.events.len() as u64
    }

    /// Appends an event and gives a link to it.
    pub(super) fn push(&mut self, who: &Party, at: i64, draft: Draft) -> Result<EventRef, String> {
        self.push_clocked(who, second(at), None, draft)
    }

    /// As [`Ledger::push`], where the clock had said something earlier.
    pub(super) fn push_clocked(
        &mut self,
        who: &Party,
        created_at: Timestamp,
        raw_clock: Option<Timestamp>,
        draft: Draft,
    ) -> Result<EventRef, String> {
        let sealer = Sealer {
            trace_id: self.trace_id,
            event_id: self.next_id(created_at),
            seq: self.size(),
            prev: self.head(),
            created_at,
            raw_clock,
            actor: &who.actor,
        };
        let sealed = sealer
            .seal(draft, |bytes| *who.secret.sign(bytes).as_bytes())
            .map_err(|error| cannot("seal an event", error))?;
        self.lines.extend_from_slice(&sealed.line);
        let reference = EventRef { event_id: sealed.event.event_id.clone(), seq: self.size() };
        self.events.push(sealed.event);
        Ok(reference)
    }

    /// The id that the next event will have.
    pub(super) fn next_id(&self, created_at: Timestamp) -> Ulid {
        // The log is named by the id of its first event.
        if self.events.is_empty() {
            return self.trace_id;
        }
        Ulid::from_parts(created_at, u128::from(self.size()))
    }
}

/// What is wrong with a workspace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Twist {
    Nothing,
    /// The rotated recorder key signs once more, dated before its rotation.
    LateSignature,
    /// The operator's key signs as an auditor.
    ForeignRole,
    /// A key event is signed by the recorder instead of the root.
    KeyEventByRecorder,
    /// The last event of a closed trace is missing.
    CutTrace,
    /// The log says another root than the trace has.
    WrongExtent,
    /// The directory of the recording holds the events of the session.
    SwappedTrace,
    /// The directory of the recording is gone.
    MissingTrace,
    /// Half of the checkpoint is missing.
    TornCheckpoint,
    /// An unfinished line stands at the end of the session.
    TornTail,
    /// What the tool of the recording printed is not in the store.
    MissingArtifact,
    /// One byte of it is another.
    ChangedArtifact,
    /// It was redacted after the recording had ended.
    RedactedArtifact,
    /// The auditor recorded another verdict than its report has.
    FalseVerdict,
    /// The receipt of the recording says that something else came out.
    FalseReceipt,
}

/// What a verifier says of one ledger: codes of failures and of warnings, each once, in the order in
/// which they are first found.
type Codes = (&'static [&'static str], &'static [&'static str]);

const NOTHING: Codes = (&[], &[]);

/// A workspace, and what is to be found in its log, its recording and its session. What is found in the
/// log is found again in each trace.
struct Home {
    name: &'static str,
    twist: Twist,
    log: Codes,
    recording: Codes,
    session: Codes,
}

impl Home {
    const fn new(name: &'static str, twist: Twist, log: Codes) -> Self {
        Self { name, twist, log, recording: log, session: log }
    }
}

const HOMES: [Home; 15] = [
    Home::new("good", Twist::Nothing, NOTHING),
    Home {
        session: (&["SIG_INVALID"], &[]),
        ..Home::new("late-signature", Twist::LateSignature, NOTHING)
    },
    Home {
        session: (&["ROLE_POLICY_VIOLATION", "SCHEMA_INVALID"], &[]),
        ..Home::new("foreign-role", Twist::ForeignRole, NOTHING)
    },
    Home::new(
        "key-event-by-recorder",
        Twist::KeyEventByRecorder,
        (&["ROLE_POLICY_VIOLATION"], &[]),
    ),
    Home { recording: (&["CHAIN_BREAK"], &[]), ..Home::new("cut-trace", Twist::CutTrace, NOTHING) },
    Home {
        recording: (&["CHAIN_BREAK"], &[]),
        ..Home::new("wrong-extent", Twist::WrongExtent, NOTHING)
    },
    Home {
        recording: (&["SCHEMA_INVALID", "CHAIN_BREAK"], &[]),
        ..Home::new("swapped-trace", Twist::SwappedTrace, NOTHING)
    },
    Home {
        recording: (&["SCHEMA_INVALID", "CHAIN_BREAK"], &[]),
        ..Home::new("missing-trace", Twist::MissingTrace, NOTHING)
    },
    Home::new("torn-checkpoint", Twist::TornCheckpoint, (&[], &["CHECKPOINT_UNREADABLE"])),
    Home { session: (&[], &["TORN_TAIL"]), ..Home::new("torn-tail", Twist::TornTail, NOTHING) },
    Home {
        recording: (&["ARTIFACT_MISSING"], &["RECORDED_VERDICT_STALE"]),
        ..Home::new("missing-artifact", Twist::MissingArtifact, NOTHING)
    },
    Home {
        recording: (&["ARTIFACT_HASH_MISMATCH"], &["RECORDED_VERDICT_STALE"]),
        ..Home::new("changed-artifact", Twist::ChangedArtifact, NOTHING)
    },
    Home {
        recording: (&[], &["REDACTION_LIMITED"]),
        ..Home::new("redacted-artifact", Twist::RedactedArtifact, NOTHING)
    },
    Home {
        recording: (&["ROLE_POLICY_VIOLATION"], &[]),
        ..Home::new("false-verdict", Twist::FalseVerdict, NOTHING)
    },
    Home {
        recording: (&["HASH_MISMATCH"], &[]),
        ..Home::new("false-receipt", Twist::FalseReceipt, NOTHING)
    },
];

/// The ids of the two traces.
pub(super) fn recording_id() -> Ulid {
    Ulid::from_parts(second(10), 2)
}

fn session_id() -> Ulid {
    Ulid::from_parts(second(13), 3)
}

/// The files of all workspaces, by path, and what is to be found in each.
pub(super) fn files() -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut files = Vec::new();
    let mut expected = Map::new();
    let codes = |(failures, warnings): Codes| json!({ "failures": failures, "warnings": warnings });
    for home in HOMES {
        for (path, bytes) in Story::tell(home.twist)? {
            files.push((format!("{}/{path}", home.name), bytes));
        }
        let mut ledgers = Map::new();
        ledgers.insert("log".into(), codes(home.log));
        ledgers.insert(recording_id().to_string(), codes(home.recording));
        ledgers.insert(session_id().to_string(), codes(home.session));
        expected.insert(home.name.into(), Value::Object(ledgers));
    }
    files.push(("expected.json".into(), schemas::file_text(&Value::Object(expected)).into_bytes()));
    Ok(files)
}

struct Story {
    root: Party,
    recorder: Party,
    log: Ledger,
    keys_head: Hash,
}

impl Story {
    fn tell(twist: Twist) -> Result<Vec<(String, Vec<u8>)>, String> {
        let root = Party::new(1, "root", Role::Recorder);
        let recorder = Party::new(2, "recorder", Role::Recorder);
        let next_recorder = Party::new(8, "recorder", Role::Recorder);
        let operator = Party::new(3, "operator", Role::Operator);
        let planner = Party::new(4, "planner", Role::Planner);
        let executor = Party::new(5, "executor", Role::Executor);
        let critic = Party::new(6, "critic", Role::Critic);
        let auditor = Party::new(7, "auditor", Role::Auditor);
        let log = Ledger::new(Ulid::from_parts(second(0), 1));
        let mut story = Self { root, recorder, log, keys_head: Hash::GENESIS };
        story.open()?;
        for party in [&operator, &planner, &executor, &critic, &auditor] {
            story.add_key(party)?;
        }
        let mut recording = Ledger::new(recording_id());
        let execution = begin_recording(&mut recording, &story.recorder, &story.pin())?;
        story.trace_event(EventType::TraceOpened, 12, &recording, "recording")?;
        let mut session = Ledger::new(session_id());
        let intent = begin_session(&mut session, [&planner, &critic, &executor], &story.pin())?;
        story.trace_event(EventType::TraceOpened, 14, &session, "session")?;
        story.trace_event(EventType::TraceCheckpointed, 20, &recording, "")?;
        story.trace_event(EventType::TraceCheckpointed, 20, &session, "")?;
        story.rotate(&next_recorder, 21)?;
        let verdict = if twist == Twist::FalseVerdict { "fail" } else { "pass" };
        let receipted = if twist == Twist::FalseReceipt { b"hullo\n" } else { OUTPUT };
        let how = (receipted, verdict);
        let report = end_recording(&mut recording, &story.recorder, &execution, how)?;
        if twist == Twist::WrongExtent {
            story.log_extent(EventType::TraceClosed, 31, &recording, &session.root())?;
        } else {
            story.trace_event(EventType::TraceClosed, 31, &recording, "succeeded")?;
        }
        if twist == Twist::RedactedArtifact {
            let payload = json!({ "artifact_hash": Hash::of(OUTPUT), "reason": "personal data" });
            recording.push(&auditor, 32, Draft::new(EventType::ArtifactRedacted, payload))?;
            story.trace_event(EventType::TraceCheckpointed, 32, &recording, "")?;
        }
        match twist {
            Twist::LateSignature => {
                let old = Party::new(2, "recorder", Role::Recorder);
                let payload = json!({ "reason": "it cannot go on" });
                session.push(&old, 20, Draft::new(EventType::SessionFailed, payload))?;
            }
            Twist::ForeignRole => {
                let false_auditor = Party::new(3, "operator", Role::Auditor);
                let draft = Draft::new(EventType::VerificationRunStarted, json!({}));
                session.push(&false_auditor, 32, draft)?;
            }
            _ => {
                let payload = json!({
                    "subject": intent, "decision": "approved", "channel": "unprotected-key",
                });
                session.push(&operator, 32, Draft::new(EventType::ToolIntentReviewed, payload))?;
            }
        }
        story.trace_event(EventType::TraceCheckpointed, 33, &session, "")?;
        story.revoke(&executor, twist)?;
        let mut checkpoint = story.checkpoint()?;
        match twist {
            Twist::CutTrace => cut_last_line(&mut recording.lines),
            Twist::SwappedTrace => recording.lines.clone_from(&session.lines),
            Twist::TornCheckpoint => checkpoint.truncate(checkpoint.len() / 2),
            Twist::TornTail => {
                let next = json!({ "reason": "the machine stops here" });
                let whole = session.lines.len();
                session.push(&story.recorder, 40, Draft::new(EventType::SessionFailed, next))?;
                session.lines.truncate(whole + (session.lines.len() - whole) / 2);
            }
            _ => {}
        }
        let mut files = vec![
            ("log/events.jsonl".to_owned(), story.log.lines.clone()),
            ("log/checkpoint".to_owned(), checkpoint),
            (format!("traces/{}/events.jsonl", session.trace_id), session.lines),
        ];
        if twist != Twist::MissingTrace {
            files.push((format!("traces/{}/events.jsonl", recording.trace_id), recording.lines));
        }
        let stored = |bytes: &[u8]| (storage_uri(&Hash::of(bytes)), bytes.to_vec());
        files.extend([stored(INPUT), stored(&report)]);
        match twist {
            Twist::MissingArtifact | Twist::RedactedArtifact => {}
            Twist::ChangedArtifact => files.push((stored(OUTPUT).0, b"Hello\n".to_vec())),
            _ => files.push(stored(OUTPUT)),
        }
        Ok(files)
    }

    fn open(&mut self) -> Result<(), String> {
        let fingerprint = self.root.secret.public_key().fingerprint();
        let draft = Draft::new(
            EventType::LogOpened,
            json!({
                "kind": "log", "origin": origin(&fingerprint),
                "identity": self.root.identity(second(0)), "software": "countersign vectors",
            }),
        );
        self.log.push(&self.root, 0, draft)?;
        self.keys_head = self.log.head();
        let identity = self.recorder.identity(second(1));
        self.key_event(EventType::KeyAdded, 1, json!({ "identity": identity }))
    }

    fn add_key(&mut self, party: &Party) -> Result<(), String> {
        let at = i64::try_from(self.log.size()).unwrap_or(0);
        let identity = party.identity(second(at));
        self.key_event(EventType::KeyAdded, at, json!({ "identity": identity }))
    }

    fn key_event(&mut self, kind: EventType, at: i64, mut payload: Value) -> Result<(), String> {
        set(&mut payload, "prev_key_event", json!(self.keys_head));
        self.log.push(&self.root, at, Draft::new(kind, payload))?;
        self.keys_head = self.log.head();
        Ok(())
    }

    fn rotate(&mut self, next: &Party, at: i64) -> Result<(), String> {
        let payload = json!({
            "identity": next.identity(second(at)), "rotated_at": second(at),
            "rotated_key_id": self.recorder.actor.key_id,
        });
        self.key_event(EventType::KeyRotated, at, payload)?;
        self.recorder = Party::new(8, "recorder", Role::Recorder);
        Ok(())
    }

    fn revoke(&mut self, party: &Party, twist: Twist) -> Result<(), String> {
        let payload = json!({
            "key_id": party.actor.key_id, "reason": "the machine was lost", "revoked_at": second(34),
        });
        if twist != Twist::KeyEventByRecorder {
            return self.key_event(EventType::KeyRevoked, 34, payload);
        }
        let mut payload = payload;
        set(&mut payload, "prev_key_event", json!(self.keys_head));
        self.log.push(&self.recorder, 34, Draft::new(EventType::KeyRevoked, payload)).map(|_| ())
    }

    /// Where the log stands now.
    fn pin(&self) -> Value {
        json!({
            "origin": origin(&self.root.secret.public_key().fingerprint()),
            "size": self.log.size(), "head": self.log.head(), "keys_head": self.keys_head,
        })
    }

    /// What the log says of a trace; `word` is its kind or its status.
    fn trace_event(
        &mut self,
        event_type: EventType,
        at: i64,
        trace: &Ledger,
        word: &str,
    ) -> Result<(), String> {
        if event_type != EventType::TraceOpened {
            return self.log_extent(event_type, at, trace, &trace.root());
        }
        let first = trace.events.first().map_or(Hash::GENESIS, |event| event.event_hash);
        let payload = json!({
            "trace_id": trace.trace_id, "kind": word, "first_event_hash": first,
            "keys_head": self.keys_head,
        });
        self.log.push(&self.recorder, at, Draft::new(event_type, payload)).map(|_| ())
    }

    fn log_extent(
        &mut self,
        event_type: EventType,
        at: i64,
        trace: &Ledger,
        merkle_root: &Hash,
    ) -> Result<(), String> {
        let mut payload = json!({
            "trace_id": trace.trace_id, "size": trace.size(), "head": trace.head(),
            "merkle_root": merkle_root, "keys_head": self.keys_head,
            "last_event_at": trace.events.last().map(|event| event.created_at),
        });
        if event_type == EventType::TraceClosed {
            set(&mut payload, "status", json!("succeeded"));
        }
        self.log.push(&self.recorder, at, Draft::new(event_type, payload)).map(|_| ())
    }

    fn checkpoint(&self) -> Result<Vec<u8>, String> {
        let checkpoint = Checkpoint {
            origin: origin(&self.root.secret.public_key().fingerprint()),
            size: self.log.size(),
            root: self.log.root(),
        };
        let note = checkpoint
            .sign(&self.recorder.secret)
            .map_err(|error| cannot("sign a checkpoint", error))?;
        Ok(note.to_string().into_bytes())
    }
}

fn cut_last_line(lines: &mut Vec<u8>) {
    let end = lines.strip_suffix(b"\n").unwrap_or_default();
    let last = end.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    lines.truncate(last);
}

#[cfg(test)]
mod tests {
    use countersign_protocol::State as _;
    use countersign_protocol::log::LogState;
    use countersign_protocol::recording::RecordingState;
    use countersign_protocol::session::SessionState;

    use super::*;

    fn events(files: &[(String, Vec<u8>)], ending: &str) -> Vec<Event> {
        let (_, lines) = files.iter().find(|(path, _)| path.ends_with(ending)).unwrap();
        lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    #[test]
    fn the_rules_of_the_protocol_allow_the_good_workspace() {
        let files = Story::tell(Twist::Nothing).unwrap();
        let mut state = LogState::default();
        for event in events(&files, "log/events.jsonl") {
            assert_eq!(state.admit(&event), Ok(()), "{}", event.event_type.as_str());
            state.apply(&event);
        }
        let trace = format!("{}/events.jsonl", recording_id());
        let mut state = RecordingState::default();
        for event in events(&files, &trace) {
            assert_eq!(state.admit(&event), Ok(()), "{}", event.event_type.as_str());
            state.apply(&event);
        }
        assert!(state.ended().is_some());
        let trace = format!("{}/events.jsonl", session_id());
        let mut state = SessionState::default();
        for event in events(&files, &trace) {
            assert_eq!(state.admit(&event), Ok(()), "{}", event.event_type.as_str());
            state.apply(&event);
        }
    }
}
