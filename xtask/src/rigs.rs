//! The chores that need the product are another program's.

use std::process::Command;

use crate::Failure;
use crate::place::{cargo, succeed, target};

/// Built together: the dependencies are then compiled once for both.
const BUILD: &[&str] = &[
    "build",
    "--quiet",
    "--release",
    "--locked",
    "--package",
    "countersign",
    "--package",
    "countersign-rigs",
];

/// Builds product and rigs, optimised, and hands the chore over.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    succeed(&mut cargo(BUILD))?;
    let program = target().join("release/rigs");
    let status = Command::new(&program)
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot run `{}`: {error}", program.display()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Said(u8::try_from(code).unwrap_or(1))),
        None => Err(Failure::Chore("the rigs were ended by a signal".to_owned())),
    }
}
