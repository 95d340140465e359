//! The program that is measured and attacked.

use std::path::PathBuf;

use xtask::place::target;

/// The product, as `cargo xtask` built it beside these rigs.
pub(crate) fn binary() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(|own| own.parent()).map(|dir| dir.join("countersign"));
    beside.unwrap_or_else(|| target().join("release/countersign"))
}
