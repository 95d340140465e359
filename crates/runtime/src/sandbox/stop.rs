//! Ending a call early.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// How often a stop is looked for where it cannot be waited for.
const LOOK: Duration = Duration::from_millis(100);

/// A wish that what is under way ends. Its copies are one wish; once set, it stays.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    set: AtomicBool,
    /// Made when somebody first waits. A byte in it, never read, keeps everyone awake.
    pipe: OnceLock<Option<Pipe>>,
}

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Stop {
    /// Asks for the end.
    pub fn set(&self) {
        self.shared.set.store(true, Ordering::SeqCst);
        // Either we see the pipe of whoever waits, or they see the flag after they made it.
        fence(Ordering::SeqCst);
        if let Some(Some(pipe)) = self.shared.pipe.get() {
            // A full pipe wakes as well as one more byte.
            let _ = rustix::io::write(&pipe.write, &[1]);
        }
    }

    /// Whether the end was asked for.
    #[must_use]
    pub fn is_set(&self) -> bool {
        if self.shared.set.load(Ordering::SeqCst) {
            return true;
        }
        let Some(Some(pipe)) = self.shared.pipe.get() else {
            return false;
        };
        let mut waiting = [PollFd::new(&pipe.read, PollFlags::IN)];
        let written = matches!(poll(&mut waiting, Some(&Timespec::default())), Ok(1..));
        if written {
            self.shared.set.store(true, Ordering::SeqCst);
        }
        written
    }

    /// A descriptor that does what [`Stop::set`] does when a byte is written to it, which is all
    /// that a signal handler may do. It does not block.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn trigger(&self) -> io::Result<OwnedFd> {
        match self.shared.pipe() {
            Some(pipe) => pipe.write.try_clone(),
            None => Err(io::Error::from(rustix::io::Errno::MFILE)),
        }
    }

    /// Waits until one of `stops` is set, at most for `timeout`.
    pub(crate) fn wait_any(stops: &[&Self], timeout: Duration) {
        let mut descriptors = Vec::with_capacity(stops.len());
        for stop in stops {
            match stop.descriptor() {
                Some(descriptor) => {
                    descriptors.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
                }
                // Without descriptors it can only be looked for.
                None => return std::thread::sleep(timeout.min(LOOK)),
            }
        }
        // An interrupted or failed wait is one that found nothing.
        let timeout = Timespec::try_from(timeout).ok();
        let _ = poll(&mut descriptors, timeout.as_ref());
    }

    /// What is readable once the end was asked for; None where there are no descriptors left.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let pipe = self.shared.pipe()?;
        fence(Ordering::SeqCst);
        if self.shared.set.load(Ordering::SeqCst) {
            let _ = rustix::io::write(&pipe.write, &[1]);
        }
        Some(pipe.read.as_fd())
    }
}

impl Shared {
    fn pipe(&self) -> Option<&Pipe> {
        self.pipe.get_or_init(make_pipe).as_ref()
    }
}

fn make_pipe() -> Option<Pipe> {
    let (read, write) = io::pipe().ok()?;
    let flags = rustix::fs::fcntl_getfl(&write).ok()?;
    rustix::fs::fcntl_setfl(&write, flags | OFlags::NONBLOCK).ok()?;
    Some(Pipe { read: read.into(), write: write.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakes(stop: &Stop) -> bool {
        let descriptor = stop.descriptor().unwrap();
        let mut waiting = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut waiting, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn all_copies_of_a_stop_are_set_at_once_and_for_good() {
        let stop = Stop::default();
        let copy = stop.clone();
        assert!(!stop.is_set() && !wakes(&copy));
        copy.set();
        assert!(stop.is_set() && wakes(&stop) && wakes(&copy));
        assert!(wakes(&stop));
    }

    #[test]
    fn a_stop_that_was_set_before_anybody_waited_wakes_at_once() {
        let stop = Stop::default();
        stop.set();
        assert!(wakes(&stop));
    }

    #[test]
    fn a_byte_written_to_the_trigger_sets_it() {
        let stop = Stop::default();
        let trigger = stop.trigger().unwrap();
        assert!(!stop.is_set());
        rustix::io::write(&trigger, b"x").unwrap();
        assert!(stop.is_set() && wakes(&stop));
    }
}
