//! Lines on their way to the disk, and those who wait for them.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use countersign_format::event::Event;

use super::seat::{Address, Engaged, Seat};
use super::{Recorded, WriteError, share};
use crate::store::{Batch, Head, LedgerId};

/// So many are asked whether they can go to the disk, each time that something was signed.
const SEATS_ASKED: usize = 64;

/// What one command brought, and who waits for it.
type Outcome = (Address, Result<Vec<Event>, WriteError>);

/// Lines that are signed, on their way to the disk.
#[derive(Debug)]
pub(super) struct Sheaf {
    pub(super) batch: Box<dyn Batch>,
    pub(super) lines: Vec<u8>,
    pub(super) waiting: Waiting,
    /// Why the log could not be told of earlier ones.
    pub(super) log_lag: Option<WriteError>,
    /// Where the leader learns what became of it.
    pub(super) landing: SyncSender<Landing>,
}

/// What has arrived, or why it did not.
pub(super) type Landing = Result<Landed, WriteError>;

#[derive(Debug)]
pub(super) struct Landed {
    pub(super) batch: Box<dyn Batch>,
    /// Where the ledger's lines end now.
    pub(super) head: Head,
    /// The lines, whose room is used again.
    pub(super) lines: Vec<u8>,
}

impl Sheaf {
    /// Makes the lines durable, and tells everybody who waits for that: first the leader, who can go
    /// on, while the others only return.
    pub(super) fn flush(self, ledger: LedgerId, ring: impl Fn()) {
        let Self { mut batch, lines, waiting, log_lag, landing } = self;
        // If the leader is gone, there is nobody to go on.
        match batch.append(&lines) {
            Ok(head) => {
                let _ = landing.send(Ok(Landed { batch, head, lines }));
                ring();
                waiting.tell(log_lag.as_ref());
            }
            Err(error) => {
                let error = WriteError::Store { ledger, source: Arc::new(error) };
                drop(batch);
                let _ = landing.send(Err(share(&error)));
                ring();
                waiting.fail(&error);
            }
        }
    }
}

/// Callers that do not know yet what became of their commands. Should whoever has them panic, they
/// are told at least that: they would otherwise wait for ever.
#[derive(Debug, Default)]
pub(super) struct Waiting(pub(super) Vec<Outcome>);

impl Waiting {
    pub(super) fn tell(mut self, log_lag: Option<&WriteError>) {
        for (to, outcome) in self.0.drain(..) {
            to.tell(outcome.map(|events| Recorded { events, log_lag: log_lag.map(share) }));
        }
    }

    /// Tells them that nothing was recorded. Those that were refused as well: what spoke against them may
    /// be among what was not.
    pub(super) fn fail(mut self, error: &WriteError) {
        for (to, _) in self.0.drain(..) {
            to.tell(Err(share(error)));
        }
    }

    /// One of their threads that is not `leader`'s and has nothing else to do.
    pub(super) fn engage_other_than(&self, leader: &Arc<Seat>) -> Option<Engaged> {
        let mut asked = leader;
        self.0.iter().take(SEATS_ASKED).find_map(|(Address { seat, .. }, _)| {
            // Commands of one thread follow each other.
            let again = Arc::ptr_eq(seat, asked) || Arc::ptr_eq(seat, leader);
            asked = seat;
            if again { None } else { seat.engage() }
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for (to, _) in self.0.drain(..) {
            to.tell(Err(given_up()));
        }
    }
}

pub(super) fn given_up() -> WriteError {
    let reason = "the writer panicked; what became of it is not known".to_owned();
    WriteError::GivenUp { reason }
}
