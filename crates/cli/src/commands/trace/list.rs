//! `countersign trace list`.

use countersign_format::event::TraceKind;
use countersign_format::trace_session::TraceSession;
use countersign_runtime::index::TraceRow;

use crate::{Caller, CommandError, Exit, Format};

pub(super) fn run(caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let rows = workspace.index().and_then(|mut index| index.traces());
    let rows = rows.map_err(CommandError::failed)?;
    let total = rows.len();
    let traces: Vec<_> =
        rows.into_iter().filter_map(|row| row.summary().map(|summary| (row, summary))).collect();
    let unreadable = total - traces.len();
    if unreadable > 0 {
        caller.output.warning(format_args!("{unreadable} traces cannot be read and are left out"));
        caller.output.hint("run `countersign doctor` to see which");
    }
    let output = &mut caller.output;
    if output.format() == Format::Json {
        let summaries: Vec<_> = traces.iter().map(|(_, summary)| summary).collect();
        output.json(&summaries)?;
        return Ok(Exit::Done);
    }
    if traces.is_empty() {
        output.note("no traces yet");
        return Ok(Exit::Done);
    }
    output.line(format_args!(
        "{:<26}  {:<9}  {:<9}  {:<12}  {:>7}  {:<24}  {:>9}  task",
        "trace", "kind", "status", "outcome", "events", "started", "took"
    ))?;
    for (row, summary) in &traces {
        output.line(format_args!(
            "{:<26}  {:<9}  {:<9}  {:<12}  {:>7}  {:<24}  {:>9}  {}",
            summary.trace_id,
            summary.kind.as_str(),
            summary.status.as_str(),
            outcome(summary),
            summary.event_count,
            summary.started_at.to_string(),
            took(summary),
            task(row, summary)
        ))?;
    }
    Ok(Exit::Done)
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
