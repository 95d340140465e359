//! What the machine can do at best, measured in the same run as what is held against it.

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use countersign_format::hash::Hash;
use countersign_format::key::SecretKey;
use countersign_runtime::keyring::SigningKey;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::home::Home;
use super::verify::{median, signatures_per_second};

/// How long each is measured in a turn.
const TURN: Duration = Duration::from_secs(1);
/// Bytes of what is signed, and of what is appended: about an event.
const EVENT_BYTES: usize = 800;
const LARGE_BYTES: usize = 1 << 20;

/// Rates that nothing which does the same work can pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    /// Signatures made a second on one core, by the library that verifies and by the one that signs.
    pub(super) sign: f64,
    pub(super) sign_ours: f64,
    /// Signatures strictly verified a second, on one core and on all.
    pub(super) strict_one: f64,
    pub(super) strict_all: f64,
    /// Mebibytes hashed a second on one core.
    pub(super) sha256: f64,
    /// Lines appended a second, each synced before the next.
    pub(super) syncs: f64,
}

/// What was found in several turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    sign: Vec<f64>,
    sign_ours: Vec<f64>,
    strict_one: Vec<f64>,
    strict_all: Vec<f64>,
    sha256: Vec<f64>,
    syncs: Vec<f64>,
}

impl Turns {
    /// Measures everything once more.
    pub(super) fn take(&mut self, home: &Home) -> Result<(), String> {
        let secret = SecretKey::from_seed(&[7; 32]);
        let message = vec![b'x'; EVENT_BYTES];
        self.sign.push(rate(|| {
            std::hint::black_box(secret.sign(std::hint::black_box(&message)));
            Ok(())
        })?);
        let ours = SigningKey::from_seed(&[7; 32]).map_err(|error| error.to_string())?;
        self.sign_ours.push(rate(|| {
            std::hint::black_box(ours.sign(std::hint::black_box(&message)));
            Ok(())
        })?);
        let large = vec![b'x'; LARGE_BYTES];
        self.sha256.push(rate(|| {
            std::hint::black_box(Hash::of(std::hint::black_box(&large)));
            Ok(())
        })?);
        self.strict_one.push(on_one_core(signatures_per_second)?);
        self.strict_all.push(signatures_per_second()?);
        self.syncs.push(syncs_per_second(home)?);
        Ok(())
    }

    /// The middle of all turns.
    pub(super) fn median(mut self) -> Result<Bounds, String> {
        Ok(Bounds {
            sign: median(&mut self.sign)?,
            sign_ours: median(&mut self.sign_ours)?,
            strict_one: median(&mut self.strict_one)?,
            strict_all: median(&mut self.strict_all)?,
            sha256: median(&mut self.sha256)?,
            syncs: median(&mut self.syncs)?,
        })
    }
}

/// Appends that the disk makes durable one after the other.
pub(super) fn syncs_per_second(home: &Home) -> Result<f64, String> {
    let path = home.below("syncs");
    let told = |error: std::io::Error| error.to_string();
    let mut file = File::create(&path).map_err(told)?;
    let line = vec![b'.'; EVENT_BYTES];
    rate(|| file.write_all(&line).and_then(|()| file.sync_data()).map_err(told))
}

/// How often `work` is done in a second.
fn rate(mut work: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let start = Instant::now();
    let mut done = 0u32;
    while start.elapsed() < TURN {
        work()?;
        done += 1;
    }
    Ok(f64::from(done) / start.elapsed().as_secs_f64())
}

/// Does `work` as on a machine with one core; what it starts has that one as well.
pub(super) fn on_one_core<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let told = |error: rustix::io::Errno| format!("cannot choose a core: {error}");
    let before = sched_getaffinity(None).map_err(told)?;
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| before.is_set(cpu)).ok_or("no core")?;
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).map_err(told)?;
    let done = work();
    sched_setaffinity(None, &before).map_err(told)?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_one_core_there_is_one_core_and_afterwards_all_are_back() {
        let cores = || std::thread::available_parallelism().unwrap().get();
        let before = cores();
        assert_eq!(on_one_core(|| Ok(cores())), Ok(1));
        assert_eq!(cores(), before);
        assert_eq!(on_one_core(|| Err::<(), _>("broken".to_owned())), Err("broken".to_owned()));
        assert_eq!(cores(), before);
    }
}
