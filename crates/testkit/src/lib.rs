//! Test support: a home to write traces in, a clock to set, a disk to break.

#![expect(clippy::unwrap_used, reason = "test support: a failure is to end the test, where it is")]

pub mod conformance;
pub mod disk;
