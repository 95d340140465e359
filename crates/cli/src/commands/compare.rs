//! `countersign compare`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use countersign_format::note::NOTE_BYTES_MAX;
use countersign_format::proof::PortableProof;
use countersign_runtime::disk::Durability;
use countersign_verify::{Account, Comparison, ComparisonAnswer, NoAccount, read_regular};
use serde_json::json;

use super::new_file::{Existing, refuse_existing, write};
use super::verify::proof::{is_proof, read_proof};
use crate::{Caller, CommandError, Exit, Format};

/// Can both be true? Compare two checkpoints, logs, traces or proofs
///
/// Exit status: 0 they can; 3 they cannot; 4 nobody can tell from what was given. Two checkpoints of
/// one log are compared by themselves if they are of the same size, else with a copy of the log.
/// Whether a checkpoint is signed is known from a log or a proof, which name the keys.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// A checkpoint, an `events.jsonl`, a workspace's store, or a proof
    a: PathBuf,
    /// The other one
    b: PathBuf,
    /// A copy of the log, or a proof, that names the keys and lies between the two
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Where a contradiction goes as a proof that anybody can verify
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long, requires = "output")]
    force: bool,
}

pub(crate) fn run(args: &CompareArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let existing = Existing::by_force(args.force);
    if let Some(path) = &args.output {
        refuse_existing(path, existing)?;
    }
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let more = args.log.as_deref().map(read).transpose()?;
    let found = countersign_verify::compare(&a, &b, more.as_ref()).map_err(CommandError::failed)?;
    answer(&a, &b, &found, caller)?;
    if let Some(path) = &args.output {
        keep(path, &found, existing, caller)?;
    }
    Ok(match found.answer() {
        ComparisonAnswer::Consistent => Exit::Done,
        ComparisonAnswer::Contradiction => Exit::No,
        ComparisonAnswer::Incomparable => Exit::Open,
    })
}

/// What a file or a workspace says.
fn read(path: &Path) -> Result<Account, CommandError> {
    let name = path.display().to_string();
    let cannot = |error: NoAccount| {
        CommandError::failed_doing(format!("cannot compare `{}`", path.display()), error)
    };
    for home in [path.to_owned(), path.join(".countersign")] {
        if home.join("log/events.jsonl").is_file() {
            return Account::of_home(&name, &home).map_err(cannot);
        }
    }
    if is_proof(&name) {
        return match read_proof(path)? {
            Ok(PortableProof::Event(proof)) => Account::of_proof(&name, &proof).map_err(cannot),
            Ok(PortableProof::Equivocation(_)) => {
                let error = format!("`{name}` is a proof that two accounts contradict each other");
                Err(CommandError::usage(error)
                    .with_hint(format!("run `countersign verify {name}` to check it")))
            }
            Err(fault) => {
                Err(CommandError::failed_doing(format!("cannot compare `{name}`"), fault))
            }
        };
    }
    if is_ledger(path) {
        return Account::of_ledger(&name, path).map_err(cannot);
    }
    let bytes = read_regular(path, NOTE_BYTES_MAX as u64).map_err(|error| {
        CommandError::failed_doing(format!("cannot read `{}`", path.display()), error)
    })?;
    Account::of_checkpoint(&name, &bytes).map_err(cannot)
}

fn is_ledger(path: &Path) -> bool {
    let mut first = [0];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && first == *b"{"
}

fn answer(
    a: &Account,
    b: &Account,
    found: &Comparison,
    caller: &mut Caller,
) -> Result<(), CommandError> {
    let output = &mut caller.output;
    if output.format() == Format::Json {
        return output.json(&json!({
            "answer": found.answer().as_str(),
            "a": a.describe(),
            "b": b.describe(),
            "root": found.root,
            "agreements": found.agreements,
            "contradictions": found.contradictions,
            "unsettled": found.unsettled,
            "portable": found.equivocation.is_some(),
        }));
    }
    output.line(format_args!("a        {}", a.describe()))?;
    output.line(format_args!("b        {}", b.describe()))?;
    if let Some(root) = found.root {
        output.line(format_args!("root     {root}"))?;
    }
    output.line("")?;
    let lists = [
        ("agrees  ", &found.agreements),
        ("differs ", &found.contradictions),
        ("unknown ", &found.unsettled),
    ];
    for (label, list) in lists {
        for text in list {
            output.line(format_args!("{label} {text}"))?;
        }
    }
    output.line("")?;
    output.line(format_args!("answer: {}", found.answer().as_str()))
}

/// Keeps a contradiction for others, if it can be shown to them.
fn keep(
    path: &Path,
    found: &Comparison,
    existing: Existing,
    caller: &mut Caller,
) -> Result<(), CommandError> {
    let output = &mut caller.output;
    let shown = path.display();
    match (&found.equivocation, found.answer()) {
        (Some(equivocation), _) => {
            write(path, &equivocation.to_bytes(), existing, Durability::Cached)?;
            output.success(format_args!("proof of equivocation in `{shown}`"));
            output.hint(format_args!("`countersign verify {shown}` checks it"));
        }
        (None, ComparisonAnswer::Contradiction) => {
            output.warning(format_args!("nothing was written to `{shown}`"));
            let missing = found.missing.as_deref().unwrap_or(
                "to show it to others takes two signed events with the same number, and the log's \
                 key events",
            );
            output.hint(missing);
        }
        (None, _) => output.note(format_args!("no contradiction, nothing in `{shown}`")),
    }
    Ok(())
}
