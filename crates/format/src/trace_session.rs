//! The summary of a trace, as kept beside it. A cache: the events are the truth.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::TraceKind;
use crate::hash::Hash;
use crate::json::INTEGER_MAX;
use crate::role::Role;
use crate::shape::{Fields, Shape, Unknown, opt, req};
use crate::time::Timestamp;

/// What a trace comes to, derived from its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSession {
    /// The schema of this object.
    pub schema_version: String,
    /// The trace.
    pub trace_id: String,
    /// What it records; absent means a session.
    #[serde(default = "session")]
    pub kind: TraceKind,
    /// The task, for sessions.
    pub task_id: Option<String>,
    /// Time of the first event.
    pub started_at: Timestamp,
    /// Time of the event that closed it.
    pub ended_at: Option<Timestamp>,
    /// How it stands.
    pub status: TraceStatus,
    /// Who took part.
    pub participants: Vec<Participant>,
    /// Hash of the last event.
    pub head_event_hash: Hash,
    /// Number of events.
    pub event_count: u64,
    /// Number of distinct artifacts.
    pub artifact_count: u64,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

const fn session() -> TraceKind {
    TraceKind::Session
}

/// How a trace stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceStatus {
    /// Not closed yet.
    Running,
    /// Closed, and its audit passed.
    Succeeded,
    /// Closed otherwise.
    Failed,
    /// Closed by a person.
    Aborted,
    /// Closed, and changed afterwards.
    Tampered,
}

impl TraceStatus {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Tampered => "tampered",
        }
    }
}

/// An agent and the role in which it took part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Participant {
    /// The agent.
    pub agent_id: String,
    /// Its role.
    pub role: Role,
}

static PARTICIPANT: Fields = Fields {
    name: "Participant",
    doc: "An agent and the role in which it took part.",
    fields: &[req("agent_id", Shape::Name), req("role", Shape::OneOf(&Role::NAMES))],
    unknown: Unknown::Kept,
};

/// The members of a [`TraceSession`].
pub static TRACE_SESSION: Fields = Fields {
    name: "TraceSession",
    doc: "The summary of a trace, derived from its events.",
    fields: &[
        req("schema_version", Shape::Version),
        req("trace_id", Shape::Ulid),
        opt("kind", Shape::OneOf(&TraceKind::TRACE_NAMES)),
        req("task_id", Shape::Nullable(&Shape::Name)),
        req("started_at", Shape::Time),
        req("ended_at", Shape::Nullable(&Shape::Time)),
        req("status", Shape::OneOf(&["running", "succeeded", "failed", "aborted", "tampered"])),
        req("participants", Shape::List(&Shape::Object(&PARTICIPANT))),
        req("head_event_hash", Shape::Hash),
        req("event_count", Shape::Integer(0, INTEGER_MAX)),
        req("artifact_count", Shape::Integer(0, INTEGER_MAX)),
    ],
    unknown: Unknown::Kept,
};
