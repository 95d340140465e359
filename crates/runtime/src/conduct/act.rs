//! Carrying one step out: intents, their reviews, questions, tools and what they leave.

use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_format::hash::Hash;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_gate::guard;
use countersign_protocol::session::{ExecutionEnd, Intent, Outcome, Redaction, SessionCommand};
use countersign_protocol::{Refusal, ReviewDecision};

use super::board::{Attempt, Progress};
use super::gating::stricter;
use super::{Conductor, Halt, LOOK_EVERY, redactions};
use crate::agents::{IntentReview, PlannedAction, Request, StepBrief, proposed};
use crate::secrets::Counts;
use crate::store::Ledgers as _;
use crate::tools::{self, ToolCall, ToolOutcome};

/// How often an action is tried again, whatever an agent says.
const RETRIES_MAX: u32 = 10;
/// Actions of one step.
const ACTIONS_MAX: usize = 20_000;
const INPUT_MEDIA: &str = "application/json";
const OUTPUT_MEDIA: &str = "application/octet-stream";
const TEXT_MEDIA: &str = "text/plain";

/// Why a person is asked after an interruption.
const OUTCOME_UNKNOWN: &str =
    "the same was under way when the run was interrupted, and how that ended is not known";

/// Where an action stands.
enum Standing {
    /// It completed.
    Done,
    /// It failed for good, for this reason.
    Lost(Progress),
    /// It is to be tried: with the intent that is open, or with a new one that repeats this.
    Try { open: Option<Box<Attempt>>, retry_of: Option<EventRef>, turn: Turn },
}

/// An intent with everything that is needed to run it.
struct Ready<'a> {
    step: &'a StepBrief,
    action: &'a PlannedAction,
    intent: EventRef,
    input: Hash,
    binding: Option<Hash>,
    turn: Turn,
}

/// Which of the tries that an action has this one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Another may follow, or there was never to be more than one.
    Any,
    /// The last of several: if it fails, the action is given up.
    LastOfSeveral,
}

impl Conductor {
    /// Carries a step out as far as it goes.
    pub(super) fn carry_out(&self, at: usize) -> Result<Progress, Halt> {
        let Some(brief) = self.brief(at) else {
            return Ok(Progress::Failed("what was planned is not known".to_owned()));
        };
        let (conditions, answer) = self.board(|board| {
            let step = board.steps.get(at);
            let conditions = step.map(|step| step.conditions.clone()).unwrap_or_default();
            (conditions, step.and_then(|step| step.attempts.first()).and_then(|it| it.answer))
        });
        let request = Request::Act { step: &brief, conditions: &conditions };
        let (actions, mut artifacts): (Vec<PlannedAction>, _) =
            self.ask_or_recall(&request, answer)?;
        if actions.is_empty() {
            return Ok(Progress::Failed("the executor did nothing".to_owned()));
        }
        if actions.len() > ACTIONS_MAX {
            let reason = "wants more actions than a step may have";
            return Err(self.unusable(Role::Executor, reason, artifacts));
        }
        for (index, action) in (0_u64..).zip(&actions) {
            let progress = self.perform(at, &brief, index, action, &mut artifacts)?;
            if progress != Progress::Done {
                return Ok(progress);
            }
        }
        Ok(Progress::Done)
    }

    /// Tries an action until it completes or is lost.
    fn perform(
        &self,
        at: usize,
        step: &StepBrief,
        index: u64,
        action: &PlannedAction,
        artifacts: &mut Vec<ArtifactDescriptor>,
    ) -> Result<Progress, Halt> {
        if let Err(fault) = action.call.check() {
            return Ok(Progress::Failed(format!("action {index} cannot be carried out: {fault}")));
        }
        loop {
            self.check()?;
            let (open, retry_of, turn) = match self.standing(at, index, action) {
                Standing::Done => return Ok(Progress::Done),
                Standing::Lost(progress) => return Ok(progress),
                Standing::Try { open, retry_of, turn } => (open, retry_of, turn),
            };
            let unknown = self.unknown_twin(action)?;
            let must_ask = unknown.as_ref().filter(|(_, idempotent)| !idempotent);
            let must_ask = must_ask.map(|_| OUTCOME_UNKNOWN);
            let twin = unknown.map(|(execution, _)| execution);
            // An intent from before the interruption cannot be the one that repeats.
            let open = open.filter(|attempt| twin.is_none() || attempt.retry_of == twin);
            let retry_of = twin.or(retry_of);
            let mut ready = match open {
                Some(attempt) => Ready {
                    step,
                    action,
                    intent: attempt.intent,
                    input: attempt.input.artifact_hash,
                    binding: attempt.binding,
                    turn,
                },
                None => self.intend(step, index, action, retry_of, std::mem::take(artifacts))?,
            };
            ready.turn = turn;
            if self.permitted(&ready, must_ask)? {
                self.execute(&ready)?;
            }
        }
    }

    /// What the trace says of an action so far.
    fn standing(&self, at: usize, index: u64, action: &PlannedAction) -> Standing {
        self.board(|board| {
            let attempts = board.steps.get(at).map(|step| step.attempts.as_slice());
            let attempts: Vec<&Attempt> = attempts
                .unwrap_or_default()
                .iter()
                .rev()
                // Behind it are the actions that came later, in an earlier run.
                .skip_while(|attempt| attempt.action > index)
                .take_while(|attempt| attempt.action == index)
                .collect();
            let Some(last) = attempts.first() else {
                return Standing::Try { open: None, retry_of: None, turn: Turn::Any };
            };
            let failures = attempts
                .iter()
                .filter_map(|attempt| attempt.end.as_ref())
                .filter(|end| !end.unknown && !end.completed)
                .count() as u64;
            let retries = u64::from(action.retries.min(RETRIES_MAX));
            let turn = match retries > 0 && failures >= retries {
                true => Turn::LastOfSeveral,
                false => Turn::Any,
            };
            if let Some(reason) = &last.blocked {
                return Standing::Lost(Progress::Blocked(reason.clone()));
            }
            let Some(end) = &last.end else {
                let open = Some(Box::new((*last).clone()));
                return Standing::Try { open, retry_of: None, turn };
            };
            if end.completed {
                return Standing::Done;
            }
            if !end.unknown && failures > retries {
                let reason = end.reason.clone().unwrap_or_else(|| "it failed".to_owned());
                return Standing::Lost(Progress::Failed(reason));
            }
            Standing::Try { open: None, retry_of: last.execution.clone(), turn }
        })
    }

    /// The execution of unknown outcome that running this would repeat, and whether that does no harm.
    fn unknown_twin(&self, action: &PlannedAction) -> Result<Option<(EventRef, bool)>, Halt> {
        if self.session.look(|state| state.unknown.is_empty())? {
            return Ok(None);
        }
        let input = Hash::of(&self.redactor.redact(&action.call.to_bytes()).bytes);
        Ok(self.session.look(|state| {
            let twin = state.unknown.iter().rev().find(|(_, unknown)| {
                unknown.tool_name == action.call.name() && unknown.input == input
            });
            let (&seq, unknown) = twin?;
            let event_id = state.ended_executions.get(&seq)?.event_id.clone();
            Some((EventRef { event_id, seq }, unknown.idempotent))
        })?)
    }

    /// Signs an intent.
    fn intend<'a>(
        &self,
        step: &'a StepBrief,
        index: u64,
        action: &'a PlannedAction,
        retry_of: Option<EventRef>,
        artifacts: Vec<ArtifactDescriptor>,
    ) -> Result<Ready<'a>, Halt> {
        let raw = action.call.to_bytes();
        let (input, redactions) = self.keep(&raw, INPUT_MEDIA)?;
        // The stored bytes are not those that run: what is approved is bound all the same.
        let binding = match redactions.is_empty() {
            true => None,
            false => Some(self.bind(&raw)?),
        };
        let hash = input.artifact_hash;
        let network = self.task.sandbox.network;
        let intent = Intent {
            proposal: step.proposal.clone(),
            tool_name: action.call.name().to_owned(),
            action_type: action.call.action_type(),
            paths: self.clean_all(&action.call.paths()),
            input,
            input_form: "canonical".to_owned(),
            risk: guard::risk(&proposed(action, network)),
            justification: self.justification(step, action),
            action_index: index,
            acknowledged_conditions: self.clean_all(&action.acknowledged_conditions),
            retry_of,
            idempotent: action.idempotent,
            input_binding: binding,
            redactions,
            artifacts,
        };
        let intent = self.record(Role::Executor, SessionCommand::Intend(Box::new(intent)))?;
        Ok(Ready { step, action, intent, input: hash, binding, turn: Turn::Any })
    }

    fn bind(&self, raw: &[u8]) -> Result<Hash, Halt> {
        Ok(self.session.workspace().bind_input(self.session.id(), raw)?)
    }

    /// Whether an intent may run: by the critic's word, by a person's, and on this machine.
    fn permitted(&self, ready: &Ready<'_>, must_ask: Option<&str>) -> Result<bool, Halt> {
        let known = self.session.look(|state| {
            state.intents.get(&ready.intent.seq).map(|intent| (intent.review, intent.deadline))
        })?;
        let Some((review, deadline)) = known else {
            self.catch_up()?;
            return Ok(false);
        };
        let decision = match review {
            Some((decision, _)) => (decision, deadline),
            None => self.review_intent(ready, must_ask)?,
        };
        let approved = match decision {
            (ReviewDecision::Approved, _) => true,
            (ReviewDecision::Blocked, _) => false,
            (ReviewDecision::Asked, deadline) => self.await_answer(ready, deadline)?,
        };
        if !approved {
            return Ok(false);
        }
        match self.toolbox.isolation(&ready.action.call) {
            Ok(_) => Ok(true),
            Err(refusal) => {
                self.block(ready, vec![self.clean(&refusal.to_string())])?;
                Ok(false)
            }
        }
    }

    /// The gate's and the critic's word, recorded.
    fn review_intent(
        &self,
        ready: &Ready<'_>,
        must_ask: Option<&str>,
    ) -> Result<(ReviewDecision, Option<Timestamp>), Halt> {
        let mut gated = self.gated(ready.step, ready.action)?;
        let denied = gated.as_ref().is_some_and(|it| it.decision == ReviewDecision::Blocked);
        // What the gate refuses nobody need be asked about.
        let (review, mut artifacts) = match denied {
            true => (IntentReview { decision: ReviewDecision::Blocked, reasons: vec![] }, vec![]),
            false => {
                let (step, action) = (ready.step, ready.action);
                self.ask(&Request::ReviewIntent { step, action, must_ask })?
            }
        };
        // Whatever the critic says, a tool whose outcome is not known is for a person.
        let mut decision = match must_ask {
            Some(_) => stricter(review.decision, ReviewDecision::Asked),
            None => review.decision,
        };
        let mut reasons = self.clean_all(&review.reasons);
        if let (true, Some(reason)) = (reasons.is_empty(), must_ask) {
            reasons.push(reason.to_owned());
        }
        if let Some(gated) = &mut gated {
            decision = stricter(decision, gated.decision);
            // What speaks for it is not why it is refused or asked about.
            if review.decision == ReviewDecision::Approved && must_ask.is_none() {
                reasons.retain(|_| decision == ReviewDecision::Approved);
            }
            // The critic's guards are the gate's: both may say the same.
            gated.reasons.retain(|reason| !reasons.contains(reason));
            reasons.append(&mut gated.reasons);
            artifacts.append(&mut gated.basis);
        }
        let deadline = (decision == ReviewDecision::Asked).then(|| {
            let seconds = i64::try_from(self.task.policy.question_seconds).unwrap_or(i64::MAX);
            let millis = seconds.saturating_mul(1_000);
            self.session.workspace().now().plus_millis(millis)
        });
        let command = SessionCommand::ReviewIntent {
            by: Role::Critic,
            subject: ready.intent.clone(),
            decision,
            reasons,
            gate: gated.map(|gated| Box::new(gated.record)),
            deadline,
            channel: None,
            artifacts,
        };
        self.record(Role::Critic, command)?;
        Ok((decision, deadline))
    }

    fn block(&self, ready: &Ready<'_>, reasons: Vec<String>) -> Result<(), Halt> {
        let command = SessionCommand::ReviewIntent {
            by: Role::Critic,
            subject: ready.intent.clone(),
            decision: ReviewDecision::Blocked,
            reasons,
            gate: None,
            deadline: None,
            channel: None,
            artifacts: Vec::new(),
        };
        match self.record(Role::Critic, command) {
            // Somebody else has blocked it.
            Err(Halt::Refused(_, Refusal::NoSuchReference { .. })) => self.catch_up(),
            other => other.map(drop),
        }
    }

    /// Waits until a person has said yes or no, or has let the time go by, which is a no.
    fn await_answer(&self, ready: &Ready<'_>, deadline: Option<Timestamp>) -> Result<bool, Halt> {
        let store = self.session.workspace().store();
        let mut seen = 0;
        loop {
            self.catch_up()?;
            self.check()?;
            let review = self
                .session
                .look(|state| state.intents.get(&ready.intent.seq).map(|intent| intent.review))?;
            match review {
                None => return Ok(false),
                Some(Some((ReviewDecision::Approved, Role::Operator))) => return Ok(true),
                Some(_) => {}
            }
            let now = self.session.workspace().now();
            if deadline.is_none_or(|deadline| now >= deadline) {
                let late = deadline.map_or_else(String::new, |at| format!(" before {at}"));
                self.block(ready, vec![format!("nobody answered{late}")])?;
                continue;
            }
            seen = store.wait(seen, LOOK_EVERY);
        }
    }

    /// Runs the tool of an intent and records what it left.
    fn execute(&self, ready: &Ready<'_>) -> Result<(), Halt> {
        let raw = ready.action.call.to_bytes();
        let stored = self.redactor.redact(&raw);
        let bound = match ready.binding {
            Some(binding) => self.bind(&raw)? == binding,
            None => true,
        };
        // What runs is what was approved, to the byte.
        if !bound || Hash::of(&stored.bytes) != ready.input {
            let reason = "what would run is not what the intent says".to_owned();
            return self.block(ready, vec![reason]);
        }
        let isolation = match self.toolbox.isolation(&ready.action.call) {
            Ok(isolation) => serde_json::to_value(&isolation).unwrap_or_default(),
            Err(refusal) => return self.block(ready, vec![self.clean(&refusal.to_string())]),
        };
        let command =
            SessionCommand::Start { intent: ready.intent.clone(), input: ready.input, isolation };
        let execution = match self.record(Role::Executor, command) {
            Ok(execution) => execution,
            Err(Halt::Refused(_, refusal @ Refusal::TooManyCalls { .. })) => {
                return self.block(ready, vec![refusal.to_string()]);
            }
            // A person took the approval back.
            Err(Halt::Refused(_, Refusal::NoSuchReference { .. })) => return self.catch_up(),
            Err(halt) => return Err(halt),
        };
        let outcome = self.toolbox.run(&ready.action.call, &self.stop);
        self.ended(ready, execution, outcome)
    }

    fn ended(
        &self,
        ready: &Ready<'_>,
        execution: EventRef,
        outcome: ToolOutcome,
    ) -> Result<(), Halt> {
        let exit_status = outcome.exit_status();
        let success = match outcome.ended {
            tools::Ended::Exited(_) | tools::Ended::Signalled(_) => {
                exit_status.is_some_and(|status| ready.action.success.contains(&status))
            }
            _ => false,
        };
        // File tools say in one line what is wrong; programs may say anything.
        let said = String::from_utf8_lossy(&outcome.stderr.bytes);
        let reason = match (&ready.action.call, said.trim()) {
            (ToolCall::Exec { .. }, _) | (_, "") => self.clean(&outcome.reason()),
            (_, said) => self.clean(said),
        };
        let mut counts = Counts::new();
        let mut store = |bytes: &[u8]| -> Result<ArtifactDescriptor, Halt> {
            let redacted = self.redactor.redact(bytes);
            for (rule, count) in &redacted.counts {
                *counts.entry(rule).or_default() += count;
            }
            let text = std::str::from_utf8(&redacted.bytes).is_ok();
            let media = if text { TEXT_MEDIA } else { OUTPUT_MEDIA };
            Ok(self.session.workspace().put_artifact(&redacted.bytes, media)?)
        };
        let stdout = store(&outcome.stdout.bytes)?;
        let stderr = store(&outcome.stderr.bytes)?;
        let redactions: Vec<Redaction> = redactions(&counts);
        let ended = ExecutionEnd {
            execution,
            outcome: if success { Outcome::Completed } else { Outcome::Failed(reason) },
            exit_status,
            stdout: Some(stdout),
            stderr: Some(stderr),
            dropped_bytes: outcome.stdout.dropped.saturating_add(outcome.stderr.dropped),
            elapsed_ms: Some(u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX)),
            redactions,
            given_up: !success && ready.turn == Turn::LastOfSeveral,
        };
        self.record(Role::Executor, SessionCommand::End(Box::new(ended))).map(drop)
    }
}
