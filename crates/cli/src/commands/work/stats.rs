//! `countersign work stats`.

use countersign_runtime::work::{PhaseFigures, WorkFigures};

use super::item::unreadable;
use super::told::span;
use crate::{Caller, CommandError, Exit, Format};

/// Time in phase, how long items wait for an agent, retries, blocked items
#[derive(Debug, clap::Args)]
pub(super) struct WorkStatsArgs {}

pub(super) fn run(_args: &WorkStatsArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let mut index = workspace.index().map_err(unreadable)?;
    let figures = WorkFigures::of(&index.transitions(None).map_err(unreadable)?);
    if caller.output.format() == Format::Json {
        caller.output.json(&figures)?;
        return Ok(Exit::Done);
    }
    caller.output.line(format_args!(
        "{} items, {} completed, {} blocked; {} exit signals refused",
        figures.items, figures.completed, figures.blocked, figures.refused_exits
    ))?;
    if figures.phases.is_empty() {
        return Ok(Exit::Done);
    }
    caller.output.line(format_args!(
        "{:<16}  {:>5}  {:>5}  {:>7}  {:>7}  {:>23}  {:>23}",
        "phase",
        "now",
        "left",
        "retries",
        "blocked",
        "in phase, median (max)",
        "waiting, median (max)"
    ))?;
    for (phase, it) in &figures.phases {
        caller.output.line(format_args!(
            "{:<16}  {:>5}  {:>5}  {:>7}  {:>7}  {:>23}  {:>23}",
            phase.as_str(),
            it.now,
            it.left,
            it.retries,
            it.blocked,
            times(it.median_in_phase_ms, it.longest_in_phase_ms),
            waiting(it)
        ))?;
    }
    Ok(Exit::Done)
}

fn waiting(figures: &PhaseFigures) -> String {
    times(figures.median_handoff_ms, figures.longest_handoff_ms)
}

fn times(median: Option<i64>, longest: Option<i64>) -> String {
    match (median, longest) {
        (Some(median), Some(longest)) => format!("{} ({})", span(median), span(longest)),
        _ => "-".to_owned(),
    }
}
