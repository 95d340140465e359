//! Many agents on one simulated machine, seed by seed, and the twins that must be caught.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_testkit::sim::SimHome;
use countersign_testkit::simulation::{Course, Twin, run as simulate};

use super::{Ending, Order};

/// Seeds where no number is given.
const SEEDS: [usize; 2] = [10_000, 1_000_000];
/// Within how many seeds a twin must be caught.
const TWIN_SEEDS: u64 = 300;
/// Seeds that went wrong and are shown.
const SHOWN_MAX: usize = 20;

pub(super) fn run(order: &Order) -> Result<Ending, String> {
    let [short, long] = SEEDS;
    let (count, deadline) = (order.count(short, long) as u64, order.deadline());
    let next = AtomicU64::new(0);
    let found = Mutex::new((Course::default(), 0_u64, Vec::new()));
    let work = || {
        let home = SimHome::new();
        while next.load(Ordering::Relaxed) < count && !deadline.is_over() {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            if turn >= count {
                return;
            }
            let seed = order.seed.wrapping_add(turn);
            let told = simulate(&home, seed, None);
            let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            found.1 += 1;
            match told {
                Ok(told) => found.0 += told,
                Err(why) => found.2.push((seed, why)),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(work);
        }
    });
    let (told, tried, wrong) =
        found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{:<20}{tried:>8} tried{:>9} wrong: {told}", "seeds", wrong.len());
    for (seed, why) in wrong.iter().take(SHOWN_MAX) {
        println!("  --seed {seed} --count 1: {why}");
    }
    let home = SimHome::new();
    for twin in Twin::ALL {
        let seeds = (0..TWIN_SEEDS).map(|turn| order.seed.wrapping_add(turn));
        let caught =
            seeds.zip(1_u64..).find(|(seed, _)| simulate(&home, *seed, Some(twin)).is_err());
        let (_, after) = caught.ok_or_else(|| format!("not caught: {}", twin.as_str()))?;
        println!("{:<20}{after:>8} seeds until caught: {}", "twin", twin.as_str());
    }
    match wrong.len() {
        0 if tried == 0 => Ok(Ending::NotRun("nothing was tried".to_owned())),
        0 => Ok(Ending::Passed),
        count => Err(format!("{count} of {tried} seeds went wrong")),
    }
}
