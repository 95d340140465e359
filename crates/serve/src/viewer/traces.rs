//! Traces: the workspace's list, one of them, and the reports that were kept of it.

use std::fs;

use axum::http::StatusCode;
use axum::response::Response;
use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_format::report::{VerificationReport, VerificationStatus};
use countersign_format::time::Timestamp;
use countersign_format::trace_session::{Participant, TraceStatus};
use countersign_runtime::Workspace;
use countersign_runtime::index::{TraceQuery, TraceRow};
use countersign_runtime::inspect::{LogEntry, first_event};
use countersign_runtime::keyring::Protection;
use countersign_verify::{NOT_PROVEN, read_regular};
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{ApiFailure, Page, json as answer};
use super::asked::Asked;
use super::desk::Desk;
use super::ledger::plain;
use super::verdicts::{VerdictBrief, all_known, known_brief};

/// Traces of one page, and traces that are gone and told by name.
const PAGE_MAX: u64 = 500;
const GONE_MAX: usize = 200;
/// Bytes that a kept report may have, and how many of them are listed.
const REPORT_BYTES_MAX: u64 = 4 << 20;
const REPORTS_MAX: usize = 200;

/// A trace in a list.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TraceBrief {
    trace_id: String,
    kind: Option<TraceKind>,
    status: Option<TraceStatus>,
    closed: bool,
    outcome: Option<String>,
    title: Option<String>,
    task_id: Option<String>,
    started_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    duration_ms: Option<i64>,
    events: u64,
    artifacts: u64,
    bytes: u64,
    head: Option<String>,
    participants: Vec<Participant>,
    unreadable: Option<String>,
    verdict: Option<VerdictBrief>,
}

impl TraceBrief {
    pub(super) fn of(row: &TraceRow, desk: &Desk) -> Self {
        let summary = row.summary();
        let session = summary.as_ref();
        let ended_at = session.and_then(|session| session.ended_at);
        let outcome = session.and_then(|session| session.unknown.get("outcome"));
        Self {
            trace_id: row.id.to_string(),
            kind: row.kind,
            status: row.status,
            closed: row.closed,
            outcome: outcome.and_then(Value::as_str).map(str::to_owned),
            title: row.title.clone(),
            task_id: session.and_then(|session| session.task_id.clone()),
            started_at: row.first_at,
            last_at: row.last_at,
            ended_at,
            duration_ms: ended_at
                .zip(row.first_at)
                .map(|(end, begin)| end.as_millis() - begin.as_millis()),
            events: row.events,
            artifacts: session.map_or(0, |session| session.artifact_count),
            bytes: row.bytes,
            head: row.head.map(|head| head.to_hex()),
            participants: summary.map(|session| session.participants).unwrap_or_default(),
            unreadable: row.unreadable.clone(),
            verdict: known_brief(desk, row.id),
        }
    }
}

pub(super) fn list(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let (offset, limit) = asked.page(PAGE_MAX)?;
    let query = TraceQuery {
        kinds: asked.named("kind", TraceKind::parse)?,
        statuses: asked.named("status", status)?,
        closed: asked.parsed("closed")?,
        text: asked.one("text")?.map(str::to_owned),
        from: asked.time("from")?,
        to: asked.time("to")?,
        only: None,
        except: Vec::new(),
        oldest_first: oldest_first(asked.one("order")?)?,
        offset,
        limit,
    };
    page(desk, &by_verdict(desk, asked.one("verdict")?, query)?)
}

/// Whether the oldest come first; the newest do if nothing is said.
pub(super) fn oldest_first(order: Option<&str>) -> Result<bool, ApiFailure> {
    match order {
        None | Some("newest") => Ok(false),
        Some("oldest") => Ok(true),
        Some(other) => Err(ApiFailure::bad(format!("`order` is newest or oldest, not `{other}`"))),
    }
}

/// Narrows a query to traces with such a verdict. Those without one are verified by and by.
fn by_verdict(
    desk: &Desk,
    wanted: Option<&str>,
    mut query: TraceQuery,
) -> Result<TraceQuery, ApiFailure> {
    let Some(wanted) = wanted else { return Ok(query) };
    let known = all_known(desk);
    let failed = |status: VerificationStatus| status == VerificationStatus::Fail;
    let those = |fail: bool| -> Vec<Ulid> {
        known.iter().filter(|(_, it)| failed(*it) == fail).map(|(id, _)| *id).collect()
    };
    match wanted {
        "fail" => query.only = Some(those(true)),
        "pass" => query.only = Some(those(false)),
        "unknown" => query.except = known.iter().map(|(id, _)| *id).collect(),
        other => {
            let message = format!("`verdict` is fail, pass or unknown, not `{other}`");
            return Err(ApiFailure::bad(message));
        }
    }
    let lengths = desk.index(|index| index.trace_lengths())?;
    let sized = lengths.iter().map(|(id, bytes)| (*id, u64::try_from(*bytes).unwrap_or(0)));
    desk.verdicts.want(sized);
    Ok(query)
}

fn status(name: &str) -> Option<TraceStatus> {
    serde_json::from_value(Value::from(name)).ok()
}

/// A page of traces; those without a verdict are verified by and by.
pub(super) fn page(desk: &Desk, query: &TraceQuery) -> Result<Response, ApiFailure> {
    let found = desk.index(|index| index.find_traces(query))?;
    let items: Vec<TraceBrief> = found.rows.iter().map(|row| TraceBrief::of(row, desk)).collect();
    desk.verdicts.want(found.rows.iter().map(|row| (row.id, row.bytes)));
    let (matched, total) = (found.matched, found.total);
    Ok(answer(&Page { items, offset: query.offset, matched, total }))
}

/// The row of a trace, which must be there.
pub(super) fn row(desk: &Desk, id: Ulid) -> Result<TraceRow, ApiFailure> {
    if let Some(found) = desk.index(|index| index.find_trace(id))? {
        return Ok(found);
    }
    Err(match desk.logged(id) {
        Some(entry) => {
            let size = entry.size;
            let message =
                format!("trace {id} is gone: the workspace log knows {size} of its events");
            ApiFailure::new(StatusCode::NOT_FOUND, "gone", message)
        }
        None => ApiFailure::missing(format!("there is no trace {id}")),
    })
}

#[derive(Serialize)]
struct TraceAnswer {
    #[serde(flatten)]
    brief: TraceBrief,
    log: Option<Value>,
    links: Option<Value>,
    opened: Value,
    reports: usize,
}

pub(super) fn one(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let row = row(desk, asked.id()?)?;
    let id = row.id;
    let first = first_event(&desk.workspace.trace_file(id)).ok().flatten();
    let payload = first.map(|first| first.payload).filter(Value::is_object);
    let links = payload.as_ref().and_then(|payload| payload.get("links")).cloned();
    Ok(answer(&TraceAnswer {
        brief: TraceBrief::of(&row, desk),
        log: desk.logged(id).map(|entry| json!({ "size": entry.size, "closed": entry.closed })),
        links: links.filter(Value::is_object),
        opened: payload.map_or_else(|| json!({}), plain),
        reports: kept_reports(&desk.workspace, id).len(),
    }))
}

/// The ids of the reports that lie beside a trace, the newest first.
fn kept_reports(workspace: &Workspace, id: Ulid) -> Vec<Ulid> {
    let reports = workspace.trace_file(id).with_file_name("reports");
    let names = fs::read_dir(reports).into_iter().flatten().flatten();
    let id = |name: std::ffi::OsString| name.to_str()?.strip_suffix(".json")?.parse().ok();
    let mut ids: Vec<Ulid> = names.filter_map(|entry| id(entry.file_name())).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids.truncate(REPORTS_MAX);
    ids
}

fn kept_report(workspace: &Workspace, id: Ulid, report: Ulid) -> Option<VerificationReport> {
    let dir = workspace.trace_file(id).with_file_name("reports");
    let bytes = read_regular(&dir.join(format!("{report}.json")), REPORT_BYTES_MAX).ok()?;
    serde_json::from_slice(&bytes).ok()
}

pub(super) fn reports(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let id = row(desk, asked.id()?)?.id;
    let all = kept_reports(&desk.workspace, id).into_iter().filter_map(|report| {
        let found = kept_report(&desk.workspace, id, report)?;
        Some(json!({
            "report_id": report.to_string(),
            "verified_at": found.verified_at,
            "verification_status": found.verification_status,
            "summary": found.summary,
        }))
    });
    Ok(answer(&json!({ "items": all.collect::<Vec<_>>() })))
}

pub(super) fn report(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let id = asked.id()?;
    let report: Ulid = asked.step("report_id", "a report's id has 26 characters")?;
    let found = kept_report(&desk.workspace, id, report);
    let found = found.ok_or_else(|| {
        ApiFailure::missing(format!("trace {id} has no report {report} that can be read"))
    })?;
    Ok(answer(&found))
}

pub(super) fn workspace(desk: &Desk, _: &Asked) -> Result<Response, ApiFailure> {
    let workspace = &desk.workspace;
    let none = TraceQuery { limit: 1, ..TraceQuery::default() };
    let traces = desk.index(|index| index.find_traces(&none))?.total;
    let trusted = desk.trusted_roots()?;
    let folder = match workspace.home().file_name() {
        Some(name) if name == ".countersign" => workspace.home().parent(),
        _ => Some(workspace.home()),
    };
    let name = folder.and_then(|folder| folder.file_name()).unwrap_or_default();
    let root = workspace.root();
    let gone = desk.gone()?;
    let failing = all_known(desk).iter().filter(|(_, it)| *it == VerificationStatus::Fail).count();
    Ok(answer(&json!({
        "name": name.to_string_lossy(),
        "root": root.to_hex(),
        "version": env!("CARGO_PKG_VERSION"),
        "now": workspace.now(),
        "traces": traces,
        "failing": failing,
        "gone_count": gone.len(),
        "gone": gone.iter().take(GONE_MAX).map(told_gone).collect::<Vec<_>>(),
        "log_entries": super::log::entries(desk)?,
        "checkpoint": super::log::checkpoint(workspace),
        "operator_key": operator_key(workspace),
        "pinned": trusted.contains(&root),
        "trusted_roots": trusted.iter().map(|root| root.to_hex()).collect::<Vec<_>>(),
        "not_proven": NOT_PROVEN,
    })))
}

fn told_gone((id, entry): &(String, LogEntry)) -> Value {
    json!({ "trace_id": id, "kind": entry.kind, "size": entry.size, "closed": entry.closed })
}

/// How the operator's key is kept.
pub(super) fn operator_key(workspace: &Workspace) -> &'static str {
    match workspace.operator_protection() {
        Ok(Protection::Passphrase) => "protected",
        Ok(_) => "unprotected",
        Err(_) => "missing",
    }
}
