//! Whatever happens, an outcome: a hook that ends in any other way lets the tool run.
//!
//! A panic is caught, and a thread of its own ends the process when it takes too long. A kill cannot
//! be caught here: the line that starts the hook has to turn it into a refusal.

use std::any::Any;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::OnFailure;
use crate::{CommandError, Exit, Format, Output};

/// The exit that keeps a tool from running. Its number is that of arguments that make no sense, since
/// Claude Code knows no other.
const REFUSAL: Exit = Exit::Usage;

/// A failure that keeps a tool from running, in the words of whoever reads them to the model.
pub(super) fn refusal(mut error: CommandError) -> CommandError {
    error.exit = REFUSAL;
    error.details.insert(0, "countersign could not record this call, so it is denied".to_owned());
    error
}

/// An error and what it comes from.
pub(super) fn all_causes(error: &CommandError) -> Vec<String> {
    std::iter::once(error.error.to_string()).chain(error.causes()).collect()
}

/// Whether somebody can read what is written to standard output. Where it was closed, the system's
/// libraries put a device there that takes everything, and an answer would seem to be given.
pub(super) fn is_heard() -> Result<(), CommandError> {
    let null = fs::metadata("/dev/null");
    let output = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let output = output.and_then(|output| output.metadata());
    match (output, null) {
        (Ok(output), Ok(null)) if output.rdev() == null.rdev() && is_device(&output) => {
            Err(CommandError::failed("nobody reads what is written to standard output"))
        }
        (Err(error), _) => Err(CommandError::failed_doing("cannot use standard output", error)),
        _ => Ok(()),
    }
}

fn is_device(file: &fs::Metadata) -> bool {
    file.file_type().is_char_device()
}

/// Ends the process if nobody says in time that it is done.
#[derive(Debug)]
pub(super) struct Watchdog {
    state: Arc<WatchState>,
}

#[derive(Debug)]
struct WatchState {
    done: Mutex<bool>,
    told: Condvar,
    /// Whether a tool waits for what is being done. As long as that is not known, one may.
    holds: AtomicBool,
}

impl Watchdog {
    /// Watches from now on.
    pub(super) fn start(deadline: Duration, on_failure: OnFailure) -> Result<Self, CommandError> {
        let state = Arc::new(WatchState {
            done: Mutex::new(false),
            told: Condvar::new(),
            holds: AtomicBool::new(true),
        });
        let watched = Arc::clone(&state);
        let until = Instant::now().checked_add(deadline);
        let spawned = thread::Builder::new().name("deadline".to_owned()).spawn(move || {
            if watched.is_late(until) {
                give_up(deadline, on_failure);
            }
        });
        spawned.map_err(|error| CommandError::failed_doing("cannot watch the time", error))?;
        Ok(Self { state })
    }

    /// No tool waits for this: it may take its time.
    pub(super) fn holds_nothing(&self) {
        self.state.holds.store(false, Ordering::SeqCst);
    }

    /// Whether a tool waits, as far as is known.
    pub(super) fn holds_a_tool(&self) -> bool {
        self.state.holds.load(Ordering::SeqCst)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        *self.state.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.state.told.notify_all();
    }
}

impl WatchState {
    /// Waits until it is done or late, and says which.
    fn is_late(&self, until: Option<Instant>) -> bool {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                _ if *done => return false,
                Some(Duration::ZERO) => return self.holds.load(Ordering::SeqCst),
                Some(left) => {
                    let woken = self.told.wait_timeout(done, left);
                    done = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => return false,
            }
        }
    }
}

#[expect(clippy::exit, reason = "whoever is late cannot be asked to return")]
fn give_up(deadline: Duration, on_failure: OnFailure) {
    let error = format!("no answer within {} seconds", deadline.as_secs());
    let (error, code) = match on_failure {
        OnFailure::Deny => (refusal(CommandError::failed(error)), i32::from(REFUSAL.code())),
        OnFailure::Allow => (CommandError::failed(error), 0),
    };
    Output::standard(Format::Text).error(&error);
    std::process::exit(code);
}

/// Does something; a panic in it is an error like any other.
pub(super) fn guarded<T>(
    work: impl FnOnce() -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    // What it would print by itself is no text of ours.
    panic::set_hook(Box::new(|_| {}));
    // Nothing that the work has touched is used afterwards but the output, which is a stream.
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(CommandError::failed(format!("this program has a fault: {}", said(&*panic))))
    })
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        let failed = guarded::<()>(|| panic!("number {}", 7)).unwrap_err();
        assert_eq!(failed.error.to_string(), "this program has a fault: number 7");
        assert_eq!(guarded(|| Ok(3)).unwrap(), 3);
    }

    #[test]
    fn whoever_is_done_or_holds_nothing_is_not_late() {
        let state = |done, holds| WatchState {
            done: Mutex::new(done),
            told: Condvar::new(),
            holds: AtomicBool::new(holds),
        };
        let now = Some(Instant::now());
        assert!(state(false, true).is_late(now));
        assert!(!state(true, true).is_late(now));
        assert!(!state(false, false).is_late(now));
    }
}
