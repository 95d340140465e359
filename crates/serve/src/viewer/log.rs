//! The workspace log: its entries and its checkpoint.

use axum::response::Response;
use countersign_format::note::{Checkpoint, SignedNote};
use countersign_runtime::Workspace;
use countersign_runtime::store::LedgerId;
use countersign_verify::read_regular;
use serde_json::{Value, json};

use super::answer::{ApiFailure, json as answer};
use super::asked::Asked;
use super::desk::Desk;
use super::events::{PAGE_MAX, filter, page};
use super::ledger::LedgerView;

/// Bytes that a checkpoint may have.
const CHECKPOINT_BYTES_MAX: u64 = 256 << 10;

fn look<T>(
    desk: &Desk,
    at: impl FnOnce(&mut LedgerView) -> std::io::Result<T>,
) -> Result<T, ApiFailure> {
    let path = desk.workspace.store().ledger_dir(LedgerId::Log).join("events.jsonl");
    desk.ledgers
        .look(LedgerId::Log, &path, at)
        .map_err(|error| ApiFailure::unusable(format!("the log cannot be read: {error}")))
}

pub(super) fn list(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let (filter, (offset, limit)) = (filter(asked)?, asked.page(PAGE_MAX)?);
    let page = look(desk, |view| page(view, &filter, offset, limit))?;
    Ok(answer(&page))
}

/// How many entries the log has.
pub(super) fn entries(desk: &Desk) -> Result<u64, ApiFailure> {
    look(desk, |view| Ok(view.total()))
}

/// The size and the root that the log's own checkpoint states.
pub(super) fn checkpoint(workspace: &Workspace) -> Option<Value> {
    let path = workspace.store().ledger_dir(LedgerId::Log).join("checkpoint");
    let bytes = read_regular(&path, CHECKPOINT_BYTES_MAX).ok()?;
    let note = SignedNote::parse(&bytes).ok()?;
    let found: Checkpoint = note.text().parse().ok()?;
    Some(json!({ "size": found.size, "root": found.root.to_hex() }))
}
