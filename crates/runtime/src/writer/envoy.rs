//! One thread that speaks for many callers.

use std::sync::Arc;

use countersign_protocol::State;

use super::seat::{Address, Answer, Seat, Ticket};
use super::{WriteError, Writer};

/// Commands of one envoy that may wait for their answers: they are kept in memory.
pub const ENVOY_COMMANDS_MAX: usize = 256;

/// Sends commands without waiting for each. While it waits for an answer, its thread works for
/// everybody, as that of a single caller does.
#[derive(Debug)]
pub(crate) struct Envoy<'w, S: State> {
    writer: &'w Writer<S>,
    seat: Arc<Seat>,
    next: Ticket,
    sent: usize,
}

impl<'w, S: State> Envoy<'w, S> {
    pub(crate) fn new(writer: &'w Writer<S>) -> Self {
        Self { writer, seat: Arc::default(), next: Ticket::ONLY, sent: 0 }
    }

    /// Sends a command. It may be recorded from now on, and is once its answer says so.
    pub(crate) fn send(&mut self, command: S::Command) -> Result<Ticket, WriteError> {
        if self.sent >= ENVOY_COMMANDS_MAX {
            return Err(WriteError::TooMany);
        }
        let ticket = self.next;
        self.writer.send(command, Address { seat: Arc::clone(&self.seat), ticket });
        self.next = ticket.next();
        self.sent += 1;
        Ok(ticket)
    }

    /// The next answer, in whatever order they come; none if nothing was sent that was not answered.
    pub(crate) fn hear(&mut self) -> Option<(Ticket, Answer)> {
        let left = self.sent.checked_sub(1)?;
        let heard = self.writer.hear(&self.seat)?;
        // Not before: should its thread panic over work for others, the answer is still to come.
        self.sent = left;
        Some(heard)
    }
}

impl<S: State> Drop for Envoy<'_, S> {
    /// What was sent is on its way: others may have to wait for it if its thread just went.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            while self.hear().is_some() {}
        }
    }
}
