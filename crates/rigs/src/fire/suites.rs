//! Attacks that are tests already: they run from here as often as somebody wants.
//!
//! Each of these suites has its own broken twins beside it.

use super::{Ending, Order};
use xtask::place::{cargo, succeed};

/// How often a suite runs where no number is given.
const RUNS: [usize; 2] = [1, 10];

/// A package, which of its tests, and their names.
type Suite<'s> = (&'s str, &'s [&'s str], &'s [&'s str]);

fn run(order: &Order, suites: &[Suite<'_>]) -> Result<Ending, String> {
    let [short, long] = RUNS;
    let (count, deadline) = (order.count(short, long), order.deadline());
    let mut runs = 0;
    while runs < count && !deadline.is_over() {
        for (package, target, names) in suites {
            let mut test = cargo(&["test", "--quiet", "--locked", "--package", package]);
            succeed(test.args(*target).arg("--").args(*names))?;
        }
        runs += 1;
    }
    println!("{:<20}{runs:>8} runs", "suite");
    Ok(Ending::Passed)
}

pub(super) fn json(order: &Order) -> Result<Ending, String> {
    run(order, &[("countersign-format", &["--test", "json_cases"], &[])])
}

pub(super) fn archives(order: &Order) -> Result<Ending, String> {
    run(order, &[("countersign-verify", &["--test", "cap"], &[])])
}

pub(super) fn mcp(order: &Order) -> Result<Ending, String> {
    run(order, &[("countersign", &["--test", "cli"], &["mcp::hostile", "proxy::hostile"])])
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
    run(order, &[("countersign-testkit", &faults, &[])])
}
