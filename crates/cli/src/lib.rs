//! The command line: one file per command in `commands`, and what all of them share.
//!
//! A command decides nothing by itself. It turns arguments into calls of the crates below and their
//! answers into [`Output`] and an [`Exit`] code.

mod commands;
mod error;
mod input;
mod narration;
mod output;
mod passphrase;
mod place;
mod prompt;
mod questions;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

pub use error::{CommandError, Exit};
pub use input::{Document, DocumentSource};
pub use output::{Format, Output};

/// Signed, hash-chained traces of what AI agents did, which anyone can check offline.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, max_term_width = 100)]
struct Arguments {
    /// The workspace's store, instead of `.countersign` here or in a directory above
    #[arg(long, value_name = "DIR", global = true)]
    home: Option<PathBuf>,
    /// Answer as JSON on standard output
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: commands::Command,
}

/// What a command is given beside its own arguments.
#[derive(Debug)]
pub struct Caller {
    /// The store that was named with `--home`.
    pub home: Option<PathBuf>,
    /// Where answers and talk go.
    pub output: Output,
}

/// Runs the command that the process's arguments name, and reports how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let exit = match Arguments::try_parse() {
        Ok(Arguments { home, json, command }) => {
            let format = if json { Format::Json } else { Format::Text };
            let mut caller = Caller { home, output: Output::standard(format) };
            let ended = commands::run(command, &mut caller);
            caller.output.end(ended)
        }
        Err(answer) => {
            let mut output = Output::standard(Format::Text);
            let ended = output.arguments_answer(&answer);
            output.end(ended)
        }
    };
    exit.into()
}
