//! Keeping a lease alive while an agent works, and ending the agent when the lease is lost.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use countersign_protocol::Refusal;
use countersign_protocol::work::{Lease, WorkRefusal};

use super::WorkItem;
use crate::sandbox::Stop;
use crate::workspace::WorkspaceError;
use crate::writer::WriteError;

/// A lease is renewed when this part of it has passed.
const RENEWED_AT: u32 = 3;

/// Renews a lease until it is told that the work is done.
#[derive(Debug)]
pub(super) struct Keeper<'s> {
    done: Stop,
    lost: &'s Mutex<Option<String>>,
    thread: Option<ScopedJoinHandle<'s, ()>>,
}

impl<'s> Keeper<'s> {
    /// Begins to renew. `agent` is stopped when the lease is lost or `all` is.
    pub(super) fn start<'e>(
        scope: &'s thread::Scope<'s, 'e>,
        item: &'s WorkItem,
        lease: &'s Lease,
        length: Duration,
        (agent, all): (&'s Stop, &'s Stop),
        lost: &'s Mutex<Option<String>>,
    ) -> Self {
        let done = Stop::default();
        let told = done.clone();
        let thread = scope.spawn(move || {
            if let Err(reason) = keep(item, lease, length, &told, agent, all) {
                *lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                agent.set();
            }
        });
        Self { done, lost, thread: Some(thread) }
    }

    /// Why the lease was lost, if it was.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        self.done.set();
        if let Some(thread) = self.thread.take() {
            // It cannot panic; if it did, the lease runs out by itself.
            let _ = thread.join();
        }
    }
}

fn keep(
    item: &WorkItem,
    lease: &Lease,
    length: Duration,
    done: &Stop,
    agent: &Stop,
    all: &Stop,
) -> Result<(), String> {
    let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
    let mut stopped = false;
    loop {
        let watched: &[&Stop] = if stopped { &[done] } else { &[done, all] };
        Stop::wait_any(watched, length / RENEWED_AT);
        if done.is_set() {
            return Ok(());
        }
        if all.is_set() && !stopped {
            // The agent is ended; the lease is kept until that is recorded.
            agent.set();
            stopped = true;
            continue;
        }
        match item.renew(lease.epoch, &lease.session_id, millis) {
            Ok(_) => {}
            Err(WorkspaceError::Write(WriteError::Refused(Refusal::Work(
                refusal @ (WorkRefusal::Stale { .. }
                | WorkRefusal::NotHeld { .. }
                | WorkRefusal::OtherSession { .. }
                | WorkRefusal::Expired { .. }),
            )))) => return Err(refusal.to_string()),
            // Somebody made it longer, the clock waits for a person, or the disk fails and may work
            // before the lease runs out: none of that gives the item to anybody else.
            Err(_) => {}
        }
    }
}
