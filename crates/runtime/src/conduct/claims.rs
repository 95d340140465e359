//! Claims: what the executor asserts, what the critic doubts, and the last word.

use countersign_format::event::ArtifactDescriptor;
use countersign_format::hash::Hash;
use countersign_format::json::to_bytes;
use countersign_format::role::Role;
use countersign_protocol::session::{
    Claim, ClaimStatus, FinalStatement, Resolution, SessionCommand,
};

use serde_json::json;

use super::board::{Attempt, Board, ClaimNote, StepRecord};
use super::{Conductor, Halt};
use crate::agents::{
    ClaimBrief, Doubt, DoubtsAnswered, ExecutionBrief, MadeClaim, Request, StepBrief, StepOutcome,
    Stored,
};

/// Executions, and pieces of evidence, that a claim lists by itself. Where it rests on more of them, a
/// stored list has them all, and is the first piece of its evidence.
const LISTED_MAX: usize = 100;
/// Claims of one session.
const CLAIMS_MAX: usize = 10_000;

impl Conductor {
    /// What became of every step.
    pub(super) fn outcomes(&self) -> Vec<StepOutcome> {
        self.board(|board| {
            let steps = board.steps.iter().enumerate();
            steps.filter_map(|(at, step)| outcome(board, at, step)).collect()
        })
    }

    /// Has the executor claim, the critic doubt, and the executor answer.
    pub(super) fn claim(&self) -> Result<(), Halt> {
        let outcomes = self.outcomes();
        if outcomes.iter().all(|outcome| outcome.executions.is_empty()) {
            let reasons: Vec<String> = outcomes
                .iter()
                .map(|outcome| {
                    let reason = outcome.reason.as_deref().unwrap_or("nothing ran");
                    format!("`{}`: {reason}", outcome.step.planned.id)
                })
                .collect();
            return Err(Halt::NothingDone(self.clean(&reasons.join("; "))));
        }
        let stored = self.board(|board| board.claims.first().and_then(|claim| claim.answer));
        let (claims, artifacts): (Vec<MadeClaim>, _) =
            self.ask_or_recall(&Request::Claim { outcomes: &outcomes }, stored)?;
        if claims.is_empty() {
            return Err(self.unusable(Role::Executor, "claimed nothing", artifacts));
        }
        self.issue_all(claims, &artifacts)?;
        self.doubt(&outcomes)
    }

    /// Issues the claims that were not issued yet.
    fn issue_all(
        &self,
        claims: Vec<MadeClaim>,
        artifacts: &[ArtifactDescriptor],
    ) -> Result<(), Halt> {
        for mut claim in claims {
            let mut evidence = Vec::new();
            if claim.evidence.len().max(claim.executions.len()) > LISTED_MAX {
                evidence.push(self.list_apart(&claim)?);
                claim.evidence.truncate(LISTED_MAX - 1);
                let surplus = claim.executions.len().saturating_sub(LISTED_MAX);
                claim.executions.drain(..surplus);
            }
            let text = self.clean(&claim.text);
            let (known, count) = self.board(|board| {
                let same = |note: &ClaimNote| {
                    note.text == text
                        && note.executions == claim.executions
                        && note.supersedes == claim.supersedes
                };
                (board.claims.iter().any(same), board.claims.len())
            });
            if known {
                continue;
            }
            if count >= CLAIMS_MAX {
                let reason = "claims more than a session may have";
                return Err(self.unusable(Role::Executor, reason, artifacts.to_vec()));
            }
            evidence.extend(self.describe(&claim.evidence)?);
            let claim = Claim {
                claim_id: None,
                text,
                confidence: claim.confidence,
                kind: claim.kind,
                executions: claim.executions,
                evidence,
                supersedes: claim.supersedes,
                artifacts: artifacts.to_vec(),
            };
            self.record(Role::Executor, SessionCommand::Claim(Box::new(claim)))?;
        }
        Ok(())
    }

    /// Everything that a claim rests on, where that is more than an event can list.
    fn list_apart(&self, claim: &MadeClaim) -> Result<ArtifactDescriptor, Halt> {
        let list = json!({ "executions": claim.executions, "evidence": claim.evidence });
        Ok(self.keep(&to_bytes(&list), "application/json")?.0)
    }

    /// The descriptors of evidence, as the events that produced it have them.
    fn describe(&self, hashes: &[Hash]) -> Result<Vec<ArtifactDescriptor>, Halt> {
        let found: Option<Vec<ArtifactDescriptor>> =
            self.board(|board| hashes.iter().map(|hash| find_artifact(board, hash)).collect());
        found.ok_or_else(|| {
            let reason = "named evidence that no execution of this session left";
            self.unusable(Role::Executor, reason, Vec::new())
        })
    }

    /// Has the critic judge the claims, and the executor answer.
    fn doubt(&self, outcomes: &[StepOutcome]) -> Result<(), Halt> {
        let claims = self.standing_claims();
        let request = Request::ReviewClaims { claims: &claims, outcomes };
        let (doubts, artifacts): (Vec<Doubt>, _) = self.ask(&request)?;
        for doubt in doubts {
            let at = self.board(|board| {
                let claim = board.claims.iter().find(|claim| claim.claim_id == doubt.claim_id);
                claim.map(|claim| (claim.at.clone(), claim.doubt.is_some()))
            });
            let Some((claim, doubted)) = at else {
                return Err(self.unusable(
                    Role::Critic,
                    "doubts a claim that nobody made",
                    artifacts,
                ));
            };
            if doubted {
                continue;
            }
            let command = SessionCommand::Challenge {
                claim,
                claim_id: doubt.claim_id,
                reason: self.clean(&doubt.reason),
                artifacts: artifacts.clone(),
            };
            self.record(Role::Critic, command)?;
        }
        Ok(())
    }

    fn standing_claims(&self) -> Vec<ClaimBrief> {
        self.board(|board| {
            let superseded = |claim: &&ClaimNote| {
                !board.claims.iter().any(|it| it.supersedes.as_ref() == Some(&claim.claim_id))
            };
            board.claims.iter().filter(superseded).map(brief).collect()
        })
    }

    /// The last word: answers to doubts, and the final statement.
    pub(super) fn conclude(&self) -> Result<(), Halt> {
        let outcomes = self.outcomes();
        let doubted: Vec<ClaimBrief> =
            self.standing_claims().into_iter().filter(|claim| claim.doubt.is_some()).collect();
        let mut resolutions = Vec::new();
        let mut artifacts = Vec::new();
        if !doubted.is_empty() {
            let request = Request::AnswerDoubts { claims: &doubted, outcomes: &outcomes };
            let (answered, kept): (DoubtsAnswered, _) = self.ask(&request)?;
            self.issue_all(answered.claims, &kept)?;
            resolutions = self.resolutions(&doubted, answered.resolutions);
            artifacts = kept;
        }
        self.check_prefix()?;
        let achieved = self.achieved();
        let verdict = self.verdict(&outcomes, achieved);
        let statement = FinalStatement { verdict, achieved, resolutions, artifacts };
        self.record(Role::Executor, SessionCommand::Conclude(Box::new(statement))).map(drop)
    }

    /// What became of the claims that were doubted. One of which nothing is said stands, disputed.
    fn resolutions(&self, doubted: &[ClaimBrief], said: Vec<Resolution>) -> Vec<Resolution> {
        let standing = self.standing_claims();
        let stands = |id: &str| standing.iter().any(|claim| claim.claim_id == id);
        let mut resolutions: Vec<Resolution> =
            said.into_iter().filter(|resolution| stands(&resolution.claim_id)).collect();
        for claim in doubted {
            let id = &claim.claim_id;
            if resolutions.iter().any(|resolution| resolution.claim_id == *id) {
                continue;
            }
            let status = if stands(id) { ClaimStatus::Upheld } else { ClaimStatus::Superseded };
            resolutions.push(Resolution { claim_id: id.clone(), status });
        }
        resolutions
    }

    /// Whether every step that was planned was done, by itself or by what took its place.
    pub(super) fn achieved(&self) -> bool {
        self.board(|board| {
            (0..board.steps.len())
                .filter(|&at| board.steps.get(at).is_some_and(|step| step.replaces.is_none()))
                .all(|at| board.effective(at) == Some(&super::board::Progress::Done))
        })
    }

    fn verdict(&self, outcomes: &[StepOutcome], achieved: bool) -> String {
        let done = outcomes.iter().filter(|outcome| outcome.result == "done").count();
        let told: Vec<String> = outcomes
            .iter()
            .map(|outcome| match &outcome.reason {
                Some(reason) => {
                    let made_up = if outcome.made_up_for { ", made up for" } else { "" };
                    format!("{} {}{made_up} ({reason})", outcome.step.planned.id, outcome.result)
                }
                None => format!("{} {}", outcome.step.planned.id, outcome.result),
            })
            .collect();
        let reached = if achieved { "reached" } else { "not reached" };
        let all = outcomes.len();
        self.clean(&format!("Objective {reached}: {done} of {all} steps done: {}", told.join("; ")))
    }
}

fn outcome(board: &Board, at: usize, step: &StepRecord) -> Option<StepOutcome> {
    let planned = step.planned.clone()?;
    let made_up_for = board.replacement(at).is_some()
        && board.effective(at) == Some(&super::board::Progress::Done);
    Some(StepOutcome {
        step: StepBrief { proposal: step.proposal.clone(), planned },
        result: step.progress.name().to_owned(),
        reason: step.progress.reason(),
        made_up_for,
        executions: step.attempts.iter().filter_map(execution).collect(),
    })
}

fn execution(attempt: &Attempt) -> Option<ExecutionBrief> {
    let (execution, end) = (attempt.execution.clone()?, attempt.end.as_ref()?);
    Some(ExecutionBrief {
        execution,
        tool: attempt.tool.clone(),
        completed: end.completed,
        exit_status: end.exit_status,
        reason: end.reason.clone(),
        input: attempt.input.artifact_hash,
        stdout: end.stdout.as_ref().map(stored),
        stderr: end.stderr.as_ref().map(stored),
    })
}

fn stored(artifact: &ArtifactDescriptor) -> Stored {
    Stored {
        hash: artifact.artifact_hash,
        bytes: artifact.byte_size,
        path: artifact.storage_uri.clone(),
    }
}

fn brief(claim: &ClaimNote) -> ClaimBrief {
    ClaimBrief {
        claim_id: claim.claim_id.clone(),
        text: claim.text.clone(),
        kind: claim.kind,
        executions: claim.executions.clone(),
        evidence: claim.evidence.clone(),
        doubt: claim.doubt.clone(),
    }
}

fn find_artifact(board: &Board, hash: &Hash) -> Option<ArtifactDescriptor> {
    let attempts = board.steps.iter().flat_map(|step| &step.attempts);
    let mut all = attempts.flat_map(|attempt| {
        let end = attempt.end.as_ref();
        let streams = end.map(|end| [end.stdout.as_ref(), end.stderr.as_ref()]);
        streams.into_iter().flatten().flatten().chain([&attempt.input])
    });
    all.find(|artifact| artifact.artifact_hash == *hash).cloned()
}
