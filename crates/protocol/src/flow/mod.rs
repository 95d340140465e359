//! Flows: which step comes next, what an answer leads to, when it is over.
//!
//! Agents say how it went and recommend; the plan decides. Notes never route. Whether an answer is
//! an envelope is decided by `format`, what becomes of its files on disk by whoever applies them.

mod admit;
mod apply;
mod command;
mod condition;
mod draft;
mod no_words;
mod plan;
mod refusal;
mod route;
mod scope;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_format::event::{Event, EventRef, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use serde::{Deserialize, Serialize};

use crate::{Act, Context, Refusal, State, roles};
pub use command::{FlowCommand, FlowOpening, StepReturn};
pub use condition::{FileAsked, FileFact, StepAsked, StepCondition};
pub use no_words::WordsForNo;
pub use plan::{
    ANSWER_BYTES_MAX, AgentStep, AnswerForm, ApprovalStep, FLOW_STEPS_MAX, FlowBudget, FlowPlan,
    FlowStep, OnEscalate, OnNo, OnRetry, PlanFault, RESERVED_STEPS, StepBy, WayOut,
};
pub use refusal::FlowRefusal;
pub use route::FlowRoute;
pub use scope::{FEATURE, PatternFault, PatternReach, WritePattern, check_feature};
pub use step::{
    AskedFor, Due, FileChange, Heard, OpenQuestion, PersonsWord, Said, StepPhase, StepRun,
};

use condition::CameTo;

/// How a flow ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowOutcome {
    /// Every step is done or was skipped.
    Completed,
    /// A bound was reached: iterations, calls or time.
    Exhausted,
    /// A step failed, or a person stopped it.
    Failed,
    /// An operator ended it.
    Aborted,
}

impl FlowOutcome {
    /// Its name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Exhausted => "exhausted",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
        }
    }
}

/// What the events of a flow come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowState {
    /// Whether it has begun.
    pub begun: bool,
    /// The workflow's name.
    pub workflow: String,
    /// The feature, once there is one.
    pub feature_id: Option<String>,
    /// The file that describes it, stored.
    pub definition: Option<Hash>,
    /// What it is.
    #[serde(with = "shared")]
    pub route: Arc<FlowRoute>,
    /// Where its steps stand, in the order of the plan.
    pub steps: Vec<StepRun>,
    /// Calls of agents so far.
    pub calls: u64,
    /// Milliseconds of agents that have ended.
    pub spent_millis: u64,
    /// What the flow wrote last at each path.
    pub written: BTreeMap<String, Written>,
    /// How it ended.
    pub outcome: Option<FlowOutcome>,
    /// Why, as it was recorded.
    pub summary: String,
}

/// What a step left at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Which step.
    pub step: usize,
    /// The bytes.
    pub hash: Hash,
}

/// A plan does not change, and states are cloned.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{FlowPlan, FlowRoute};

    pub(super) fn serialize<S: Serializer>(
        route: &Arc<FlowRoute>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        route.plan().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<FlowRoute>, D::Error> {
        let plan = FlowPlan::deserialize(deserializer)?;
        // What was never begun has no steps.
        if plan.steps.is_empty() {
            return Ok(Arc::default());
        }
        FlowRoute::try_from(plan).map(Arc::new).map_err(serde::de::Error::custom)
    }
}

impl FlowState {
    /// The steps that could run or be asked now, in the order of the plan; whether their conditions
    /// hold and the budget is left is not looked at.
    #[must_use]
    pub fn ready(&self) -> Vec<usize> {
        if self.outcome.is_some() {
            return Vec::new();
        }
        let waiting = |at: &usize| {
            matches!(self.phase(*at), Some(StepPhase::Waiting { .. })) && self.unmet(*at).is_none()
        };
        (0..self.steps.len()).filter(waiting).collect()
    }

    /// Of those, the ones for which the budget is left.
    fn able(&self) -> Vec<usize> {
        let unfed = self.used_up().is_some();
        let mut ready = self.ready();
        ready.retain(|at| !unfed || self.route.agent(*at).is_none());
        ready
    }

    /// Where a step stands.
    #[must_use]
    pub fn phase(&self, at: usize) -> Option<&StepPhase> {
        self.steps.get(at).map(|step| &step.phase)
    }

    /// Milliseconds of agents' time that nobody has reserved; nothing if there is no limit.
    #[must_use]
    pub fn millis_left(&self) -> Option<u64> {
        let all = self.route.plan().budget.time_seconds?.saturating_mul(1_000);
        let reserved = self.steps.iter().map(|step| match step.phase {
            StepPhase::Running { seconds, .. } => seconds.saturating_mul(1_000),
            _ => 0,
        });
        let used = reserved.fold(self.spent_millis, u64::saturating_add);
        Some(all.saturating_sub(used))
    }

    /// Milliseconds that the next call of a step may take at `now`; nothing if there is no limit. A call
    /// that was cut off gives back what it had reserved and did not use.
    #[must_use]
    pub fn millis_left_for(&self, at: usize, now: Timestamp) -> Option<u64> {
        let left = self.millis_left()?;
        Some(match self.phase(at) {
            Some(StepPhase::Running { seconds, since, .. }) => {
                let reserved = seconds.saturating_mul(1_000);
                let used = millis_between(*since, now).min(reserved);
                left.saturating_add(reserved - used)
            }
            _ => left,
        })
    }

    /// Whether a step's agent could be called at `now`, as far as the budget goes.
    #[must_use]
    pub fn can_pay(&self, at: usize, now: Timestamp) -> bool {
        let calls = self.route.plan().budget.calls;
        calls.is_none_or(|calls| self.calls < calls)
            && self.millis_left_for(at, now).is_none_or(|left| left >= 1_000)
    }

    /// Whether the budget is used up for good, whatever those who run give back.
    fn spent_up(&self) -> bool {
        let budget = self.route.plan().budget;
        let millis = budget.time_seconds.map(|seconds| seconds.saturating_mul(1_000));
        budget.calls.is_some_and(|calls| self.calls >= calls)
            || millis.is_some_and(|all| all.saturating_sub(self.spent_millis) < 1_000)
    }

    /// Of what nothing is left to call an agent.
    #[must_use]
    pub fn used_up(&self) -> Option<&'static str> {
        let calls = self.route.plan().budget.calls;
        if calls.is_some_and(|calls| self.calls >= calls) {
            return Some("calls");
        }
        self.millis_left().is_some_and(|left| left < 1_000).then_some("time")
    }

    /// Which iteration and attempt a step's next call is.
    #[must_use]
    pub fn turn(&self, at: usize) -> Option<(u64, u64)> {
        let step = self.steps.get(at)?;
        match step.phase {
            StepPhase::Waiting { due: Due::First | Due::Iteration } => {
                Some((step.iteration.saturating_add(1), 1))
            }
            StepPhase::Waiting { due: Due::Attempt } | StepPhase::Running { .. } => {
                Some((step.iteration.max(1), step.attempt.saturating_add(1)))
            }
            _ => None,
        }
    }

    /// The facts of files that decide whether a step runs.
    #[must_use]
    pub fn facts_needed(&self, at: usize) -> Vec<&FileAsked> {
        match (self.phase(at), self.route.step(at).and_then(|step| step.when.as_ref())) {
            (Some(StepPhase::Waiting { due: Due::First }), Some(when)) => when.files(),
            _ => Vec::new(),
        }
    }

    /// Whether a step that is ready is to run, by these facts; nothing if some are missing.
    #[must_use]
    pub fn runs(&self, at: usize, facts: &[FileFact]) -> Option<bool> {
        let step = self.steps.get(at)?;
        let when = self.route.step(at)?.when.as_ref();
        match (&step.phase, when) {
            // What runs again was asked for when it first ran.
            (StepPhase::Waiting { due: Due::First }, Some(when)) => {
                when.holds(&|id| self.came_to(id), facts)
            }
            _ => Some(true),
        }
    }

    fn came_to(&self, id: &str) -> CameTo<'_> {
        let Some(step) = self.route.place(id).and_then(|at| self.steps.get(at)) else {
            return CameTo::default();
        };
        let skipped = matches!(step.phase, StepPhase::Skipped);
        let said = step.said.as_ref().filter(|_| !skipped);
        CameTo {
            success: said.map(|said| said.success),
            recommendation: said.and_then(|said| said.recommendation),
            skipped,
            answer: step.answer.as_ref().filter(|_| !skipped),
        }
    }

    /// The first thing that a step needs or waits for and that is not done.
    fn unmet(&self, at: usize) -> Option<usize> {
        let done =
            |need: &usize| matches!(self.phase(*need), Some(StepPhase::Done | StepPhase::Skipped));
        let before = self.route.needs(at).iter().chain(self.route.waits(at));
        before.copied().find(|need| !done(need))
    }

    /// For each step, whether something may still come of it before the loop that begins at `to` goes
    /// round again.
    fn pending(&self, to: usize) -> Vec<bool> {
        let unfed = self.spent_up();
        let mut pending = vec![false; self.steps.len()];
        for &at in self.route.order() {
            let found = self.steps.get(at).is_some_and(|step| match &step.phase {
                StepPhase::Returning { to: other } => *other != to,
                StepPhase::Waiting { .. } => {
                    let fed = !unfed || self.route.agent(at).is_none();
                    let before = self.route.needs(at).iter().chain(self.route.waits(at));
                    let met = |need: &usize| {
                        let done =
                            matches!(self.phase(*need), Some(StepPhase::Done | StepPhase::Skipped));
                        done || pending.get(*need) == Some(&true)
                    };
                    fed && before.copied().all(|need| met(&need))
                }
                other => other.is_under_way(),
            });
            if let Some(it) = pending.get_mut(at) {
                *it = found;
            }
        }
        pending
    }

    /// Whether a step may run once more.
    fn has_iteration(&self, at: usize) -> bool {
        let bound = self.route.step(at).map_or(0, |step| step.max_iterations);
        self.steps.get(at).is_some_and(|step| step.iteration < bound)
    }

    /// The first of these steps that may not run once more. What is over stays over.
    fn spent(&self, among: &[bool]) -> Option<usize> {
        let open = |at: usize| {
            !matches!(self.phase(at), Some(StepPhase::Failed { .. } | StepPhase::Exhausted { .. }))
        };
        let marked = among.iter().enumerate().filter(|(_, marked)| **marked);
        marked.map(|(at, _)| at).find(|&at| open(at) && !self.has_iteration(at))
    }

    /// The open question of this id.
    #[must_use]
    pub fn question(&self, id: &str) -> Option<(usize, &OpenQuestion)> {
        self.questions().find(|(_, question)| question.event.event_id == id)
    }

    /// Every question that waits for a person, with its step.
    pub fn questions(&self) -> impl Iterator<Item = (usize, &OpenQuestion)> {
        let asked = |(at, step)| match step {
            &StepRun { phase: StepPhase::Asked(ref question), .. } => Some((at, question)),
            _ => None,
        };
        self.steps.iter().enumerate().filter_map(asked)
    }

    /// How the flow ends, if nothing is under way and nothing can be.
    #[must_use]
    pub fn due_outcome(&self) -> Option<FlowOutcome> {
        if self.steps.iter().any(|step| step.phase.is_under_way()) {
            return None;
        }
        if !self.able().is_empty() {
            return None;
        }
        let ready = self.ready();
        let all_done =
            self.steps.iter().all(|it| matches!(it.phase, StepPhase::Done | StepPhase::Skipped));
        let exhausted = self.steps.iter().any(|it| matches!(it.phase, StepPhase::Exhausted { .. }));
        Some(match (all_done, exhausted || !ready.is_empty()) {
            (true, _) => FlowOutcome::Completed,
            (_, true) => FlowOutcome::Exhausted,
            _ => FlowOutcome::Failed,
        })
    }

    /// Why it ended or does not go on, in one sentence.
    #[must_use]
    pub fn why(&self) -> String {
        if self.outcome.is_some() {
            return self.summary.clone();
        }
        let id = |at: usize| self.route.step(at).map(|step| step.id.as_str()).unwrap_or_default();
        let mut reasons: Vec<String> = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            match &step.phase {
                StepPhase::Exhausted { reason } | StepPhase::Failed { reason } => {
                    reasons.push(format!("step `{}`: {reason}", id(at)));
                }
                _ => {}
            }
        }
        if let (Some(what), Some(&at)) = (self.used_up(), self.ready().first()) {
            let step = id(at);
            reasons.push(format!("the budget of {what} was used up before step `{step}`"));
        }
        if reasons.len() > REASONS_MAX {
            let more = reasons.len() - REASONS_MAX;
            reasons.truncate(REASONS_MAX);
            reasons.push(format!("and {more} more"));
        }
        if reasons.is_empty() { "every step is done".to_owned() } else { reasons.join("; ") }
    }
}

/// Reasons that a summary names.
const REASONS_MAX: usize = 8;

impl State for FlowState {
    type Command = FlowCommand;
    const VERSION: u32 = 1;

    fn decide(&self, command: FlowCommand, context: &Context) -> Result<Vec<Act>, Refusal> {
        draft::acts(self, command, context)
    }

    fn admit(&self, event: &Event) -> Result<(), Refusal> {
        let found = event.event_type;
        match (self.begun, found == EventType::FlowStarted) {
            (false, false) => return Err(Refusal::WrongFirstEvent { found }),
            (true, true) => return Err(Refusal::BeganAlready { found }),
            _ => {}
        }
        roles::admit(TraceKind::Flow, event)?;
        let afterwards = matches!(found, EventType::ArtifactRedacted | EventType::SessionRecovered);
        if self.ended().is_some() && !afterwards {
            return Err(Refusal::Ended { found });
        }
        admit::body(self, event)
    }

    fn apply(&mut self, event: &Event) {
        apply::event(self, event);
    }

    fn ended(&self) -> Option<TraceStatus> {
        self.outcome.map(|outcome| match outcome {
            FlowOutcome::Completed => TraceStatus::Succeeded,
            FlowOutcome::Aborted => TraceStatus::Aborted,
            FlowOutcome::Exhausted | FlowOutcome::Failed => TraceStatus::Failed,
        })
    }
}

/// Milliseconds from one time to another, never below none.
fn millis_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or_default()
}

/// Whether a reference leads to this event.
fn is(reference: &EventRef, event: &EventRef) -> bool {
    reference.seq == event.seq && reference.event_id == event.event_id
}
