//! Ten thousand short lives of many agents; see [`countersign_testkit::simulation`].
#![cfg(test)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_testkit::sim::SimHome;
use countersign_testkit::simulation::{Course, Twin, run};

/// How many seeds a test run takes.
const SEEDS: u64 = 10_000;
/// Within how many seeds whatever is broken must be caught.
const TWIN_SEEDS: u64 = 300;

#[test]
fn ten_thousand_seeds_of_agents_that_die_sleep_and_lose_power_end_sound() {
    let next = AtomicU64::new(1);
    let all = Mutex::new(Course::default());
    let work = || {
        let home = SimHome::new();
        let mut sum = Course::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > SEEDS {
                break;
            }
            sum += run(&home, seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        *all.lock().unwrap() += sum;
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(work);
        }
    });
    let told = all.into_inner().unwrap();
    println!("{SEEDS} seeds: {told}");
    // Everything that is to be tried must have been, or nothing was shown.
    let rare = [told.leases, told.exits, told.repeated, told.refusals, told.kills];
    assert!(rare.iter().all(|count| *count > SEEDS / 20), "{told}");
    assert!(told.acted > told.agents / 10 * 9, "{told}");
    assert!(told.notes > SEEDS && told.power_losses > SEEDS, "{told}");
}

#[test]
fn the_simulation_catches_every_broken_twin() {
    let home = SimHome::new();
    for twin in Twin::ALL {
        let caught = (1..=TWIN_SEEDS).find_map(|seed| {
            let how = run(&home, seed, Some(twin)).err()?;
            // It is the twin that is caught, and not the seed.
            assert!(run(&home, seed, None).is_ok(), "seed {seed}");
            Some(format!("seed {seed}: {how}"))
        });
        let how = caught.unwrap_or_else(|| panic!("not caught: {}", twin.as_str()));
        println!("{}: {how}", twin.as_str());
    }
}

#[test]
fn a_seed_always_gives_the_same_run() {
    let home = SimHome::new();
    for seed in 1..=20 {
        assert_eq!(run(&home, seed, None), run(&home, seed, None), "seed {seed}");
    }
}
