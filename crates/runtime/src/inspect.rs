//! Looking at what is stored, without writing: traces, their summaries, what the log says of them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use countersign_format::event::{Event, EventType, SCHEMA_VERSION, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::trace_session::{Participant, TraceSession, TraceStatus};
use countersign_protocol::chain::Chain;
use countersign_protocol::{ending, kind_of};
use countersign_verify::{Lines, RawLine};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::disk::{Durability, replace_file};
use crate::replica;
use crate::store::{LedgerId, Ledgers as _};
use crate::workspace::{Workspace, WorkspaceError};

/// What the log says of one trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// What it records.
    pub kind: Option<TraceKind>,
    /// Events that the log knows of.
    pub size: u64,
    /// Whether the log has it closed.
    pub closed: bool,
}

/// A line of a ledger that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its place.
    pub index: u64,
    /// What is wrong.
    pub what: String,
}

/// Reads the events of a ledger one by one. Stops at a line that is none, or that belongs elsewhere.
///
/// # Errors
/// The file cannot be read.
pub fn each_event(
    path: &Path,
    ledger: LedgerId,
    mut visit: impl FnMut(Event),
) -> io::Result<Result<u64, BadLine>> {
    let mut lines = Lines::new(BufReader::new(File::open(path)?));
    let mut index = 0;
    while let Some(line) = lines.next_line()? {
        let bytes = match line {
            RawLine::Complete(bytes) => bytes,
            // A torn tail is no line yet.
            RawLine::Unterminated(_) => break,
            RawLine::TooLong | RawLine::Endless => {
                let what = "the line is longer than an event may be".to_owned();
                return Ok(Err(BadLine { index, what }));
            }
        };
        let event =
            replica::read(bytes).and_then(|event| replica::belongs(ledger, &event).map(|()| event));
        match event {
            Ok(event) => visit(event),
            Err(what) => return Ok(Err(BadLine { index, what })),
        }
        index += 1;
    }
    Ok(Ok(index))
}

/// What is the matter with the trace `id` in `path`: the first line that is no event of it, or that does
/// not follow the one before. `None` if every line can be built upon.
///
/// # Errors
/// The file cannot be read.
pub fn damage(path: &Path, id: Ulid) -> io::Result<Option<BadLine>> {
    let mut chain = Chain::default();
    let mut gap = None;
    let outcome = each_event(path, LedgerId::Trace(id), |event| {
        if gap.is_none() {
            let index = chain.events;
            gap = chain.follows(&event).err().map(|gap| BadLine { index, what: gap.to_string() });
            chain.push(&event);
        }
    })?;
    Ok(gap.or(outcome.err()))
}

/// The first event of a ledger, if it has one.
///
/// # Errors
/// The file cannot be read, or does not begin with an event.
pub fn first_event(path: &Path) -> io::Result<Option<Event>> {
    let mut lines = Lines::new(BufReader::new(File::open(path)?));
    match lines.next_line()? {
        Some(RawLine::Complete(bytes)) => replica::read(bytes).map(Some).map_err(io::Error::other),
        _ => Ok(None),
    }
}

/// The summary of the trace `id` in `path`, from its events. `None` if it holds none.
///
/// # Errors
/// The file cannot be read.
pub fn summarise(path: &Path, id: Ulid) -> io::Result<Option<TraceSession>> {
    let mut summary: Option<TraceSession> = None;
    let mut artifacts = BTreeSet::new();
    let mut participants = BTreeSet::new();
    let outcome = each_event(path, LedgerId::Trace(id), |event| {
        let session = summary.get_or_insert_with(|| begin(&event));
        session.event_count += 1;
        session.head_event_hash = event.event_hash;
        // The first end stands, whatever another audit says later.
        if session.ended_at.is_none()
            && let Some(status) = ending(session.kind, &event)
        {
            session.status = status;
            session.ended_at = Some(event.created_at);
        }
        if let Some(outcome) = event.payload.get("outcome")
            && matches!(event.event_type, EventType::FinalStatementSigned | EventType::FlowFinished)
        {
            session.unknown.insert("outcome".into(), outcome.clone());
        }
        artifacts.extend(event.artifacts.iter().map(|artifact| artifact.artifact_hash));
        participants.insert(Participant { agent_id: event.actor.agent_id, role: event.actor.role });
    })?;
    if let Some(session) = &mut summary {
        session.artifact_count = artifacts.len() as u64;
        session.participants = participants.into_iter().collect();
        if let Err(bad) = outcome {
            session.unknown.insert("unreadable_at".into(), json!(bad.index));
        }
    }
    Ok(summary)
}

fn begin(first: &Event) -> TraceSession {
    TraceSession {
        schema_version: SCHEMA_VERSION.to_owned(),
        trace_id: first.trace_id.clone(),
        kind: kind_of(first).unwrap_or(TraceKind::Session),
        task_id: first.payload.get("task_id").and_then(Value::as_str).map(str::to_owned),
        started_at: first.created_at,
        ended_at: None,
        status: TraceStatus::Running,
        participants: Vec::new(),
        head_event_hash: Hash::GENESIS,
        event_count: 0,
        artifact_count: 0,
        unknown: Map::new(),
    }
}

/// What the log in `path` says of every trace that it names, as far as it can be read.
pub(crate) fn log_entries(
    path: &Path,
) -> io::Result<(BTreeMap<String, LogEntry>, Result<u64, BadLine>)> {
    let mut entries: BTreeMap<String, LogEntry> = BTreeMap::new();
    let outcome = each_event(path, LedgerId::Log, |event| {
        let member = |name: &str| event.payload.get(name).and_then(Value::as_str);
        let Some(trace_id) = member("trace_id") else { return };
        let kind = member("kind").and_then(TraceKind::parse);
        let entry =
            entries.entry(trace_id.to_owned()).or_insert(LogEntry { kind, size: 1, closed: false });
        entry.kind = entry.kind.or(kind);
        let size = event.payload.get("size").and_then(Value::as_u64).unwrap_or(0);
        entry.size = entry.size.max(size);
        entry.closed |= event.event_type == EventType::TraceClosed;
    })?;
    Ok((entries, outcome))
}

/// As much of an entry of the log as an overview needs.
#[derive(Deserialize)]
struct Glance<'a> {
    event_type: EventType,
    #[serde(borrow)]
    payload: GlanceAt<'a>,
}

#[derive(Deserialize)]
struct GlanceAt<'a> {
    #[serde(borrow)]
    trace_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    size: Option<u64>,
}

/// What the log in `path` says of traces, of the lines that say it in the usual way.
fn glance(path: &Path) -> io::Result<BTreeMap<Ulid, LogEntry>> {
    let mut entries: BTreeMap<Ulid, LogEntry> = BTreeMap::new();
    let mut lines = Lines::new(BufReader::new(File::open(path)?));
    while let Some(line) = lines.next_line()? {
        let RawLine::Complete(line) = line else { break };
        let Ok(Glance { event_type, payload }) = serde_json::from_slice(line) else { continue };
        let Some(id) = payload.trace_id.and_then(|id| id.parse().ok()) else { continue };
        let kind = payload.kind.as_deref().and_then(TraceKind::parse);
        let entry = entries.entry(id).or_insert(LogEntry { kind, size: 1, closed: false });
        entry.kind = entry.kind.or(kind);
        entry.size = entry.size.max(payload.size.unwrap_or(0));
        entry.closed |= event_type == EventType::TraceClosed;
    }
    Ok(entries)
}

impl Workspace {
    /// The ids of all traces that have events, oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn trace_ids(&self) -> Result<Vec<Ulid>, WorkspaceError> {
        let ledgers = self.store().list()?;
        Ok(ledgers
            .into_iter()
            .filter_map(|ledger| match ledger {
                LedgerId::Trace(id) => Some(id),
                LedgerId::Log => None,
            })
            .collect())
    }

    /// The summary of a trace: the cached one if the ledger has not grown since, else a new one.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn summary(&self, id: Ulid) -> Result<Option<TraceSession>, WorkspaceError> {
        let doing = "read the trace";
        let events = self.trace_file(id);
        let length = std::fs::metadata(&events).map(|data| data.len());
        let length = length.map_err(|source| WorkspaceError::Io { doing, source })?;
        let cached = std::fs::read(events.with_file_name("trace.json")).ok();
        let cached = cached.and_then(|bytes| serde_json::from_slice::<TraceSession>(&bytes).ok());
        let fits = |cached: &TraceSession| {
            cached.unknown.get("ledger_bytes").and_then(Value::as_u64) == Some(length)
        };
        if let Some(mut cached) = cached.filter(fits) {
            cached.unknown.remove("ledger_bytes");
            return Ok(Some(cached));
        }
        summarise(&events, id).map_err(|source| WorkspaceError::Io { doing, source })
    }

    /// Keeps the summary of a trace beside it. A cache: failing to is no loss.
    pub(crate) fn keep_summary(&self, id: Ulid) {
        let events = self.trace_file(id);
        let length = std::fs::metadata(&events).map_or(0, |data| data.len());
        if let Ok(Some(mut summary)) = summarise(&events, id) {
            summary.unknown.insert("ledger_bytes".into(), json!(length));
            let bytes = serde_json::to_vec(&summary).unwrap_or_default();
            let path = events.with_file_name("trace.json");
            let disk = self.store().disk();
            let _ = replace_file(&**disk, &path, &bytes, Durability::Cached);
        }
    }

    /// As [`Self::log_entries`], at a glance: no entry is held to its hash, and one that cannot be
    /// read is passed over. For overviews, which show and decide nothing.
    ///
    /// # Errors
    /// The file of the log cannot be read.
    pub fn log_at_a_glance(&self) -> Result<BTreeMap<Ulid, LogEntry>, WorkspaceError> {
        let path = self.store().ledger_dir(LedgerId::Log).join("events.jsonl");
        let doing = "read the workspace log";
        glance(&path).map_err(|source| WorkspaceError::Io { doing, source })
    }

    /// What the log says of every trace that it names.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log_entries(&self) -> Result<BTreeMap<String, LogEntry>, WorkspaceError> {
        let path = self.store().ledger_dir(LedgerId::Log).join("events.jsonl");
        let doing = "read the workspace log";
        let read = log_entries(&path).map_err(|source| WorkspaceError::Io { doing, source });
        let (entries, outcome) = read?;
        match outcome {
            Ok(_) => Ok(entries),
            Err(bad) => Err(WorkspaceError::BadLog {
                home: self.home().to_owned(),
                what: format!("entry {}: {}", bad.index, bad.what),
            }),
        }
    }
}
