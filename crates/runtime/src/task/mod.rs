//! Task files: the TOML in which somebody says what a session is for, who takes part and within
//! what bounds.
//!
//! Reads text and lists everything that is wrong with it. Opens no file, and does not ask whether
//! the files, programs and directories that it names exist.

pub(crate) mod agents;
pub(crate) mod bounds;
mod choice;
mod command;
pub(crate) mod document;
pub(crate) mod fault;
mod near;
pub(crate) mod order;
mod step;
pub(crate) mod syntax;

use std::collections::BTreeMap;

use countersign_format::path::check_readable;
use countersign_format::role::Role;

pub use agents::AgentSpec;
pub use bounds::{Limits, SandboxWish, TaskPolicy};
pub use choice::{AgentKind, EvidenceSource, IsolationLevel, PolicyProfile};
pub use fault::{TASK_FAULTS_MAX, TaskFault};
pub use step::{Action, ClaimTemplate, Step};

use document::{Table, Value};
use fault::FaultList;

/// Bytes of a task file.
pub const TASK_BYTES_MAX: usize = 1 << 20;

/// What a session is for, who takes part, and within what bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub task_id: String,
    /// What is to be achieved.
    pub objective: String,
    /// Files of the workspace that are stored as evidence before the start.
    pub input_artifacts: Vec<String>,
    /// What must hold whatever is done.
    pub constraints: Vec<String>,
    /// How strict the audit is.
    pub policy_profile: PolicyProfile,
    /// The roles that take part.
    pub requested_roles: Vec<Role>,
    /// By what it can be found.
    pub tags: Vec<String>,
    /// What it may use.
    pub limits: Limits,
    /// How tools are kept away from the rest of the system.
    pub sandbox: SandboxWish,
    /// What it is held to.
    pub policy: TaskPolicy,
    /// What answers for the roles; one that is not named is built in.
    pub agents: BTreeMap<Role, AgentSpec>,
    /// What is done, as far as it is known beforehand.
    pub steps: Vec<Step>,
}

impl Task {
    const KEYS: [&'static str; 12] = [
        "task_id",
        "objective",
        "input_artifacts",
        "constraints",
        "policy_profile",
        "requested_roles",
        "tags",
        "limits",
        "sandbox",
        "policy",
        "agents",
        "steps",
    ];

    /// The task that a file describes.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file.
    pub fn parse(text: &str) -> Result<Self, Vec<TaskFault>> {
        let faults = FaultList::new(text);
        let document = syntax::read(text, &faults);
        let task = document.as_ref().map(|document| Self::read(&Table::root(document, &faults)));
        match task {
            Some(task) if faults.count() == 0 => Ok(task),
            _ => Err(faults.into_faults()),
        }
    }

    /// As [`Task::parse`], of bytes that may be no text.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Vec<TaskFault>> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(error) => Err(vec![syntax::not_utf8(bytes, error)]),
        }
    }

    /// What answers for `role`.
    #[must_use]
    pub fn agent(&self, role: Role) -> AgentSpec {
        self.agents.get(&role).cloned().unwrap_or_default()
    }

    fn read(table: &Table<'_>) -> Self {
        table.only(&Self::KEYS);
        let profile = table.choice("policy_profile", &PolicyProfile::NAMES, PolicyProfile::parse);
        let requested_roles = agents::requested_roles(table);
        let agents = agents::agents(table, &requested_roles);
        Self {
            task_id: table.name("task_id").unwrap_or_default(),
            objective: table.text("objective").unwrap_or_default(),
            input_artifacts: table.set("input_artifacts", readable_file),
            constraints: table.texts("constraints"),
            policy_profile: profile.unwrap_or_default(),
            tags: table.set("tags", Value::text),
            limits: table.table("limits").map(|table| Limits::read(&table)).unwrap_or_default(),
            sandbox: table.table("sandbox").map(|t| SandboxWish::read(&t)).unwrap_or_default(),
            policy: table.table("policy").map(|table| TaskPolicy::read(&table)).unwrap_or_default(),
            steps: steps(table, agents.get(&Role::Planner)),
            agents,
            requested_roles,
        }
    }
}

/// The steps. Only a planner that thinks for itself can do without.
fn steps(task: &Table<'_>, planner: Option<&AgentSpec>) -> Vec<Step> {
    let given = task.get("steps");
    let none = given.as_ref().is_none_or(Value::is_empty_list);
    if none && planner.is_none_or(|planner| planner.kind == AgentKind::BuiltIn) {
        let missing = if given.is_none() { "missing" } else { "must not be empty" };
        let why = "a built-in planner proposes what stands in `steps`";
        task.fault_of("steps", format!("{missing}, {why}"));
    }
    let tables = given.map(|given| step::tables(&given)).unwrap_or_default();
    let steps: Vec<Step> = tables.iter().map(Step::read).collect();
    order::check(&steps, &tables);
    steps
}

/// A file of the workspace that may be read.
fn readable_file(value: &Value<'_>) -> Option<String> {
    let path = value.any_string()?;
    match check_readable(path) {
        Ok(()) if path == "." || path.ends_with('/') => {
            value.refuse(format!("must name a file, found the directory `{}`", fault::shown(path)))
        }
        Ok(()) => Some(path.to_owned()),
        Err(fault) => value.refuse(fault.to_string()),
    }
}
