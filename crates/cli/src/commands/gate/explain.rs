//! `countersign gate explain`.

use countersign_runtime::gate::{RecordedDecision, Replay, replay};
use serde_json::json;

use super::evidence::Evidence;
use crate::{Caller, CommandError, Exit, Format};

/// Why a recorded action was decided so, and whether it would be decided so again
///
/// Reads the request, the policy and the model that the decision names, decides again, and compares
/// the decision and every reason; and the request with the intent, and the review with the decision.
/// Exits with 0 if they are the same and with 3 if something differs. A sealed file is verified first,
/// and 3 is the answer if it does not hold. A trace is not: `countersign verify` says whether it can be
/// relied on.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// The trace's id or the beginning of it, its directory, an `events.jsonl` or a `.cap`
    target: String,
    /// The review, the intent that it is about, or the gate token: a number or an id. Without it, all
    event: Option<String>,
}

pub(super) fn run(args: &ExplainArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let mut evidence = Evidence::find(&args.target, caller)?;
    let failures = evidence.failures()?;
    let chosen = choose(evidence.decisions()?, args)?;
    evidence.hold(&chosen)?;
    let mut same = failures.is_empty();
    if let (Format::Text, false) = (caller.output.format(), same) {
        caller.output.line(format_args!("`{}` does not verify", args.target))?;
        for failure in &failures {
            caller.output.line(format_args!("  {failure}"))?;
        }
    }
    let mut answers = Vec::new();
    for decision in chosen {
        let replayed = replay(decision, |hash, max| evidence.artifact(hash, max))
            .map_err(|error| CommandError::failed_doing("cannot read an artifact", error))?;
        same &= replayed.deviations.is_empty();
        match caller.output.format() {
            Format::Json => answers.push(as_json(&replayed)),
            Format::Text => as_text(&replayed, caller)?,
        }
    }
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({
            "same": same, "decisions": answers, "failures": failures,
        }))?;
    }
    Ok(if same { Exit::Done } else { Exit::No })
}

/// The decisions that are asked about.
fn choose(
    decisions: Vec<RecordedDecision>,
    args: &ExplainArgs,
) -> Result<Vec<RecordedDecision>, CommandError> {
    if decisions.is_empty() {
        let error = format!("the gate decided nothing in `{}`", args.target);
        return Err(CommandError::failed(error));
    }
    let Some(event) = &args.event else { return Ok(decisions) };
    let number: Option<u64> = event.parse().ok();
    let is_meant = |decision: &RecordedDecision| match number {
        Some(number) => decision.seq == number || decision.intent == Some(number),
        None => {
            let id = event.to_lowercase();
            decision.event_id.starts_with(&id) || decision.intent_id.starts_with(&id)
        }
    };
    let places: Vec<String> = decisions.iter().map(|it| it.seq.to_string()).take(20).collect();
    let chosen: Vec<RecordedDecision> = decisions.into_iter().filter(is_meant).collect();
    if chosen.is_empty() {
        return Err(CommandError::failed(format!("event `{event}` is no decision of the gate"))
            .with_hint(format!("decisions stand at: {}", places.join(", "))));
    }
    Ok(chosen)
}

fn as_json(replayed: &Replay) -> serde_json::Value {
    let now = replayed.opinion.as_ref().map(|opinion| {
        let reasons: Vec<String> =
            opinion.verdict.reasons().iter().map(ToString::to_string).collect();
        json!({ "decision": opinion.verdict.decision(), "reasons": reasons, "cell": opinion.cell,
            "label": opinion.label, "score": opinion.score() })
    });
    let deviations: Vec<String> = replayed.deviations.iter().map(ToString::to_string).collect();
    json!({
        "recorded": replayed.recorded, "request": replayed.request, "now": now,
        "same": replayed.deviations.is_empty(), "deviations": deviations,
    })
}

fn as_text(replayed: &Replay, caller: &mut Caller) -> Result<(), CommandError> {
    let output = &mut caller.output;
    let recorded = &replayed.recorded;
    let enforced = if recorded.enforced { "enforced" } else { "not enforced" };
    output.line(format_args!("event {}: {} ({enforced})", recorded.seq, recorded.decision))?;
    if let Some(request) = &replayed.request {
        let what = match (&request.command, request.paths.is_empty()) {
            (Some(command), _) => command.clone(),
            (None, false) => request.paths.join(" "),
            (None, true) => request.tool.clone(),
        };
        let (agent, kind) = (&request.agent, request.action_type.as_str());
        output.line(format_args!("  {agent} asked for {kind}: {what}"))?;
    }
    for reason in &recorded.reasons {
        output.line(format_args!("  {reason}"))?;
    }
    if replayed.deviations.is_empty() {
        output.line("  decided again: the same, for the same reasons")?;
    } else {
        output.line("  decided again: not the same")?;
    }
    for deviation in &replayed.deviations {
        output.line(format_args!("    {deviation}"))?;
    }
    Ok(())
}
