//! `countersign hook`.

mod claude_code;
mod generic;
mod outcome;

use std::env;
use std::time::Duration;

use countersign_runtime::actions::Enforcement;
use countersign_runtime::secrets::Redactor;
use countersign_serve::hook::{HOOK_BYTES_MAX, HookFault, HookSetup};

use crate::{Caller, CommandError, DocumentSource, Exit};

/// After what time we have failed where nobody says otherwise.
const DEADLINE: Duration = Duration::from_secs(20);

/// Gate and record the tools of an agent's own program
///
/// The program runs this before and after each tool call, with a JSON object on standard input.
/// Whatever goes wrong here keeps the tool from running, unless you choose otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct HookArgs {
    #[command(subcommand)]
    program: HookedProgram,
}

/// Whose hook it is.
#[derive(Debug, clap::Subcommand)]
enum HookedProgram {
    ClaudeCode(claude_code::ClaudeCodeArgs),
    Generic(generic::GenericArgs),
}

/// What all hooks have in common.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Decide and record, but stop nothing
    #[arg(long)]
    shadow: bool,
    /// What becomes of a call about which we failed: it is denied, or runs unrecorded
    #[arg(long, value_name = "WHAT", default_value = "deny")]
    on_failure: OnFailure,
    /// Seconds after which we have failed [default: 20]; must be fewer than the program waits
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    deadline: Option<u64>,
}

/// What becomes of a call about which we failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnFailure {
    Deny,
    Allow,
}

impl CommonArgs {
    fn deadline(&self) -> Duration {
        self.deadline.map_or(DEADLINE, Duration::from_secs)
    }

    fn setup(&self, caller: &Caller) -> Result<HookSetup, CommandError> {
        Ok(HookSetup {
            workspace: caller.workspace()?,
            redactor: Redactor::new(env::vars_os()),
            enforcement: if self.shadow { Enforcement::Shadow } else { Enforcement::Enforced },
        })
    }
}

pub(crate) fn run(args: &HookArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.program {
        HookedProgram::ClaudeCode(args) => claude_code::run(args, caller),
        HookedProgram::Generic(args) => generic::run(args, caller),
    }
}

/// What the program gives to its hook.
fn input() -> Result<Vec<u8>, CommandError> {
    let document = DocumentSource::Stdin.read(HOOK_BYTES_MAX)?;
    if document.length > HOOK_BYTES_MAX {
        let (bytes, limit) = (document.length, HOOK_BYTES_MAX);
        return Err(CommandError::failed(HookFault::TooLong { bytes, limit }));
    }
    Ok(document.bytes)
}
