//! The programs that drive our peers, for the bench. They are pinned in `tests/peers` and installed
//! or built below the target directory; nothing of them is part of our own dependencies.

use std::path::PathBuf;

use crate::place::{cargo, root, succeed, target};
use crate::test::needs::base_python;
use crate::test::pinned::PEERS;

/// The interpreter that has the peers from PyPI, installed if it is not there.
///
/// # Errors
///
/// It cannot be installed.
pub fn python() -> Result<PathBuf, String> {
    PEERS.install(base_python())?;
    PEERS.python().ok_or_else(|| format!("`{}` was not installed", PEERS.pins))
}

/// The driver of the peer that is a Rust crate, built.
///
/// # Errors
///
/// It cannot be built.
pub fn signet() -> Result<PathBuf, String> {
    let place = target().join("peers/signet");
    let manifest = root().join("tests/peers/signet/Cargo.toml");
    let mut build = cargo(&["build", "--quiet", "--release", "--locked", "--manifest-path"]);
    succeed(build.arg(manifest).arg("--target-dir").arg(&place))?;
    Ok(place.join("release/signet-driver"))
}
