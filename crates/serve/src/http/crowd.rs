//! How many connections there may be, and which of them makes room.
//!
//! A connection that has not shown the token is worth nothing: where there are too many, the oldest of
//! these goes, so that a crowd that only holds connections open cannot keep a client out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Connections at once.
const CONNECTIONS_MAX: usize = 512;
/// Descriptors that are not for connections: files of the store, standard streams.
const DESCRIPTORS_SPARE: usize = 256;
/// Descriptors that are asked for.
const DESCRIPTORS_WANTED: u64 = 4096;

/// The connections of a server.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    /// By the order in which they came.
    here: BTreeMap<u64, Arc<Guest>>,
    next: u64,
}

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    known: AtomicBool,
    leave: Notify,
}

impl Guest {
    /// It has shown the token.
    pub(crate) fn is_known_now(&self) {
        self.known.store(true, Ordering::Relaxed);
    }

    /// Returns when the connection has to make room.
    pub(super) async fn told_to_leave(&self) {
        self.leave.notified().await;
    }
}

/// A connection's place; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
    pub(super) guest: Arc<Guest>,
}

impl Crowd {
    /// As many connections as the system has descriptors for, after asking it for more.
    pub(super) fn new() -> Arc<Self> {
        Self::of(CONNECTIONS_MAX.min(descriptors().saturating_sub(DESCRIPTORS_SPARE)).max(16))
    }

    fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, guests: Mutex::default() })
    }

    /// A place for a new connection, if there is one or one can be made.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if guests.here.len() >= self.most {
            let mut here = guests.here.iter();
            let (&oldest, _) = here.find(|(_, guest)| !guest.known.load(Ordering::Relaxed))?;
            if let Some(guest) = guests.here.remove(&oldest) {
                guest.leave.notify_one();
            }
        }
        let (number, guest) = (guests.next, Arc::<Guest>::default());
        guests.next += 1;
        guests.here.insert(number, Arc::clone(&guest));
        Some(Place { crowd: Arc::clone(self), number, guest })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut guests = self.crowd.guests.lock().unwrap_or_else(PoisonError::into_inner);
        guests.here.remove(&self.number);
    }
}

/// How many descriptors this process may have, after it asked for as many as it wants.
fn descriptors() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS_WANTED, |most| most.min(DESCRIPTORS_WANTED));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        // Refused, the limit is what it was.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |current| usize::try_from(current).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_connection_without_the_token_makes_room() {
        let crowd = Crowd::of(2);
        let known = crowd.enter().unwrap();
        known.guest.is_known_now();
        let unknown = crowd.enter().unwrap();
        let newer = crowd.enter().unwrap();
        unknown.guest.told_to_leave().await;
        newer.guest.is_known_now();
        assert!(crowd.enter().is_none(), "clients are not sent away");
        drop(known);
        assert!(crowd.enter().is_some());
    }
}
