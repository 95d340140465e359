//! What an agent waits for when it asks and records over MCP, against the syncs that this makes.
//!
//! The syncs are counted by the system, in a run of their own, and repeated without us: as many new
//! files, directories and appended lines, each synced in the same way.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use countersign_runtime::Environment;
use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use super::clock::{Clock, median_of_both, time};
use super::home::Home;
use super::{Measured, Target};
use crate::product;

const ROUNDS: u32 = 40;
/// Pairs of a gate and a record a round.
const PAIRS: usize = 4;
/// Pairs in the two runs whose difference is counted: what only the first one costs is not.
const FEW: usize = 4;
const MANY: usize = 24;
/// Bytes of a stored diff or output, and of a line of a ledger, as they are in these pairs.
const FILE_BYTES: usize = 500;
const LINE_BYTES: usize = 3_000;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let home = Home::new("mcp")?;
    drop(home.init(Environment::system())?);
    let syncs = Syncs::of_a_pair(&home)?;
    eprintln!(
        "    mcp: a gate and a record make {} syncs: {} of new files, {} of directories, {} of ledgers",
        syncs.count(),
        syncs.files,
        syncs.directories,
        syncs.lines,
    );
    let mut agent = Agent::new(server(&home, Command::new(product::binary())));
    agent.act(PAIRS);
    let mut bare = Bare::new(home.below("bare"))?;
    let (ours, alone) = median_of_both(
        ROUNDS,
        || {
            time(Clock::Wall, || {
                agent.act(PAIRS);
                Ok::<_, String>(())
            })
        },
        || time(Clock::Wall, || bare.repeat(&syncs, PAIRS)),
    )?;
    let pair = |taken: Duration| taken.as_secs_f64() * 1e3 / PAIRS as f64;
    Ok(vec![Measured {
        name: "mcp-pair",
        value: pair(ours),
        unit: "ms",
        bound: pair(alone),
        target: Target::AtMost(1.5),
    }])
}

/// A server for this home; `command` starts it, or what watches it.
fn server(home: &Home, mut command: Command) -> StdioServer {
    command.arg("--home").arg(home.below("home")).arg("mcp");
    command.env("COUNTERSIGN_CONFIG", home.below("config"));
    StdioServer::connect(command, &json!({}))
}

/// An agent that changes one file after the other.
struct Agent {
    server: StdioServer,
    number: u64,
}

impl Agent {
    const fn new(server: StdioServer) -> Self {
        Self { server, number: 0 }
    }

    fn act(&mut self, pairs: usize) {
        for _ in 0..pairs {
            self.number += 1;
            let number = self.number;
            let file = format!("src/part{}.rs", number % 16);
            let mut change = json!({
                "action_type": "code_edit",
                "description": format!("make the order of members stable, step {number}"),
                "files_affected": [file],
                "diff_text": format!("--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-{number}\n+{}\n", number + 1),
            });
            let verdict = self.server.call("capseal_gate", &change);
            assert_eq!(verdict.get("decision"), Some(&json!("approve")), "{verdict}");
            let report = json!({
                "tool_name": "edit", "success": true, "duration_ms": 5,
                "output": format!("changed line {number}"), "gate_token": verdict.get("gate_token"),
            });
            if let (Value::Object(change), Value::Object(report)) = (&mut change, report) {
                change.extend(report);
            }
            self.server.call("capseal_record", &change);
        }
    }
}

/// How often something is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Syncs {
    files: usize,
    directories: usize,
    lines: usize,
}

impl Syncs {
    /// The syncs of one pair, from the system's own list of them.
    fn of_a_pair(home: &Home) -> Result<Self, String> {
        let few = Self::of_pairs(home, FEW)?;
        Ok(Self::of_pairs(home, MANY)?.beyond(&few, MANY - FEW))
    }

    /// What each of so many more pairs took beyond `few` of them.
    pub(super) const fn beyond(&self, few: &Self, more: usize) -> Self {
        // Rounded up: what is made every few pairs is made.
        const fn each(many: usize, few: usize, more: usize) -> usize {
            many.saturating_sub(few).div_ceil(more)
        }
        Self {
            files: each(self.files, few.files, more),
            directories: each(self.directories, few.directories, more),
            lines: each(self.lines, few.lines, more),
        }
    }

    /// All of them.
    pub(super) const fn count(&self) -> usize {
        self.files + self.directories + self.lines
    }

    fn of_pairs(home: &Home, pairs: usize) -> Result<Self, String> {
        let list = home.below("syncs");
        let mut watched = Command::new("strace");
        watched.args(["-f", "-qq", "-y", "-e", "trace=fsync,fdatasync", "-o"]).arg(&list);
        watched.arg(product::binary());
        let mut agent = Agent::new(server(home, watched));
        // What was stored by the first run is not stored again by the second.
        agent.number = pairs as u64 * 1_000;
        agent.act(pairs);
        // What it makes durable when it ends, nobody waits for.
        let text = fs::read_to_string(&list).map_err(|error| error.to_string())?;
        let ended = agent.server.end();
        if ended.0 != Some(0) {
            return Err(format!("the server under strace ended otherwise: {}", ended.1));
        }
        Ok(Self::read(&text))
    }

    pub(super) fn read(list: &str) -> Self {
        let paths = list.lines().filter_map(|line| {
            let (_, call) = line.split_once("sync(")?;
            call.split_once('<')?.1.split_once('>').map(|(path, _)| Path::new(path))
        });
        let mut syncs = Self { files: 0, directories: 0, lines: 0 };
        for path in paths {
            if path.is_dir() {
                syncs.directories += 1;
            } else if path.extension().is_some_and(|name| name == "jsonl") {
                syncs.lines += 1;
            } else {
                syncs.files += 1;
            }
        }
        syncs
    }
}

/// The disk alone.
pub(super) struct Bare {
    dir: PathBuf,
    ledger: File,
    number: u64,
}

impl Bare {
    pub(super) fn new(dir: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        let ledger = File::create(dir.join("ledger")).map_err(|error| error.to_string())?;
        Ok(Self { dir, ledger, number: 0 })
    }

    pub(super) fn repeat(&mut self, syncs: &Syncs, pairs: usize) -> Result<(), String> {
        (0..pairs).try_for_each(|_| self.pair(syncs)).map_err(|error| error.to_string())
    }

    fn pair(&mut self, syncs: &Syncs) -> std::io::Result<()> {
        for _ in 0..syncs.files {
            self.number += 1;
            let mut file = File::create(self.dir.join(self.number.to_string()))?;
            file.write_all(&[b'.'; FILE_BYTES])?;
            file.sync_data()?;
        }
        for _ in 0..syncs.directories {
            File::open(&self.dir)?.sync_all()?;
        }
        for _ in 0..syncs.lines {
            self.ledger.write_all(&[b'.'; LINE_BYTES])?;
            self.ledger.sync_data()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_are_counted_by_what_is_synced() {
        let list = "12 fsync(5</>) = 0\n\
            13 fdatasync(6</x/events.jsonl>) = 0\n\
            13 fdatasync(7</x/artifacts/ab>) = 0\n\
            13 fdatasync(7</x/artifacts/ac> <unfinished ...>\n\
            13 <... fdatasync resumed>) = 0\n\
            13 +++ exited with 0 +++\n";
        assert_eq!(Syncs::read(list), Syncs { files: 2, directories: 1, lines: 1 });
    }
}
