//! `countersign flow replay`.

use countersign_runtime::secrets::Redactor;
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// Go through a flow again from its trace, calling nobody: are its decisions the same?
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The trace of the flow, or the beginning of its id
    #[arg(value_name = "TRACE")]
    trace: String,
}

pub(crate) fn run(args: &ReplayArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let id = super::find_flow(&workspace, &args.trace)?;
    workspace.flow(id).map_err(explain)?;
    let redactor = Redactor::new(std::env::vars_os());
    let replay = workspace.replay_flow(id, &redactor).map_err(CommandError::failed)?;
    let outcome = replay.state.outcome.map(|outcome| outcome.as_str());
    let same = replay.different.is_empty();
    if caller.output.format() == Format::Json {
        let different: Vec<_> = replay
            .different
            .iter()
            .map(|(seq, what)| json!({ "seq": seq, "what": what }))
            .collect();
        caller.output.json(&json!({
            "trace_id": id.to_string(), "events": replay.events, "calls": replay.calls,
            "outcome": outcome, "same": same, "different": different,
        }))?;
    } else {
        for (seq, what) in &replay.different {
            caller.output.line(format_args!("event {seq}: {what}"))?;
        }
        let outcome = outcome.unwrap_or("open");
        caller.output.line(format_args!(
            "{} events, {} calls, outcome {outcome}: {}",
            replay.events,
            replay.calls,
            if same { "every decision is the same" } else { "not the same" }
        ))?;
    }
    Ok(if same { Exit::Done } else { Exit::No })
}
