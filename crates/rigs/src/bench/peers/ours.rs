//! Ours as the peers are driven: the same tool calls, through the recorder that the product has; verified
//! and attacked with the release binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use countersign_format::hash::Hash;
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::{Environment, Recording, Workspace};
use serde_json::{Value, json};

use super::Verified;
use crate::bench::callers::{Caller, Crowd, record_together};
use crate::bench::home::{begin, told};
use crate::bench::long::LongRecording;
use crate::bench::verify;
use crate::product;
use xtask::Failure;
use xtask::place::succeed;

/// Records whose cost is told apart, at the beginning and at the end.
const CHUNK: u64 = 1_000;
/// Calls between two of one agent: more than there are agents.
const APART: u64 = 64;
/// Records of a store that is attacked.
const SMALL: u64 = 300;
const SHARED: u64 = 100;
const KEPT: u64 = 200;
/// Records that are cut off.
const CUT: usize = 10;

/// Does what a driver is told, and prints what came of it.
pub(crate) fn drive(order: &[&str]) -> Result<(), Failure> {
    let unknown = || Failure::Usage(format!("a driver is not told `{}`", order.join(" ")));
    let count = |text: &str| text.parse::<u64>().map_err(|_| unknown());
    let [callers, order @ ..] = order else { return Err(unknown()) };
    let crowd = match *callers {
        "one" => Crowd::ONE,
        "crowd" => Crowd::WITH_ENVOYS,
        "threads" => Crowd::ON_THREADS,
        _ => return Err(unknown()),
    };
    let mut answer = match order {
        ["record", records, place, limit] => {
            let limit = Duration::from_secs(count(limit)?);
            record(Path::new(place), crowd, count(records)?, limit)?
        }
        ["fill", records, place] => fill(Path::new(place), count(records)?)?,
        ["attack", name, place] => attack(name, Path::new(place))?,
        _ => return Err(unknown()),
    };
    if let Some(answer) = answer.as_object_mut() {
        let status = fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
        let peak = verify::peak_mebibytes(&status).ok_or_else(|| "no peak".to_owned())?;
        answer.insert("peak_kib".to_owned(), json!(peak * 1024.0));
    }
    println!("{answer}");
    Ok(())
}

/// The arguments of a tool call, as in `drive.py`.
fn arguments(number: u64, story: &str) -> String {
    let line = |what: &str| {
        format!("    let order = sorted_by_key(members, |member| member.{what}[{number}]);\n")
            .repeat(2)
    };
    json!({
        "path": format!("src/part_{}.rs", number % 97),
        "old": line("name"),
        "new": line("rank"),
        "reason":
            format!("the test expects another order of members, step {number} of story {story}"),
    })
    .to_string()
}

/// An agent whose every call edits a file with other arguments.
fn agent(story: &str, mut number: u64) -> Caller<impl FnMut() -> RecordingCommand> {
    Caller::new(move || {
        let arguments = arguments(number, story);
        number += APART;
        RecordingCommand::Intend {
            tool_name: "edit_file".to_owned(),
            input_hash: Hash::of(arguments.as_bytes()),
            safety_classification: "standard".to_owned(),
            justification: arguments,
            artifacts: Vec::new(),
        }
    })
}

fn init(place: &Path) -> Result<Workspace, String> {
    fs::create_dir_all(place)
        .map_err(|error| format!("cannot create `{}`: {error}", place.display()))?;
    Workspace::init(&place.join("config"), &place.join("home"), Environment::system())
        .map_err(|error| told(&error))
}

fn record(place: &Path, crowd: Crowd, count: u64, limit: Duration) -> Result<Value, String> {
    let workspace = init(place)?;
    let recording = begin(&workspace)?;
    let (marks, seconds) = write(&recording, crowd, count, limit)?;
    let records = marks.last().map_or(0, |&(records, _)| records);
    let cost: Vec<f64> = marks
        .windows(2)
        .filter_map(|two| match two {
            [(from, start), (to, end)] => Some((end - start) * 1e6 / (to - from) as f64),
            _ => None,
        })
        .collect();
    Ok(json!({
        "records": records, "calls": records.div_ceil(3), "seconds": seconds,
        "stopped": records < count, "first_us": cost.first(), "last_us": cost.last(),
        "bytes": size(&place.join("home"))?,
    }))
}

/// How far it was at which time, every thousand records, and how long all of it took.
type Course = (Vec<(u64, f64)>, f64);

/// Records with many callers at once.
fn write(
    recording: &Recording,
    crowd: Crowd,
    count: u64,
    limit: Duration,
) -> Result<Course, String> {
    let (begun, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let marks = Mutex::new(vec![(0, 0.0)]);
    // Asked before each event: what was asked for before is durable, but for one of each caller.
    let more = || {
        let now = begun.fetch_add(1, Ordering::Relaxed);
        if now > 0 && (now.is_multiple_of(CHUNK) || now == count) {
            let elapsed = start.elapsed();
            marks.lock().map_err(|_| "a thread panicked")?.push((now, elapsed.as_secs_f64()));
            stop.fetch_or(now >= count || elapsed > limit, Ordering::Relaxed);
        }
        Ok(!stop.load(Ordering::Relaxed))
    };
    record_together(recording, crowd, |number| Ok(agent("a", number)), more)?;
    let seconds = start.elapsed().as_secs_f64();
    let mut marks = marks.into_inner().map_err(|_| "a thread panicked")?;
    marks.sort_by_key(|&(records, _)| records);
    // The first event says only that there is a recording.
    let records = recording.size().map_err(|error| told(&error))? - 1;
    marks.retain(|&(so_far, _)| so_far < records);
    marks.push((records, seconds));
    Ok((marks, seconds))
}

/// A recording that has ended, of so many events.
fn fill(place: &Path, count: u64) -> Result<Value, String> {
    let workspace = init(place)?;
    let recording = begin(&workspace)?;
    write(&recording, Crowd::WITH_ENVOYS, count, Duration::MAX)?;
    close(&workspace, &recording, place)?;
    Ok(json!({ "records": count, "calls": count.div_ceil(3), "seconds": 0.0, "stopped": false }))
}

/// Ends a recording, and notes where it is and whom to trust.
fn close(workspace: &Workspace, recording: &Recording, place: &Path) -> Result<(), String> {
    recording.conclude("the bench is over").map_err(|error| told(&error))?;
    let events = workspace.trace_file(recording.id());
    let note = json!({ "events": events, "root": workspace.root().to_hex() });
    fs::write(place.join("note.json"), note.to_string()).map_err(|error| error.to_string())
}

fn noted(place: &Path) -> Result<LongRecording, String> {
    let text = fs::read_to_string(place.join("note.json")).map_err(|error| error.to_string())?;
    let note: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let text = |name: &str| note.get(name).and_then(Value::as_str).unwrap_or_default();
    let root = text("root").parse().map_err(|_| "no root".to_owned())?;
    Ok(LongRecording { events: text("events").into(), root })
}

/// Verifies what was filled with the release binary: the time of the whole process.
pub(super) fn verify(place: &Path) -> Result<Verified, String> {
    let recording = noted(place)?;
    let text = fs::read(&recording.events).map_err(|error| error.to_string())?;
    let records = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
    drop(text);
    let (taken, peak_mib) = verify::verify(&product::binary(), &recording)?;
    Ok(Verified { records, seconds: taken.as_secs_f64(), peak_mib })
}

fn size(place: &Path) -> Result<u64, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut sum = 0;
    for entry in fs::read_dir(place).map_err(told)? {
        let entry = entry.map_err(told)?;
        let found = entry.metadata().map_err(told)?;
        sum += if found.is_dir() { size(&entry.path())? } else { found.len() };
    }
    Ok(sum)
}

/// A workspace that is attacked, with the trace that is looked at.
struct Store {
    place: PathBuf,
    workspace: Workspace,
    recording: Recording,
}

impl Store {
    fn new(place: PathBuf, events: u64, story: &str) -> Result<Self, String> {
        let workspace = init(&place)?;
        let recording = begin(&workspace)?;
        let store = Self { place, workspace, recording };
        store.write(events, story)?;
        Ok(store)
    }

    fn write(&self, events: u64, story: &str) -> Result<(), String> {
        agent(story, 0).write(&self.recording, events)
    }

    fn end(&self) -> Result<(), String> {
        self.recording.conclude("done").map(drop).map_err(|error| told(&error))
    }

    /// A copy of everything, keys included, opened as a workspace of its own.
    fn fork(&self, name: &str) -> Result<Self, String> {
        let place = self.place.with_file_name(name);
        succeed(Command::new("cp").arg("-r").args([&self.place, &place]))?;
        let workspace =
            Workspace::open(&place.join("config"), &place.join("home"), Environment::system())
                .map_err(|error| told(&error))?;
        let recording = workspace.recording(self.recording.id()).map_err(|error| told(&error))?;
        Ok(Self { place, workspace, recording })
    }

    fn events(&self) -> PathBuf {
        self.workspace.trace_file(self.recording.id())
    }

    /// The one small thing to keep elsewhere, as it is now.
    fn keep(&self) -> Result<PathBuf, String> {
        let kept = self.place.with_extension("kept");
        fs::copy(self.place.join("home/log/checkpoint"), &kept)
            .map_err(|error| error.to_string())?;
        Ok(kept)
    }

    /// Whether the verifier says that nothing is wrong, to somebody who trusts this root.
    fn holds(&self, root: Hash, kept: Option<&Path>) -> Result<bool, String> {
        let mut command = Command::new(product::binary());
        command.args(["verify", "--no-write", "--allow-open", "--trust", &root.to_hex()]);
        command.args(kept.map(|_| "--log")).args(kept).arg(self.events());
        command.env("COUNTERSIGN_CONFIG", self.place.with_extension("reader"));
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = quiet.status().map_err(|error| error.to_string())?;
        match status.code() {
            Some(0) => Ok(true),
            Some(3 | 4) => Ok(false),
            _ => Err(format!("the verifier said {status}")),
        }
    }

    fn change(&self, with: impl FnOnce(&mut Vec<String>)) -> Result<(), String> {
        let text = fs::read_to_string(self.events()).map_err(|error| error.to_string())?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        with(&mut lines);
        fs::write(self.events(), lines.join("\n") + "\n").map_err(|error| error.to_string())
    }
}

fn attack(name: &str, base: &Path) -> Result<Value, String> {
    let store = Store::new(base.join("store"), SHARED, "a")?;
    let root = store.workspace.root();
    if name == "split" {
        return split(&store, root);
    }
    store.write(KEPT - SHARED, "a")?;
    let earlier = (name == "rollback").then(|| store.fork("earlier")).transpose()?;
    store.write(SMALL - KEPT, "a")?;
    store.end()?;
    if !store.holds(root, None)? {
        return Err("a good store does not verify".to_owned());
    }
    let kept = store.keep()?;
    let (plain, kept) = match (name, &earlier) {
        ("edit", _) => {
            let line = |line: &String| line.contains("edit_file");
            store.change(|lines| {
                let middle = lines.len() / 2;
                if let Some(line) = lines.iter_mut().skip(middle).find(|text| line(text)) {
                    *line = line.replacen("edit_file", "read_file", 1);
                }
            })?;
            (!store.holds(root, None)?, None)
        }
        ("tail", _) => {
            store.change(|lines| lines.truncate(lines.len().saturating_sub(CUT)))?;
            (!store.holds(root, None)?, Some(!store.holds(root, Some(&kept))?))
        }
        ("rollback", Some(earlier)) => {
            (!earlier.holds(root, None)?, Some(!earlier.holds(root, Some(&kept))?))
        }
        ("resign", _) => {
            let other = Store::new(base.join("other"), SMALL, "b")?;
            other.end()?;
            (!other.holds(root, None)?, None)
        }
        _ => return Err(format!("no attack `{name}`")),
    };
    Ok(json!({ "plain": plain, "kept": kept }))
}

/// Two histories from the same beginning, both signed by the owner. A reader has kept the checkpoint of
/// the one, and is shown the other.
fn split(store: &Store, root: Hash) -> Result<Value, String> {
    let fork = store.fork("fork")?;
    store.write(KEPT - SHARED, "a")?;
    store.end()?;
    let kept = store.keep()?;
    // The first one goes on honestly, which nobody may take for a fork.
    let more = begin(&store.workspace)?;
    agent("a", 0).write(&more, SMALL - KEPT)?;
    fork.write(SMALL - SHARED, "b")?;
    fork.end()?;
    let honest = store.holds(root, Some(&kept))?;
    let noticed = honest && !fork.holds(root, Some(&kept))?;
    Ok(json!({ "plain": !fork.holds(root, None)?, "kept": noticed }))
}
