//! Making the proof of one event: what of its trace and of the log must be shown.
//!
//! Reads only. Whether the trace holds is asked first: a proof is never made from a broken one.

use std::io;

use countersign_format::event::{Event, Reading, SCHEMA_VERSION};
use countersign_format::hash::Hash;
use countersign_format::merkle::{ProofError, Tree};
use countersign_format::note::Checkpoint;
use countersign_format::proof::{EventProof, ExtentPaths, ExtractEntry, LogExtract, NoProof};
use countersign_format::report::{Failure, VerificationStatus};
use countersign_protocol::log::is_key_event;
use serde_json::Value;

use crate::extract::{TraceExtent, parse_note, trace_extent};
use crate::inclusion::pin_of;
use crate::lines::{Lines, RawLine};
use crate::{Options, Source, verify_prefix};

/// How an event is named by people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventName {
    /// By its place in the trace, from 0.
    Seq(u64),
    /// By its id or the beginning of it.
    Id(String),
}

impl EventName {
    /// What `text` means: a number without leading zeros, or an id. Ids begin with a zero.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let plain = text == "0" || !text.starts_with('0');
        match text.parse() {
            Ok(seq) if plain && text.bytes().all(|byte| byte.is_ascii_digit()) => Self::Seq(seq),
            _ => Self::Id(text.to_owned()),
        }
    }

    fn means(&self, event: &Event, index: u64) -> bool {
        match self {
            Self::Seq(seq) => *seq == index,
            Self::Id(id) => event.event_id.starts_with(id.as_str()),
        }
    }
}

/// Why there is no proof of an event.
#[derive(Debug, thiserror::Error)]
pub enum Unprovable {
    /// Something could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The trace, or the log, does not hold.
    #[error("the trace does not verify: {}", first(.0))]
    Broken(Vec<Failure>),
    /// Nothing says who signed the trace.
    #[error("there is no workspace log, and without it nothing can be proven")]
    NoLog,
    /// The event is not in the trace.
    #[error("the trace has no event `{name}`; it has {events} events")]
    NoSuchEvent {
        /// What was asked for.
        name: String,
        /// How many there are.
        events: u64,
    },
    /// Several events begin so.
    #[error("`{name}` begins the ids of {count} events")]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// How many.
        count: usize,
    },
    /// The log does not know the event yet.
    #[error("the log knows {known} of this trace's events, this is number {}", .seq + 1)]
    NotCovered {
        /// Events that the log knows.
        known: u64,
        /// The event.
        seq: u64,
    },
    /// The log has no checkpoint that could be shown.
    #[error("the log's checkpoint is missing or cannot be read")]
    NoCheckpoint,
    /// The checkpoint does not reach far enough.
    #[error("the log's checkpoint is of {size} entries, and entry {entry} must be shown")]
    CheckpointTooOld {
        /// Entries that it counts.
        size: u64,
        /// The first entry that lies behind it.
        entry: u64,
    },
    /// The proof would be larger than readers take.
    #[error(transparent)]
    TooLarge(#[from] NoProof),
    /// The log or the trace changed while it was read.
    #[error("the log or the trace changed while it was read")]
    Changed(#[from] ProofError),
}

fn first(failures: &[Failure]) -> &str {
    failures.first().map_or("", |failure| &failure.message)
}

/// Makes the proof of one event of the trace.
///
/// # Errors
/// If the trace does not hold, or the log does not show the event.
pub fn prove(
    source: &dyn Source,
    name: &EventName,
    options: &Options,
) -> Result<EventProof, Unprovable> {
    let Some(log) = source.log()? else { return Err(Unprovable::NoLog) };
    drop(log);
    let report = verify_prefix(source, options)?;
    if report.verification_status == VerificationStatus::Fail {
        return Err(Unprovable::Broken(report.failures));
    }
    let trace = TraceLines::read(source, name)?;
    let (note, checkpoint) = newest_checkpoint(source)?;
    let log = LogLines::read(source, &trace.trace_id, trace.pinned, &checkpoint)?;
    let covering: Vec<_> = log.extents.iter().filter(|extent| extent.size > trace.seq).collect();
    let (Some(first), Some(last)) = (covering.first(), covering.last()) else {
        let known = log.extents.iter().map(|extent| extent.size).max();
        let known = known.unwrap_or(u64::from(log.opened));
        return Err(Unprovable::NotCovered { known, seq: trace.seq });
    };
    if let Some((entry, _)) = log.needed.iter().find(|(entry, _)| *entry >= checkpoint.size) {
        return Err(Unprovable::CheckpointTooOld { size: checkpoint.size, entry: *entry });
    }
    let mut extents = vec![trace.paths(first)?];
    if last.entry != first.entry {
        extents.push(trace.paths(last)?);
    }
    let proof = EventProof {
        countersign: "proof".to_owned(),
        event: trace.event,
        extents,
        first: trace.first,
        log: log.extract(note, checkpoint.size)?,
        schema_version: SCHEMA_VERSION.to_owned(),
    };
    proof.within_limits()?;
    Ok(proof)
}

/// What must be shown of the log with a whole trace: its checkpoint, the key events, every entry on
/// this trace, the one that it is pinned to and the last one.
///
/// # Errors
/// If the log cannot be read, or its checkpoint does not cover them.
pub fn log_extract(source: &dyn Source, first: &Event) -> Result<LogExtract, Unprovable> {
    let (note, checkpoint) = newest_checkpoint(source)?;
    let pinned = pin_of(first).map_or(0, |pin| pin.size);
    let log = LogLines::read(source, &first.trace_id, pinned, &checkpoint)?;
    if let Some((entry, _)) = log.needed.iter().find(|(entry, _)| *entry >= checkpoint.size) {
        return Err(Unprovable::CheckpointTooOld { size: checkpoint.size, entry: *entry });
    }
    Ok(log.extract(note, checkpoint.size)?)
}

/// The checkpoint that reaches furthest.
fn newest_checkpoint(source: &dyn Source) -> Result<(String, Checkpoint), Unprovable> {
    let notes = source.checkpoints()?;
    let readable = notes.iter().filter_map(|bytes| parse_note(bytes).ok());
    readable
        .map(|(note, checkpoint)| (note.to_string(), checkpoint))
        .max_by_key(|(_, checkpoint)| checkpoint.size)
        .ok_or(Unprovable::NoCheckpoint)
}

/// Calls `visit` with every whole line, its event and its place.
fn each_line(
    reader: Box<dyn io::BufRead + '_>,
    mut visit: impl FnMut(u64, &[u8], Event),
) -> io::Result<u64> {
    let (mut lines, mut index) = (Lines::new(reader), 0);
    while let Some(raw) = lines.next_line()? {
        let (RawLine::Complete(line) | RawLine::Unterminated(line)) = raw else { break };
        let Some(event) = Reading::of(line).ok().and_then(Reading::into_event) else { break };
        visit(index, line, event);
        index += 1;
    }
    Ok(index)
}

fn text_of(line: &[u8]) -> String {
    // A line that could be read is UTF-8.
    String::from_utf8_lossy(line).into_owned()
}

/// What must be known of the trace.
struct TraceLines {
    trace_id: String,
    first: String,
    event: String,
    seq: u64,
    /// Entries of the log when the trace began.
    pinned: u64,
    tree: Tree,
}

impl TraceLines {
    fn read(source: &dyn Source, name: &EventName) -> Result<Self, Unprovable> {
        let mut hashes = Vec::new();
        let mut found = Vec::new();
        let mut begin = None;
        let events = each_line(source.events()?, |index, line, event| {
            hashes.push(event.event_hash);
            // More than a few candidates are of no use to anybody.
            if name.means(&event, index) && found.len() < CANDIDATES_MAX {
                found.push((index, text_of(line)));
            }
            if index == 0 {
                let pinned = pin_of(&event).map_or(0, |pin| pin.size);
                begin = Some((event.trace_id, text_of(line), pinned));
            }
        })?;
        let name = match name {
            EventName::Seq(seq) => seq.to_string(),
            EventName::Id(id) => id.clone(),
        };
        let (seq, event) = match (found.pop(), found.len()) {
            (Some(found), 0) => found,
            (Some(_), others) => return Err(Unprovable::Ambiguous { name, count: others + 1 }),
            (None, _) => return Err(Unprovable::NoSuchEvent { name, events }),
        };
        let (trace_id, first, pinned) = begin.unwrap_or_default();
        Ok(Self { trace_id, first, event, seq, pinned, tree: Tree::new(&hashes) })
    }

    fn paths(&self, extent: &TraceExtent) -> Result<ExtentPaths, ProofError> {
        Ok(ExtentPaths {
            entry: extent.entry,
            event_path: self.tree.inclusion_proof(self.seq, extent.size)?,
            first_path: self.tree.inclusion_proof(0, extent.size)?,
        })
    }
}

/// Events that an ambiguous name is counted up to.
const CANDIDATES_MAX: usize = 1_000;

/// What must be shown of the log.
struct LogLines {
    hashes: Vec<Hash>,
    /// Key events, entries on the trace, the entry that it is pinned to and the last one.
    needed: Vec<(u64, String)>,
    extents: Vec<TraceExtent>,
    opened: bool,
}

impl LogLines {
    fn read(
        source: &dyn Source,
        trace_id: &str,
        pinned: u64,
        checkpoint: &Checkpoint,
    ) -> Result<Self, Unprovable> {
        let Some(reader) = source.log()? else { return Err(Unprovable::NoLog) };
        let (mut hashes, mut needed, mut extents) = (Vec::new(), Vec::new(), Vec::new());
        let mut opened = false;
        each_line(reader, |index, line, event| {
            hashes.push(event.event_hash);
            let named = event.payload.get("trace_id").and_then(Value::as_str);
            let own = named == Some(trace_id);
            let edge = index + 1 == pinned || index + 1 == checkpoint.size;
            if own || edge || is_key_event(event.event_type) {
                needed.push((index, text_of(line)));
            }
            if own {
                opened = true;
                extents.extend(trace_extent(index, &event));
            }
        })?;
        Ok(Self { hashes, needed, extents, opened })
    }

    fn extract(self, checkpoint: String, size: u64) -> Result<LogExtract, ProofError> {
        let tree = Tree::new(&self.hashes);
        let entry = |(index, line)| {
            let path = tree.inclusion_proof(index, size)?;
            Ok(ExtractEntry { index, line, path })
        };
        let entries: Result<_, ProofError> = self.needed.into_iter().map(entry).collect();
        Ok(LogExtract { checkpoint, entries: entries? })
    }
}
