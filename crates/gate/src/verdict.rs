//! Several answers made into one.

use std::fmt;

use serde::Serialize;

use crate::Decision;

/// Under which rule the gate itself speaks.
const GATE: &str = "gate";

/// What one rule had to say.
///
/// The texts may quote what an agent or a tool sent: escape them before they reach a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Reason {
    /// The rule answered.
    Answered {
        /// Which rule it was.
        rule: String,
        /// What it decided.
        decision: Decision,
        /// Why, for a person to read.
        because: String,
    },
    /// The rule could not answer.
    Failed {
        /// Which rule it was.
        rule: String,
        /// What went wrong.
        error: String,
    },
}

impl Reason {
    /// The answer of `rule`.
    #[must_use]
    pub fn answered(
        rule: impl Into<String>,
        decision: Decision,
        because: impl Into<String>,
    ) -> Self {
        Self::Answered { rule: rule.into(), decision, because: because.into() }
    }

    /// The failure of `rule` to answer.
    #[must_use]
    pub fn failed(rule: impl Into<String>, error: &impl fmt::Display) -> Self {
        Self::Failed { rule: rule.into(), error: error.to_string() }
    }

    /// Which rule speaks.
    #[must_use]
    pub fn rule(&self) -> &str {
        match self {
            Self::Answered { rule, .. } | Self::Failed { rule, .. } => rule,
        }
    }

    /// What this reason weighs.
    #[must_use]
    pub const fn decision(&self) -> Decision {
        match self {
            Self::Answered { decision, .. } => *decision,
            // A rule that was skipped when it fails could be switched off by making it fail: an
            // erring prohibition must not turn into a permission.
            Self::Failed { .. } => Decision::Ask,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { rule, decision, because } => {
                write!(f, "{decision} by `{rule}`: {because}")
            }
            Self::Failed { rule, error } => {
                write!(f, "{} because `{rule}` failed: {error}", self.decision())
            }
        }
    }
}

/// A decision and everything that was said for and against it.
///
/// The decision is always the strictest among the reasons, of which there is at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    decision: Decision,
    reasons: Vec<Reason>,
}

impl Verdict {
    /// Joins the answers of rules, or verdicts on the same action: the strictest wins, and the
    /// reasons of all are kept in the order in which they came.
    ///
    /// Where nobody answered, nobody allowed the action either: a person is asked.
    #[must_use]
    pub fn strictest<V: Into<Self>>(answers: impl IntoIterator<Item = V>) -> Self {
        let mut reasons: Vec<Reason> =
            answers.into_iter().flat_map(|answer| answer.into().reasons).collect();
        if reasons.is_empty() {
            reasons.push(Reason::failed(GATE, &"no rule answered"));
        }
        let decision = reasons.iter().map(Reason::decision).max().unwrap_or(Decision::Ask);
        Self { decision, reasons }
    }

    /// What happens to the action.
    #[must_use]
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    /// Everything that was said, whichever way it went.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// The reasons that made the decision what it is.
    pub fn deciding(&self) -> impl Iterator<Item = &Reason> {
        self.reasons.iter().filter(|reason| reason.decision() == self.decision)
    }
}

impl From<Reason> for Verdict {
    fn from(reason: Reason) -> Self {
        Self { decision: reason.decision(), reasons: vec![reason] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow() -> Reason {
        Reason::answered("reads", Decision::Allow, "reads inside the workspace")
    }

    fn ask() -> Reason {
        Reason::answered("risk", Decision::Ask, "three of ten such actions failed")
    }

    fn deny() -> Reason {
        Reason::answered("git", Decision::Deny, "writes to `.git`")
    }

    fn failure() -> Reason {
        Reason::failed("network", &"no such attribute `host`")
    }

    #[test]
    fn the_strictest_answer_wins_wherever_it_stands() {
        let table = [
            (vec![allow()], Decision::Allow),
            (vec![allow(), ask()], Decision::Ask),
            (vec![ask(), allow()], Decision::Ask),
            (vec![deny(), ask(), allow()], Decision::Deny),
            (vec![allow(), deny(), ask()], Decision::Deny),
        ];
        for (answers, expected) in table {
            assert_eq!(Verdict::strictest(answers.clone()).decision(), expected, "{answers:?}");
        }
    }

    #[test]
    fn every_reason_is_kept_in_the_order_given() {
        let answers = vec![allow(), deny(), failure(), ask()];
        assert_eq!(Verdict::strictest(answers.clone()).reasons(), answers);
    }

    #[test]
    fn a_rule_that_fails_counts_as_ask() {
        let verdict = Verdict::strictest([allow(), failure()]);
        assert_eq!(verdict.decision(), Decision::Ask);
        assert_eq!(verdict.deciding().collect::<Vec<_>>(), [&failure()]);
    }

    #[test]
    fn a_rule_that_fails_does_not_soften_a_denial() {
        assert_eq!(Verdict::strictest([failure(), deny()]).decision(), Decision::Deny);
    }

    #[test]
    fn silence_asks_and_says_so() {
        let verdict = Verdict::strictest(Vec::<Reason>::new());
        assert_eq!(verdict.decision(), Decision::Ask);
        let texts: Vec<_> = verdict.reasons().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["ask because `gate` failed: no rule answered"]);
    }

    #[test]
    fn verdicts_join_as_their_reasons_would() {
        let policy = Verdict::strictest([allow(), failure()]);
        let guards = Verdict::strictest([deny()]);
        let joined = Verdict::strictest([policy, guards]);
        assert_eq!(joined, Verdict::strictest([allow(), failure(), deny()]));
    }

    #[test]
    fn a_reason_reads_as_a_sentence_with_its_rule() {
        assert_eq!(deny().to_string(), "deny by `git`: writes to `.git`");
        assert_eq!(deny().rule(), "git");
        assert_eq!(failure().rule(), "network");
    }
}
