//! Flow files: the TOML in which somebody says which agents do what, in which order and within what
//! bounds.
//!
//! Reads text and lists everything that is wrong with it, also what only shows from the steps taken
//! together. Opens no file itself: whether an input is there is asked of the caller.

mod agents;
mod check;
mod conditions;
mod steps;

use std::collections::BTreeMap;

use countersign_format::envelope::{InputPath, LABEL_BYTES_MAX};
use countersign_protocol::flow::{FEATURE, FlowBudget, FlowPlan, FlowRoute, check_feature};
use serde_json::{Map, Value as Json};

pub use agents::{FlowAgent, FlowAgentKind};

use crate::task::bounds::SECONDS;
use crate::task::document::{Table, Value};
use crate::task::fault::FaultList;
use crate::task::{TaskFault, syntax};

/// Steps that run at the same time where nothing is said.
const PARALLEL: usize = 4;
const PARALLEL_MAX: i64 = 256;
/// Seconds that a question waits where nothing is said: a day.
const QUESTION_SECONDS: u64 = 86_400;

/// What a flow file says.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowFile {
    /// The workflow's name.
    pub workflow: String,
    /// The feature; none if a step gives it.
    pub feature_id: Option<String>,
    /// What the flow is.
    pub plan: FlowPlan,
    /// Who its agents are, by name.
    pub agents: BTreeMap<String, FlowAgent>,
    /// What each step asks its agent for; none where a person is asked.
    pub orders: Vec<Option<StepOrder>>,
    /// How many agents run at the same time.
    pub parallel: usize,
}

/// What a step asks its agent for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepOrder {
    /// Which agent.
    pub agent: String,
    /// What it is to do.
    pub action: String,
    /// What that needs.
    pub params: Map<String, Json>,
    /// The files that it may need, by name.
    pub paths: BTreeMap<String, InputPath>,
    /// Names of paths that may lead to nothing.
    pub optional: Vec<String>,
}

/// What a flow file is read with.
#[derive(Clone, Copy)]
pub struct FlowReading<'a> {
    /// The feature, if somebody names one; it goes before that of the file.
    pub feature_id: Option<&'a str>,
    /// Whether there is something at a path below the workspace root.
    pub exists: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for FlowReading<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowReading").field("feature_id", &self.feature_id).finish_non_exhaustive()
    }
}

impl FlowFile {
    const KEYS: [&'static str; 6] =
        ["workflow", "feature_id", "budget", "limits", "agents", "steps"];

    /// The flow that a file describes.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file.
    pub fn parse(text: &str, reading: &FlowReading<'_>) -> Result<Self, Vec<TaskFault>> {
        let faults = FaultList::new(text);
        let document = syntax::read(text, &faults);
        let read = document
            .as_ref()
            .and_then(|document| Self::read(&Table::root(document, &faults), reading));
        match read {
            Some(flow) if faults.count() == 0 => Ok(flow),
            _ => Err(faults.into_faults()),
        }
    }

    /// As [`FlowFile::parse`], of bytes that may be no text.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file.
    pub fn from_bytes(bytes: &[u8], reading: &FlowReading<'_>) -> Result<Self, Vec<TaskFault>> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text, reading),
            Err(error) => Err(vec![syntax::not_utf8(bytes, error)]),
        }
    }

    fn read(root: &Table<'_>, reading: &FlowReading<'_>) -> Option<Self> {
        root.only(&Self::KEYS);
        let workflow = root.text("workflow");
        if let Some(bytes) = workflow.as_ref().map(String::len).filter(|it| *it > LABEL_BYTES_MAX) {
            root.fault_of("workflow", format!("has {bytes} bytes, the limit is {LABEL_BYTES_MAX}"));
        }
        let feature_id = match reading.feature_id {
            Some(given) => Some(given.to_owned()),
            None => root.get("feature_id").and_then(|value| feature(&value)),
        };
        let budget = root.table("budget").map(|table| read_budget(&table)).unwrap_or_default();
        let limits = root.table("limits");
        if let Some(limits) = &limits {
            limits.only(&["parallel", "question_seconds"]);
        }
        let limit = limits.as_ref();
        let parallel = limit.and_then(|table| table.integer("parallel", 1..=PARALLEL_MAX));
        let question = limit.and_then(|table| table.integer("question_seconds", SECONDS));
        let agents = agents::read(root);
        let tables = steps::tables(root);
        let read: Vec<_> = tables.iter().map(|table| steps::read(table, &agents)).collect();
        check::names(&read, &tables);
        // What is taken together means nothing while its parts are wrong.
        if root.faults_so_far() > 0 {
            return None;
        }
        let plan = FlowPlan {
            steps: read.iter().map(|(step, _)| step.clone()).collect(),
            budget,
            question_seconds: question.unwrap_or(QUESTION_SECONDS),
        };
        let route = match FlowRoute::try_from(plan) {
            Ok(route) => route,
            Err(fault) => {
                check::unplannable(&fault, &read, &tables, root);
                return None;
            }
        };
        let orders: Vec<Option<StepOrder>> = read.into_iter().map(|(_, order)| order).collect();
        let whole = check::Whole {
            route: &route,
            tables: &tables,
            orders: &orders,
            feature_id: feature_id.as_deref(),
            reading,
        };
        whole.check(root);
        Some(Self {
            workflow: workflow.unwrap_or_default(),
            feature_id,
            plan: route.into(),
            agents,
            orders,
            parallel: parallel.unwrap_or(PARALLEL),
        })
    }
}

/// Notes what stands in braces in a path and is not the feature.
fn check_braces(value: &Value<'_>, path: &str) {
    if path.replace(FEATURE, "").contains(['{', '}']) {
        value.fault(format!("only `{FEATURE}` can stand in braces"));
    }
}

/// A feature's id becomes a component of paths.
fn feature(value: &Value<'_>) -> Option<String> {
    let id = value.any_string()?;
    match check_feature(id) {
        Ok(()) => Some(id.to_owned()),
        Err(fault) => value.refuse(fault.to_string()),
    }
}

fn read_budget(table: &Table<'_>) -> FlowBudget {
    table.only(&["calls", "time_seconds"]);
    FlowBudget {
        calls: table.integer("calls", 1..=1_000_000),
        time_seconds: table.integer("time_seconds", SECONDS),
    }
}
