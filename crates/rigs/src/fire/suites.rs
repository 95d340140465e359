//! Attacks that are tests already: they run from here as often as somebody wants, built as tests are.
//!
//! Each of these suites has its own broken twins beside it. Only `json` draws anything.

use std::io::Read as _;
use std::process::Stdio;

use super::{Ending, Order};
use xtask::place::cargo;

/// How often a suite runs where no number is given.
const RUNS: [usize; 2] = [1, 10];

/// What decides the random values of a suite.
const SEED_VARIABLE: &str = "PROPTEST_RNG_SEED";

/// A package, which of its tests, and what must stand in their names. Each name is a run of its own:
/// one that no test has must not hide behind another.
type Suite<'s> = (&'s str, &'s [&'s str], &'s [&'s str]);

/// All tests of a target.
const EVERY: &[&str] = &[""];

fn run(order: &Order, suites: &[Suite<'_>]) -> Result<Ending, String> {
    let [short, long] = RUNS;
    let (count, deadline) = (order.count(short, long), order.deadline());
    let (mut runs, mut tests) = (0, 0);
    while runs < count && !deadline.is_over() {
        let seed = order.seed.wrapping_add(runs as u64);
        for (package, target, names) in suites {
            for name in *names {
                tests += passed(package, target, name, seed)?;
            }
        }
        runs += 1;
    }
    println!("{:<20}{runs:>8} runs{tests:>9} tests", "suite");
    match runs {
        0 => Ok(Ending::NotRun("nothing was tried".to_owned())),
        _ => Ok(Ending::Passed),
    }
}

/// Runs the tests in whose names this stands, which must be some; says how many.
fn passed(package: &str, target: &[&str], name: &str, seed: u64) -> Result<usize, String> {
    let mut test = cargo(&["test", "--quiet", "--locked", "--package", package]);
    test.args(target).arg("--").arg(name).env(SEED_VARIABLE, seed.to_string());
    let cannot = |error: std::io::Error| format!("cannot run the tests of `{package}`: {error}");
    let mut child = test.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut said = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut said).map_err(cannot)?;
    }
    let status = child.wait().map_err(cannot)?;
    let said = String::from_utf8_lossy(&said);
    if !status.success() {
        print!("{said}");
        return Err(format!("tests of `{package}` failed{}", named(name)));
    }
    match count(&said) {
        Some(tests) => Ok(tests),
        None => Err(format!("no test of `{package}` was run{}", named(name))),
    }
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(": `{name}`") }
}

/// How many tests passed, if some did in each target.
fn count(said: &str) -> Option<usize> {
    let results = said.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let passed = results.map(|result| match result.split_once(" passed") {
        Some((passed, _)) => passed.parse().ok().filter(|&passed: &usize| passed > 0),
        None => None,
    });
    passed.sum::<Option<usize>>().filter(|&passed| passed > 0)
}

pub(super) fn json(order: &Order) -> Result<Ending, String> {
    run(order, &[("countersign-format", &["--test", "json_cases"], EVERY)])
}

pub(super) fn archives(order: &Order) -> Result<Ending, String> {
    run(order, &[("countersign-verify", &["--test", "cap"], EVERY)])
}

pub(super) fn mcp(order: &Order) -> Result<Ending, String> {
    let hostile = ["mcp::hostile", "proxy::hostile", "proxy::http_hostile"];
    run(order, &[("countersign", &["--test", "cli"], &hostile)])
}

pub(super) fn paths(order: &Order) -> Result<Ending, String> {
    run(
        order,
        &[
            ("countersign-runtime", &["--lib"], &["flow::files::tests::links"]),
            ("countersign", &["--test", "cli"], &["sandbox::"]),
        ],
    )
}

pub(super) fn disk(order: &Order) -> Result<Ending, String> {
    let faults = ["--test", "disk_faults", "--test", "recorder_faults", "--test", "broken_disks"];
    run(order, &[("countersign-testkit", &faults, EVERY)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_and_a_target_in_which_none_ran_counts_for_nothing() {
        let ran = |passed: usize| {
            format!(
                "\nrunning {passed} tests\n..\ntest result: ok. {passed} passed; 0 failed; 0 \
                     ignored; 0 measured; 9 filtered out; finished in 0.01s\n"
            )
        };
        assert_eq!(count(&ran(12)), Some(12));
        assert_eq!(count(&format!("{}{}", ran(12), ran(3))), Some(15));
        assert_eq!(count(&ran(0)), None);
        assert_eq!(count(&format!("{}{}", ran(12), ran(0))), None);
        assert_eq!(count(""), None);
    }
}
