//! `countersign trace list`.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_format::trace_session::TraceSession;
use countersign_runtime::Workspace;
use countersign_runtime::index::TraceRow;
use countersign_runtime::inspect::LogEntry;
use serde_json::{Value, json};

use crate::place::{explain, lost};
use crate::{Caller, CommandError, Exit, Format, Output};

/// Traces with something wrong that are named; `countersign doctor` names all.
const NAMED_MAX: usize = 5;

/// A trace of which there is something to say.
struct Listed {
    id: Ulid,
    kind: Option<TraceKind>,
    events: u64,
    /// What can be read of it.
    read: Option<(TraceRow, TraceSession)>,
    trouble: Option<Trouble>,
}

/// What is wrong with a trace, as far as a look at the index and the log tells.
struct Trouble {
    /// What stands where its status would.
    state: &'static str,
    what: String,
}

pub(super) fn run(caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    // Each takes its time, and neither needs the other.
    let (rows, log) = thread::scope(|scope| {
        let log = scope.spawn(|| workspace.log_at_a_glance());
        let rows = workspace.index().and_then(|mut index| index.traces());
        (rows, log.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked)))
    });
    let rows = rows.map_err(CommandError::failed)?;
    let traces = listed(&workspace, rows, &log.map_err(explain)?);
    warn(&traces, &mut caller.output);
    match caller.output.format() {
        Format::Json => {
            let documents: Vec<_> = traces.iter().map(document).collect();
            caller.output.json(&documents)?;
        }
        Format::Text if traces.is_empty() => caller.output.note("no traces yet"),
        Format::Text => table(&traces, &mut caller.output)?,
    }
    Ok(Exit::Done)
}

/// The traces that can be read or that the log knows, in the order of their ids.
fn listed(
    workspace: &Workspace,
    rows: Vec<TraceRow>,
    log: &BTreeMap<Ulid, LogEntry>,
) -> Vec<Listed> {
    let here: BTreeSet<Ulid> = rows.iter().map(|row| row.id).collect();
    let rows = rows.into_iter().filter_map(|row| of_row(workspace, log.get(&row.id), row));
    let mut listed: Vec<Listed> = rows.collect();
    let gone = log.iter().filter(|(id, _)| !here.contains(id));
    listed.extend(gone.filter_map(|(id, entry)| of_entry(workspace, *id, entry)));
    listed.sort_unstable_by_key(|trace| trace.id);
    listed
}

/// A trace that has a row. A torn first line that the log does not know is no trace yet.
fn of_row(workspace: &Workspace, entry: Option<&LogEntry>, row: TraceRow) -> Option<Listed> {
    let id = row.id;
    let known = entry.map_or(0, |entry| entry.size);
    let what = match &row.unreadable {
        Some(why) => Some(format!("{id} is damaged: {why}")),
        None if known > row.events && !has_changed(workspace, &row) => {
            Some(format!("{id} has {} events, the log knows {known}", row.events))
        }
        None => None,
    };
    let trouble = what.map(|what| Trouble { state: "damaged", what });
    let (kind, events) = (row.kind.or_else(|| entry?.kind), row.events);
    let summary = row.summary();
    if summary.is_none() && trouble.is_none() {
        return None;
    }
    let read = summary.map(|summary| (row, summary));
    Some(Listed { id, kind, events, read, trouble })
}

/// A trace that the log knows and the index does not.
fn of_entry(workspace: &Workspace, id: Ulid, entry: &LogEntry) -> Option<Listed> {
    // It may have begun since the traces were listed.
    let found = workspace.trace_file(id).symlink_metadata();
    if found.is_ok_and(|found| found.len() > 0) {
        return None;
    }
    let what = lost(workspace, &id.to_string(), entry.size);
    let trouble = Some(Trouble { state: "gone", what });
    Some(Listed { id, kind: entry.kind, events: 0, read: None, trouble })
}

/// Whether there is more of the trace, or less, than when it was read.
fn has_changed(workspace: &Workspace, row: &TraceRow) -> bool {
    let found = workspace.trace_file(row.id).symlink_metadata();
    found.is_ok_and(|found| found.len() != row.bytes)
}

/// Names the traces that are not as they should be, and says what to do.
fn warn(traces: &[Listed], output: &mut Output) {
    let wrong: Vec<_> =
        traces.iter().filter_map(|it| Some((it.id, it.trouble.as_ref()?))).collect();
    for (id, trouble) in wrong.iter().take(NAMED_MAX) {
        output.warning(format_args!("trace {}", trouble.what));
        output.hint(format_args!("run `countersign verify {id}`"));
    }
    let more = wrong.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        output.warning(format_args!("{more} more are damaged or gone"));
        output.hint("run `countersign doctor` to see which");
    }
}

/// A trace for programs: its summary, with what is wrong with it.
fn document(trace: &Listed) -> Value {
    let summary = trace.read.as_ref().and_then(|(_, summary)| serde_json::to_value(summary).ok());
    let mut document = summary.unwrap_or_else(|| {
        let kind = trace.kind.map(TraceKind::as_str);
        json!({ "trace_id": trace.id.to_string(), "kind": kind, "event_count": trace.events })
    });
    if let (Value::Object(members), Some(trouble)) = (&mut document, &trace.trouble) {
        members.insert("status".into(), trouble.state.into());
        members.insert("trouble".into(), trouble.what.as_str().into());
    }
    document
}

fn table(traces: &[Listed], output: &mut Output) -> Result<(), CommandError> {
    output.line(format_args!(
        "{:<26}  {:<9}  {:<9}  {:<12}  {:>7}  {:<24}  {:>9}  task",
        "trace", "kind", "status", "outcome", "events", "started", "took"
    ))?;
    for trace in traces {
        let read = trace.read.as_ref();
        let summary = read.map(|(_, summary)| summary);
        let status = match (&trace.trouble, summary) {
            (Some(trouble), _) => trouble.state,
            (None, Some(summary)) => summary.status.as_str(),
            (None, None) => "-",
        };
        output.line(format_args!(
            "{:<26}  {:<9}  {:<9}  {:<12}  {:>7}  {:<24}  {:>9}  {}",
            trace.id,
            trace.kind.map_or("-", TraceKind::as_str),
            status,
            summary.map_or("-", outcome),
            trace.events,
            summary.map_or_else(|| "-".to_owned(), |summary| summary.started_at.to_string()),
            summary.map_or_else(|| "-".to_owned(), took),
            read.map_or("-", |(row, summary)| task(row, summary))
        ))?;
    }
    Ok(())
}

/// The task of a session, the title of a work item, the workflow of a flow.
fn task<'a>(row: &'a TraceRow, summary: &'a TraceSession) -> &'a str {
    let title =
        row.title.as_deref().filter(|_| matches!(summary.kind, TraceKind::Work | TraceKind::Flow));
    summary.task_id.as_deref().or(title).unwrap_or("-")
}

/// Whether a session reached its objective, as its executor says; how a flow ended.
fn outcome(summary: &TraceSession) -> &str {
    summary.unknown.get("outcome").and_then(|outcome| outcome.as_str()).unwrap_or("-")
}

fn took(summary: &TraceSession) -> String {
    match summary.ended_at {
        None => "-".to_owned(),
        Some(ended) => {
            let millis = ended.as_millis() - summary.started_at.as_millis();
            format!("{}.{:03} s", millis / 1000, millis % 1000)
        }
    }
}
