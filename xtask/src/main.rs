//! House chores, run as `cargo xtask CHORE`.
//!
//! Each chore has a file of its own; this one only chooses between them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "chores talk to the terminal")]

mod bench;
mod fire;
mod place;
mod test;
mod tidy;
mod vectors;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask CHORE

  test [--quick]         everything that must hold: format, clippy, tidy, build, tests;
                         --quick installs nothing
  tidy                   the house rules
  bench [NAME] [--json]  figures against their bounds
  recording DIR EVENTS   writes a workspace with a closed recording of that many events
  fire [NAME] [--seed S] [--count N]
                         what takes too long for every test run; N draws that many
  vectors                writes docs/formats/schemas, docs/formats/vectors and the tables of event.md";

/// Why a chore did not succeed.
enum Failure {
    /// The arguments make no sense.
    Usage(String),
    /// The chore ran, and this is what stopped it.
    Chore(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Chore(message)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Chore(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Failure> {
    match arguments {
        ["test", options @ ..] => test::run(test::Install::parse(options)?),
        ["tidy"] => Ok(tidy::run()?),
        ["bench", options @ ..] => bench::run(options),
        ["recording", dir, events] => bench::write_recording(dir, events),
        ["fire", options @ ..] => fire::run(options),
        ["vectors"] => Ok(vectors::run()?),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => Err(Failure::Usage("which chore?".to_owned())),
        [first, ..] => Err(Failure::Usage(format!("unknown chore or arguments: `{first}`"))),
    }
}
