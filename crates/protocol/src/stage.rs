//! What every trace has that ends in an audit: where the log stood when it began, how intents are
//! judged, and how far it is on the way to its end.

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use serde::{Deserialize, Serialize};

/// Where the workspace log stood when a trace began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPin {
    /// Its name.
    pub origin: String,
    /// Number of its events.
    pub size: u64,
    /// Hash of the last of them.
    pub head: Hash,
    /// Hash of its last key event.
    pub keys_head: Hash,
}

/// Whether an intent may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReviewDecision {
    /// It may.
    Approved,
    /// It may not.
    Blocked,
    /// A person must say.
    Asked,
}

/// How far a trace is on the way to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It goes on.
    #[default]
    Open,
    /// The final statement stands; the audit comes next.
    Concluded,
    /// The audit is under way, begun by this event.
    Auditing(EventRef),
    /// Over.
    Ended,
}
