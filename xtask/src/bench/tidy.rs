//! What the house rules cost: they run with every test, so they must not be felt.

use super::Measured;
use super::clock::{Clock, best_of};
use crate::tidy;

const ROUNDS: u32 = 5;
const MILLISECONDS_MAX: f64 = 50.0;

pub(super) fn measure() -> Result<Measured, String> {
    let best = best_of(ROUNDS, Clock::Thread, tidy::count)?;
    Ok(Measured { value: best.as_secs_f64() * 1e3, unit: "ms", bound: MILLISECONDS_MAX })
}
