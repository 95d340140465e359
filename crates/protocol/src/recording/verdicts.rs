//! Verdicts that wait to be used: how an action that was done finds the one it was done under.

use std::collections::BTreeMap;

use countersign_format::event::EventRef;
use countersign_format::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::RecordedAction;
use crate::ReviewDecision;
use crate::receipts::{Gating, IntendedAction};

/// Intents that are remembered at once. An agent that asks and never acts must not make the state
/// grow: of more than these, the oldest are forgotten, and what is done under them is ungated.
pub(super) const INTENTS_MAX: usize = 1_024;

/// An intent that has not started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenIntent {
    /// Its id.
    pub event_id: String,
    /// What it says of the action.
    pub action: IntendedAction,
    /// The last judgement.
    pub decision: Option<ReviewDecision>,
    /// The id of the gate's verdict, which is its token.
    pub token: Option<String>,
    /// The gate's verdict.
    pub verdict: Option<EventRef>,
    /// From when on the verdict no longer counts.
    pub expires_at: Option<Timestamp>,
    /// Until when a person may answer.
    pub deadline: Option<Timestamp>,
}

/// What an action that was done is tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tie {
    /// The place of the intent.
    pub(super) intent: Option<u64>,
    /// How it was found.
    pub(super) gating: Gating,
    /// What is wrong with the token that was given.
    pub(super) fault: Option<&'static str>,
}

/// Finds the verdict under which `done` was done at `now`.
pub(super) fn tie(
    intents: &BTreeMap<u64, OpenIntent>,
    done: &RecordedAction,
    now: Timestamp,
) -> Tie {
    let fits = |intent: &OpenIntent| {
        intent.action.action_type == done.action_type.as_str()
            && same_paths(&intent.action.paths, &done.paths)
    };
    let lives = |intent: &OpenIntent| intent.expires_at.is_none_or(|end| now < end);
    let Some(token) = &done.token else {
        let found = intents
            .iter()
            .find(|(_, intent)| intent.token.is_some() && lives(intent) && fits(intent));
        let gating = if found.is_some() { Gating::Inferred } else { Gating::Ungated };
        return Tie { intent: found.map(|(&seq, _)| seq), gating, fault: None };
    };
    let named = intents.iter().find(|(_, intent)| intent.token.as_ref() == Some(token));
    let fault = match named {
        None => Some("no open verdict has this token: it is unknown, used or forgotten"),
        Some((_, intent)) if !lives(intent) => Some("the verdict has expired"),
        Some((_, intent)) if !fits(intent) => {
            Some("the verdict is for an action of another type or other files")
        }
        Some(_) => None,
    };
    match (fault, named) {
        (None, Some((&seq, _))) => Tie { intent: Some(seq), gating: Gating::Token, fault: None },
        _ => Tie { intent: None, gating: Gating::Ungated, fault },
    }
}

/// Whether two lists name the same files, in whatever order.
fn same_paths(asked: &[String], done: &[String]) -> bool {
    let sorted = |paths: &[String]| {
        let mut paths: Vec<String> = paths.to_vec();
        paths.sort();
        paths.dedup();
        paths
    };
    sorted(asked) == sorted(done)
}
