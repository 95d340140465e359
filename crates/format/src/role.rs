//! The roles in which a key may act.
//!
//! Which role may write which event is decided by the protocol, not here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// In what capacity an actor signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Opens sessions and proposes what to do.
    Planner,
    /// Acts and makes claims.
    Executor,
    /// Reviews proposals and intents, challenges claims.
    Critic,
    /// Verifies and reports.
    Auditor,
    /// A person.
    Operator,
    /// The system itself.
    Recorder,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 6] = [
        Self::Planner,
        Self::Executor,
        Self::Critic,
        Self::Auditor,
        Self::Operator,
        Self::Recorder,
    ];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 6] =
        ["planner", "executor", "critic", "auditor", "operator", "recorder"];

    /// The name as it stands in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Executor => "executor",
            Self::Critic => "critic",
            Self::Auditor => "auditor",
            Self::Operator => "operator",
            Self::Recorder => "recorder",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a role is one of: {}", Role::NAMES.join(", "))]
pub struct NotARole;

impl FromStr for Role {
    type Err = NotARole;

    fn from_str(text: &str) -> Result<Self, NotARole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(NotARole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_one_lowercase_name() {
        for (role, name) in Role::ALL.into_iter().zip(Role::NAMES) {
            assert_eq!(role.as_str(), name);
            assert_eq!(name.parse(), Ok(role));
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<Role>(&format!("\"{name}\"")).unwrap(), role);
        }
    }

    #[test]
    fn other_spellings_are_no_role() {
        for text in ["", "Planner", "PLANNER", "planner ", "root"] {
            assert_eq!(text.parse::<Role>(), Err(NotARole), "{text}");
            assert!(serde_json::from_value::<Role>(text.into()).is_err());
        }
    }
}
