//! The short settings of the rigs that start, kill and fail real processes.
#![cfg(test)]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Exit status of a rig that cannot run here: nothing wrong was found, and not all of it was tried.
const NOT_ALL_TRIED: Option<i32> = Some(4);

/// Runs a rig, which must pass or say that it cannot run here.
fn passes(rig: &str) {
    let own = Path::new(env!("CARGO_BIN_EXE_rigs"));
    let product = own.with_file_name("countersign");
    let hint = "run `cargo build --package countersign`, which the tests of that package also do";
    assert!(product.exists(), "there is no product to fire at\nhint: {hint}");
    let output = Command::new(own).args(["fire", rig, "--short"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let talk = String::from_utf8_lossy(&output.stderr);
    let mut out = std::io::stderr();
    if output.status.code() == NOT_ALL_TRIED && said.contains(": not run: ") {
        // Said also where tests keep to themselves what they print.
        out.write_all(format!("SKIPPED: {said}").as_bytes()).unwrap();
        return;
    }
    assert!(output.status.success(), "{said}{talk}");
    assert!(said.contains(&format!("{rig}: passed in ")), "{said}");
    print!("{said}");
}

#[test]
fn writers_of_all_kinds_that_are_killed_lose_nothing_acknowledged() {
    passes("kill");
}

#[test]
fn a_power_cut_takes_nothing_acknowledged_and_a_writer_without_sync_is_caught() {
    passes("power");
}

#[test]
fn a_system_call_that_fails_is_told_or_borne_and_takes_nothing_acknowledged() {
    passes("syscall");
}

#[test]
fn without_a_name_the_rigs_are_listed() {
    let output = Command::new(env!("CARGO_BIN_EXE_rigs")).arg("fire").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    for rig in ["kill", "power", "syscall", "simulation", "mutation", "json", "archives", "paths"] {
        assert!(said.contains(&format!("\n  {rig} ")), "{rig}: {said}");
    }
}
