//! `countersign verify`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use countersign_format::hash::Hash;
use countersign_format::key::AgentIdentity;
use countersign_format::note::SignedNote;
use countersign_format::report::VerificationReport;
use countersign_runtime::clock::{Clock as _, Entropy as _, SystemClock, SystemEntropy};
use countersign_runtime::disk::{Durability, OsDisk, replace_file};
use countersign_runtime::inspect::each_event;
use countersign_runtime::known_roots::KnownRoots;
use countersign_runtime::store::LedgerId;
use countersign_verify::{FileSource, OpenTraces, Options, Profile, exit_status, render};

use serde_json::Value;

use super::keys::fingerprints;
use crate::{Caller, CommandError, Exit, Format};

/// Check a trace: bytes, hashes, chain, signatures, keys, and what the workspace log says of it
///
/// Exit status: 0 nothing wrong, closed, signer pinned; 3 something is wrong; 4 nothing wrong
/// found, but the trace is open or its signer is not pinned. A log never closes: `--allow-open`
/// makes 0 of its 4. Only the report is ever written. The profile `strict` also fails a trace with
/// an unsigned event or with time that runs backwards, where `default` warns; `lenient` only warns
/// of what was recorded against the rules.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// A trace's id or the beginning of it, its directory, an `events.jsonl`, or `log`
    target: String,
    /// A root to trust: its fingerprint, or a file with one on each line
    #[arg(long, value_name = "FINGERPRINT|FILE")]
    trust: Vec<String>,
    /// A copy of the workspace log, or a checkpoint of it, that was kept elsewhere
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
    /// Public key records for a trace that has no log
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// How strict to be: strict, default or lenient
    #[arg(long, default_value = "default")]
    profile: String,
    /// An open trace is as good as a closed one
    #[arg(long)]
    allow_open: bool,
    /// The hash that the last event must have
    #[arg(long, value_name = "HASH")]
    expect_head: Option<Hash>,
    /// The number of events that there must be
    #[arg(long, value_name = "N")]
    expect_count: Option<u64>,
    /// Do not keep the report beside the trace
    #[arg(long)]
    no_write: bool,
}

/// What is to be verified, and where its report goes.
struct Target {
    source: FileSource,
    is_log: bool,
    /// The trace that must be there, where a workspace keeps it under that name.
    trace_id: Option<String>,
    reports: Option<PathBuf>,
}

pub(crate) fn run(args: &VerifyArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let mut target = find(&args.target, caller)?;
    for log in &args.log {
        add_log(&mut target.source, log)?;
    }
    let options = Options { expect_trace: target.trace_id, ..options(args, caller)? };
    let started = Instant::now();
    let verified = if target.is_log {
        countersign_verify::verify_log(&target.source, &options)
    } else {
        countersign_verify::verify(&target.source, &options)
    };
    let mut report = verified.map_err(CommandError::failed)?;
    report.metrics.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let kept = match target.reports.filter(|_| !args.no_write) {
        Some(reports) => keep(&reports, &report),
        None => Ok(()),
    };
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&report)?,
        Format::Text => output.block(render(&report))?,
    }
    // The answer does not depend on whether it could be kept.
    if let Err(error) = kept {
        output.warning(format_args!("the report could not be kept: {error}"));
        output.hint("with `--no-write` nothing is written");
    }
    let open = if args.allow_open { OpenTraces::Accepted } else { OpenTraces::Incomplete };
    Ok(match exit_status(&report, open) {
        0 => Exit::Done,
        3 => Exit::No,
        _ => Exit::Open,
    })
}

fn options(args: &VerifyArgs, caller: &Caller) -> Result<Options, CommandError> {
    let profile = Profile::parse(&args.profile).ok_or_else(|| {
        CommandError::usage(format!("`{}` is no profile", args.profile))
            .with_hint("use strict, default or lenient")
    })?;
    let mut trusted_roots = BTreeSet::new();
    for root in &args.trust {
        trusted_roots.extend(fingerprints(root)?);
    }
    // Who names roots trusts those; who names none trusts the ones that were kept before.
    if args.trust.is_empty()
        && let Ok(config) = caller.config()
    {
        let known = KnownRoots::new(&config).list().map_err(CommandError::failed)?;
        trusted_roots.extend(known.iter().map(|root| root.fingerprint));
    }
    let keys = args.keys.as_deref().map(read_keys).transpose()?.unwrap_or_default();
    let mut random = [0; 16];
    SystemEntropy
        .fill(&mut random)
        .map_err(|error| CommandError::failed_doing("cannot draw an id", error))?;
    let now = SystemClock.now();
    let report_id = countersign_format::id::Ulid::from_parts(now, u128::from_le_bytes(random));
    Ok(Options {
        expect_trace: None,
        trusted_roots,
        keys,
        profile,
        expect_head: args.expect_head,
        expect_count: args.expect_count,
        report_id: report_id.to_string(),
        now,
    })
}

/// Adds a log or a checkpoint that was kept elsewhere. Of several logs the longest counts, and the
/// others must be what it begins with.
fn add_log(source: &mut FileSource, path: &Path) -> Result<(), CommandError> {
    let doing =
        |error| CommandError::failed_doing(format!("cannot read `{}`", path.display()), error);
    let mut file = File::open(path).map_err(doing)?;
    if !file.metadata().map_err(doing)?.is_file() {
        return Err(CommandError::failed(format!("`{}` is not a regular file", path.display())));
    }
    let mut beginning = [0; 12];
    let length = file.read(&mut beginning).map_err(doing)?;
    if length == 0 {
        return Err(CommandError::failed(format!("`{}` is empty", path.display())));
    }
    if beginning.get(..length) == Some(b"countersign/") {
        // What somebody kept and names must be read; only the workspace's own may be torn.
        let bytes = fs::read(path).map_err(doing)?;
        SignedNote::parse(&bytes).map_err(|error| {
            let doing = format!("`{}` is no checkpoint that can be read", path.display());
            CommandError::failed_doing(doing, error)
        })?;
        source.checkpoints.push(path.to_owned());
        return Ok(());
    }
    let Some(known) = source.log.take() else {
        source.log = Some(path.to_owned());
        return Ok(());
    };
    if beginning.first() != Some(&b'{') {
        let error = format!("`{}` is neither a log nor a checkpoint of one", path.display());
        return Err(CommandError::failed(error));
    }
    match first_difference(&known, path).map_err(doing)? {
        Difference::None | Difference::FirstIsLonger => source.log = Some(known),
        Difference::SecondIsLonger => source.log = Some(path.to_owned()),
        Difference::At(byte) => {
            let error = format!("the two logs contradict each other from byte {byte} on");
            return Err(CommandError::no(error).with_details([
                format!("one is `{}`", known.display()),
                format!("the other is `{}`", path.display()),
            ]));
        }
    }
    Ok(())
}

enum Difference {
    None,
    FirstIsLonger,
    SecondIsLonger,
    At(u64),
}

fn first_difference(first: &Path, second: &Path) -> std::io::Result<Difference> {
    let mut first = BufReader::new(File::open(first)?);
    let mut second = BufReader::new(File::open(second)?);
    let mut at = 0;
    loop {
        let (a, b) = (first.fill_buf()?, second.fill_buf()?);
        match (a.is_empty(), b.is_empty()) {
            (true, true) => return Ok(Difference::None),
            (false, true) => return Ok(Difference::FirstIsLonger),
            (true, false) => return Ok(Difference::SecondIsLonger),
            (false, false) => {}
        }
        let length = a.len().min(b.len());
        if let Some(place) = a.iter().zip(b).position(|(a, b)| a != b) {
            return Ok(Difference::At(at + place as u64));
        }
        first.consume(length);
        second.consume(length);
        at += length as u64;
    }
}

/// Bytes that a file of key records may have.
const KEYS_BYTES_MAX: u64 = 16 << 20;

fn read_keys(path: &Path) -> Result<Vec<AgentIdentity>, CommandError> {
    let doing = || format!("cannot read the keys in `{}`", path.display());
    let size = fs::metadata(path).map(|data| data.len());
    if size.map_err(|error| CommandError::failed_doing(doing(), error))? > KEYS_BYTES_MAX {
        return Err(CommandError::failed(format!("`{}` is too large", path.display())));
    }
    let bytes = fs::read(path).map_err(|error| CommandError::failed_doing(doing(), error))?;
    serde_json::from_slice(&bytes).map_err(|error| CommandError::failed_doing(doing(), error))
}

fn find(name: &str, caller: &Caller) -> Result<Target, CommandError> {
    let path = Path::new(name);
    if path.join("log/events.jsonl").exists() {
        return Err(CommandError::usage(format!("`{name}` is a workspace, not a trace"))
            .with_hint(format!("run `countersign trace list --home {name}`, then name one"))
            .with_hint(format!("`countersign verify log --home {name}` checks its log")));
    }
    if path.is_dir() {
        return Ok(in_files(&path.join("events.jsonl")));
    }
    if path.exists() {
        return Ok(in_files(path));
    }
    let home = caller.home()?;
    if name == "log" {
        return Ok(in_files(&home.join("log/events.jsonl")));
    }
    // A trace is found by its name alone: verifying needs no keys and opens no workspace.
    let entries = fs::read_dir(home.join("traces")).into_iter().flatten().flatten();
    let mut matching: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|id| id.starts_with(name) && id.len() == 26)
        .collect();
    matching.sort_unstable();
    match matching.as_slice() {
        [id] => Ok(in_files(&home.join("traces").join(id).join("events.jsonl"))),
        [] => Err(missing(name, &home)),
        several => Err(CommandError::failed(format!("`{name}` begins {} traces", several.len()))
            .with_details(several.iter().take(5).cloned())),
    }
}

/// A trace that is not here; if the log knows it, somebody took it away.
fn missing(name: &str, home: &Path) -> CommandError {
    let mut size = None;
    let log = home.join("log/events.jsonl");
    let _ = each_event(&log, LedgerId::Log, |event| {
        if event.payload.get("trace_id").and_then(Value::as_str) == Some(name) {
            let found = event.payload.get("size").and_then(Value::as_u64).unwrap_or(1);
            size = Some(size.unwrap_or(0).max(found));
        }
    });
    match size {
        Some(size) => CommandError::no(format!(
            "trace {name} is gone: the workspace log knows {size} of its events"
        )),
        None => CommandError::failed(format!("no trace, file or directory `{name}`"))
            .with_hint("run `countersign trace list` to see all traces"),
    }
}

/// The target at `events`, with the log of the workspace that it lies in, if it lies in one.
fn in_files(events: &Path) -> Target {
    // Made absolute without following links: what lies in a workspace is judged by its place.
    let events = std::path::absolute(events).unwrap_or_else(|_| events.to_owned());
    let dir = events.parent().unwrap_or(Path::new(""));
    let is_log = dir.file_name().is_some_and(|name| name == "log")
        && events.file_name().is_some_and(|name| name == "events.jsonl");
    let home = if is_log {
        dir.parent()
    } else {
        dir.parent()
            .filter(|traces| traces.file_name().is_some_and(|name| name == "traces"))
            .and_then(Path::parent)
    };
    let home = home.filter(|home| home.join("log").is_dir());
    let source = match home {
        Some(home) => FileSource::in_home(home, events.clone()),
        None => {
            FileSource { events: events.clone(), log: None, checkpoints: Vec::new(), store: None }
        }
    };
    let in_traces = home.filter(|_| !is_log);
    let trace_id = in_traces.and(dir.file_name()).map(|name| name.to_string_lossy().into_owned());
    let reports = in_traces.map(|_| dir.join("reports"));
    Target { source, is_log, trace_id, reports }
}

/// Keeps the report as JSON and as text.
fn keep(reports: &Path, report: &VerificationReport) -> std::io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(reports) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // A link planted here could lead the reports anywhere.
    if !fs::symlink_metadata(reports)?.is_dir() {
        return Err(std::io::Error::other(format!("`{}` is no directory", reports.display())));
    }
    let json = serde_json::to_vec_pretty(report)?;
    for (ending, bytes) in [("json", json), ("txt", render(report).into_bytes())] {
        let path = reports.join(format!("{}.{ending}", report.report_id));
        replace_file(&OsDisk, &path, &bytes, Durability::Cached).map_err(|error| error.source)?;
    }
    Ok(())
}
