//! `countersign gate stats`.

use countersign_gate::risk::Outcomes;
use countersign_gate::{Cell, Estimate, RiskModel};
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// What the risk model knows: how often changes of a kind failed
#[derive(Debug, clap::Args)]
pub(super) struct StatsArgs {}

pub(super) fn run(_args: &StatsArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let loaded = caller.workspace()?.gate().map_err(explain)?;
    let model = loaded.gate.model().map_err(|fault| {
        CommandError::failed("the risk model cannot be used; until then the gate asks")
            .with_details([fault.to_string()])
    })?;
    let nothing = RiskModel::default();
    let model_loaded = model.is_some();
    let model = model.unwrap_or(&nothing);
    match caller.output.format() {
        Format::Json => caller.output.json(&as_json(model, model_loaded))?,
        Format::Text => as_text(model, caller)?,
    }
    Ok(Exit::Done)
}

fn as_json(model: &RiskModel, model_loaded: bool) -> serde_json::Value {
    let cell = |(cell, outcomes): (Cell, Outcomes)| {
        let estimate = Estimate::of(outcomes);
        json!({
            "cell": cell, "levels": cell.levels(), "means": cell.in_words(),
            "failed": outcomes.failed, "succeeded": outcomes.succeeded, "q": estimate.q,
            "uncertainty": estimate.uncertainty, "confidence": estimate.confidence,
            "decision": estimate.decision(),
        })
    };
    let histories = model.histories().iter().map(|(root, history)| {
        json!({ "root": root, "head": history.head, "commits": history.commits,
            "outcomes": history.cells.total() })
    });
    json!({
        "model_loaded": model_loaded,
        "cells": model.cells().map(cell).collect::<Vec<_>>(),
        "seen": model.seen().total(),
        "reported": model.reported().total(),
        "traces": model.trace_count(),
        "histories": histories.collect::<Vec<_>>(),
    })
}

fn as_text(model: &RiskModel, caller: &mut Caller) -> Result<(), CommandError> {
    let output = &mut caller.output;
    let (seen, reported) = (model.seen().total(), model.reported().total());
    let commits: u64 = model.histories().values().map(|history| history.commits).sum();
    output.line(format_args!(
        "{} outcomes that the recorder saw, {} that agents reported, {commits} commits",
        seen.total(),
        reported.total()
    ))?;
    for (cell, outcomes) in model.cells() {
        let estimate = Estimate::of(outcomes);
        output.line(format_args!(
            "cell {cell:<4}  {:>5} of {:<5} failed  q {:.3}  confidence {:.2}  {:<5}  {}",
            outcomes.failed,
            estimate.observations,
            estimate.q,
            estimate.confidence,
            estimate.decision().to_string(),
            cell.in_words()
        ))?;
    }
    if model.cells().next().is_none() {
        output.hint("`countersign gate learn --git` learns from the history of this repository");
    }
    Ok(())
}
