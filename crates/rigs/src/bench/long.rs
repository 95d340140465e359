//! A closed recording of any length on disk, without a recorder: nothing is synced, so that a
//! million events take no longer than their signatures.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use countersign_format::event::artifact::storage_uri;
use countersign_format::event::{
    ArtifactDescriptor, Draft, Event, EventRef, RedactionStatus, Sealer, TraceKind,
};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::note::{Checkpoint, origin};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::chain::Chain;
use countersign_protocol::log::{Extent, LogCommand, LogState};
use countersign_protocol::recording::{RecordingCommand, RecordingState};
use countersign_protocol::{By, LogPin, State};
use countersign_testkit::session::Party;
use serde_json::Map;

/// 2026-02-03T04:05:06.000Z; every event comes a millisecond after the one before.
const START: i64 = 1_770_091_506_000;
/// How often the log is told of the trace.
const CHECKPOINT_EVERY: u64 = 1_024;
/// Different artifacts among all of them.
const ARTIFACTS: u64 = 64;

/// Where a recording lies, and whom to trust for it.
pub(super) struct LongRecording {
    pub(super) events: PathBuf,
    pub(super) root: Hash,
}

/// A ledger that is being written.
struct Ledger<S> {
    id: Ulid,
    state: S,
    chain: Chain,
    file: BufWriter<File>,
}

impl<S: State> Ledger<S> {
    fn create(id: Ulid, path: &Path) -> Result<Self, String> {
        let doing = |error| format!("cannot create `{}`: {error}", path.display());
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(doing)?;
        }
        let file = BufWriter::new(File::create(path).map_err(doing)?);
        Ok(Self { id, state: S::default(), chain: Chain::default(), file })
    }

    fn submit(
        &mut self,
        command: S::Command,
        now: Timestamp,
        party: impl Fn(By) -> Option<usize>,
        parties: &[Party],
    ) -> Result<Vec<Event>, String> {
        let context = countersign_protocol::Context {
            now,
            raw: now,
            next_id: self.next_id(now),
            next_seq: self.chain.events,
        };
        let acts = self.state.decide(command, &context).map_err(|refusal| refusal.to_string())?;
        let mut events = Vec::new();
        for act in acts {
            let party = party(act.by).and_then(|at| parties.get(at)).ok_or("nobody signs this")?;
            events.push(self.push(party, now, act.draft)?);
        }
        Ok(events)
    }

    fn next_id(&self, now: Timestamp) -> Ulid {
        match self.chain.events {
            0 => self.id,
            events => Ulid::from_parts(now, u128::from(events) + 1),
        }
    }

    fn push(&mut self, party: &Party, now: Timestamp, draft: Draft) -> Result<Event, String> {
        let sealer = Sealer {
            trace_id: self.id,
            event_id: self.next_id(now),
            seq: self.chain.events,
            prev: self.chain.head,
            created_at: now,
            raw_clock: None,
            actor: &party.actor,
        };
        let sealed = sealer
            .seal(draft, |bytes| *party.secret.sign(bytes).as_bytes())
            .map_err(|error| error.to_string())?;
        self.file.write_all(&sealed.line).map_err(|error| error.to_string())?;
        self.chain.push(&sealed.event);
        self.state.apply(&sealed.event);
        Ok(sealed.event)
    }
}

const fn in_log(by: By) -> Option<usize> {
    match by {
        By::Root => Some(0),
        By::Role(Role::Recorder) => Some(1),
        By::Role(_) => None,
    }
}

const fn in_recording(by: By) -> Option<usize> {
    match by {
        By::Role(Role::Recorder) => Some(1),
        By::Root | By::Role(_) => None,
    }
}

/// Who writes what, and what time it is.
struct Story {
    parties: [Party; 2],
    log: Ledger<LogState>,
    trace: Ledger<RecordingState>,
    millis: i64,
}

impl Story {
    fn now(&mut self) -> Timestamp {
        self.millis += 1;
        Timestamp::from_millis(START + self.millis)
    }

    fn tell(&mut self, command: LogCommand) -> Result<(), String> {
        let now = Timestamp::from_millis(START + self.millis);
        self.log.submit(command, now, in_log, &self.parties).map(drop)
    }

    fn record(&mut self, command: RecordingCommand) -> Result<EventRef, String> {
        let now = self.now();
        let events = self.trace.submit(command, now, in_recording, &self.parties)?;
        if self.trace.chain.events.is_multiple_of(CHECKPOINT_EVERY) {
            let extent = self.extent();
            self.tell(LogCommand::CheckpointTrace(extent))?;
        }
        let last = events.last().ok_or("no event")?;
        Ok(EventRef { event_id: last.event_id.clone(), seq: last.seq.unwrap_or_default() })
    }

    fn extent(&self) -> Extent {
        let chain = &self.trace.chain;
        Extent {
            trace_id: self.trace.id.to_string(),
            size: chain.events,
            head: chain.head,
            merkle_root: chain.tree.root(),
            last_event_at: chain.last_at,
        }
    }
}

/// Writes a recording of about `events` events, which a person ended, into `home`.
pub(super) fn write(home: &Path, events: u64) -> Result<LongRecording, String> {
    let parties =
        [Party::new("root", 1, Role::Recorder), Party::new("recorder", 2, Role::Recorder)];
    let root = parties.first().map(|root| root.secret.public_key().fingerprint());
    let root = root.ok_or("no root")?;
    let at = |millis: i64| Timestamp::from_millis(START + millis);
    let trace_id = Ulid::from_parts(at(100), 2);
    let events_path = home.join("traces").join(trace_id.to_string()).join("events.jsonl");
    let mut story = Story {
        parties,
        log: Ledger::create(Ulid::from_parts(at(1), 1), &home.join("log/events.jsonl"))?,
        trace: Ledger::create(trace_id, &events_path)?,
        millis: 0,
    };
    story.open(root)?;
    story.calls(home, events)?;
    story.end()?;
    fs::write(home.join("log/checkpoint"), story.checkpoint()?).map_err(|it| it.to_string())?;
    Ok(LongRecording { events: events_path, root })
}

impl Story {
    fn open(&mut self, root: Hash) -> Result<(), String> {
        let now = self.now();
        let [first, second] = &self.parties;
        let (root_identity, recorder) =
            (first.identity(&[Role::Recorder], now), second.identity(&[Role::Recorder], now));
        self.tell(LogCommand::Open {
            origin: origin(&root),
            root: root_identity,
            software: "bench".to_owned(),
        })?;
        self.tell(LogCommand::AddKey(recorder))?;
        self.millis = 100;
        let keys_head = self.log.state.keys_head.ok_or("no keys")?;
        let log = LogPin {
            origin: self.log.state.origin.clone(),
            size: self.log.chain.events,
            head: self.log.chain.head,
            keys_head,
        };
        self.record(RecordingCommand::Open {
            log,
            on_behalf_of: Some("coding-agent".to_owned()),
            client: None,
            objective: Some("make the tests pass".to_owned()),
            links: None,
        })?;
        self.tell(LogCommand::OpenTrace {
            trace_id: self.trace.id.to_string(),
            kind: TraceKind::Recording,
            first_event_hash: self.trace.chain.head,
            keys_head,
        })
    }

    /// One tool call after the other: intended, started, completed.
    fn calls(&mut self, home: &Path, events: u64) -> Result<(), String> {
        while self.trace.chain.events + 6 < events {
            let number = self.trace.chain.events / 3 % ARTIFACTS;
            let artifact = stored(home, number)?;
            let intent = self.record(RecordingCommand::Intend {
                tool_name: "edit_file".to_owned(),
                input_hash: artifact.artifact_hash,
                safety_classification: "standard".to_owned(),
                justification: "the test expects another order of members".to_owned(),
                artifacts: vec![artifact.clone()],
            })?;
            let execution = self.record(RecordingCommand::Start { intent })?;
            self.record(RecordingCommand::Complete {
                execution,
                exit_status: 0,
                artifacts: vec![artifact],
            })?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let now = self.now();
        // What a recorder writes that gave up.
        let reason = serde_json::json!({ "reason": "the bench is over" });
        let draft = Draft::new(countersign_format::event::EventType::SessionFailed, reason);
        let [_, recorder] = &self.parties;
        self.trace.push(recorder, now, draft)?;
        let status = self.trace.state.ended().ok_or("it has not ended")?;
        let extent = self.extent();
        self.tell(LogCommand::CloseTrace(extent, status))?;
        for file in [&mut self.log.file, &mut self.trace.file] {
            file.flush().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The note that a log of this size has beside it.
    fn checkpoint(&self) -> Result<String, String> {
        let [_, recorder] = &self.parties;
        let checkpoint = Checkpoint {
            origin: self.log.state.origin.clone(),
            size: self.log.chain.events,
            root: self.log.chain.tree.root(),
        };
        let note = checkpoint.sign(&recorder.secret).map_err(|error| error.to_string())?;
        Ok(note.to_string())
    }
}

fn stored(home: &Path, number: u64) -> Result<ArtifactDescriptor, String> {
    let bytes = format!(r#"{{"path":"src/file_{number}.rs"}}"#).into_bytes();
    let artifact_hash = Hash::of(&bytes);
    let path = home.join(storage_uri(&artifact_hash));
    let doing = |error| format!("cannot write `{}`: {error}", path.display());
    if !path.exists() {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(doing)?;
        }
        fs::write(&path, &bytes).map_err(doing)?;
    }
    Ok(ArtifactDescriptor {
        artifact_hash,
        hash_algorithm: "sha256".to_owned(),
        media_type: "application/json".to_owned(),
        encoding: "utf-8".to_owned(),
        byte_size: bytes.len() as u64,
        created_at: Timestamp::from_millis(START),
        producer_event_id: String::new(),
        storage_uri: storage_uri(&artifact_hash),
        redaction_status: RedactionStatus::None,
        unknown: Map::new(),
    })
}
