//! `countersign trace show`.

use std::path::PathBuf;

use countersign_format::event::Event;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;

use super::events::{Teller, line_of, unreadable};
use super::ledger_file::LedgerFile;
use super::projection;
use crate::place::find_trace;
use crate::{Caller, CommandError, Exit, Format, Output};

/// The events of a trace; with `--json` the events themselves, one a line
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The trace's id or the beginning of it, a work item's label, a trace's directory, or an
    /// `events.jsonl`
    trace: String,
    /// The first event to show
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many events to show
    #[arg(long)]
    count: Option<u64>,
    /// The events of a trace of schema 1.0 in the form of this one, with the links that were found:
    /// derived, not signed, and no proof of anything
    #[arg(long = "as", value_name = "SCHEMA", conflicts_with_all = ["from", "count"])]
    form: Option<Form>,
    /// A new file for the derived events
    #[arg(short, long, value_name = "FILE", requires = "form")]
    output: Option<PathBuf>,
}

/// A schema that traces can be shown in.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Form {
    #[value(name = "1.1")]
    V1_1,
}

impl ShowArgs {
    /// Whether the event at `index` is to be shown.
    fn shows(&self, index: u64) -> bool {
        let to = self.count.map_or(u64::MAX, |count| self.from.saturating_add(count));
        (self.from..to).contains(&index)
    }
}

pub(super) fn run(args: &ShowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match (LedgerFile::find(&args.trace), args.form) {
        (Some(ledger), Some(Form::V1_1)) => {
            projection::run(&ledger, args.output.as_deref(), caller)
        }
        (None, Some(Form::V1_1)) => {
            let workspace = caller.workspace()?;
            let id = find_trace(&workspace, &args.trace)?;
            let ledger = LedgerFile::at(workspace.trace_file(id));
            projection::run(&ledger, args.output.as_deref(), caller)
        }
        (Some(ledger), None) => in_file(args, &ledger, caller),
        (None, None) => in_workspace(args, caller),
    }
}

fn in_file(
    args: &ShowArgs,
    ledger: &LedgerFile,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    ledger.each(|stored| {
        if args.shows(stored.index) {
            let line = line_of(stored.index, &stored.event);
            print(&mut caller.output, &stored.event, &line)?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

fn in_workspace(args: &ShowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let id = find_trace(&workspace, &args.trace)?;
    let mut printed = Ok(());
    let mut index = 0;
    let mut teller = Teller::new(workspace.clone());
    let outcome = each_event(&workspace.trace_file(id), LedgerId::Trace(id), |event| {
        let line = teller.line(index, &event);
        if args.shows(index) && printed.is_ok() {
            printed = print(&mut caller.output, &event, &line);
        }
        index += 1;
    });
    printed?;
    let outcome = outcome
        .map_err(|error| CommandError::failed_doing(format!("cannot read trace {id}"), error))?;
    outcome.map(|_| Exit::Done).map_err(|bad| unreadable(id, bad.index, &bad.what))
}

fn print(output: &mut Output, event: &Event, line: &str) -> Result<(), CommandError> {
    match output.format() {
        Format::Json => output.json(event),
        Format::Text => output.line(line),
    }
}
