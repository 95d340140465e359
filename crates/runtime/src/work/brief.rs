//! What an agent is told of its work item: an input envelope.

use std::collections::BTreeMap;

use countersign_format::envelope::{InputContext, InputEnvelope, InputPath, InputTask};
use countersign_format::exit::WorkPhase;
use countersign_protocol::work::{Lease, WorkState};
use serde_json::{Map, Value, json};

/// The envelope for the holder of `lease`.
pub(super) fn envelope(item: &str, state: &WorkState, lease: &Lease) -> InputEnvelope {
    let params = json!({
        "item": item,
        "label": state.label,
        "title": state.title,
        "phase": lease.phase,
        "attempt": state.attempts,
        "pr_url": state.pr_url(),
        "commit": latest(state, |handed| handed.commit.clone()),
        "lease": {
            "epoch": lease.epoch,
            "session_id": lease.session_id,
            "expires_at": lease.expires_at,
        },
        "exit_signal": {
            "protocol": "apm2_agent_exit",
            "version": "1.0.0",
            "phase_completed": lease.phase,
        },
    });
    let params = match params {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    InputEnvelope {
        context: InputContext {
            feature_id: Some(item.to_owned()),
            workflow: "work".to_owned(),
            iteration: state.attempts.max(1),
            extra: Map::new(),
        },
        paths: paths(state),
        task: InputTask { action: verb(lease.phase).to_owned(), params, extra: Map::new() },
        prior_context: Some(notes(state)),
        extra: Map::new(),
    }
}

/// What an agent is to do in a phase.
const fn verb(phase: WorkPhase) -> &'static str {
    match phase {
        WorkPhase::Draft => "draft",
        WorkPhase::Implementation => "implement",
        WorkPhase::CiPending => "run_ci",
        WorkPhase::ReadyForReview => "prepare_review",
        WorkPhase::Review => "review",
        WorkPhase::ReadyForMerge => "merge",
        WorkPhase::Completed | WorkPhase::Blocked => "none",
    }
}

fn latest<T>(
    state: &WorkState,
    of: impl Fn(&countersign_protocol::work::Handover) -> Option<T>,
) -> Option<T> {
    WorkPhase::ALL.iter().rev().find_map(|phase| of(state.handed.get(phase)?))
}

/// Where the evidence of earlier phases lies.
fn paths(state: &WorkState) -> BTreeMap<String, InputPath> {
    let evidence = state.handed.iter().filter_map(|(phase, handed)| {
        let path = handed.evidence_bundle_ref.clone()?;
        Some((format!("evidence_{}", phase.as_str().to_lowercase()), InputPath::One(path)))
    });
    evidence.collect()
}

/// What earlier phases say, each with the phase before it. Nobody acts on it but the agent.
fn notes(state: &WorkState) -> Vec<String> {
    let said = state.handed.iter().filter_map(|(phase, handed)| {
        let notes = handed.notes.as_deref()?;
        Some(format!("{phase} ({}, {}): {notes}", handed.holder, handed.exit_reason))
    });
    said.collect()
}
