//! The agents that need nothing but the binary.
//!
//! The planner reads the task's declared steps, the critic applies policy, the executor does what
//! the step declares and claims what the task declares, the auditor accepts what the verifier found.

use countersign_format::role::Role;
use countersign_gate::Decision;
use countersign_gate::guard::{self, Strictness};
use countersign_protocol::ReviewDecision;
use countersign_protocol::session::{
    ClaimKind, ClaimStatus, Condition, Confidence, ProposalDecision, Resolution,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{
    Doubt, DoubtsAnswered, IntentReview, MadeClaim, PlannedAction, PlannedClaim, PlannedStep,
    ProposalReview,
};
use super::request::{ClaimBrief, ExecutionBrief, StepOutcome};
use super::{Agent, AgentFailure, Reply, Request, StepBrief};
use crate::task::EvidenceSource;
use crate::tools::ToolCall;

/// Proposes the steps of the task, each fallback once its step has failed.
#[derive(Debug)]
pub struct BuiltInPlanner {
    /// The steps that are proposed at once.
    pub steps: Vec<PlannedStep>,
    /// Steps that wait for another one to fail: its name, and the step.
    pub fallbacks: Vec<(String, PlannedStep)>,
}

impl Agent for BuiltInPlanner {
    fn answer(&self, request: &Request<'_>, _attempt: u32) -> Result<Reply, AgentFailure> {
        match request {
            Request::Plan => Ok(reply(&self.steps)),
            Request::Revise { step, .. } | Request::Recover { step, .. } => {
                let next = self.fallbacks.iter().find(|(of, _)| *of == step.planned.id);
                Ok(reply(&next.map(|(_, step)| step).into_iter().collect::<Vec<_>>()))
            }
            other => Err(not_for(Role::Planner, other)),
        }
    }
}

/// Judges by the guards of the gate.
#[derive(Debug)]
pub struct BuiltInCritic {
    /// How strict it is.
    pub strictness: Strictness,
    /// What every intent must acknowledge.
    pub constraints: Vec<String>,
    /// Whether tools may use the network.
    pub network: bool,
}

impl Agent for BuiltInCritic {
    fn answer(&self, request: &Request<'_>, _attempt: u32) -> Result<Reply, AgentFailure> {
        match request {
            Request::ReviewProposals { steps } => {
                Ok(reply(&steps.iter().map(|step| self.proposal(step)).collect::<Vec<_>>()))
            }
            Request::ReviewIntent { action, must_ask, .. } => {
                Ok(reply(&self.intent(action, *must_ask)))
            }
            Request::ReviewClaims { claims, outcomes } => {
                let doubts = claims.iter().filter_map(|claim| self.doubt(claim, outcomes));
                Ok(reply(&doubts.collect::<Vec<_>>()))
            }
            other => Err(not_for(Role::Critic, other)),
        }
    }
}

impl BuiltInCritic {
    fn proposal(&self, step: &StepBrief) -> ProposalReview {
        let subject = step.planned.id.clone();
        let denied: Vec<String> = step
            .planned
            .actions
            .iter()
            .map(|action| guard::judge(&proposed(action, self.network), self.strictness))
            .filter(|verdict| verdict.decision() == Decision::Deny)
            .flat_map(|verdict| strictest(&verdict))
            .collect();
        if !denied.is_empty() {
            return ProposalReview {
                subject,
                decision: ProposalDecision::Rejected,
                conditions: Vec::new(),
                rationale: denied.join("; "),
            };
        }
        let conditions: Vec<Condition> = (1..)
            .zip(&self.constraints)
            .map(|(n, text)| Condition { id: format!("constraint-{n}"), text: text.clone() })
            .collect();
        let decision = if conditions.is_empty() {
            ProposalDecision::Approved
        } else {
            ProposalDecision::Conditional
        };
        let rationale = "no guard objects to what is proposed".to_owned();
        ProposalReview { subject, decision, conditions, rationale }
    }

    fn intent(&self, action: &PlannedAction, must_ask: Option<&str>) -> IntentReview {
        let verdict = guard::judge(&proposed(action, self.network), self.strictness);
        let mut reasons = strictest(&verdict);
        let decision = match verdict.decision() {
            Decision::Deny => ReviewDecision::Blocked,
            Decision::Ask => ReviewDecision::Asked,
            Decision::Allow if must_ask.is_some() => ReviewDecision::Asked,
            Decision::Allow => ReviewDecision::Approved,
        };
        if decision == ReviewDecision::Asked
            && let Some(reason) = must_ask
        {
            reasons = vec![reason.to_owned()];
        }
        IntentReview { decision, reasons }
    }

    /// A result that rests on a failed execution, or on nothing that anybody could read.
    fn doubt(&self, claim: &ClaimBrief, outcomes: &[StepOutcome]) -> Option<Doubt> {
        if claim.kind != ClaimKind::Result {
            return None;
        }
        let failed = failed_basis(claim, outcomes);
        let sizes: Vec<u64> = outcomes
            .iter()
            .flat_map(|outcome| &outcome.executions)
            .flat_map(|ran| [&ran.stdout, &ran.stderr])
            .flatten()
            .filter(|stored| claim.evidence.contains(&stored.hash))
            .map(|stored| stored.bytes)
            .collect();
        let hollow = self.strictness == Strictness::Strict
            && !sizes.is_empty()
            && sizes.iter().all(|&bytes| bytes == 0);
        let reason = match failed {
            Some(ran) => {
                format!("it rests on the execution at {}, which failed", ran.execution.seq)
            }
            None if hollow => "all of its evidence is empty".to_owned(),
            None => return None,
        };
        Some(Doubt { claim_id: claim.claim_id.clone(), reason })
    }
}

/// A failed execution that a claim rests on.
fn failed_basis<'o>(claim: &ClaimBrief, outcomes: &'o [StepOutcome]) -> Option<&'o ExecutionBrief> {
    outcomes
        .iter()
        .flat_map(|outcome| &outcome.executions)
        .find(|ran| claim.executions.contains(&ran.execution) && !ran.completed)
}

/// What the guards are told of an action.
pub(crate) fn proposed(action: &PlannedAction, network: bool) -> guard::Proposed<'_> {
    let risk = action.risk.unwrap_or_else(|| action.call.usual_risk());
    let nothing = guard::Proposed {
        tool: action.call.name(),
        argv: &[],
        shell: None,
        paths: &[],
        content: None,
        stdin: None,
        env: None,
        risk,
        network_granted: network,
    };
    match &action.call {
        ToolCall::Exec { argv, shell, env, stdin, .. } => guard::Proposed {
            argv,
            shell: shell.as_deref(),
            stdin: stdin.as_deref(),
            env: Some(env),
            ..nothing
        },
        ToolCall::FileRead { path } | ToolCall::FileDelete { path } => {
            guard::Proposed { paths: std::slice::from_ref(path), ..nothing }
        }
        ToolCall::FileWrite { path, content } => {
            guard::Proposed { paths: std::slice::from_ref(path), content: Some(content), ..nothing }
        }
    }
}

/// The reasons that decided.
fn strictest(verdict: &countersign_gate::Verdict) -> Vec<String> {
    verdict.deciding().map(ToString::to_string).collect()
}

/// Does what the step declares, and claims what it declares.
#[derive(Debug)]
pub struct BuiltInExecutor;

impl Agent for BuiltInExecutor {
    fn answer(&self, request: &Request<'_>, _attempt: u32) -> Result<Reply, AgentFailure> {
        match request {
            Request::Act { step, conditions } => {
                let ids: Vec<String> =
                    conditions.iter().map(|condition| condition.id.clone()).collect();
                let actions = step.planned.actions.iter().cloned().map(|mut action| {
                    action.acknowledged_conditions.clone_from(&ids);
                    action
                });
                Ok(reply(&actions.collect::<Vec<_>>()))
            }
            Request::Claim { outcomes } => {
                Ok(reply(&outcomes.iter().flat_map(claims_of).collect::<Vec<_>>()))
            }
            Request::AnswerDoubts { claims, outcomes } => {
                Ok(reply(&answer_doubts(claims, outcomes)))
            }
            other => Err(not_for(Role::Executor, other)),
        }
    }
}

/// What can be said of a step: the declared claims if it was done, else what is known of its failure.
fn claims_of(outcome: &StepOutcome) -> Vec<MadeClaim> {
    let step = &outcome.step.planned;
    if outcome.result == "done" {
        let completed: Vec<&ExecutionBrief> =
            outcome.executions.iter().filter(|ran| ran.completed).collect();
        // A step that declares nothing is at least said to have been done.
        let plain = PlannedClaim {
            text: format!("Step `{}` was done: {}", step.id, step.objective),
            confidence: Confidence::High,
            evidence: Vec::new(),
        };
        let declared = if step.claims.is_empty() { &[plain][..] } else { &step.claims };
        return declared
            .iter()
            .map(|planned| MadeClaim {
                text: planned.text.clone(),
                confidence: planned.confidence,
                kind: ClaimKind::Result,
                executions: completed.iter().map(|ran| ran.execution.clone()).collect(),
                evidence: evidence(&completed, &planned.evidence),
                supersedes: None,
            })
            .collect();
    }
    let failed: Vec<&ExecutionBrief> =
        outcome.executions.iter().filter(|ran| !ran.completed).collect();
    // Where nothing failed, something was not permitted after something else had run.
    let basis = if failed.is_empty() { outcome.executions.iter().collect() } else { failed };
    let Some(last) = basis.last() else { return Vec::new() };
    let reason = last.reason.as_deref().or(outcome.reason.as_deref()).unwrap_or("it failed");
    vec![MadeClaim {
        text: format!("Step `{}` was not done: {reason}", step.id),
        confidence: Confidence::High,
        kind: ClaimKind::FailureAnalysis,
        executions: basis.iter().map(|ran| ran.execution.clone()).collect(),
        evidence: evidence(&basis, &[]),
        supersedes: None,
    }]
}

/// The hashes of the named streams; where there are none, the input shows at least what was run.
fn evidence(
    executions: &[&ExecutionBrief],
    sources: &[EvidenceSource],
) -> Vec<countersign_format::hash::Hash> {
    let named = |source: EvidenceSource| {
        sources.contains(&source)
            || (source != EvidenceSource::Input && sources.contains(&EvidenceSource::Output))
            || (source != EvidenceSource::Input && sources.is_empty())
    };
    let mut hashes = Vec::new();
    for ran in executions {
        let streams = [
            (EvidenceSource::Stdout, ran.stdout.as_ref().map(|stored| stored.hash)),
            (EvidenceSource::Stderr, ran.stderr.as_ref().map(|stored| stored.hash)),
            (EvidenceSource::Input, Some(ran.input)),
        ];
        let chosen = streams.into_iter().filter(|(source, _)| named(*source));
        hashes.extend(chosen.filter_map(|(_, hash)| hash));
    }
    if hashes.is_empty() {
        hashes.extend(executions.iter().map(|ran| ran.input));
    }
    let mut met = std::collections::BTreeSet::new();
    hashes.retain(|hash| met.insert(*hash));
    hashes
}

/// Takes back what rests on a failure. Of the rest it can only add what was run, and be less sure.
fn answer_doubts(claims: &[ClaimBrief], outcomes: &[StepOutcome]) -> DoubtsAnswered {
    let mut answered = DoubtsAnswered::default();
    for claim in claims {
        if failed_basis(claim, outcomes).is_some() {
            let (claim_id, status) = (claim.claim_id.clone(), ClaimStatus::Retracted);
            answered.resolutions.push(Resolution { claim_id, status });
            continue;
        }
        let all = outcomes.iter().flat_map(|outcome| &outcome.executions);
        let basis = all.filter(|ran| claim.executions.contains(&ran.execution));
        let mut evidence = claim.evidence.clone();
        evidence.extend(basis.map(|ran| ran.input).filter(|input| !claim.evidence.contains(input)));
        answered.claims.push(MadeClaim {
            text: claim.text.clone(),
            confidence: Confidence::Medium,
            kind: claim.kind,
            executions: claim.executions.clone(),
            evidence,
            supersedes: Some(claim.claim_id.clone()),
        });
    }
    answered
}

/// Accepts what the verifier found.
#[derive(Debug)]
pub struct BuiltInAuditor;

impl Agent for BuiltInAuditor {
    fn answer(&self, request: &Request<'_>, _attempt: u32) -> Result<Reply, AgentFailure> {
        match request {
            Request::Audit { .. } => Ok(Reply::from(json!({ "accept": true }))),
            other => Err(not_for(Role::Auditor, other)),
        }
    }
}

fn reply(answer: &impl Serialize) -> Reply {
    Reply::from(serde_json::to_value(answer).unwrap_or(Value::Null))
}

fn not_for(role: Role, request: &Request<'_>) -> AgentFailure {
    let reason = format!("was asked to `{}`, which is not its role", request.action());
    AgentFailure { role, reason, exchange: None }
}
