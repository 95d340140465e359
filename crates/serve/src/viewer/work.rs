//! Work items: the board in pages, and the life of one.

use axum::response::Response;
use countersign_format::exit::WorkPhase;
use countersign_format::hash::Hash;
use countersign_format::time::Timestamp;
use countersign_runtime::index::{BoardQuery, PhaseCount, TransitionRow, WorkRow};
use serde_json::{Value, json};

use super::answer::{ApiFailure, json as answer};
use super::asked::Asked;
use super::desk::Desk;
use super::events::look;
use super::ledger::LedgerView;
use super::traces::{TraceBrief, oldest_first};

/// Items, or events of one item, in a page.
const PAGE_MAX: u64 = 500;
/// Sessions of an item that are told, the latest of them.
const SESSIONS_MAX: usize = 200;

pub(super) fn board(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let (offset, limit) = asked.page(PAGE_MAX)?;
    let query = BoardQuery {
        phases: asked.named("phase", |name| WorkPhase::parse(name).ok())?,
        text: asked.one("text")?.map(str::to_owned),
        newest_first: !oldest_first(asked.one("order")?.or(Some("oldest")))?,
        offset,
        limit,
    };
    let now = desk.workspace.now();
    let page = desk.index(|index| index.board(&query, now))?;
    Ok(answer(&json!({
        "now": now,
        "items": page.rows.iter().map(|row| item(row, now)).collect::<Vec<_>>(),
        "offset": offset,
        "matched": page.matched,
        "total": page.total,
        "phases": page.phases.iter().map(phase).collect::<Vec<_>>(),
    })))
}

pub(super) fn one(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let id = asked.id()?;
    let (offset, limit) = asked.page(PAGE_MAX)?;
    let (row, transitions) =
        desk.index(|index| Ok((index.find_work_item(id)?, index.transitions(Some(id))?)))?;
    let row = row.ok_or_else(|| ApiFailure::missing(format!("there is no work item {id}")))?;
    let mut sessions: Vec<&str> = Vec::new();
    for session in transitions.iter().rev().filter_map(|it| it.session_id.as_deref()) {
        if sessions.len() < SESSIONS_MAX && !sessions.contains(&session) {
            sessions.push(session);
        }
    }
    let mut briefs = Vec::new();
    for session in sessions.into_iter().rev() {
        let found = session.parse().ok().map(|id| desk.index(|index| index.find_trace(id)));
        if let Some(row) = found.transpose()?.flatten() {
            briefs.push(TraceBrief::of(&row, desk));
        }
    }
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
    let shown = transitions.iter().skip(skipped).take(usize::try_from(limit).unwrap_or(0));
    let told: Vec<Value> = look(desk, id, |view| shown.map(|row| transition(row, view)).collect())?;
    Ok(answer(&json!({
        "item": item(&row, desk.workspace.now()),
        "transitions": told,
        "offset": offset,
        "total": transitions.len(),
        "sessions": briefs,
    })))
}

fn phase(count: &PhaseCount) -> Value {
    json!({ "phase": count.phase, "items": count.items, "held": count.held })
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

/// One event of an item: what it changed, and what it rests on. The second is read from its line,
/// and is absent where that cannot be read.
fn transition(row: &TransitionRow, view: &mut LedgerView) -> std::io::Result<Value> {
    let line = view.line(row.seq)?.unwrap_or_default();
    let event = countersign_format::json::read(&line).unwrap_or_default();
    let payload = event.get("payload").cloned().unwrap_or_default();
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let hash = |name: &str| text(name).filter(|it| it.parse::<Hash>().is_ok());
    Ok(json!({
        "seq": row.seq,
        "at": row.at,
        "type": row.event_type,
        "phase_before": row.phase_before,
        "phase_after": row.phase_after,
        "holder": row.holder,
        "epoch": row.epoch,
        "session_id": row.session_id,
        "reason": row.reason,
        "by": event.pointer("/actor/agent_id").and_then(Value::as_str),
        "exit_reason": text("exit_reason"),
        "channel": text("channel"),
        "commit": text("commit"),
        "ci": payload.get("ci").filter(|ci| ci.is_object()).map(ci),
        "pr_url": text("pr_url"),
        "evidence_bundle_ref": text("evidence_bundle_ref"),
        "evidence_artifact": hash("evidence_artifact"),
        "signal_artifact": hash("signal_artifact"),
        "released_by": text("released_by"),
    }))
}

/// How CI ended, and on which commit.
fn ci(said: &Value) -> Value {
    json!({
        "exit_status": said.get("exit_status").and_then(Value::as_i64),
        "reason": said.get("reason").and_then(Value::as_str),
        "commit": said.get("commit").and_then(Value::as_str),
        "uncommitted_changes": said.get("uncommitted_changes") == Some(&Value::Bool(true)),
    })
}
