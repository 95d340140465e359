//! A flow that does a phase of a work item: which flow that is, and the exit signal at its end.

use std::fs::File;
use std::io::{Read as _, Write as _, stdin};

use countersign_format::envelope::{ENVELOPE_BYTES_MAX, InputEnvelope};
use countersign_format::event::TraceKind;
use countersign_format::exit::{ExitReason, ExitSignal, WorkPhase};
use countersign_format::id::Ulid;
use countersign_protocol::flow::FlowOutcome;
use countersign_protocol::kind_of;
use countersign_runtime::Workspace;
use countersign_runtime::flow::FlowEnd;
use countersign_runtime::inspect::first_event;
use serde_json::{Value, json};

use crate::{Caller, CommandError, Exit};

/// Characters of a summary that the signal repeats.
const NOTES_CHARACTERS_MAX: usize = 500;

/// The phase for which a flow is run.
#[derive(Debug)]
pub(super) struct ForWork {
    item: String,
    phase: WorkPhase,
    descriptor: String,
    nonce: String,
}

impl ForWork {
    /// From what the runner of the phase gives its agents.
    pub(super) fn from_environment() -> Result<Self, CommandError> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| {
                CommandError::usage(format!("`{name}` is not set: no work item is being worked on"))
                    .with_hint("name the flow in `countersign.toml`, and run `work dispatch`")
            })
        };
        let mut envelope = Vec::new();
        let max = u64::try_from(ENVELOPE_BYTES_MAX).unwrap_or(u64::MAX);
        let read = stdin().lock().take(max).read_to_end(&mut envelope);
        read.map_err(|error| CommandError::failed_doing("cannot read the envelope", error))?;
        let envelope = InputEnvelope::from_bytes(&envelope)
            .map_err(|error| CommandError::failed_doing("cannot read the envelope", error))?;
        let phase = envelope.task.params.get("phase").and_then(Value::as_str);
        let phase = phase.and_then(|phase| phase.parse().ok());
        Ok(Self {
            item: variable("COUNTERSIGN_WORK_ITEM")?,
            phase: phase.ok_or_else(|| CommandError::failed("the envelope names no phase"))?,
            descriptor: variable("COUNTERSIGN_EXIT_FD")?,
            nonce: variable("COUNTERSIGN_EXIT_NONCE")?,
        })
    }

    /// What the flow's trace says of the item.
    pub(super) fn links(&self) -> Option<Value> {
        Some(json!({ "work": { "trace_id": self.item, "phase": self.phase } }))
    }

    /// The flow that an earlier attempt at the phase began since the item came to it.
    pub(super) fn flow_begun(&self, workspace: &Workspace) -> Option<Ulid> {
        let item = workspace.work(self.item.parse().ok()?).ok()?;
        let since = item.look(|state| state.phase_since).ok()?;
        let links = self.links();
        let ids = workspace.trace_ids().ok()?;
        ids.into_iter().rev().find(|id| {
            let first = first_event(&workspace.trace_file(*id)).ok().flatten();
            first.is_some_and(|first| {
                first.payload.get("links") == links.as_ref()
                    && kind_of(&first) == Some(TraceKind::Flow)
                    && first.created_at >= since
            })
        })
    }

    /// How that flow ended, if it has and nobody could say so.
    pub(super) fn flow_ended(&self, workspace: &Workspace, flow: Ulid) -> Option<FlowEnd> {
        let (outcome, summary) =
            workspace.flow(flow).ok()?.look(|state| (state.outcome, state.summary.clone())).ok()?;
        outcome.map(|outcome| FlowEnd { outcome: Some(outcome), summary, log_lag: None })
    }
}

/// Says how the phase ended. A flow that was stopped says nothing: the next attempt goes on with it.
pub(super) fn send(
    work: &ForWork,
    end: &FlowEnd,
    caller: &mut Caller,
) -> Result<Exit, CommandError> {
    let reason = match end.outcome {
        None => return Ok(Exit::No),
        Some(FlowOutcome::Completed) => ExitReason::Completed,
        Some(FlowOutcome::Exhausted) => ExitReason::Blocked,
        Some(FlowOutcome::Failed | FlowOutcome::Aborted) => ExitReason::Error,
    };
    let notes: String = end.summary.chars().take(NOTES_CHARACTERS_MAX).collect();
    let signal = ExitSignal::new(work.phase, reason).with_notes(notes);
    let signal = serde_json::to_string(&signal).unwrap_or_default();
    let place = format!("/dev/fd/{}", work.descriptor);
    let sent = File::options()
        .write(true)
        .open(&place)
        .and_then(|mut file| writeln!(file, "{} {signal}", work.nonce));
    sent.map_err(|error| CommandError::failed_doing("cannot send the exit signal", error))?;
    caller.output.note(format_args!("signalled {} {reason}", work.phase));
    Ok(Exit::Done)
}
