//! A rule: what it objects to, why, and examples that hold it to that.

use countersign_format::risk::RiskClass;

use super::Proposed;
use super::rules;
use super::scene::{Scene, Step};
use crate::Decision;

/// Something that an action may do and that nobody should let happen unseen.
#[derive(Debug)]
pub struct Rule {
    pub(super) id: &'static str,
    pub(super) because: &'static str,
    pub(super) decision: Decision,
    pub(super) risk: RiskClass,
    pub(super) matches: Matcher,
    pub(super) must: &'static [Example],
    pub(super) must_not: &'static [Example],
}

impl Rule {
    /// Its name, in reasons.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        self.id
    }

    /// What is wrong with what it objects to.
    #[must_use]
    pub const fn because(&self) -> &'static str {
        self.because
    }

    /// What it says.
    #[must_use]
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// How dangerous it takes such an action to be, at least.
    #[must_use]
    pub const fn risk(&self) -> RiskClass {
        self.risk
    }

    /// What in the scene it objects to, if anything.
    pub(super) fn finds(&self, scene: &Scene<'_>) -> Option<String> {
        match self.matches {
            Matcher::Step(test) => scene.find(test),
            Matcher::Scene(find) => find(scene),
        }
    }
}

/// How a rule looks at a scene.
#[derive(Debug, Clone, Copy)]
pub(super) enum Matcher {
    /// At one command at a time.
    Step(fn(&Step) -> bool),
    /// At all of it; answers with what it found.
    Scene(fn(&Scene<'_>) -> Option<String>),
}

/// An action that a rule must, or must not, object to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Example {
    /// A shell text, with a grant for the network.
    Run(&'static str),
    /// A shell text without one.
    Offline(&'static str),
    /// Reading a file.
    Read(&'static str),
    /// Writing a file.
    Write(&'static str),
    /// Writing this into a file.
    Content(&'static str, &'static str),
}

impl Example {
    /// Judges the example as an action with `look`.
    pub(super) fn with<T>(self, look: impl FnOnce(&Proposed<'_>) -> T) -> T {
        let (tool, shell, path, content) = match self {
            Self::Run(text) | Self::Offline(text) => ("exec", Some(text), None, None),
            Self::Read(path) => ("file_read", None, Some(path), None),
            Self::Write(path) => ("file_write", None, Some(path), Some("")),
            Self::Content(path, content) => ("file_write", None, Some(path), Some(content)),
        };
        let paths: Vec<String> = path.into_iter().map(str::to_owned).collect();
        look(&Proposed {
            tool,
            argv: &[],
            shell,
            paths: &paths,
            content,
            stdin: None,
            env: None,
            risk: RiskClass::Standard,
            network_granted: !matches!(self, Self::Offline(_)),
        })
    }
}

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// Two rules share a name.
    #[error("two rules are called `{rule}`")]
    Twice {
        /// Their name.
        rule: &'static str,
    },
    /// It has no justification, or too few examples to show what it is about.
    #[error("rule `{rule}` has no {what}")]
    Bare {
        /// Which rule.
        rule: &'static str,
        /// What it lacks.
        what: &'static str,
    },
    /// It does not object to an example that it must object to.
    #[error("rule `{rule}` misses its example `{example}`")]
    Misses {
        /// Which rule.
        rule: &'static str,
        /// The example.
        example: String,
    },
    /// It objects to an example that it must leave alone.
    #[error("rule `{rule}` objects to `{example}`")]
    Overreaches {
        /// Which rule.
        rule: &'static str,
        /// The example.
        example: String,
    },
}

/// Holds every rule to its examples.
///
/// # Errors
/// Everything that is wrong with any of them.
pub fn check_rules() -> Result<(), Vec<RuleFault>> {
    let faults = check(&rules::all().collect::<Vec<_>>());
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

pub(super) fn check(rules: &[&Rule]) -> Vec<RuleFault> {
    let mut faults = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let id = rule.id;
        if rules.iter().skip(at + 1).any(|other| other.id == id) {
            faults.push(RuleFault::Twice { rule: id });
        }
        let lacks = [
            (rule.because.is_empty(), "justification"),
            (rule.must.is_empty(), "example that must match"),
            (rule.must_not.is_empty(), "example that must not match"),
            (rule.decision == Decision::Allow, "objection"),
        ];
        let lacking = lacks.into_iter().filter(|(lacks, _)| *lacks);
        faults.extend(lacking.map(|(_, what)| RuleFault::Bare { rule: id, what }));
        let objects =
            |example: &Example| example.with(|action| rule.finds(&Scene::of(action)).is_some());
        let missed = rule.must.iter().filter(|example| !objects(example));
        faults.extend(
            missed.map(|example| RuleFault::Misses { rule: id, example: format!("{example:?}") }),
        );
        let overreached = rule.must_not.iter().filter(|example| objects(example));
        faults.extend(
            overreached.map(|example| RuleFault::Overreaches {
                rule: id,
                example: format!("{example:?}"),
            }),
        );
    }
    faults
}
