//! `countersign work show`.

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::id::Ulid;
use countersign_format::trace_session::{TraceSession, TraceStatus};
use countersign_protocol::work::WorkState;
use countersign_runtime::Workspace;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use countersign_runtime::work::WorkItem;
use serde::Serialize;
use serde_json::{Value, json};

use super::item::{explain_work, find};
use super::told::since;
use crate::{Caller, CommandError, Exit, Format};

/// One item: where it stands, and everything that happened to it
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The item: its id, the beginning of it, or its label
    item: String,
}

pub(super) fn run(args: &ShowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let item = find(&workspace, &args.item)?;
    let state = item.look(Clone::clone).map_err(|error| explain_work(error.into()))?;
    let events = events(&workspace, &item)?;
    let sessions = sessions(&workspace, &events);
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({
            "item": item.id().to_string(), "state": state, "events": events,
            "sessions": sessions,
        }))?;
        return Ok(Exit::Done);
    }
    head(&workspace, &item, &state, caller)?;
    for event in &events {
        caller.output.line(format_args!(
            "{:>5}  {}  {}",
            event.seq.unwrap_or_default(),
            event.created_at,
            sentence(event)
        ))?;
        for line in below(event) {
            caller.output.line(format_args!("       {line}"))?;
        }
    }
    if !sessions.is_empty() {
        caller.output.line("sessions")?;
    }
    for WorkedBy { session_id, trace, .. } in &sessions {
        let stand = trace.as_ref().map_or("has no trace here".to_owned(), SessionTrace::told);
        caller.output.line(format_args!("  {session_id}  {stand}"))?;
    }
    caller.output.hint(format_args!("run `countersign verify {}` to check it", item.id()));
    Ok(Exit::Done)
}

fn events(workspace: &Workspace, item: &WorkItem) -> Result<Vec<Event>, CommandError> {
    let mut events = Vec::new();
    let file = workspace.trace_file(item.id());
    let read = each_event(&file, LedgerId::Trace(item.id()), |event| events.push(event));
    let failed = |error| CommandError::failed_doing("cannot read the item's trace", error);
    let _ = read.map_err(failed)?;
    Ok(events)
}

fn head(
    workspace: &Workspace,
    item: &WorkItem,
    state: &WorkState,
    caller: &mut Caller,
) -> Result<(), CommandError> {
    let now = workspace.now();
    let label = state.label.as_deref().map(|label| format!("{label}  ")).unwrap_or_default();
    caller.output.line(format_args!("{label}{}", state.title))?;
    caller.output.line(format_args!("item   {}", item.id()))?;
    let from = match state.blocked_from {
        Some(from) => format!(", blocked from {from}"),
        None => String::new(),
    };
    let age = since(state.phase_since, now);
    caller.output.line(format_args!("phase  {} for {age}{from}", state.phase))?;
    match (&state.lease, state.live_lease(state.clock.shown(now))) {
        (_, Some(lease)) => caller.output.line(format_args!(
            "held   by {} with lease {} until {}",
            lease.holder, lease.epoch, lease.expires_at
        ))?,
        (Some(lease), None) => caller.output.line(format_args!(
            "free   the lease {} of {} ran out at {}",
            lease.epoch, lease.holder, lease.expires_at
        ))?,
        (None, None) => {}
    }
    if let Some(pr_url) = state.pr_url() {
        caller.output.line(format_args!("pull request  {pr_url}"))?;
    }
    Ok(())
}

fn text<'e>(event: &'e Event, name: &str) -> &'e str {
    event.payload.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(event: &Event, name: &str) -> u64 {
    event.payload.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// One event as a person reads it.
fn sentence(event: &Event) -> String {
    use EventType as T;
    let epoch = number(event, "epoch");
    match event.event_type {
        T::WorkOpened => format!("opened in {}", text(event, "phase")),
        T::LeaseGranted => format!(
            "{} claimed {} with lease {epoch} until {}",
            text(event, "holder"),
            text(event, "phase"),
            text(event, "expires_at")
        ),
        T::LeaseRenewed => format!("lease {epoch} renewed until {}", text(event, "expires_at")),
        T::LeaseReleased => {
            let by = match text(event, "released_by") {
                "" => String::new(),
                by => format!(" by {by}"),
            };
            format!("lease {epoch} released{by}: {}", text(event, "reason"))
        }
        T::AgentSessionCompleted => format!(
            "{} left {} ({}): now {}, lease {epoch} is free; signal by {}",
            text(event, "actor_id"),
            text(event, "phase_completed"),
            text(event, "exit_reason"),
            text(event, "next_phase"),
            text(event, "channel")
        ),
        T::ExitRefused => format!("exit refused: {}", text(event, "reason")),
        T::WorkUnblocked => {
            format!("unblocked to {}: {}", text(event, "phase"), text(event, "reason"))
        }
        T::ClockConfirmed => format!("clock confirmed: {}", text(event, "reason")),
        other => other.as_str().to_owned(),
    }
}

/// What belongs to an event, on lines of their own.
fn below(event: &Event) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |what: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{what} {value}"));
        }
    };
    if event.event_type == EventType::LeaseGranted {
        add("session", text(event, "session_id"));
    }
    if event.event_type == EventType::AgentSessionCompleted {
        for (what, name) in [
            ("notes:", "notes"),
            ("pull request", "pr_url"),
            ("evidence", "evidence_bundle_ref"),
            ("commit", "commit"),
        ] {
            add(what, text(event, name));
        }
        if let Some(ci) = event.payload.get("ci") {
            let status = ci.get("exit_status").and_then(Value::as_i64);
            add("CI", &status.map_or("without a status".to_owned(), |it| format!("status {it}")));
        }
    }
    lines
}

/// A session that worked on it, as its trace stands.
#[derive(Debug, Serialize)]
struct WorkedBy {
    session_id: String,
    epoch: u64,
    #[serde(flatten)]
    trace: Option<SessionTrace>,
}

#[derive(Debug, Serialize)]
struct SessionTrace {
    kind: TraceKind,
    status: TraceStatus,
    events: u64,
    /// What its final statement says of its aim, and in which words.
    outcome: Option<String>,
    verdict: Option<String>,
}

fn sessions(workspace: &Workspace, events: &[Event]) -> Vec<WorkedBy> {
    let granted = events.iter().filter(|event| event.event_type == EventType::LeaseGranted);
    let worked = granted.map(|event| {
        let session_id = text(event, "session_id").to_owned();
        let trace = session_id.parse().ok().and_then(|id| trace_of(workspace, id));
        WorkedBy { session_id, epoch: number(event, "epoch"), trace }
    });
    worked.collect()
}

fn trace_of(workspace: &Workspace, id: Ulid) -> Option<SessionTrace> {
    let summary = workspace.summary(id).ok().flatten()?;
    let (mut outcome, mut verdict) = (None, None);
    let _ = each_event(&workspace.trace_file(id), LedgerId::Trace(id), |event| {
        if event.event_type == EventType::FinalStatementSigned {
            let said = |name| Some(text(&event, name).to_owned()).filter(|text| !text.is_empty());
            (outcome, verdict) = (said("outcome"), said("final_verdict"));
        }
    });
    let TraceSession { kind, status, event_count: events, .. } = summary;
    Some(SessionTrace { kind, status, events, outcome, verdict })
}

impl SessionTrace {
    /// How it ended. That a trace succeeded only says that it is sound.
    fn told(&self) -> String {
        let verdict = self.verdict.as_deref().map(|it| format!(": {it}")).unwrap_or_default();
        let end = match (self.status, self.outcome.as_deref()) {
            (TraceStatus::Running, _) => "still open".to_owned(),
            (TraceStatus::Succeeded, Some("achieved")) => format!("did its work{verdict}"),
            (TraceStatus::Succeeded, Some("not-achieved")) => {
                format!("did not do its work{verdict}")
            }
            (TraceStatus::Succeeded, _) => format!("ended{verdict}"),
            (status, _) => format!("{}{verdict}", status.as_str()),
        };
        format!("{}, {end}; {} events", self.kind.as_str(), self.events)
    }
}
