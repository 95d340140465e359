//! Running a flow: which step is begun when, and who waits for what.
//!
//! One thread looks at what is recorded and begins what can begin, in the order of the flow file;
//! each call of an agent has a thread of its own. Everything that is known comes from the trace, so
//! a flow that was interrupted is resumed by the same code that runs a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::Scope;
use std::time::Duration;

use countersign_format::event::Event;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_protocol::Refusal;
use countersign_protocol::flow::{
    AskedFor, FileFact, FlowCommand, FlowOutcome, FlowRefusal, FlowState, OpenQuestion, StepBy,
    StepPhase,
};
use serde_json::Value;

use super::file::{FlowAgentKind, FlowFile};
use super::files::FileRoot;
use super::seat::{AgentSeat, Surroundings};
use super::{FlowTrace, facts, questions};
use crate::gate::LoadedGate;
use crate::replica;
use crate::sandbox::end_survivors;
use crate::secrets::Redactor;
use crate::session::RunningSession;
use crate::store::{Head, LedgerId, Ledgers as _};
use crate::tools::{Stop, ToolError};
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{WriteError, lock};

/// How long is waited at most before looking again.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What a flow needs from its surroundings.
#[derive(Clone)]
pub struct FlowSetting {
    /// The workspace root: where agents run and files are written.
    pub root: PathBuf,
    /// The environment of the process.
    pub environment: Vec<(OsString, OsString)>,
    /// The binary that enters the sandbox.
    pub helper: PathBuf,
    /// Who sees what happens.
    pub observer: Arc<dyn FlowObserver>,
    /// Ends the run early. The flow stays open and can be resumed.
    pub stop: Stop,
    /// Other traces that it belongs to.
    pub links: Option<Value>,
}

impl fmt::Debug for FlowSetting {
    /// Without the values of variables, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowSetting")
            .field("root", &self.root)
            .field("helper", &self.helper)
            .finish_non_exhaustive()
    }
}

/// Whoever wants to see what happens while it happens.
pub trait FlowObserver: Send + Sync {
    /// Something happened.
    fn told(&self, news: FlowNews<'_>);
}

/// What can happen.
#[derive(Debug, Clone)]
pub enum FlowNews<'a> {
    /// An event was recorded, by this run or by somebody else.
    Recorded(&'a Event),
    /// A person was asked this a while ago and has not answered.
    Reminder(&'a OpenQuestion),
    /// The session of a step asks a person.
    SessionAsks {
        /// Which session.
        trace_id: &'a str,
    },
}

/// How a run ended.
#[derive(Debug)]
pub struct FlowEnd {
    /// How the flow ended; nothing if it can be resumed.
    pub outcome: Option<FlowOutcome>,
    /// Why, in one sentence.
    pub summary: String,
    /// Set where the workspace log could not be told everything; the next writer tells it.
    pub log_lag: Option<WriteError>,
}

/// Why a flow could not be run.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The workspace could not be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// An agent cannot be run.
    #[error("could not prepare the agent `{agent}`")]
    Agent {
        /// Which.
        agent: String,
        /// Why.
        #[source]
        source: ToolError,
    },
    /// The directory cannot be used.
    #[error("could not {doing} `{path}`")]
    Files {
        /// What was being done.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The flow file holds a secret, which would be stored.
    #[error("the flow file holds a secret ({rules}), and it is stored with the trace")]
    Secret {
        /// The rules that found it.
        rules: String,
    },
    /// The flow file is too large for one event.
    #[error("the flow is too large: its plan has {bytes} bytes, the limit is {max}")]
    TooLarge {
        /// What it has.
        bytes: usize,
        /// What it may have.
        max: usize,
    },
    /// It is over.
    #[error("flow {id} has ended: {}", outcome.as_str())]
    Ended {
        /// Which.
        id: String,
        /// How it ended.
        outcome: FlowOutcome,
    },
    /// The stored flow file is not usable.
    #[error("the flow file that flow {id} keeps cannot be used: {reason}")]
    Stored {
        /// Which.
        id: String,
        /// Why.
        reason: String,
    },
    /// The trace cannot be read.
    #[error("the flow cannot go on: {0}")]
    Damaged(String),
}

impl From<WriteError> for FlowError {
    fn from(error: WriteError) -> Self {
        Self::Workspace(error.into())
    }
}

/// Whoever runs one flow.
pub struct RunningFlow {
    pub(super) trace: FlowTrace,
    pub(super) file: FlowFile,
    pub(super) setting: FlowSetting,
    pub(super) redactor: Redactor,
    pub(super) gate: LoadedGate,
    pub(super) root: FileRoot,
    pub(super) seats: BTreeMap<String, AgentSeat>,
    /// Held while files are written, until that is recorded.
    pub(super) writing: Mutex<()>,
    told: Mutex<Head>,
    reminded: Mutex<BTreeSet<String>>,
    log_lag: Mutex<Option<WriteError>>,
    _running: RunningSession,
}

impl fmt::Debug for RunningFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningFlow").field("trace", &self.trace.id()).finish_non_exhaustive()
    }
}

/// Bytes of a plan: it stands in one line of the trace, with other things.
const PLAN_BYTES_MAX: usize = 900 << 10;

/// The calls that are under way in this process.
#[derive(Debug, Default)]
struct Crew {
    busy: Mutex<BTreeSet<usize>>,
    failed: Mutex<Option<FlowError>>,
}

impl RunningFlow {
    /// Begins a flow. When it returns, its first event survives power loss.
    ///
    /// # Errors
    /// Something could not be prepared, stored or recorded.
    pub fn begin(
        workspace: &Workspace,
        file: FlowFile,
        text: &[u8],
        setting: FlowSetting,
    ) -> Result<Self, FlowError> {
        // Whatever cannot be had shows before anything is recorded.
        seats(workspace, &file, &setting, "trial")?;
        let redactor = Redactor::new(setting.environment.iter().cloned());
        let redacted = redactor.redact(text);
        if !redacted.counts.is_empty() {
            let rules: Vec<String> = redacted.counts.keys().map(ToString::to_string).collect();
            return Err(FlowError::Secret { rules: rules.join(", ") });
        }
        let plan = serde_json::to_vec(&file.plan).map_or(usize::MAX, |bytes| bytes.len());
        if plan > PLAN_BYTES_MAX {
            return Err(FlowError::TooLarge { bytes: plan, max: PLAN_BYTES_MAX });
        }
        let (trace, _) = workspace.begin_flow(&file, text, setting.links.as_ref())?;
        Self::prepare(trace, file, redactor, setting)
    }

    /// Takes up a flow that was interrupted, from what its trace keeps.
    ///
    /// # Errors
    /// It is over, somebody runs it, or its flow file cannot be read.
    pub fn resume(
        workspace: &Workspace,
        id: Ulid,
        setting: FlowSetting,
    ) -> Result<Self, FlowError> {
        let trace = workspace.flow(id)?;
        if let Some(outcome) = trace.look(|state| state.outcome)? {
            return Err(FlowError::Ended { id: id.to_string(), outcome });
        }
        let file = trace.file()?;
        let redactor = Redactor::new(setting.environment.iter().cloned());
        let flow = Self::prepare(trace, file, redactor, setting)?;
        // Agents of the run that was cut off must not go on beside those that are called now.
        end_survivors(&id.to_string()).map_err(|source| {
            let doing = "end what an earlier run left";
            FlowError::Workspace(WorkspaceError::Io { doing, source })
        })?;
        Ok(flow)
    }

    fn prepare(
        trace: FlowTrace,
        file: FlowFile,
        redactor: Redactor,
        setting: FlowSetting,
    ) -> Result<Self, FlowError> {
        let workspace = trace.workspace();
        let running = workspace.take_run(trace.id())?;
        let seats = seats(workspace, &file, &setting, &trace.id().to_string())?;
        let root = FileRoot::open(&setting.root).map_err(|source| FlowError::Files {
            doing: "open the workspace root",
            path: setting.root.clone(),
            source,
        })?;
        Ok(Self {
            gate: workspace.gate()?,
            trace,
            file,
            setting,
            redactor,
            root,
            seats,
            writing: Mutex::default(),
            told: Mutex::new(Head::EMPTY),
            reminded: Mutex::default(),
            log_lag: Mutex::default(),
            _running: running,
        })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> Ulid {
        self.trace.id()
    }

    /// Runs the flow to its end, or until it is stopped.
    ///
    /// # Errors
    /// Something could not be read or written; the flow is as it was and can be resumed.
    pub fn run(&self) -> Result<FlowEnd, FlowError> {
        let crew = Crew::default();
        let ran = std::thread::scope(|scope| self.conduct(scope, &crew));
        // The scope has waited for every call that was under way.
        self.catch_up()?;
        ran?;
        if let Some(error) = lock(&crew.failed).take() {
            return Err(error);
        }
        let workspace = self.trace.workspace();
        let (outcome, summary) = self.trace.look(|state| (state.outcome, state.why()))?;
        if outcome.is_some() {
            workspace.keep_summary(self.id());
        }
        let log_lag = lock(&self.log_lag).take();
        Ok(FlowEnd { outcome, summary, log_lag })
    }

    fn conduct<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        crew: &'env Crew,
    ) -> Result<(), FlowError> {
        let store = self.trace.workspace().store();
        loop {
            let seen = store.changes_seen();
            self.catch_up()?;
            let state = self.trace.look(Clone::clone)?;
            if state.outcome.is_some() || lock(&crew.failed).is_some() {
                // Nobody waits for what they would say.
                self.setting.stop.set();
                return Ok(());
            }
            let stopping = self.setting.stop.is_set();
            if !stopping && self.advance(&state, scope, crew)? {
                continue;
            }
            let idle = lock(&crew.busy).is_empty();
            match (idle, stopping) {
                (true, true) => return Ok(()),
                (true, false) if state.due_outcome().is_some() => {
                    self.record(FlowCommand::Finish)?;
                }
                _ => store.wait_for_changes(seen, self.until_next(&state)),
            }
        }
    }

    /// Begins everything that can begin. Says whether something was recorded, so that more may.
    fn advance<'scope, 'env>(
        &'env self,
        state: &FlowState,
        scope: &'scope Scope<'scope, 'env>,
        crew: &'env Crew,
    ) -> Result<bool, FlowError> {
        let mut acted = false;
        let ready: BTreeSet<usize> = state.ready().into_iter().collect();
        for (at, step) in state.steps.iter().enumerate() {
            if lock(&crew.busy).contains(&at) {
                continue;
            }
            match &step.phase {
                StepPhase::Stuck { why } => {
                    let step = self.id_of(state, at);
                    let question = match why {
                        AskedFor::Attempts | AskedFor::Escalated => Some(self.question(state, at)),
                        _ => None,
                    };
                    acted |= self.record(FlowCommand::Ask { step, question, facts: Vec::new() })?;
                }
                StepPhase::Asked(question) => acted |= self.wait_for(state, at, question)?,
                StepPhase::Running { .. } | StepPhase::Applying { .. } => {
                    self.begin_call(scope, crew, at, Vec::new());
                }
                StepPhase::Waiting { .. } if ready.contains(&at) => {
                    acted |= self.begin_step(state, at, scope, crew)?;
                }
                _ => {}
            }
        }
        Ok(acted)
    }

    fn id_of(&self, state: &FlowState, at: usize) -> String {
        state.route.step(at).map(|step| step.id.clone()).unwrap_or_default()
    }

    fn begin_step<'scope, 'env>(
        &'env self,
        state: &FlowState,
        at: usize,
        scope: &'scope Scope<'scope, 'env>,
        crew: &'env Crew,
    ) -> Result<bool, FlowError> {
        let agent = match state.route.step(at).map(|step| &step.by) {
            Some(StepBy::Agent(agent)) => Some(agent),
            _ => None,
        };
        // Whoever is asked takes no place; whoever is called waits for one.
        let full = lock(&crew.busy).len() >= self.file.parallel;
        if agent.is_some() && (full || state.used_up().is_some()) {
            return Ok(false);
        }
        let asked = state.facts_needed(at);
        let feature = state.feature_id.as_deref();
        let facts = facts::look(&self.setting.root, &asked, feature, &self.redactor);
        let step = self.id_of(state, at);
        match (state.runs(at, &facts), agent) {
            (Some(true), Some(_)) => {
                self.begin_call(scope, crew, at, facts);
                Ok(false)
            }
            (Some(true), None) => self.record(FlowCommand::Ask { step, question: None, facts }),
            (Some(false), _) => self.record(FlowCommand::Skip { step, facts }),
            (None, _) => Err(FlowError::Damaged(format!("step `{step}` misses a fact"))),
        }
    }

    fn begin_call<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        crew: &'env Crew,
        at: usize,
        facts: Vec<FileFact>,
    ) {
        lock(&crew.busy).insert(at);
        scope.spawn(move || {
            let done = self.carry_out(at, facts);
            if let Err(error) = done {
                lock(&crew.failed).get_or_insert(error);
                self.setting.stop.set();
            }
            lock(&crew.busy).remove(&at);
            self.trace.workspace().store().wake();
        });
    }

    /// Looks whether a question's time is over, or whether somebody should be reminded.
    fn wait_for(
        &self,
        state: &FlowState,
        at: usize,
        open: &OpenQuestion,
    ) -> Result<bool, FlowError> {
        let now = self.trace.workspace().now();
        if open.deadline.is_some_and(|deadline| now >= deadline) {
            return self.record(FlowCommand::Miss { question: open.event.clone() });
        }
        let due = questions::remind_at(state, at, open).is_some_and(|due| now >= due);
        if due && lock(&self.reminded).insert(open.event.event_id.clone()) {
            self.setting.observer.told(FlowNews::Reminder(open));
        }
        Ok(false)
    }

    /// How long nothing can happen by itself.
    fn until_next(&self, state: &FlowState) -> Duration {
        let now = self.trace.workspace().now();
        let left = |then: Timestamp| {
            let millis = then.as_millis().saturating_sub(now.as_millis()).max(1);
            Duration::from_millis(u64::try_from(millis).unwrap_or(1))
        };
        let reminded = |open: &OpenQuestion| lock(&self.reminded).contains(&open.event.event_id);
        let times = state.questions().flat_map(|(at, open)| {
            let remind = questions::remind_at(state, at, open).filter(|_| !reminded(open));
            open.deadline.into_iter().chain(remind)
        });
        times.map(left).min().unwrap_or(LOOK_EVERY).min(LOOK_EVERY)
    }

    /// Records what `command` brings, and says whether that was anything. Where somebody else was
    /// faster, it was not.
    pub(super) fn record(&self, command: FlowCommand) -> Result<bool, FlowError> {
        match self.submit(command)? {
            Ok(any) => Ok(any),
            Err(Refusal::Flow(_) | Refusal::Ended { .. }) => Ok(false),
            Err(refusal) => Err(WriteError::Refused(refusal).into()),
        }
    }

    /// Records that an agent is called. Not where the budget does not allow it, or somebody has ended
    /// the flow; what else is refused would be tried for ever.
    pub(super) fn record_call(&self, command: FlowCommand) -> Result<bool, FlowError> {
        match self.submit(command)? {
            Ok(any) => Ok(any),
            Err(Refusal::Flow(FlowRefusal::Budget { .. }) | Refusal::Ended { .. }) => Ok(false),
            Err(refusal) => Err(FlowError::Damaged(refusal.to_string())),
        }
    }

    fn submit(&self, command: FlowCommand) -> Result<Result<bool, Refusal>, FlowError> {
        let recorded = match self.trace.submit(command) {
            Ok(recorded) => recorded,
            Err(WriteError::Refused(refusal)) => return Ok(Err(refusal)),
            Err(error) => return Err(error.into()),
        };
        if let Some(lag) = recorded.log_lag {
            *lock(&self.log_lag) = Some(lag);
        }
        self.catch_up()?;
        Ok(Ok(!recorded.events.is_empty()))
    }

    /// How many events there are already, when it is about to run.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn size(&self) -> Result<u64, FlowError> {
        Ok(self.trace.trace.size()?)
    }

    /// Tells the observer what was appended since, by whomever.
    pub(super) fn catch_up(&self) -> Result<(), FlowError> {
        const READ_BYTES: usize = 1 << 20;
        let mut head = lock(&self.told);
        let ledger = LedgerId::Trace(self.trace.id());
        loop {
            let store = self.trace.workspace().store();
            let lines = store.read(ledger, *head, READ_BYTES).map_err(WorkspaceError::from)?;
            if lines.is_empty() {
                return Ok(());
            }
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                let event = replica::read(line.strip_suffix(b"\n").unwrap_or(line))
                    .map_err(FlowError::Damaged)?;
                self.setting.observer.told(FlowNews::Recorded(&event));
            }
            *head = Head::at(head.bytes + lines.len() as u64);
        }
    }
}

/// Every agent that runs a program, ready to be called.
fn seats(
    workspace: &Workspace,
    file: &FlowFile,
    setting: &FlowSetting,
    marker: &str,
) -> Result<BTreeMap<String, AgentSeat>, FlowError> {
    let around = Surroundings {
        root: &setting.root,
        hidden: vec![workspace.config().to_owned(), workspace.home().to_owned()],
        environment: &setting.environment,
        helper: &setting.helper,
        marker: marker.to_owned(),
    };
    let runs = |kind| matches!(kind, FlowAgentKind::Command | FlowAgentKind::Prompt);
    let mut seats = BTreeMap::new();
    for (name, agent) in file.agents.iter().filter(|(_, agent)| runs(agent.kind)) {
        let seat = AgentSeat::new(agent, &around)
            .map_err(|source| FlowError::Agent { agent: name.clone(), source })?;
        seats.insert(name.clone(), seat);
    }
    Ok(seats)
}
