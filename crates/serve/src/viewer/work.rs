//! Work items: the board, and the life of one.

use axum::response::Response;
use countersign_format::time::Timestamp;
use countersign_runtime::index::{TransitionRow, WorkRow};
use serde_json::{Value, json};

use super::answer::{ApiFailure, json as answer};
use super::asked::Asked;
use super::desk::Desk;
use super::traces::TraceBrief;

pub(super) fn board(desk: &Desk, _: &Asked) -> Result<Response, ApiFailure> {
    let now = desk.workspace.now();
    let rows = desk.index(|index| index.work_items())?;
    let items: Vec<Value> = rows.iter().map(|row| item(row, now)).collect();
    Ok(answer(&json!({ "now": now, "items": items })))
}

pub(super) fn one(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let id = asked.id()?;
    let (rows, transitions) =
        desk.index(|index| Ok((index.work_items()?, index.transitions(Some(id))?)))?;
    let row = rows.iter().find(|row| row.id == id);
    let row = row.ok_or_else(|| ApiFailure::missing(format!("there is no work item {id}")))?;
    let mut sessions: Vec<&str> =
        transitions.iter().filter_map(|it| it.session_id.as_deref()).collect();
    sessions.dedup();
    let mut briefs = Vec::new();
    for session in sessions {
        let found = session.parse().ok().map(|id| desk.index(|index| index.find_trace(id)));
        if let Some(row) = found.transpose()?.flatten() {
            briefs.push(TraceBrief::of(&row, desk));
        }
    }
    Ok(answer(&json!({
        "item": item(row, desk.workspace.now()),
        "transitions": transitions.iter().map(transition).collect::<Vec<_>>(),
        "sessions": briefs,
    })))
}

fn item(row: &WorkRow, now: Timestamp) -> Value {
    json!({
        "item": row.id.to_string(),
        "label": row.label,
        "title": row.title,
        "phase": row.phase,
        "blocked_from": row.blocked_from,
        "blocked_reason": row.blocked_reason,
        "holder": row.holder,
        "session_id": row.session_id,
        "epoch": row.epoch,
        "expires_at": row.expires_at,
        "expired": row.expires_at.is_some_and(|until| now >= until),
        "phase_since": row.phase_since,
        "attempts": row.attempts,
        "opened_at": row.opened_at,
        "pr_url": row.pr_url,
    })
}

fn transition(row: &TransitionRow) -> Value {
    json!({
        "seq": row.seq,
        "at": row.at,
        "type": row.event_type,
        "phase_before": row.phase_before,
        "phase_after": row.phase_after,
        "holder": row.holder,
        "epoch": row.epoch,
        "session_id": row.session_id,
        "reason": row.reason,
    })
}
