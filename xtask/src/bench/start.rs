//! How long the binary takes to start: hooks start it once for every action of an agent.

use std::process::{Command, Stdio};

use super::Measured;
use super::clock::{Clock, best_of};
use crate::place::{cargo, succeed, target};

const ROUNDS: u32 = 20;
const MILLISECONDS_MAX: f64 = 15.0;

pub(super) fn measure() -> Result<Measured, String> {
    succeed(&mut cargo(&[
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "countersign",
    ]))?;
    let binary = target().join("release/countersign");
    let best = best_of(ROUNDS, Clock::Wall, || {
        succeed(Command::new(&binary).arg("--version").stdout(Stdio::null()))
    })?;
    Ok(Measured { value: best.as_secs_f64() * 1e3, unit: "ms", bound: MILLISECONDS_MAX })
}
