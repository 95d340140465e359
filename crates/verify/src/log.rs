//! The workspace log, read for one trace: the keys, and what it says of the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use countersign_format::event::{Event, EventType};
use countersign_format::hash::Hash;
use countersign_format::key::AgentIdentity;
use countersign_format::note::{Checkpoint, NoteKey, SignedNote};
use countersign_format::report::FailureCode;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::LogPin;
use countersign_protocol::State as _;
use countersign_protocol::log::{LogState, is_key_event};
use serde::Deserialize as _;
use serde_json::Value;

use crate::examine::Step;
use crate::findings::{CheckId, Findings, Place};
use crate::keys::{KeyBook, KeyEnd, tells_of_compromise};
use crate::lines::{Lines, RawLine};
use crate::pipeline::{Ledger, SharedRing};
use crate::profile::Profile;
use crate::signature::{self, Outcome};
use crate::walk::Walk;

/// Every entry of a log is signed, whatever the profile: the trust in everything else hangs on it.
const LOG_PROFILE: Profile = Profile { compromise_counts_back: false, ..Profile::STRICT };

/// A log that was read.
#[derive(Debug, Default)]
pub(crate) struct LogRead {
    /// Which key could sign what in the log itself.
    log_book: KeyBook,
    /// What became of keys, in order.
    changes: Vec<KeyChange>,
    /// What it says of the traces that were asked for.
    traces: BTreeMap<String, Told>,
    /// How it stood at the sizes that were asked for.
    marks: BTreeMap<u64, Mark>,
    origin: String,
    /// The log's own id.
    pub(crate) log_id: String,
    /// Fingerprint of the root key.
    root: Option<Hash>,
    pub(crate) entries: u64,
    /// Entries before the first that is out of order.
    pub(crate) trusted: u64,
    pub(crate) head: Option<Hash>,
    signatures: u64,
}

/// What became of a key at an entry of the log.
#[derive(Debug)]
struct KeyChange {
    entry: u64,
    retired: Option<KeyEnd>,
    added: Option<Box<AgentIdentity>>,
}

/// What a log says of one trace.
#[derive(Debug, Default)]
struct Told {
    /// Entry and hash of the first event.
    opened: Option<(u64, Hash)>,
    extents: Vec<Extent>,
    closed: bool,
}

/// How a log stood at some size.
#[derive(Debug)]
struct Mark {
    head: Hash,
    /// The last key event; unknown where the log could not be taken at its word.
    keys_head: Option<Hash>,
}

/// What a log says of one trace, and the keys for it.
#[derive(Debug)]
pub(crate) struct LogView {
    /// Which key could sign what in the trace.
    pub(crate) book: KeyBook,
    pub(crate) origin: String,
    /// Fingerprint of the root key.
    pub(crate) root: Option<Hash>,
    pub(crate) entries: u64,
    /// Hash of the trace's first event, as the log recorded it.
    pub(crate) opened: Option<Hash>,
    /// How far the trace had come, each time the log was told.
    pub(crate) extents: Vec<Extent>,
    pub(crate) closed: bool,
    /// Whether the log is as it was when the trace began.
    pub(crate) pin_holds: Option<bool>,
}

/// How far the trace had come at some time.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) entry: u64,
    pub(crate) size: u64,
    pub(crate) head: Option<Hash>,
    pub(crate) merkle_root: Option<Hash>,
    pub(crate) last_event_at: Option<Timestamp>,
}

/// What is wanted of a log.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) traces: Traces<'a>,
    /// The sizes at which traces have seen it.
    pub(crate) sizes: Sizes,
    pub(crate) checkpoints: &'a [Vec<u8>],
    pub(crate) profile: Profile,
}

/// At which sizes a log is looked at.
#[derive(Debug)]
pub(crate) enum Sizes {
    These(BTreeSet<u64>),
    All,
}

impl Sizes {
    fn contains(&self, size: u64) -> bool {
        match self {
            Self::These(sizes) => sizes.contains(&size),
            Self::All => true,
        }
    }
}

impl FromIterator<u64> for Sizes {
    fn from_iter<I: IntoIterator<Item = u64>>(sizes: I) -> Self {
        Self::These(sizes.into_iter().collect())
    }
}

/// Of which traces a log is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Traces<'a> {
    None,
    One(&'a str),
    All,
}

/// Reads a whole log.
pub(crate) fn read(
    reader: Box<dyn BufRead + '_>,
    wanted: &Wanted<'_>,
    findings: &mut Findings,
) -> io::Result<LogRead> {
    let mut walk = Walk::new(wanted.profile, None);
    let mut log = LogRead::default();
    let mut state = LogState::default();
    let mut known = BTreeMap::new();
    let mut checkpoints = parse_checkpoints(wanted.checkpoints, findings);
    let ring = SharedRing::default();
    Ledger::open(reader)?.each(&ring, &mut |examined| {
        let index = walk.index;
        let Some(step) = walk.line(examined, findings) else { return Ok(()) };
        log.meet_root(index, step, &ring);
        let signed = signature::check(step, index, &log.log_book, &LOG_PROFILE, findings);
        match signed {
            // Only what the root really signed changes which keys count.
            Outcome::Counts => {
                log.signatures += 1;
                log.learn_keys(index, step, &state, &ring);
            }
            Outcome::Absent | Outcome::Failed => walk.signature_failed(),
        }
        if let Some(event) = &step.event {
            if walk.sound {
                replay(&mut state, event, index, findings);
            }
            log.collect(event, index, wanted.traces);
            traces_only_grow(event, index, &mut known, findings);
        }
        if wanted.sizes.contains(walk.index) {
            let keys_head = state.keys_head.filter(|_| walk.sound);
            log.marks.insert(walk.index, Mark { head: walk.head, keys_head });
        }
        for kept in checkpoints.iter_mut().filter(|kept| kept.checkpoint.size == walk.index) {
            kept.root_then = Some(walk.tree.root());
        }
        Ok(())
    })?;
    log.entries = walk.index;
    log.trusted = walk.trusted();
    log.head = (walk.index > 0).then_some(walk.head);
    log.origin.clone_from(&state.origin);
    log.log_id = walk.trace_id().unwrap_or_default().to_owned();
    if walk.index == 0 {
        let message = "the log holds no events".to_owned();
        findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, &Place::default(), message);
    }
    for kept in &checkpoints {
        log.check_checkpoint(kept, &state, findings);
    }
    Ok(log)
}

/// Compares a log with a copy of it that was kept elsewhere: it may have grown since, no more.
pub(crate) fn hold_against(
    here: Box<dyn BufRead + '_>,
    kept: Box<dyn BufRead + '_>,
    findings: &mut Findings,
) -> io::Result<()> {
    let (mut here, mut kept) = (Lines::new(here), Lines::new(kept));
    let mut entry = 0;
    let message = loop {
        let wanted = match kept.next_line()? {
            Some(RawLine::Complete(wanted)) => wanted,
            // What a crash left at its end is no entry.
            None | Some(RawLine::Unterminated(_)) => return Ok(()),
            Some(RawLine::TooLong | RawLine::Endless) => {
                break format!("entry {entry} of the copy kept elsewhere cannot be read");
            }
        };
        match here.next_line()? {
            Some(RawLine::Complete(found)) if found == wanted => entry += 1,
            Some(RawLine::Complete(_) | RawLine::TooLong | RawLine::Endless) => {
                break format!("entry {entry} is not that of the copy kept elsewhere");
            }
            None | Some(RawLine::Unterminated(_)) => {
                break format!("the log has {entry} entries, the copy kept elsewhere has more");
            }
        }
    };
    let place = Place::event(entry, None);
    findings.fail(CheckId::Log, FailureCode::ChainBreak, &place, message);
    Ok(())
}

/// A checkpoint, and the root that the log had at its size.
struct Kept {
    checkpoint: Checkpoint,
    note: SignedNote,
    root_then: Option<Hash>,
}

fn parse_checkpoints(all: &[Vec<u8>], findings: &mut Findings) -> Vec<Kept> {
    let mut kept = Vec::new();
    for bytes in all {
        match parse_checkpoint(bytes) {
            Ok(one) => kept.push(one),
            // A checkpoint is not synced, so that power loss may tear it; and one that cannot be
            // read says as little as one that was deleted.
            Err(message) => {
                findings.warn(CheckId::Log, "CHECKPOINT_UNREADABLE", &Place::default(), message);
            }
        }
    }
    kept
}

fn parse_checkpoint(bytes: &[u8]) -> Result<Kept, String> {
    let note = SignedNote::parse(bytes)
        .map_err(|error| format!("the checkpoint is no signed note: {error}"))?;
    let checkpoint =
        note.text().parse().map_err(|error| format!("the checkpoint cannot be read: {error}"))?;
    Ok(Kept { checkpoint, note, root_then: None })
}

fn replay(state: &mut LogState, event: &Event, index: u64, findings: &mut Findings) {
    if let Err(refusal) = state.admit(event) {
        let (place, message) = (Place::of(event, index), refusal.to_string());
        findings.fail(CheckId::RolePolicy, FailureCode::RolePolicyViolation, &place, message);
    }
    state.apply(event);
}

/// How far the log had a trace, and whether it had it as opened.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    opened: bool,
    size: u64,
}

/// The writer's state forgets closed traces; the reader remembers how far each had come. A writer
/// that makes up for a dead one may tell of a trace's length before it tells that it was opened.
fn traces_only_grow(
    event: &Event,
    index: u64,
    traces: &mut BTreeMap<String, Known>,
    findings: &mut Findings,
) {
    let opens = match event.event_type {
        EventType::TraceOpened => true,
        EventType::TraceCheckpointed | EventType::TraceClosed => false,
        _ => return,
    };
    let trace_id = event.payload.get("trace_id").and_then(Value::as_str).unwrap_or_default();
    let size = event.payload.get("size").and_then(Value::as_u64).unwrap_or(0);
    let known = traces.entry(trace_id.to_owned()).or_default();
    let wrong = if opens && known.opened {
        "is opened a second time"
    } else if !opens && size < known.size {
        "has become shorter"
    } else {
        known.opened |= opens;
        known.size = known.size.max(size);
        return;
    };
    let (place, message) = (Place::of(event, index), format!("trace {trace_id} {wrong}"));
    findings.fail(CheckId::RolePolicy, FailureCode::RolePolicyViolation, &place, message);
}

impl LogRead {
    /// What the log says of a trace that began when the log stood as `pin` says.
    pub(crate) fn view(&self, trace_id: &str, pin: Option<&LogPin>) -> LogView {
        let nothing = Told::default();
        let told = self.traces.get(trace_id).unwrap_or(&nothing);
        let mark = pin.and_then(|pin| self.marks.get(&pin.size).map(|mark| (pin, mark)));
        let pin_holds = mark.map(|(pin, mark)| {
            pin.head == mark.head && mark.keys_head.is_none_or(|head| head == pin.keys_head)
        });
        LogView {
            book: self.book_for(told),
            origin: self.origin.clone(),
            root: self.root,
            entries: self.entries,
            opened: told.opened.map(|(_, hash)| hash),
            extents: told.extents.clone(),
            closed: told.closed,
            pin_holds,
        }
    }

    /// What it says of itself.
    pub(crate) fn own_view(&self) -> LogView {
        self.view("", None)
    }

    /// The traces that it knows.
    pub(crate) fn trace_ids(&self) -> impl Iterator<Item = &str> {
        self.traces.keys().map(String::as_str)
    }

    pub(crate) const fn signatures(&self) -> u64 {
        self.signatures
    }

    /// Keys as they count in one trace: those that were retired, only for what the log had of it
    /// by then.
    fn book_for(&self, told: &Told) -> KeyBook {
        let mut book = KeyBook::default();
        for change in &self.changes {
            if let Some(end) = &change.retired {
                let extents = told.extents.iter().filter(|extent| extent.entry < change.entry);
                let opened = told.opened.is_some_and(|(entry, _)| entry < change.entry);
                let size = extents.map(|extent| extent.size).max();
                book.retire(end, Some(size.unwrap_or(u64::from(opened))));
            }
            if let Some(identity) = &change.added {
                book.add(identity);
            }
        }
        book
    }

    /// The root is named by the first event, which it signs itself; whether to trust it is for the
    /// reader to say.
    fn meet_root(&mut self, index: u64, step: &Step, ring: &SharedRing) {
        let Some(event) = &step.event else { return };
        if index == 0
            && event.event_type == EventType::LogOpened
            && let Some(identity) = identity_in(event)
        {
            ring.learn(&identity.key_id, identity.public_key);
            self.log_book.add(&identity);
        }
    }

    /// Keys count from the event that names them on, which the root signed.
    fn learn_keys(&mut self, index: u64, step: &Step, state: &LogState, ring: &SharedRing) {
        let Some(event) = &step.event else { return };
        let by_root = event.actor.key_id == state.root_key_id;
        let first = index == 0 && event.event_type == EventType::LogOpened;
        if !is_key_event(event.event_type) || !(first || by_root) {
            return;
        }
        let retired = retired_in(event);
        if let Some(end) = &retired {
            self.log_book.retire(end, None);
        }
        let identity = identity_in(event);
        if let Some(identity) = &identity {
            ring.learn(&identity.key_id, identity.public_key);
            self.log_book.add(identity);
        }
        if first {
            // The root signs key events of the log, and nothing in a trace.
            self.root = identity.map(|identity| identity.public_key.fingerprint());
        } else {
            self.changes.push(KeyChange { entry: index, retired, added: identity });
        }
    }

    fn collect(&mut self, event: &Event, entry: u64, traces: Traces<'_>) {
        use EventType as T;
        if !matches!(event.event_type, T::TraceOpened | T::TraceCheckpointed | T::TraceClosed) {
            return;
        }
        let member = |name: &str| event.payload.get(name).and_then(Value::as_str);
        let hash = |name: &str| member(name).and_then(|text| text.parse::<Hash>().ok());
        let trace_id = member("trace_id").unwrap_or_default();
        match traces {
            Traces::None => return,
            Traces::One(wanted) if wanted != trace_id => return,
            Traces::One(_) | Traces::All => {}
        }
        let told = self.traces.entry(trace_id.to_owned()).or_default();
        if event.event_type == T::TraceOpened {
            let opened = hash("first_event_hash").map(|first| (entry, first));
            told.opened = told.opened.or(opened);
            return;
        }
        let size = event.payload.get("size").and_then(Value::as_u64).unwrap_or(0);
        let (head, merkle_root) = (hash("head"), hash("merkle_root"));
        let last_event_at = member("last_event_at").and_then(|text| text.parse().ok());
        told.extents.push(Extent { entry, size, head, merkle_root, last_event_at });
        told.closed |= event.event_type == T::TraceClosed;
    }

    fn check_checkpoint(&self, kept: &Kept, state: &LogState, findings: &mut Findings) {
        let Kept { checkpoint, note, root_then } = kept;
        let place = Place::default();
        let mut broken = |message: String| {
            findings.fail(CheckId::Log, FailureCode::ChainBreak, &place, message);
        };
        // First the size: of a log that was cut, the keys may be missing as well.
        if checkpoint.size > self.entries {
            return broken(format!(
                "the checkpoint is of {} entries, the log has {}",
                checkpoint.size, self.entries
            ));
        }
        if checkpoint.origin != state.origin {
            return broken(format!(
                "the checkpoint is of `{}`, the log of `{}`",
                checkpoint.origin, state.origin
            ));
        }
        // A key that was retired since counts too: otherwise whoever rewrites a log would only have
        // to revoke the key that signed what was kept elsewhere.
        let recorders = state.keys.values().map(|key| &key.identity).filter(|identity| {
            identity.role_capabilities.contains(&Role::Recorder)
                && identity.key_id != state.root_key_id
        });
        let known: Vec<NoteKey> = recorders
            .filter_map(|identity| NoteKey::new(&state.origin, identity.public_key).ok())
            .collect();
        if !note.verify(&known).is_ok_and(|signers| !signers.is_empty()) {
            let message = "the checkpoint is not signed by a recorder key of this log".to_owned();
            return findings.fail(CheckId::Log, FailureCode::SigInvalid, &place, message);
        }
        match root_then {
            Some(root) if *root == checkpoint.root => {
                findings.evidence(CheckId::Log, format!("checkpoint at entry {}", checkpoint.size));
            }
            Some(_) => broken(format!(
                "the log's first {} entries are not those of its checkpoint",
                checkpoint.size
            )),
            None => {}
        }
    }
}

/// The key that a key event brings.
fn identity_in(event: &Event) -> Option<Box<AgentIdentity>> {
    AgentIdentity::deserialize(event.payload.get("identity")?).ok().map(Box::new)
}

/// The key that a key event ends, when, and how.
pub(crate) fn retired_in(event: &Event) -> Option<KeyEnd> {
    let (key_id, at, how) = match event.event_type {
        EventType::KeyRevoked => ("key_id", "revoked_at", "revoked"),
        EventType::KeyRotated => ("rotated_key_id", "rotated_at", "rotated"),
        _ => return None,
    };
    let member = |name: &str| event.payload.get(name).and_then(Value::as_str);
    let at = member(at).and_then(|text| text.parse::<Timestamp>().ok());
    Some(KeyEnd {
        key_id: member(key_id)?.to_owned(),
        at: at.unwrap_or(event.created_at),
        how,
        compromised: event.event_type == EventType::KeyRevoked
            && member("reason").is_some_and(tells_of_compromise),
    })
}
