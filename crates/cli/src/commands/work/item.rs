//! Finding the work item that a name means.

use countersign_format::id::Ulid;
use countersign_runtime::index::IndexError;
use countersign_runtime::work::WorkItem;
use countersign_runtime::{Workspace, WorkspaceError, WriteError};

use crate::place::explain;
use crate::{CommandError, Exit};

/// Characters of an id.
const ID_CHARACTERS: usize = 26;

/// The item of this id, label, or beginning of an id. A whole id is found without looking at others.
pub(super) fn find(workspace: &Workspace, name: &str) -> Result<WorkItem, CommandError> {
    let id = match name.parse::<Ulid>() {
        Ok(id) if name.len() == ID_CHARACTERS => id,
        _ => named(workspace, name)?,
    };
    workspace.work(id).map_err(|error| match error {
        WorkspaceError::Missing { .. } => no_such(name),
        WorkspaceError::Write(WriteError::Damaged(_)) if !is_work(workspace, id) => no_such(name),
        other => explain_work(other),
    })
}

/// A trace of another kind is damaged in the eyes of whoever wants a work item.
fn is_work(workspace: &Workspace, id: Ulid) -> bool {
    let found = workspace.index().and_then(|mut index| index.work_items());
    found.is_ok_and(|rows| rows.iter().any(|row| row.id == id))
}

fn named(workspace: &Workspace, name: &str) -> Result<Ulid, CommandError> {
    let mut index = workspace.index().map_err(unreadable)?;
    let mut found = index.work_items_named(name).map_err(unreadable)?;
    if found.is_empty() && !name.is_empty() {
        let rows = index.work_items().map_err(unreadable)?;
        let begins = rows.iter().filter(|row| row.id.to_string().starts_with(name));
        found = begins.map(|row| row.id).collect();
    }
    match found.as_slice() {
        [id] => Ok(*id),
        [] => Err(no_such(name)),
        several => {
            Err(CommandError::failed(format!("`{name}` means {} work items", several.len()))
                .with_details(several.iter().take(5).map(Ulid::to_string))
                .with_hint("name one of them by its id"))
        }
    }
}

fn no_such(name: &str) -> CommandError {
    CommandError::failed(format!("no work item `{name}`"))
        .with_hint("run `countersign work list --all` to see all items")
}

/// The index cannot be used.
pub(super) fn unreadable(error: IndexError) -> CommandError {
    CommandError::failed_doing("cannot look at the work items", error)
}

/// As [`explain`], with what can be done about a refusal.
pub(super) fn explain_work(error: WorkspaceError) -> CommandError {
    use countersign_protocol::Refusal;
    use countersign_protocol::work::WorkRefusal as R;
    let hint = match &error {
        WorkspaceError::Write(WriteError::Refused(Refusal::Work(refusal))) => match refusal {
            R::ClockBehind { .. } => Some(
                "if the clock is right now, run `countersign work confirm-clock ITEM --reason …`",
            ),
            R::NotClaimable { phase } if phase.as_str() == "BLOCKED" => {
                Some("run `countersign work unblock ITEM --reason …` when it can go on")
            }
            R::OnlyCi => {
                Some("`countersign work dispatch` runs the CI command of countersign.toml")
            }
            R::Held { .. } => {
                Some("an operator can take it away: `countersign work release ITEM --force …`")
            }
            R::OtherHolder { .. } => Some(
                "say who you are with `--as NAME`; an operator can take it away: `countersign \
                     work release ITEM --force --reason …`",
            ),
            R::NotLonger { .. } => Some("name a longer time with `--for`"),
            R::AuthorReviews { .. } | R::AuthorRunsCi { .. } => {
                Some("claim it under another name: `--as NAME`")
            }
            R::Stale { .. } | R::NotHeld { .. } | R::Expired { .. } => {
                Some("claim it again: `countersign work claim ITEM`")
            }
            _ => None,
        },
        _ => None,
    };
    let explained = explain(error);
    debug_assert!(hint.is_none() || explained.exit == Exit::No);
    match hint {
        Some(hint) => explained.with_hint(hint),
        None => explained,
    }
}
