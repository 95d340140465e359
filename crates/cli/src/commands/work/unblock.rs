//! `countersign work unblock` and `confirm-clock`: what only a person may say.

use countersign_runtime::Workspace;
use countersign_runtime::keyring::Protection;
use serde_json::json;

use super::item::{explain_work, find, unreadable};
use crate::place::explain;
use crate::questions::without_secrets;
use crate::{Caller, CommandError, Exit, Format, passphrase};

/// Send a blocked item back to the phase that it was blocked from, as an operator
#[derive(Debug, clap::Args)]
pub(super) struct UnblockArgs {
    /// The item: its id, the beginning of it, or its label
    item: String,
    /// Why it can go on, for the record
    #[arg(long)]
    reason: String,
}

/// Vouch for the clock after it was set back, as an operator: leases are judged by it again
#[derive(Debug, clap::Args)]
pub(super) struct ConfirmClockArgs {
    /// The item: its id, the beginning of it, or its label
    #[arg(required_unless_present = "all")]
    item: Option<String>,
    /// Every item that is not completed
    #[arg(long, conflicts_with = "item")]
    all: bool,
    /// Why the clock is right, for the record
    #[arg(long)]
    reason: String,
}

pub(super) fn run(args: &UnblockArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let item = find(&workspace, &args.item)?;
    let reason = said(&args.reason)?;
    unlock(&workspace)?;
    let phase = item.unblock(&reason).map_err(explain_work)?;
    match caller.output.format() {
        Format::Json => {
            caller.output.json(&json!({ "item": item.id().to_string(), "phase": phase }))?;
        }
        Format::Text => caller.output.line(phase)?,
    }
    Ok(Exit::Done)
}

pub(super) fn confirm_clock(
    args: &ConfirmClockArgs,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    use countersign_protocol::Refusal;
    use countersign_protocol::work::WorkRefusal;
    use countersign_runtime::{WorkspaceError, WriteError};
    let workspace = caller.workspace()?;
    let reason = said(&args.reason)?;
    let items = match &args.item {
        Some(name) => vec![find(&workspace, name)?.id()],
        None => {
            let rows = workspace.index().and_then(|mut index| index.work_items());
            let rows = rows.map_err(unreadable)?;
            let open = rows.iter().filter(|row| row.phase.as_str() != "COMPLETED");
            open.map(|row| row.id).collect()
        }
    };
    unlock(&workspace)?;
    let mut confirmed = 0_u64;
    for id in items {
        let item = workspace.work(id).map_err(explain_work)?;
        match item.confirm_clock(&reason) {
            Ok(()) => confirmed += 1,
            Err(WorkspaceError::Write(WriteError::Refused(Refusal::Work(
                WorkRefusal::ClockHolds,
            )))) if args.all => {}
            Err(error) => return Err(explain_work(error)),
        }
    }
    match caller.output.format() {
        Format::Json => caller.output.json(&json!({ "confirmed": confirmed }))?,
        Format::Text => {
            caller.output.success(format_args!("the clock is confirmed for {confirmed} items"));
        }
    }
    Ok(Exit::Done)
}

fn said(reason: &str) -> Result<String, CommandError> {
    let reason = without_secrets(reason.trim());
    match reason.is_empty() {
        true => Err(CommandError::usage("the reason must not be empty")),
        false => Ok(reason),
    }
}

/// Takes the operator's key into use.
fn unlock(workspace: &Workspace) -> Result<(), CommandError> {
    if workspace.operator_protection().map_err(explain)? == Protection::Passphrase {
        let passphrase = passphrase::ask("passphrase of the operator's key")?;
        workspace.unlock_operator(&passphrase).map_err(explain)?;
    }
    Ok(())
}
