//! `countersign gate …`.

mod asked;
mod check;
mod evidence;
mod explain;
mod learn;
mod policy;
mod stats;

use crate::{Caller, CommandError, Exit};

/// May this action run? The policy, the learned risk, and why something was decided
#[derive(Debug, clap::Args)]
pub(crate) struct GateArgs {
    #[command(subcommand)]
    command: GateCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GateCommand {
    Check(check::CheckActionArgs),
    Explain(explain::ExplainArgs),
    Stats(stats::StatsArgs),
    Learn(learn::LearnArgs),
    Policy(policy::PolicyArgs),
}

pub(crate) fn run(args: &GateArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.command {
        GateCommand::Check(args) => check::run(args, caller),
        GateCommand::Explain(args) => explain::run(args, caller),
        GateCommand::Stats(args) => stats::run(args, caller),
        GateCommand::Learn(args) => learn::run(args, caller),
        GateCommand::Policy(args) => policy::run(args, caller),
    }
}
