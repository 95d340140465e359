//! Sessions: one task through plan, review, action, claim and audit.
//!
//! The rules are those of the page on sessions among the formats. Proposals, intents and claims have
//! states of their own; that of the session follows from them. What is kept of ended executions is
//! their place and how they ended: a claim may rest on any of them.

mod admit;
mod apply;
mod command;
mod draft;
mod lifecycle;

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::{Event, EventRef};
use countersign_format::hash::Hash;
use countersign_format::risk::RiskClass;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use serde::{Deserialize, Serialize};

pub use command::{
    Claim, ClaimKind, ClaimStatus, Condition, Confidence, Enrolled, ExecutionEnd, FinalStatement,
    Intent, Outcome, Proposal, ProposalDecision, Redaction, Resolution, SessionCommand,
    SessionOpening, SessionPolicy,
};
pub use lifecycle::Lifecycle;

use crate::receipts::{IntendedAction, ReceiptHead};
use crate::{Act, Context, Refusal, ReviewDecision, Stage, State};

/// What the events of a session come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// Whether it has begun.
    pub begun: bool,
    /// What its first event permits and demands.
    pub rules: Rules,
    /// Every proposal, by place.
    pub proposals: BTreeMap<u64, ProposalRecord>,
    /// Whether any proposal was ever approved.
    pub approved_once: bool,
    /// Intents that neither started nor were blocked, by place.
    pub intents: BTreeMap<u64, IntentRecord>,
    /// Executions under way, by the place of their start.
    pub executions: BTreeMap<u64, RunningRecord>,
    /// Executions that have ended, by the place of their start.
    pub ended_executions: BTreeMap<u64, EndedRecord>,
    /// Executions whose outcome nobody knows, by the place of their start: what they ran.
    pub unknown: BTreeMap<u64, UnknownRecord>,
    /// Where the chain of receipts stands.
    pub receipts: ReceiptHead,
    /// How many executions have started.
    pub starts: u64,
    /// The artifacts that events have listed, and the place where each was listed first.
    pub artifacts: BTreeMap<Hash, u64>,
    /// The place at which an artifact was last listed for the first time.
    pub last_artifact_at: Option<u64>,
    /// Every claim, by id.
    pub claims: BTreeMap<String, ClaimRecord>,
    /// The stage of its end.
    pub stage: Stage,
    /// How it ended. The first end stands.
    pub ended: Option<TraceStatus>,
    /// Claims of the final statement that were challenged and upheld without anything new.
    pub disputed: BTreeSet<String>,
}

/// What the first event permits and demands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Whether another proposal may follow a failed execution.
    pub fallbacks: bool,
    /// How many distinct artifacts a claim needs.
    pub min_evidence: u64,
    /// How many executions may start.
    pub tool_calls: Option<u64>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { fallbacks: true, min_evidence: 1, tool_calls: None }
    }
}

/// A proposal and what the critic says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalRecord {
    /// The id of its event.
    pub event_id: String,
    /// Its name within the session.
    pub proposal_id: Option<String>,
    /// The tools that it asks for.
    pub required_tools: BTreeSet<String>,
    /// The last decision.
    pub decision: Option<ProposalDecision>,
    /// What an intent must acknowledge.
    pub conditions: BTreeSet<String>,
}

impl ProposalRecord {
    const fn is_approved(&self) -> bool {
        matches!(self.decision, Some(ProposalDecision::Approved | ProposalDecision::Conditional))
    }
}

/// An intent that has not started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntentRecord {
    /// The id of its event.
    pub event_id: String,
    /// The place of its proposal.
    pub proposal: u64,
    /// What it says of the action.
    pub action: IntendedAction,
    /// How dangerous it is.
    pub risk: RiskClass,
    /// Whether running it twice does no more than running it once.
    pub idempotent: bool,
    /// The conditions that it accepts.
    pub acknowledged: BTreeSet<String>,
    /// The execution that it repeats.
    pub retry_of: Option<u64>,
    /// The last decision, and whose it was.
    pub review: Option<(ReviewDecision, Role)>,
    /// Whether a person was asked: then only a person approves.
    pub asked: bool,
    /// Until when the answer counts.
    pub deadline: Option<Timestamp>,
}

/// An execution under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningRecord {
    /// The id of its start.
    pub event_id: String,
    /// The place of its proposal.
    pub proposal: u64,
    /// What its intent says of the action, if it has one.
    pub action: Option<IntendedAction>,
    /// Whether running it twice does no more than running it once.
    pub idempotent: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRecord {
    /// The id of its start.
    pub event_id: String,
    /// The place of its proposal.
    pub proposal: u64,
    /// Whether it completed.
    pub completed: bool,
}

/// What an execution ran of which nobody knows how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownRecord {
    /// The tool.
    pub tool_name: String,
    /// The hash of its stored input.
    pub input: Hash,
    /// Whether running it twice does no more than running it once.
    pub idempotent: bool,
}

/// A claim and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// Its event.
    pub at: EventRef,
    /// Whether a later claim took its place.
    pub superseded: bool,
    /// The place of the last challenge.
    pub challenged_at: Option<u64>,
}

impl SessionState {
    /// Claims that no later claim replaced, in the order of their events.
    #[must_use]
    pub fn standing_claims(&self) -> Vec<(&String, &ClaimRecord)> {
        let mut standing: Vec<_> =
            self.claims.iter().filter(|(_, claim)| !claim.superseded).collect();
        standing.sort_by_key(|(_, claim)| claim.at.seq);
        standing
    }
}

impl State for SessionState {
    type Command = SessionCommand;
    const VERSION: u32 = 2;

    fn decide(&self, command: SessionCommand, context: &Context) -> Result<Vec<Act>, Refusal> {
        draft::acts(self, command, context)
    }

    fn admit(&self, event: &Event) -> Result<(), Refusal> {
        admit::admit(self, event)
    }

    fn apply(&mut self, event: &Event) {
        apply::apply(self, event);
    }

    fn ended(&self) -> Option<TraceStatus> {
        self.ended
    }
}
