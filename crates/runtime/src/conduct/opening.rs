//! Beginning and resuming: from a task to agents, tools and the first event.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use countersign_format::event::ArtifactDescriptor;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::session::{Enrolled, Redaction, SessionOpening, SessionPolicy};
use serde_json::{Value, json};

use super::{
    Conductor, Observer, Origin, SOFTWARE, STORED_BYTES_MAX, Tail, redactions, store_name, until,
};
use crate::agents::{
    Agent, BuiltInAuditor, BuiltInCritic, BuiltInExecutor, BuiltInPlanner, OutsideAgent,
    PlannedAction, PlannedClaim, PlannedStep, Setting, Speech,
};
use crate::inspect::first_event;
use crate::secrets::Redactor;
use crate::session::Session;
use crate::store::Blobs as _;
use crate::task::{AgentKind, AgentSpec, IsolationLevel, Step, Task, TaskFault};
use crate::tools::{Level, Stop, ToolCall, ToolError, ToolSetting, Toolbox, read_beneath};
use crate::workspace::{AGENTS, Workspace, WorkspaceError};

/// The media type of a stored task.
const TASK_MEDIA: &str = "application/toml";
/// Bytes of one input file of a task.
const INPUT_BYTES_MAX: u64 = 64 << 20;
/// What tools and agents always get of the environment.
const USUAL_ENVIRONMENT: [&str; 8] =
    ["PATH", "HOME", "LANG", "TERM", "TZ", "USER", "TMPDIR", "LOGNAME"];

/// What a run needs from its surroundings.
pub struct RunSetting {
    /// The directory that tools are confined to.
    pub root: PathBuf,
    /// The environment of the process.
    pub environment: Vec<(OsString, OsString)>,
    /// The binary that enters the sandbox.
    pub helper: PathBuf,
    /// Who sees what happens.
    pub observer: Arc<dyn Observer>,
    /// Ends the run early.
    pub stop: Stop,
    /// Other traces that the session belongs to.
    pub links: Option<Value>,
}

impl std::fmt::Debug for RunSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunSetting").field("root", &self.root).finish_non_exhaustive()
    }
}

/// A task, and the text that it was read from.
#[derive(Debug, Clone)]
pub struct TaskText {
    /// The task.
    pub task: Task,
    /// The file's text.
    pub text: String,
}

impl TaskText {
    /// Reads a task.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: String) -> Result<Self, Vec<TaskFault>> {
        Ok(Self { task: Task::parse(&text)?, text })
    }
}

/// Why a session could not be begun or resumed.
#[derive(Debug, thiserror::Error)]
pub enum OpeningError {
    /// The workspace could not be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Tools cannot be run.
    #[error("could not prepare the tools of the session")]
    Tools(#[source] ToolError),
    /// An input of the task could not be stored.
    #[error("could not read the input `{path}` of the task")]
    Input {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The session is over.
    #[error("session {id} has ended: it is {}", status.as_str())]
    Ended {
        /// Which.
        id: String,
        /// How it ended.
        status: TraceStatus,
    },
    /// The stored task is not usable.
    #[error("the task that session {id} keeps cannot be used: {reason}")]
    StoredTask {
        /// Which.
        id: String,
        /// Why.
        reason: String,
    },
    /// Secrets were taken out of the stored task, so that it cannot be run from there.
    #[error("secrets were taken out of the task that session {id} keeps; its file is needed")]
    TaskNeeded {
        /// Which.
        id: String,
    },
    /// The file is not the task that the session began with.
    #[error("the task file is not the one that session {id} began with")]
    OtherTask {
        /// Which.
        id: String,
    },
}

impl Conductor {
    /// Begins a session. When it returns, its first event survives power loss.
    ///
    /// # Errors
    /// Something could not be stored, recorded or prepared.
    pub fn begin(
        workspace: &Workspace,
        task: TaskText,
        setting: RunSetting,
    ) -> Result<Self, OpeningError> {
        // Whatever cannot be had shows before anything is recorded.
        Around::new(workspace, &setting, "trial").tools(&task.task)?;
        let redactor = redactor(&setting, Some(&task.task));
        let (stored, mut counts) = keep(workspace, &redactor, task.text.as_bytes(), TASK_MEDIA)?;
        let mut inputs = Vec::new();
        for path in &task.task.input_artifacts {
            let bytes = read_beneath(&setting.root, path, INPUT_BYTES_MAX)
                .map_err(|source| OpeningError::Input { path: path.clone(), source })?;
            let (input, more) = keep(workspace, &redactor, &bytes, "application/octet-stream")?;
            inputs.push(input);
            counts.extend(more);
        }
        let text = |text: &str| redactor.redact_text(text).0;
        let TaskText { task, .. } = task;
        let enrolled = enrolled(workspace, &task)?;
        let session = workspace.begin_session(|log| SessionOpening {
            log,
            task_id: task.task_id.clone(),
            objective: text(&task.objective),
            constraints: task.constraints.iter().map(|it| text(it)).collect(),
            policy_profile: task.policy_profile.as_str().to_owned(),
            requested_roles: task.requested_roles.clone(),
            participants: enrolled
                .iter()
                .map(|one| Enrolled {
                    command: one.command.iter().map(|it| text(it)).collect(),
                    ..one.clone()
                })
                .collect(),
            policy: SessionPolicy {
                fallbacks: task.policy.fallbacks,
                min_evidence: u64::from(task.policy.min_evidence),
                revisions: u64::from(task.policy.revisions),
                question_seconds: task.policy.question_seconds,
            },
            limits: json!({
                "time_seconds": task.limits.time_seconds,
                "tool_calls": task.limits.tool_calls,
                "tool_seconds": task.limits.tool_seconds,
                "output_bytes": task.limits.output_bytes,
                "memory_bytes": task.limits.memory_bytes,
            }),
            task: Some(stored.clone()),
            inputs: inputs.clone(),
            redactions: merged(&counts),
            links: setting.links.clone(),
            software: SOFTWARE.to_owned(),
        })?;
        Self::prepare(session, task, redactor, setting, Origin::New)
    }

    /// Takes up a session that was interrupted. `task` is needed only where secrets were taken out of
    /// the stored one.
    ///
    /// # Errors
    /// It is over, somebody runs it, or its task is not known.
    pub fn resume(
        workspace: &Workspace,
        id: Ulid,
        task: Option<TaskText>,
        setting: RunSetting,
    ) -> Result<Self, OpeningError> {
        let session = workspace.session(id)?;
        if let Some(status) = session.look(|state| state.ended).map_err(WorkspaceError::from)? {
            return Err(OpeningError::Ended { id: id.to_string(), status });
        }
        let redactor = redactor(&setting, task.as_ref().map(|given| &given.task));
        let task = stored_task(workspace, id, task, &redactor)?;
        Self::prepare(session, task, redactor, setting, Origin::Interrupted)
    }

    fn prepare(
        session: Session,
        task: Task,
        redactor: Redactor,
        setting: RunSetting,
        origin: Origin,
    ) -> Result<Self, OpeningError> {
        let running = session.take_run()?;
        let workspace = session.workspace().clone();
        let around = Around::new(&workspace, &setting, &session.id().to_string());
        let toolbox = around.tools(&task)?;
        let mut agents: BTreeMap<Role, Box<dyn Agent>> = BTreeMap::new();
        for role in [Role::Planner, Role::Critic, Role::Executor, Role::Auditor] {
            let spec = task.agent(role);
            let agent: Box<dyn Agent> = match spec.kind {
                AgentKind::BuiltIn => built_in(role, &task),
                AgentKind::Command | AgentKind::Prompt => Box::new(OutsideAgent {
                    role,
                    command: spec.command.clone(),
                    speech: match spec.kind {
                        AgentKind::Prompt => Speech::Prompt,
                        _ => Speech::Envelopes,
                    },
                    setting: agent_setting(&workspace, &task),
                    toolbox: around.agent(&spec)?,
                    files: program_files(&setting.root, &spec.command),
                    redactor: redactor.clone(),
                    stop: setting.stop.clone(),
                }),
            };
            agents.insert(role, agent);
        }
        let RunSetting { observer, stop, .. } = setting;
        Ok(Self {
            until: until(task.limits.time_seconds),
            session,
            task,
            agents,
            toolbox,
            redactor,
            observer,
            stop,
            tail: Mutex::new(Tail::default()),
            news: Condvar::new(),
            planning: Mutex::new(()),
            halted: Mutex::default(),
            log_lag: Mutex::default(),
            gating: Mutex::default(),
            origin,
            _running: running,
        })
    }

    /// The session that is run.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }
}

/// Knows the secrets of the environment, and those that the task gives to tools: in variables, and
/// behind options such as `--password`.
fn redactor(setting: &RunSetting, task: Option<&Task>) -> Redactor {
    let steps = task.map(|task| task.steps.as_slice()).unwrap_or_default();
    let mut given: Vec<(OsString, OsString)> = Vec::new();
    for action in steps.iter().flat_map(|step| &step.actions) {
        if let ToolCall::Exec { argv, env, .. } = &action.call {
            given.extend(env.iter().map(|(name, value)| (name.into(), value.into())));
            for (option, value) in argv.iter().zip(argv.iter().skip(1)) {
                if let Some(name) = option.strip_prefix("--") {
                    let name = name.replace('-', "_").to_uppercase();
                    given.push((name.into(), value.into()));
                }
            }
        }
    }
    Redactor::new(setting.environment.iter().cloned().chain(given))
}

/// What tools and agents of one session have around them.
struct Around<'a> {
    root: &'a Path,
    environment: &'a [(OsString, OsString)],
    helper: &'a Path,
    workspace: &'a Workspace,
    marker: String,
}

impl<'a> Around<'a> {
    fn new(workspace: &'a Workspace, setting: &'a RunSetting, marker: &str) -> Self {
        Self {
            root: &setting.root,
            environment: &setting.environment,
            helper: &setting.helper,
            workspace,
            marker: marker.to_owned(),
        }
    }

    fn tools(&self, task: &Task) -> Result<Toolbox, OpeningError> {
        let wish = &task.sandbox;
        let home = self.workspace.home().to_owned();
        Toolbox::new(ToolSetting {
            root: self.root.to_owned(),
            read_only: false,
            hidden: vec![self.workspace.config().to_owned(), home],
            write: wish.write.iter().map(PathBuf::from).collect(),
            network: wish.network,
            require: match wish.require {
                IsolationLevel::None => Level::None,
                IsolationLevel::Files => Level::Files,
                IsolationLevel::Full => Level::Full,
            },
            tool_seconds: task.limits.tool_seconds,
            output_bytes: task.limits.output_bytes,
            memory_bytes: task.limits.memory_bytes,
            environment: self.passed(&wish.pass_env),
            marker: self.marker.clone(),
            helper: self.helper.to_owned(),
        })
        .map_err(OpeningError::Tools)
    }

    /// Agents reach the network and their own files; the keys they do not reach where that can be
    /// prevented.
    fn agent(&self, spec: &AgentSpec) -> Result<Toolbox, OpeningError> {
        Toolbox::new(ToolSetting {
            root: self.root.to_owned(),
            read_only: false,
            hidden: vec![self.workspace.config().to_owned()],
            write: vec![PathBuf::from("/")],
            network: true,
            require: Level::None,
            tool_seconds: spec.time_seconds,
            output_bytes: spec.output_bytes,
            memory_bytes: 0,
            environment: self.passed(&spec.pass_env),
            marker: self.marker.clone(),
            helper: self.helper.to_owned(),
        })
        .map_err(OpeningError::Tools)
    }

    fn passed(&self, names: &[String]) -> BTreeMap<OsString, OsString> {
        passed(self.environment, names)
    }
}

/// What of an environment tools and agents get: the usual, and what is named.
pub(crate) fn passed(
    environment: &[(OsString, OsString)],
    names: &[String],
) -> BTreeMap<OsString, OsString> {
    let passes = |name: &OsString| {
        name.to_str().is_some_and(|name| {
            USUAL_ENVIRONMENT.contains(&name)
                || name.starts_with("LC_")
                || names.iter().any(|wanted| wanted == name)
        })
    };
    environment.iter().filter(|(name, _)| passes(name)).cloned().collect()
}

/// The files of the workspace that a command names, and what they hold: tools could change them.
fn program_files(root: &Path, command: &[String]) -> Vec<(PathBuf, Hash)> {
    let inside = |path: &PathBuf| path.starts_with(root) && path.is_file();
    let named = command.iter().map(|word| root.join(word)).filter(inside);
    named.filter_map(|path| Some((path.clone(), Hash::of(&std::fs::read(&path).ok()?)))).collect()
}

fn keep(
    workspace: &Workspace,
    redactor: &Redactor,
    bytes: &[u8],
    media_type: &str,
) -> Result<(ArtifactDescriptor, Vec<Redaction>), WorkspaceError> {
    let redacted = redactor.redact(bytes);
    let artifact = workspace.put_artifact(&redacted.bytes, media_type)?;
    Ok((artifact, redactions(&redacted.counts)))
}

/// The counts of several texts, by rule.
fn merged(counts: &[Redaction]) -> Vec<Redaction> {
    let mut by_rule: BTreeMap<&str, u64> = BTreeMap::new();
    for one in counts {
        *by_rule.entry(&one.rule).or_default() += one.count;
    }
    by_rule.into_iter().map(|(rule, count)| Redaction { rule: rule.to_owned(), count }).collect()
}

/// The task of a session that was begun before.
fn stored_task(
    workspace: &Workspace,
    id: Ulid,
    given: Option<TaskText>,
    redactor: &Redactor,
) -> Result<Task, OpeningError> {
    let unusable = |reason: String| OpeningError::StoredTask { id: id.to_string(), reason };
    let first = first_event(&workspace.trace_file(id))
        .map_err(|error| unusable(error.to_string()))?
        .ok_or_else(|| unusable("the session has no first event".to_owned()))?;
    let stored: Hash = first
        .payload
        .get("task_artifact")
        .and_then(|value| serde_json::from_value(value.clone()).ok())
        .ok_or_else(|| unusable("the first event names none".to_owned()))?;
    if let Some(TaskText { task, text }) = given {
        let same = Hash::of(&redactor.redact(text.as_bytes()).bytes) == stored;
        return if same { Ok(task) } else { Err(OpeningError::OtherTask { id: id.to_string() }) };
    }
    if first.payload.get("redactions").is_some() {
        return Err(OpeningError::TaskNeeded { id: id.to_string() });
    }
    let bytes = workspace.store().get(&stored, STORED_BYTES_MAX).map_err(WorkspaceError::from)?;
    let text = String::from_utf8(bytes).map_err(|error| unusable(error.to_string()))?;
    Task::parse(&text)
        .map_err(|faults| unusable(faults.first().map(ToString::to_string).unwrap_or_default()))
}

/// Who plays which role, under which key.
fn enrolled(workspace: &Workspace, task: &Task) -> Result<Vec<Enrolled>, WorkspaceError> {
    let mut enrolled = Vec::new();
    for agent in AGENTS.iter().filter(|agent| task.requested_roles.contains(&agent.role)) {
        let agent_id = workspace.log_state(|log| {
            log.active_key(agent.role).map(|identity| identity.agent_id.clone())
        })?;
        let spec = task.agent(agent.role);
        enrolled.push(Enrolled {
            role: agent.role,
            agent_id: agent_id.unwrap_or_else(|| agent.agent_id.to_owned()),
            kind: spec.kind.as_str().to_owned(),
            command: spec.command,
        });
    }
    Ok(enrolled)
}

fn agent_setting(workspace: &Workspace, task: &Task) -> Setting {
    Setting {
        task_id: task.task_id.clone(),
        task: json!({
            "task_id": task.task_id,
            "objective": task.objective,
            "constraints": task.constraints,
            "policy_profile": task.policy_profile.as_str(),
        }),
        inputs: task.input_artifacts.clone(),
        store: store_name(workspace),
    }
}

fn built_in(role: Role, task: &Task) -> Box<dyn Agent> {
    match role {
        Role::Planner => Box::new(planner(task)),
        Role::Critic => Box::new(BuiltInCritic {
            strictness: task.policy_profile.strictness(),
            constraints: task.constraints.clone(),
            network: task.sandbox.network,
        }),
        Role::Executor => Box::new(BuiltInExecutor),
        _ => Box::new(BuiltInAuditor),
    }
}

fn planner(task: &Task) -> BuiltInPlanner {
    let mut planner = BuiltInPlanner { steps: Vec::new(), fallbacks: Vec::new() };
    for step in &task.steps {
        match &step.fallback_for {
            Some(other) => planner.fallbacks.push((other.clone(), planned(step))),
            None => planner.steps.push(planned(step)),
        }
    }
    planner
}

pub(super) fn planned(step: &Step) -> PlannedStep {
    PlannedStep {
        id: step.id.clone(),
        objective: step.objective.clone(),
        assumptions: step.assumptions.clone(),
        required_tools: Vec::new(),
        expected_evidence: step.expected_evidence.clone(),
        after: step.after.clone(),
        actions: step
            .actions
            .iter()
            .map(|action| PlannedAction {
                call: action.call.clone(),
                risk: Some(action.risk),
                justification: action.justification.clone(),
                idempotent: action.idempotent,
                retries: action.retries,
                success: action.success.clone(),
                acknowledged_conditions: Vec::new(),
            })
            .collect(),
        claims: step
            .claims
            .iter()
            .map(|claim| PlannedClaim {
                text: claim.text.clone(),
                confidence: claim.confidence,
                evidence: claim.evidence.clone(),
            })
            .collect(),
    }
}
