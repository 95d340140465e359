//! An extract of a log, taken at its word as far as it proves itself.
//!
//! Every entry must be in the tree of the checkpoint, the key events must be all of them, and the
//! checkpoint must be signed by a recorder key that they leave active. What lies between the
//! entries is not looked at: nobody can.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::{AgentIdentity, KeyStatus};
use countersign_format::merkle::verify_inclusion;
use countersign_format::note::{Checkpoint, NoteKey, SignedNote};
use countersign_format::proof::{ExtractEntry, LogExtract};
use countersign_format::report::{FailureCode, VerificationStatus};
use countersign_format::role::Role;
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;
use countersign_protocol::log::{LogState, is_key_event};
use countersign_protocol::{Refusal, State as _};
use serde_json::Value;

use crate::examine::{Examined, Ring, Step, examine};
use crate::findings::{CheckId, Findings, Place};
use crate::keys::{KeyBook, KeyEnd};
use crate::log::retired_in;
use crate::profile::Profile;
use crate::signature::{self, Outcome};

/// Every event of a proof is signed, whatever the profile of the reader.
pub(crate) const SIGNED_THROUGHOUT: Profile =
    Profile { compromise_counts_back: false, ..Profile::STRICT };

/// What an extract says of a log and of one trace.
#[derive(Debug, Default)]
pub(crate) struct ExtractView {
    pub(crate) origin: String,
    /// Fingerprint of the root key, which signed the first entry.
    pub(crate) root: Option<Hash>,
    /// Entries that the log had at the checkpoint.
    pub(crate) size: u64,
    /// The entry that opened the trace, and the hash of the first event that it names.
    pub(crate) opened: Option<(u64, Hash)>,
    /// How far the trace had come, each time the log was told.
    pub(crate) extents: Vec<TraceExtent>,
    /// Whether the log has the trace closed.
    pub(crate) closed: bool,
    /// Hashes of all entries that are in the extract.
    pub(crate) hashes: BTreeMap<u64, Hash>,
    /// Recorder keys, retired ones too: what was kept elsewhere may be signed by any of them.
    pub(crate) recorders: Vec<NoteKey>,
    /// The key events among them, by their place.
    key_events: BTreeMap<u64, Hash>,
    changes: Vec<(u64, KeyChange)>,
}

/// How far a trace had come, by an entry of the log.
#[derive(Debug, Clone)]
pub(crate) struct TraceExtent {
    pub(crate) entry: u64,
    pub(crate) size: u64,
    pub(crate) head: Hash,
    pub(crate) merkle_root: Hash,
    pub(crate) last_event_at: Timestamp,
}

#[derive(Debug)]
enum KeyChange {
    Added(Box<AgentIdentity>),
    Retired(KeyEnd),
}

impl ExtractView {
    /// The keys for a trace of which the log had `size(entry)` events before an entry.
    pub(crate) fn book(&self, size: impl Fn(u64) -> u64) -> KeyBook {
        let mut book = KeyBook::default();
        for (entry, change) in &self.changes {
            match change {
                KeyChange::Added(identity) => book.add(identity),
                KeyChange::Retired(end) => book.retire(end, Some(size(*entry))),
            }
        }
        book
    }

    /// The last key event before the entry `index`.
    pub(crate) fn keys_head_before(&self, index: u64) -> Option<Hash> {
        self.key_events.range(..index).next_back().map(|(_, hash)| *hash)
    }
}

/// A line that is a valid event with the hashes that it states.
#[derive(Debug)]
pub(crate) struct SoundLine {
    step: Box<Step>,
    pub(crate) event: Event,
    pub(crate) seq: u64,
}

/// What is wrong with a line.
pub(crate) type LineFinding = (CheckId, FailureCode, String);

/// Takes a line apart and holds it against its schema and its hashes.
pub(crate) fn sound_line(line: &str) -> Result<SoundLine, LineFinding> {
    let invalid = |message: String| (CheckId::Schema, FailureCode::SchemaInvalid, message);
    let step = match examine(line.as_bytes(), &Ring::default()) {
        Examined::Line(step) => step,
        Examined::Unreadable(fault) => return Err(invalid(fault)),
        Examined::TooLong | Examined::Endless | Examined::Torn => {
            return Err(invalid("no line".to_owned()));
        }
    };
    if let Some(fault) = step.faults.first() {
        return Err(invalid(fault.clone()));
    }
    if step.dialect != Dialect::V1_1 {
        return Err(invalid("/schema_version: proofs are of schema 1.1".to_owned()));
    }
    let event = step.event.clone().ok_or_else(|| invalid("no event".to_owned()))?;
    let differs = |what: &str, computed: Hash, stated: Hash| {
        let message = format!("the {what} hashes to {computed}, the event states {stated}");
        (CheckId::EventHash, FailureCode::HashMismatch, message)
    };
    if let Some(computed) = step.computed.payload.filter(|&it| it != event.payload_hash) {
        return Err(differs("payload", computed, event.payload_hash));
    }
    if let Some(computed) = step.computed.event.filter(|&it| it != event.event_hash) {
        return Err(differs("event", computed, event.event_hash));
    }
    let seq = event.seq.ok_or_else(|| invalid("/seq: missing".to_owned()))?;
    Ok(SoundLine { step, event, seq })
}

/// Checks the signature of a line by `profile`, one that has every event signed. What is wrong goes
/// into `findings`; true if it verified and counts.
pub(crate) fn signed(
    line: &SoundLine,
    book: &KeyBook,
    profile: &Profile,
    findings: &mut Findings,
) -> bool {
    let failed = |findings: &Findings| findings.status() == VerificationStatus::Fail;
    let before = failed(findings);
    let checked = signature::check(&line.step, line.seq, book, profile, findings);
    checked == Outcome::Counts && failed(findings) == before
}

/// Reads an extract for one trace.
pub(crate) fn read(extract: &LogExtract, trace_id: &str, findings: &mut Findings) -> ExtractView {
    let mut walk = ExtractWalk {
        trace_id,
        view: ExtractView::default(),
        log_book: KeyBook::default(),
        state: LogState::default(),
        log_id: String::new(),
        last: None,
    };
    let (note, checkpoint) = match parse_note(extract.checkpoint.as_bytes()) {
        Ok(parsed) => parsed,
        Err(message) => {
            broken(findings, FailureCode::SchemaInvalid, message);
            return walk.view;
        }
    };
    walk.view.size = checkpoint.size;
    for entry in &extract.entries {
        if let Err((code, message)) = walk.entry(entry, &checkpoint) {
            broken(findings, code, format!("log entry {}: {message}", entry.index));
            // What follows could only be judged by what this one says.
            return walk.view;
        }
    }
    if let Err((code, message)) = walk.end(&note, &checkpoint) {
        broken(findings, code, message);
    }
    walk.view
}

/// A checkpoint as a signed note. Nothing is verified yet.
pub(crate) fn parse_note(bytes: &[u8]) -> Result<(SignedNote, Checkpoint), String> {
    let note = SignedNote::parse(bytes)
        .map_err(|error| format!("the checkpoint is no signed note: {error}"))?;
    let checkpoint =
        note.text().parse().map_err(|error| format!("the checkpoint cannot be read: {error}"))?;
    Ok((note, checkpoint))
}

fn broken(findings: &mut Findings, code: FailureCode, message: String) {
    findings.fail(CheckId::Log, code, &Place::default(), message);
}

type EntryFinding = (FailureCode, String);

struct ExtractWalk<'a> {
    trace_id: &'a str,
    view: ExtractView,
    log_book: KeyBook,
    state: LogState,
    log_id: String,
    /// Number, hash and id of the entry before.
    last: Option<(u64, Hash, Ulid)>,
}

impl ExtractWalk<'_> {
    fn entry(&mut self, entry: &ExtractEntry, tree: &Checkpoint) -> Result<(), EntryFinding> {
        let line = sound_line(&entry.line).map_err(|(_, code, message)| (code, message))?;
        self.place(entry, &line, tree)?;
        if entry.index == 0 {
            self.meet_root(&line.event);
        }
        self.signature(&line)?;
        self.rules(&line.event)?;
        self.learn(entry.index, &line.event);
        self.state.apply(&line.event);
        Ok(())
    }

    /// It is where it says, in the log that the checkpoint is of.
    fn place(
        &mut self,
        entry: &ExtractEntry,
        line: &SoundLine,
        tree: &Checkpoint,
    ) -> Result<(), EntryFinding> {
        let (index, event) = (entry.index, &line.event);
        let misplaced = |message: String| Err((FailureCode::ChainBreak, message));
        if line.seq != index {
            return misplaced(format!("the event says that it is number {}", line.seq));
        }
        let unreadable = |_| (FailureCode::SchemaInvalid, "/event_id: not a ULID".to_owned());
        let id: Ulid = event.event_id.parse().map_err(unreadable)?;
        if index == 0 {
            // A log is named by its first event.
            self.log_id.clone_from(&event.event_id);
        }
        match self.last {
            None if index != 0 => return misplaced("the entries before are missing".to_owned()),
            None if event.prev_event_hash != Hash::GENESIS => {
                return misplaced("the first entry follows another one".to_owned());
            }
            Some((last, _, last_id)) if index <= last || id <= last_id => {
                return misplaced("entries and their ids must rise".to_owned());
            }
            Some((last, hash, _)) if last + 1 == index && event.prev_event_hash != hash => {
                return misplaced("it does not follow the entry before".to_owned());
            }
            _ => {}
        }
        if event.trace_id != self.log_id {
            let message = format!("/trace_id: this log is {}", self.log_id);
            return Err((FailureCode::SchemaInvalid, message));
        }
        verify_inclusion(&event.event_hash, index, tree.size, &entry.path, &tree.root)
            .or_else(|error| misplaced(format!("not in the tree of the checkpoint: {error}")))?;
        self.last = Some((index, event.event_hash, id));
        self.view.hashes.insert(index, event.event_hash);
        Ok(())
    }

    /// The root is named by the first entry, which it signs itself; whether to trust it is for the
    /// reader to say.
    fn meet_root(&mut self, event: &Event) {
        if let (EventType::LogOpened, Some(identity)) = (event.event_type, identity(event)) {
            self.log_book.add(&identity);
        }
    }

    fn signature(&self, line: &SoundLine) -> Result<(), EntryFinding> {
        let mut found = Findings::default();
        let verified = signed(line, &self.log_book, &SIGNED_THROUGHOUT, &mut found);
        let (_, failures, _) = found.into_parts();
        match failures.into_iter().next() {
            Some(failure) => Err((failure.failure_code, failure.message)),
            None if verified => Ok(()),
            None => Err((FailureCode::SigInvalid, "the signature does not count".to_owned())),
        }
    }

    /// The log's own rules, as far as they do not depend on what was left out: those on keys, whose
    /// events are all here, and those on this trace, whose entries are all here.
    fn rules(&self, event: &Event) -> Result<(), EntryFinding> {
        match self.state.admit(event) {
            Ok(()) => {}
            Err(
                Refusal::TraceKnown { trace_id }
                | Refusal::TraceNotOpen { trace_id }
                | Refusal::NotLonger { trace_id, .. },
            ) if trace_id != self.trace_id => {}
            // This is what shows that no key event was left out.
            Err(refusal @ Refusal::KeysHeadDiffers { .. }) => {
                return Err((FailureCode::ChainBreak, refusal.to_string()));
            }
            Err(refusal) => return Err((FailureCode::RolePolicyViolation, refusal.to_string())),
        }
        let shorter = |extent: TraceExtent| {
            self.view.extents.last().is_some_and(|last| extent.size < last.size)
        };
        if self.is_of_trace(event) && trace_extent(0, event).is_some_and(shorter) {
            let message = format!("trace {} has become shorter", self.trace_id);
            return Err((FailureCode::RolePolicyViolation, message));
        }
        Ok(())
    }

    fn is_of_trace(&self, event: &Event) -> bool {
        text(event, "trace_id") == Some(self.trace_id)
    }

    /// Takes in what a verified entry says of keys and of the trace.
    fn learn(&mut self, index: u64, event: &Event) {
        if let Some(end) = retired_in(event) {
            self.log_book.retire(&end, None);
            self.view.changes.push((index, KeyChange::Retired(end)));
        }
        if is_key_event(event.event_type) {
            self.view.key_events.insert(index, event.event_hash);
            if let Some(identity) = identity(event) {
                self.log_book.add(&identity);
                if index == 0 {
                    // The root signs key events of the log, and nothing in a trace.
                    self.view.root = Some(identity.public_key.fingerprint());
                } else {
                    let added = KeyChange::Added(Box::new(identity));
                    self.view.changes.push((index, added));
                }
            }
        }
        if self.is_of_trace(event) {
            if event.event_type == EventType::TraceOpened {
                let first = text(event, "first_event_hash").and_then(|text| text.parse().ok());
                self.view.opened = first.map(|first| (index, first));
            }
            self.view.closed |= event.event_type == EventType::TraceClosed;
            self.view.extents.extend(trace_extent(index, event));
        }
    }

    /// Nothing is missing at the end, and the checkpoint speaks for this log.
    fn end(&mut self, note: &SignedNote, tree: &Checkpoint) -> Result<(), EntryFinding> {
        let last = self.last.map(|(index, _, _)| index);
        if tree.size == 0 || last != Some(tree.size - 1) {
            let message = format!(
                "the last of the log's {} entries is not there: a key event could be missing",
                tree.size
            );
            return Err((FailureCode::ChainBreak, message));
        }
        if tree.origin != self.state.origin {
            let message = format!(
                "the checkpoint is of `{}`, the log of `{}`",
                tree.origin, self.state.origin
            );
            return Err((FailureCode::ChainBreak, message));
        }
        self.view.origin.clone_from(&self.state.origin);
        // All hangs on this note, so that a key that was retired before does not count: whoever
        // stole it could put anything between the entries that the root signed.
        let active = recorder_keys(&self.state, |status| status == KeyStatus::Active);
        if !note.verify(&active).is_ok_and(|signers| !signers.is_empty()) {
            let message = "the checkpoint is not signed by an active recorder key of this log";
            return Err((FailureCode::SigInvalid, message.to_owned()));
        }
        self.view.recorders = recorder_keys(&self.state, |_| true);
        Ok(())
    }
}

/// The recorder keys that a log names, under the name of its checkpoints.
fn recorder_keys(state: &LogState, counts: impl Fn(KeyStatus) -> bool) -> Vec<NoteKey> {
    let identities = state.keys.values().map(|key| &key.identity);
    identities
        .filter(|identity| {
            identity.role_capabilities.contains(&Role::Recorder)
                && identity.key_id != state.root_key_id
                && counts(identity.status)
        })
        .filter_map(|identity| NoteKey::new(&state.origin, identity.public_key).ok())
        .collect()
}

fn text<'e>(event: &'e Event, member: &str) -> Option<&'e str> {
    event.payload.get(member).and_then(Value::as_str)
}

fn identity(event: &Event) -> Option<AgentIdentity> {
    serde_json::from_value(event.payload.get("identity")?.clone()).ok()
}

/// What an entry says of how far a trace had come.
pub(crate) fn trace_extent(entry: u64, event: &Event) -> Option<TraceExtent> {
    if !matches!(event.event_type, EventType::TraceCheckpointed | EventType::TraceClosed) {
        return None;
    }
    Some(TraceExtent {
        entry,
        size: event.payload.get("size").and_then(Value::as_u64)?,
        head: text(event, "head")?.parse().ok()?,
        merkle_root: text(event, "merkle_root")?.parse().ok()?,
        last_event_at: text(event, "last_event_at")?.parse().ok()?,
    })
}
