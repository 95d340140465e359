//! `countersign flow check`.

use std::path::PathBuf;

use countersign_format::text::escape;
use countersign_protocol::flow::{FlowRoute, StepBy};
use countersign_runtime::flow::FlowFile;
use serde::Serialize;

use crate::{Caller, CommandError, Exit, Format};

/// Find everything that is wrong with a flow before it runs
#[derive(Debug, clap::Args)]
pub(crate) struct CheckFlowArgs {
    /// The flow, a TOML file; `-` for standard input
    file: PathBuf,
    /// The feature, in place of the file's `feature_id`
    #[arg(long, value_name = "ID", value_parser = super::feature)]
    feature: Option<String>,
}

pub(crate) fn run(args: &CheckFlowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let root = super::root_for_checks(caller)?;
    let flow = super::read(&args.file, args.feature.as_deref(), &root)?;
    super::warn_of_missing_programs(&flow.file, &root, caller);
    let summary = FlowSummary::of(&flow.file);
    match caller.output.format() {
        Format::Json => caller.output.json(&summary)?,
        Format::Text => {
            caller.output.block(summary.text())?;
            caller.output.success("nothing is wrong with it");
        }
    }
    Ok(Exit::Done)
}

/// What is said of a valid flow.
#[derive(Debug, Serialize)]
pub(crate) struct FlowSummary {
    workflow: String,
    feature_id: Option<String>,
    steps: Vec<StepLine>,
    parallel: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_seconds: Option<u64>,
}

#[derive(Debug, Serialize)]
struct StepLine {
    id: String,
    by: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    writes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leads_back_to: Option<String>,
    /// How often the loop goes round at most, and for which step.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<(u64, String)>,
    max_iterations: u64,
}

impl FlowSummary {
    pub(crate) fn of(flow: &FlowFile) -> Self {
        let route = FlowRoute::try_from(flow.plan.clone()).unwrap_or_default();
        let steps = flow.plan.steps.iter().zip(&flow.orders).map(|(step, order)| {
            let (by, writes) = match (&step.by, order) {
                (StepBy::Agent(agent), Some(order)) => {
                    let kind = flow.agents.get(&order.agent).map(|agent| agent.kind.as_str());
                    let kind = kind.unwrap_or_default();
                    let by = format!("{} ({kind}): {}", order.agent, order.action);
                    (by, agent.writes.iter().map(ToString::to_string).collect())
                }
                (StepBy::Agent(_), None) => (String::new(), Vec::new()),
                (StepBy::Approval(approval), _) => {
                    (format!("a person: {}", approval.question), Vec::new())
                }
            };
            StepLine {
                id: step.id.clone(),
                by,
                needs: step.needs.clone(),
                writes,
                leads_back_to: step.way_back().map(str::to_owned),
                bound: step
                    .way_back()
                    .and_then(|to| route.bound_of_loop(route.place(to)?))
                    .map(|(id, bound)| (bound, id.to_owned())),
                max_iterations: step.max_iterations,
            }
        });
        Self {
            workflow: flow.workflow.clone(),
            feature_id: flow.feature_id.clone(),
            steps: steps.collect(),
            parallel: flow.parallel,
            calls: flow.plan.budget.calls,
            time_seconds: flow.plan.budget.time_seconds,
        }
    }

    /// A line for the flow, and one for each step. Nothing in the file can begin another line.
    pub(crate) fn text(&self) -> String {
        let feature = self.feature_id.as_deref().unwrap_or("given by its first step");
        let mut text = format!("flow {}, feature {}\n", escape(&self.workflow), escape(feature));
        for step in &self.steps {
            for line in step.lines() {
                text.push_str(&format!("{}\n", escape(&line)));
            }
        }
        text
    }
}

impl StepLine {
    /// What the step is, and below it what it may do.
    fn lines(&self) -> Vec<String> {
        let after = match self.needs.as_slice() {
            [] => String::new(),
            needs => format!(", after {}", needs.join(" and ")),
        };
        let mut lines = vec![format!("step {}{after}: {}", self.id, self.by)];
        if !self.writes.is_empty() {
            lines.push(format!("     may write {}", self.writes.join(", ")));
        }
        if let Some(back) = &self.leads_back_to {
            let own = (self.max_iterations, self.id.clone());
            let (bound, of) = self.bound.as_ref().unwrap_or(&own);
            let runs = format!("{bound} runs at most (bound of {of})");
            lines.push(format!("     may lead back to {back}, {runs}"));
        }
        lines
    }
}
