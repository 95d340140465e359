//! `countersign trace abort`.

use countersign_format::event::TraceKind;
use countersign_protocol::kind_of;
use countersign_runtime::inspect::first_event;
use countersign_runtime::keyring::Protection;
use serde_json::json;

use crate::place::{explain, find_trace};
use crate::questions::without_secrets;
use crate::{Caller, CommandError, Exit, Format, passphrase};

/// End a session, recording or flow that is open, as its operator; whoever runs it stops
#[derive(Debug, clap::Args)]
pub(crate) struct AbortArgs {
    /// The trace's id, or the beginning of it
    trace: String,
    /// Why, for the record
    #[arg(long, default_value = "aborted by the operator")]
    reason: String,
}

pub(super) fn run(args: &AbortArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    if args.reason.trim().is_empty() {
        return Err(CommandError::usage("an empty reason says nothing"));
    }
    let workspace = caller.workspace()?;
    let id = find_trace(&workspace, &args.trace)?;
    let first = first_event(&workspace.trace_file(id)).ok().flatten();
    if first.as_ref().and_then(kind_of) == Some(TraceKind::Work) {
        let error = format!("work item {id} is not aborted: it ends when it is completed");
        return Err(CommandError::no(error)
            .with_hint(format!("run `countersign work show {id}` to see where it stands")));
    }
    if workspace.operator_protection().map_err(explain)? == Protection::Passphrase {
        let passphrase = passphrase::ask("passphrase of the operator's key")?;
        workspace.unlock_operator(&passphrase).map_err(explain)?;
    }
    let lag = workspace.abort(id, &without_secrets(&args.reason)).map_err(explain)?;
    if let Some(lag) = lag {
        caller.output.warning(format_args!("the workspace log was not told: {lag}"));
        caller.output.hint("run `countersign doctor --repair` to tell it");
    }
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({ "trace_id": id.to_string(), "status": "aborted" }))?;
    } else {
        caller.output.success(format_args!("aborted {id}"));
    }
    Ok(Exit::Done)
}
