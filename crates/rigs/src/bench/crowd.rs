//! Many callers on one recording, against what one core can canonicalise, hash and sign.

use countersign_runtime::Environment;

use super::clock::{Clock, median_of_both, per_second};
use super::home::{Home, begin, write_together};
use super::{Measured, Target, seal};

const ROUNDS: u32 = 48;
const THREADS: usize = 64;
/// Events of each thread in a round.
const EACH: usize = 24;
/// Events that one core seals in a round.
const SEALED: usize = 1_000;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let home = Home::new("append-64")?;
    let workspace = home.init(Environment::system())?;
    let recording = begin(&workspace)?;
    let bench = seal::Bench::new();
    let (together, sealed) = median_of_both(
        ROUNDS,
        || write_together(&recording, THREADS, EACH),
        || bench.seal(SEALED, Clock::Wall),
    )?;
    Ok(vec![Measured {
        name: "append-64",
        value: per_second(THREADS * EACH, together),
        unit: "events/s",
        bound: per_second(SEALED, sealed),
        target: Target::AtLeast(0.6),
    }])
}
