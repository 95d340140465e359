//! The workspace log.

use super::table;
use crate::event::TraceKind;
use crate::json::INTEGER_MAX;
use crate::key::AGENT_IDENTITY;
use crate::shape::{Fields, Shape, opt, req};

/// A trace that the log knows has an event.
const COUNT: Shape = Shape::Integer(1, INTEGER_MAX);
const IDENTITY: Shape = Shape::Object(&AGENT_IDENTITY);

pub(super) static LOG_OPENED: Fields = table(
    "LogOpened",
    "The first event of a workspace log; its identity is the root key.",
    &[
        req("kind", Shape::OneOf(&["log"])),
        req("origin", Shape::NonEmptyText),
        req("identity", IDENTITY),
        opt("software", Shape::Text),
    ],
);

pub(super) static KEY_ADDED: Fields = table(
    "KeyAdded",
    "A key that may sign from now on.",
    &[req("identity", IDENTITY), req("prev_key_event", Shape::Hash)],
);

pub(super) static KEY_ROTATED: Fields = table(
    "KeyRotated",
    "The key that replaces another one of the same agent.",
    &[
        req("identity", IDENTITY),
        req("rotated_key_id", Shape::Name),
        req("rotated_at", Shape::Time),
        req("prev_key_event", Shape::Hash),
    ],
);

pub(super) static KEY_REVOKED: Fields = table(
    "KeyRevoked",
    "A key that may no longer sign.",
    &[
        req("key_id", Shape::Name),
        req("revoked_at", Shape::Time),
        req("reason", Shape::NonEmptyText),
        req("prev_key_event", Shape::Hash),
    ],
);

pub(super) static TRACE_OPENED: Fields = table(
    "TraceOpened",
    "A trace whose first event is durable.",
    &[
        req("trace_id", Shape::Ulid),
        req("kind", Shape::OneOf(&TraceKind::TRACE_NAMES)),
        req("first_event_hash", Shape::Hash),
        req("keys_head", Shape::Hash),
    ],
);

pub(super) static TRACE_CHECKPOINTED: Fields = table(
    "TraceCheckpointed",
    "A trace of which this many events are durable.",
    &[
        req("trace_id", Shape::Ulid),
        req("size", COUNT),
        req("head", Shape::Hash),
        req("merkle_root", Shape::Hash),
        req("last_event_at", Shape::Time),
        req("keys_head", Shape::Hash),
    ],
);

pub(super) static TRACE_CLOSED: Fields = table(
    "TraceClosed",
    "A trace that ended.",
    &[
        req("trace_id", Shape::Ulid),
        req("size", COUNT),
        req("head", Shape::Hash),
        req("merkle_root", Shape::Hash),
        req("last_event_at", Shape::Time),
        req("status", Shape::OneOf(&["succeeded", "failed", "aborted"])),
        req("keys_head", Shape::Hash),
    ],
);
