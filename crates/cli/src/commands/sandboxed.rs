//! `countersign sandboxed`: not for people. The recorder runs its own binary again with it to enter
//! the sandbox of a tool.

use countersign_runtime::sandbox::SandboxStage;

use crate::{CommandError, Exit};

/// Enter the sandbox of a tool; run by the recorder itself
#[derive(Debug, clap::Args)]
pub(crate) struct SandboxedArgs {
    /// Which of the processes on the way in this is
    #[arg(value_name = "STAGE", value_parser = stage)]
    stage: SandboxStage,
}

fn stage(argument: &str) -> Result<SandboxStage, String> {
    SandboxStage::parse(argument).ok_or_else(|| "there is no such stage".to_owned())
}

/// What became of the tool is said on standard input, which is a socket; the exit code is about this
/// process alone.
pub(super) fn run(args: &SandboxedArgs) -> Result<Exit, CommandError> {
    args.stage.run().map_err(CommandError::failed)?;
    Ok(Exit::Done)
}
