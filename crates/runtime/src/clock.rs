//! What the outside world brings: time and randomness.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use countersign_format::time::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now, as far as this clock knows.
    fn now(&self) -> Timestamp;
}

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.map_or(0, |since| since.as_millis());
        Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
    }
}

/// Gives random bytes.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()>;
}

/// The randomness of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()> {
        getrandom::fill(bytes).map_err(std::io::Error::other)
    }
}
