//! `countersign hook generic`.

use std::time::Duration;

use countersign_gate::Decision;
use countersign_serve::hook::{GenericHook, GenericReply};
use serde_json::json;

use super::outcome::{Watchdog, all_causes, guarded, refusal};
use super::{CommonArgs, OnFailure, input};
use crate::place::explain;
use crate::{Caller, CommandError, Exit};

/// What is left of the time for all but waiting.
const TELLING: Duration = Duration::from_secs(2);

/// Answer the hooks of any program that writes our JSON
///
/// Takes one JSON object: an event (start, before, after or end) of a session, or an action as
/// receipts have it. Answers with one. Exit codes: 0 it may run, 3 it may not, 4 a person is to
/// decide, 2 we failed, so it may not.
#[derive(Debug, clap::Args)]
pub(crate) struct GenericArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// The session of an input that names none
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Seconds to wait for a person to answer what the gate asks; not beyond `--deadline`, if that is
    /// given, and on top of the 20 seconds otherwise
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=86_400))]
    wait: u64,
}

pub(super) fn run(args: &GenericArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let on_failure = args.common.on_failure;
    let (deadline, patience) = args.times();
    // It watches until the answer is written: nobody may read it.
    let told = Watchdog::start(deadline, on_failure).and_then(|_watchdog| {
        let reply = guarded(|| {
            let hook = GenericHook::read(&input()?, args.session.as_deref());
            let hook = hook.map_err(CommandError::failed)?;
            hook.answer(&args.common.setup(caller)?, patience).map_err(explain)
        })?;
        tell(reply, caller)
    });
    told.or_else(|error| failed(error, on_failure, caller))
}

impl GenericArgs {
    /// After what time we have failed, and how long a person is waited for.
    fn times(&self) -> (Duration, Duration) {
        let (own, wait) = (self.common.deadline(), Duration::from_secs(self.wait));
        match self.common.deadline {
            // Whoever waits for us is told that nobody has answered, not that we have failed.
            Some(_) => (own, wait.min(own.saturating_sub(TELLING))),
            None => (own.saturating_add(wait), wait),
        }
    }
}

fn tell(reply: GenericReply, caller: &mut Caller) -> Result<Exit, CommandError> {
    for note in reply.notes {
        caller.output.warning(note);
    }
    caller.output.json(&reply.answer)?;
    caller.output.flush()?;
    Ok(match reply.decision {
        Decision::Allow => Exit::Done,
        Decision::Deny => Exit::No,
        Decision::Ask => Exit::Open,
    })
}

fn failed(
    error: CommandError,
    on_failure: OnFailure,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let decision = match on_failure {
        OnFailure::Deny => "deny",
        OnFailure::Allow => "allow",
    };
    let answer = json!({ "decision": decision, "failed": true, "reasons": all_causes(&error) });
    let output = &mut caller.output;
    // The exit code says it as well.
    let _ = output.json(&answer).and_then(|()| output.flush());
    if on_failure == OnFailure::Deny {
        return Err(refusal(error));
    }
    output.error(&error);
    output.warning("the call is allowed, unrecorded, because of `--on-failure allow`");
    Ok(Exit::Done)
}
