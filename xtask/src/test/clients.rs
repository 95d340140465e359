//! MCP clients that we did not write, for the tests that need one.
//!
//! Both are pinned with all that they depend on, in `tests/clients`, and go below the target
//! directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::pinned::{self, MCP_CLIENT};
use crate::place::{root, succeed, target};

/// The TypeScript inspector's pins.
const PACKAGES: [&str; 2] = ["package.json", "package-lock.json"];

/// Installs what is missing or was installed from other pins.
pub(super) fn install(base_python: Option<&Path>) -> Result<(), String> {
    MCP_CLIENT.install(base_python)?;
    if node_modules().is_none() {
        install_node()?;
    }
    Ok(())
}

/// The interpreter that has the official Python SDK.
pub(super) fn python() -> Option<PathBuf> {
    MCP_CLIENT.python()
}

/// The directory in which the TypeScript inspector lies.
pub(super) fn node_modules() -> Option<PathBuf> {
    let place = node_place();
    let modules = place.join("node_modules");
    let complete = modules.join(".package-lock.json").exists();
    let current = PACKAGES.iter().all(|name| pinned::is_current(&place, &pins(name)));
    (complete && current).then_some(modules)
}

fn node_place() -> PathBuf {
    target().join("mcp-clients/node")
}

fn pins(name: &str) -> PathBuf {
    root().join("tests/clients").join(name)
}

fn install_node() -> Result<(), String> {
    let place = node_place();
    pinned::empty(&place)?;
    for name in PACKAGES {
        pinned::keep(&place, &pins(name))?;
    }
    let ci = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    succeed(pinned::quiet(Command::new("npm").args(ci).current_dir(&place)))
}
