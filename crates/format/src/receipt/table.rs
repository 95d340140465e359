//! The names and fields of the specification.

use crate::json::INTEGER_MAX;
use crate::shape::{Fields, Shape, Unknown, opt, req};

/// An enum whose variants have one name each, and nothing else.
macro_rules! named {
    (
        $(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// All names, in the order of the specification.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// Its name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The one with this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

named! {
    /// What sort of thing an agent did.
    ActionType {
        /// It called an outside tool.
        ToolCall = "tool_call",
        /// It generated code or text.
        CodeGen = "code_gen",
        /// It changed code.
        CodeEdit = "code_edit",
        /// It called an API.
        ApiRequest = "api_request",
        /// It chose how to go on.
        Decision = "decision",
        /// It noted something about its surroundings.
        Observation = "observation",
        /// It read a file.
        FileRead = "file_read",
        /// It wrote a file.
        FileWrite = "file_write",
        /// It deleted a file.
        FileDelete = "file_delete",
        /// It ran a shell command.
        ShellExec = "shell_exec",
        /// It ran a command.
        Command = "command",
        /// It acted in a browser.
        BrowserAction = "browser_action",
        /// It made a web request.
        WebRequest = "web_request",
        /// Anything else.
        Action = "action",
        /// Not known.
        Unknown = "unknown",
    }
}

named! {
    /// What the gate said.
    GateDecision {
        /// Low risk: go on.
        Pass = "pass",
        /// High risk: denied.
        Skip = "skip",
        /// A person must be asked.
        HumanReview = "human_review",
        /// A person was asked and agreed.
        HumanApproved = "human_approved",
        /// Given up after the last retry.
        Skipped = "skipped",
    }
}

named! {
    /// How far policy was enforced.
    PolicyVerdict {
        /// Recorded only.
        ProofOnly = "PROOF_ONLY",
        /// The gate's decision was enforced.
        PolicyEnforced = "POLICY_ENFORCED",
        /// Enforced, and the audit passed.
        FullyVerified = "FULLY_VERIFIED",
    }
}

/// Which fields a receipt hash covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReceiptForm {
    /// The twelve fields of the specification.
    Twelve,
    /// Those and `policy_verdict`, as CapSeal's code does it.
    Thirteen,
}

impl ReceiptForm {
    /// How many fields the hash covers.
    #[must_use]
    pub const fn field_count(self) -> usize {
        match self {
            Self::Twelve => 12,
            Self::Thirteen => 13,
        }
    }

    /// Whether the hash covers this field of an action.
    #[must_use]
    pub fn covers(self, field: &str) -> bool {
        match field {
            "metadata" => false,
            "policy_verdict" => self == Self::Thirteen,
            _ => AGENT_ACTION.fields.iter().any(|known| known.name == field),
        }
    }
}

/// What an action looks like to those who write one. Readers ask less of receipts that others
/// wrote: any string for a hash, any number for a score, any integer for a duration.
pub static AGENT_ACTION: Fields = Fields {
    name: "AgentAction",
    doc: "One thing that an agent did, or was kept from doing.",
    fields: &[
        req("action_id", Shape::NonEmptyText),
        req("action_type", Shape::OneOf(ActionType::NAMES)),
        req("instruction_hash", Shape::Hash),
        req("input_hash", Shape::Hash),
        req("output_hash", Shape::Hash),
        opt("parent_action_id", Shape::Nullable(&Shape::NonEmptyText)),
        opt("parent_receipt_hash", Shape::Nullable(&Shape::Hash)),
        opt("gate_score", Shape::Nullable(&Shape::Number)),
        opt("gate_decision", Shape::Nullable(&Shape::OneOf(GateDecision::NAMES))),
        opt("policy_verdict", Shape::Nullable(&Shape::OneOf(PolicyVerdict::NAMES))),
        req("success", Shape::Bool),
        req("duration_ms", Shape::Integer(0, INTEGER_MAX)),
        req("timestamp", Shape::NonEmptyText),
        opt("metadata", Shape::Nullable(&Shape::MapOf(&Shape::Any))),
    ],
    unknown: Unknown::Kept,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::document_schema;

    #[test]
    fn names_stand_for_their_variants_and_nothing_else_does() {
        assert_eq!(ActionType::NAMES.len(), 15);
        assert_eq!(GateDecision::NAMES.len(), 5);
        assert_eq!(PolicyVerdict::NAMES.len(), 3);
        for name in ActionType::NAMES {
            assert_eq!(ActionType::from_name(name).map(ActionType::as_str), Some(*name));
        }
        for name in ["", "Tool_call", "tool_call ", "pass"] {
            assert_eq!(ActionType::from_name(name), None);
        }
    }

    #[test]
    fn each_form_covers_as_many_fields_as_it_says() {
        for form in [ReceiptForm::Twelve, ReceiptForm::Thirteen] {
            let covered = AGENT_ACTION.fields.iter().filter(|field| form.covers(field.name));
            assert_eq!(covered.count(), form.field_count());
        }
        assert!(!ReceiptForm::Thirteen.covers("receipt_hash"));
    }

    #[test]
    fn the_schema_requires_what_the_specification_requires() {
        let schema = document_schema(&AGENT_ACTION, "agent-action");
        assert_eq!(schema["required"].as_array().unwrap().len(), 8);
        assert_eq!(schema["properties"].as_object().unwrap().len(), 14);
        assert_eq!(schema.get("additionalProperties"), None);
    }
}
