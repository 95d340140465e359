//! Many agents at once over MCP on HTTP, for a minute: what is acknowledged, how long it takes, and
//! whether the server grows meanwhile. Whether it grows is asked once it is warm: what it keeps for each
//! agent has bounds, and takes some seconds to come to them.

use std::collections::BTreeSet;
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
/// The fewest events of a gate and of a record.
const EVENTS_OF_A_PAIR: usize = 5;
/// The fewest of an agent besides: its recording begins.
const EVENTS_OF_AN_AGENT: usize = 1;
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
    let pairs: Vec<Pair> =
        times.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let found = server.end()?;
    found.holds(&pairs, setting.agents)?;
    let events = found.events;
    let mut times: Vec<Duration> = pairs.iter().map(|pair| pair.took).collect();
    times.sort_unstable();
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

/// A gate and a record, both acknowledged.
struct Pair {
    took: Duration,
    /// The event in which the gate said its verdict.
    verdict: String,
    /// The hash of the receipt that the record was answered with.
    receipt: String,
}

/// Asks and records until it is told to stop; gives what it was told.
fn act(mut client: HttpClient, agent: usize, stop: &AtomicBool) -> Result<Vec<Pair>, String> {
    client.initialize();
    let mut pairs = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let number = pairs.len();
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
        let given = client.call("capseal_record", &change);
        let took = begun.elapsed();
        let (verdict, receipt) = (named(&verdict, "gate_token")?, named(&given, "receipt_hash")?);
        pairs.push(Pair { took, verdict, receipt });
    }
    Ok(pairs)
}

fn named(answer: &Value, name: &str) -> Result<String, String> {
    let text = answer.get(name).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| format!("an answer without `{name}`: {answer}"))
}

/// What is in the traces of all agents.
#[derive(Default)]
struct Found {
    events: usize,
    ids: BTreeSet<String>,
    receipts: BTreeSet<String>,
}

impl Found {
    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let event: Value =
            serde_json::from_slice(line).map_err(|error| format!("a line is no event: {error}"))?;
        self.events += 1;
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        self.ids.extend(text("/event_id"));
        self.receipts.extend(text("/payload/receipt_hash"));
        Ok(())
    }

    /// Whether everything is there that agents were told of, and as much as that takes.
    fn holds(&self, pairs: &[Pair], agents: usize) -> Result<(), String> {
        let due = pairs.len() * EVENTS_OF_A_PAIR + agents * EVENTS_OF_AN_AGENT;
        if self.events < due {
            let (pairs, events) = (pairs.len(), self.events);
            return Err(format!(
                "{pairs} pairs of {agents} agents were acknowledged, which are {due} events or \
                 more; {events} are there"
            ));
        }
        let missing = |pair: &&Pair| {
            !self.ids.contains(&pair.verdict) || !self.receipts.contains(&pair.receipt)
        };
        match pairs.iter().find(missing) {
            Some(Pair { verdict, receipt, .. }) => Err(format!(
                "acknowledged, and not there: verdict `{verdict}` or receipt `{receipt}`"
            )),
            None => Ok(()),
        }
    }
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

    /// Stops it, has everything verified, and reads all traces.
    fn end(mut self) -> Result<Found, String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let verify = ["verify", "--all", "--allow-open", "--no-write"];
        succeed(command(&self.dir, &verify).stdout(Stdio::null()))?;
        let told = |error: std::io::Error| error.to_string();
        let mut found = Found::default();
        for trace in fs::read_dir(self.dir.join(".countersign/traces")).map_err(told)? {
            let ledger = trace.map_err(told)?.path().join("events.jsonl");
            let bytes = fs::read(ledger).map_err(told)?;
            // Without its line break a line is no event.
            let lines = bytes.split_inclusive(|&byte| byte == b'\n');
            for line in lines.filter_map(|line| line.strip_suffix(b"\n")) {
                found.take(line)?;
            }
        }
        Ok(found)
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
    fn an_event_or_a_receipt_that_an_agent_was_told_of_and_that_is_gone_is_missed() {
        let line = |number: usize, payload: &Value| {
            json!({ "event_id": format!("e{number}"), "payload": payload }).to_string()
        };
        let found = |lines: &[String]| {
            let mut found = Found::default();
            lines.iter().for_each(|line| found.take(line.as_bytes()).unwrap());
            found
        };
        let pair = Pair { took: Duration::ZERO, verdict: "e2".into(), receipt: "abc".into() };
        let mut lines: Vec<String> = (0..5).map(|number| line(number, &json!({}))).collect();
        lines.push(line(5, &json!({ "receipt_hash": "abc" })));
        let told = [pair];
        assert!(found(&lines).holds(&told, 1).is_ok());
        assert!(found(&lines).holds(&told, 2).is_err(), "the second agent's recording");
        for gone in [0, 2, 5] {
            let mut lines = lines.clone();
            lines.remove(gone);
            assert!(found(&lines).holds(&told, 1).is_err(), "{gone}");
            // As many events as are due do not help where it is another one.
            lines.push(line(6, &json!({})));
            assert_eq!(found(&lines).holds(&told, 1).is_ok(), gone == 0, "{gone}");
        }
        assert!(Found::default().take(b"{\"event_id\":").is_err());
    }

    #[test]
    fn nothing_that_was_seen_is_no_course() {
        assert!(Course::of(&[]).is_err());
        assert!(Course::of(&[1.0, 2.0]).is_err());
    }
}
