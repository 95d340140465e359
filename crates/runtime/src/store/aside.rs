//! A thread beside the caller's, for what can be done while the caller waits for the disk.
//!
//! The caller keeps what takes longest: whoever has to be woken when it is done waits longer. What is
//! done beside it is ready before, most of the time.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

/// The thread; ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Aside {
    /// `None` only while being dropped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Aside {
    /// `None` where the system gives no thread.
    pub(crate) fn begin() -> Option<Self> {
        let (jobs, given) = channel::<Job>();
        let work = move || given.into_iter().for_each(|job| job());
        let thread = Builder::new().name("aside".to_owned()).spawn(work).ok()?;
        Some(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Does something while the caller does something else, and gives both. Where one of them
    /// panics, so does this.
    pub(crate) fn both<T: Send + 'static, U>(
        &self,
        aside: impl FnOnce() -> T + Send + 'static,
        meanwhile: impl FnOnce() -> U,
    ) -> (T, U) {
        let (told, answer) = channel();
        let job = move || {
            // Who asked may have panicked since.
            let _ = told.send(catch_unwind(AssertUnwindSafe(aside)));
        };
        if let Some(jobs) = &self.jobs {
            // The thread ends after this does, not before.
            let _ = jobs.send(Box::new(job));
        }
        let done = meanwhile();
        (heard(&answer), done)
    }
}

fn heard<T>(answer: &Receiver<Result<T, Box<dyn Any + Send>>>) -> T {
    match answer.recv() {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(gone) => resume_unwind(Box::new(gone)),
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn two_things_are_done_at_once_by_two_threads() {
        let aside = Aside::begin().unwrap();
        let (told, hears) = channel();
        // Either waits for the other: one after the other they would never end.
        let (tells, heard) = channel();
        let (there, here) = aside.both(
            move || {
                told.send(()).unwrap();
                heard.recv().unwrap();
                thread::current().id()
            },
            || {
                hears.recv().unwrap();
                tells.send(()).unwrap();
                thread::current().id()
            },
        );
        assert_ne!(there, here);
    }

    #[test]
    fn a_panic_on_either_side_is_the_callers_and_the_next_one_is_served() {
        let aside = Aside::begin().unwrap();
        let there = catch_unwind(AssertUnwindSafe(|| {
            aside.both(|| panic!("there"), || 1);
        }));
        assert_eq!(there.unwrap_err().downcast_ref(), Some(&"there"));
        let here = catch_unwind(AssertUnwindSafe(|| {
            aside.both(|| 1, || panic!("here"));
        }));
        assert_eq!(here.unwrap_err().downcast_ref(), Some(&"here"));
        assert_eq!(aside.both(|| 1, || 2), (1, 2));
    }

    #[test]
    fn the_thread_has_ended_when_it_is_dropped() {
        let aside = Aside::begin().unwrap();
        let held = Arc::new(());
        let also = Arc::clone(&held);
        aside.both(|| (), || ());
        if let Some(jobs) = &aside.jobs {
            let job = move || {
                thread::sleep(std::time::Duration::from_millis(50));
                drop(also);
            };
            jobs.send(Box::new(job)).unwrap();
        }
        drop(aside);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
