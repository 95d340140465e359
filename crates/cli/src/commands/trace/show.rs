//! `countersign trace show`.

use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;

use super::events::{Teller, unreadable};
use crate::place::find_trace;
use crate::{Caller, CommandError, Exit, Format};

/// The events of a trace; with `--json` the events themselves, one a line
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The trace's id, or the beginning of it
    trace: String,
    /// The first event to show
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many events to show
    #[arg(long)]
    count: Option<u64>,
}

pub(super) fn run(args: &ShowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let to = args.count.map_or(u64::MAX, |count| args.from.saturating_add(count));
    let workspace = caller.workspace()?;
    let id = find_trace(&workspace, &args.trace)?;
    let output = &mut caller.output;
    let mut printed = Ok(());
    let mut index = 0;
    let mut teller = Teller::new(workspace.clone());
    let outcome = each_event(&workspace.trace_file(id), LedgerId::Trace(id), |event| {
        let line = teller.line(index, &event);
        if (args.from..to).contains(&index) && printed.is_ok() {
            printed = match output.format() {
                Format::Json => output.json(&event),
                Format::Text => output.line(&line),
            };
        }
        index += 1;
    });
    printed?;
    let outcome = outcome
        .map_err(|error| CommandError::failed_doing(format!("cannot read trace {id}"), error))?;
    outcome.map(|_| Exit::Done).map_err(|bad| unreadable(id, bad.index, &bad.what))
}
