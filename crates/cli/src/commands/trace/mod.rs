//! `countersign trace …`.

mod abort;
mod diff;
mod events;
mod follow;
mod for_what;
mod ledger_file;
mod list;
mod projection;
mod show;
mod skeleton;
mod trailer;

pub(crate) use ledger_file::LedgerFile;

use crate::{Caller, CommandError, Exit};

/// What happened: the traces of this workspace, and the events of one
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TraceCommand {
    /// All traces, the newest last
    List,
    Show(show::ShowArgs),
    Follow(follow::FollowArgs),
    Diff(diff::DiffArgs),
    Abort(abort::AbortArgs),
    For(for_what::ForArgs),
    #[command(hide = true)]
    Trailer(trailer::TrailerArgs),
}

pub(crate) fn run(args: &TraceArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.command {
        TraceCommand::List => list::run(caller),
        TraceCommand::Show(args) => show::run(args, caller),
        TraceCommand::Follow(args) => follow::run(args, caller),
        TraceCommand::Diff(args) => diff::run(args, caller),
        TraceCommand::Abort(args) => abort::run(args, caller),
        TraceCommand::For(args) => for_what::run(args, caller),
        TraceCommand::Trailer(args) => trailer::run(args, caller),
    }
}
