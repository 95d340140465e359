//! `countersign prove`.

use std::path::PathBuf;

use countersign_runtime::disk::Durability;
use countersign_verify::{EventName, Options, Profile, Unprovable};

use super::new_file::{Existing, refuse_existing, write};
use super::verify::find;
use crate::{Caller, CommandError, Exit};

/// Write one file that shows one event of a trace without the rest
///
/// The file holds the event, the first event of its trace, the log's key events and its entries on
/// this trace, with proofs that they are in the log's signed checkpoint. `countersign verify FILE`
/// checks it offline and answers `included`. Artifacts are not in it, and nothing that is not in
/// the trace or in the log. A trace whose bytes, order, signatures or rules do not hold proves
/// nothing: exit status 3. Whether its artifacts are there is not looked at.
#[derive(Debug, clap::Args)]
pub(crate) struct ProveArgs {
    /// A trace's id or the beginning of it, a work item's label, a trace's directory, or an
    /// `events.jsonl`
    trace: String,
    /// The event's number in the trace, or its id or the beginning of it
    event: String,
    /// Where the proof goes, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long, requires = "output")]
    force: bool,
}

pub(crate) fn run(args: &ProveArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let target = find(&args.trace, caller)?;
    if target.is_log {
        return Err(CommandError::usage("a log is proven by its checkpoint, not event by event")
            .with_hint("`countersign compare` says whether a checkpoint and a log fit together"));
    }
    let existing = Existing::by_force(args.force);
    if let Some(path) = &args.output {
        refuse_existing(path, existing)?;
    }
    let options = Options {
        trusted_roots: Default::default(),
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: target.trace_id,
        expect_head: None,
        expect_count: None,
        report_id: String::new(),
        now: countersign_format::time::Timestamp::EPOCH,
    };
    let name = EventName::parse(&args.event);
    let proof = countersign_verify::prove(&target.source, &name, &options)
        .map_err(|error| explain(error, &args.trace))?;
    let bytes = proof.to_bytes();
    match &args.output {
        Some(path) => {
            write(path, &bytes, existing, Durability::Cached)?;
            let path = path.display();
            caller.output.success(format_args!("proof of {} bytes in `{path}`", bytes.len()));
            caller.output.hint(format_args!("`countersign verify {path}` checks it"));
        }
        None => caller.output.data_bytes(&bytes)?,
    }
    Ok(Exit::Done)
}

fn explain(error: Unprovable, trace: &str) -> CommandError {
    let hint = match &error {
        Unprovable::Broken(failures) => {
            let details: Vec<String> = failures
                .iter()
                .take(5)
                .map(|failure| format!("{}: {}", failure.failure_code, failure.message))
                .collect();
            return CommandError::no("the trace does not verify, so that nothing in it is proven")
                .with_details(details)
                .with_hint(format!("run `countersign verify {trace}` to see what is wrong"));
        }
        Unprovable::NoLog => "name a trace that lies in a workspace".to_owned(),
        Unprovable::NoSuchEvent { .. } | Unprovable::Ambiguous { .. } => {
            format!("run `countersign trace show {trace}` to see its events")
        }
        Unprovable::NotCovered { .. } => {
            "the log is told when the trace ends, when a key changes, and every 1,024 events"
                .to_owned()
        }
        Unprovable::NoCheckpoint | Unprovable::CheckpointTooOld { .. } => {
            "the next entry of the log writes its checkpoint anew; `countersign doctor --repair` \
             tells the log what it was not told"
                .to_owned()
        }
        Unprovable::Changed(_) => "try again".to_owned(),
        Unprovable::Read(_) | Unprovable::TooLarge(_) => return CommandError::failed(error),
    };
    CommandError::failed(error).with_hint(hint)
}
