//! A step that is a whole session.
//!
//! The session has a trace of its own, linked both ways. One that was cut off with the flow is
//! resumed with it. Its tools write by themselves, as its own trace tells.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_format::event::{Event, EventType};
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::flow::FlowState;
use serde_json::{Value, json};

use super::call::Left;
use super::file::StepOrder;
use super::reply::{self, AgentReply};
use super::run::{FlowError, FlowNews, FlowObserver, RunningFlow};
use crate::conduct::{
    Conductor, Observer, OpeningError, RunSetting, SessionResult, TaskText, told,
};
use crate::inspect::{each_event, first_event};
use crate::store::LedgerId;
use crate::task::TASK_BYTES_MAX;
use crate::tools::{Stop, read_beneath};
use crate::workspace::WorkspaceError;

/// Of a session that is a step only its questions are told; its trace can be followed.
struct Questions {
    observer: Arc<dyn FlowObserver>,
}

impl Observer for Questions {
    fn recorded(&self, event: &Event) {
        let asks = event.payload.get("decision").and_then(Value::as_str) == Some("asked");
        if event.event_type == EventType::ToolIntentReviewed && asks {
            self.observer.told(FlowNews::SessionAsks { trace_id: &event.trace_id });
        }
    }

    fn asking(&self, _: Role, _: &str) {}
}

impl RunningFlow {
    /// Runs the session of a step to its end. Nothing if it was stopped.
    pub(super) fn run_session(
        &self,
        state: &FlowState,
        at: usize,
        order: &StepOrder,
        (time, interrupted): (Duration, bool),
    ) -> Result<Option<Left>, FlowError> {
        let began = Instant::now();
        let agent = self.file.agents.get(&order.agent);
        let path = agent.and_then(|agent| agent.task.clone()).unwrap_or_default();
        let task = match self.task(&path) {
            Ok(task) => task,
            Err(reason) => return Ok(Some(unusable(reason, began))),
        };
        let step = state.route.step(at).map(|step| step.id.clone()).unwrap_or_default();
        let (iteration, _) = state.turn(at).unwrap_or((1, 1));
        let links = json!({ "flow": {
            "trace_id": self.id().to_string(), "step": step, "iteration": iteration,
        } });
        let stop = Stop::default();
        let setting = RunSetting {
            root: self.setting.root.clone(),
            environment: self.setting.environment.clone(),
            helper: PathBuf::from(&self.setting.helper),
            observer: Arc::new(Questions { observer: Arc::clone(&self.setting.observer) }),
            stop: stop.clone(),
            links: Some(links.clone()),
        };
        let workspace = self.trace.workspace();
        let cut_off = if interrupted { self.cut_off(&links)? } else { None };
        if let Some(id) = cut_off
            && let Some(result) = self.ended(id)?
        {
            return Ok(Some(left(id, &result, began)));
        }
        let (id, opened) = match cut_off {
            Some(id) => (Some(id), Conductor::resume(workspace, id, Some(task), setting)),
            None => (None, Conductor::begin(workspace, task, setting)),
        };
        let conductor = match opened {
            Ok(conductor) => conductor,
            Err(OpeningError::Workspace(error)) => return Err(error.into()),
            Err(error) => {
                let reason = format!("the session could not begin: {}", told(&error));
                return Ok(Some(unusable(reason, began)));
            }
        };
        let id = id.unwrap_or_else(|| conductor.id());
        let result = self.within(time, &stop, conductor)?;
        // One that came to its end by itself has answered, whoever stopped the flow meanwhile.
        if self.setting.stop.is_set() && result.status == TraceStatus::Aborted {
            return Ok(None);
        }
        Ok(Some(left(id, &result, began)))
    }

    /// What came of a session that ended before the flow could record it.
    fn ended(&self, id: Ulid) -> Result<Option<SessionResult>, FlowError> {
        let workspace = self.trace.workspace();
        let status = workspace.session(id)?.look(|state| state.ended)?;
        let Some(status) = status else { return Ok(None) };
        let mut statement = None;
        let read = each_event(&workspace.trace_file(id), LedgerId::Trace(id), |event| {
            if event.event_type == EventType::FinalStatementSigned {
                let text = |name: &str| event.payload.get(name).and_then(Value::as_str);
                let verdict = text("final_verdict").unwrap_or_default().to_owned();
                statement = Some((text("outcome") == Some("achieved"), verdict));
            }
        });
        let _ = read.map_err(|source| WorkspaceError::Io { doing: "read the session", source })?;
        Ok(Some(SessionResult { status, statement, reason: None, report: None, log_lag: None }))
    }

    /// Runs a session until it ends, its time is over, or the flow is stopped.
    fn within(
        &self,
        time: Duration,
        stop: &Stop,
        conductor: Conductor,
    ) -> Result<SessionResult, FlowError> {
        let until = Instant::now().checked_add(time);
        std::thread::scope(|scope| {
            let session = scope.spawn(move || conductor.run());
            let store = self.trace.workspace().store();
            while !session.is_finished() {
                let over = until.is_some_and(|until| Instant::now() >= until);
                if over || self.setting.stop.is_set() {
                    stop.set();
                }
                let left =
                    until.map_or(Duration::MAX, |it| it.saturating_duration_since(Instant::now()));
                store.wait_for_changes(store.changes_seen(), left.min(Duration::from_millis(100)));
            }
            match session.join() {
                Ok(result) => Ok(result?),
                Err(_) => Err(FlowError::Damaged("the session's run broke off".to_owned())),
            }
        })
    }

    fn task(&self, path: &str) -> Result<TaskText, String> {
        let max = u64::try_from(TASK_BYTES_MAX).unwrap_or(u64::MAX);
        let bytes = read_beneath(&self.setting.root, path, max)
            .map_err(|error| format!("its task file cannot be read: {error}"))?;
        let text =
            String::from_utf8(bytes).map_err(|_| format!("its task file `{path}` is not UTF-8"))?;
        TaskText::parse(text).map_err(|faults| {
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            format!("`{path}` is not a task: {first}")
        })
    }

    /// The session that an earlier run of this flow began for the same turn and got no answer of.
    fn cut_off(&self, links: &Value) -> Result<Option<Ulid>, FlowError> {
        let workspace = self.trace.workspace();
        let mut answered = BTreeSet::new();
        let read =
            each_event(&workspace.trace_file(self.id()), LedgerId::Trace(self.id()), |event| {
                let session =
                    event.payload.pointer("/links/session/trace_id").and_then(Value::as_str);
                answered.extend(session.map(str::to_owned));
            });
        let _ = read.map_err(|source| WorkspaceError::Io { doing: "read the flow", source })?;
        // It is younger than the flow.
        let younger = workspace.trace_ids()?.into_iter().rev().take_while(|id| *id > self.id());
        let mut open = younger.filter(|id| !answered.contains(&id.to_string()));
        Ok(open.find(|id| {
            let first = first_event(&workspace.trace_file(*id)).ok().flatten();
            first.is_some_and(|first| first.payload.get("links") == Some(links))
        }))
    }
}

fn left(id: Ulid, result: &SessionResult, began: Instant) -> Left {
    let printed = answer(id, result);
    Left {
        reply: reply::read_printed(&printed, false),
        printed,
        complaints: Vec::new(),
        elapsed: began.elapsed(),
        links: Some(json!({ "session": { "trace_id": id.to_string() } })),
    }
}

fn unusable(reason: String, began: Instant) -> Left {
    Left {
        printed: reason.clone().into_bytes(),
        reply: AgentReply::Unusable(reason),
        complaints: Vec::new(),
        elapsed: began.elapsed(),
        links: None,
    }
}

/// What a session came to, as an output envelope.
fn answer(id: Ulid, result: &SessionResult) -> Vec<u8> {
    let reached = matches!(result.statement, Some((true, _)));
    let success = result.status == TraceStatus::Succeeded && reached;
    let said = result.statement.as_ref().map(|(_, words)| words.clone());
    let summary = result.reason.clone().or(said).unwrap_or_else(|| match success {
        true => "the session reached its objective".to_owned(),
        false => format!("the session is {}", result.status.as_str()),
    });
    json::to_bytes(&json!({
        "success": success,
        "summary": summary,
        "artifacts": [],
        "notes": [format!("session {id}: {}", result.status.as_str())],
        "recommendation": if success { "proceed" } else { "escalate" },
    }))
}
