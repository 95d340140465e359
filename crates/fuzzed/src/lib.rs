//! What must hold of every reader, whatever it is given: a function of bytes for each.
//!
//! A [`Target`] asserts properties, not only that nothing panics. The fuzzer in `fuzz/` calls these
//! functions, and so do the tests here, with the kept corpus and seeded changes of it. Each has a
//! twin: the same properties of a reader that is wrong on purpose, which must not get through.

#![expect(clippy::expect_used, reason = "a property that does not hold is a panic")]

mod canonical;
mod cap;
mod checkpoint;
mod envelope;
mod event;
mod exit;
#[cfg(feature = "product")]
mod gate;
pub mod hunt;
mod json;
#[cfg(feature = "product")]
mod mcp;
mod merkle;
#[cfg(feature = "product")]
mod paths;
#[cfg(feature = "product")]
mod plan;
mod proof;
mod receipt;
#[cfg(feature = "product")]
mod transcript;

/// A reader, what must hold of it, and one that is wrong.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, also that of its corpus.
    pub name: &'static str,
    /// Panics where something does not hold.
    pub holds: fn(&[u8]),
    /// As `holds`, of a reader that is broken on purpose.
    pub twin: fn(&[u8]),
    /// Changed inputs that a test run tries; fewer where each takes longer.
    pub tries: u32,
    /// Words of its language with `·` between them, put in here and there.
    pub words: &'static str,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    json::TARGET,
    canonical::TARGET,
    event::TARGET,
    exit::SIGNAL,
    exit::STDOUT,
    envelope::INPUT,
    envelope::OUTPUT,
    cap::FILE,
    cap::MEMBERS,
    checkpoint::TARGET,
    proof::TARGET,
    merkle::TARGET,
    receipt::TARGET,
    #[cfg(feature = "product")]
    paths::TARGET,
    #[cfg(feature = "product")]
    gate::COMMAND,
    #[cfg(feature = "product")]
    gate::REQUEST,
    #[cfg(feature = "product")]
    mcp::MESSAGE,
    #[cfg(feature = "product")]
    mcp::CALL,
    #[cfg(feature = "product")]
    mcp::TOOL_LIST,
    #[cfg(feature = "product")]
    plan::TASK,
    #[cfg(feature = "product")]
    plan::FLOW,
    #[cfg(feature = "product")]
    transcript::TARGET,
];

/// Checks one input of the target of this name.
///
/// # Panics
/// Something does not hold, or there is no such target.
pub fn check(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of this name").holds)(data);
}
