//! Many agents at once over MCP on HTTP, for a minute: what is acknowledged, how long it takes, and
//! whether the server grows meanwhile. Whether it grows is asked once it is warm: what it keeps for each
//! agent has bounds, and takes some seconds to come to them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use countersign_testkit::mcp::HttpClient;
use serde_json::{Value, json};
use xtask::place::succeed;

use super::bounds::syncs_per_second;
use super::home::Home;
use super::verify::median;
use super::{Measured, Target};
use crate::product;

/// How many agents, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    agents: usize,
    /// Before it is asked whether the server grows.
    warm_up: Duration,
    time: Duration,
}

const FULL: Setting =
    Setting { agents: 64, warm_up: Duration::from_secs(20), time: Duration::from_secs(60) };
const SHORT: Setting =
    Setting { agents: 16, warm_up: Duration::from_secs(1), time: Duration::from_secs(6) };
/// How often the server is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Events of a gate and of a record: asked and answered, begun and ended.
const EVENTS_OF_A_PAIR: usize = 4;
/// By how much the last third may be above the first.
const GROWTH_MAX: f64 = 1.1;
/// By how much the slowest of a hundred may be above the middle one.
const TAIL_MAX: f64 = 4.0;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    pub(super) agents: usize,
    pub(super) seconds: f64,
    /// A gate and a record, both acknowledged.
    pub(super) pairs: usize,
    pub(super) events: usize,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Mebibytes that the server has in memory.
    pub(super) memory: Course,
    pub(super) descriptors: Course,
    /// Syncs that the disk made a second just before.
    pub(super) syncs: f64,
}

/// What something was in the first third of the time after the warm-up, and in the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Course {
    pub(super) first: f64,
    pub(super) last: f64,
}

impl Course {
    fn of(samples: &[f64]) -> Result<Self, String> {
        let third = samples.len() / 3;
        let middle = |part: Option<&[f64]>| median(&mut part.unwrap_or_default().to_vec());
        Ok(Self {
            first: middle(samples.get(..third))?,
            last: middle(samples.get(samples.len().saturating_sub(third)..))?,
        })
    }
}

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    Ok(targets(&run(FULL)?))
}

/// A tenth of it, to see whether it runs at all.
pub(super) fn measure_short() -> Result<Vec<Measured>, String> {
    Ok(targets(&run(SHORT)?))
}

pub(super) fn full() -> Result<Load, String> {
    run(FULL)
}

pub(super) fn targets(load: &Load) -> Vec<Measured> {
    let measured = |name, value, unit, bound, target| Measured { name, value, unit, bound, target };
    let (memory, open) = (load.memory, load.descriptors);
    vec![
        measured(
            "load",
            load.events as f64 / load.seconds,
            "events/s",
            load.syncs,
            Target::AtLeast(1.0),
        ),
        measured("load-p99", load.p99_ms, "ms", load.p50_ms, Target::AtMost(TAIL_MAX)),
        measured("load-memory", memory.last, "MiB", memory.first, Target::AtMost(GROWTH_MAX)),
        measured("load-files", open.last, "open", open.first, Target::AtMost(GROWTH_MAX)),
    ]
}

fn run(setting: Setting) -> Result<Load, String> {
    let home = Home::new("load")?;
    let syncs = syncs_per_second(&home)?;
    let server = Server::start(home.below("workspace"))?;
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let (times, samples) = std::thread::scope(|scope| {
        let agents: Vec<_> = (0..setting.agents)
            .map(|agent| {
                let (client, stop) = (server.client(), &stop);
                scope.spawn(move || act(client, agent, stop))
            })
            .collect();
        let mut samples = Vec::new();
        while start.elapsed() < setting.warm_up + setting.time {
            std::thread::sleep(LOOK_EVERY);
            if start.elapsed() > setting.warm_up {
                samples.push(server.look());
            }
        }
        stop.store(true, Ordering::Relaxed);
        let times: Result<Vec<_>, _> = agents.into_iter().map(|agent| agent.join()).collect();
        (times, samples)
    });
    let seconds = start.elapsed().as_secs_f64();
    let times = times.map_err(|_| "an agent was answered wrongly".to_owned())?;
    let samples: Vec<Seen> = samples.into_iter().collect::<Result<_, _>>()?;
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    times.sort_unstable();
    let events = server.end()?;
    if events < times.len() * EVENTS_OF_A_PAIR {
        return Err(format!("{} pairs were acknowledged, {events} events are there", times.len()));
    }
    let course = |of: fn(&Seen) -> f64| Course::of(&samples.iter().map(of).collect::<Vec<_>>());
    Ok(Load {
        agents: setting.agents,
        seconds,
        pairs: times.len(),
        events,
        p50_ms: percentile(&times, 50),
        p99_ms: percentile(&times, 99),
        memory: course(|seen| seen.mebibytes)?,
        descriptors: course(|seen| seen.descriptors)?,
        syncs,
    })
}

/// Asks and records until it is told to stop; gives how long each pair took.
fn act(mut client: HttpClient, agent: usize, stop: &AtomicBool) -> Vec<Duration> {
    client.initialize();
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let number = times.len();
        let mut change = json!({
            "action_type": "code_edit",
            "description": format!("agent {agent} makes the order of members stable, step {number}"),
            "files_affected": [format!("src/agent{agent}/part{}.rs", number % 16)],
            "diff_text": format!("--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-{agent} {number}\n+{number}\n"),
        });
        let begun = Instant::now();
        let verdict = client.call("capseal_gate", &change);
        let report = json!({
            "tool_name": "edit", "success": true, "duration_ms": 5,
            "output": format!("agent {agent} changed line {number}"),
            "gate_token": verdict.get("gate_token"),
        });
        if let (Value::Object(change), Value::Object(report)) = (&mut change, report) {
            change.extend(report);
        }
        client.call("capseal_record", &change);
        times.push(begun.elapsed());
    }
    times
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

/// The server of a workspace of its own.
struct Server {
    child: Child,
    /// Nobody else may say that nobody listens.
    _talk: BufReader<ChildStderr>,
    dir: PathBuf,
    address: SocketAddr,
    token: String,
}

/// What the system says of it at one time.
struct Seen {
    mebibytes: f64,
    descriptors: f64,
}

impl Server {
    fn start(dir: PathBuf) -> Result<Self, String> {
        let told = |error: std::io::Error| error.to_string();
        fs::create_dir_all(&dir).map_err(told)?;
        succeed(command(&dir, &["init"]).stdout(Stdio::null()).stderr(Stdio::null()))?;
        let mut server = command(&dir, &["mcp", "--http", "127.0.0.1:0"]);
        let mut child = server.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(told)?;
        let mut talk = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let mut line = String::new();
        talk.read_line(&mut line).map_err(told)?;
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.and_then(|text| text.strip_suffix("/mcp")?.parse().ok());
        let address = address.ok_or_else(|| format!("the server says: {line}"))?;
        let token = fs::read_to_string(dir.join("config/mcp-token")).map_err(told)?;
        Ok(Self { child, _talk: talk, dir, address, token: token.trim_end().to_owned() })
    }

    fn client(&self) -> HttpClient {
        HttpClient::new(self.address, &self.token)
    }

    fn look(&self) -> Result<Seen, String> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let told = |error: std::io::Error| format!("the server is gone: {error}");
        let status = fs::read_to_string(process.join("status")).map_err(told)?;
        let descriptors = fs::read_dir(process.join("fd")).map_err(told)?.count() as f64;
        let mebibytes = resident_mebibytes(&status).ok_or("the server has ended")?;
        Ok(Seen { mebibytes, descriptors })
    }

    /// Stops it, has everything verified, and counts the events of all traces.
    fn end(mut self) -> Result<usize, String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let verify = ["verify", "--all", "--allow-open", "--no-write"];
        succeed(command(&self.dir, &verify).stdout(Stdio::null()))?;
        let told = |error: std::io::Error| error.to_string();
        let mut events = 0;
        for trace in fs::read_dir(self.dir.join(".countersign/traces")).map_err(told)? {
            let ledger = trace.map_err(told)?.path().join("events.jsonl");
            let bytes = fs::read(ledger).map_err(told)?;
            events += bytes.iter().filter(|&&byte| byte == b'\n').count();
        }
        Ok(events)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(product::binary());
    command.args(arguments).current_dir(dir).env("COUNTERSIGN_CONFIG", dir.join("config"));
    command
}

/// The memory that a process has now, as the kernel tells it.
fn resident_mebibytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes / 1024.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A minute with round numbers.
    pub(in super::super) const EXAMPLE: Load = Load {
        agents: 64,
        seconds: 60.0,
        pairs: 30_000,
        events: 120_000,
        p50_ms: 120.0,
        p99_ms: 240.0,
        memory: Course { first: 40.0, last: 41.0 },
        descriptors: Course { first: 90.0, last: 90.0 },
        syncs: 1_000.0,
    };

    fn missed(load: &Load) -> Vec<&'static str> {
        targets(load).iter().filter(|it| !it.is_met()).map(|it| it.name).collect()
    }

    #[test]
    fn a_server_that_grows_is_caught_and_one_that_stays_is_not() {
        let steady: Vec<f64> = (0..300).map(|at| 40.0 + f64::from(at % 3)).collect();
        let leaking: Vec<f64> = (0..300).map(|at| 40.0 + f64::from(at) / 10.0).collect();
        let (steady, leaking) = (Course::of(&steady).unwrap(), Course::of(&leaking).unwrap());
        assert_eq!(missed(&Load { memory: steady, ..EXAMPLE }), [] as [&str; 0]);
        assert_eq!(missed(&Load { memory: leaking, ..EXAMPLE }), ["load-memory"]);
        assert_eq!(missed(&Load { descriptors: leaking, ..EXAMPLE }), ["load-files"]);
    }

    #[test]
    fn who_waits_much_longer_than_the_others_is_seen() {
        assert_eq!(missed(&Load { p99_ms: 900.0, ..EXAMPLE }), ["load-p99"]);
        assert_eq!(missed(&Load { events: 20_000, ..EXAMPLE }), ["load"]);
    }

    #[test]
    fn nothing_that_was_seen_is_no_course() {
        assert!(Course::of(&[]).is_err());
        assert!(Course::of(&[1.0, 2.0]).is_err());
    }
}
