//! Test support: a home to write traces in, a clock to set, a disk to break.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test support: a failure is to end the test, where it is"
)]

pub mod appender;
pub mod clock;
pub mod conformance;
pub mod dice;
pub mod disk;
pub mod home;
pub mod mcp;
pub mod mutation;
pub mod process;
pub mod second_reader;
pub mod session;
pub mod sim;
pub mod simulation;
pub mod tamper;

pub use clock::{FakeClock, SeededEntropy};
pub use home::{TestHome, note};
pub use session::SessionStory;
