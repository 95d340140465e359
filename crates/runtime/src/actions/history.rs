//! What was done before: to a file, and by whom.
//!
//! Read from the traces themselves, the newest first. A line that cannot be read ends its trace:
//! this is a look, the verdict is the verifier's.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventRef, EventType};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::asked::gate_member;
use super::plain_paths;
use crate::inspect::{each_event, first_event};
use crate::store::LedgerId;
use crate::workspace::{Workspace, WorkspaceError};

/// Intents of one trace that are remembered while their outcome is looked for.
const OPEN_MAX: usize = 4_096;

/// What was done to a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileHistory {
    /// The file, in its one spelling.
    pub file: String,
    /// How often something was done to it, or was to be done.
    pub total_changes: u64,
    /// In how many recordings and sessions, the newest first.
    pub sessions: Vec<FileSession>,
}

/// What one recording or session did to a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileSession {
    /// The trace.
    pub session_id: String,
    /// When it began.
    pub date: Timestamp,
    /// Who acted, as it called itself.
    pub agent: String,
    /// Each change in a line.
    pub changes: Vec<String>,
}

/// A recording in a few words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordingSummary {
    /// The trace.
    pub session_id: String,
    /// When it began.
    pub date: Timestamp,
    /// Who acted, as it called itself.
    pub agent: String,
    /// Receipts in it.
    pub actions: u64,
    /// Actions that the gate, or a person, let pass.
    pub approved: u64,
    /// Actions that were refused.
    pub denied: u64,
    /// Files that were named by actions that were done.
    pub files_changed: u64,
    /// How it ended, in the words of whoever sealed it.
    pub summary: Option<String>,
    /// The last receipt.
    pub receipt: Option<Hash>,
}

/// What was done to `file`: to exactly this file, or to something below it if it is a directory.
///
/// # Errors
/// The store cannot be read.
pub fn history_of(workspace: &Workspace, file: &str) -> Result<FileHistory, WorkspaceError> {
    let mut all = history_of_all(workspace, &[file])?;
    Ok(all.pop().unwrap_or(FileHistory {
        file: file.to_owned(),
        total_changes: 0,
        sessions: Vec::new(),
    }))
}

/// The same for several files at once, in their order.
///
/// # Errors
/// The store cannot be read.
pub fn history_of_all(
    workspace: &Workspace,
    files: &[&str],
) -> Result<Vec<FileHistory>, WorkspaceError> {
    let root = super::live::directory(workspace.home());
    let root = root.parent().unwrap_or(&root).to_owned();
    let mut histories: Vec<FileHistory> = files
        .iter()
        .map(|file| FileHistory {
            file: plain_paths(&root, [*file]).pop().unwrap_or_default(),
            total_changes: 0,
            sessions: Vec::new(),
        })
        .collect();
    for id in workspace.trace_ids()?.into_iter().rev() {
        let seen = look(workspace, id);
        for history in &mut histories {
            let changes = seen.actions.values().filter(|action| action.concerns(&history.file));
            let changes: Vec<String> = changes.map(SeenAction::line).collect();
            if changes.is_empty() {
                continue;
            }
            history.total_changes += changes.len() as u64;
            history.sessions.push(FileSession {
                session_id: id.to_string(),
                date: seen.began.unwrap_or(Timestamp::EPOCH),
                agent: seen.agent.clone(),
                changes,
            });
        }
    }
    Ok(histories)
}

/// The last `count` recordings, the newest first.
///
/// # Errors
/// The store cannot be read.
pub fn recent(
    workspace: &Workspace,
    count: usize,
) -> Result<Vec<RecordingSummary>, WorkspaceError> {
    let is_recording = |id: &Ulid| {
        first_event(&workspace.trace_file(*id)).ok().flatten().is_some_and(|event| {
            event.payload.get("kind").and_then(Value::as_str) == Some("recording")
        })
    };
    let ids = workspace.trace_ids()?;
    let ids = ids.into_iter().rev().filter(is_recording).take(count);
    Ok(ids.map(|id| summary(id, &look(workspace, id))).collect())
}

fn summary(id: Ulid, seen: &Seen) -> RecordingSummary {
    let said = |names: &[&str]| {
        let said = |action: &&SeenAction| names.contains(&action.decision.as_str());
        seen.actions.values().filter(said).count() as u64
    };
    let done = seen.actions.values().filter(|action| action.success.is_some());
    let files: std::collections::BTreeSet<&String> =
        done.flat_map(|action| &action.paths).collect();
    RecordingSummary {
        session_id: id.to_string(),
        date: seen.began.unwrap_or(Timestamp::EPOCH),
        agent: seen.agent.clone(),
        actions: seen.receipts,
        approved: said(&["approved"]),
        denied: said(&["denied"]),
        files_changed: files.len() as u64,
        summary: seen.verdict.clone(),
        receipt: seen.last,
    }
}

/// What a trace says of actions.
#[derive(Debug, Default)]
struct Seen {
    began: Option<Timestamp>,
    agent: String,
    actions: BTreeMap<u64, SeenAction>,
    started: BTreeMap<u64, u64>,
    receipts: u64,
    last: Option<Hash>,
    verdict: Option<String>,
}

#[derive(Debug, Default)]
struct SeenAction {
    description: String,
    paths: Vec<String>,
    decision: String,
    score: Option<f64>,
    success: Option<bool>,
}

impl SeenAction {
    fn concerns(&self, file: &str) -> bool {
        let below = |path: &String| {
            path.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !file.is_empty() && self.paths.iter().any(below)
    }

    fn line(&self) -> String {
        let decision = if self.decision.is_empty() { "ungated" } else { &*self.decision };
        let score = self.score.map_or_else(String::new, |score| format!(", p_fail={score:.2}"));
        let outcome = match self.success {
            Some(true) => "",
            Some(false) => ", failed",
            None => ", not recorded as done",
        };
        format!("{} ({decision}{score}{outcome})", self.description)
    }
}

fn look(workspace: &Workspace, id: Ulid) -> Seen {
    let mut seen = Seen::default();
    let path = workspace.trace_file(id);
    let _ = each_event(&path, LedgerId::Trace(id), |event| seen.take(&event));
    seen
}

impl Seen {
    fn take(&mut self, event: &Event) {
        use EventType as T;
        let text = |pointer: &str| {
            event.payload.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let place = event.seq.unwrap_or_default();
        match event.event_type {
            T::SessionInitialized => {
                self.began = Some(event.created_at);
                let agent = text("/on_behalf_of/agent_id");
                self.agent = if agent.is_empty() { "agent".to_owned() } else { agent };
            }
            T::ToolIntentSigned => {
                let paths = event.payload.get("paths").and_then(Value::as_array);
                let paths = paths.into_iter().flatten().filter_map(Value::as_str);
                let action = SeenAction {
                    description: text("/justification"),
                    paths: paths.map(str::to_owned).collect(),
                    ..SeenAction::default()
                };
                if self.actions.len() < OPEN_MAX || !action.paths.is_empty() {
                    self.actions.insert(place, action);
                }
            }
            T::ToolIntentReviewed => self.reviewed(event),
            T::ToolExecutionStarted => {
                if let Some(intent) = reference(event, "intent") {
                    self.started.insert(place, intent.seq);
                }
            }
            T::ToolExecutionCompleted | T::ToolExecutionFailed => self.ended(event),
            T::FinalStatementSigned => self.verdict = Some(text("/final_verdict")),
            _ => {}
        }
        if let Some(hash) = event.payload.get("receipt_hash").and_then(Value::as_str) {
            self.receipts += 1;
            self.last = hash.parse().ok();
        }
    }

    fn reviewed(&mut self, event: &Event) {
        let Some(subject) = reference(event, "subject") else { return };
        let Some(action) = self.actions.get_mut(&subject.seq) else { return };
        let said = event.payload.get("decision").and_then(Value::as_str);
        said.map_or("", |said| match said {
            "approved" => "approved",
            "blocked" => "denied",
            _ => "flagged",
        })
        .clone_into(&mut action.decision);
        action.score = gate_member(event, "score").and_then(Value::as_f64).or(action.score);
    }

    fn ended(&mut self, event: &Event) {
        let Some(execution) = reference(event, "execution") else { return };
        let Some(intent) = self.started.remove(&execution.seq) else { return };
        if let Some(action) = self.actions.get_mut(&intent) {
            action.success = Some(event.event_type == EventType::ToolExecutionCompleted);
        }
    }
}

fn reference(event: &Event, member: &str) -> Option<EventRef> {
    serde_json::from_value(event.payload.get(member)?.clone()).ok()
}
