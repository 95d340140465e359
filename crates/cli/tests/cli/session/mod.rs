//! Sessions, run by the real binary with real tools and agents.

mod agents;
mod crowd;
mod examples;
mod failures;
mod lifecycle;
mod policy;
mod questions;
mod recovery;
mod secrets;
mod stage;
