//! How dangerous an action is taken to be.

use serde::{Deserialize, Serialize};

/// The safety classification of an action, from harmless to dangerous.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum RiskClass {
    /// Changes nothing.
    Low,
    /// Changes what the task is about.
    #[default]
    Standard,
    /// May destroy something; runs only after somebody approved exactly this.
    Elevated,
    /// May destroy something that cannot be brought back.
    Critical,
}

impl RiskClass {
    /// Every class, the harmless first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Standard, Self::Elevated, Self::Critical];
    /// Their names in events, in the same order.
    pub const NAMES: [&'static str; 4] = ["low", "standard", "elevated", "critical"];

    /// Its name in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Standard => "standard",
            Self::Elevated => "elevated",
            Self::Critical => "critical",
        }
    }

    /// The class of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }

    /// Whether an action of this class needs an approval of its own before it runs.
    #[must_use]
    pub fn needs_approval(self) -> bool {
        self >= Self::Elevated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ordered_as_they_are_listed_and_named_as_they_are_written() {
        assert!(RiskClass::ALL.is_sorted());
        assert_eq!(RiskClass::ALL.map(RiskClass::as_str), RiskClass::NAMES);
        assert_eq!(RiskClass::NAMES.map(RiskClass::parse), RiskClass::ALL.map(Some));
        assert_eq!(RiskClass::ALL.map(RiskClass::needs_approval), [false, false, true, true]);
    }
}
