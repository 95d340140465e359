//! What agents are asked, in the words of their input envelope.

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::role::Role;
use countersign_protocol::session::{ClaimKind, Condition};
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{PlannedAction, PlannedStep};

/// A question to one agent.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// To the planner: what is to be done?
    Plan,
    /// To the planner: the critic rejected this; propose something else, or nothing.
    Revise {
        /// The rejected step.
        step: &'a StepBrief,
        /// Why it was rejected.
        reason: &'a str,
    },
    /// To the planner: this failed; propose something else, or nothing.
    Recover {
        /// The failed step.
        step: &'a StepBrief,
        /// How it failed.
        reason: &'a str,
    },
    /// To the critic: may these go ahead?
    ReviewProposals {
        /// The steps that nobody judged.
        steps: &'a [StepBrief],
    },
    /// To the executor: which tools, with which input?
    Act {
        /// The approved step.
        step: &'a StepBrief,
        /// What every intent must acknowledge.
        conditions: &'a [Condition],
    },
    /// To the critic: may exactly this run?
    ReviewIntent {
        /// The step that it belongs to.
        step: &'a StepBrief,
        /// What would run.
        action: &'a PlannedAction,
        /// Why a person must be asked in any case.
        must_ask: Option<&'a str>,
    },
    /// To the executor: what can be claimed?
    Claim {
        /// What became of the steps.
        outcomes: &'a [StepOutcome],
    },
    /// To the critic: do the claims hold?
    ReviewClaims {
        /// The claims that stand.
        claims: &'a [ClaimBrief],
        /// What became of the steps.
        outcomes: &'a [StepOutcome],
    },
    /// To the executor: what do you say to these doubts?
    AnswerDoubts {
        /// The claims that were challenged, with the reason.
        claims: &'a [ClaimBrief],
        /// What became of the steps.
        outcomes: &'a [StepOutcome],
    },
    /// To the auditor: the verifier's report; do you accept it?
    Audit {
        /// The report.
        report: &'a Value,
    },
}

/// A step that was proposed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepBrief {
    /// Its proposal.
    pub proposal: EventRef,
    /// What was planned.
    #[serde(flatten)]
    pub planned: PlannedStep,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepOutcome {
    /// The step.
    #[serde(flatten)]
    pub step: StepBrief,
    /// `done`, `failed`, `blocked` or `skipped`.
    pub result: String,
    /// Why, where it was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether another step made up for it.
    pub made_up_for: bool,
    /// The tools that ran.
    pub executions: Vec<ExecutionBrief>,
}

/// A tool that ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecutionBrief {
    /// Where it began.
    pub execution: EventRef,
    /// The tool.
    pub tool: String,
    /// Whether it completed.
    pub completed: bool,
    /// Its exit status.
    pub exit_status: Option<i64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The stored input.
    pub input: Hash,
    /// What it printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<Stored>,
    /// What it complained about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<Stored>,
}

/// Stored bytes and where to read them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// Their hash.
    pub hash: Hash,
    /// How many.
    pub bytes: u64,
    /// Where they lie, relative to the store.
    pub path: String,
}

/// A claim that stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimBrief {
    /// Its id.
    pub claim_id: String,
    /// What is asserted.
    pub text: String,
    /// What it is about.
    pub kind: ClaimKind,
    /// The executions that it rests on.
    pub executions: Vec<EventRef>,
    /// Hashes of the evidence.
    pub evidence: Vec<Hash>,
    /// The critic's doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

impl Request<'_> {
    /// Whom it is for.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self {
            Self::Plan | Self::Revise { .. } | Self::Recover { .. } => Role::Planner,
            Self::ReviewProposals { .. }
            | Self::ReviewIntent { .. }
            | Self::ReviewClaims { .. } => Role::Critic,
            Self::Act { .. } | Self::Claim { .. } | Self::AnswerDoubts { .. } => Role::Executor,
            Self::Audit { .. } => Role::Auditor,
        }
    }

    /// The action of the input envelope.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Revise { .. } => "revise",
            Self::Recover { .. } => "recover",
            Self::ReviewProposals { .. } => "review_proposals",
            Self::Act { .. } => "act",
            Self::ReviewIntent { .. } => "review_intent",
            Self::Claim { .. } => "claim",
            Self::ReviewClaims { .. } => "review_claims",
            Self::AnswerDoubts { .. } => "answer_doubts",
            Self::Audit { .. } => "audit",
        }
    }

    /// The file among the artifacts of the output envelope that holds the answer.
    #[must_use]
    pub const fn file(&self) -> &'static str {
        match self {
            Self::Plan | Self::Revise { .. } | Self::Recover { .. } => "proposals.json",
            Self::ReviewProposals { .. } => "reviews.json",
            Self::Act { .. } => "intents.json",
            Self::ReviewIntent { .. } => "review.json",
            Self::Claim { .. } => "claims.json",
            Self::ReviewClaims { .. } => "challenges.json",
            Self::AnswerDoubts { .. } => "resolutions.json",
            Self::Audit { .. } => "opinion.json",
        }
    }

    /// The parameters of the input envelope.
    #[must_use]
    pub fn params(&self) -> Value {
        match self {
            Self::Plan => json!({}),
            Self::Revise { step, reason } | Self::Recover { step, reason } => {
                json!({ "step": step, "reason": reason })
            }
            Self::ReviewProposals { steps } => json!({ "proposals": steps }),
            Self::Act { step, conditions } => json!({ "step": step, "conditions": conditions }),
            Self::ReviewIntent { step, action, must_ask } => {
                json!({ "step": step, "intent": action, "must_ask": must_ask })
            }
            Self::Claim { outcomes } => json!({ "outcomes": outcomes }),
            Self::ReviewClaims { claims, outcomes } | Self::AnswerDoubts { claims, outcomes } => {
                json!({ "claims": claims, "outcomes": outcomes })
            }
            Self::Audit { report } => json!({ "report": report }),
        }
    }

    /// What the answer looks like, for somebody who reads rather than parses.
    #[must_use]
    pub const fn answer_form(&self) -> &'static str {
        match self {
            Self::Plan | Self::Revise { .. } | Self::Recover { .. } => PROPOSALS_FORM,
            Self::ReviewProposals { .. } => REVIEWS_FORM,
            Self::Act { .. } => INTENTS_FORM,
            Self::ReviewIntent { .. } => REVIEW_FORM,
            Self::Claim { .. } => CLAIMS_FORM,
            Self::ReviewClaims { .. } => CHALLENGES_FORM,
            Self::AnswerDoubts { .. } => RESOLUTIONS_FORM,
            Self::Audit { .. } => OPINION_FORM,
        }
    }
}

const PROPOSALS_FORM: &str = r#"[{"id": "lowercase-name", "objective": "…", "assumptions": ["…"], "required_tools": ["exec"], "expected_evidence": ["…"], "after": [], "actions": [{"tool": "exec", "argv": ["program", "argument"], "justification": "…"}], "claims": [{"text": "…", "confidence": "high"}]}]; tools are exec (argv, or shell), file_read (path), file_write (path, content), file_delete (path); an empty list proposes nothing"#;
const REVIEWS_FORM: &str = r#"[{"subject": "id of the step", "decision": "approved" or "conditional" or "rejected", "conditions": [{"id": "name", "text": "…"}], "rationale": "…"}], one for each proposal"#;
const INTENTS_FORM: &str = r#"[{"tool": "exec", "argv": ["program", "argument"], "risk": "low" or "standard" or "elevated" or "critical", "justification": "…", "acknowledged_conditions": ["id"]}], in the order in which they run"#;
const REVIEW_FORM: &str =
    r#"{"decision": "approved" or "blocked" or "asked" (a person decides), "reasons": ["…"]}"#;
const CLAIMS_FORM: &str = r#"[{"text": "…", "confidence": "low" or "medium" or "high", "kind": "result" or "failure_analysis", "executions": [{"event_id": "…", "seq": 0}], "evidence": ["hash of an output"]}]"#;
const CHALLENGES_FORM: &str =
    r#"[{"claim_id": "claim_…", "reason": "…"}], empty if every claim holds"#;
const RESOLUTIONS_FORM: &str = r#"{"claims": [{"text": "…", "executions": […], "evidence": […], "supersedes": "claim_…"}], "resolutions": [{"claim_id": "claim_…", "status": "upheld" or "retracted"}]}"#;
const OPINION_FORM: &str = r#"{"accept": true or false, "reason": "…"}"#;
