//! Verifying long recordings with the binary, against the signatures alone on all cores: nothing
//! that verifies each of them strictly can be faster.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use countersign_format::key::SecretKey;

use super::home::Home;
use super::long::{self, LongRecording};
use super::{Measured, Target};
use crate::product;

const SHORT_EVENTS: u64 = 10_000;
const EVENTS: u64 = 1_000_000;
const MANY_EVENTS: u64 = 5_000_000;
/// Runs of the figure and of its bound, in turns.
const ROUNDS: usize = 3;
/// How long the bound is measured in each turn.
const BOUND_TURN: Duration = Duration::from_secs(2);
/// How often the size of the verifier is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const RESIDENT_MIB_MAX: f64 = 64.0;
const SHORT_SECONDS_MAX: f64 = 0.5;
/// Bytes that an event of such a recording signs.
const SIGNED_BYTES: usize = 800;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let binary = product::binary();
    let (rate, bound, resident) = long_run(&binary, "verify", EVENTS)?;
    let home = Home::new("verify-short")?;
    let short = long::write(&home.below("home"), SHORT_EVENTS)?;
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        best = best.min(verify(&binary, &short)?.0);
    }
    Ok(vec![
        Measured {
            name: "verify",
            value: rate,
            unit: "events/s",
            bound,
            target: Target::AtLeast(0.85),
        },
        mebibytes("verify-memory", resident),
        Measured {
            name: "verify-10k",
            value: best.as_secs_f64(),
            unit: "s",
            bound: SHORT_SECONDS_MAX,
            target: Target::AtMost(1.0),
        },
    ])
}

/// The same with five times as many: neither the rate nor the memory should change.
pub(super) fn measure_many() -> Result<Vec<Measured>, String> {
    let (rate, bound, resident) = long_run(&product::binary(), "verify-5m", MANY_EVENTS)?;
    Ok(vec![
        Measured {
            name: "verify-5m",
            value: rate,
            unit: "events/s",
            bound,
            target: Target::AtLeast(0.85),
        },
        mebibytes("verify-5m-mem", resident),
    ])
}

const fn mebibytes(name: &'static str, value: f64) -> Measured {
    Measured { name, value, unit: "MiB", bound: RESIDENT_MIB_MAX, target: Target::AtMost(1.0) }
}

/// Events a second, signatures a second on all cores, and the most memory that was used.
fn long_run(binary: &std::path::Path, name: &str, events: u64) -> Result<(f64, f64, f64), String> {
    let home = Home::new(name)?;
    let recording = long::write(&home.below("home"), events)?;
    let mut rates = Vec::new();
    let mut bounds = Vec::new();
    let mut most: f64 = 0.0;
    for _ in 0..ROUNDS {
        bounds.push(signatures_per_second()?);
        let (taken, resident) = verify(binary, &recording)?;
        rates.push(events as f64 / taken.as_secs_f64());
        most = most.max(resident);
    }
    Ok((median(&mut rates)?, median(&mut bounds)?, most))
}

pub(super) fn median(values: &mut [f64]) -> Result<f64, String> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().ok_or_else(|| "nothing was measured".to_owned())
}

/// How long the binary takes, and how large it became.
pub(super) fn verify(
    binary: &std::path::Path,
    recording: &LongRecording,
) -> Result<(Duration, f64), String> {
    let start = Instant::now();
    let mut child = Command::new(binary)
        .args(["verify", "--no-write", "--trust", &recording.root.to_hex()])
        .arg(&recording.events)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start `{}`: {error}", binary.display()))?;
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0;
    let exit = loop {
        if let Some(exit) = child.try_wait().map_err(|error| error.to_string())? {
            break exit;
        }
        let peak = fs::read_to_string(&status).ok().and_then(|text| peak_mebibytes(&text));
        most = peak.unwrap_or(most);
        thread::sleep(LOOK_EVERY);
    };
    let taken = start.elapsed();
    if exit.success() { Ok((taken, most)) } else { Err(format!("the verifier said {exit}")) }
}

/// The most memory that a process had, as the kernel tells it.
pub(super) fn peak_mebibytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

/// Strict verification of one signature after the other, on every core at once.
pub(super) fn signatures_per_second() -> Result<f64, String> {
    let cores = thread::available_parallelism().map_err(|error| error.to_string())?.get();
    let workers: Vec<_> = (0..cores)
        .map(|_| {
            thread::spawn(|| {
                let secret = SecretKey::from_seed(&[7; 32]);
                let public = secret.public_key();
                let message = vec![b'x'; SIGNED_BYTES];
                let signature = secret.sign(&message);
                let start = Instant::now();
                let mut done = 0u32;
                while start.elapsed() < BOUND_TURN {
                    for _ in 0..100 {
                        if public.verify(std::hint::black_box(&message), &signature).is_err() {
                            return Err("a good signature does not verify".to_owned());
                        }
                    }
                    done += 100;
                }
                Ok(f64::from(done) / start.elapsed().as_secs_f64())
            })
        })
        .collect();
    let mut sum = 0.0;
    for worker in workers {
        sum += worker.join().map_err(|_| "a thread panicked".to_owned())??;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_from_what_the_kernel_says() {
        let status = "Name:\tx\nVmPeak:\t  99999 kB\nVmHWM:\t   20480 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(peak_mebibytes(status), Some(20.0));
        assert_eq!(peak_mebibytes("Name:\tx\n"), None);
    }
}
