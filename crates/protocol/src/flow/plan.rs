//! What a flow is: its steps, what each waits for, its bounds.
//!
//! The plan stands in the first event, so that every decision can be replayed from the trace alone.
//! Which program an agent is, and what it is asked to do, is not part of it.

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
    /// More ways back than anybody could follow.
    #[error("too many steps wait for too many that lead back: let fewer steps lead back")]
    Entangled,
    /// A bound of nothing.
    #[error("step `{0}` has a bound of 0")]
    NoBound(String),
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
