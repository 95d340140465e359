//! What each tool does: arguments in, a word of the runtime, an answer out.
//!
//! Runs where blocking is allowed. A failure is an answer too, with a reason that a model can read; one
//! of the gate also says that the action must not run.

use std::time::Instant;

use countersign_gate::Decision;
use countersign_runtime::WorkspaceError;
use countersign_runtime::actions::{
    ActionReport, ActionRequest, AgentRuntime, GateAnswer, NotSealed, history_of, recent,
};
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::answers::{self, Envelope};
use super::input::{ContextInput, GateInput, InputFault, RecordInput, SealInput};
use super::tools::ToolName;
use crate::causes::whole;

/// Recordings that the totals of a status are made of, and those that it lists.
const SUMMARIES_MAX: usize = 100;
const LISTED_MAX: usize = 10;

/// How a call ended.
#[derive(Debug)]
pub(super) enum Reply {
    /// Well.
    Answer(Value),
    /// Otherwise.
    Failure(Value),
}

/// How far a call has come without anybody being asked.
#[derive(Debug)]
pub(super) enum Step {
    /// To its end.
    Done(Reply),
    /// To a question for a person.
    Asked(Box<AskedAction>),
}

/// An action about which a person is asked.
#[derive(Debug)]
pub(super) struct AskedAction {
    pub(super) input: GateInput,
    pub(super) answer: GateAnswer,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error(transparent)]
    Input(#[from] InputFault),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Seal(#[from] NotSealed),
}

/// Runs a call.
pub(super) fn run(
    tool: ToolName,
    arguments: &JsonObject,
    runtime: &AgentRuntime,
    connected: Instant,
) -> Step {
    let done = match tool {
        ToolName::Gate => match gate(arguments, runtime) {
            Ok(asked) if asked.answer.question.is_some() => return Step::Asked(Box::new(asked)),
            Ok(asked) => Ok(asked.reply(runtime)),
            Err(error) => Err(error),
        },
        ToolName::Record => record(arguments, runtime),
        ToolName::Seal => seal(arguments, runtime),
        ToolName::Status => status(runtime, connected),
        ToolName::Context => context(arguments, runtime),
    };
    Step::Done(done.unwrap_or_else(|error| failure(tool, runtime, &error)))
}

/// The answer to a call that broke down.
pub(super) fn broken(tool: ToolName, runtime: &AgentRuntime) -> Reply {
    let envelope = Envelope::of(tool, runtime.status().trace_id, runtime.workspace().now());
    refused(tool, envelope, "the server failed; what it had recorded before is kept")
}

impl AskedAction {
    /// The answer as it stands now.
    pub(super) fn reply(&self, runtime: &AgentRuntime) -> Reply {
        let (answer, now) = (&self.answer, runtime.workspace().now());
        let envelope = Envelope::of(ToolName::Gate, Some(answer.trace_id), now);
        Reply::Answer(answers::gate(envelope, &self.input, answer))
    }

    /// Records what the person at the client said, and answers accordingly.
    pub(super) fn answered(mut self, runtime: &AgentRuntime, yes: bool) -> Reply {
        if let Err(error) = runtime.answer_from_client(&self.answer.token, yes) {
            return failure(ToolName::Gate, runtime, &error.into());
        }
        let answer = &mut self.answer;
        answer.decision = if yes { Decision::Allow } else { Decision::Deny };
        answer.approved_by_person = yes;
        (answer.question, answer.question_deadline) = (None, None);
        let said = if yes { "your user approved it" } else { "your user refused it" };
        answer.reasons.insert(0, said.to_owned());
        self.reply(runtime)
    }
}

fn gate(arguments: &JsonObject, runtime: &AgentRuntime) -> Result<AskedAction, CallError> {
    let input = GateInput::read(arguments)?;
    let answer = runtime.gate(&ActionRequest {
        action_type: input.action_type.clone(),
        description: input.description.clone(),
        files: input.files_affected.clone(),
        diff: input.diff_text.clone(),
        tool: input.tool_name.clone(),
        command: input.command.clone(),
        ..ActionRequest::default()
    })?;
    Ok(AskedAction { input, answer })
}

fn record(arguments: &JsonObject, runtime: &AgentRuntime) -> Result<Reply, CallError> {
    let input = RecordInput::read(arguments)?;
    let (description, error) = (input.description.clone(), input.error.clone());
    let given = runtime.record(&ActionReport {
        action_type: input.action_type,
        description: input.description,
        tool_name: input.tool_name,
        success: input.success,
        files: input.files_affected,
        duration_ms: input.duration_ms,
        output: input.output,
        error: input.error,
        gate_token: input.gate_token,
        ..ActionReport::default()
    })?;
    let envelope = Envelope::of(ToolName::Record, Some(given.trace_id), runtime.workspace().now());
    Ok(Reply::Answer(answers::record(envelope, &given, &description, error.as_deref())))
}

fn seal(arguments: &JsonObject, runtime: &AgentRuntime) -> Result<Reply, CallError> {
    let input = SealInput::read(arguments)?;
    let sealed = runtime.seal(input.session_name.as_deref())?;
    let envelope = Envelope::of(ToolName::Seal, Some(sealed.trace_id), runtime.workspace().now());
    let directory = answers::directory(runtime.workspace().home());
    Ok(Reply::Answer(answers::seal(envelope, &sealed, &directory, runtime.status().learned)))
}

fn status(runtime: &AgentRuntime, connected: Instant) -> Result<Reply, CallError> {
    let workspace = runtime.workspace();
    let summaries = recent(workspace, SUMMARIES_MAX)?;
    let status = runtime.status();
    let envelope = Envelope::of(ToolName::Status, status.trace_id, workspace.now());
    let directory = answers::directory(workspace.home());
    let listed = summaries.iter().take(LISTED_MAX);
    let totals = answers::totals(&summaries, status.learned.is_some());
    let uptime = connected.elapsed().as_secs_f64();
    let answer = answers::status(envelope, &status, &directory, uptime, listed, totals);
    Ok(Reply::Answer(answer))
}

fn context(arguments: &JsonObject, runtime: &AgentRuntime) -> Result<Reply, CallError> {
    let input = ContextInput::read(arguments)?;
    let history = history_of(runtime.workspace(), &input.file)?;
    let current = runtime.status().trace_id;
    let envelope = Envelope::of(ToolName::Context, current, runtime.workspace().now());
    Ok(Reply::Answer(answers::context(envelope, &history)))
}

fn failure(tool: ToolName, runtime: &AgentRuntime, error: &CallError) -> Reply {
    let envelope = Envelope::of(tool, runtime.status().trace_id, runtime.workspace().now());
    refused(tool, envelope, &whole(error))
}

fn refused(tool: ToolName, envelope: Envelope, reason: &str) -> Reply {
    let fields = match tool {
        // Nothing may run of which nobody could say that it may.
        ToolName::Gate => json!({ "decision": "deny", "error": reason }),
        ToolName::Record => json!({ "recorded": false, "error": reason }),
        ToolName::Seal => json!({ "sealed": false, "error": reason }),
        ToolName::Status | ToolName::Context => json!({ "error": reason }),
    };
    Reply::Failure(envelope.failed(reason, fields))
}
