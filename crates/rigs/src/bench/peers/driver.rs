//! Programs that drive somebody, and what they tell: one line of JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use xtask::peers;
use xtask::place::root;

/// What drives somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver {
    /// This program, with so many callers.
    Ours(&'static str),
    /// A script below `tests/peers`.
    Python(&'static str),
    /// The package below `tests/peers`.
    Signet,
}

/// Where the drivers are.
#[derive(Debug)]
pub(super) struct Programs {
    ours: PathBuf,
    python: PathBuf,
    signet: PathBuf,
}

impl Programs {
    pub(super) fn install() -> Result<Self, String> {
        let ours = std::env::current_exe().map_err(|error| error.to_string())?;
        Ok(Self { ours, python: peers::python()?, signet: peers::signet()? })
    }

    fn command(&self, driver: Driver) -> Command {
        match driver {
            Driver::Ours(callers) => {
                let mut command = Command::new(&self.ours);
                command.args(["drive", callers]);
                command
            }
            Driver::Signet => Command::new(&self.signet),
            Driver::Python(script) => {
                let mut command = Command::new(&self.python);
                command.arg("-B").arg(root().join("tests/peers").join(script));
                command
            }
        }
    }

    /// Has a driver do something, and gives what it tells.
    pub(super) fn tell(&self, driver: Driver, order: &[&str]) -> Result<Value, String> {
        let mut command = self.command(driver);
        let output = command.args(order).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cannot start {driver:?}: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let told = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
        match told {
            Some(told) if output.status.success() => Ok(told),
            _ => Err(format!("{driver:?} {} {}", order.join(" "), output.status)),
        }
    }

    /// How often a driver makes something durable while it does this; of no program to count, nothing.
    pub(super) fn count_syncs(
        &self,
        driver: Driver,
        order: &[&str],
        list: &Path,
    ) -> Result<Option<usize>, String> {
        let watched = self.command(driver);
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o"]);
        command.arg(list).arg(watched.get_program()).args(watched.get_args()).args(order);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match quiet.status() {
            Err(_) => Ok(None),
            Ok(status) if !status.success() => Err(format!("{driver:?} under strace: {status}")),
            Ok(_) => {
                let text = fs::read_to_string(list).map_err(|error| error.to_string())?;
                Ok(Some(calls(&text)))
            }
        }
    }
}

/// Calls in what strace wrote; one that was interrupted by another thread counts once.
fn calls(list: &str) -> usize {
    list.lines().filter(|line| line.contains("sync") && !line.contains(" resumed>")).count()
}

/// What recording took.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Recorded {
    pub(in super::super) records: u64,
    /// Tool calls that these records are of.
    pub(in super::super) calls: u64,
    pub(in super::super) seconds: f64,
    /// Whether time was up before all were recorded.
    pub(in super::super) stopped: bool,
    /// Microseconds for each of the first thousand and of the last.
    pub(in super::super) first_us: f64,
    pub(in super::super) last_us: f64,
    /// Of the whole store.
    pub(in super::super) bytes: u64,
    pub(in super::super) peak_mib: f64,
}

impl Recorded {
    pub(super) fn read(told: &Value) -> Result<Self, String> {
        Ok(Self {
            records: whole(told, "records")?,
            calls: whole(told, "calls")?,
            seconds: number(told, "seconds")?,
            stopped: truth(told, "stopped")?,
            first_us: number(told, "first_us")?,
            last_us: number(told, "last_us")?,
            bytes: whole(told, "bytes")?,
            peak_mib: number(told, "peak_kib")? / 1024.0,
        })
    }

    pub(in super::super) fn rate(&self) -> f64 {
        self.records as f64 / self.seconds
    }
}

/// What verifying took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Verified {
    pub(in super::super) records: u64,
    pub(in super::super) seconds: f64,
    pub(in super::super) peak_mib: f64,
}

impl Verified {
    pub(super) fn read(told: &Value) -> Result<Self, String> {
        if !truth(told, "ok")? {
            return Err(format!("a good store does not verify: {told}"));
        }
        Ok(Self {
            records: whole(told, "records")?,
            seconds: number(told, "seconds")?,
            peak_mib: number(told, "peak_kib")? / 1024.0,
        })
    }

    pub(in super::super) fn rate(&self) -> f64 {
        self.records as f64 / self.seconds
    }
}

/// Whether an attack is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Noticed {
    /// By verifying as it is documented.
    pub(in super::super) plain: bool,
    /// By verifying with what a reader may keep elsewhere, where there is such a thing.
    pub(in super::super) kept: Option<bool>,
}

impl Noticed {
    pub(super) fn read(told: &Value) -> Result<Self, String> {
        let kept = told.get("kept").and_then(Value::as_bool);
        Ok(Self { plain: truth(told, "plain")?, kept })
    }
}

fn number(told: &Value, name: &str) -> Result<f64, String> {
    let found = told.get(name).and_then(Value::as_f64);
    found.ok_or_else(|| format!("no number `{name}` in {told}"))
}

fn whole(told: &Value, name: &str) -> Result<u64, String> {
    let found = told.get(name).and_then(Value::as_u64);
    found.ok_or_else(|| format!("no count `{name}` in {told}"))
}

fn truth(told: &Value, name: &str) -> Result<bool, String> {
    let found = told.get(name).and_then(Value::as_bool);
    found.ok_or_else(|| format!("no `{name}` in {told}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_interrupted_sync_counts_once() {
        let list = "12 fsync(5) = 0\n13 fdatasync(6 <unfinished ...>\n\
            13 <... fdatasync resumed>) = 0\n13 +++ exited with 0 +++\n";
        assert_eq!(calls(list), 2);
    }

    #[test]
    fn a_store_that_does_not_verify_is_no_figure() {
        let told = json!({ "ok": true, "records": 10, "seconds": 0.5, "peak_kib": 2048 });
        assert_eq!(
            Verified::read(&told),
            Ok(Verified { records: 10, seconds: 0.5, peak_mib: 2.0 })
        );
        assert!(Verified::read(&json!({ "ok": false, "records": 10, "seconds": 0.5 })).is_err());
        assert!(Verified::read(&json!({ "ok": true, "seconds": 0.5 })).is_err());
    }
}
