//! `countersign trace show`.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use countersign_format::event::Event;
use countersign_runtime::store::LedgerId;
use countersign_verify::{Lines, RawLine};

use super::events::{TOO_LONG, Teller, event_in, line_of, unreadable};
use super::ledger_file::LedgerFile;
use super::projection;
use crate::place::find_trace;
use crate::{Caller, CommandError, Exit, Format, Output};

/// The events of a trace; with `--json` the events themselves, one a line
///
/// A line that cannot be read is shown as it stands, with the reason, and makes the exit status 1.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The trace's id or the beginning of it, a work item's label, a trace's directory, an
    /// `events.jsonl`, or `log`
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
    let (ledger, path) = match args.trace.as_str() {
        "log" => (LedgerId::Log, workspace.home().join("log/events.jsonl")),
        name => {
            let id = find_trace(&workspace, name)?;
            (LedgerId::Trace(id), workspace.trace_file(id))
        }
    };
    let doing = || format!("cannot read `{}`", path.display());
    let file = File::open(&path).map_err(|error| CommandError::failed_doing(doing(), error))?;
    let mut lines = Lines::new(BufReader::new(file));
    let mut teller = Teller::new(workspace);
    let mut bad = None;
    for index in 0.. {
        let line = lines.next_line();
        let line = match line.map_err(|error| CommandError::failed_doing(doing(), error))? {
            // A torn tail is no line yet.
            None | Some(RawLine::Unterminated(_)) => break,
            Some(RawLine::Complete(line)) => line,
            Some(RawLine::TooLong | RawLine::Endless) => {
                bad = bad.or(Some(unreadable(ledger, index, TOO_LONG)));
                break;
            }
        };
        match event_in(line, ledger) {
            Ok(event) => {
                let told = teller.line(index, &event);
                if args.shows(index) {
                    print(&mut caller.output, &event, &told)?;
                }
            }
            Err(what) if args.shows(index) => {
                bad = bad.or(Some(unreadable(ledger, index, &what)));
                if caller.output.format() == Format::Json {
                    break;
                }
                caller.output.line(format_args!("{index:>6}  cannot be read: {what}"))?;
                let line = String::from_utf8_lossy(line);
                caller.output.line(format_args!("{:>6}  as it stands: {line}", ""))?;
            }
            Err(_) => {}
        }
    }
    bad.map_or(Ok(Exit::Done), Err)
}

fn print(output: &mut Output, event: &Event, line: &str) -> Result<(), CommandError> {
    match output.format() {
        Format::Json => output.json(event),
        Format::Text => output.line(line),
    }
}
