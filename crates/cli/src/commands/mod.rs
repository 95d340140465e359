//! The commands. Each has a file with its arguments and one function, a variant and a match arm.

mod check;

use crate::{Caller, CommandError, Exit};

/// What can be asked for.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Check(check::CheckArgs),
}

/// Runs one command.
pub(crate) fn run(command: Command, caller: &mut Caller) -> Result<Exit, CommandError> {
    match command {
        Command::Check(args) => check::run(&args, caller),
    }
}
