//! Looking at a ledger through its writer, without writing.

use std::sync::Arc;

use countersign_protocol::State;

use super::{READ_BYTES, WriteError, Writer, lock};
use crate::replica::Replica;
use crate::store::{Ledgers as _, StoreError};

impl<S: State> Writer<S> {
    /// Brings the replica up to what is in the ledger now, without writing, and looks at it.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Replica<S>) -> T) -> Result<T, WriteError> {
        let mut core = self.borrow();
        let mut replica = core.take();
        let outcome = match self.read_on(&mut replica) {
            // What power loss left of a line looks like damage; only under the lock is it seen to
            // be a torn tail.
            Err(WriteError::Damaged(_)) => {
                replica = Replica::default();
                let batch = self.store.begin(self.ledger).map_err(|error| self.failed(error))?;
                self.catch_up(&mut replica, &*batch)?;
                self.check_end(&replica, self.host.least_before()?)
            }
            outcome => outcome,
        };
        let seen = outcome.map(|()| at(&replica));
        if seen.is_ok() {
            core.replica = Some(replica);
        }
        seen
    }

    /// As `look`, at nothing but lines that survive power loss.
    pub(crate) fn look_durable<T>(
        &self,
        at: impl FnOnce(&Replica<S>) -> T,
    ) -> Result<T, WriteError> {
        let mut core = self.borrow();
        let mut replica = core.take();
        let mut batch =
            self.store.begin_from(self.ledger, replica.head).map_err(|e| self.failed(e))?;
        self.catch_up(&mut replica, &*batch)?;
        batch.sync().map_err(|error| self.failed(error))?;
        drop(batch);
        replica.durable = true;
        let seen = at(&replica);
        core.replica = Some(replica);
        Ok(seen)
    }

    /// Looks at what this process last knew, if that is durable.
    pub(crate) fn recall(&self, at: impl FnOnce(&Replica<S>)) {
        lock(&self.core).replica.as_ref().filter(|replica| replica.durable).map(at);
    }

    fn read_on(&self, replica: &mut Replica<S>) -> Result<(), WriteError> {
        // Of what was known before, lines that are gone are missed.
        let least = if replica.chain.events == 0 { self.host.least_before()? } else { 0 };
        self.read_to_end(replica)?;
        self.check_end(replica, least)
    }

    fn read_to_end(&self, replica: &mut Replica<S>) -> Result<(), WriteError> {
        let mut tries = 0;
        while self.store.moved(self.ledger, replica.head).map_err(|e| self.failed(e))? {
            let lines = match self.store.read(self.ledger, replica.head, READ_BYTES) {
                Ok(lines) => lines,
                Err(StoreError::CutBack { .. } | StoreError::NotALineStart { .. })
                    if tries == 0 =>
                {
                    tries += 1;
                    *replica = Replica::default();
                    continue;
                }
                Err(error) => return Err(self.failed(error)),
            };
            if lines.is_empty() {
                // Only a torn tail follows.
                return Ok(());
            }
            match replica.take_lines(self.ledger, &lines) {
                Ok(()) => {}
                // Lines that we had read were taken back and others written in their place.
                Err(_) if tries == 0 => {
                    tries += 1;
                    *replica = Replica::default();
                }
                Err(damage) => return Err(WriteError::Damaged(Arc::new(damage))),
            }
        }
        Ok(())
    }
}
