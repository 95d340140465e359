//! The one test command: everything that must hold before a change is kept.
//!
//! Steps run in order and the first failure ends the run. Announcements go to stderr, so that
//! stdout holds what `cargo test` itself says and ends with its result lines.

mod clients;
pub(crate) mod needs;
pub(crate) mod pinned;

use std::process::Command;
use std::time::Instant;

use crate::place::{cargo, succeed};
use crate::{Failure, tidy};

/// In which variable tests find a Python interpreter that has `cryptography`.
const PYTHON_VARIABLE: &str = "COUNTERSIGN_TEST_PYTHON";

/// In which variables tests find Node and a browser.
const NODE_VARIABLE: &str = "COUNTERSIGN_TEST_NODE";
const BROWSER_VARIABLE: &str = "COUNTERSIGN_TEST_BROWSER";

/// In which variables tests find an interpreter with the MCP client of Python, and the directory of
/// the TypeScript one.
const MCP_PYTHON_VARIABLE: &str = "COUNTERSIGN_TEST_MCP_PYTHON";
const MCP_NODE_VARIABLE: &str = "COUNTERSIGN_TEST_MCP_NODE_MODULES";

/// In which variable tests find an interpreter with the fuzzer of the viewer's API.
const API_PYTHON_VARIABLE: &str = "COUNTERSIGN_TEST_API_PYTHON";

/// What to do about missing tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Install {
    /// Install them.
    Missing,
    /// Leave the machine as it is.
    Nothing,
}

impl Install {
    /// Reads the options of the chore.
    pub(crate) fn parse(options: &[&str]) -> Result<Self, Failure> {
        match options {
            [] => Ok(Self::Missing),
            ["--quick"] => Ok(Self::Nothing),
            other => Err(Failure::Usage(format!("unknown options: `{}`", other.join(" ")))),
        }
    }
}

/// Runs all steps.
pub(crate) fn run(install: Install) -> Result<(), Failure> {
    let started = Instant::now();
    if install == Install::Missing {
        step("install", needs::install)?;
    }
    let python = needs::python();
    if python.is_none() {
        eprintln!("warning: no Python with `cryptography` found, {PYTHON_VARIABLE} is not set");
        eprintln!("hint: run `cargo xtask test` without --quick");
    }
    step("format", || succeed(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("clippy", || {
        let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        succeed(&mut cargo(&lint))
    })?;
    step("tidy", tidy::run)?;
    // With the features that the tests are built with: programs that tests start are made on the way.
    step("build", || succeed(&mut tests(&["--no-run"])))?;
    step("test", || {
        // Without --no-fail-fast one failing crate would hide the results of all later ones.
        let mut tests = tests(&["--no-fail-fast"]);
        if let Some(python) = &python {
            tests.env(PYTHON_VARIABLE, python);
        }
        if let Some(node) = needs::node() {
            tests.env(NODE_VARIABLE, node);
        }
        if let Some(browser) = needs::browser() {
            tests.env(BROWSER_VARIABLE, browser);
        }
        if let Some(python) = clients::python() {
            tests.env(MCP_PYTHON_VARIABLE, python);
        }
        if let Some(modules) = clients::node_modules() {
            tests.env(MCP_NODE_VARIABLE, modules);
        }
        if let Some(python) = pinned::API_FUZZER.python() {
            tests.env(API_PYTHON_VARIABLE, python);
        }
        succeed(&mut tests)
    })?;
    eprintln!("==> all steps passed in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Everything that is tested. All of it is compiled in one way, without what only helps somebody
/// who edits a file and compiles again: on a small disk that decides.
fn tests(options: &[&str]) -> Command {
    let mut tests = cargo(&["test", "--workspace", "--locked"]);
    tests.args(options).env("CARGO_INCREMENTAL", "0");
    tests
}

/// Runs one step and says how long it took.
fn step(name: &str, work: impl FnOnce() -> Result<(), String>) -> Result<(), Failure> {
    eprintln!("==> {name}");
    let started = Instant::now();
    let result = work();
    let seconds = started.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            eprintln!("==> {name} passed in {seconds:.1} s");
            Ok(())
        }
        Err(why) => {
            Err(Failure::Chore(format!("step `{name}` failed after {seconds:.1} s: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_quick_is_an_option() {
        assert!(matches!(Install::parse(&[]), Ok(Install::Missing)));
        assert!(matches!(Install::parse(&["--quick"]), Ok(Install::Nothing)));
        assert!(matches!(Install::parse(&["--fast"]), Err(Failure::Usage(_))));
        assert!(matches!(Install::parse(&["--quick", "x"]), Err(Failure::Usage(_))));
    }

    #[test]
    fn a_failing_step_is_named() {
        let Err(Failure::Chore(message)) = step("clippy", || Err("no".to_owned())) else {
            panic!("the step failed")
        };
        assert!(message.starts_with("step `clippy` failed after "), "{message}");
    }
}
