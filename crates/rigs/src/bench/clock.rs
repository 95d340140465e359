//! How long something takes.
//!
//! The best of several rounds is what the work costs; everything above it is what else the
//! machine was doing. A figure and its bound are taken in turns, so that both see the same machine.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Which clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// Time that passes: for what waits, or runs in another process.
    Wall,
    /// Time that this thread computes: a busy machine does not change it.
    Thread,
}

/// How long one run of `work` takes.
pub(super) fn time<T>(
    clock: Clock,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<Duration, String> {
    let start = Stamp::now(clock);
    let result = std::hint::black_box(work()?);
    let taken = start.elapsed();
    drop(result);
    Ok(taken)
}

/// The shortest of `rounds` runs of `work`.
pub(super) fn best_of<T>(
    rounds: u32,
    clock: Clock,
    mut work: impl FnMut() -> Result<T, String>,
) -> Result<Duration, String> {
    let mut best = Duration::MAX;
    for _ in 0..rounds {
        best = best.min(time(clock, &mut work)?);
    }
    Ok(best)
}

/// The shortest of `rounds` runs of each, in turns.
pub(super) fn best_of_both(
    rounds: u32,
    mut first: impl FnMut() -> Result<Duration, String>,
    mut second: impl FnMut() -> Result<Duration, String>,
) -> Result<(Duration, Duration), String> {
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds {
        best.0 = best.0.min(first()?);
        best.1 = best.1.min(second()?);
    }
    Ok(best)
}

/// The middle one of `rounds` runs of each, in turns. For what waits for a disk or for other
/// threads: there the shortest of many runs is a lucky streak of the one or the other.
pub(super) fn median_of_both(
    rounds: u32,
    mut first: impl FnMut() -> Result<Duration, String>,
    mut second: impl FnMut() -> Result<Duration, String>,
) -> Result<(Duration, Duration), String> {
    let mut runs = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        runs.0.push(first()?);
        runs.1.push(second()?);
    }
    Ok((median(runs.0), median(runs.1)))
}

/// The middle one.
pub(super) fn median(mut runs: Vec<Duration>) -> Duration {
    runs.sort_unstable();
    runs.get(runs.len() / 2).copied().unwrap_or_default()
}

/// How many of `count` things a second has room for, if all of them took `taken`.
pub(super) fn per_second(count: usize, taken: Duration) -> f64 {
    count as f64 / taken.as_secs_f64()
}

pub(super) fn milliseconds(taken: Duration) -> f64 {
    taken.as_secs_f64() * 1e3
}

/// A point on one of the clocks.
struct Stamp {
    clock: Clock,
    wall: Instant,
    thread: Duration,
}

impl Stamp {
    fn now(clock: Clock) -> Self {
        Self { clock, wall: Instant::now(), thread: thread_time() }
    }

    fn elapsed(&self) -> Duration {
        match self.clock {
            Clock::Wall => self.wall.elapsed(),
            Clock::Thread => thread_time().saturating_sub(self.thread),
        }
    }
}

/// What this thread has computed so far, in its own code and in the kernel.
fn thread_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
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

    #[test]
    fn waiting_is_not_computing() {
        let pause = Duration::from_millis(50);
        let taken = time(Clock::Thread, || {
            std::thread::sleep(pause);
            Ok(())
        });
        assert!(taken.unwrap() < pause);
    }

    #[test]
    fn each_of_two_keeps_its_own_middle() {
        let times = |all: [u64; 3]| all.map(Duration::from_millis).into_iter();
        let (mut first, mut second) = (times([3, 50, 5]), times([1, 7, 9]));
        let middle = median_of_both(3, || Ok(first.next().unwrap()), || Ok(second.next().unwrap()));
        assert_eq!(middle, Ok((Duration::from_millis(5), Duration::from_millis(7))));
    }

    #[test]
    fn each_of_two_keeps_its_own_best() {
        let times = |all: [u64; 2]| all.map(Duration::from_millis).into_iter();
        let (mut first, mut second) = (times([3, 5]), times([9, 7]));
        let best = best_of_both(2, || Ok(first.next().unwrap()), || Ok(second.next().unwrap()));
        assert_eq!(best, Ok((Duration::from_millis(3), Duration::from_millis(7))));
    }
}
