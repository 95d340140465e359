//! A flow as a picture: its steps and ways, and how they stand in a run of it.

use countersign_protocol::flow::{FlowPlan, FlowState, FlowStep, StepBy, StepCondition, StepPhase};

use super::file::{FlowAgentKind, FlowFile};
use super::graph::{EdgeKind, FlowGraph, GraphEdge, GraphNode, NodeMark, NodeShape};

/// The picture of a flow, or of a run of it.
#[must_use]
pub fn picture(file: &FlowFile, run: Option<&FlowState>) -> FlowGraph {
    let nodes = file.plan.steps.iter().enumerate().map(|(at, step)| node(file, at, step, run));
    let feature = run.map_or(&file.feature_id, |run| &run.feature_id);
    let title = match feature {
        Some(feature) => format!("{} {feature}", file.workflow),
        None => file.workflow.clone(),
    };
    FlowGraph { title, nodes: nodes.collect(), edges: edges(&file.plan) }
}

fn node(file: &FlowFile, at: usize, step: &FlowStep, run: Option<&FlowState>) -> GraphNode {
    let order = file.orders.get(at).and_then(Option::as_ref);
    let kind = order.and_then(|order| file.agents.get(&order.agent)).map(|agent| agent.kind);
    let (shape, label) = match (&step.by, order) {
        (StepBy::Approval(approval), _) => (NodeShape::Approval, approval.question.clone()),
        (_, Some(order)) => {
            let shape = match kind {
                Some(FlowAgentKind::Session) => NodeShape::Session,
                Some(FlowAgentKind::BuiltIn) => NodeShape::BuiltIn,
                _ => NodeShape::Agent,
            };
            (shape, format!("{}: {}", order.agent, order.action))
        }
        _ => (NodeShape::Agent, String::new()),
    };
    let stands = run.and_then(|run| run.steps.get(at));
    let mark = stands.map_or(NodeMark::Plain, |stands| match stands.phase {
        StepPhase::Waiting { .. } => NodeMark::Waiting,
        StepPhase::Running { .. } | StepPhase::Applying { .. } | StepPhase::Returning { .. } => {
            NodeMark::Running
        }
        StepPhase::Stuck { .. } | StepPhase::Asked(_) => NodeMark::Asked,
        StepPhase::Done => NodeMark::Done,
        StepPhase::Skipped => NodeMark::Skipped,
        StepPhase::Failed { .. } => NodeMark::Failed,
        StepPhase::Exhausted { .. } => NodeMark::Exhausted,
    });
    let detail = stands
        .filter(|stands| stands.iteration > 1)
        .map(|stands| format!("iteration {} of {}", stands.iteration, step.max_iterations));
    GraphNode { id: step.id.clone(), label, shape, mark, detail }
}

fn edges(plan: &FlowPlan) -> Vec<GraphEdge> {
    let place = |id: &str| plan.steps.iter().position(|step| step.id == id);
    let places: std::collections::BTreeMap<&str, usize> =
        plan.steps.iter().enumerate().map(|(at, step)| (step.id.as_str(), at)).collect();
    let mut edges = Vec::new();
    for (to, step) in plan.steps.iter().enumerate() {
        let condition = step.when.as_ref().map(words);
        for need in &step.needs {
            let Some(&from) = places.get(need.as_str()) else { continue };
            edges.push(GraphEdge { from, to, kind: EdgeKind::Needs, label: condition.clone() });
        }
        let Some(back) = step.way_back().and_then(place) else { continue };
        let (kind, label) = match step.by {
            StepBy::Agent(_) => (EdgeKind::Retry, "retry"),
            StepBy::Approval(_) => (EdgeKind::Refused, "no"),
        };
        edges.push(GraphEdge { from: to, to: back, kind, label: Some(label.to_owned()) });
    }
    edges
}

/// A condition in a few words.
fn words(condition: &StepCondition) -> String {
    match condition {
        StepCondition::All(parts) => joined(parts, " and "),
        StepCondition::Any(parts) => joined(parts, " or "),
        StepCondition::Not(part) => format!("not ({})", words(part)),
        StepCondition::Step(asked) => {
            let mut said = Vec::new();
            said.extend(
                asked.success.map(|yes| if yes { "succeeded" } else { "failed" }.to_owned()),
            );
            said.extend(asked.recommendation.map(|it| format!("says {}", it.as_str())));
            said.extend(
                asked.skipped.map(|yes| if yes { "skipped" } else { "not skipped" }.to_owned()),
            );
            said.extend(asked.answer.as_ref().map(|answer| format!("answered {answer}")));
            format!("{} {}", asked.id, said.join(" and "))
        }
        StepCondition::File(asked) => {
            let mut said = Vec::new();
            let pointer = asked.pointer.as_ref().map(|it| format!(" {it}")).unwrap_or_default();
            said.extend(
                asked.exists.map(|yes| if yes { " exists" } else { " is missing" }.to_owned()),
            );
            said.extend(asked.equals.as_ref().map(|value| format!("{pointer} = {value}")));
            said.extend(asked.at_least.map(|value| format!("{pointer} ≥ {value}")));
            said.extend(asked.at_most.map(|value| format!("{pointer} ≤ {value}")));
            format!("{}{}", asked.path.rsplit('/').next().unwrap_or_default(), said.join(" and "))
        }
    }
}

fn joined(parts: &[StepCondition], between: &str) -> String {
    parts.iter().map(words).collect::<Vec<_>>().join(between)
}
