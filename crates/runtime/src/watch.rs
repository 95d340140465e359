//! Being woken when a file changes.
//!
//! Decides how waiting works: one signal per store, raised by its own appends and by the system's
//! news about one file (inotify on Linux). A signal is a hint that may come late, twice or never, so
//! whoever waits looks for itself and never waits for long. Elsewhere than on Linux all is polled.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A counter that can be waited for.
#[derive(Debug, Default)]
pub struct Signal {
    state: Mutex<SignalState>,
    raised: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    count: u64,
    /// How many wait. Waking nobody costs a system call, and most writers have no followers.
    waiting: u32,
}

impl Signal {
    /// How often it was raised.
    pub fn count(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Wakes everyone who waits.
    pub fn raise(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.count = state.count.wrapping_add(1);
        if state.waiting > 0 {
            self.raised.notify_all();
        }
    }

    /// Waits until the count is no longer `seen`, at most for `timeout`, and returns it.
    pub fn wait(&self, seen: u64, timeout: Duration) -> u64 {
        let until = Instant::now().checked_add(timeout);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.count == seen {
            let left =
                until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state.waiting += 1;
            state = self.raised.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        state.count
    }
}

/// Whatever raises a signal; it stops when this is dropped.
pub trait WatchSource: Send + Sync + fmt::Debug {}

/// The longest wait before looking, where the system tells of changes. News can be lost: a full
/// queue, a file system shared with another machine.
const LOOK_WATCHED: Duration = Duration::from_secs(2);
/// The first and the longest wait before looking, where nobody tells.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_LONGEST: Duration = Duration::from_millis(500);

/// How long to wait before looking again.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(watched: bool) -> Self {
        Self { next: if watched { LOOK_WATCHED } else { LOOK_FIRST } }
    }

    pub(crate) fn step(&mut self) -> Duration {
        let now = self.next;
        if now < LOOK_LONGEST {
            self.next = (now * 2).min(LOOK_LONGEST);
        }
        now
    }
}

/// Watches the file `name` in `dir` with the means of the system.
#[cfg(target_os = "linux")]
pub(crate) fn watch_file(
    dir: &Path,
    name: &str,
    signal: &Arc<Signal>,
) -> Option<Box<dyn WatchSource>> {
    linux::Inotify::start(dir, name, Arc::clone(signal))
        .ok()
        .map(|source| Box::new(source) as Box<dyn WatchSource>)
}

/// Watches nothing: the caller polls.
#[cfg(not(target_os = "linux"))]
pub(crate) fn watch_file(
    _dir: &Path,
    _name: &str,
    _signal: &Arc<Signal>,
) -> Option<Box<dyn WatchSource>> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::Arc;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use rustix::fs::inotify;

    use super::{Signal, WatchSource};

    /// Room for the news of one read; the kernel asks for at least one event with a full name.
    const NEWS_BYTES: usize = 4096;

    /// A thread that reads the kernel's news about one directory.
    #[derive(Debug)]
    pub(super) struct Inotify {
        stop: Arc<OwnedFd>,
    }

    impl WatchSource for Inotify {}

    impl Inotify {
        pub(super) fn start(dir: &Path, name: &str, signal: Arc<Signal>) -> io::Result<Self> {
            let news =
                inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
            // The directory, not the file: the file may be deleted and made again at any time.
            let what = inotify::WatchFlags::MODIFY
                | inotify::WatchFlags::CREATE
                | inotify::WatchFlags::MOVED_TO
                | inotify::WatchFlags::ONLYDIR;
            inotify::add_watch(&news, dir, what)?;
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let stopped = Arc::clone(&stop);
            let name = name.as_bytes().to_vec();
            std::thread::Builder::new()
                .name("watch".into())
                .spawn(move || listen(&news, &stopped, &name, &signal))?;
            Ok(Self { stop })
        }
    }

    impl Drop for Inotify {
        fn drop(&mut self) {
            // A counter of 1 cannot overflow; if writing failed the thread would only sleep on.
            let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        }
    }

    fn listen(news: &OwnedFd, stop: &OwnedFd, name: &[u8], signal: &Signal) {
        let mut room = [MaybeUninit::uninit(); NEWS_BYTES];
        loop {
            let mut fds = [PollFd::new(news, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let [_, stopping] = &fds;
            if !stopping.revents().is_empty() {
                return;
            }
            let mut reader = inotify::Reader::new(news, &mut room);
            let mut ours = false;
            loop {
                match reader.next() {
                    Ok(event) => {
                        ours |= event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW)
                            || event.file_name().is_some_and(|found| found.to_bytes() == name);
                        if event.events().contains(inotify::ReadFlags::IGNORED) {
                            return;
                        }
                    }
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
            }
            if ours {
                signal.raise();
            }
        }
    }
}
