//! How long the binary takes to start: hooks start it once for every action of an agent.

use std::process::{Command, Stdio};

use super::clock::{Clock, best_of, milliseconds};
use super::{Measured, Target};
use crate::product;
use xtask::place::succeed;

const ROUNDS: u32 = 20;
const MILLISECONDS_MAX: f64 = 15.0;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let binary = product::binary();
    let best = best_of(ROUNDS, Clock::Wall, || {
        succeed(Command::new(&binary).arg("--version").stdout(Stdio::null()))
    })?;
    Ok(vec![Measured {
        name: "start",
        value: milliseconds(best),
        unit: "ms",
        bound: MILLISECONDS_MAX,
        target: Target::AtMost(1.0),
    }])
}
