//! The commands. Each has a file with its arguments and one function, a variant and a match arm.

mod approve;
mod artifact;
mod check;
mod compare;
mod demo;
mod doctor;
mod init;
mod keys;
mod prove;
mod run;
mod sandboxed;
mod trace;
mod verify;

use crate::{Caller, CommandError, Exit};

/// What can be asked for.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Init(init::InitArgs),
    Run(run::RunArgs),
    Demo(demo::DemoArgs),
    Verify(verify::VerifyArgs),
    Prove(prove::ProveArgs),
    Compare(compare::CompareArgs),
    Trace(trace::TraceArgs),
    Approve(approve::ApproveArgs),
    Keys(keys::KeysArgs),
    Artifact(artifact::ArtifactArgs),
    Check(check::CheckArgs),
    Doctor(doctor::DoctorArgs),
    #[command(hide = true)]
    Sandboxed(sandboxed::SandboxedArgs),
}

/// Runs one command.
pub(crate) fn run(command: Command, caller: &mut Caller) -> Result<Exit, CommandError> {
    match command {
        Command::Init(args) => init::run(&args, caller),
        Command::Run(args) => run::run(&args, caller),
        Command::Demo(args) => demo::run(&args, caller),
        Command::Verify(args) => verify::run(&args, caller),
        Command::Prove(args) => prove::run(&args, caller),
        Command::Compare(args) => compare::run(&args, caller),
        Command::Trace(args) => trace::run(&args, caller),
        Command::Approve(args) => approve::run(&args, caller),
        Command::Keys(args) => keys::run(&args, caller),
        Command::Artifact(args) => artifact::run(&args, caller),
        Command::Check(args) => check::run(&args, caller),
        Command::Doctor(args) => doctor::run(&args, caller),
        Command::Sandboxed(args) => sandboxed::run(&args),
    }
}
