//! Agents: run with a battery of envelopes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use countersign_runtime::flow::{AgentTrial, TrialResult};
use countersign_runtime::tools::Stop;
use serde_json::{Map, Value, json};

use super::CheckArgs;
use crate::commands::run::watch_signals;
use crate::{Caller, CommandError, Exit, Format};

/// Seconds that an answer may take where nothing is said.
const SECONDS: u64 = 30;
/// What an agent is asked to do where nothing is said.
const ACTION: &str = "check";

/// Tries the agent, and says where it leaves the protocol.
pub(super) fn run(args: &CheckArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    if args.command.is_empty() || args.file.is_some() {
        return Err(CommandError::usage("an agent is a program, not a document")
            .with_hint("write `countersign check agent -- CMD…`"));
    }
    let environment: Vec<_> = std::env::vars_os().collect();
    let helper = std::env::current_exe()
        .map_err(|error| CommandError::failed_doing("cannot find this program", error))?;
    let root = std::env::current_dir()
        .map_err(|error| CommandError::failed_doing("cannot use this directory", error))?;
    let trial = AgentTrial {
        command: args.command.clone(),
        action: args.action.as_deref().unwrap_or(ACTION),
        params: params(args)?,
        paths: args.path.iter().map(|(name, path)| (name.clone(), json!(path))).collect(),
        hidden: caller.config().ok().into_iter().chain(caller.home().ok()).collect(),
        root: &root,
        seconds: args.seconds.unwrap_or(SECONDS),
        environment: &environment,
        helper: &helper,
    };
    let stop = Stop::default();
    let interrupted = watch_signals()?;
    let (watched, over) = (stop.clone(), std::sync::Arc::clone(&interrupted));
    // Ends with the process.
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        watched.set();
    });
    let text = caller.output.format() == Format::Text;
    let mut shown = Ok(());
    let results = trial.run(&stop, |result| {
        if text && shown.is_ok() {
            shown = show(result, caller);
        }
    });
    shown?;
    let results = results.map_err(CommandError::failed)?;
    let kept = results.iter().filter(|result| result.faults.is_empty()).count();
    let all = kept == results.len() && !interrupted.load(Ordering::Relaxed);
    if text {
        let count = results.len();
        caller.output.note(format_args!("{kept} of {count} answers keep to the protocol"));
    } else {
        caller.output.json(&json!({ "kind": "agent", "valid": all, "trials": results }))?;
    }
    Ok(if all { Exit::Done } else { Exit::No })
}

/// What the agent needs for its action.
fn params(args: &CheckArgs) -> Result<Map<String, Value>, CommandError> {
    let Some(text) = &args.params else { return Ok(Map::new()) };
    match countersign_format::json::read(text.as_bytes()) {
        Ok(Value::Object(params)) => Ok(params),
        Ok(_) => Err(CommandError::usage("`--params` must be a JSON object")),
        Err(error) => Err(CommandError::usage(format!("`--params` is not JSON: {error}"))),
    }
}

fn show(result: &TrialResult, caller: &mut Caller) -> Result<(), CommandError> {
    let mark = if result.faults.is_empty() { "ok" } else { "no" };
    caller.output.line(format_args!("{mark}  {}", result.name))?;
    for fault in &result.faults {
        caller.output.line(format_args!("    {fault}"))?;
    }
    for hint in &result.hints {
        caller.output.line(format_args!("    hint: {hint}"))?;
    }
    caller.output.flush()
}
