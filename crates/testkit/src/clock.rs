//! A clock to set, and randomness that repeats.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use countersign_format::time::Timestamp;
use countersign_runtime::clock::{Clock, Entropy};

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct FakeClock(AtomicI64);

impl FakeClock {
    /// A clock that stands at 2026-02-03T04:05:06.000Z.
    #[must_use]
    pub fn new() -> Self {
        let start: Timestamp = "2026-02-03T04:05:06.000Z".parse().unwrap();
        Self(AtomicI64::new(start.as_millis()))
    }

    /// Moves it, backwards if `millis` is negative.
    pub fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Random-looking bytes, the same for the same seed.
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// Bytes that depend on `seed` alone.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()> {
        for chunk in bytes.chunks_mut(8) {
            let mut word = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::SeqCst);
            word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            word ^= word >> 31;
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
