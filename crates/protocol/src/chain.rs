//! The head of a ledger: what the next event must follow.

use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::merkle::Frontier;
use countersign_format::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a ledger stands after its last event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Chain {
    /// Number of events.
    pub events: u64,
    /// Hash of the last one.
    pub head: Hash,
    /// Time of the last one.
    pub last_at: Timestamp,
    /// Id of the first one.
    pub first_id: Option<Ulid>,
    /// Id of the last one.
    pub last_id: Option<Ulid>,
    /// The Merkle tree over all event hashes.
    pub tree: Frontier,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            events: 0,
            head: Hash::GENESIS,
            last_at: Timestamp::EPOCH,
            first_id: None,
            last_id: None,
            tree: Frontier::new(),
        }
    }
}

/// How an event fails to follow its predecessor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Gap {
    /// It names another predecessor.
    #[error("event {index} does not follow its predecessor: expected {expected}, found {found}")]
    Link {
        /// Its place in the file.
        index: u64,
        /// The predecessor's hash.
        expected: Hash,
        /// What it names.
        found: Hash,
    },
    /// It states another place than it has.
    #[error("event {index} says that it is number {found}")]
    Seq {
        /// Its place in the file.
        index: u64,
        /// What it states.
        found: u64,
    },
}

impl Chain {
    /// Whether `event` follows, as its members state it.
    pub fn follows(&self, event: &Event) -> Result<(), Gap> {
        if event.prev_event_hash != self.head {
            return Err(Gap::Link {
                index: self.events,
                expected: self.head,
                found: event.prev_event_hash,
            });
        }
        match event.seq {
            Some(found) if found != self.events => Err(Gap::Seq { index: self.events, found }),
            _ => Ok(()),
        }
    }

    /// Moves the head to `event`.
    pub fn push(&mut self, event: &Event) {
        self.events += 1;
        self.head = event.event_hash;
        self.last_at = self.last_at.max(event.created_at);
        self.first_id = self.first_id.or_else(|| event.event_id.parse().ok());
        self.last_id = event.event_id.parse().ok().or(self.last_id);
        self.tree.push(&event.event_hash);
    }
}
