//! Work items.

use super::{LINKS, PIN, SIZE, table};
use crate::exit::WorkPhase;
use crate::shape::{Fields, Shape, opt, req};

const PHASE: Shape = Shape::OneOf(&WorkPhase::NAMES);

pub(super) static WORK_OPENED: Fields = table(
    "WorkOpened",
    "The first event of a work item.",
    &[
        req("kind", Shape::OneOf(&["work"])),
        req("title", Shape::NonEmptyText),
        opt("label", Shape::NonEmptyText),
        req("phase", PHASE),
        req("log", PIN),
        LINKS,
    ],
);

pub(super) static LEASE_GRANTED: Fields = table(
    "LeaseGranted",
    "An agent holds the item until the lease ends.",
    &[
        req("holder", Shape::Name),
        req("session_id", Shape::Name),
        req("epoch", SIZE),
        req("phase", PHASE),
        req("expires_at", Shape::Time),
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
        req("channel", Shape::OneOf(&["descriptor", "stdout", "operator"])),
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
        opt("signal_artifact", Shape::Hash),
    ],
);

pub(super) static WORK_UNBLOCKED: Fields = table(
    "WorkUnblocked",
    "A person sends a blocked item back to the phase that it was blocked from.",
    &[req("phase", PHASE), req("reason", Shape::NonEmptyText)],
);

pub(super) static CLOCK_CONFIRMED: Fields = table(
    "ClockConfirmed",
    "A person vouches for the clock; lease time runs on from here.",
    &[req("raw_time", Shape::Time), req("reason", Shape::NonEmptyText)],
);
