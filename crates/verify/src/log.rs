//! The workspace log, read for one trace: the keys, and what it says of the trace.

use std::collections::BTreeMap;
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
use serde_json::Value;

use crate::findings::{CheckId, Findings, Place};
use crate::keys::KeyBook;
use crate::lines::Lines;
use crate::profile::Profile;
use crate::signature;
use crate::walk::{Step, Walk};

/// Every entry of a log is signed, whatever the profile: the trust in everything else hangs on it.
const LOG_PROFILE: Profile = Profile::STRICT;

/// What a log says of one trace.
#[derive(Debug, Default)]
pub(crate) struct LogView {
    /// Which key could sign what in the trace.
    pub(crate) book: KeyBook,
    /// Which key could sign what in the log itself.
    log_book: KeyBook,
    pub(crate) origin: String,
    /// The log's own id.
    pub(crate) log_id: String,
    /// Fingerprint of the root key.
    pub(crate) root: Option<Hash>,
    pub(crate) entries: u64,
    pub(crate) head: Option<Hash>,
    pub(crate) signatures: u64,
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
    pub(crate) trace_id: &'a str,
    pub(crate) pin: Option<&'a LogPin>,
    pub(crate) checkpoints: &'a [Vec<u8>],
    pub(crate) profile: Profile,
}

/// Reads a whole log.
pub(crate) fn read(
    reader: Box<dyn BufRead + '_>,
    wanted: &Wanted<'_>,
    findings: &mut Findings,
) -> io::Result<LogView> {
    let mut lines = Lines::new(reader);
    let mut walk = Walk::new(wanted.profile, None);
    let mut view = LogView::default();
    let mut state = LogState::default();
    let mut traces = BTreeMap::new();
    let mut checkpoints = parse_checkpoints(wanted.checkpoints, findings);
    while let Some(raw) = lines.next_line()? {
        let Some(step) = walk.line(&raw, findings) else { continue };
        view.meet_root(&step);
        let verified = signature::check(
            &step.reading,
            step.index,
            &step.place,
            &view.log_book,
            &LOG_PROFILE,
            findings,
        );
        view.signatures += u64::from(verified);
        // Only what the root really signed changes which keys count.
        if verified {
            view.learn_keys(&step, &state);
        }
        if let Some(event) = &step.event {
            if walk.sound {
                replay(&mut state, event, &step, findings);
            }
            view.collect(event, step.index, wanted.trace_id);
            traces_only_grow(event, &step, &mut traces, findings);
        }
        if let Some(pin) = wanted.pin.filter(|pin| pin.size == walk.index) {
            let keys_head = state.keys_head == Some(pin.keys_head);
            view.pin_holds = Some(pin.head == walk.head && (keys_head || !walk.sound));
        }
        for kept in checkpoints.iter_mut().filter(|kept| kept.checkpoint.size == walk.index) {
            kept.root_then = Some(walk.tree.root());
        }
    }
    view.entries = walk.index;
    view.head = (walk.index > 0).then_some(walk.head);
    view.origin = state.origin.clone();
    view.log_id = walk.trace_id().unwrap_or_default().to_owned();
    if walk.index == 0 {
        let message = "the log holds no events".to_owned();
        findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, &Place::default(), message);
    }
    for kept in &checkpoints {
        view.check_checkpoint(kept, &state, findings);
    }
    Ok(view)
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

fn replay(state: &mut LogState, event: &Event, step: &Step, findings: &mut Findings) {
    if let Err(refusal) = state.admit(event) {
        let message = refusal.to_string();
        findings.fail(CheckId::RolePolicy, FailureCode::RolePolicyViolation, &step.place, message);
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
    step: &Step,
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
    let message = format!("trace {trace_id} {wrong}");
    findings.fail(CheckId::RolePolicy, FailureCode::RolePolicyViolation, &step.place, message);
}

impl LogView {
    /// The root is named by the first event, which it signs itself; whether to trust it is for the
    /// reader to say.
    fn meet_root(&mut self, step: &Step) {
        let Some(event) = &step.event else { return };
        if step.index == 0 && event.event_type == EventType::LogOpened {
            let identity = event.payload.get("identity").cloned().unwrap_or_default();
            if let Ok(identity) = serde_json::from_value::<AgentIdentity>(identity) {
                self.log_book.add(&identity);
            }
        }
    }

    /// Keys count from the event that names them on, which the root signed.
    fn learn_keys(&mut self, step: &Step, state: &LogState) {
        let Some(event) = &step.event else { return };
        let by_root = event.actor.key_id == state.root_key_id;
        let first = step.index == 0 && event.event_type == EventType::LogOpened;
        if !is_key_event(event.event_type) || !(first || by_root) {
            return;
        }
        let size = self.extents.iter().map(|extent| extent.size).max();
        let size = Some(size.unwrap_or(u64::from(self.opened.is_some())));
        let member = |name: &str| event.payload.get(name).and_then(Value::as_str);
        let time = |name: &str| member(name).and_then(|text| text.parse::<Timestamp>().ok());
        match event.event_type {
            EventType::KeyRevoked => {
                let at = time("revoked_at").unwrap_or(event.created_at);
                let key_id = member("key_id").unwrap_or_default();
                self.book.retire(key_id, at, size, "revoked");
                self.log_book.retire(key_id, at, None, "revoked");
            }
            EventType::KeyRotated => {
                let at = time("rotated_at").unwrap_or(event.created_at);
                let old = member("rotated_key_id").unwrap_or_default();
                self.book.retire(old, at, size, "rotated");
                self.log_book.retire(old, at, None, "rotated");
            }
            _ => {}
        }
        let identity = event.payload.get("identity").cloned().unwrap_or_default();
        if let Ok(identity) = serde_json::from_value::<AgentIdentity>(identity) {
            self.log_book.add(&identity);
            if first {
                // The root signs key events of the log, and nothing in a trace.
                self.root = Some(identity.public_key.fingerprint());
            } else {
                self.book.add(&identity);
            }
        }
    }

    fn collect(&mut self, event: &Event, entry: u64, trace_id: &str) {
        let member = |name: &str| event.payload.get(name).and_then(Value::as_str);
        let hash = |name: &str| member(name).and_then(|text| text.parse::<Hash>().ok());
        if member("trace_id") != Some(trace_id) {
            return;
        }
        match event.event_type {
            EventType::TraceOpened => self.opened = self.opened.or(hash("first_event_hash")),
            EventType::TraceCheckpointed | EventType::TraceClosed => {
                let size = event.payload.get("size").and_then(Value::as_u64).unwrap_or(0);
                let (head, merkle_root) = (hash("head"), hash("merkle_root"));
                let last_event_at = member("last_event_at").and_then(|text| text.parse().ok());
                self.extents.push(Extent { entry, size, head, merkle_root, last_event_at });
                self.closed |= event.event_type == EventType::TraceClosed;
            }
            _ => {}
        }
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
