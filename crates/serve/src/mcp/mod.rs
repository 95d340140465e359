//! The Model Context Protocol's side of the recorder: connections, five tools and a prompt.
//!
//! The library below speaks the protocol; `runtime` does what the tools stand for. Decided here is how
//! arguments, answers and failures look to a model, and in which order calls run.

mod answers;
mod calls;
mod connection;
mod input;
mod instructions;
mod question;
mod schemas;
mod tools;

use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_runtime::Workspace;
use countersign_runtime::actions::{AgentRuntime, Enforcement, RuntimeOptions};
use countersign_runtime::secrets::Redactor;
use rmcp::model::InitializeRequestParams;
use tokio::sync::Notify;

pub(crate) use connection::Connection;

/// What every connection of a server shares.
#[derive(Debug)]
pub struct Recorder {
    setup: McpSetup,
    calls: Calls,
}

/// What a server is started with.
#[derive(Debug)]
pub struct McpSetup {
    /// The workspace that is recorded in.
    pub workspace: Workspace,
    /// Takes secrets out of what is recorded.
    pub redactor: Redactor,
    /// Whether the gate's word binds.
    pub enforcement: Enforcement,
    /// What the agent is called, whatever its client says.
    pub agent: Option<String>,
    /// The model that acts, as whoever started the server says.
    pub model: Option<String>,
}

impl Recorder {
    /// A recorder for this workspace.
    #[must_use]
    pub fn new(setup: McpSetup) -> Self {
        setup.workspace.store().place_when_told();
        Self { setup, calls: Calls::default() }
    }

    /// A line to the workspace for one client, by the name that it gives itself; `alone` if it is the
    /// only one.
    fn runtime_for(&self, client: &InitializeRequestParams, alone: bool) -> AgentRuntime {
        let McpSetup { workspace, redactor, enforcement, agent, model } = &self.setup;
        if alone {
            workspace.store().sync_aside();
        }
        let info = &client.client_info;
        let mut program = short(&format!("{} {}", info.name, info.version));
        if let Some(model) = model {
            program = format!("{program}, model {}", short(model));
        }
        let options = RuntimeOptions {
            agent: Some(short(agent.as_ref().unwrap_or(&info.name))),
            client: Some(program),
            enforcement: *enforcement,
            decides_aside: alone,
            ..RuntimeOptions::default()
        };
        AgentRuntime::new(workspace.clone(), redactor.clone(), options)
    }

    /// Returns when no call is under way.
    pub(crate) async fn all_calls_ended(&self) {
        self.calls.all_ended().await;
    }
}

/// Characters of a name that somebody gave.
const NAME_CHARACTERS_MAX: usize = 128;

fn short(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS_MAX).collect()
}

/// How many calls are under way.
#[derive(Debug, Default)]
struct Calls {
    running: AtomicUsize,
    ended: Notify,
}

/// One call under way; over when dropped.
#[derive(Debug)]
struct Call<'a>(&'a Calls);

impl Calls {
    fn begin(&self) -> Call<'_> {
        self.running.fetch_add(1, Ordering::SeqCst);
        Call(self)
    }

    async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.ended.notify_waiters();
    }
}
