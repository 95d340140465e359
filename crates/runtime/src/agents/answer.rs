//! What agents answer: the same shapes from a built-in agent, from a program and from a model.
//!
//! Members that a shape does not name are refused, so that a misspelt one is not silently dropped.

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::risk::RiskClass;
use countersign_protocol::ReviewDecision;
use countersign_protocol::session::{
    ClaimKind, Condition, Confidence, ProposalDecision, Resolution,
};
use serde::{Deserialize, Serialize};

use crate::task::EvidenceSource;
use crate::tools::ToolCall;

/// A unit of work as a planner puts it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedStep {
    /// Its name, unique within the session.
    pub id: String,
    /// What it is to reach.
    pub objective: String,
    /// What it takes for granted.
    #[serde(default)]
    pub assumptions: Vec<String>,
    /// The tools that it needs; those of its actions are added.
    #[serde(default)]
    pub required_tools: Vec<String>,
    /// What will show that it worked.
    #[serde(default)]
    pub expected_evidence: Vec<String>,
    /// Steps that must have succeeded before.
    #[serde(default)]
    pub after: Vec<String>,
    /// What a built-in executor does.
    #[serde(default)]
    pub actions: Vec<PlannedAction>,
    /// What a built-in executor claims.
    #[serde(default)]
    pub claims: Vec<PlannedClaim>,
}

impl PlannedStep {
    /// Every tool that it may use, each once.
    #[must_use]
    pub fn tools(&self) -> Vec<String> {
        let mut tools = self.required_tools.clone();
        for action in &self.actions {
            if !tools.iter().any(|tool| tool == action.call.name()) {
                tools.push(action.call.name().to_owned());
            }
        }
        tools
    }
}

/// One use of a tool as an executor means it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedAction {
    /// The tool and its input.
    #[serde(flatten)]
    pub call: ToolCall,
    /// How dangerous it is; never less than what the gate says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskClass>,
    /// Why.
    #[serde(default)]
    pub justification: String,
    /// Whether running it twice does no more than running it once.
    #[serde(default)]
    pub idempotent: bool,
    /// How often it is tried again after a failure.
    #[serde(default)]
    pub retries: u32,
    /// Exit statuses that count as success.
    #[serde(default = "zero")]
    pub success: Vec<i32>,
    /// The critic's conditions that it accepts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub acknowledged_conditions: Vec<String>,
}

fn zero() -> Vec<i32> {
    vec![0]
}

/// Something that is to be claimed once a step has succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedClaim {
    /// What is asserted.
    pub text: String,
    /// How sure the executor is.
    #[serde(default)]
    pub confidence: Confidence,
    /// Which outputs show it; all of them, if none is named.
    #[serde(default)]
    pub evidence: Vec<EvidenceSource>,
}

/// A critic's word on a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalReview {
    /// The step's name.
    pub subject: String,
    /// Whether it may go ahead.
    pub decision: ProposalDecision,
    /// What every intent must acknowledge.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Why.
    #[serde(default)]
    pub rationale: String,
}

/// A critic's word on an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentReview {
    /// Whether it may run.
    pub decision: ReviewDecision,
    /// Why.
    #[serde(default)]
    pub reasons: Vec<String>,
}

/// What an executor asserts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeClaim {
    /// What is asserted.
    pub text: String,
    /// How sure it is.
    #[serde(default)]
    pub confidence: Confidence,
    /// A result, or what is known of a failure.
    #[serde(default)]
    pub kind: ClaimKind,
    /// The executions that it rests on.
    pub executions: Vec<EventRef>,
    /// Hashes of the evidence.
    pub evidence: Vec<Hash>,
    /// The claim that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
}

/// A critic's doubt about a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// The claim.
    pub claim_id: String,
    /// Why.
    pub reason: String,
}

/// How an executor answers doubts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoubtsAnswered {
    /// Claims that take the place of others, or add to them.
    #[serde(default)]
    pub claims: Vec<MadeClaim>,
    /// What became of the claims that were doubted.
    #[serde(default)]
    pub resolutions: Vec<Resolution>,
}

/// What an auditor says of the verifier's report. It can only be stricter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditOpinion {
    /// Whether it accepts what the verifier found.
    pub accept: bool,
    /// Why not.
    #[serde(default)]
    pub reason: String,
}
