//! The words that a task file chooses from.

use countersign_gate::guard::Strictness;
use serde::{Deserialize, Serialize};

/// How strict the verifier is that audits the session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyProfile {
    /// Whatever can be doubted fails.
    Strict,
    /// What the specifications ask for.
    #[default]
    Default,
    /// Integrity only.
    Lenient,
}

impl PolicyProfile {
    /// Every profile, the strictest first.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Default, Self::Lenient];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] = ["strict", "default", "lenient"];

    /// Its name in task files and events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Default => "default",
            Self::Lenient => "lenient",
        }
    }

    /// The profile of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.as_str() == name)
    }

    /// How much its guards put up with.
    #[must_use]
    pub const fn strictness(self) -> Strictness {
        match self {
            Self::Strict => Strictness::Strict,
            Self::Default => Strictness::Default,
            Self::Lenient => Strictness::Lenient,
        }
    }
}

/// How far tools are kept away from the rest of the system, the weakest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IsolationLevel {
    /// Whatever can be had on the machine.
    #[default]
    None,
    /// They can write only where they may.
    Files,
    /// They also see no other process, and no network unless they may.
    Full,
}

impl IsolationLevel {
    /// Every level, the weakest first.
    pub const ALL: [Self; 3] = [Self::None, Self::Files, Self::Full];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] = ["none", "files", "full"];

    /// Its name in task files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Files => "files",
            Self::Full => "full",
        }
    }

    /// The level of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// What answers for a role.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentKind {
    /// Countersign's own rules.
    #[default]
    BuiltIn,
    /// A program that reads an input envelope and writes an output envelope.
    Command,
    /// A program that reads a prompt and writes text.
    Prompt,
}

impl AgentKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::BuiltIn, Self::Command, Self::Prompt];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] = ["built-in", "command", "prompt"];

    /// Its name in task files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Command => "command",
            Self::Prompt => "prompt",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Which artifacts of a step's executions a claim rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceSource {
    /// What programs wrote to standard output.
    Stdout,
    /// What programs wrote to standard error.
    Stderr,
    /// What the tools were asked to do.
    Input,
    /// What the other tools gave.
    Output,
}

impl EvidenceSource {
    /// Every source.
    pub const ALL: [Self; 4] = [Self::Stdout, Self::Stderr, Self::Input, Self::Output];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 4] = ["stdout", "stderr", "input", "output"];
    /// Everything that comes out of a tool: what a claim rests on where it does not say.
    pub const OUTPUTS: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Output];

    /// Its name in task files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Input => "input",
            Self::Output => "output",
        }
    }

    /// The source of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_it_is_written() {
        assert_eq!(PolicyProfile::ALL.map(PolicyProfile::as_str), PolicyProfile::NAMES);
        assert_eq!(PolicyProfile::NAMES.map(PolicyProfile::parse), PolicyProfile::ALL.map(Some));
        assert_eq!(IsolationLevel::ALL.map(IsolationLevel::as_str), IsolationLevel::NAMES);
        assert_eq!(IsolationLevel::NAMES.map(IsolationLevel::parse), IsolationLevel::ALL.map(Some));
        assert!(IsolationLevel::ALL.is_sorted());
        assert_eq!(AgentKind::ALL.map(AgentKind::as_str), AgentKind::NAMES);
        assert_eq!(AgentKind::NAMES.map(AgentKind::parse), AgentKind::ALL.map(Some));
        assert_eq!(EvidenceSource::ALL.map(EvidenceSource::as_str), EvidenceSource::NAMES);
        assert_eq!(EvidenceSource::NAMES.map(EvidenceSource::parse), EvidenceSource::ALL.map(Some));
        assert_eq!(AgentKind::parse("Command"), None);
    }
}
