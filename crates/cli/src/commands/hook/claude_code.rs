//! `countersign hook claude-code`.

use countersign_serve::hook::{AllowedCalls, ClaudeCodeHook};
use serde_json::{Value, json};

use super::outcome::{Watchdog, all_causes, guarded, is_heard, refusal};
use super::{CommonArgs, OnFailure, input};
use crate::place::explain;
use crate::{Caller, CommandError, Exit};

/// Answer Claude Code's hooks; `countersign init --claude-code` sets them up
///
/// Before a tool runs, the gate allows it, denies it or has Claude Code ask you; afterwards it is
/// recorded. One session is one recording, and each sub-agent has its own. If we fail, the exit code
/// is 2, which keeps the tool from running.
#[derive(Debug, clap::Args)]
pub(crate) struct ClaudeCodeArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Say nothing to what the gate allows, so that Claude Code asks as it would without us
    #[arg(long)]
    keep_prompts: bool,
    /// Allow also commands and the tools of others without a prompt of Claude Code's, if the gate does
    #[arg(long, conflicts_with = "keep_prompts")]
    skip_prompts: bool,
}

pub(super) fn run(args: &ClaudeCodeArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let on_failure = args.common.on_failure;
    let watchdog = match Watchdog::start(args.common.deadline(), on_failure) {
        Ok(watchdog) => watchdog,
        Err(error) => return failed(error, true, on_failure, caller),
    };
    let answered = guarded(|| answer(args, &watchdog, caller));
    let told = answered.and_then(|answer| match answer {
        Some(answer) => is_heard()
            .and_then(|()| caller.output.json(&answer))
            .and_then(|()| caller.output.flush()),
        None => Ok(()),
    });
    match told {
        Ok(()) => Ok(Exit::Done),
        Err(error) => failed(error, watchdog.holds_a_tool(), on_failure, caller),
    }
}

fn answer(
    args: &ClaudeCodeArgs,
    watchdog: &Watchdog,
    caller: &mut Caller,
) -> Result<Option<Value>, CommandError> {
    let hook = ClaudeCodeHook::read(&input()?).map_err(CommandError::failed)?;
    if !hook.holds_a_tool() {
        watchdog.holds_nothing();
    }
    let allowed = match (args.keep_prompts, args.skip_prompts) {
        (true, _) => AllowedCalls::LeaveToClient,
        (false, true) => AllowedCalls::AllowAll,
        (false, false) => AllowedCalls::AllowFiles,
    };
    let reply = hook.answer(&args.common.setup(caller)?, allowed).map_err(explain)?;
    for note in reply.notes {
        caller.output.warning(note);
    }
    Ok(reply.answer)
}

/// Says what went wrong. Where a tool waits, the exit code keeps it from running; elsewhere the user
/// is told, and nothing is kept from going on.
fn failed(
    error: CommandError,
    holds: bool,
    on_failure: OnFailure,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    if holds && on_failure == OnFailure::Deny {
        return Err(refusal(error));
    }
    let message = format!("countersign could not record this: {}", all_causes(&error).join(": "));
    caller.output.error(&error);
    // If this cannot be said either, it was said on the other stream.
    let output = &mut caller.output;
    let _ = output.json(&json!({ "systemMessage": message })).and_then(|()| output.flush());
    Ok(Exit::Done)
}
