//! Keeping a lease alive while an agent works, and ending the agent when the lease is lost.
//!
//! One thread renews in time. Another is woken by the store, so that an agent whose lease was taken
//! away ends at once and not at the next renewal.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use countersign_protocol::Refusal;
use countersign_protocol::work::{Bearer, Lease, WorkRefusal};

use super::WorkItem;
use crate::sandbox::Stop;
use crate::workspace::WorkspaceError;
use crate::writer::WriteError;

/// A lease is renewed when this part of it has passed.
const RENEWED_AT: u32 = 3;
/// The longest wait for news. The store wakes up by itself when something comes.
const WATCH_LONGEST: Duration = Duration::from_secs(3_600);

/// Renews a lease until it is told that the work is done.
#[derive(Debug)]
pub(super) struct Keeper<'s> {
    item: &'s WorkItem,
    done: Stop,
    lost: &'s Mutex<Option<String>>,
    threads: Vec<ScopedJoinHandle<'s, ()>>,
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
        let (renewing, watching) = (done.clone(), done.clone());
        let lose = move |reason: String| {
            let mut lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert(reason);
            agent.set();
        };
        let renewer = scope.spawn(move || {
            if let Err(reason) = keep(item, lease, length, &renewing, agent, all) {
                lose(reason);
            }
        });
        let watcher = scope.spawn(move || {
            if let Some(reason) = watch(item, lease, &watching) {
                lose(reason);
            }
        });
        Self { item, done, lost, threads: vec![renewer, watcher] }
    }

    /// Why the lease was lost, if it was.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        self.done.set();
        self.item.workspace().store().wake();
        for thread in self.threads.drain(..) {
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
        match item.renew(lease.epoch, Bearer::Session(lease.session_id.clone()), millis) {
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

/// Waits until the lease is over otherwise than by an exit, and says how; `None` when the work is
/// done. What cannot be read is the renewal's to find out.
fn watch(item: &WorkItem, lease: &Lease, done: &Stop) -> Option<String> {
    let store = item.workspace().store();
    loop {
        let seen = store.changes_seen();
        if done.is_set() {
            return None;
        }
        let epoch = lease.epoch;
        let over = item.look(|state| match &state.lease {
            // An agent that left by a command of its own goes on to its end.
            _ if state.exits.contains_key(&epoch) => None,
            Some(held) if held.epoch == epoch => None,
            Some(held) => Some(WorkRefusal::Stale { epoch, current: held.epoch }),
            None => Some(WorkRefusal::NotHeld { epoch }),
        });
        if let Ok(Some(refusal)) = over {
            return Some(refusal.to_string());
        }
        store.wait_for_changes(seen, WATCH_LONGEST);
    }
}
