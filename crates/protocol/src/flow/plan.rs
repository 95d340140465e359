//! What a flow is: its steps, what each waits for, its bounds.
//!
//! The plan stands in the first event, so that every decision can be replayed from the trace alone.
//! Which program an agent is, and what it is asked to do, is not part of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::StepCondition;
use super::scope::WritePattern;

/// Steps of one flow.
pub const FLOW_STEPS_MAX: usize = 10_000;
/// The greatest number that a person can answer.
const NUMBER_MAX: f64 = 9_007_199_254_740_991.0;
/// Bytes of a person's answer.
pub const ANSWER_BYTES_MAX: usize = 16 << 10;

/// What a flow is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowPlan {
    /// The steps, in the order of the file: of those that could run, the first does.
    pub steps: Vec<FlowStep>,
    /// What all of them together may use.
    #[serde(default)]
    pub budget: FlowBudget,
    /// Seconds that a question of an agent waits for a person.
    #[serde(default = "day")]
    pub question_seconds: u64,
}

const fn day() -> u64 {
    86_400
}

/// What all steps together may use; nothing means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowBudget {
    /// Calls of agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Seconds of agents at work, added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_seconds: Option<u64>,
}

/// A step of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowStep {
    /// Its name.
    pub id: String,
    /// Steps that must be done or skipped before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What must hold then; otherwise the step is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<StepCondition>,
    /// How often it may run, all loops counted.
    pub max_iterations: u64,
    /// Who does it.
    #[serde(flatten)]
    pub by: StepBy,
}

/// Who does a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepBy {
    /// An agent.
    Agent(AgentStep),
    /// A person, who is asked something.
    Approval(ApprovalStep),
}

/// A step that an agent does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStep {
    /// The files that it may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<WritePattern>,
    /// What runs again when it recommends that.
    pub on_retry: OnRetry,
    /// What happens when it needs somebody else.
    pub on_escalate: OnEscalate,
    /// How often it may fail to answer in one iteration.
    pub attempts: u64,
    /// Seconds that one call may take.
    pub time_seconds: u64,
    /// Whether it gives the flow its feature.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scaffold: bool,
}

/// A step that asks a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalStep {
    /// What is asked.
    pub question: String,
    /// What can be answered.
    pub answers: AnswerForm,
    /// Choices that mean no.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reject: Vec<String>,
    /// Seconds that the question waits.
    pub deadline_seconds: u64,
    /// Seconds after which the person is reminded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reminder_seconds: Option<u64>,
    /// What counts if nobody answers; without it, no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What happens on a no.
    pub on_no: OnNo,
}

/// What a person can answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerForm {
    /// True or false.
    YesNo,
    /// Some text.
    Text,
    /// A number.
    Number,
    /// One of these.
    Choice(Vec<String>),
    /// What becomes of a step that cannot go on by itself: a decision, and words for the agent.
    Way,
}

impl AnswerForm {
    /// Why `answer` is none of this form, as the end of a sentence.
    pub fn check(&self, answer: &Value) -> Result<(), String> {
        let length = answer.to_string().len();
        if length > ANSWER_BYTES_MAX {
            return Err(format!("is {length} bytes long, the limit is {ANSWER_BYTES_MAX}"));
        }
        match (self, answer) {
            (Self::YesNo, Value::Bool(_)) => Ok(()),
            (Self::Number, Value::Number(number)) => match number.as_f64() {
                Some(number) if number.abs() <= NUMBER_MAX => Ok(()),
                _ => Err("is a number that not every reader takes alike".to_owned()),
            },
            (Self::Text, Value::String(text)) if !text.trim().is_empty() => Ok(()),
            (Self::Choice(options), Value::String(text)) if options.contains(text) => Ok(()),
            (Self::Way, answer) => WayOut::read(answer).map(drop),
            (Self::YesNo, _) => Err("must be yes or no".to_owned()),
            (Self::Number, _) => Err("must be a number".to_owned()),
            (Self::Text, _) => Err("must be a text".to_owned()),
            (Self::Choice(options), _) => Err(format!("must be one of: {}", options.join(", "))),
        }
    }
}

/// What a person decides about a step that cannot go on by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum WayOut {
    /// Its agent is asked again, and told this.
    Retry {
        /// What the agent is told.
        answer: Value,
    },
    /// What there is will do.
    Continue {},
    /// The step has failed.
    Stop {},
}

impl WayOut {
    /// The decision that an answer holds.
    pub fn read(answer: &Value) -> Result<Self, String> {
        Self::deserialize(answer)
            .map_err(|_| "must be a decision: retry with an answer, continue, or stop".to_owned())
    }

    /// The same as it is recorded.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// What runs again when an agent recommends that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum OnRetry {
    /// The step itself.
    Itself,
    /// Nothing: the step is done, and conditions can ask what it recommended.
    Continue,
    /// This step, and everything after it.
    Step(String),
}

impl From<String> for OnRetry {
    fn from(word: String) -> Self {
        match word.as_str() {
            "self" => Self::Itself,
            "continue" => Self::Continue,
            _ => Self::Step(word),
        }
    }
}

impl From<OnRetry> for String {
    fn from(word: OnRetry) -> Self {
        match word {
            OnRetry::Itself => "self".to_owned(),
            OnRetry::Continue => "continue".to_owned(),
            OnRetry::Step(step) => step,
        }
    }
}

/// What happens when an agent needs somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnEscalate {
    /// A person is asked.
    Ask,
    /// The step is done, and conditions can ask what it recommended.
    Continue,
    /// The step has failed.
    Stop,
}

/// What happens on a no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum OnNo {
    /// The step has failed.
    Stop,
    /// The step is done, and conditions can ask what was answered.
    Continue,
    /// This step runs again, and everything after it.
    Step(String),
}

impl From<String> for OnNo {
    fn from(word: String) -> Self {
        match word.as_str() {
            "stop" => Self::Stop,
            "continue" => Self::Continue,
            _ => Self::Step(word),
        }
    }
}

impl From<OnNo> for String {
    fn from(word: OnNo) -> Self {
        match word {
            OnNo::Stop => "stop".to_owned(),
            OnNo::Continue => "continue".to_owned(),
            OnNo::Step(step) => step,
        }
    }
}

/// Words that lead somewhere without being a step, so no step is called so.
pub const RESERVED_STEPS: [&str; 3] = ["self", "continue", "stop"];

/// Why a plan cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// None, or too many.
    #[error("a flow has 1 to {FLOW_STEPS_MAX} steps, found {0}")]
    Steps(usize),
    /// Two steps of one name.
    #[error("`{0}` is the id of two steps")]
    Twice(String),
    /// A word that means something else.
    #[error("no step can be called `{0}`")]
    Reserved(String),
    /// A step that is not there.
    #[error("step `{step}` names the step `{named}`, which is not there")]
    Unknown {
        /// Which step.
        step: String,
        /// What it names.
        named: String,
    },
    /// Steps that wait for each other.
    #[error("step `{0}` waits for itself")]
    Circle(String),
    /// A way back to something that does not come before.
    #[error("step `{step}` leads back to `{to}`, which does not come before it")]
    NotBefore {
        /// Which step.
        step: String,
        /// Where it leads.
        to: String,
    },
    /// Two loops of which neither lies within the other.
    #[error(
        "the loop that step `{0}` closes overlaps another one: let the step that closes one need \
         the step that closes the other"
    )]
    Overlap(String),
    /// A bound of nothing.
    #[error("step `{0}` has a bound of 0")]
    NoBound(String),
}

/// A plan whose references all lead somewhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FlowPlan", into = "FlowPlan")]
pub struct FlowRoute {
    plan: FlowPlan,
    index: BTreeMap<String, usize>,
    needs: Vec<Vec<usize>>,
    followers: Vec<Vec<usize>>,
    /// Steps for which each waits although it does not need them: those that may still send back
    /// what it needs.
    waits: Vec<Vec<usize>>,
    loops: BTreeMap<usize, FlowLoop>,
    /// The steps so that each comes after what it needs and waits for.
    order: Vec<usize>,
}

/// What may run again together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FlowLoop {
    /// The steps that may lead back.
    pub(super) closers: Vec<usize>,
    /// The steps between the target and those that may lead back to it, with both.
    pub(super) body: Vec<bool>,
}

impl From<FlowRoute> for FlowPlan {
    fn from(route: FlowRoute) -> Self {
        route.plan
    }
}

impl TryFrom<FlowPlan> for FlowRoute {
    type Error = PlanFault;

    fn try_from(plan: FlowPlan) -> Result<Self, PlanFault> {
        if plan.steps.is_empty() || plan.steps.len() > FLOW_STEPS_MAX {
            return Err(PlanFault::Steps(plan.steps.len()));
        }
        let mut index = BTreeMap::new();
        for (at, step) in plan.steps.iter().enumerate() {
            if RESERVED_STEPS.contains(&step.id.as_str()) {
                return Err(PlanFault::Reserved(step.id.clone()));
            }
            if index.insert(step.id.clone(), at).is_some() {
                return Err(PlanFault::Twice(step.id.clone()));
            }
            let attempts = match &step.by {
                StepBy::Agent(agent) => agent.attempts.min(agent.time_seconds),
                StepBy::Approval(_) => 1,
            };
            if step.max_iterations == 0 || attempts == 0 {
                return Err(PlanFault::NoBound(step.id.clone()));
            }
        }
        let mut route = Self {
            needs: vec![Vec::new(); plan.steps.len()],
            followers: vec![Vec::new(); plan.steps.len()],
            waits: vec![Vec::new(); plan.steps.len()],
            loops: BTreeMap::new(),
            order: Vec::new(),
            plan,
            index,
        };
        route.link()?;
        route.sorted().map_err(PlanFault::Circle)?;
        route.find_loops()?;
        route.order = route.sorted().map_err(PlanFault::Overlap)?;
        Ok(route)
    }
}

impl FlowRoute {
    /// The plan.
    #[must_use]
    pub const fn plan(&self) -> &FlowPlan {
        &self.plan
    }

    /// The step at this place.
    #[must_use]
    pub fn step(&self, at: usize) -> Option<&FlowStep> {
        self.plan.steps.get(at)
    }

    /// The agent's part of the step at this place, if an agent does it.
    #[must_use]
    pub fn agent(&self, at: usize) -> Option<&AgentStep> {
        match &self.step(at)?.by {
            StepBy::Agent(agent) => Some(agent),
            StepBy::Approval(_) => None,
        }
    }

    /// Where the step of this name stands.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// The steps that the one at this place needs, in the order in which it names them.
    #[must_use]
    pub fn needs(&self, at: usize) -> &[usize] {
        self.needs.get(at).map_or(&[], Vec::as_slice)
    }

    /// The steps that may still send back what the one at this place needs.
    #[must_use]
    pub fn waits(&self, at: usize) -> &[usize] {
        self.waits.get(at).map_or(&[], Vec::as_slice)
    }

    /// The steps so that each comes after what it needs and waits for.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The step of a loop that may run least often, and how often: as often the loop goes round.
    #[must_use]
    pub fn bound_of_loop(&self, from: usize) -> Option<(&str, u64)> {
        let body = &self.loops.get(&from)?.body;
        let steps = self.plan.steps.iter().zip(body).filter(|(_, within)| **within);
        let least = steps.min_by_key(|(step, _)| step.max_iterations)?.0;
        Some((&least.id, least.max_iterations))
    }

    /// The loop that begins at this step.
    pub(super) fn loop_from(&self, at: usize) -> Option<&FlowLoop> {
        self.loops.get(&at)
    }

    /// The step itself and everything that comes after it.
    #[must_use]
    pub fn from_on(&self, at: usize) -> Vec<bool> {
        reach(self.followers.len(), at, |at| self.followers.get(at).into_iter().flatten())
    }

    /// Everything that comes before the step, and the step itself.
    #[must_use]
    pub fn up_to(&self, at: usize) -> Vec<bool> {
        reach(self.needs.len(), at, |at| self.needs(at))
    }

    fn known(&self, step: &str, named: &str) -> Result<usize, PlanFault> {
        self.place(named)
            .ok_or_else(|| PlanFault::Unknown { step: step.to_owned(), named: named.to_owned() })
    }

    fn link(&mut self) -> Result<(), PlanFault> {
        for (at, step) in self.plan.steps.iter().enumerate() {
            for need in &step.needs {
                let before = self.known(&step.id, need)?;
                if let Some(needs) = self.needs.get_mut(at) {
                    needs.push(before);
                }
                if let Some(followers) = self.followers.get_mut(before) {
                    followers.push(at);
                }
            }
            for named in step.when.iter().flat_map(StepCondition::steps) {
                self.known(&step.id, named)?;
            }
        }
        Ok(())
    }

    /// The steps so that each comes after what it needs and waits for; or one that waits for itself.
    fn sorted(&self) -> Result<Vec<usize>, String> {
        let count = self.plan.steps.len();
        let mut behind: Vec<Vec<usize>> = self.followers.clone();
        let mut open: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        for (at, waits) in self.waits.iter().enumerate() {
            for &other in waits {
                if let (Some(behind), Some(open)) = (behind.get_mut(other), open.get_mut(at)) {
                    behind.push(at);
                    *open += 1;
                }
            }
        }
        let mut free: Vec<usize> =
            open.iter().enumerate().filter(|(_, left)| **left == 0).map(|(at, _)| at).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(at) = free.pop() {
            order.push(at);
            for &follower in behind.get(at).into_iter().flatten() {
                if let Some(left) = open.get_mut(follower) {
                    *left -= 1;
                    if *left == 0 {
                        free.push(follower);
                    }
                }
            }
        }
        if order.len() == count {
            return Ok(order);
        }
        let stuck = |at: &usize| open.get(*at).is_some_and(|left| *left > 0);
        // Of the steps that are stuck, one that closes a loop says most.
        let closes = (0..count)
            .filter(stuck)
            .find(|at| self.step(*at).is_some_and(|step| step.way_back().is_some()));
        let found = closes.or_else(|| (0..count).find(stuck)).and_then(|at| self.step(at));
        Err(found.map(|step| step.id.clone()).unwrap_or_default())
    }

    /// Which steps may run again together, and what waits until they do not.
    fn find_loops(&mut self) -> Result<(), PlanFault> {
        let mut closers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, step) in self.plan.steps.iter().enumerate() {
            let Some(to) = step.way_back() else { continue };
            let target = self.known(&step.id, to)?;
            if target == at {
                continue;
            }
            if self.up_to(at).get(target) != Some(&true) {
                let (step, to) = (step.id.clone(), to.to_owned());
                return Err(PlanFault::NotBefore { step, to });
            }
            closers.entry(target).or_default().push(at);
        }
        for (target, closers) in closers {
            let after = self.from_on(target);
            let mut body = vec![false; after.len()];
            for &closer in &closers {
                let before = self.up_to(closer);
                for (it, (after, before)) in body.iter_mut().zip(after.iter().zip(before)) {
                    *it |= *after && before;
                }
            }
            let within = |at: &usize| body.get(*at) == Some(&true);
            for (at, needs) in self.needs.iter().enumerate() {
                // What follows those waits for them, and so for the loop.
                if !within(&at)
                    && needs.iter().any(within)
                    && let Some(waits) = self.waits.get_mut(at)
                {
                    waits.extend(closers.iter().filter(|closer| !needs.contains(closer)));
                }
            }
            self.loops.insert(target, FlowLoop { closers, body });
        }
        self.wait_for_outer_loops();
        Ok(())
    }

    /// What waits for a step that may lead back also waits for those that may let that step run again,
    /// but for those that come after the one that waits.
    fn wait_for_outer_loops(&mut self) {
        let loops = std::mem::take(&mut self.loops);
        let mut found = true;
        while std::mem::take(&mut found) {
            for FlowLoop { closers, body } in loops.values() {
                let within = |at: &usize| body.get(*at) == Some(&true);
                let outside = |at: &usize| {
                    !within(at)
                        && self.waits(*at).iter().any(within)
                        && !closers.iter().all(|closer| self.follows(*at, *closer))
                };
                let outside: Vec<usize> = (0..self.waits.len()).filter(outside).collect();
                if outside.is_empty() {
                    continue;
                }
                for &closer in closers {
                    let before = self.waited_for(closer);
                    for &at in &outside {
                        if self.follows(at, closer) || before.get(at) == Some(&true) {
                            continue;
                        }
                        if let Some(waits) = self.waits.get_mut(at) {
                            waits.push(closer);
                            found = true;
                        }
                    }
                }
            }
        }
        self.loops = loops;
    }

    /// Whether the step at this place needs the other one or waits for it.
    fn follows(&self, at: usize, other: usize) -> bool {
        self.waits(at).contains(&other) || self.needs(at).contains(&other)
    }

    /// For each step, whether the one at this place needs it or waits for it, or is it.
    fn waited_for(&self, at: usize) -> Vec<bool> {
        reach(self.needs.len(), at, |at| self.needs(at).iter().chain(self.waits(at)))
    }
}

impl FlowStep {
    /// The step to which this one may lead back.
    #[must_use]
    pub fn way_back(&self) -> Option<&str> {
        match &self.by {
            StepBy::Agent(AgentStep { on_retry: OnRetry::Step(to), .. })
            | StepBy::Approval(ApprovalStep { on_no: OnNo::Step(to), .. }) => Some(to),
            _ => None,
        }
    }
}

/// For each of `count` steps, whether these edges lead to it from the one at `from`, or it is that.
fn reach<'a, I: IntoIterator<Item = &'a usize>>(
    count: usize,
    from: usize,
    edges: impl Fn(usize) -> I,
) -> Vec<bool> {
    let mut reached = vec![false; count];
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        match reached.get_mut(at) {
            Some(met) if !*met => *met = true,
            _ => continue,
        }
        open.extend(edges(at));
    }
    reached
}
