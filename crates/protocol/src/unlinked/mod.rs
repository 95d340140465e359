//! Sessions of schema 1.0, whose events need not say what they belong to.
//!
//! Such sessions are only read. An event that names another one belongs to that; any other to the
//! most recent one that still lacks it. The rules are those of the page on sessions among the
//! formats; [`Projection`] shows the links that were found.

mod apply;
mod objections;
mod pairing;
mod projection;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::{Event, EventRef};
use countersign_format::hash::Hash;
use countersign_format::risk::RiskClass;

pub use projection::{Original, Projection};

use crate::Refusal;
use crate::session::ProposalDecision;

/// What the events of a session of schema 1.0 come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnlinkedSession {
    /// Events so far.
    events: u64,
    proposals: BTreeMap<u64, Proposed>,
    /// Proposals by the name that they give themselves.
    proposal_names: BTreeMap<String, u64>,
    /// Proposals that nobody has judged.
    unreviewed: BTreeSet<u64>,
    /// Approved proposals without an intent.
    unused: BTreeSet<u64>,
    last_intent: Option<LastIntent>,
    /// Intents that neither started nor were blocked.
    intents: BTreeMap<u64, Intended>,
    /// Executions under way, by the place of their start.
    running: BTreeMap<u64, Started>,
    /// Executions that have ended, by the place of their start.
    ended: BTreeMap<u64, Ended>,
    /// Those on which no claim rests.
    unclaimed: BTreeSet<u64>,
    /// Executions of which nothing is known to be stored.
    bare: BTreeSet<u64>,
    /// Outputs that were named and not yet described, and whose they are.
    undescribed: BTreeMap<Hash, u64>,
    artifacts: BTreeSet<Hash>,
    last_artifact_at: Option<u64>,
    claims: BTreeMap<String, Claimed>,
    /// Where the events stand that others may name; ends of executions stand for their starts.
    places: BTreeMap<String, u64>,
    concluded: bool,
    /// Whether something after the final statement was told already.
    told_late: bool,
    /// The audit under way.
    run: Option<EventRef>,
    over: bool,
    /// Claims of the final statement that were challenged, and nothing new was listed since.
    disputed: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Proposed {
    event_id: String,
    decision: Option<ProposalDecision>,
    conditions: BTreeSet<String>,
}

impl Proposed {
    fn unmet<'p>(&'p self, acknowledged: &BTreeSet<String>) -> Option<&'p String> {
        self.conditions.iter().find(|condition| !acknowledged.contains(*condition))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastIntent {
    at: u64,
    proposal: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Intended {
    event_id: String,
    proposal: Option<u64>,
    tool: Option<String>,
    input: Option<Hash>,
    risk: RiskClass,
    approved: bool,
    reviewed: bool,
    /// Whether its input, or anything else, is stored.
    stored: bool,
    /// Whether it was refused itself; what follows from that is no cause of its own.
    refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Started {
    event_id: String,
    intent: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Ended {
    event_id: String,
    completed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Claimed {
    at: EventRef,
    superseded: bool,
    challenged_at: Option<u64>,
}

impl UnlinkedSession {
    /// Every rule that `event` breaks if it follows now; one for each cause.
    #[must_use]
    pub fn objections(&self, event: &Event) -> Vec<Refusal> {
        objections::objections(self, event)
    }

    /// Takes `event` in, allowed or not.
    pub fn apply(&mut self, event: &Event) {
        apply::apply(self, event);
    }

    /// Claims of the final statement that were challenged, with nothing new since.
    #[must_use]
    pub const fn disputed(&self) -> &BTreeSet<String> {
        &self.disputed
    }
}
