//! House chores: what `cargo xtask CHORE` does.
//!
//! `test`, `tidy`, `fuzz`, `deny` and `reproduce` are done here, without any crate of the product, so
//! that the checks start within seconds on a new machine. The others need the product: they are in
//! `crates/rigs`, which is built and started by [`rigs`].

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "chores talk to the terminal")]

mod fuzz;
pub mod peers;
pub mod place;
mod rigs;
mod supply;
mod test;
pub mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask CHORE

  test [--quick]         everything that must hold: format, clippy, tidy, tests;
                         --quick installs nothing
  tidy                   the house rules
  bench [NAME] [--json]  figures against their bounds; `peers` is taken only by its name
  bench page             writes docs/benchmarks.md from a run of a quarter of an hour or more
  recording DIR EVENTS   writes a workspace with a closed recording of that many events
  fire [NAME] [--seed S] [--count N] [--minutes M] [--short]
                         what takes too long for every test run; without a name says what there is;
                         ends with 4 if nothing was found and not all of it was tried
  fuzz [TARGET] [--minutes M] [--seed S]
                         the fuzz targets, 10 minutes each; needs cargo-fuzz
  deny                   licences, sources and advisories of all dependencies
  reproduce              builds the release twice, elsewhere, compares, and keeps one
  vectors                writes docs/formats/schemas, docs/formats/vectors and the tables of event.md";

/// Why a chore did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The arguments make no sense.
    Usage(String),
    /// The chore ran, and this is what stopped it.
    Chore(String),
    /// A program that did the chore has said itself what stopped it, and ended with this.
    Said(u8),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Chore(message)
    }
}

/// Says on the terminal what became of a chore.
#[must_use]
pub fn report(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Chore(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Failure::Said(code)) => ExitCode::from(code),
    }
}

/// Does the chore that the arguments name.
///
/// # Errors
///
/// The arguments make no sense, or the chore failed.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    match arguments {
        ["test", options @ ..] => test::run(test::Install::parse(options)?),
        ["tidy"] => Ok(tidy::run()?),
        ["fuzz", options @ ..] => fuzz::run(options),
        ["deny"] => supply::deny(),
        ["reproduce"] => supply::reproduce(),
        ["bench" | "recording" | "fire" | "vectors", ..] => rigs::run(arguments),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => Err(Failure::Usage("which chore?".to_owned())),
        [first, ..] => Err(Failure::Usage(format!("unknown chore or arguments: `{first}`"))),
    }
}
