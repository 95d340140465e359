//! What tests use of others, installed below the target directory from pins in the repository.
//!
//! Each place keeps a copy of its pins: what was installed from other pins is installed anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::place::{root, succeed, target};

/// An interpreter with packages of its own, all of them pinned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PinnedPython {
    /// Where it lies, below the target directory.
    pub(crate) place: &'static str,
    /// The file that pins its packages, from the root.
    pub(crate) pins: &'static str,
}

/// The client of the official Python SDK of MCP.
pub(crate) const MCP_CLIENT: PinnedPython =
    PinnedPython { place: "mcp-clients/python", pins: "tests/clients/requirements.txt" };
/// What fuzzes the API of the viewer from its document.
pub(crate) const API_FUZZER: PinnedPython =
    PinnedPython { place: "api-fuzzer", pins: "tests/api/requirements.txt" };
/// The peers that the bench compares us with. No test needs them.
pub(crate) const PEERS: PinnedPython =
    PinnedPython { place: "peers/python", pins: "tests/peers/requirements.txt" };

impl PinnedPython {
    /// The interpreter, if its packages are those that are pinned now.
    pub(crate) fn python(self) -> Option<PathBuf> {
        let place = target().join(self.place);
        let python = place.join("bin/python3");
        (python.exists() && is_current(&place, &root().join(self.pins))).then_some(python)
    }

    /// Installs it unless it is there.
    pub(crate) fn install(self, base: Option<&Path>) -> Result<(), String> {
        if self.python().is_some() {
            return Ok(());
        }
        let base = base.ok_or_else(|| format!("no Python with `venv` to install {}", self.pins))?;
        let (place, pins) = (target().join(self.place), root().join(self.pins));
        // The pins name everything, so that nothing else comes along.
        environment(base, &place, &["--no-deps", "--requirement", &pins.to_string_lossy()])?;
        keep(&place, &pins)
    }
}

/// A virtual environment in which pip installed these.
pub(crate) fn environment(base: &Path, place: &Path, packages: &[&str]) -> Result<(), String> {
    empty(place)?;
    succeed(quiet(Command::new(base).args(["-m", "venv"]).arg(place)))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    succeed(quiet(Command::new(place.join("bin/python3")).args(pip).args(packages)))
}

/// Whether what lies in `place` was installed from these pins.
pub(crate) fn is_current(place: &Path, pins: &Path) -> bool {
    matches!((fs::read(copy(place, pins)), fs::read(pins)), (Ok(old), Ok(new)) if old == new)
}

/// Makes `place` an empty directory.
pub(crate) fn empty(place: &Path) -> Result<(), String> {
    let failed = |error| format!("cannot make `{}` anew: {error}", place.display());
    if place.exists() {
        fs::remove_dir_all(place).map_err(failed)?;
    }
    fs::create_dir_all(place).map_err(failed)
}

/// Notes in `place` what was installed from.
pub(crate) fn keep(place: &Path, pins: &Path) -> Result<(), String> {
    fs::copy(pins, copy(place, pins))
        .map(drop)
        .map_err(|error| format!("cannot copy `{}`: {error}", pins.display()))
}

fn copy(place: &Path, pins: &Path) -> PathBuf {
    place.join(pins.file_name().unwrap_or_default())
}

/// Its talk must not mix with what stdout is for.
pub(crate) fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_to_one_version() {
        for python in [MCP_CLIENT, API_FUZZER, PEERS] {
            let pins = fs::read_to_string(root().join(python.pins)).unwrap();
            assert!(!pins.is_empty());
            for line in pins.lines() {
                let pinned = line.split_once("==").is_some_and(|(name, version)| {
                    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                    name.chars().all(plain) && version.chars().all(plain)
                });
                assert!(pinned, "{}: {line}", python.pins);
            }
        }
    }

    #[test]
    fn what_was_installed_from_other_pins_is_not_current() {
        let dir = std::env::temp_dir().join(format!("xtask-pins-{}", std::process::id()));
        let (place, pins) = (dir.join("place"), dir.join("pins.txt"));
        empty(&place).unwrap();
        fs::write(&pins, "one==1\n").unwrap();
        assert!(!is_current(&place, &pins), "nothing was installed");
        keep(&place, &pins).unwrap();
        assert!(is_current(&place, &pins));
        fs::write(&pins, "one==2\n").unwrap();
        assert!(!is_current(&place, &pins));
        empty(&place).unwrap();
        assert!(!place.join("pins.txt").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
