//! How many signals came on a channel, and whether they are all the same.

use crate::hash::Hash;
use crate::json;

/// The signals of one channel.
#[derive(Debug, Default)]
pub(in crate::exit) struct Tally {
    first: Option<Hash>,
    count: u64,
    differ: bool,
}

impl Tally {
    /// Counts a signal.
    pub(in crate::exit) fn add(&mut self, signal: &[u8]) {
        // Two spellings of the same JSON say the same. What the strict reader refuses says nothing
        // for certain, so there every byte counts.
        let identity = json::read(signal)
            .map_or_else(|_| Hash::of(signal), |value| Hash::of(&json::to_bytes(&value)));
        self.count_one(Some(identity));
    }

    /// Counts a signal that was not kept, and which therefore is like no other.
    pub(in crate::exit) fn add_unread(&mut self) {
        self.count_one(None);
    }

    fn count_one(&mut self, identity: Option<Hash>) {
        if self.count == 0 {
            self.first = identity;
        } else {
            self.differ |= identity.is_none() || identity != self.first;
        }
        self.count = self.count.saturating_add(1);
    }

    /// How many there are, if not all of them are the same.
    pub(in crate::exit) fn different(&self) -> Option<u64> {
        self.differ.then_some(self.count)
    }
}
