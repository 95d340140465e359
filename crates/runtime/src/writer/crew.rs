//! Threads that do what is done for all callers, so that these only decide and wait.
//!
//! Without a crew a caller leads, another goes to the disk, and whoever their threads speak for
//! stands still meanwhile. With one, that is left to the crew whenever one of it is free.

use std::sync::Arc;
use std::thread;

use countersign_protocol::State;

use super::seat::{Engaged, Seat};
use super::{Writer, lock};

/// One leads. While one is at the disk, another may still be telling those whose lines are there.
const MEMBERS: usize = 3;

/// A crew that is dismissed when this is dropped.
struct Hired<'w, S: State> {
    writer: &'w Writer<S>,
    seats: [Arc<Seat>; MEMBERS],
}

impl<S: State> Drop for Hired<'_, S> {
    fn drop(&mut self) {
        let ours = |seat: &Arc<Seat>| self.seats.iter().any(|it| Arc::ptr_eq(it, seat));
        lock(&self.writer.crew).retain(|seat| !ours(seat));
        for seat in &self.seats {
            seat.dismiss();
        }
    }
}

impl<S: State> Writer<S> {
    /// Does `work` with a crew at hand.
    pub(crate) fn with_crew<T>(&self, work: impl FnOnce() -> T) -> T {
        let seats: [Arc<Seat>; MEMBERS] = Default::default();
        thread::scope(|scope| {
            let hired = Hired { writer: self, seats: seats.clone() };
            lock(&self.crew).extend_from_slice(&seats);
            let members: Vec<_> = seats
                .iter()
                // Where there can be no more threads, callers do it for themselves.
                .filter_map(|seat| {
                    // It sends nothing, so all that it hears is that it is dismissed.
                    let member = move || drop(self.hear(seat));
                    thread::Builder::new().spawn_scoped(scope, member).ok()
                })
                .collect();
            let done = work();
            drop(hired);
            for member in members {
                // Whoever waited for one that panicked was told.
                let _ = member.join();
            }
            done
        })
    }

    /// One of the crew that has nothing else to do.
    pub(super) fn member(&self) -> Option<Engaged> {
        lock(&self.crew).iter().find_map(Seat::engage)
    }
}
