//! The hook for any other agent: a JSON of our own, described in `docs/guides/hooks.md`, or an action
//! as receipts have it, which is recorded as done.
//!
//! The program that calls it says what its tools mean; nothing is guessed here.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use countersign_format::receipt::{CheckedReceipt, check};
use countersign_gate::Decision;
use countersign_protocol::recording::Reporter;
use countersign_runtime::WorkspaceError;
use countersign_runtime::actions::{
    ActionReport, ActionRequest, AgentRuntime, GateAnswer, ReceiptGiven, Waited,
};
use countersign_runtime::agent_sessions::AgentSession;
use serde_json::{Value, json};

use super::claude_tools::short;
use super::document::{HookDocument, HookFault};
use super::places::Standpoint;
use super::{HookSetup, decision_name, record};

/// What a program is called that does not say.
const CLIENT: &str = "generic";

/// One call of the hook.
#[derive(Debug)]
pub struct GenericHook {
    session: AgentSession,
    client: String,
    agent: Option<String>,
    cwd: Option<PathBuf>,
    event: GenericEvent,
}

#[derive(Debug)]
enum GenericEvent {
    Start,
    Before(Box<GivenAction>),
    After {
        action: Box<GivenAction>,
        result: GivenResult,
        approved: bool,
    },
    /// An action as receipts have it, and the document that it came in.
    Action {
        receipt: Box<CheckedReceipt>,
        document: String,
    },
    End {
        reason: String,
    },
}

#[derive(Debug)]
struct GivenAction {
    call: Option<String>,
    action_type: String,
    tool: Option<String>,
    description: String,
    files: Vec<String>,
    command: Option<String>,
    diff: Option<String>,
    content: Option<String>,
    arguments: Option<String>,
}

#[derive(Debug)]
struct GivenResult {
    success: bool,
    output: Option<String>,
    error: Option<String>,
    duration_ms: u64,
}

/// What the program is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct GenericReply {
    /// The answer.
    pub answer: Value,
    /// What the program may do now.
    pub decision: Decision,
    /// What went wrong without consequence.
    pub notes: Vec<String>,
}

impl GenericHook {
    /// Reads what a program gives to the hook; `session` is the session of a document that names none.
    ///
    /// # Errors
    /// It is not what is documented.
    pub fn read(bytes: &[u8], session: Option<&str>) -> Result<Self, HookFault> {
        let document = HookDocument::read(bytes)?;
        let event = match document.text("event")?.as_deref() {
            None if document.has("action_id") => GenericEvent::action(bytes)?,
            None => return Err(document.missing("event")),
            Some("start") => GenericEvent::Start,
            Some("before") => GenericEvent::Before(Box::new(GivenAction::read(&document)?)),
            Some("after") => GenericEvent::After {
                action: Box::new(GivenAction::read(&document)?),
                result: GivenResult::read(&document)?,
                approved: document.value("approved", "true or false")?.unwrap_or(false),
            },
            Some("end") => GenericEvent::End {
                reason: document.text("reason")?.unwrap_or_else(|| "it said so".to_owned()),
            },
            Some(_) => return Err(document.wrong("event", "start, before, after or end")),
        };
        let named = match event {
            // It has a shape of its own, in which there is no session.
            GenericEvent::Action { .. } => None,
            _ => document.text("session")?,
        };
        let named = named.or_else(|| session.map(str::to_owned));
        let named = named.ok_or_else(|| document.missing("session"))?;
        let member = |name: &str| match event {
            GenericEvent::Action { .. } => Ok(None),
            _ => document.text(name),
        };
        let client = member("client")?.unwrap_or_else(|| CLIENT.to_owned());
        let cwd = match event {
            GenericEvent::Action { .. } => None,
            _ => document.standing("cwd")?,
        };
        Ok(Self {
            session: AgentSession::new(&client, &named, member("agent")?.as_deref())?,
            agent: member("name")?.map(|name| short(&name)),
            cwd,
            client,
            event,
        })
    }

    /// Does what is asked for; a question to a person is waited for at most for `patience`.
    ///
    /// # Errors
    /// It could not be recorded.
    pub fn answer(
        &self,
        setup: &HookSetup,
        patience: Duration,
    ) -> Result<GenericReply, WorkspaceError> {
        if let GenericEvent::End { reason } = &self.event {
            let ended = setup.end(&self.session, &short(reason))?;
            return Ok(done(json!({ "decision": "allow", "ended": ended })));
        }
        let agent = self.agent.clone().or_else(|| Some(self.client.clone()));
        let runtime = match &self.event {
            GenericEvent::Before(_) => setup.enter_with_gate(&self.session, agent, &self.client)?,
            _ => setup.enter(&self.session, agent, &self.client)?.0,
        };
        let standpoint = Standpoint::new(setup.workspace.home(), self.cwd.as_deref());
        match &self.event {
            GenericEvent::Start | GenericEvent::End { .. } => {
                let id = runtime.open()?.to_string();
                Ok(done(json!({ "decision": "allow", "trace_id": id })))
            }
            GenericEvent::Before(action) => {
                before(&runtime, &action.request(&standpoint), patience)
            }
            GenericEvent::After { action, result, approved } => {
                let asked = action.request(&standpoint);
                let report = result.report(&asked);
                let (given, unanswered) = record(&runtime, asked, *approved, report)?;
                Ok(recorded(&given, unanswered))
            }
            GenericEvent::Action { receipt, document } => {
                let theirs = receipt.hash.to_string();
                let report = reported(receipt, document, &standpoint);
                let mut reply = recorded(&runtime.record(&report)?, None);
                if let Some(answer) = reply.answer.as_object_mut() {
                    answer.insert("given_receipt_hash".to_owned(), json!(theirs));
                }
                Ok(reply)
            }
        }
    }
}

fn done(answer: Value) -> GenericReply {
    GenericReply { answer, decision: Decision::Allow, notes: Vec::new() }
}

fn before(
    runtime: &AgentRuntime,
    asked: &ActionRequest,
    patience: Duration,
) -> Result<GenericReply, WorkspaceError> {
    let answer = judged(runtime, asked, patience)?;
    let mut told = json!({
        "decision": decision_name(answer.decision),
        "reasons": answer.reasons,
        "token": answer.token,
        "trace_id": answer.trace_id.to_string(),
        "enforced": answer.enforced,
        "opinion": decision_name(answer.opinion.verdict.decision()),
    });
    if let (Some(told), Some(question)) = (told.as_object_mut(), &answer.question) {
        told.insert("question".to_owned(), json!(question));
    }
    Ok(GenericReply { answer: told, decision: answer.decision, notes: Vec::new() })
}

/// What the gate says, or a person within `patience`.
fn judged(
    runtime: &AgentRuntime,
    asked: &ActionRequest,
    patience: Duration,
) -> Result<GateAnswer, WorkspaceError> {
    let begun = Instant::now();
    loop {
        let mut answer = runtime.gate(asked)?;
        let left = patience.saturating_sub(begun.elapsed());
        if answer.decision != Decision::Ask || left.is_zero() {
            return Ok(answer);
        }
        let call = asked.call_id.as_deref();
        let (decision, said) = match runtime.wait_for_answer(&answer.token, left)? {
            Waited::Yes if runtime.take(&answer.token, call)? => {
                (Decision::Allow, "a person approved it")
            }
            // Somebody who asked the same has the answer: this is another question.
            Waited::Yes | Waited::Gone => continue,
            Waited::No => (Decision::Deny, "a person refused it"),
            Waited::NotYet => return Ok(answer),
        };
        answer.decision = decision;
        answer.question = None;
        answer.reasons.insert(0, said.to_owned());
        return Ok(answer);
    }
}

fn recorded(given: &ReceiptGiven, unanswered: Option<WorkspaceError>) -> GenericReply {
    let notes = unanswered
        .map(|error| format!("that a person agreed to this could not be recorded: {error}"));
    let answer = json!({
        "decision": "allow",
        "recorded": true,
        "trace_id": given.trace_id.to_string(),
        "action_id": given.action_id,
        "receipt_hash": given.receipt_hash.to_string(),
        "gating": given.gating.as_str(),
        "gate_decision": given.gate_decision.map(|it| it.as_str()),
    });
    GenericReply { notes: notes.into_iter().collect(), ..done(answer) }
}

/// An action as receipts have it, told as done. Its document is kept as what came out of it: the
/// receipt that it may carry is somebody else's, beside the one that is given here.
fn reported(receipt: &CheckedReceipt, document: &str, standpoint: &Standpoint) -> ActionReport {
    let value: Value = serde_json::from_str(document).unwrap_or_default();
    let action = value.get("action").unwrap_or(&value);
    let about = |name: &str| action.pointer(&format!("/metadata/{name}"));
    let text = |name: &str| about(name).and_then(Value::as_str);
    let files = about("files_affected").and_then(Value::as_array);
    let files = files.into_iter().flatten().filter_map(Value::as_str);
    let kind = receipt.action.action_type.as_str();
    let id = receipt.action.action_id.to_lossy();
    ActionReport {
        action_type: kind.to_owned(),
        description: short(text("description").unwrap_or(&format!("action {id}"))),
        tool_name: short(text("tool_name").unwrap_or(kind)),
        success: receipt.action.success,
        files: standpoint.files(files),
        duration_ms: action.get("duration_ms").and_then(Value::as_u64).unwrap_or(0),
        arguments: Some(document.as_bytes().to_vec()),
        output: Some(document.to_owned()),
        error: text("error").map(str::to_owned),
        call_id: Some(id),
        reporter: Reporter::Hook,
        ..ActionReport::default()
    }
}

impl GenericEvent {
    fn action(bytes: &[u8]) -> Result<Self, HookFault> {
        let receipt = check(bytes).map_err(|faults| HookFault::Action {
            what: faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        })?;
        let document = String::from_utf8_lossy(bytes).trim().to_owned();
        Ok(Self::Action { receipt: Box::new(receipt), document })
    }
}

impl GivenAction {
    fn read(document: &HookDocument<'_>) -> Result<Self, HookFault> {
        let action = document.object("action")?.ok_or_else(|| document.missing("action"))?;
        let tool = action.text("tool")?;
        let command = action.text("command")?;
        let described = action.text("description")?;
        let described = described.or_else(|| command.clone()).or_else(|| tool.clone());
        Ok(Self {
            call: document.text("call")?,
            action_type: action.needed_text("type")?,
            description: short(&described.unwrap_or_default()),
            files: action.value("files", "a list of texts")?.unwrap_or_default(),
            diff: action.text("diff")?,
            content: action.text("content")?,
            arguments: action.raw("arguments").map(str::to_owned),
            command,
            tool,
        })
    }

    fn request(&self, standpoint: &Standpoint) -> ActionRequest {
        let mut files = standpoint.files(self.files.iter().map(String::as_str));
        if self.command.is_some() {
            files.extend(standpoint.notable());
        }
        ActionRequest {
            action_type: self.action_type.clone(),
            description: self.description.clone(),
            files,
            diff: self.diff.clone(),
            tool: self.tool.clone(),
            command: self.command.clone(),
            content: self.content.clone(),
            arguments: self.arguments.clone().map(String::into_bytes),
            call_id: self.call.clone(),
            ..ActionRequest::default()
        }
    }
}

impl GivenResult {
    fn read(document: &HookDocument<'_>) -> Result<Self, HookFault> {
        let result = document.object("result")?.ok_or_else(|| document.missing("result"))?;
        let success = result.value("success", "true or false")?;
        // A text is the output itself; anything else is kept as it was written.
        let output = result.raw("output");
        let output = output.map(|raw| serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned()));
        Ok(Self {
            success: success.ok_or_else(|| result.missing("success"))?,
            output,
            error: result.text("error")?,
            duration_ms: result.value("duration_ms", "a number of milliseconds")?.unwrap_or(0),
        })
    }

    fn report(&self, asked: &ActionRequest) -> ActionReport {
        ActionReport {
            action_type: asked.action_type.clone(),
            description: asked.description.clone(),
            tool_name: asked.tool.clone().unwrap_or_else(|| asked.action_type.clone()),
            success: self.success,
            files: asked.files.clone(),
            duration_ms: self.duration_ms,
            arguments: asked.arguments.clone(),
            output: self.output.clone(),
            error: self.error.clone(),
            call_id: asked.call_id.clone(),
            reporter: Reporter::Hook,
            ..ActionReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_documented_is_refused_by_name() {
        let fault = |text: &str| GenericHook::read(text.as_bytes(), None).unwrap_err().to_string();
        for (text, expected) in [
            ("{}", "the input has no `event`"),
            (r#"{"event":"dance"}"#, "`event` in the input is not start, before, after or end"),
            (r#"{"event":"start"}"#, "the input has no `session`"),
            (r#"{"event":"before","session":"s"}"#, "the input has no `action`"),
            (r#"{"event":"before","action":{}}"#, "the input has no `action.type`"),
            (
                r#"{"event":"before","action":{"type":"x","files":"a"}}"#,
                "`action.files` in the input is not a list of texts",
            ),
            (r#"{"event":"after","action":{"type":"x"}}"#, "the input has no `result`"),
            (
                r#"{"event":"after","action":{"type":"x"},"result":{}}"#,
                "the input has no `result.success`",
            ),
            (r#"{"event":"start","session":""}"#, "the session id is empty"),
        ] {
            assert_eq!(fault(text), expected, "{text}");
        }
        assert!(fault(r#"{"action_id":"a"}"#).starts_with("the action is not what"), "faults");
    }
}
