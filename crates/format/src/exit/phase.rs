//! The phases of a work item, and why a session ends.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a work item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum WorkPhase {
    /// It is being drafted.
    Draft,
    /// Code is being written.
    Implementation,
    /// It waits for CI.
    CiPending,
    /// CI passed; it waits for a reviewer.
    ReadyForReview,
    /// It is being reviewed.
    Review,
    /// The review approved it.
    ReadyForMerge,
    /// It is merged.
    Completed,
    /// It cannot go on until an operator says so.
    Blocked,
}

/// A text that names no phase; phases are matched exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a work phase is one of: {}", WorkPhase::NAMES.join(", "))]
pub struct NotAWorkPhase;

impl WorkPhase {
    /// Every phase, in the order of a work item's life.
    pub const ALL: [Self; 8] = [
        Self::Draft,
        Self::Implementation,
        Self::CiPending,
        Self::ReadyForReview,
        Self::Review,
        Self::ReadyForMerge,
        Self::Completed,
        Self::Blocked,
    ];
    /// The names of [`Self::ALL`], in the same order.
    pub const NAMES: [&'static str; 8] = [
        "DRAFT",
        "IMPLEMENTATION",
        "CI_PENDING",
        "READY_FOR_REVIEW",
        "REVIEW",
        "READY_FOR_MERGE",
        "COMPLETED",
        "BLOCKED",
    ];

    /// The phase of exactly this name.
    pub fn parse(name: &str) -> Result<Self, NotAWorkPhase> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name).ok_or(NotAWorkPhase)
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "DRAFT",
            Self::Implementation => "IMPLEMENTATION",
            Self::CiPending => "CI_PENDING",
            Self::ReadyForReview => "READY_FOR_REVIEW",
            Self::Review => "REVIEW",
            Self::ReadyForMerge => "READY_FOR_MERGE",
            Self::Completed => "COMPLETED",
            Self::Blocked => "BLOCKED",
        }
    }

    /// The phase that follows when this one is completed. COMPLETED stays; nobody completes
    /// BLOCKED: that would skip whatever the item was blocked from.
    #[must_use]
    pub const fn after_completion(self) -> Option<Self> {
        match self {
            Self::Draft => Some(Self::Implementation),
            Self::Implementation => Some(Self::CiPending),
            Self::CiPending => Some(Self::ReadyForReview),
            Self::ReadyForReview => Some(Self::Review),
            Self::Review => Some(Self::ReadyForMerge),
            Self::ReadyForMerge | Self::Completed => Some(Self::Completed),
            Self::Blocked => None,
        }
    }
}

impl fmt::Display for WorkPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for WorkPhase {
    type Err = NotAWorkPhase;

    fn from_str(name: &str) -> Result<Self, NotAWorkPhase> {
        Self::parse(name)
    }
}

impl TryFrom<String> for WorkPhase {
    type Error = NotAWorkPhase;

    fn try_from(name: String) -> Result<Self, NotAWorkPhase> {
        Self::parse(&name)
    }
}

impl From<WorkPhase> for &'static str {
    fn from(phase: WorkPhase) -> Self {
        phase.as_str()
    }
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum ExitReason {
    /// The phase is finished.
    Completed,
    /// Something outside is missing.
    Blocked,
    /// The session failed.
    Error,
}

/// A text that names no reason; reasons are matched exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an exit reason is one of: {}", ExitReason::NAMES.join(", "))]
pub struct NotAnExitReason;

impl ExitReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Blocked, Self::Error];
    /// The names of [`Self::ALL`], in the same order.
    pub const NAMES: [&'static str; 3] = ["completed", "blocked", "error"];

    /// The reason of exactly this name.
    pub fn parse(name: &str) -> Result<Self, NotAnExitReason> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name).ok_or(NotAnExitReason)
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Blocked => "blocked",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ExitReason {
    type Err = NotAnExitReason;

    fn from_str(name: &str) -> Result<Self, NotAnExitReason> {
        Self::parse(name)
    }
}

impl TryFrom<String> for ExitReason {
    type Error = NotAnExitReason;

    fn try_from(name: String) -> Result<Self, NotAnExitReason> {
        Self::parse(&name)
    }
}

impl From<ExitReason> for &'static str {
    fn from(reason: ExitReason) -> Self {
        reason.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_exactly_as_they_are_written() {
        for (phase, name) in WorkPhase::ALL.into_iter().zip(WorkPhase::NAMES) {
            assert_eq!((phase.as_str(), WorkPhase::parse(name)), (name, Ok(phase)));
            assert_eq!(WorkPhase::parse(&name.to_lowercase()), Err(NotAWorkPhase));
            assert_eq!(serde_json::to_string(&phase).expect("json"), format!("\"{name}\""));
            assert!(serde_json::from_str::<WorkPhase>(&format!("{{\"{name}\":null}}")).is_err());
        }
        for (reason, name) in ExitReason::ALL.into_iter().zip(ExitReason::NAMES) {
            assert_eq!((reason.as_str(), ExitReason::parse(name)), (name, Ok(reason)));
            assert_eq!(ExitReason::parse(&name.to_uppercase()), Err(NotAnExitReason));
        }
    }

    #[test]
    fn completing_a_phase_leads_to_the_next_one() {
        let next = WorkPhase::ALL.map(|phase| phase.after_completion().map(WorkPhase::as_str));
        assert_eq!(
            next,
            [
                Some("IMPLEMENTATION"),
                Some("CI_PENDING"),
                Some("READY_FOR_REVIEW"),
                Some("REVIEW"),
                Some("READY_FOR_MERGE"),
                Some("COMPLETED"),
                Some("COMPLETED"),
                None
            ]
        );
    }
}
