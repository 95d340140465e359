//! An agent says what it did; it gets a receipt.

use countersign_format::event::Event;
use countersign_format::json;
use countersign_format::receipt::{ActionType, GateDecision};
use countersign_format::risk::RiskClass;
use countersign_protocol::Refusal;
use countersign_protocol::receipts::{Gating, Parent};
use countersign_protocol::recording::{RecordedAction, RecordingCommand};
use serde_json::{Value, json};

use super::{
    ActionReport, AgentRuntime, Inner, ReceiptGiven, action_type, plain_paths, redactions,
};
use crate::secrets::Counts;
use crate::workspace::WorkspaceError;
use crate::writer::{Recorded, WriteError};

/// How a failure is told that nobody described.
const UNSAID: &str = "the agent reported a failure";

impl AgentRuntime {
    /// Records an action. When it returns, its receipt survives power loss. Nothing is refused for
    /// want of a verdict: what was not asked for is recorded as that.
    ///
    /// # Errors
    /// It could not be recorded, or names another parent than the last action.
    pub fn record(&self, done: &ActionReport) -> Result<ReceiptGiven, WorkspaceError> {
        let mut counts = Counts::new();
        let mut action = self.recorded_action(done, &mut counts)?;
        let mut inner = self.lock();
        if let Some(asked) = &done.asked {
            action.asked = Some(self.asked_input(&mut inner, asked)?);
        }
        let recorded = match self.submit(&mut inner, &record_command(&action)) {
            Err(WorkspaceError::Write(WriteError::Refused(Refusal::InputNeeded))) => {
                action.input = Some(self.own_input(&action, done.arguments.as_deref())?);
                self.submit(&mut inner, &record_command(&action))?
            }
            other => other?,
        };
        let receipt = self.receipt_of(&mut inner, &recorded)?;
        drop(inner);
        self.live.recorded(self.workspace.now(), &action.description, &receipt);
        Ok(receipt)
    }

    fn recorded_action(
        &self,
        done: &ActionReport,
        counts: &mut Counts,
    ) -> Result<RecordedAction, WorkspaceError> {
        let kind = action_type(&done.action_type);
        let tool = match kind {
            ActionType::Unknown if done.tool_name.trim().is_empty() => &done.action_type,
            _ => &done.tool_name,
        };
        let files: Vec<String> =
            done.files.iter().map(|file| self.clean_counting(file, counts)).collect();
        let error = done.error.as_deref().filter(|error| !error.trim().is_empty());
        let error = error.map(|error| self.clean_counting(error, counts));
        let output = done.output.as_deref().or(error.as_deref());
        let output = match output {
            Some(output) => {
                let redacted = self.redactor.redact(output.as_bytes());
                for (rule, count) in redacted.counts {
                    *counts.entry(rule).or_default() += count;
                }
                Some(self.workspace.put_artifact(&redacted.bytes, "text/plain")?)
            }
            None => None,
        };
        let parent = match (&done.parent, self.options.auto_chain) {
            (Some(given), false) => Parent::Given {
                action_id: given.action_id.clone(),
                receipt_hash: given.receipt_hash,
            },
            (None, false) => Parent::Given { action_id: None, receipt_hash: None },
            (_, true) => Parent::Last,
        };
        Ok(RecordedAction {
            action_type: kind,
            tool_name: self
                .clean_counting(if tool.trim().is_empty() { kind.as_str() } else { tool }, counts),
            description: self.clean_counting(&done.description, counts),
            paths: plain_paths(&self.directory(), files.iter().map(String::as_str)),
            token: done.gate_token.clone(),
            call_id: done.call_id.as_deref().map(|id| self.clean(id)),
            asked: None,
            reporter: done.reporter,
            risk: RiskClass::Standard,
            input: None,
            redactions: redactions(counts),
            success: done.success,
            failure: error.unwrap_or_else(|| UNSAID.to_owned()),
            duration_ms: done.duration_ms,
            output,
            parent,
        })
    }

    /// What stands in for the input of an action of which the gate never heard: what is said of it,
    /// and the arguments of the call where they are known.
    fn own_input(
        &self,
        action: &RecordedAction,
        arguments: Option<&[u8]>,
    ) -> Result<countersign_format::event::ArtifactDescriptor, WorkspaceError> {
        let mut input = json!({
            "action_type": action.action_type.as_str(),
            "tool_name": action.tool_name,
            "description": action.description,
            "files_affected": action.paths,
        });
        if let (Some(raw), Some(input)) = (arguments, input.as_object_mut()) {
            let raw = self.redactor.redact(raw).bytes;
            let arguments = json::read(&raw)
                .unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&raw).into_owned()));
            input.insert("arguments".to_owned(), arguments);
        }
        self.workspace.put_artifact(&json::to_bytes(&input), "application/json")
    }

    /// The receipt in the last of these events.
    pub(super) fn receipt_of(
        &self,
        inner: &mut Inner,
        recorded: &Recorded,
    ) -> Result<ReceiptGiven, WorkspaceError> {
        let current = self.current(inner)?;
        let given_up = || {
            WorkspaceError::Write(WriteError::GivenUp {
                reason: "the action was not recorded".to_owned(),
            })
        };
        let Some(ended) = recorded.events.last() else { return Err(given_up()) };
        let count = current.recording.look(|state| state.receipts.count)?;
        let action = |name: &str| ended.payload.pointer(&format!("/action/{name}"));
        let text = |name: &str| action(name).and_then(Value::as_str).unwrap_or_default();
        let files = action("metadata/files_affected").and_then(Value::as_array);
        let receipt_hash = ended.payload.get("receipt_hash").and_then(Value::as_str);
        let receipt_hash = receipt_hash.and_then(|text| text.parse().ok()).ok_or_else(given_up)?;
        let started = recorded.events.iter().rev().nth(1);
        let label = started.and_then(|started| label(current, started));
        Ok(ReceiptGiven {
            trace_id: current.recording.id(),
            action_id: text("action_id").to_owned(),
            receipt_hash,
            count,
            action_type: ActionType::from_name(text("action_type")).unwrap_or(ActionType::Unknown),
            files: files
                .into_iter()
                .flatten()
                .filter_map(|file| file.as_str().map(str::to_owned))
                .collect(),
            gating: gating(text("metadata/gating")),
            token_fault: action("metadata/token_fault").and_then(Value::as_str).map(str::to_owned),
            gate_decision: GateDecision::from_name(text("gate_decision")),
            gate_score: action("gate_score").and_then(Value::as_f64),
            label,
        })
    }
}

fn record_command(action: &RecordedAction) -> RecordingCommand {
    RecordingCommand::Record(Box::new(action.clone()))
}

fn gating(name: &str) -> Gating {
    match name {
        "token" => Gating::Token,
        "inferred" => Gating::Inferred,
        _ => Gating::Ungated,
    }
}

/// What the gate called the change, if this connection asked about it.
fn label(current: &mut super::Current, started: &Event) -> Option<String> {
    let intent = started.payload.pointer("/intent/event_id").and_then(Value::as_str)?;
    let at = current.labels.iter().position(|(of, _)| of == intent)?;
    Some(current.labels.remove(at).1)
}
