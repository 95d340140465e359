//! What may happen next.
//!
//! A trace's state is what its events come to. [`State::decide`] says which events a command would
//! bring, [`State::admit`] whether an event may follow, [`State::apply`] what it changes. The
//! recorder writes nothing that `admit` refuses and the verifier replays with the same functions,
//! so the two cannot disagree about the rules. No files, clocks or randomness: time and ids are
//! arguments.

pub mod chain;
mod ending;
pub mod flow;
mod gate_record;
pub mod log;
mod parts;
pub mod receipts;
pub mod recording;
mod refusal;
pub mod roles;
pub mod session;
mod stage;
pub mod unlinked;
pub mod work;

use countersign_format::event::{Draft, Event, EventRef, EventType};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
pub use ending::{ending, kind_of};
pub use gate_record::GateRecord;
pub use refusal::Refusal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
pub use stage::{LogPin, ReviewDecision, Stage};

/// Whose key signs an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The workspace's root key, in the role of the recorder.
    Root,
    /// The agent of this workspace that has this role.
    Role(Role),
}

/// An event to be recorded, and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Act {
    /// Who signs.
    pub by: By,
    /// What happened.
    pub draft: Draft,
}

impl Act {
    /// Something that the recorder itself does.
    #[must_use]
    pub const fn by_recorder(draft: Draft) -> Self {
        Self { by: By::Role(Role::Recorder), draft }
    }
}

/// What a decision may know of the world.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// The time, never before that of the last event.
    pub now: Timestamp,
    /// What the clock says, which may be earlier.
    pub raw: Timestamp,
    /// The id that the next event will have; those after it follow one by one.
    pub next_id: Ulid,
    /// The place that the next event will have.
    pub next_seq: u64,
}

impl Context {
    /// A reference to the event that will be the `nth` of this decision, from 0.
    #[must_use]
    pub fn reference(&self, nth: u64) -> EventRef {
        let id = (0..nth).fold(self.next_id, |id, _| id.next());
        EventRef { event_id: id.to_string(), seq: self.next_seq.saturating_add(nth) }
    }
}

/// What the events of one kind of trace come to.
pub trait State: Default + Clone + Serialize + DeserializeOwned + Send + 'static {
    /// What can be asked for.
    type Command: Send;

    /// Changes with every change of the state's stored form: a snapshot of another version is
    /// thrown away.
    const VERSION: u32;

    /// Whether what an event changes depends on its own hash or its predecessor's. Where it does, the
    /// event has to be signed before the next one can be decided.
    const READS_HASHES: bool = false;

    /// The events that `command` would bring. Changes nothing.
    fn decide(&self, command: Self::Command, context: &Context) -> Result<Vec<Act>, Refusal>;

    /// Whether `event` may follow what was applied so far.
    fn admit(&self, event: &Event) -> Result<(), Refusal>;

    /// Takes `event` in. Total: what was appended cannot be refused.
    fn apply(&mut self, event: &Event);

    /// How the trace ended, if it has.
    fn ended(&self) -> Option<TraceStatus>;

    /// What to record after a torn tail was put aside.
    fn recovered(&self, torn: &SetAside) -> Act {
        Act::by_recorder(Draft::new(EventType::SessionRecovered, torn.payload()))
    }
}

/// Bytes after the last complete line, which a crashed writer left behind, and where they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// How many.
    pub bytes: u64,
    /// Their SHA-256.
    pub hash: Hash,
    /// The file that keeps them, relative to the directory of the ledger.
    pub file: String,
}

impl SetAside {
    /// What the event that records it says.
    #[must_use]
    pub fn payload(&self) -> Value {
        json!({
            "reason": "the last line was incomplete",
            "torn_bytes": self.bytes,
            "torn_hash": self.hash,
            "torn_file": self.file,
        })
    }
}
