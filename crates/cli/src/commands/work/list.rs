//! `countersign work list`.

use countersign_format::exit::WorkPhase;
use countersign_format::time::Timestamp;
use countersign_runtime::index::WorkRow;
use serde_json::json;

use super::item::unreadable;
use super::told::{name, since, span};
use crate::{Caller, CommandError, Exit, Format};

/// The items by phase, with who holds them and for how long
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Also those that are completed
    #[arg(long)]
    all: bool,
    /// Only those in this phase
    #[arg(long, value_name = "PHASE", value_parser = WorkPhase::parse)]
    phase: Option<WorkPhase>,
}

pub(super) fn run(args: &ListArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let mut index = workspace.index().map_err(unreadable)?;
    let mut rows = index.work_items().map_err(unreadable)?;
    let everything = rows.len();
    rows.retain(|row| match args.phase {
        Some(phase) => row.phase == phase,
        None => args.all || row.phase != WorkPhase::Completed,
    });
    let now = workspace.now();
    if caller.output.format() == Format::Json {
        let rows: Vec<_> = rows.iter().map(|row| as_json(row, now)).collect();
        caller.output.json(&rows)?;
        return Ok(Exit::Done);
    }
    rows.sort_by_key(|row| (row.phase, row.phase_since, row.id));
    for phase in WorkPhase::ALL {
        let here: Vec<&WorkRow> = rows.iter().filter(|row| row.phase == phase).collect();
        if here.is_empty() {
            continue;
        }
        caller.output.line(format_args!("{phase} ({})", here.len()))?;
        let width = here.iter().map(|row| name(row).chars().count()).max().unwrap_or(0).min(26);
        for row in here {
            let name = name(row);
            let stand = stand(row, now);
            caller.output.line(format_args!("  {name:<width$}  {stand:<32}  {}", row.title))?;
        }
    }
    if rows.is_empty() {
        caller.output.note(match everything {
            0 => "no work items yet",
            _ => "no such items; `--all` also shows those that are completed",
        });
    }
    Ok(Exit::Done)
}

/// Who holds it and for how long, or since when it waits.
fn stand(row: &WorkRow, now: Timestamp) -> String {
    let waits = since(row.phase_since, now);
    match (&row.holder, row.expires_at) {
        (Some(holder), Some(until)) if now < until => {
            let left = span(until.as_millis().saturating_sub(now.as_millis()));
            format!("held by {holder}, {left} left")
        }
        (Some(holder), Some(_)) => format!("free, the lease of {holder} ran out"),
        _ => match (row.phase, row.blocked_from) {
            (WorkPhase::Blocked, Some(from)) => format!("from {from} for {waits}"),
            (WorkPhase::Completed, _) => format!("done for {waits}"),
            _ => format!("free for {waits}"),
        },
    }
}

fn as_json(row: &WorkRow, now: Timestamp) -> serde_json::Value {
    json!({
        "item": row.id.to_string(),
        "label": row.label,
        "title": row.title,
        "phase": row.phase,
        "blocked_from": row.blocked_from,
        "blocked_reason": row.blocked_reason,
        "holder": row.holder,
        "session_id": row.session_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at,
        "expired": row.expires_at.is_some_and(|until| now >= until),
        "phase_since": row.phase_since,
        "attempts": row.attempts,
        "opened_at": row.opened_at,
        "pr_url": row.pr_url,
    })
}
