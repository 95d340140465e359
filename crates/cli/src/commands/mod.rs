//! The commands. Each has a file with its arguments and one function, a variant and a match arm.

mod approve;
mod artifact;
mod cap;
mod check;
mod compare;
mod coverage;
mod demo;
mod doctor;
mod flow;
mod gate;
mod hook;
mod init;
mod keys;
mod mcp;
mod new_file;
mod prove;
mod proxy;
mod report;
mod run;
mod sandboxed;
mod seal;
mod serve;
mod trace;
mod verify;
mod watch;
mod work;

use crate::{Caller, CommandError, Exit};

/// What can be asked for.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Init(init::InitArgs),
    Run(run::RunArgs),
    Demo(demo::DemoArgs),
    Verify(verify::VerifyArgs),
    Seal(seal::SealArgs),
    Cap(cap::CapArgs),
    Prove(prove::ProveArgs),
    Compare(compare::CompareArgs),
    Trace(trace::TraceArgs),
    Watch(watch::WatchArgs),
    Report(report::ReportArgs),
    Approve(approve::ApproveArgs),
    Coverage(coverage::CoverageArgs),
    Serve(serve::ServeArgs),
    Mcp(mcp::McpArgs),
    Hook(hook::HookArgs),
    Proxy(proxy::ProxyArgs),
    Work(work::WorkArgs),
    Flow(flow::FlowArgs),
    Keys(keys::KeysArgs),
    Artifact(artifact::ArtifactArgs),
    Gate(gate::GateArgs),
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
        Command::Seal(args) => seal::run(&args, caller),
        Command::Cap(args) => cap::run(&args, caller),
        Command::Prove(args) => prove::run(&args, caller),
        Command::Compare(args) => compare::run(&args, caller),
        Command::Trace(args) => trace::run(&args, caller),
        Command::Watch(args) => watch::run(&args, caller),
        Command::Report(args) => report::run(&args, caller),
        Command::Approve(args) => approve::run(&args, caller),
        Command::Coverage(args) => coverage::run(&args, caller),
        Command::Serve(args) => serve::run(&args, caller),
        Command::Mcp(args) => mcp::run(&args, caller),
        Command::Hook(args) => hook::run(&args, caller),
        Command::Proxy(args) => proxy::run(&args, caller),
        Command::Work(args) => work::run(&args, caller),
        Command::Flow(args) => flow::run(&args, caller),
        Command::Keys(args) => keys::run(&args, caller),
        Command::Artifact(args) => artifact::run(&args, caller),
        Command::Gate(args) => gate::run(&args, caller),
        Command::Check(args) => check::run(&args, caller),
        Command::Doctor(args) => doctor::run(&args, caller),
        Command::Sandboxed(args) => sandboxed::run(&args),
    }
}
