//! Claude Code's hooks: the JSON that it gives to them, and the JSON that it expects.
//!
//! Answers before a tool runs: allow, ask or deny, with the reasons. Records what ran, also what was
//! never asked about. A session is a recording, and each of its sub-agents another that names it.

use std::path::PathBuf;

use countersign_gate::Decision;
use countersign_protocol::recording::Reporter;
use countersign_runtime::WorkspaceError;
use countersign_runtime::actions::{ActionReport, ActionRequest, AgentRuntime, Enforcement};
use countersign_runtime::agent_sessions::{AgentSession, Entered};
use countersign_runtime::coverage::SnapshotLimits;
use serde_json::{Value, json};

use super::claude_tools::{CallFacts, facts, short};
use super::document::{HookDocument, HookFault};
use super::places::Standpoint;
use super::{HookSetup, because, decision_name, record};

/// What the program is called in recordings.
const CLIENT: &str = "claude-code";

/// What Claude Code is told of a call that the gate allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AllowedCalls {
    /// That what reads files, edits files or plans may run without asking its user. Of commands, of
    /// the network and of the tools of others nothing: what they do is more than can be read in them,
    /// so that its own rules stay.
    #[default]
    AllowFiles,
    /// That it may run, without asking its user.
    AllowAll,
    /// Nothing, so that its own prompts stay.
    LeaveToClient,
}

impl AllowedCalls {
    /// Whether nothing is said of an allowed call of this type.
    fn is_silent(self, action_type: &str) -> bool {
        match self {
            Self::AllowAll => false,
            Self::LeaveToClient => true,
            Self::AllowFiles => !matches!(
                action_type,
                "file_read" | "file_write" | "code_edit" | "code_gen" | "decision" | "observation"
            ),
        }
    }
}

/// One call of the hook.
#[derive(Debug, Clone)]
pub struct ClaudeCodeHook {
    session: AgentSession,
    agent_type: Option<String>,
    cwd: Option<PathBuf>,
    mode: Option<String>,
    event: HookEvent,
}

#[derive(Debug, Clone)]
enum HookEvent {
    PreToolUse(ToolUse),
    PostToolUse {
        tool: ToolUse,
        end: ToolEnd,
    },
    SessionStart {
        model: Option<String>,
    },
    SessionEnd {
        reason: String,
    },
    SubagentStart,
    SubagentStop,
    /// One that nothing is recorded of.
    Other {
        name: String,
    },
}

#[derive(Debug, Clone)]
struct ToolUse {
    id: Option<String>,
    name: String,
    /// The input as it came, and as it is read.
    raw: String,
    input: Value,
}

#[derive(Debug, Clone)]
struct ToolEnd {
    success: bool,
    output: Option<String>,
    error: Option<String>,
    duration_ms: u64,
}

/// What Claude Code is answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookReply {
    /// The answer; none where nothing is to be said.
    pub answer: Option<Value>,
    /// What went wrong without consequence for the call.
    pub notes: Vec<String>,
}

impl ClaudeCodeHook {
    /// Reads what Claude Code gives to a hook.
    ///
    /// # Errors
    /// It is not what its documentation describes.
    pub fn read(bytes: &[u8]) -> Result<Self, HookFault> {
        let document = HookDocument::read(bytes)?;
        let name = document.needed_text("hook_event_name")?;
        let agent_id = document.text("agent_id")?;
        let session_id = document.needed_text("session_id")?;
        let event = match &*name {
            "PreToolUse" => HookEvent::PreToolUse(ToolUse::read(&document)?),
            "PostToolUse" | "PostToolUseFailure" => HookEvent::PostToolUse {
                tool: ToolUse::read(&document)?,
                end: ToolEnd::read(&document, name == "PostToolUse")?,
            },
            "SessionStart" => HookEvent::SessionStart { model: document.text("model")? },
            "SessionEnd" => HookEvent::SessionEnd {
                reason: document.text("reason")?.unwrap_or_else(|| "unknown".to_owned()),
            },
            "SubagentStart" => HookEvent::SubagentStart,
            "SubagentStop" => HookEvent::SubagentStop,
            _ => HookEvent::Other { name },
        };
        Ok(Self {
            session: AgentSession::new(CLIENT, &session_id, agent_id.as_deref())?,
            agent_type: document.text("agent_type")?,
            cwd: document.standing("cwd")?,
            mode: document.text("permission_mode")?,
            event,
        })
    }

    /// Whether a tool waits for the answer, so that a failure must keep it from running.
    #[must_use]
    pub const fn holds_a_tool(&self) -> bool {
        matches!(self.event, HookEvent::PreToolUse(_))
    }

    /// Does what the event asks for.
    ///
    /// # Errors
    /// It could not be recorded.
    pub fn answer(
        &self,
        setup: &HookSetup,
        allowed: AllowedCalls,
    ) -> Result<HookReply, WorkspaceError> {
        match &self.event {
            HookEvent::PreToolUse(tool) => self.before(tool, setup, allowed),
            HookEvent::PostToolUse { tool, end } => self.after(tool, end, setup),
            HookEvent::SessionStart { model } => {
                let client = model.as_ref().map(|model| format!("{CLIENT} ({})", short(model)));
                let client = client.as_deref().unwrap_or(CLIENT);
                let (runtime, entered) = setup.enter(&self.session, self.agent(), client)?;
                let notes = match entered {
                    Entered::Anew => look_around(setup, &runtime)?,
                    Entered::Again => None,
                };
                Ok(HookReply { notes: notes.into_iter().collect(), answer: None })
            }
            HookEvent::SubagentStart => {
                setup.enter(&self.session, self.agent(), CLIENT)?;
                Ok(HookReply::default())
            }
            HookEvent::SessionEnd { reason } => {
                setup.end(&self.session, &short(reason))?;
                Ok(HookReply::default())
            }
            // Without its name it could be any of them, or the session itself.
            HookEvent::SubagentStop if self.session.agent_id().is_none() => {
                Ok(HookReply::default())
            }
            HookEvent::SubagentStop => {
                setup.end(&self.session, "its work is done")?;
                Ok(HookReply::default())
            }
            HookEvent::Other { name } => Ok(HookReply {
                notes: vec![format!("nothing is recorded of the event `{}`", short(name))],
                answer: None,
            }),
        }
    }

    /// What the agent is called in the record.
    fn agent(&self) -> Option<String> {
        let kind = self.agent_type.as_deref().map(short).filter(|kind| !kind.is_empty());
        Some(kind.map_or_else(|| CLIENT.to_owned(), |kind| format!("{CLIENT}/{kind}")))
    }

    fn facts(&self, tool: &ToolUse, setup: &HookSetup) -> CallFacts {
        let standpoint = Standpoint::new(setup.workspace.home(), self.cwd.as_deref());
        facts(&tool.name, &tool.input, &tool.raw, &standpoint)
    }

    /// Whether Claude Code is certain to put a question about such a call before its user. In other
    /// modes, and in those that nobody knows, it may run the tool or refuse it by itself.
    fn asks_user(&self, action_type: &str) -> bool {
        match self.mode.as_deref() {
            Some("default" | "plan") => true,
            Some("acceptEdits") => {
                !matches!(action_type, "code_edit" | "code_gen" | "file_write" | "file_delete")
            }
            _ => false,
        }
    }

    fn before(
        &self,
        tool: &ToolUse,
        setup: &HookSetup,
        allowed: AllowedCalls,
    ) -> Result<HookReply, WorkspaceError> {
        let runtime = setup.enter_with_gate(&self.session, self.agent(), CLIENT)?;
        let facts = self.facts(tool, setup);
        let answer = runtime.gate(&tool.request(&facts))?;
        let silent = match (setup.enforcement, answer.decision) {
            // To allow would be to stop the client's own prompts.
            (Enforcement::Shadow, _) => true,
            (_, Decision::Allow) => allowed.is_silent(facts.action_type),
            _ => false,
        };
        if silent {
            return Ok(HookReply::default());
        }
        let mut reason = format!("countersign: {}", because(&answer));
        let mut decision = answer.decision;
        if let Some(question) = &answer.question {
            reason = format!("{reason}. Question {question} in trace {}", answer.trace_id);
            if !self.asks_user(facts.action_type) {
                decision = Decision::Deny;
                let mode = self.mode.as_deref().map_or_else(|| "unknown".to_owned(), short);
                reason = format!(
                    "{reason}. In the permission mode `{mode}` nobody is certain to be asked, so it \
                     is denied: a person can approve it with `countersign approve {question} --yes`, \
                     then it can be tried again"
                );
            }
        }
        let answer = json!({ "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decision_name(decision),
            "permissionDecisionReason": reason,
        } });
        Ok(HookReply { answer: Some(answer), notes: Vec::new() })
    }

    fn after(
        &self,
        tool: &ToolUse,
        end: &ToolEnd,
        setup: &HookSetup,
    ) -> Result<HookReply, WorkspaceError> {
        let (runtime, _) = setup.enter(&self.session, self.agent(), CLIENT)?;
        let facts = self.facts(tool, setup);
        let asked = tool.request(&facts);
        let done = ActionReport {
            action_type: facts.action_type.to_owned(),
            description: facts.description.clone(),
            tool_name: tool.name.clone(),
            success: end.success,
            files: facts.files.clone(),
            duration_ms: end.duration_ms,
            arguments: Some(tool.raw.clone().into_bytes()),
            output: end.output.clone(),
            error: end.error.clone(),
            call_id: tool.id.clone(),
            reporter: Reporter::Hook,
            ..ActionReport::default()
        };
        // That it ran after a question means a yes only where somebody must have been asked.
        let agreed = self.asks_user(facts.action_type);
        let (_, unanswered) = record(&runtime, asked, agreed, done)?;
        let notes = unanswered.map(|error| {
            format!("that a person agreed to this call could not be recorded: {error}")
        });
        Ok(HookReply { answer: None, notes: notes.into_iter().collect() })
    }
}

/// Keeps how the workspace is before anything is done, so that what bypassed us can be told from what
/// was there. A workspace that cannot be looked at hinders nobody.
fn look_around(
    setup: &HookSetup,
    runtime: &AgentRuntime,
) -> Result<Option<String>, WorkspaceError> {
    let taken = setup.workspace.record_snapshot(runtime.open()?, SnapshotLimits::default());
    Ok(taken.err().map(|error| format!("the files of the workspace were not noted: {error}")))
}

impl ToolUse {
    fn read(document: &HookDocument<'_>) -> Result<Self, HookFault> {
        let raw = document.raw("tool_input").ok_or_else(|| document.missing("tool_input"))?;
        Ok(Self {
            id: document.text("tool_use_id")?,
            name: document.needed_text("tool_name")?,
            raw: raw.to_owned(),
            input: document
                .value("tool_input", "JSON of texts that can be read")?
                .unwrap_or_default(),
        })
    }

    fn request(&self, facts: &CallFacts) -> ActionRequest {
        ActionRequest {
            action_type: facts.action_type.to_owned(),
            description: facts.description.clone(),
            files: facts.files.clone(),
            diff: facts.diff.clone(),
            tool: Some(self.name.clone()),
            command: facts.command.clone(),
            content: facts.content.clone(),
            held: facts.held.clone(),
            arguments: Some(self.raw.clone().into_bytes()),
            call_id: self.id.clone(),
            ..ActionRequest::default()
        }
    }
}

impl ToolEnd {
    fn read(document: &HookDocument<'_>, went_well: bool) -> Result<Self, HookFault> {
        let response = document.raw("tool_response");
        let interrupted = response.and_then(|raw| serde_json::from_str::<Value>(raw).ok());
        let interrupted = interrupted.and_then(|it| it.get("interrupted")?.as_bool());
        // A text that cannot be read is still the text that came.
        let error = document.raw("error");
        let error = error.map(|raw| serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned()));
        let by_user = document.value("is_interrupt", "true or false")?.unwrap_or(false);
        Ok(Self {
            success: went_well && interrupted != Some(true),
            output: response.map(str::to_owned),
            error: match (error, by_user || interrupted == Some(true)) {
                (None, true) => Some("interrupted by the user".to_owned()),
                (Some(error), true) => Some(format!("interrupted by the user: {error}")),
                (error, false) => error,
            },
            duration_ms: document.value::<f64>("duration_ms", "a number")?.map_or(0, whole),
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a time below nothing is none"
)]
fn whole(milliseconds: f64) -> u64 {
    // More than JSON can hold exactly is no time that anything took.
    (milliseconds.round() as u64).min((1 << 53) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClaudeCodeHook, HookFault> {
        ClaudeCodeHook::read(text.as_bytes())
    }

    #[test]
    fn only_before_a_tool_runs_does_a_failure_hold_it() {
        for (event, holds) in [
            ("PreToolUse", true),
            ("PostToolUse", false),
            ("PostToolUseFailure", false),
            ("SessionStart", false),
            ("SessionEnd", false),
            ("SubagentStop", false),
            ("Stop", false),
        ] {
            let text = format!(
                r#"{{"session_id":"s","hook_event_name":"{event}","tool_name":"Bash","tool_input":{{}}}}"#
            );
            assert_eq!(read(&text).unwrap().holds_a_tool(), holds, "{event}");
        }
    }

    #[test]
    fn what_a_hook_needs_is_named_where_it_lacks() {
        let missing = |name: &str| HookFault::Missing { name: name.to_owned() };
        for (text, fault) in [
            ("{}", missing("hook_event_name")),
            (r#"{"hook_event_name":"PreToolUse"}"#, missing("session_id")),
            (r#"{"hook_event_name":"PreToolUse","session_id":"s"}"#, missing("tool_input")),
            (
                r#"{"hook_event_name":"PreToolUse","session_id":"s","tool_input":{}}"#,
                missing("tool_name"),
            ),
            (
                r#"{"hook_event_name":1,"session_id":"s"}"#,
                HookFault::Wrong { name: "hook_event_name".into(), expected: "a text" },
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), fault, "{text}");
        }
    }

    #[test]
    fn an_interrupted_tool_did_not_do_what_it_was_meant_to() {
        let end = |rest: &str| {
            let text = format!("{{{rest}}}");
            ToolEnd::read(&HookDocument::read(text.as_bytes()).unwrap(), true).unwrap()
        };
        let stopped =
            end(r#""tool_response":{"stdout":"a","interrupted":true},"duration_ms":12.6"#);
        assert_eq!((stopped.success, stopped.duration_ms), (false, 13));
        assert_eq!(stopped.error.as_deref(), Some("interrupted by the user"));
        let well = end(r#""tool_response":"done","duration_ms":-3"#);
        assert_eq!((well.success, well.duration_ms, well.error), (true, 0, None));
        assert_eq!(well.output.as_deref(), Some("\"done\""));
    }
}
