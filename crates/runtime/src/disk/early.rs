//! Having the disk begin before anybody waits for it.
//!
//! A sync of freshly written bytes is some trips to the disk, one after the other, and each of them puts
//! the caller to sleep. Where the first one takes a few microseconds, staying awake for them takes less
//! time than falling asleep; and if there is something else to do meanwhile, it costs none. Systems have
//! no call for just this that is safe and portable; Linux writes back what a program says it will not
//! need again.

use std::cell::Cell;
use std::fs::File;
use std::time::{Duration, Instant};

/// What the system keeps in one piece: writing back one byte writes all of it.
#[cfg(target_os = "linux")]
const PAGE_BYTES: u64 = 4096;
/// How long a fast disk takes for the bytes alone. A slower one is waited for asleep.
const HEAD_START: Duration = Duration::from_micros(12);

/// When the disk began with what the next sync waits for.
#[derive(Debug, Default)]
pub(super) struct Early(Cell<Option<Instant>>);

impl Early {
    /// Has the disk begin with `bytes` bytes at `at`.
    pub(super) fn start(&self, file: &File, at: u64, bytes: usize) {
        if write_back(file, at, bytes) {
            self.0.set(Some(Instant::now()));
        }
    }

    /// Lets others run until the disk has had its head start.
    pub(super) fn give_way(&self) {
        let Some(started) = self.0.take() else { return };
        while started.elapsed() < HEAD_START {
            std::thread::yield_now();
        }
    }
}

/// Begins to write back these bytes, if they lie in one page or two; more are better sent together,
/// by the sync.
///
/// The last byte is left out, and a page that begins with the first one where another follows: a
/// page that is named whole, or up to the end of the file, would also be dropped from memory.
#[cfg(target_os = "linux")]
fn write_back(file: &File, at: u64, bytes: usize) -> bool {
    let Some(named) = std::num::NonZeroU64::new((bytes as u64).saturating_sub(1)) else {
        return false;
    };
    let pages = (at + named.get()) / PAGE_BYTES - at / PAGE_BYTES;
    let few = pages == 0 || (pages == 1 && !at.is_multiple_of(PAGE_BYTES));
    few && rustix::fs::fadvise(file, at, Some(named), rustix::fs::Advice::DontNeed).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn write_back(_file: &File, _at: u64, _bytes: usize) -> bool {
    false
}
