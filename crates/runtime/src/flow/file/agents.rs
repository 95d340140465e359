//! `[agents]`: the programs, prompts and sessions that do the steps.

use std::collections::BTreeMap;

use countersign_format::path::WorkspacePath;

use crate::task::agents::program;
use crate::task::bounds::{SECONDS, STREAM_BYTES, directory, variable};
use crate::task::document::{Table, Value};

/// What does a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowAgentKind {
    /// Countersign's own: hands on the notes that it is given.
    BuiltIn,
    /// A program that reads an input envelope and writes an output envelope.
    Command,
    /// A program that reads a prompt and writes text.
    Prompt,
    /// A whole session, by its task file.
    Session,
}

impl FlowAgentKind {
    /// Their names.
    pub const NAMES: [&'static str; 4] = ["built-in", "command", "prompt", "session"];

    /// Its name in flow files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Command => "command",
            Self::Prompt => "prompt",
            Self::Session => "session",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::BuiltIn, Self::Command, Self::Prompt, Self::Session]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// An agent of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowAgent {
    /// What it is.
    pub kind: FlowAgentKind,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The task file of a session.
    pub task: Option<String>,
    /// Seconds that one answer may take.
    pub time_seconds: u64,
    /// Bytes that one answer may have.
    pub output_bytes: u64,
    /// Environment variables that it gets besides the usual ones.
    pub pass_env: Vec<String>,
    /// Whether it may use the network.
    pub network: bool,
    /// Directories outside the workspace that it may write.
    pub write: Vec<String>,
    /// Whether the workspace is read-only to it. If not, what it changed is looked for afterwards.
    pub confine: bool,
}

impl Default for FlowAgent {
    fn default() -> Self {
        Self {
            kind: FlowAgentKind::BuiltIn,
            command: Vec::new(),
            task: None,
            time_seconds: 300,
            output_bytes: 16 << 20,
            pass_env: Vec::new(),
            network: true,
            write: Vec::new(),
            confine: true,
        }
    }
}

const KEYS: [&str; 9] = [
    "kind",
    "command",
    "task",
    "time_seconds",
    "output_bytes",
    "pass_env",
    "network",
    "write",
    "confine",
];

/// The agents that a file names.
pub(super) fn read(root: &Table<'_>) -> BTreeMap<String, FlowAgent> {
    let mut agents = BTreeMap::new();
    let Some(table) = root.table("agents") else { return agents };
    for (name, _, value) in table.entries() {
        agents.extend(value.table().map(|table| (name.to_owned(), agent(&table))));
    }
    agents
}

fn agent(table: &Table<'_>) -> FlowAgent {
    let usual = FlowAgent::default();
    table.only(&KEYS);
    let wanted = format!("one of: {}", FlowAgentKind::NAMES.join(", "));
    let kind = table.required("kind", &wanted);
    let kind = kind.and_then(|value| value.choice(&FlowAgentKind::NAMES, FlowAgentKind::parse));
    use FlowAgentKind as K;
    let command = match kind {
        Some(K::Command | K::Prompt) => table.required("command", "an array of strings"),
        _ => table.get("command"),
    };
    let command = command.and_then(|value| match kind {
        Some(K::BuiltIn | K::Session) => {
            value.refuse("must not be given: this kind of agent runs no command")
        }
        _ => value.list("an array of strings").map(|entries| program(&value, &entries)),
    });
    let task = match kind {
        Some(K::Session) => table.required("task", "the path of a task file"),
        _ => table.get("task"),
    };
    let task = task.and_then(|value| match kind {
        Some(K::Session) | None => path(&value),
        _ => value.refuse("must not be given: only a session has a task"),
    });
    let runs = matches!(kind, Some(K::Command | K::Prompt) | None);
    for key in ["output_bytes", "pass_env", "network", "write", "confine"] {
        if let (false, Some(value)) = (runs, table.get(key)) {
            value.fault("must not be given: this kind of agent runs no program of its own");
        }
    }
    FlowAgent {
        kind: kind.unwrap_or(usual.kind),
        command: command.unwrap_or_default(),
        task,
        time_seconds: table.integer("time_seconds", SECONDS).unwrap_or(usual.time_seconds),
        output_bytes: table.integer("output_bytes", STREAM_BYTES).unwrap_or(usual.output_bytes),
        pass_env: table.set("pass_env", variable),
        network: table.flag("network").unwrap_or(usual.network),
        write: table.set("write", directory),
        confine: table.flag("confine").unwrap_or(usual.confine),
    }
}

fn path(value: &Value<'_>) -> Option<String> {
    let path = value.any_string()?;
    match WorkspacePath::parse(path) {
        Ok(path) => Some(path.as_str().to_owned()),
        Err(fault) => value.refuse(fault.to_string()),
    }
}
