//! The events of a trace, in pages: all, those that fit a filter, its actions, its decisions.

use std::io;

use axum::response::Response;
use countersign_format::id::Ulid;
use countersign_runtime::store::LedgerId;
use serde_json::{Value, json};

use super::answer::{ApiFailure, Page, json as answer};
use super::asked::Asked;
use super::desk::Desk;
use super::ledger::{EventFilter, EventItem, LedgerView, item, plain};

/// Events of one page.
pub(super) const PAGE_MAX: u64 = 200;
/// Bytes of an action that is shown whole, and reasons of a decision.
const ACTION_BYTES_MAX: usize = 16 << 10;
const REASONS_MAX: usize = 50;
/// Where a decision on something that was proposed, or that waited for a person, is recorded.
const DECISIONS: [&str; 4] =
    ["proposal_reviewed", "tool_intent_reviewed", "answer_given", "work_unblocked"];
/// Where an action is recorded: done, or refused.
const ACTIONS: [&str; 3] =
    ["tool_execution_completed", "tool_execution_failed", "tool_intent_reviewed"];

/// Looks at the ledger of a trace that must be there.
pub(super) fn look<T>(
    desk: &Desk,
    id: Ulid,
    at: impl FnOnce(&mut LedgerView) -> io::Result<T>,
) -> Result<T, ApiFailure> {
    let path = desk.workspace.trace_file(id);
    if path.symlink_metadata().is_err() {
        return Err(ApiFailure::missing(format!("there is no trace {id}")));
    }
    desk.ledgers
        .look(LedgerId::Trace(id), &path, at)
        .map_err(|error| ApiFailure::unusable(format!("trace {id} cannot be read: {error}")))
}

/// What a request asks of events.
pub(super) fn filter(asked: &Asked) -> Result<EventFilter, ApiFailure> {
    let all = |name: &str| {
        let values = asked.all(name).filter(|value| !value.is_empty());
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    Ok(EventFilter {
        types: all("type"),
        roles: all("role"),
        actors: all("actor"),
        text: asked.one("text")?.map(str::to_owned),
    })
}

pub(super) fn list(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let (id, filter) = (asked.id()?, filter(asked)?);
    let (offset, limit) = asked.page(PAGE_MAX)?;
    let page = look(desk, id, |view| page(view, &filter, offset, limit))?;
    Ok(answer(&page))
}

pub(super) fn page(
    view: &mut LedgerView,
    filter: &EventFilter,
    offset: u64,
    limit: u64,
) -> io::Result<Page<EventItem>> {
    let (items, matched) = view.page(filter, offset, limit)?;
    Ok(Page { items, offset, matched, total: view.total() })
}

pub(super) fn facets(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let facets = look(desk, asked.id()?, LedgerView::facets)?;
    Ok(answer(&facets))
}

/// The events from `from` on, at most a page, and how many there are.
pub(super) fn since(desk: &Desk, id: Ulid, from: u64) -> Result<(Vec<EventItem>, u64), ApiFailure> {
    look(desk, id, |view| {
        let (items, total) = view.page(&EventFilter::default(), from, PAGE_MAX)?;
        Ok((items, total))
    })
}

pub(super) fn actions(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    chosen(desk, asked, &ACTIONS, Some("\"action\":{"), |index, event| {
        let action = event.pointer("/payload/action").filter(|action| action.is_object())?.clone();
        let long = action.to_string().len() > ACTION_BYTES_MAX;
        let action = if long { plain(action) } else { action };
        Some(json!({
            "index": index,
            "event_id": member(event, "/event_id"),
            "event_type": member(event, "/event_type"),
            "action": action,
        }))
    })
}

pub(super) fn decisions(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let (id, (offset, limit)) = (asked.id()?, asked.page(PAGE_MAX)?);
    let types = DECISIONS.map(str::to_owned).to_vec();
    let filter = EventFilter { types, ..EventFilter::default() };
    let page = look(desk, id, |view| {
        let (items, matched) = view.page(&filter, offset, limit)?;
        let mut told = Vec::new();
        for item in &items {
            if let Some(event) = whole(view, item)? {
                told.push(decision(item.index, &event, view)?);
            }
        }
        Ok(Page { items: told, offset, matched, total: view.total() })
    })?;
    Ok(answer(&page))
}

/// One decision, with the tool and the risk of what was decided about.
fn decision(index: u64, event: &Value, view: &LedgerView) -> io::Result<Value> {
    let payload = event.get("payload").cloned().unwrap_or_default();
    let text = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
    let subject = ["subject", "proposal", "question"].iter().find_map(|&name| {
        payload.get(name).filter(|subject| subject.get("seq").is_some()).cloned()
    });
    let place = subject.as_ref().and_then(|subject| subject.get("seq")).and_then(Value::as_u64);
    let line = place.map(|place| view.line(place)).transpose()?.flatten();
    let about = line.and_then(|line| item(0, &line).event).unwrap_or_default();
    let of_subject = |name: &str| {
        about.pointer(&format!("/payload/{name}")).and_then(Value::as_str).map(str::to_owned)
    };
    // A plan's review has a rationale and conditions where an intent's has reasons, and a person's
    // word has one reason.
    let own = ["rationale", "reason"].into_iter().filter_map(|name| payload.get(name)?.as_str());
    let listed = ["reasons", "conditions"].into_iter().filter_map(|name| payload.get(name));
    let listed = listed.filter_map(Value::as_array).flatten();
    let listed = listed.filter_map(|one| one.get("text").unwrap_or(one).as_str());
    let reasons: Vec<&str> = own.chain(listed).take(REASONS_MAX).collect();
    let unblocked = member(event, "/event_type") == "work_unblocked";
    let word = unblocked.then(|| "unblocked".to_owned()).or_else(|| text("decision"));
    Ok(json!({
        "index": index,
        "event_id": member(event, "/event_id"),
        "created_at": member(event, "/created_at"),
        "role": member(event, "/actor/role"),
        "agent_id": member(event, "/actor/agent_id"),
        "decision": word.or_else(|| Some(payload.get("answer")?.to_string())),
        "reasons": reasons,
        "channel": text("channel"),
        "subject": subject,
        "tool": of_subject("tool_name"),
        "risk": of_subject("safety_classification"),
    }))
}

/// A text of an event; empty where a damaged one has something else.
fn member<'e>(event: &'e Value, place: &str) -> &'e str {
    event.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// The whole event of an item, also of one that was cut.
fn whole(view: &LedgerView, item: &EventItem) -> io::Result<Option<Value>> {
    if !item.cut {
        return Ok(item.event.clone());
    }
    let line = view.line(item.index)?.unwrap_or_default();
    Ok(countersign_format::json::read(&line).ok())
}

/// A page of what `tell` makes of events of these types that hold `text`.
fn chosen(
    desk: &Desk,
    asked: &Asked,
    types: &[&str],
    text: Option<&str>,
    tell: impl Fn(u64, &Value) -> Option<Value>,
) -> Result<Response, ApiFailure> {
    let (id, (offset, limit)) = (asked.id()?, asked.page(PAGE_MAX)?);
    let filter = EventFilter {
        types: types.iter().map(|&name| name.to_owned()).collect(),
        text: text.map(str::to_owned),
        ..EventFilter::default()
    };
    let page = look(desk, id, |view| {
        let (items, matched) = view.page(&filter, offset, limit)?;
        let mut told = Vec::new();
        for item in &items {
            let event = whole(view, item)?;
            told.extend(event.and_then(|event| tell(item.index, &event)));
        }
        Ok(Page { items: told, offset, matched, total: view.total() })
    })?;
    Ok(answer(&page))
}
