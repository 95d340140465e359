//! How long something takes.
//!
//! The best of several rounds is what the work costs; everything above it is what else the
//! machine was doing.

use std::fs;
use std::time::{Duration, Instant};

/// Which clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Time that passes: for what waits, or runs in another process.
    Wall,
    /// Time that this thread computes: a busy machine does not change it.
    Thread,
}

/// The shortest of `rounds` runs of `work`.
pub(super) fn best_of<T>(
    rounds: u32,
    clock: Clock,
    mut work: impl FnMut() -> Result<T, String>,
) -> Result<Duration, String> {
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        let start = Stamp::now(clock);
        let result = std::hint::black_box(work()?);
        let taken = start.elapsed();
        drop(result);
        best = best.min(taken);
    }
    Ok(best)
}

/// A point on both clocks.
struct Stamp {
    wall: Instant,
    thread: Option<Duration>,
}

impl Stamp {
    fn now(clock: Clock) -> Self {
        let thread = if clock == Clock::Thread { thread_time() } else { None };
        Self { wall: Instant::now(), thread }
    }

    fn elapsed(&self) -> Duration {
        let wall = self.wall.elapsed();
        // Where the kernel does not count, and for work shorter than it counts, time that passes
        // is the closest there is.
        let thread = self.thread.and_then(|start| thread_time()?.checked_sub(start));
        thread.filter(|taken| !taken.is_zero()).map_or(wall, |taken| taken.min(wall))
    }
}

/// What this thread has computed so far, where the kernel tells without a system call of our own.
fn thread_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_round_counts() {
        let mut pauses = [100, 1, 100].map(Duration::from_millis).into_iter();
        let best = best_of(3, Clock::Wall, || {
            std::thread::sleep(pauses.next().unwrap());
            Ok(())
        });
        let best = best.unwrap();
        assert!(best >= Duration::from_millis(1) && best < Duration::from_millis(100), "{best:?}");
    }

    #[test]
    fn a_failing_round_ends_the_measurement() {
        let mut rounds = 0;
        let result = best_of(5, Clock::Thread, || {
            rounds += 1;
            if rounds == 2 { Err("broken".to_owned()) } else { Ok(()) }
        });
        assert_eq!((result, rounds), (Err("broken".to_owned()), 2));
    }
}
