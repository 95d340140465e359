//! Flows: the runs, one of them step by step, and its picture.

use axum::response::Response;
use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_protocol::flow::FlowState;
use countersign_runtime::flow::{EdgeKind, FlowFile, FlowGraph, NodeMark, NodeShape, picture};
use countersign_runtime::index::TraceQuery;
use serde_json::{Value, json};

use super::answer::{ApiFailure, json as answer, typed};
use super::asked::Asked;
use super::desk::Desk;
use super::traces::{TraceBrief, page, row};
use crate::causes::whole;

/// Runs of one page.
const PAGE_MAX: u64 = 500;

pub(super) fn list(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let (offset, limit) = asked.page(PAGE_MAX)?;
    let kinds = vec![TraceKind::Flow];
    page(desk, &TraceQuery { kinds, offset, limit, ..TraceQuery::default() })
}

/// A run, and the flow file that it has stored.
fn run(desk: &Desk, id: Ulid) -> Result<(FlowState, FlowFile), ApiFailure> {
    if row(desk, id)?.kind != Some(TraceKind::Flow) {
        return Err(ApiFailure::missing(format!("trace {id} is no flow")));
    }
    let unusable = |error: &(dyn std::error::Error + 'static)| {
        ApiFailure::unusable(format!("the flow cannot be read: {}", whole(error)))
    };
    let flow = desk.workspace.flow(id).map_err(|error| unusable(&error))?;
    let state = flow.look(Clone::clone).map_err(|error| unusable(&error))?;
    let file = flow.file().map_err(|error| unusable(&error))?;
    Ok((state, file))
}

pub(super) fn one(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let id = asked.id()?;
    let (state, file) = run(desk, id)?;
    let graph = picture(&file, Some(&state));
    let trace = TraceBrief::of(&row(desk, id)?, desk);
    Ok(answer(&json!({
        "trace": trace,
        "workflow": state.workflow,
        "feature_id": state.feature_id,
        "outcome": state.outcome.map(|outcome| outcome.as_str()),
        "why": state.outcome.map(|_| state.why()),
        "steps": steps(&state, &file, &graph),
        "edges": edges(&graph),
    })))
}

fn steps(state: &FlowState, file: &FlowFile, graph: &FlowGraph) -> Vec<Value> {
    let nodes = graph.nodes.iter().zip(&file.plan.steps).enumerate();
    nodes
        .map(|(at, (node, step))| {
            let stands = state.steps.get(at);
            json!({
                "id": node.id,
                "label": node.label,
                "shape": shape(node.shape),
                "mark": mark(node.mark),
                "detail": node.detail,
                "iteration": stands.map_or(0, |stands| stands.iteration),
                "max_iterations": step.max_iterations,
                "needs": step.needs,
                "phase": stands.map_or("waiting", |stands| stands.phase.as_str()),
            })
        })
        .collect()
}

fn edges(graph: &FlowGraph) -> Vec<Value> {
    let name = |at: usize| graph.nodes.get(at).map(|node| node.id.as_str());
    let edges = graph.edges.iter().filter_map(|edge| {
        let kind = match edge.kind {
            EdgeKind::Needs => "needs",
            EdgeKind::Retry => "retry",
            EdgeKind::Refused => "refused",
        };
        let (from, to) = (name(edge.from)?, name(edge.to)?);
        Some(json!({ "from": from, "to": to, "kind": kind, "label": edge.label }))
    });
    edges.collect()
}

const fn shape(shape: NodeShape) -> &'static str {
    match shape {
        NodeShape::Agent => "agent",
        NodeShape::Session => "session",
        NodeShape::Approval => "approval",
        NodeShape::BuiltIn => "built-in",
    }
}

const fn mark(mark: NodeMark) -> &'static str {
    match mark {
        NodeMark::Plain => "plain",
        NodeMark::Waiting => "waiting",
        NodeMark::Running => "running",
        NodeMark::Asked => "asked",
        NodeMark::Done => "done",
        NodeMark::Skipped => "skipped",
        NodeMark::Failed => "failed",
        NodeMark::Exhausted => "exhausted",
    }
}

pub(super) fn graph(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let (state, file) = run(desk, asked.id()?)?;
    Ok(typed(picture(&file, Some(&state)).svg(), "image/svg+xml"))
}
