//! A ledger as this process knows it: its head, and what its events come to.

use countersign_format::event::{Event, Reading};
use countersign_format::hash::Hash;
use countersign_protocol::State;
use countersign_protocol::chain::Chain;

use crate::store::{Head, LedgerId};

/// Head and state of one ledger.
#[derive(Debug, Clone)]
pub(crate) struct Replica<S> {
    pub(crate) chain: Chain,
    pub(crate) state: S,
    pub(crate) head: Head,
    /// Hash of the first event.
    pub(crate) first: Option<Hash>,
}

impl<S: State> Default for Replica<S> {
    fn default() -> Self {
        Self { chain: Chain::default(), state: S::default(), head: Head::EMPTY, first: None }
    }
}

/// A ledger whose lines are not what a recorder writes. Nothing is appended to such a one.
#[derive(Debug, thiserror::Error)]
#[error("{ledger} is damaged at event {index}: {what}")]
pub struct Damage {
    /// Which ledger.
    pub ledger: LedgerId,
    /// The place of the line.
    pub index: u64,
    /// What is wrong with it.
    pub what: String,
}

impl<S: State> Replica<S> {
    /// Takes in whole lines that follow the head.
    pub(crate) fn take_lines(&mut self, ledger: LedgerId, lines: &[u8]) -> Result<(), Damage> {
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let body = line.strip_suffix(b"\n").unwrap_or(line);
            let index = self.chain.events;
            let event = read(body).map_err(|what| Damage { ledger, index, what })?;
            if let Err(gap) = self.chain.follows(&event) {
                return Err(Damage { ledger, index, what: gap.to_string() });
            }
            self.push(&event);
            self.head = Head::at(self.head.bytes + line.len() as u64);
        }
        Ok(())
    }

    /// Takes in one event, without moving the head.
    pub(crate) fn push(&mut self, event: &Event) {
        self.first.get_or_insert(event.event_hash);
        self.chain.push(event);
        self.state.apply(event);
    }
}

/// One line as an event. Signatures are the verifier's: a writer trusts its own disk that far, but
/// not so far as to build on a line whose hash is wrong.
pub(crate) fn read(line: &[u8]) -> Result<Event, String> {
    let reading = Reading::of(line).map_err(|fault| fault.to_string())?;
    if let Some(fault) = &reading.fault {
        return Err(fault.to_string());
    }
    let computed = reading.event_hash;
    let event = reading.into_event().ok_or("the line is not an event")?;
    if event.event_hash == computed {
        Ok(event)
    } else {
        Err(format!("the event hashes to {computed}, it states {}", event.event_hash))
    }
}
