//! A ledger as this process knows it: its head, and what its events come to.

use countersign_format::event::{Event, Reading, WholeLine};
use countersign_format::hash::Hash;
use countersign_protocol::State;
use countersign_protocol::chain::Chain;

use crate::store::{Batch, Head, LedgerId, StoreError};

/// Head and state of one ledger.
#[derive(Debug, Clone)]
pub(crate) struct Replica<S> {
    pub(crate) chain: Chain,
    pub(crate) state: S,
    pub(crate) head: Head,
    /// Where the last line before the head starts.
    pub(crate) last_line: Head,
    /// Whether this process made everything up to the head durable. What it only read, or has from
    /// a snapshot, can have been taken back since, and other lines written in its place.
    pub(crate) durable: bool,
    /// Hash of the first event.
    pub(crate) first: Option<Hash>,
}

impl<S: State> Default for Replica<S> {
    fn default() -> Self {
        Self {
            chain: Chain::default(),
            state: S::default(),
            head: Head::EMPTY,
            last_line: Head::EMPTY,
            durable: false,
            first: None,
        }
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
            let event = read_unsigned(body)
                .and_then(|event| belongs(ledger, &event).map(|()| event))
                .map_err(|what| Damage { ledger, index, what })?;
            if let Err(gap) = self.chain.follows(&event) {
                return Err(Damage { ledger, index, what: gap.to_string() });
            }
            self.push(&event);
            self.last_line = self.head;
            self.head = Head::at(self.head.bytes + line.len() as u64);
            self.durable = false;
        }
        Ok(())
    }

    /// Whether the ledger, which nobody can change meanwhile, still begins with what is known here.
    pub(crate) fn stands_in(&self, batch: &dyn Batch) -> Result<bool, StoreError> {
        if self.durable || self.head == Head::EMPTY {
            return Ok(self.head <= batch.head());
        }
        ends_at(batch, self.last_line, self.head, self.chain.head)
    }

    /// Takes in one event, without moving the head.
    fn push(&mut self, event: &Event) {
        self.extend(event);
        self.state.apply(event);
    }
}

impl<S> Replica<S> {
    /// Puts one event at the end of the chain, without moving the head; the state is not told.
    pub(crate) fn extend(&mut self, event: &Event) {
        self.first.get_or_insert(event.event_hash);
        self.chain.push(event);
    }

    /// Moves the head to the end of lines whose events were taken in, and which are durable now; the
    /// last of them has `last_line` bytes.
    pub(crate) fn appended(&mut self, last_line: usize, head: Head) {
        self.last_line = Head::at(head.bytes.saturating_sub(last_line as u64));
        self.head = head;
        self.durable = true;
    }

    /// The state, and the same with another one in its place.
    pub(crate) fn with<T>(self, state: T) -> (S, Replica<T>) {
        let Self { chain, state: before, head, last_line, durable, first } = self;
        (before, Replica { chain, state, head, last_line, durable, first })
    }
}

/// Whether the line of a ledger from `last_line` to `head` is the event with this hash. The hash
/// covers everything before it, so one line tells.
pub(crate) fn ends_at(
    batch: &dyn Batch,
    last_line: Head,
    head: Head,
    hash: Hash,
) -> Result<bool, StoreError> {
    if batch.head() < head {
        return Ok(false);
    }
    let Ok(length) = usize::try_from(head.bytes.saturating_sub(last_line.bytes)) else {
        return Ok(false);
    };
    let lines = match batch.read(last_line, length) {
        Err(StoreError::CutBack { .. } | StoreError::NotALineStart { .. }) => return Ok(false),
        lines => lines?,
    };
    Ok(last_line.bytes + lines.len() as u64 == head.bytes && is_event(&lines, hash))
}

/// Whether these bytes are one line, and the event with this hash.
pub(crate) fn is_event(line: &[u8], hash: Hash) -> bool {
    let line = line.strip_suffix(b"\n");
    line.is_some_and(|line| read_unsigned(line).is_ok_and(|event| event.event_hash == hash))
}

/// Whether an event lies in the ledger that it names. Another trace's file in a trace's place is
/// whole in itself, and would otherwise be built upon.
pub(crate) fn belongs(ledger: LedgerId, event: &Event) -> Result<(), String> {
    match ledger {
        LedgerId::Trace(id) if event.trace_id != id.to_string() => {
            Err(format!("the event belongs to trace {}", event.trace_id))
        }
        _ => Ok(()),
    }
}

/// As [`read`], for who needs no signature: nearly all lines are taken apart in less time then.
fn read_unsigned(line: &[u8]) -> Result<Event, String> {
    match WholeLine::of(line) {
        Some(whole) if whole.event_hash == whole.event.event_hash => Ok(whole.event),
        _ => read(line),
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
