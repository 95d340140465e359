//! `countersign report`.

mod dates;
mod markup;
mod page;
mod sections;
mod style;
mod words;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use countersign_runtime::disk::Durability;
use countersign_runtime::known_roots::KnownRoots;
use countersign_runtime::period::{PeriodFacts, PeriodOptions};

use super::new_file::{Existing, refuse_existing, write};
use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format, Output};

/// How often it is said how far it has come.
const SAY_EVERY: Duration = Duration::from_millis(250);
/// Gaps and failures that are named on the screen; the page has all.
const NAMED_MAX: usize = 10;
/// Characters of a title.
const TITLE_CHARACTERS_MAX: usize = 200;

/// What happened between two days: every trace that the workspace log knows, verified, as one page
///
/// Names what is missing first: traces that are gone or shorter than the log says, and traces that
/// the log does not know. Then denials, approvals and how they were given, what failed, changes of
/// keys, redactions, and what none of it proves. The page is one HTML file without scripts and
/// without requests to anywhere. With `--json` the same facts, and a page only if `-o` names one.
/// Exit status: 0 nothing wrong; 3 a gap, or a verdict that failed.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// The first day, as `2026-01-31`, or a time, as `2026-01-31T12:00:00Z`; a day begins at
    /// midnight UTC [default: seven days before the end]
    #[arg(long, value_name = "DATE")]
    from: Option<String>,
    /// The last day, which is part of it, or the first moment that is not [default: now]
    #[arg(long, value_name = "DATE")]
    to: Option<String>,
    /// Where the page goes, instead of `countersign-report-FROM-TO.html` here
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// What stands at the top of the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &ReportArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let period = dates::period(args.from.as_deref(), args.to.as_deref(), workspace.now())?;
    let path = match (&args.output, caller.output.format()) {
        (Some(path), _) => Some(path.clone()),
        (None, Format::Json) => None,
        (None, Format::Text) => Some(PathBuf::from(dates::file_name(&period))),
    };
    // Said before the work, not after it.
    let existing = Existing::by_force(args.force);
    if let Some(path) = &path {
        refuse_existing(path, existing)?;
    }
    let known = KnownRoots::new(workspace.config()).list().map_err(CommandError::failed)?;
    let trusted_roots = known.iter().map(|root| root.fingerprint).collect();
    let options = PeriodOptions { period, trusted_roots };
    let facts = gather(&workspace, &options, &mut caller.output)?;
    if let Some(path) = &path {
        let title = title(args.title.as_deref());
        write(path, page::page(&facts, &title).as_bytes(), existing, Durability::Synced)?;
    }
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&facts)?,
        Format::Text => tell(&facts, path.as_deref(), output)?,
    }
    Ok(if facts.is_wrong() { Exit::No } else { Exit::Done })
}

fn gather(
    workspace: &countersign_runtime::Workspace,
    options: &PeriodOptions,
    output: &mut Output,
) -> Result<PeriodFacts, CommandError> {
    let mut said = Instant::now();
    let facts = workspace.period(options, &mut |done, total| {
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            output.status(format_args!("verifying: {done} of {total} traces"));
        }
    });
    output.clear_status();
    facts.map_err(explain)
}

fn title(given: Option<&str>) -> String {
    let title = given.map(str::trim).filter(|title| !title.is_empty());
    title.unwrap_or("What agents did").chars().take(TITLE_CHARACTERS_MAX).collect()
}

/// What a person reads in ten seconds, what is wrong first and the verdict last.
fn tell(facts: &PeriodFacts, path: Option<&Path>, output: &mut Output) -> Result<(), CommandError> {
    output.line(format_args!("period     {}", words::period(&facts.period)))?;
    for gap in facts.gaps.rows.iter().take(NAMED_MAX) {
        let (kind, id, what) = (gap.kind.as_str(), &gap.trace_id, &gap.what);
        output.line(format_args!("GAP        {id} {kind}: {what}"))?;
    }
    more(facts.gaps.total, output)?;
    let failed: Vec<_> = facts.traces.rows.iter().filter(|it| words::failed(it)).collect();
    for trace in failed.iter().take(NAMED_MAX) {
        output.line(format_args!("FAILED     {} {}", trace.trace_id, words::failure(trace)))?;
    }
    more(facts.totals.failed + facts.totals.unverified, output)?;
    for line in words::summary(facts) {
        output.line(line)?;
    }
    if let Some(path) = path {
        output.line(format_args!("page       {}", path.display()))?;
    }
    output.line(format_args!("verdict    {}", words::verdict(facts)))
}

fn more(total: u64, output: &mut Output) -> Result<(), CommandError> {
    match total.saturating_sub(NAMED_MAX as u64) {
        0 => Ok(()),
        more => output.line(format_args!("           and {more} more")),
    }
}
