//! The program that is measured and attacked.

use std::path::PathBuf;

use xtask::place::target;

/// The product, as `cargo xtask` built it beside these rigs.
pub(crate) fn binary() -> PathBuf {
    target().join("release/countersign")
}
