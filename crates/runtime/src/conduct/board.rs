//! What a conductor knows of its session, made from the events alone.
//!
//! The same code reads what was recorded a moment ago and what was recorded before a crash, so a
//! resumed session knows what an uninterrupted one would.

use std::collections::BTreeMap;

use countersign_format::event::{ArtifactDescriptor, Event, EventRef, EventType};
use countersign_format::hash::Hash;
use countersign_protocol::ReviewDecision;
use countersign_protocol::session::{ClaimKind, Condition, ProposalDecision};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agents::PlannedStep;

/// The media type of what a planner proposed, as one step.
pub(super) const STEP_MEDIA: &str = "application/vnd.countersign.step+json";
/// The media types of what outside agents are given and give back.
pub(super) const INPUT_MEDIA: &str = "application/vnd.countersign.agent-input";
pub(super) const OUTPUT_MEDIA: &str = "application/vnd.countersign.agent-output";
pub(super) const COMPLAINTS_MEDIA: &str = "application/vnd.countersign.agent-stderr";

/// Everything that was proposed, tried and claimed.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) steps: Vec<StepRecord>,
    pub(super) claims: Vec<ClaimNote>,
    /// Whether the executor says that the objective was reached, and its words.
    pub(super) statement: Option<(bool, String)>,
    /// Why the session was aborted or failed.
    pub(super) reason: Option<String>,
    proposals: BTreeMap<u64, usize>,
    intents: BTreeMap<u64, (usize, usize)>,
    executions: BTreeMap<u64, (usize, usize)>,
}

/// A step that was proposed.
#[derive(Debug)]
pub(super) struct StepRecord {
    pub(super) proposal: EventRef,
    /// Its name, if the proposal has one.
    pub(super) id: String,
    /// What was planned; loaded where it was proposed by an earlier process.
    pub(super) planned: Option<PlannedStep>,
    /// The stored step.
    pub(super) stored: Option<Hash>,
    /// What the planner printed, if it is not built in.
    pub(super) answer: Option<Hash>,
    /// The step that it makes up for.
    pub(super) replaces: Option<usize>,
    pub(super) decision: Option<ProposalDecision>,
    pub(super) conditions: Vec<Condition>,
    pub(super) rationale: String,
    pub(super) attempts: Vec<Attempt>,
    pub(super) progress: Progress,
}

/// How far a step has come in this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nobody works on it.
    Waiting,
    /// Somebody works on it.
    Running,
    /// All of its actions completed.
    Done,
    /// One of its actions failed for good.
    Failed(String),
    /// It was rejected, or one of its intents was blocked.
    Blocked(String),
    /// A step before it was not done.
    Skipped(String),
}

impl Progress {
    pub(super) const fn is_over(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Waiting | Self::Running => "open",
            Self::Done => "done",
            Self::Failed(_) => "failed",
            Self::Blocked(_) => "blocked",
            Self::Skipped(_) => "skipped",
        }
    }

    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Failed(reason) | Self::Blocked(reason) | Self::Skipped(reason) => {
                Some(reason.clone())
            }
            Self::Waiting | Self::Running | Self::Done => None,
        }
    }
}

/// One intent and what became of it.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) action: u64,
    pub(super) tool: String,
    pub(super) intent: EventRef,
    pub(super) input: ArtifactDescriptor,
    pub(super) binding: Option<Hash>,
    pub(super) retry_of: Option<EventRef>,
    /// What the executor printed, if it is not built in.
    pub(super) answer: Option<Hash>,
    pub(super) blocked: Option<String>,
    pub(super) execution: Option<EventRef>,
    pub(super) end: Option<AttemptEnd>,
}

/// How an execution ended.
#[derive(Debug, Clone)]
pub(super) struct AttemptEnd {
    pub(super) completed: bool,
    pub(super) unknown: bool,
    pub(super) reason: Option<String>,
    pub(super) exit_status: Option<i64>,
    pub(super) stdout: Option<ArtifactDescriptor>,
    pub(super) stderr: Option<ArtifactDescriptor>,
}

/// A claim that was issued.
#[derive(Debug, Clone)]
pub(super) struct ClaimNote {
    pub(super) at: EventRef,
    pub(super) claim_id: String,
    pub(super) text: String,
    pub(super) kind: ClaimKind,
    pub(super) executions: Vec<EventRef>,
    pub(super) evidence: Vec<Hash>,
    pub(super) supersedes: Option<String>,
    pub(super) answer: Option<Hash>,
    pub(super) doubt: Option<String>,
}

impl Board {
    /// Takes in the next event.
    pub(super) fn take(&mut self, event: &Event) {
        use EventType as T;
        match event.event_type {
            T::ProposalCreated => self.proposed(event),
            T::ProposalReviewed => self.proposal_reviewed(event),
            T::ToolIntentSigned => self.intended(event),
            T::ToolIntentReviewed => self.intent_reviewed(event),
            T::ToolExecutionStarted => self.started(event),
            T::ToolExecutionCompleted | T::ToolExecutionFailed => self.ended(event),
            T::ClaimIssued => self.claimed(event),
            T::ClaimChallenged => {
                let id: Option<String> = get(event, "challenged_claim_id");
                let claim =
                    self.claims.iter_mut().find(|claim| Some(&claim.claim_id) == id.as_ref());
                if let Some(claim) = claim {
                    claim.doubt = get(event, "reason");
                }
            }
            T::FinalStatementSigned => {
                let achieved = get::<String>(event, "outcome").as_deref() == Some("achieved");
                self.statement = get(event, "final_verdict").map(|verdict| (achieved, verdict));
            }
            T::SessionAborted | T::SessionFailed => self.reason = get(event, "reason"),
            _ => {}
        }
    }

    fn proposed(&mut self, event: &Event) {
        let revises = get::<EventRef>(event, "revises")
            .and_then(|revised| self.proposals.get(&revised.seq).copied());
        let failed = get::<EventRef>(event, "fallback_for")
            .and_then(|execution| self.executions.get(&execution.seq))
            .map(|&(step, _)| step);
        let at = place(event);
        self.proposals.insert(at.seq, self.steps.len());
        self.steps.push(StepRecord {
            id: get(event, "proposal_id").unwrap_or_else(|| format!("proposal-{}", at.seq)),
            proposal: at,
            planned: None,
            stored: artifact(event, STEP_MEDIA),
            answer: artifact(event, OUTPUT_MEDIA),
            replaces: revises.or(failed),
            decision: None,
            conditions: Vec::new(),
            rationale: String::new(),
            attempts: Vec::new(),
            progress: Progress::Waiting,
        });
    }

    fn proposal_reviewed(&mut self, event: &Event) {
        let subject = get::<EventRef>(event, "subject");
        let step = subject.and_then(|subject| self.proposals.get(&subject.seq).copied());
        let Some(step) = step.and_then(|step| self.steps.get_mut(step)) else { return };
        step.decision = get(event, "decision");
        step.conditions = get(event, "conditions").unwrap_or_default();
        step.rationale = get(event, "rationale").unwrap_or_default();
    }

    fn intended(&mut self, event: &Event) {
        let proposal = get::<EventRef>(event, "proposal");
        let Some(&at) = proposal.and_then(|proposal| self.proposals.get(&proposal.seq)) else {
            return;
        };
        let input: Option<Hash> = get(event, "normalized_input_hash");
        let input = event.artifacts.iter().find(|it| Some(it.artifact_hash) == input);
        let (Some(step), Some(input)) = (self.steps.get_mut(at), input) else { return };
        let intent = place(event);
        self.intents.insert(intent.seq, (at, step.attempts.len()));
        step.attempts.push(Attempt {
            action: get(event, "action_index").unwrap_or_default(),
            tool: get(event, "tool_name").unwrap_or_default(),
            intent,
            input: input.clone(),
            binding: get(event, "input_binding"),
            retry_of: get(event, "retry_of"),
            answer: artifact(event, OUTPUT_MEDIA),
            blocked: None,
            execution: None,
            end: None,
        });
    }

    fn attempt(&mut self, at: Option<(usize, usize)>) -> Option<&mut Attempt> {
        let (step, attempt) = at?;
        self.steps.get_mut(step)?.attempts.get_mut(attempt)
    }

    fn intent_reviewed(&mut self, event: &Event) {
        let subject = get::<EventRef>(event, "subject");
        let at = subject.and_then(|subject| self.intents.get(&subject.seq).copied());
        if let (Some(attempt), Some(ReviewDecision::Blocked)) =
            (self.attempt(at), get(event, "decision"))
        {
            let reasons: Vec<String> = get(event, "reasons").unwrap_or_default();
            attempt.blocked = Some(reasons.join("; "));
        }
    }

    fn started(&mut self, event: &Event) {
        let intent = get::<EventRef>(event, "intent");
        let at = intent.and_then(|intent| self.intents.get(&intent.seq).copied());
        if let Some(at) = at {
            self.executions.insert(place(event).seq, at);
        }
        if let Some(attempt) = self.attempt(at) {
            attempt.execution = Some(place(event));
        }
    }

    fn ended(&mut self, event: &Event) {
        let execution = get::<EventRef>(event, "execution");
        let at = execution.and_then(|execution| self.executions.get(&execution.seq).copied());
        let stream = |name: &str| {
            let hash: Option<Hash> = get(event, name);
            event.artifacts.iter().find(|it| Some(it.artifact_hash) == hash).cloned()
        };
        let end = AttemptEnd {
            completed: event.event_type == EventType::ToolExecutionCompleted,
            unknown: get::<String>(event, "outcome").as_deref() == Some("unknown"),
            reason: get(event, "reason"),
            exit_status: get(event, "exit_status"),
            stdout: stream("stdout"),
            stderr: stream("stderr"),
        };
        if let Some(attempt) = self.attempt(at) {
            attempt.end = Some(end);
        }
    }

    fn claimed(&mut self, event: &Event) {
        self.claims.push(ClaimNote {
            at: place(event),
            claim_id: get(event, "claim_id").unwrap_or_default(),
            text: get(event, "claim_text").unwrap_or_default(),
            kind: get(event, "claim_kind").unwrap_or_default(),
            executions: get(event, "executions").unwrap_or_default(),
            evidence: get(event, "evidence_artifacts").unwrap_or_default(),
            supersedes: get(event, "supersedes"),
            answer: artifact(event, OUTPUT_MEDIA),
            doubt: None,
        });
    }

    /// The step that makes up for this one, if one was proposed.
    pub(super) fn replacement(&self, step: usize) -> Option<usize> {
        self.steps.iter().position(|other| other.replaces == Some(step))
    }

    /// What became of a step, counting those that make up for it.
    pub(super) fn effective(&self, step: usize) -> Option<&Progress> {
        let mut at = step;
        // A chain of replacements is no longer than the list of steps.
        for _ in 0..=self.steps.len() {
            match self.replacement(at) {
                Some(next) => at = next,
                None => break,
            }
        }
        self.steps.get(at).map(|step| &step.progress)
    }

    /// The first step of this name.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.id == id)
    }
}

fn get<T: DeserializeOwned>(event: &Event, name: &str) -> Option<T> {
    event.payload.get(name).and_then(|value: &Value| T::deserialize(value).ok())
}

fn place(event: &Event) -> EventRef {
    EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap_or_default() }
}

fn artifact(event: &Event, media_type: &str) -> Option<Hash> {
    let found = event.artifacts.iter().find(|artifact| artifact.media_type == media_type);
    found.map(|artifact| artifact.artifact_hash)
}
