//! MCP clients that we did not write, for the tests that need one.
//!
//! Both are pinned with all that they depend on, in `tests/clients`, and go below the target
//! directory, each with a copy of its pins: what was installed from other pins is installed anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::place::{root, succeed, target};

/// The Python SDK's pins, and the copy that says what is installed.
const REQUIREMENTS: &str = "requirements.txt";
/// The TypeScript inspector's pins.
const PACKAGES: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs what is missing or was installed from other pins.
pub(super) fn install(base_python: Option<&Path>) -> Result<(), String> {
    if python().is_none() {
        let base = base_python.ok_or("no Python with `venv` to install the MCP client into")?;
        install_python(base)?;
    }
    if node_modules().is_none() {
        install_node()?;
    }
    Ok(())
}

/// The interpreter that has the official Python SDK.
pub(super) fn python() -> Option<PathBuf> {
    let place = place("python");
    let python = place.join("bin/python3");
    (python.exists() && is_current(&place, REQUIREMENTS)).then_some(python)
}

/// The directory in which the TypeScript inspector lies.
pub(super) fn node_modules() -> Option<PathBuf> {
    let place = place("node");
    let modules = place.join("node_modules");
    let complete = modules.join(".package-lock.json").exists();
    (complete && PACKAGES.iter().all(|pins| is_current(&place, pins))).then_some(modules)
}

fn place(name: &str) -> PathBuf {
    target().join("mcp-clients").join(name)
}

fn pins(name: &str) -> PathBuf {
    root().join("tests/clients").join(name)
}

fn is_current(place: &Path, name: &str) -> bool {
    matches!((fs::read(place.join(name)), fs::read(pins(name))), (Ok(old), Ok(new)) if old == new)
}

fn install_python(base: &Path) -> Result<(), String> {
    let place = empty("python")?;
    succeed(quiet(Command::new(base).args(["-m", "venv"]).arg(&place)))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let mut install = Command::new(place.join("bin/python3"));
    succeed(quiet(install.args(pip).arg("--requirement").arg(pins(REQUIREMENTS))))?;
    keep(&place, REQUIREMENTS)
}

fn install_node() -> Result<(), String> {
    let place = empty("node")?;
    for pins in PACKAGES {
        keep(&place, pins)?;
    }
    let ci = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    succeed(quiet(Command::new("npm").args(ci).current_dir(&place)))
}

fn empty(name: &str) -> Result<PathBuf, String> {
    let place = place(name);
    let failed = |error| format!("cannot make `{}` anew: {error}", place.display());
    if place.exists() {
        fs::remove_dir_all(&place).map_err(failed)?;
    }
    fs::create_dir_all(&place).map_err(failed)?;
    Ok(place)
}

fn keep(place: &Path, name: &str) -> Result<(), String> {
    fs::copy(pins(name), place.join(name))
        .map(drop)
        .map_err(|error| format!("cannot copy `{name}`: {error}"))
}

/// Its talk must not mix with what stdout is for.
fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null())
}
