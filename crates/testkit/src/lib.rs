//! Test support: a home to write traces in, a clock to set, a disk to break.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set up its world should stop there"
)]

pub mod clock;
pub mod home;

pub use clock::{FakeClock, SeededEntropy};
pub use home::{TestHome, note};
