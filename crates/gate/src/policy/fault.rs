//! Why a policy is refused: each says which rule, on which line, and what would have to change.

use super::source::{POLICY_BYTES_MAX, RULE_BYTES_MAX};

/// What is wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// Not text.
    #[error("the policy is not UTF-8")]
    NotText,
    /// More text than a policy may have.
    #[error("the policy has {bytes} bytes, the limit is {POLICY_BYTES_MAX}")]
    TooLong {
        /// How much it has.
        bytes: usize,
    },
    /// More rules than a policy may have.
    #[error("the policy has more than {limit} rules")]
    TooMany {
        /// How many it may have.
        limit: usize,
    },
    /// No rules at all.
    #[error("the policy has no rules")]
    Empty,
    /// A rule that is too long.
    #[error("line {line}: the rule has {bytes} bytes, the limit is {RULE_BYTES_MAX}")]
    RuleTooLong {
        /// Where it begins.
        line: usize,
        /// How much it has.
        bytes: usize,
    },
    /// A rule with too many brackets in each other.
    #[error("line {line}: the rule nests more than {limit} brackets")]
    TooNested {
        /// Where it begins.
        line: usize,
        /// How deep it may go.
        limit: usize,
    },
    /// Not Cedar.
    #[error("line {line}: {what}")]
    Syntax {
        /// Where it stands.
        line: usize,
        /// What Cedar says.
        what: String,
    },
    /// A rule without something that every rule has.
    #[error("line {line}: {} has no `@{annotation}(\"…\")`", named(rule))]
    Bare {
        /// Where it begins.
        line: usize,
        /// Its id, if it has one.
        rule: Option<String>,
        /// What it lacks.
        annotation: &'static str,
    },
    /// An annotation that means nothing, or not with this value.
    #[error("line {line}: rule `{rule}` has `@{annotation}(\"{value}\")`: {what}")]
    Annotation {
        /// Where the rule begins.
        line: usize,
        /// Its id.
        rule: String,
        /// The annotation.
        annotation: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Two rules of one name.
    #[error("line {line}: there is another rule `{rule}`")]
    Twice {
        /// Where the second one begins.
        line: usize,
        /// Their id.
        rule: String,
    },
    /// A rule that speaks of what there is not, or compares what cannot be compared.
    #[error("line {line}: rule `{rule}` does not fit what a request has: {what}")]
    Invalid {
        /// Where it begins.
        line: usize,
        /// Its id.
        rule: String,
        /// What Cedar's validator says.
        what: String,
    },
    /// An example that cannot be read.
    #[error("line {line}: rule `{rule}` has the example `{example}`: {what}")]
    BadExample {
        /// Where the rule begins.
        line: usize,
        /// Its id.
        rule: String,
        /// The example.
        example: String,
        /// What is wrong with it.
        what: String,
    },
    /// An example that the rule must match, and does not.
    #[error("line {line}: rule `{rule}` must match `{example}`, but does not")]
    Misses {
        /// Where the rule begins.
        line: usize,
        /// Its id.
        rule: String,
        /// The example.
        example: String,
    },
    /// An example that the rule must not match, and does.
    #[error("line {line}: rule `{rule}` must not match `{example}`, but does")]
    Overreaches {
        /// Where the rule begins.
        line: usize,
        /// Its id.
        rule: String,
        /// The example.
        example: String,
    },
    /// An example on which the rule fails.
    #[error("line {line}: rule `{rule}` fails on `{example}`: {what}")]
    FailsOn {
        /// Where the rule begins.
        line: usize,
        /// Its id.
        rule: String,
        /// The example.
        example: String,
        /// What went wrong.
        what: String,
    },
    /// The gate's own schema cannot be used.
    #[error("the schema of policies cannot be used: {what}")]
    Schema {
        /// What is wrong.
        what: String,
    },
}

fn named(rule: &Option<String>) -> String {
    rule.as_ref().map_or_else(|| "the rule".to_owned(), |id| format!("rule `{id}`"))
}
