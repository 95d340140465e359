//! `countersign trace …`.

use countersign_format::event::Event;
use countersign_format::json;
use countersign_format::trace_session::TraceSession;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use serde_json::Value;

use crate::place::{explain, find_trace};
use crate::{Caller, CommandError, Exit, Format};

/// What happened: the traces of this workspace, and the events of one
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TraceCommand {
    /// All traces, the newest last
    List,
    /// The events of a trace; with `--json` the events themselves, one a line
    Show {
        /// The trace's id, or the beginning of it
        trace: String,
        /// The first event to show
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// How many events to show
        #[arg(long)]
        count: Option<u64>,
    },
}

pub(crate) fn run(args: &TraceArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.command {
        TraceCommand::List => list(caller),
        TraceCommand::Show { trace, from, count } => {
            let to = count.map_or(u64::MAX, |count| from.saturating_add(count));
            show(trace, *from, to, caller)
        }
    }
}

fn list(caller: &mut Caller) -> Result<Exit, CommandError> {
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
        "{:<26}  {:<9}  {:<9}  {:>7}  {:<24}  took",
        "trace", "kind", "status", "events", "started"
    ))?;
    for summary in &summaries {
        output.line(format_args!(
            "{:<26}  {:<9}  {:<9}  {:>7}  {:<24}  {}",
            summary.trace_id,
            summary.kind.as_str(),
            summary.status.as_str(),
            summary.event_count,
            summary.started_at.to_string(),
            took(summary)
        ))?;
    }
    Ok(Exit::Done)
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

fn show(trace: &str, from: u64, to: u64, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let id = find_trace(&workspace, trace)?;
    let output = &mut caller.output;
    let mut printed = Ok(());
    let mut index = 0;
    let outcome = each_event(&workspace.trace_file(id), LedgerId::Trace(id), |event| {
        if (from..to).contains(&index) && printed.is_ok() {
            printed = match output.format() {
                Format::Json => output.json(&event),
                Format::Text => output.line(line_of(index, &event)),
            };
        }
        index += 1;
    });
    printed?;
    let outcome = outcome
        .map_err(|error| CommandError::failed_doing(format!("cannot read trace {id}"), error))?;
    match outcome {
        Ok(_) => Ok(Exit::Done),
        Err(bad) => Err(CommandError::failed(format!(
            "the line of event {} cannot be read: {}",
            bad.index, bad.what
        ))
        .with_hint(format!("run `countersign verify {id}` to see everything that is wrong"))),
    }
}

/// One event on one line; its payload as far as there is room.
fn line_of(index: u64, event: &Event) -> String {
    const PAYLOAD_CHARACTERS: usize = 100;
    let mut payload = event.payload.clone();
    if let Value::Object(members) = &mut payload {
        members.remove("log");
    }
    let payload = String::from_utf8(json::to_bytes(&payload)).unwrap_or_default();
    let short: String = payload.chars().take(PAYLOAD_CHARACTERS).collect();
    let more = if short.len() < payload.len() { "…" } else { "" };
    format!(
        "{index:>6}  {}  {:<9}  {:<26}  {short}{more}",
        event.created_at,
        event.actor.role.as_str(),
        event.event_type.as_str()
    )
}
