//! Work items.

use super::{LINKS, PIN, SIZE, table};
use crate::exit::WorkPhase;
use crate::shape::{Fields, Shape, Unknown, opt, req};

/// How a signal came: on the descriptor that is made for it, as the last thing on standard output,
/// by a command of the agent, from a person, or from whoever ran the agent and speaks for it.
const CHANNEL: Shape = Shape::OneOf(&["descriptor", "stdout", "agent", "operator", "runner"]);
const PHASE: Shape = Shape::OneOf(&WorkPhase::NAMES);

pub(super) static WORK_OPENED: Fields = table(
    "WorkOpened",
    "The first event of a work item.",
    &[
        req("kind", Shape::OneOf(&["work"])),
        req("title", Shape::NonEmptyText),
        opt("label", Shape::NonEmptyText),
        req("phase", PHASE),
        opt("author_may_review", Shape::Bool),
        req("log", PIN),
        LINKS,
    ],
);

/// What a CI command said, and about which commit.
static CI_VERDICT: Fields = Fields {
    name: "CiVerdict",
    doc: "How the configured CI command ended: its exit status is the verdict.",
    fields: &[
        req("exit_status", Shape::Nullable(&Shape::Integer(-255, 255))),
        opt("reason", Shape::NonEmptyText),
        opt("commit", Shape::NonEmptyText),
    ],
    unknown: Unknown::Kept,
};

pub(super) static LEASE_GRANTED: Fields = table(
    "LeaseGranted",
    "An agent holds the item until the lease ends.",
    &[
        req("holder", Shape::Name),
        req("session_id", Shape::Name),
        req("epoch", SIZE),
        req("phase", PHASE),
        req("expires_at", Shape::Time),
        opt("by_hand", Shape::Bool),
        opt("ci", Shape::Bool),
        opt("descriptor_only", Shape::Bool),
    ],
);

pub(super) static LEASE_RENEWED: Fields = table(
    "LeaseRenewed",
    "The holder keeps the item longer.",
    &[req("epoch", SIZE), req("expires_at", Shape::Time)],
);

pub(super) static LEASE_RELEASED: Fields = table(
    "LeaseReleased",
    "The item is free again.",
    &[req("epoch", SIZE), req("reason", Shape::NonEmptyText), opt("released_by", Shape::Name)],
);

pub(super) static AGENT_SESSION_COMPLETED: Fields = table(
    "AgentSessionCompletedPayload",
    "The holder finished its phase: the item moves on, its lease is free, its session over.",
    &[
        req("source", Shape::OneOf(&["agent_exit_protocol"])),
        req("session_id", Shape::Name),
        req("actor_id", Shape::Name),
        req("epoch", SIZE),
        req("phase_completed", PHASE),
        req("exit_reason", Shape::OneOf(&["completed", "blocked", "error"])),
        req("next_phase", PHASE),
        req("channel", CHANNEL),
        opt("signal_hash", Shape::Hash),
        opt("signal_artifact", Shape::Hash),
        opt("evidence_artifact", Shape::Hash),
        opt("commit", Shape::NonEmptyText),
        opt("ci", Shape::Object(&CI_VERDICT)),
        opt("pr_url", Shape::Text),
        opt("evidence_bundle_ref", Shape::Text),
        opt("notes", Shape::Text),
        LINKS,
    ],
);

pub(super) static EXIT_REFUSED: Fields = table(
    "ExitRefused",
    "An exit signal that changed nothing, and why.",
    &[
        req("reason", Shape::NonEmptyText),
        opt("session_id", Shape::Name),
        opt("epoch", SIZE),
        opt("channel", CHANNEL),
        opt("signal_artifact", Shape::Hash),
    ],
);

pub(super) static WORK_UNBLOCKED: Fields = table(
    "WorkUnblocked",
    "A person sends a blocked item back to the phase that it was blocked from.",
    &[req("phase", PHASE), req("reason", Shape::NonEmptyText), opt("channel", Shape::NonEmptyText)],
);

pub(super) static CLOCK_CONFIRMED: Fields = table(
    "ClockConfirmed",
    "A person vouches for the clock; lease time runs on from here.",
    &[req("raw_time", Shape::Time), req("reason", Shape::NonEmptyText)],
);
