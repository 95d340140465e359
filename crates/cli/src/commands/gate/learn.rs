//! `countersign gate learn`.

use std::path::PathBuf;

use countersign_runtime::gate::{Effect, HistoryError, HistoryReport, SelfReports, TraceReport};
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// Learn from what became of actions
///
/// Without options: from the traces of this workspace. An outcome counts if the gate had judged the
/// action and the recorder saw how it ended. What an agent reports of itself is counted and left
/// out, unless `--self-reported` takes it in. Each outcome is learned once; traces that do not verify
/// teach nothing.
///
/// With `--git`: from the history of a repository. A commit failed if a later one reverts it, or
/// names it in a `Fixes:` or `fixup!` line; all others count as successes, although most mistakes
/// are mended without naming them. Learning again replaces what was learned from it before.
#[derive(Debug, clap::Args)]
pub(super) struct LearnArgs {
    /// Learn from the history of this repository, or of the one here
    #[arg(long, value_name = "REPO", num_args = 0..=1, default_missing_value = ".")]
    git: Option<PathBuf>,
    /// How many commits to look at, the last ones
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "git")]
    commits: u64,
    /// Learn from what agents report of themselves as well
    #[arg(long, conflicts_with = "git")]
    self_reported: bool,
    /// Say what would be learned, and keep nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &LearnArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let effect = if args.dry_run { Effect::DryRun } else { Effect::Save };
    let workspace = caller.workspace()?;
    match &args.git {
        Some(path) => {
            let learned = workspace.learn_from_history(path, args.commits, effect);
            let learned = learned.map_err(|error| match error {
                HistoryError::Workspace(error) => explain(error),
                error => CommandError::failed_doing(
                    format!("cannot learn from `{}`", path.display()),
                    error,
                ),
            })?;
            tell_history(&learned, effect, caller)?;
        }
        None => {
            let reports =
                if args.self_reported { SelfReports::Learned } else { SelfReports::LeftOut };
            let learned = workspace.learn_from_traces(reports, effect).map_err(explain)?;
            tell_traces(&learned, effect, caller)?;
        }
    }
    Ok(Exit::Done)
}

fn begin(effect: Effect) -> &'static str {
    match effect {
        Effect::Save => "learned",
        Effect::DryRun => "would learn",
    }
}

fn tell_history(
    learned: &HistoryReport,
    effect: Effect,
    caller: &mut Caller,
) -> Result<(), CommandError> {
    let output = &mut caller.output;
    if output.format() == Format::Json {
        return output.json(&json!({ "saved": effect == Effect::Save, "history": learned }));
    }
    let HistoryReport { head, outcomes, .. } = learned;
    output.line(format_args!(
        "{} from {} commits up to {head}: {} failed, {} did not",
        begin(effect),
        outcomes.total(),
        outcomes.failed,
        outcomes.succeeded
    ))
}

fn tell_traces(
    learned: &TraceReport,
    effect: Effect,
    caller: &mut Caller,
) -> Result<(), CommandError> {
    let output = &mut caller.output;
    if output.format() == Format::Json {
        return output.json(&json!({ "saved": effect == Effect::Save, "traces": learned }));
    }
    let TraceReport { traces, seen, reported, .. } = learned;
    output.line(format_args!(
        "{} from {traces} traces: {} outcomes that the recorder saw ({} failed), {} that agents \
         reported ({} failed)",
        begin(effect),
        seen.total(),
        seen.failed,
        reported.total(),
        reported.failed
    ))?;
    let left = [
        (learned.reported_left_out, "reported by the agent itself", Some("--self-reported")),
        (learned.ungated, "not judged by the gate before", None),
        (learned.programs, "of programs, of which no change is known", None),
        (learned.unknown, "ended nobody knows how", None),
    ];
    for (count, why, option) in left.into_iter().filter(|(count, ..)| *count > 0) {
        let option = option.map(|it| format!(" (`{it}` takes them in)")).unwrap_or_default();
        output.line(format_args!("left out: {count} outcomes, {why}{option}"))?;
    }
    for left in &learned.left_out {
        output.warning(format_args!("trace {} is left out: {}", left.trace_id, left.because));
    }
    Ok(())
}
