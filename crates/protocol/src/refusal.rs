//! Answers that say no, with the values that decided.

use countersign_format::event::{EventType, TraceKind};
use countersign_format::role::Role;

/// Why something may not happen. An answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The trace must begin with something else.
    #[error("a trace cannot begin with `{}`", found.as_str())]
    WrongFirstEvent {
        /// What it began with.
        found: EventType,
    },
    /// The trace has begun already.
    #[error("`{}` can only be the first event of a trace", found.as_str())]
    BeganAlready {
        /// What would begin it again.
        found: EventType,
    },
    /// The kind of trace has no such events.
    #[error("a {} trace holds no `{}`", kind.as_str(), found.as_str())]
    NotInThisKind {
        /// The kind.
        kind: TraceKind,
        /// The event.
        found: EventType,
    },
    /// The role may not do this.
    #[error("`{}` is not for the role `{}`", event.as_str(), role.as_str())]
    NotForThisRole {
        /// The event.
        event: EventType,
        /// The role that tried.
        role: Role,
    },
    /// The trace is over.
    #[error("the trace has ended; `{}` may not follow", found.as_str())]
    Ended {
        /// What would follow.
        found: EventType,
    },
    /// A reference leads nowhere.
    #[error("`{}` refers to event {event_id} at {seq}, which is no open {wanted}", event.as_str())]
    NoSuchReference {
        /// What refers.
        event: EventType,
        /// The id that it names.
        event_id: String,
        /// The place that it names.
        seq: u64,
        /// What should be there.
        wanted: &'static str,
    },
    /// The payload lacks what the rules need.
    #[error("`{}` has no usable `{member}` in its payload", event.as_str())]
    UnusablePayload {
        /// The event.
        event: EventType,
        /// The member.
        member: &'static str,
    },
    /// A person was asked about the intent, and has not answered.
    #[error("the intent at {intent} waits for an answer")]
    IntentUndecided {
        /// Its place.
        intent: u64,
    },
    /// Something is still under way.
    #[error("{count} executions are still under way, the first at {first}")]
    ExecutionsOpen {
        /// How many.
        count: usize,
        /// The place of the first.
        first: u64,
    },
    /// The key is known already.
    #[error("key {key_id} is in the log already")]
    KeyKnown {
        /// The key.
        key_id: String,
    },
    /// The key is not there or not active.
    #[error("no active key {key_id} in the log")]
    NoActiveKey {
        /// The key.
        key_id: String,
    },
    /// Only the root key may change keys.
    #[error("key events are signed by the root key {root}, not by {found}")]
    NotTheRoot {
        /// The root key.
        root: String,
        /// The key that tried.
        found: String,
    },
    /// The root signs key events only.
    #[error("`{}` is not for the root key", event.as_str())]
    NotForTheRoot {
        /// What it was to sign.
        event: EventType,
    },
    /// A log is named after its root.
    #[error("the log calls itself `{found}`, its root makes it `{wanted}`")]
    WrongOrigin {
        /// What it calls itself.
        found: String,
        /// What it is.
        wanted: String,
    },
    /// The root stays what the log began with.
    #[error("the root key {root} cannot be rotated or revoked: start a new workspace instead")]
    RootIsFixed {
        /// The root key.
        root: String,
    },
    /// The key that replaces another must be of the same agent.
    #[error("key {new} belongs to `{found}`, the one that it replaces to `{wanted}`")]
    OtherAgent {
        /// The new key.
        new: String,
        /// Its agent.
        found: String,
        /// The agent that it should be.
        wanted: String,
    },
    /// The chain of key events is broken.
    #[error("`{}` names {found} as the last key event, it is {wanted}", event.as_str())]
    KeysHeadDiffers {
        /// The event.
        event: EventType,
        /// What it names.
        found: String,
        /// What is right.
        wanted: String,
    },
    /// The trace is in the log already.
    #[error("trace {trace_id} is open in the log already")]
    TraceKnown {
        /// The trace.
        trace_id: String,
    },
    /// The trace is not open.
    #[error("trace {trace_id} is not open in the log")]
    TraceNotOpen {
        /// The trace.
        trace_id: String,
    },
    /// A trace was opened while keys were about to change.
    #[error("trace {trace_id} is open and not held")]
    TraceNotHeld {
        /// The trace.
        trace_id: String,
    },
    /// Keys changed between a trace's first event and its entry in the log.
    #[error("keys changed while trace {trace_id} was being opened")]
    KeysChanged {
        /// The trace.
        trace_id: String,
    },
    /// A checkpoint must say more than the one before.
    #[error("the log has trace {trace_id} at {known} events already, not only {found}")]
    NotLonger {
        /// The trace.
        trace_id: String,
        /// What the log has.
        known: u64,
        /// What was offered.
        found: u64,
    },
    /// An identity is not fit to be recorded.
    #[error("the identity of key {key_id} is not usable: {fault}")]
    UnusableIdentity {
        /// The key.
        key_id: String,
        /// What is wrong.
        fault: String,
    },
    /// No audit is under way.
    #[error("no verification run is under way")]
    NoAuditUnderWay,
    /// No final statement yet.
    #[error("there is no final statement to verify")]
    NoFinalStatement,
}
