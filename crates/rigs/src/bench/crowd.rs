//! Many callers on one recording, against what one core can canonicalise, hash and sign: with
//! `ed25519-dalek`, and with the library that we sign with.

use countersign_format::key::Signs;
use countersign_runtime::Environment;

use super::callers::{Crowd, write_together};
use super::clock::{Clock, median_of_both, per_second};
use super::home::{Home, begin};
use super::{Measured, Target, seal};

const ROUNDS: u32 = 48;
/// Events of a round.
const EVENTS: usize = 1_536;
/// Events that one core seals in a round.
const SEALED: usize = 1_000;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let least = Target::AtLeast(0.6);
    Ok(vec![
        together("append-64", Crowd::WITH_ENVOYS, &seal::reference(), least)?,
        together("append-64-threads", Crowd::ON_THREADS, &seal::reference(), least)?,
        together("append-64-own", Crowd::WITH_ENVOYS, &seal::ours()?, Target::None)?,
    ])
}

fn together<K: Signs>(
    name: &'static str,
    crowd: Crowd,
    bench: &seal::Bench<K>,
    target: Target,
) -> Result<Measured, String> {
    let home = Home::new(name)?;
    let workspace = home.init(Environment::system())?;
    let recording = begin(&workspace)?;
    let (together, sealed) = median_of_both(
        ROUNDS,
        || write_together(&recording, crowd, EVENTS as u64),
        || bench.seal(SEALED, Clock::Wall),
    )?;
    Ok(Measured {
        name,
        value: per_second(EVENTS, together),
        unit: "events/s",
        bound: per_second(SEALED, sealed),
        target,
    })
}
