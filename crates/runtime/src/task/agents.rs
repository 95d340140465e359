//! Who takes part: `requested_roles` and `[agents]`.

use std::collections::BTreeMap;

use countersign_format::role::Role;

use super::bounds::{SECONDS, STREAM_BYTES, variable};
use super::choice::AgentKind;
use super::document::{Table, Value};
use super::near::nearest;

/// The roles that a task can ask for.
pub(super) const ROLES: [Role; 4] = [Role::Planner, Role::Executor, Role::Critic, Role::Auditor];
/// Their names, in the same order.
const ROLE_NAMES: [&str; 4] = ["planner", "executor", "critic", "auditor"];
/// Those without which there is no session.
const NEEDED: [Role; 3] = [Role::Planner, Role::Executor, Role::Critic];
/// Entries of a command.
const COMMAND_ENTRIES_MAX: usize = 4096;

/// What answers for a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSpec {
    /// What it is.
    pub kind: AgentKind,
    /// The program and its arguments; empty for a built-in agent.
    pub command: Vec<String>,
    /// Seconds that one answer may take.
    pub time_seconds: u64,
    /// Bytes that one answer may have.
    pub output_bytes: u64,
    /// Environment variables that it gets besides the usual ones.
    pub pass_env: Vec<String>,
}

impl Default for AgentSpec {
    fn default() -> Self {
        Self {
            kind: AgentKind::BuiltIn,
            command: Vec::new(),
            time_seconds: 300,
            output_bytes: 4 << 20,
            pass_env: Vec::new(),
        }
    }
}

impl AgentSpec {
    const KEYS: [&'static str; 5] = ["kind", "command", "time_seconds", "output_bytes", "pass_env"];

    fn read(table: &Table<'_>) -> Self {
        let usual = Self::default();
        table.only(&Self::KEYS);
        let kind = table.required("kind", &format!("one of: {}", AgentKind::NAMES.join(", ")));
        let kind = kind.and_then(|value| value.choice(&AgentKind::NAMES, AgentKind::parse));
        Self {
            command: command(table, kind),
            kind: kind.unwrap_or(usual.kind),
            time_seconds: table.integer("time_seconds", SECONDS).unwrap_or(usual.time_seconds),
            output_bytes: table.integer("output_bytes", STREAM_BYTES).unwrap_or(usual.output_bytes),
            pass_env: table.set("pass_env", variable),
        }
    }
}

/// The command of an agent; nothing is said of its absence where the kind is not known.
fn command(table: &Table<'_>, kind: Option<AgentKind>) -> Vec<String> {
    let wanted = "an array of strings";
    let given = match kind {
        Some(AgentKind::Command | AgentKind::Prompt) => table.required("command", wanted),
        Some(AgentKind::BuiltIn) | None => table.get("command"),
    };
    let Some(given) = given else { return Vec::new() };
    if kind == Some(AgentKind::BuiltIn) {
        given.fault("must not be given: a built-in agent runs no command");
        return Vec::new();
    }
    given.list(wanted).map(|entries| program(&given, &entries)).unwrap_or_default()
}

/// A program and its arguments.
pub(crate) fn program(given: &Value<'_>, entries: &[Value<'_>]) -> Vec<String> {
    match entries.first() {
        None => given.fault("must not be empty, its first entry is the program"),
        Some(program) if program.string() == Some("") => {
            program.fault("must not be empty, it is the program");
        }
        Some(_) => {}
    }
    if entries.len() > COMMAND_ENTRIES_MAX {
        let found = entries.len();
        given.fault(format!("has {found} entries, the limit is {COMMAND_ENTRIES_MAX}"));
    }
    entries.iter().filter_map(Value::passable).map(str::to_owned).collect()
}

/// `requested_roles`: all four where it is absent.
pub(super) fn requested_roles(task: &Table<'_>) -> Vec<Role> {
    let Some(given) = task.get("requested_roles") else { return ROLES.to_vec() };
    let before = task.faults_so_far();
    let roles = task.set("requested_roles", |value| {
        value.choice(&ROLE_NAMES, |name| name.parse().ok().filter(|role| ROLES.contains(role)))
    });
    let missing = NEEDED.iter().filter(|role| !roles.contains(role)).map(|role| role.as_str());
    let missing: Vec<&str> = missing.collect();
    // A role that is misspelt is not also missing.
    if !missing.is_empty() && task.faults_so_far() == before {
        let missing = missing.join(", ");
        given.fault(format!("planner, executor and critic must be there, missing: {missing}"));
    }
    roles
}

/// `[agents]`: the roles that are not built in.
pub(super) fn agents(task: &Table<'_>, requested: &[Role]) -> BTreeMap<Role, AgentSpec> {
    let mut agents = BTreeMap::new();
    let Some(table) = task.table("agents") else { return agents };
    for (name, place, value) in table.entries() {
        let role = name.parse().ok().filter(|role| ROLES.contains(role));
        let Some(role) = role else {
            let roles = ROLE_NAMES.join(", ");
            place.fault(match nearest(name, &ROLE_NAMES) {
                Some(near) => format!("unknown role, did you mean `{near}`?"),
                None => format!("no agent has this role, the roles are: {roles}"),
            });
            continue;
        };
        let spec = value.table().map(|table| AgentSpec::read(&table));
        if !requested.contains(&role) && task.get("requested_roles").is_some() {
            place.fault(format!("`{name}` is not among `requested_roles`"));
        }
        agents.insert(role, spec.unwrap_or_default());
    }
    agents
}
