//! Verdicts that wait to be used: how an action that was done finds the one it was done under.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventRef};
use countersign_format::hash::Hash;
use countersign_format::receipt::GateDecision;
use countersign_format::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AskedInput, RecordedAction};
use crate::parts::optional;
use crate::receipts::{Gating, IntendedAction};
use crate::{Refusal, ReviewDecision};

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
    /// The stored request by which the gate decided.
    pub request: Option<Hash>,
    /// What the agent's side calls the call.
    pub call_id: Option<String>,
    /// Whether a person spoke last.
    pub by_person: bool,
    /// Who runs under a person's yes. It is given out once.
    pub taken: Option<Taker>,
    /// Binds the request as it was before secrets were taken out of it.
    pub binding: Option<Hash>,
    /// With what it was asked for.
    pub input: Option<Hash>,
    /// What the intent was stored with, until it was judged.
    pub inputs: Vec<Hash>,
}

/// Whoever was told a person's yes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taker {
    /// What the agent's side calls the call, where it has a name.
    pub call_id: Option<String>,
}

impl OpenIntent {
    /// An intent that nobody has judged.
    pub(super) fn new(event: &Event, action: IntendedAction) -> Self {
        let input = optional(event, "normalized_input_hash").ok().flatten();
        Self {
            event_id: event.event_id.clone(),
            action,
            decision: None,
            token: None,
            verdict: None,
            expires_at: None,
            deadline: None,
            request: None,
            call_id: optional(event, "call_id").ok().flatten(),
            by_person: false,
            taken: None,
            binding: optional(event, "input_binding").ok().flatten(),
            input,
            inputs: {
                let stored = event.artifacts.iter().map(|artifact| artifact.artifact_hash);
                stored.chain(input).collect()
            },
        }
    }

    /// Whether it was asked for with this.
    #[must_use]
    pub fn is_of(&self, asked: &AskedInput) -> bool {
        self.input == Some(asked.input) && self.binding == asked.binding
    }

    /// Whether somebody else than this call was told the yes that a person gave. Calls without a name
    /// cannot be told apart.
    #[must_use]
    pub fn is_taken_from(&self, call_id: Option<&str>) -> bool {
        let taker = self.taken.as_ref().filter(|_| self.decision == Some(ReviewDecision::Approved));
        taker.is_some_and(|taker| call_id.is_none() || taker.call_id.as_deref() != call_id)
    }

    /// Whether it is too late to use its verdict at `now`. What was done under a verdict of its own
    /// name may have taken as long as it liked.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.call_id.is_none() && self.expires_at.is_some_and(|end| now >= end)
    }
}

/// Whether a review says what its gate said, of what the intent is about.
pub(super) fn admit_gate(event: &Event, seq: u64, intent: &OpenIntent) -> Result<(), Refusal> {
    let Some(gate) = event.payload.get("gate") else { return Ok(()) };
    let said = gate.get("decision").and_then(Value::as_str).unwrap_or_default();
    let enforced = gate.get("enforced").and_then(Value::as_bool).unwrap_or(true);
    let review = event.payload.get("decision").and_then(Value::as_str).unwrap_or_default();
    let follows = match (said, enforced) {
        (_, false) | ("allow", true) => "approved",
        ("ask", true) => "asked",
        _ => "blocked",
    };
    if review != follows {
        let (review, gate) = (review.to_owned(), said.to_owned());
        return Err(Refusal::ReviewNotOfGate { intent: seq, review, gate });
    }
    let request = gate.get("request").and_then(Value::as_str).unwrap_or_default();
    match intent.inputs.iter().any(|input| input.to_hex() == request) {
        true => Ok(()),
        false => Err(Refusal::RequestOfAnother { intent: seq, request: request.to_owned() }),
    }
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

/// What is wrong where a call did something else than it was asked about.
const DONE_OTHERWISE: &str = "the verdict of this call is for something else than what was done";

/// Finds the verdict under which `done` was done at `now`.
pub(super) fn tie(
    intents: &BTreeMap<u64, OpenIntent>,
    done: &RecordedAction,
    now: Timestamp,
) -> Tie {
    let fits = |intent: &OpenIntent| {
        intent.action.action_type == done.action_type.as_str()
            && same_paths(&intent.action.paths, &done.paths)
            && same_tool(&intent.action, &done.tool_name)
            && done.asked.as_ref().is_none_or(|asked| intent.is_of(asked))
    };
    let lives = |intent: &OpenIntent| intent.expires_at.is_none_or(|end| now < end);
    // The same call by the same name: what it did may have taken as long as it likes.
    if let Some(call) = &done.call_id {
        let of_call = |it: &OpenIntent| it.token.is_some() && it.call_id.as_ref() == Some(call);
        if let Some((&seq, _)) = intents.iter().find(|(_, it)| of_call(it) && fits(it)) {
            return Tie { intent: Some(seq), gating: Gating::Token, fault: None };
        }
        // A person agreed to the same thing when it was asked for under another name.
        let agreed = intents.iter().find(|(_, intent)| {
            intent.token.is_some() && approved_by_person(intent) && lives(intent) && fits(intent)
        });
        let gating = if agreed.is_some() { Gating::Inferred } else { Gating::Ungated };
        let otherwise = agreed.is_none() && intents.values().any(of_call);
        let fault = otherwise.then_some(DONE_OTHERWISE);
        return Tie { intent: agreed.map(|(&seq, _)| seq), gating, fault };
    }
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
            Some("the verdict is for an action of another type, with another tool or other files")
        }
        Some(_) => None,
    };
    match (fault, named) {
        (None, Some((&seq, _))) => Tie { intent: Some(seq), gating: Gating::Token, fault: None },
        _ => Tie { intent: None, gating: Gating::Ungated, fault },
    }
}

/// Whether a tool is the one that was asked for. Who asked without naming one named the type.
fn same_tool(asked: &IntendedAction, done: &str) -> bool {
    asked.tool_name == done || asked.tool_name == asked.action_type
}

fn approved_by_person(intent: &OpenIntent) -> bool {
    let standing = intent.action.standing.as_ref();
    standing.is_some_and(|it| it.decision == GateDecision::HumanApproved.as_str())
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
