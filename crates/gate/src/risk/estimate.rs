//! What the counts of a cell come to: a Beta posterior over the rate of failures.

use countersign_format::risk::RiskClass;
use serde::Serialize;

use super::cell::Cell;
use super::model::{Outcomes, RiskModel};
use crate::{Decision, Reason};

/// From this rate of failures on a person is asked.
pub const ASK_FROM: f64 = 0.3;
/// From this rate of failures on the action is denied.
pub const DENY_FROM: f64 = 0.6;
/// Observations at which confidence is one half.
const HALF_CONFIDENT: u64 = 5;
/// From this confidence on what was learned counts beside a critic.
const CONFIDENT_FROM: f64 = 0.5;
/// Under which name the model speaks.
const LEARNED: &str = "learned-risk";

/// What is known about one cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The expected rate of failures.
    pub q: f64,
    /// The standard deviation of that rate.
    pub uncertainty: f64,
    /// How much the observations weigh, from 0 to 1.
    pub confidence: f64,
    /// How many outcomes were seen.
    pub observations: u64,
}

impl Estimate {
    /// The estimate from these outcomes, with one failure and one success assumed beforehand.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn of(outcomes: Outcomes) -> Self {
        let observations = outcomes.failed.saturating_add(outcomes.succeeded);
        let alpha = outcomes.failed.saturating_add(1) as f64;
        let beta = outcomes.succeeded.saturating_add(1) as f64;
        let sum = alpha + beta;
        Self {
            q: alpha / sum,
            uncertainty: (alpha * beta / (sum * sum * (sum + 1.0))).sqrt(),
            confidence: observations as f64 / observations.saturating_add(HALF_CONFIDENT) as f64,
            observations,
        }
    }

    /// What follows from it.
    #[must_use]
    pub fn decision(&self) -> Decision {
        if self.q >= DENY_FROM {
            Decision::Deny
        } else if self.q >= ASK_FROM {
            Decision::Ask
        } else {
            Decision::Allow
        }
    }
}

/// Who decides about a change of which nothing has been learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Referee {
    /// Its class alone, since nobody else looks at it.
    RiskClass,
    /// The critic of the session that it is part of; also where little has been learned.
    Critic,
    /// The critic as well, of an action of which no change is known, whatever was learned of others.
    CriticAlone,
}

impl Referee {
    /// Whether what was learned counts for nothing before it.
    fn takes_over(self, estimate: &Estimate) -> bool {
        match self {
            Self::RiskClass => estimate.observations == 0,
            Self::Critic => estimate.confidence < CONFIDENT_FROM,
            Self::CriticAlone => true,
        }
    }
}

/// What the model, or the lack of one, says of an action in this cell and of this class.
pub(crate) fn judge(
    model: Option<&RiskModel>,
    cell: Cell,
    risk: RiskClass,
    referee: Referee,
) -> Reason {
    let outcomes = model.map_or_else(Outcomes::default, |model| model.outcomes(cell));
    let estimate = Estimate::of(outcomes);
    if !referee.takes_over(&estimate) {
        let because = format!(
            "{} of {} changes like this one failed (cell {cell}: {}), q = {:.3}",
            outcomes.failed,
            estimate.observations,
            cell.in_words(),
            estimate.q
        );
        return Reason::answered(LEARNED, estimate.decision(), because);
    }
    let unknown = match (model, referee) {
        (_, Referee::CriticAlone) => "which files it changes is not known".to_owned(),
        (None, _) => "nothing has been learned yet".to_owned(),
        (Some(_), _) => {
            let much = if estimate.observations > 0 { "too little" } else { "nothing" };
            let cell_in_words = cell.in_words();
            format!(
                "{much} has been learned about changes like this one (cell {cell}: {cell_in_words})"
            )
        }
    };
    let (decision, because) = match referee {
        Referee::Critic | Referee::CriticAlone => {
            (Decision::Allow, format!("{unknown}, so the critic decides"))
        }
        Referee::RiskClass => {
            let decision = if risk.needs_approval() { Decision::Ask } else { Decision::Allow };
            (decision, format!("{unknown}, so its risk class decides: {}", risk.as_str()))
        }
    };
    Reason::answered(LEARNED, decision, because)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(failed: u64, succeeded: u64) -> Estimate {
        Estimate::of(Outcomes { failed, succeeded })
    }

    #[test]
    fn figures_are_those_of_a_beta_posterior() {
        let expected = Estimate {
            q: 0.5,
            uncertainty: (1.0_f64 / 12.0).sqrt(),
            confidence: 0.0,
            observations: 0,
        };
        assert_eq!(of(0, 0), expected);
        // Alpha 1, beta 11: the mean is 1/12, the variance 11/(144 * 13).
        let expected = Estimate {
            q: 1.0 / 12.0,
            uncertainty: (11.0_f64 / (144.0 * 13.0)).sqrt(),
            confidence: 10.0 / 15.0,
            observations: 10,
        };
        assert_eq!(of(0, 10), expected);
    }

    #[test]
    fn thresholds_belong_to_the_stricter_side() {
        let table = [
            ((0, 2), Decision::Allow), // 1/4
            ((2, 6), Decision::Ask),   // 3/10
            ((1, 1), Decision::Ask),   // 1/2
            ((2, 1), Decision::Deny),  // 3/5
            ((1, 0), Decision::Deny),  // 2/3
            ((5, 4), Decision::Ask),   // 6/11
            ((0, 100), Decision::Allow),
        ];
        for ((failed, succeeded), expected) in table {
            assert_eq!(of(failed, succeeded).decision(), expected, "{failed}/{succeeded}");
        }
    }

    #[test]
    fn without_observations_the_class_decides_whatever_else_was_learned() {
        let mut trained = RiskModel::default();
        trained.learn(Cell::new(7).unwrap(), true);
        for model in [None, Some(&trained)] {
            let decisions = RiskClass::ALL
                .map(|risk| judge(model, Cell::default(), risk, Referee::RiskClass).decision());
            assert_eq!(decisions, [Decision::Allow, Decision::Allow, Decision::Ask, Decision::Ask]);
        }
        let texts = [None, Some(&trained)].map(|model| {
            judge(model, Cell::default(), RiskClass::Critical, Referee::RiskClass).to_string()
        });
        let expected = [
            "ask by `learned-risk`: nothing has been learned yet, so its risk class decides: critical",
            "ask by `learned-risk`: nothing has been learned about changes like this one (cell 0: \
             up to 10 lines, up to 2 branches, one file, no findings, no tests), so its risk class \
             decides: critical",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn the_reason_gives_the_counts() {
        let mut model = RiskModel::default();
        for success in [false, true, true, true] {
            model.learn(Cell::default(), success);
        }
        let by = Referee::RiskClass;
        let reason = judge(Some(&model), Cell::default(), RiskClass::Critical, by);
        assert_eq!(
            reason.to_string(),
            "ask by `learned-risk`: 1 of 4 changes like this one failed (cell 0: up to 10 lines, \
             up to 2 branches, one file, no findings, no tests), q = 0.333"
        );
    }

    #[test]
    fn beside_a_critic_what_was_learned_counts_from_five_outcomes_on_and_of_changes_alone() {
        let mut model = RiskModel::default();
        let mut decisions = Vec::new();
        for _ in 0..5 {
            model.learn(Cell::default(), false);
            decisions.push([Referee::Critic, Referee::CriticAlone].map(|referee| {
                judge(Some(&model), Cell::default(), RiskClass::Critical, referee).decision()
            }));
        }
        let mut expected = vec![[Decision::Allow, Decision::Allow]; 4];
        expected.push([Decision::Deny, Decision::Allow]);
        assert_eq!(decisions, expected);
    }
}
