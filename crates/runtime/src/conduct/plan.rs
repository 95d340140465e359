//! Plans: what is proposed, and what the critic says of it.

use std::collections::BTreeSet;

use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_format::json;
use countersign_format::role::Role;
use countersign_protocol::session::{Condition, Proposal, ProposalDecision, SessionCommand};

use super::board::{Progress, STEP_MEDIA};
use super::opening::planned;
use super::{Conductor, Halt, STORED_BYTES_MAX, holds_redaction};
use crate::agents::{AgentFailure, PlannedStep, ProposalReview, Request, StepBrief};
use crate::store::Blobs as _;
use crate::workspace::WorkspaceError;
use crate::writer::lock;

/// Steps that one session may have.
const STEPS_MAX: usize = 1_000;

/// What a step stands in for.
#[derive(Debug, Clone, Default)]
pub(super) struct StandsFor {
    pub(super) revises: Option<EventRef>,
    pub(super) fallback_for: Option<EventRef>,
}

impl Conductor {
    /// Has the planner propose, and records what is not recorded yet.
    pub(super) fn plan(&self) -> Result<(), Halt> {
        let begun = self.board(|board| board.steps.first().map(|step| step.answer));
        let (steps, artifacts) = self.ask_or_recall(&Request::Plan, begun.flatten())?;
        let steps: Vec<PlannedStep> = steps;
        if steps.is_empty() {
            return Err(self.unusable(Role::Planner, "proposed nothing", artifacts));
        }
        let names: BTreeSet<&String> = steps.iter().map(|step| &step.id).collect();
        if names.len() < steps.len() {
            return Err(self.unusable(
                Role::Planner,
                "proposed two steps of the same name",
                artifacts,
            ));
        }
        self.propose_all(steps, &artifacts, &StandsFor::default())?;
        self.load_steps()
    }

    /// Proposes the steps that are not proposed yet.
    pub(super) fn propose_all(
        &self,
        steps: Vec<PlannedStep>,
        artifacts: &[ArtifactDescriptor],
        stands_for: &StandsFor,
    ) -> Result<(), Halt> {
        for step in steps {
            match self.board(|board| board.find(&step.id)) {
                Some(known) => self.board(|board| {
                    if let Some(record) = board.steps.get_mut(known) {
                        record.planned.get_or_insert(step);
                    }
                }),
                None => self.propose(step, artifacts.to_vec(), stands_for)?,
            }
        }
        Ok(())
    }

    fn propose(
        &self,
        step: PlannedStep,
        mut artifacts: Vec<ArtifactDescriptor>,
        stands_for: &StandsFor,
    ) -> Result<(), Halt> {
        if self.clean(&step.id) != step.id {
            let reason = "gave a step a name that cannot be recorded";
            return Err(self.unusable(Role::Planner, reason, artifacts));
        }
        if self.board(|board| board.steps.len()) >= STEPS_MAX {
            let reason = "proposed more steps than a session may have";
            return Err(self.unusable(Role::Planner, reason, artifacts));
        }
        let bytes = json::to_bytes(&serde_json::to_value(&step).unwrap_or_default());
        let (stored, _) = self.keep(&bytes, STEP_MEDIA)?;
        artifacts.insert(0, stored);
        let proposal = Proposal {
            proposal_id: Some(step.id.clone()),
            objective: self.clean(&step.objective),
            assumptions: self.clean_all(&step.assumptions),
            required_tools: self.clean_all(&step.tools()),
            expected_evidence: self.clean_all(&step.expected_evidence),
            revises: stands_for.revises.clone(),
            fallback_for: stands_for.fallback_for.clone(),
            artifacts,
        };
        self.record(Role::Planner, SessionCommand::Propose(Box::new(proposal)))?;
        self.board(|board| {
            let at = board.find(&step.id);
            if let Some(record) = at.and_then(|at| board.steps.get_mut(at)) {
                record.planned = Some(step);
            }
        });
        Ok(())
    }

    /// Loads what an earlier process planned.
    fn load_steps(&self) -> Result<(), Halt> {
        let missing: Vec<_> = self.board(|board| {
            let steps = board.steps.iter().enumerate();
            steps
                .filter(|(_, step)| step.planned.is_none())
                .filter_map(|(at, step)| step.stored.map(|stored| (at, stored, step.id.clone())))
                .collect()
        });
        for (at, stored, id) in missing {
            // The task says it with its secrets.
            if let Some(step) = self.task.steps.iter().find(|step| step.id == id) {
                self.board(|board| {
                    if let Some(record) = board.steps.get_mut(at) {
                        record.planned = Some(planned(step));
                    }
                });
                continue;
            }
            let store = self.session.workspace().store();
            let bytes = store.get(&stored, STORED_BYTES_MAX).map_err(WorkspaceError::from)?;
            let step = serde_json::from_slice::<PlannedStep>(&bytes)
                .map_err(|error| Halt::Broken(format!("a stored step cannot be read: {error}")))?;
            let secret = holds_redaction(&bytes);
            self.board(|board| {
                if let Some(record) = board.steps.get_mut(at) {
                    record.planned = Some(step);
                    if secret && record.progress == Progress::Waiting {
                        let reason = "what was planned held a secret, which is not kept";
                        record.progress = Progress::Failed(reason.to_owned());
                    }
                }
            });
        }
        Ok(())
    }

    /// A step as agents are told of it.
    pub(super) fn brief(&self, at: usize) -> Option<StepBrief> {
        self.board(|board| {
            let record = board.steps.get(at)?;
            let planned = record.planned.clone()?;
            Some(StepBrief { proposal: record.proposal.clone(), planned })
        })
    }

    /// Has the critic judge every proposal that nobody judged.
    pub(super) fn review(&self) -> Result<(), Halt> {
        let _turn = lock(&self.planning);
        self.review_in_turn()
    }

    fn review_in_turn(&self) -> Result<(), Halt> {
        let open: Vec<usize> = self.board(|board| {
            let steps = board.steps.iter().enumerate();
            steps.filter(|(_, step)| step.decision.is_none()).map(|(at, _)| at).collect()
        });
        let briefs: Vec<StepBrief> = open.iter().filter_map(|&at| self.brief(at)).collect();
        if briefs.is_empty() {
            self.mark_rejected();
            return Ok(());
        }
        let request = Request::ReviewProposals { steps: &briefs };
        let (reviews, artifacts): (Vec<ProposalReview>, _) = self.ask(&request)?;
        for brief in &briefs {
            let review = reviews.iter().find(|review| review.subject == brief.planned.id);
            let Some(review) = review else {
                let reason = format!("said nothing of the proposal `{}`", brief.planned.id);
                return Err(self.unusable(Role::Critic, &reason, artifacts));
            };
            let conditions = review.conditions.iter().map(|condition| Condition {
                id: self.clean(&condition.id),
                text: self.clean(&condition.text),
            });
            let command = SessionCommand::ReviewProposal {
                subject: brief.proposal.clone(),
                decision: review.decision,
                conditions: conditions.collect(),
                rationale: self.clean(&review.rationale),
                artifacts: artifacts.clone(),
            };
            self.record(Role::Critic, command)?;
        }
        self.mark_rejected();
        Ok(())
    }

    /// What was rejected is not carried out.
    fn mark_rejected(&self) {
        self.board(|board| {
            for step in &mut board.steps {
                if step.decision == Some(ProposalDecision::Rejected)
                    && step.progress == Progress::Waiting
                {
                    step.progress = Progress::Blocked(format!("rejected: {}", step.rationale));
                }
            }
        });
    }

    /// Asks the planner for something else in place of a step that was not done, where the policy
    /// permits, and has the critic judge it.
    pub(super) fn replace(&self, at: usize, progress: &Progress) -> Result<(), Halt> {
        let _turn = lock(&self.planning);
        let Some(brief) = self.brief(at) else { return Ok(()) };
        // An earlier run may have got as far.
        if self.board(|board| board.replacement(at).is_some()) {
            return Ok(());
        }
        let (failed, depth) = self.board(|board| {
            let failed = board.steps.get(at).and_then(|step| {
                let attempt = step
                    .attempts
                    .iter()
                    .rev()
                    .find(|attempt| attempt.end.as_ref().is_some_and(|end| !end.completed))?;
                attempt.execution.clone()
            });
            (failed, board.depth(at))
        });
        let (request, stands_for) = match (progress, failed) {
            (Progress::Failed(reason), Some(execution)) if self.task.policy.fallbacks => (
                Request::Recover { step: &brief, reason },
                StandsFor { revises: None, fallback_for: Some(execution) },
            ),
            (Progress::Blocked(reason), _) if depth < self.task.policy.revisions => (
                Request::Revise { step: &brief, reason },
                StandsFor { revises: Some(brief.proposal.clone()), fallback_for: None },
            ),
            _ => return Ok(()),
        };
        let (steps, artifacts): (Vec<PlannedStep>, _) = self.ask(&request)?;
        // One step takes the place of one.
        let Some(step) = steps.into_iter().next() else { return Ok(()) };
        if self.board(|board| board.find(&step.id).is_some()) {
            let reason = "proposed a step of a name that is taken";
            return Err(self.unusable(Role::Planner, reason, artifacts));
        }
        self.propose_all(vec![step], &artifacts, &stands_for)?;
        self.review_in_turn()
    }

    /// An agent's answer that has the right form and cannot be used all the same.
    pub(super) fn unusable(
        &self,
        role: Role,
        reason: &str,
        artifacts: Vec<ArtifactDescriptor>,
    ) -> Halt {
        let reason = self.clean(reason);
        Halt::Agent(AgentFailure { role, reason, exchange: None }, artifacts)
    }
}
