//! `countersign trace list`.

use countersign_format::trace_session::TraceSession;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

pub(super) fn run(caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let mut summaries = Vec::new();
    let mut unreadable = 0;
    for id in workspace.trace_ids().map_err(explain)? {
        match workspace.summary(id).map_err(explain)? {
            Some(summary) => summaries.push(summary),
            None => unreadable += 1,
        }
    }
    if unreadable > 0 {
        caller.output.warning(format_args!("{unreadable} traces cannot be read and are left out"));
        caller.output.hint("run `countersign doctor` to see which");
    }
    let output = &mut caller.output;
    if output.format() == Format::Json {
        output.json(&summaries)?;
        return Ok(Exit::Done);
    }
    if summaries.is_empty() {
        output.note("no traces yet");
        return Ok(Exit::Done);
    }
    output.line(format_args!(
        "{:<26}  {:<9}  {:<9}  {:<12}  {:>7}  {:<24}  {:>9}  task",
        "trace", "kind", "status", "outcome", "events", "started", "took"
    ))?;
    for summary in &summaries {
        output.line(format_args!(
            "{:<26}  {:<9}  {:<9}  {:<12}  {:>7}  {:<24}  {:>9}  {}",
            summary.trace_id,
            summary.kind.as_str(),
            summary.status.as_str(),
            outcome(summary),
            summary.event_count,
            summary.started_at.to_string(),
            took(summary),
            summary.task_id.as_deref().unwrap_or("-")
        ))?;
    }
    Ok(Exit::Done)
}

/// Whether a session reached its objective, as its executor says.
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
