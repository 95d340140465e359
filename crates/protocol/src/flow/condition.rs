//! Conditions of steps: what other steps came to, and facts of files.
//!
//! Facts are looked up by whoever runs the flow and recorded with the decision that they led to, so
//! that it can be replayed. A fact that could not be had makes what asks for it false.

use countersign_format::envelope::Recommendation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What must hold for a step to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepCondition {
    /// All of these.
    All(Vec<Self>),
    /// One of these.
    Any(Vec<Self>),
    /// Not this.
    Not(Box<Self>),
    /// What a step before came to.
    Step(StepAsked),
    /// A fact of a file.
    File(FileAsked),
}

/// What is asked of a step; everything that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepAsked {
    /// Which.
    pub id: String,
    /// Whether it did its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// What it recommended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
    /// Whether it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<bool>,
    /// What a person answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// What is asked of a file; everything that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FileAsked {
    /// Which, below the workspace root. `{feature_id}` stands for the feature.
    pub path: String,
    /// Whether it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// A place in its JSON (RFC 6901).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// What stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// The least number that may stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The greatest number that may stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
}

/// A fact of a file, as it was when somebody looked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileFact {
    /// Which file, as the condition names it.
    pub path: String,
    /// The place in its JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Whether it is there, as a file.
    pub exists: bool,
    /// What stands at the place: a text, a number, true, false or null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Why there is no value although there is a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// What a step came to, as conditions ask for it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CameTo<'a> {
    pub(super) success: Option<bool>,
    pub(super) recommendation: Option<Recommendation>,
    pub(super) skipped: bool,
    pub(super) answer: Option<&'a Value>,
}

impl StepCondition {
    /// The steps that it asks about.
    #[must_use]
    pub fn steps(&self) -> Vec<&str> {
        self.leaves().into_iter().filter_map(|leaf| leaf.step().map(|it| it.id.as_str())).collect()
    }

    /// What it asks of steps.
    #[must_use]
    pub fn asked(&self) -> Vec<&StepAsked> {
        self.leaves().into_iter().filter_map(Self::step).collect()
    }

    /// The files that it asks about.
    #[must_use]
    pub fn files(&self) -> Vec<&FileAsked> {
        self.leaves().into_iter().filter_map(Self::file).collect()
    }

    const fn step(&self) -> Option<&StepAsked> {
        match self {
            Self::Step(step) => Some(step),
            _ => None,
        }
    }

    const fn file(&self) -> Option<&FileAsked> {
        match self {
            Self::File(file) => Some(file),
            _ => None,
        }
    }

    fn leaves(&self) -> Vec<&Self> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::leaves).collect(),
            Self::Not(part) => part.leaves(),
            Self::Step(_) | Self::File(_) => vec![self],
        }
    }

    /// Whether it holds; nothing if a fact is missing that it asks for.
    pub(super) fn holds<'a>(
        &self,
        step: &impl Fn(&str) -> CameTo<'a>,
        facts: &[FileFact],
    ) -> Option<bool> {
        match self {
            Self::All(parts) => {
                parts.iter().try_fold(true, |all, part| Some(part.holds(step, facts)? && all))
            }
            Self::Any(parts) => {
                parts.iter().try_fold(false, |any, part| Some(part.holds(step, facts)? || any))
            }
            Self::Not(part) => part.holds(step, facts).map(|holds| !holds),
            Self::Step(asked) => Some(asked.holds(step(&asked.id))),
            Self::File(asked) => {
                let of =
                    |fact: &&FileFact| fact.path == asked.path && fact.pointer == asked.pointer;
                facts.iter().find(of).map(|fact| asked.holds(fact))
            }
        }
    }
}

impl StepAsked {
    fn holds(&self, came: CameTo<'_>) -> bool {
        self.success.is_none_or(|wanted| came.success == Some(wanted))
            && self.recommendation.is_none_or(|wanted| came.recommendation == Some(wanted))
            && self.skipped.is_none_or(|wanted| came.skipped == wanted)
            && self.answer.as_ref().is_none_or(|wanted| came.answer == Some(wanted))
    }
}

impl FileAsked {
    fn holds(&self, fact: &FileFact) -> bool {
        let number = fact.value.as_ref().and_then(Value::as_f64);
        self.exists.is_none_or(|wanted| fact.exists == wanted)
            && self
                .equals
                .as_ref()
                .is_none_or(|wanted| fact.value.as_ref().is_some_and(|value| same(value, wanted)))
            && self.at_least.is_none_or(|least| number.is_some_and(|number| number >= least))
            && self.at_most.is_none_or(|most| number.is_some_and(|number| number <= most))
    }
}

/// Numbers are the same however they are written.
fn same(one: &Value, two: &Value) -> bool {
    match (one.as_f64(), two.as_f64()) {
        (Some(one), Some(two)) => one.total_cmp(&two).is_eq(),
        _ => one == two,
    }
}
