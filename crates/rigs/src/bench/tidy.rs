//! What the house rules cost: they run with every test, so they must not be felt.

use super::clock::{Clock, best_of, milliseconds};
use super::{Measured, Target};
use xtask::tidy;

const ROUNDS: u32 = 5;
const MILLISECONDS_MAX: f64 = 50.0;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let best = best_of(ROUNDS, Clock::Thread, tidy::count)?;
    Ok(vec![Measured {
        name: "tidy",
        value: milliseconds(best),
        unit: "ms",
        bound: MILLISECONDS_MAX,
        target: Target::AtMost(1.0),
    }])
}
