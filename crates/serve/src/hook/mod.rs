//! Hooks: what an agent's own program tells before and after each tool call, and how it is answered.
//!
//! Decides how the JSON of such programs is read, what their tools mean to the gate, and what they are
//! told. Everything here is synchronous and ends; that a hook which fails denies is the caller's duty.

mod claude_code;
mod claude_tools;
mod document;
mod generic;
mod places;

use countersign_gate::{Decision, Reason};
use countersign_runtime::actions::{
    ActionReport, ActionRequest, AgentRuntime, Enforcement, GateAnswer, ReceiptGiven,
    RuntimeOptions,
};
use countersign_runtime::agent_sessions::{AgentSession, Entered};
use countersign_runtime::secrets::Redactor;
use countersign_runtime::{Workspace, WorkspaceError};

pub use claude_code::{AllowedCalls, ClaudeCodeHook, HookReply};
pub use document::HookFault;
pub use generic::{GenericHook, GenericReply};

/// Bytes of what a hook is given.
pub const HOOK_BYTES_MAX: usize = 32 << 20;
/// How long a verdict may be used, and a question answered: tools run for hours, and people leave
/// the prompt of a program open overnight. Both end with the session.
const HOOK_SECONDS: u64 = 24 * 3_600;

/// Where hooks are recorded, and whether the gate's word binds.
#[derive(Debug)]
pub struct HookSetup {
    /// Where they are recorded.
    pub workspace: Workspace,
    /// What takes secrets out.
    pub redactor: Redactor,
    /// Whether the gate's word binds.
    pub enforcement: Enforcement,
}

impl HookSetup {
    /// The line of a session to its recording.
    fn enter(
        &self,
        session: &AgentSession,
        agent: Option<String>,
        client: &str,
    ) -> Result<(AgentRuntime, Entered), WorkspaceError> {
        let options = RuntimeOptions {
            agent,
            client: Some(client.to_owned()),
            enforcement: self.enforcement,
            question_seconds: HOOK_SECONDS,
            token_seconds: HOOK_SECONDS,
            ..RuntimeOptions::default()
        };
        AgentRuntime::of_session(&self.workspace, self.redactor.clone(), options, session)
    }

    /// The same for somebody who will ask the gate: its policy is read while the recording is looked
    /// for, since either takes milliseconds and a tool waits for both.
    fn enter_with_gate(
        &self,
        session: &AgentSession,
        agent: Option<String>,
        client: &str,
    ) -> Result<AgentRuntime, WorkspaceError> {
        std::thread::scope(|scope| {
            let load = || self.workspace.gate();
            let loading = std::thread::Builder::new().spawn_scoped(scope, load);
            let (runtime, _) = self.enter(session, agent, client)?;
            // Where it could not be loaded, the runtime tries by itself, and says why not.
            if let Some(Ok(gate)) = loading.ok().and_then(|thread| thread.join().ok()) {
                runtime.expect_gate(gate);
            }
            Ok(runtime)
        })
    }

    /// Ends the recordings of a session, those of its sub-agents first. What cannot be ended is told;
    /// the others are.
    fn end(&self, session: &AgentSession, why: &str) -> Result<Vec<String>, WorkspaceError> {
        let verdict = match session.agent_id() {
            Some(_) => format!("the sub-agent ended: {why}"),
            None => format!("the agent's session ended: {why}"),
        };
        let mut ended = Vec::new();
        let mut failed = None;
        for (_, id) in self.workspace.open_recordings_of(session)? {
            match self.workspace.end_recording(id, &verdict) {
                Ok(()) => ended.push(id.to_string()),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(ended), Err)
    }
}

/// Records what a program says was done. Where a person is known to have `agreed` to it in the program
/// itself, that is recorded first; if it cannot be, the action still is, and the reason is told.
fn record(
    runtime: &AgentRuntime,
    asked: ActionRequest,
    agreed: bool,
    done: ActionReport,
) -> Result<(ReceiptGiven, Option<WorkspaceError>), WorkspaceError> {
    let unanswered = if agreed { runtime.agreed_in_client(&asked).err() } else { None };
    let done = ActionReport { asked: Some(asked), ..done };
    Ok((runtime.record(&done)?, unanswered))
}

/// Why the gate decided so, in one line for the agent and its user.
fn because(answer: &GateAnswer) -> String {
    let verdict = &answer.opinion.verdict;
    // A person's word stands in the reasons, not in the gate's opinion.
    if verdict.decision() != answer.decision || answer.approved_by_person {
        return answer.reasons.join("; ");
    }
    let said = verdict.deciding().map(|reason| match reason {
        Reason::Answered { rule, because, .. } => format!("{because} (`{rule}`)"),
        Reason::Failed { .. } => reason.to_string(),
    });
    said.collect::<Vec<_>>().join("; ")
}

/// What a decision is called in answers.
const fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}
