//! Why a signal is not taken.

use super::{AGENT_EXIT_PROTOCOL_ENABLED, EXIT_SIGNAL_PROTOCOL, WorkPhase};
use crate::json::JsonError;

/// Characters of somebody's text that an error repeats.
const ECHO_CHARS_MAX: usize = 200;
/// Characters of a wrong URL that an error repeats.
const URL_ECHO_CHARS_MAX: usize = 50;

/// Why a text is not a valid exit signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExitSignalError {
    /// Signals are switched off; nothing was read.
    #[error("exit signal validation is disabled ({AGENT_EXIT_PROTOCOL_ENABLED}=false)")]
    ValidationDisabled,
    /// Larger than any signal may be; nothing was read.
    #[error("input too large: {actual} bytes > {max} bytes maximum")]
    InputTooLarge {
        /// Its bytes.
        actual: usize,
        /// The bytes that it may have.
        max: usize,
    },
    /// Not JSON that every reader takes alike.
    #[error("invalid JSON: {0}")]
    Syntax(#[from] JsonError),
    /// JSON, but not the shape of a signal.
    #[error("invalid JSON: {0}")]
    Shape(String),
    /// Some other protocol's message.
    #[error("unknown protocol: expected '{EXIT_SIGNAL_PROTOCOL}', got '{0}'")]
    UnknownProtocol(String),
    /// Not version 1 of the protocol.
    #[error("unsupported version: expected '1.x', got '{0}'")]
    UnsupportedVersion(String),
    /// A field longer than it may be.
    #[error("{field} exceeds maximum length: {actual} bytes > {max} bytes")]
    FieldTooLong {
        /// Its name.
        field: &'static str,
        /// Its bytes.
        actual: usize,
        /// The bytes that it may have.
        max: usize,
    },
    /// Text that no event could hold.
    #[error("{field} is not acceptable: {reason}")]
    UnusableText {
        /// The field's name.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// `pr_url` is not an https URL.
    #[error("pr_url must start with 'https://': got '{0}'")]
    InsecureUrl(String),
    /// `pr_url` has a character that a shell, a terminal or a page could obey.
    #[error("pr_url contains potentially dangerous character: '{0}'")]
    UrlInjection(String),
    /// `pr_url` names a user, with which a host can be disguised.
    #[error("pr_url must not name a user before its host")]
    UrlUserInfo,
    /// `pr_url` names no host, or none that could exist.
    #[error("pr_url must name a host and at most a port after 'https://'")]
    UrlHost,
    /// A path that leaves the directory it is relative to.
    #[error("path traversal detected in {field}: paths cannot contain '..' or start with '/'")]
    PathTraversal {
        /// The field's name.
        field: &'static str,
    },
    /// No phase follows: blocked work is unblocked by an operator, not completed.
    #[error("no transition: work in phase '{0}' cannot be completed by an exit signal")]
    NoTransition(WorkPhase),
}

impl ExitSignalError {
    pub(super) fn shape(message: impl Into<String>) -> Self {
        Self::Shape(message.into())
    }

    pub(super) fn insecure_url(url: &str) -> Self {
        Self::InsecureUrl(shorten(url, URL_ECHO_CHARS_MAX))
    }

    pub(super) fn unknown_protocol(protocol: &str) -> Self {
        Self::UnknownProtocol(echo(protocol))
    }

    pub(super) fn unsupported_version(version: &str) -> Self {
        Self::UnsupportedVersion(echo(version))
    }
}

/// `text`, cut where an error would otherwise grow with it.
pub(super) fn echo(text: &str) -> String {
    shorten(text, ECHO_CHARS_MAX)
}

fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Why a valid signal does not move a work item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandlerRefusal {
    /// The session works on nothing.
    #[error("session has no active work phase")]
    NoActivePhase,
    /// The session holds another phase than it claims to have completed.
    #[error("phase mismatch: exit signal claims '{claimed}' but session is in '{actual}'")]
    PhaseMismatch {
        /// What the signal says.
        claimed: WorkPhase,
        /// What the session holds.
        actual: WorkPhase,
    },
    /// Nothing leaves COMPLETED.
    #[error("work is in phase 'COMPLETED', which nothing leaves")]
    AlreadyCompleted,
    /// Only an operator takes work out of BLOCKED.
    #[error("work is in phase 'BLOCKED', only an operator can unblock it")]
    Blocked,
    /// An agent claims that CI passed.
    #[error("only the CI runner can complete phase 'CI_PENDING'")]
    OnlyCiRunner,
}
