//! What a session may use, and what it is held to: `[limits]`, `[sandbox]` and `[policy]`.

use std::ops::RangeInclusive;

use super::choice::IsolationLevel;
use super::document::{Table, Value};

/// Seconds of any wait: a year. More would be a way to say "no limit".
const SECONDS_MAX: i64 = 365 * 24 * 60 * 60;
/// Seconds that something may take.
pub(crate) const SECONDS: RangeInclusive<i64> = 1..=SECONDS_MAX;
/// Bytes that one stream of a program may have: all of it is stored as evidence.
pub(crate) const STREAM_BYTES: RangeInclusive<i64> = 1..=1 << 30;
/// Bytes of memory: what a program needs to start, and what an event can name exactly.
const MEMORY_BYTES: RangeInclusive<i64> = 1 << 20..=(1 << 53) - 1;

/// What a session may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Seconds from the start to the final statement.
    pub time_seconds: u64,
    /// Uses of tools in the whole session.
    pub tool_calls: u64,
    /// Seconds of one use of a tool.
    pub tool_seconds: u64,
    /// Bytes of one stream of one use of a tool.
    pub output_bytes: u64,
    /// Bytes of memory of one use of a tool.
    pub memory_bytes: u64,
    /// Steps that are worked on at the same time.
    pub parallel: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time_seconds: 3600,
            tool_calls: 1000,
            tool_seconds: 600,
            output_bytes: 8 << 20,
            memory_bytes: 4 << 30,
            parallel: 4,
        }
    }
}

impl Limits {
    const KEYS: [&'static str; 6] =
        ["time_seconds", "tool_calls", "tool_seconds", "output_bytes", "memory_bytes", "parallel"];

    pub(super) fn read(table: &Table<'_>) -> Self {
        let usual = Self::default();
        table.only(&Self::KEYS);
        Self {
            time_seconds: table.integer("time_seconds", SECONDS).unwrap_or(usual.time_seconds),
            tool_calls: table.integer("tool_calls", 1..=1_000_000).unwrap_or(usual.tool_calls),
            tool_seconds: table.integer("tool_seconds", SECONDS).unwrap_or(usual.tool_seconds),
            output_bytes: table.integer("output_bytes", STREAM_BYTES).unwrap_or(usual.output_bytes),
            memory_bytes: table.integer("memory_bytes", MEMORY_BYTES).unwrap_or(usual.memory_bytes),
            parallel: table.integer("parallel", 1..=32).unwrap_or(usual.parallel),
        }
    }
}

/// How tools are to be kept away from the rest of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxWish {
    /// The level below which nothing runs.
    pub require: IsolationLevel,
    /// Whether tools may use the network.
    pub network: bool,
    /// Directories outside the workspace that tools may write, absolute and without a `/` at the end.
    pub write: Vec<String>,
    /// Environment variables that tools get besides the usual ones.
    pub pass_env: Vec<String>,
}

impl SandboxWish {
    const KEYS: [&'static str; 4] = ["require", "network", "write", "pass_env"];

    pub(super) fn read(table: &Table<'_>) -> Self {
        let usual = Self::default();
        table.only(&Self::KEYS);
        let require = table.choice("require", &IsolationLevel::NAMES, IsolationLevel::parse);
        Self {
            require: require.unwrap_or(usual.require),
            network: table.flag("network").unwrap_or(usual.network),
            write: table.set("write", directory),
            pass_env: table.set("pass_env", variable),
        }
    }
}

/// What a session is held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPolicy {
    /// Whether fallbacks are proposed for steps that failed.
    pub fallbacks: bool,
    /// How often a rejected proposal may be revised.
    pub revisions: u32,
    /// Artifacts that every claim needs.
    pub min_evidence: u32,
    /// Seconds that a question waits for a person.
    pub question_seconds: u64,
    /// How often an agent is asked, at most, until it answers.
    pub agent_tries: u32,
}

impl Default for TaskPolicy {
    fn default() -> Self {
        Self {
            fallbacks: true,
            revisions: 1,
            min_evidence: 1,
            question_seconds: 300,
            agent_tries: 2,
        }
    }
}

impl TaskPolicy {
    const KEYS: [&'static str; 5] =
        ["fallbacks", "revisions", "min_evidence", "question_seconds", "agent_tries"];

    pub(super) fn read(table: &Table<'_>) -> Self {
        let usual = Self::default();
        table.only(&Self::KEYS);
        let question_seconds = table.integer("question_seconds", 0..=SECONDS_MAX);
        Self {
            fallbacks: table.flag("fallbacks").unwrap_or(usual.fallbacks),
            revisions: table.integer("revisions", 0..=100).unwrap_or(usual.revisions),
            min_evidence: table.integer("min_evidence", 1..=100).unwrap_or(usual.min_evidence),
            question_seconds: question_seconds.unwrap_or(usual.question_seconds),
            agent_tries: table.integer("agent_tries", 1..=10).unwrap_or(usual.agent_tries),
        }
    }
}

/// The name of an environment variable.
pub(crate) fn variable(value: &Value<'_>) -> Option<String> {
    let name = value.any_string()?;
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let named = name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit());
    if named {
        return Some(name.to_owned());
    }
    let found = super::fault::shown(name);
    value.refuse(format!(
        "found `{found}`, a variable is named by letters, digits and `_`, not starting with a digit"
    ))
}

/// An absolute directory.
pub(crate) fn directory(value: &Value<'_>) -> Option<String> {
    let written = value.passable()?;
    let Some(below) = written.strip_prefix('/') else {
        let found = super::fault::shown(written);
        return value.refuse(format!("must be an absolute directory, found `{found}`"));
    };
    let below = below.strip_suffix('/').unwrap_or(below);
    if below.is_empty() {
        return value.refuse("must be a directory below `/`");
    }
    if below.split('/').any(|component| matches!(component, "" | "." | "..")) {
        return value.refuse("must not have an empty, `.` or `..` component");
    }
    Some(format!("/{below}"))
}
