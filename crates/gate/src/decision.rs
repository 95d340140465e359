//! What a rule, or the gate as a whole, says about an action.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What happens to an action. Ordered by strictness: the greater decision wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The action may run.
    Allow,
    /// The action may run if a person says so.
    Ask,
    /// The action may not run.
    Deny,
}

impl Decision {
    /// The name under which an action receipt carries this decision.
    ///
    /// Receipts know two names more, `human_approved` and `skipped`. They tell what became of a
    /// question or of an action, so they are not decisions of the gate.
    #[must_use]
    pub const fn name_in_receipts(self) -> &'static str {
        match self {
            Self::Allow => "pass",
            Self::Ask => "human_review",
            Self::Deny => "skip",
        }
    }

    /// The name under which an MCP client is told this decision.
    #[must_use]
    pub const fn name_over_mcp(self) -> &'static str {
        match self {
            Self::Allow => "approve",
            Self::Ask => "flag",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deny_is_stricter_than_ask_and_ask_than_allow() {
        assert!(Decision::Allow < Decision::Ask);
        assert!(Decision::Ask < Decision::Deny);
    }

    #[test]
    fn each_audience_has_its_own_names() {
        let names = [Decision::Allow, Decision::Ask, Decision::Deny].map(|decision| {
            (decision.to_string(), decision.name_in_receipts(), decision.name_over_mcp())
        });
        let expected = [
            ("allow".to_owned(), "pass", "approve"),
            ("ask".to_owned(), "human_review", "flag"),
            ("deny".to_owned(), "skip", "deny"),
        ];
        assert_eq!(names, expected);
    }
}
