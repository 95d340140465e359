//! `countersign verify`.

mod all;
mod cap;
mod logs;
mod place;
mod progress;
pub(super) mod proof;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::AgentIdentity;
use countersign_format::report::VerificationReport;
use countersign_format::time::Timestamp;
use countersign_runtime::clock::{Clock as _, Entropy as _, SystemClock, SystemEntropy};
use countersign_runtime::disk::{Durability, OsDisk, replace_file};
use countersign_runtime::inspect::each_event;
use countersign_runtime::known_roots::KnownRoots;
use countersign_runtime::store::LedgerId;
use countersign_verify::{
    FileSource, OpenTraces, Options, Profile, exit_status, read_regular, render,
};

use serde_json::Value;

use self::logs::add_log;
use self::progress::Watched;
use super::keys::fingerprints;
use crate::place::meant;
use crate::{Caller, CommandError, Exit, Format};

/// Check a trace: bytes, hashes, chain, signatures, keys, and what the workspace log says of it
///
/// Exit status: 0 nothing wrong, closed, signer pinned; 3 something is wrong; 4 nothing wrong
/// found, but the trace is open or its signer is not pinned. A log never closes: `--allow-open`
/// makes 0 of its 4. Of a proof it says whether the event is included, never that the trace holds.
/// Only the report is ever written. The profile `strict` also fails a trace with
/// an unsigned event or with time that runs backwards, where `default` warns; `lenient` only warns
/// of what was recorded against the rules.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// A trace's id or the beginning of it, a work item's label, a trace's directory, an
    /// `events.jsonl`, a sealed file (`.cap`), a proof, or `log`
    #[arg(required_unless_present = "all")]
    target: Option<String>,
    /// Check every trace of the workspace, those that are gone included, and its log
    #[arg(long, conflicts_with_all = ["target", "keys", "artifacts", "expect_head", "expect_count"])]
    all: bool,
    /// A root to trust: its fingerprint, or a file with one on each line
    #[arg(long, value_name = "FINGERPRINT|FILE")]
    trust: Vec<String>,
    /// A copy of the workspace log, or a checkpoint of it, that was kept elsewhere
    #[arg(long, value_name = "FILE")]
    pub(super) log: Vec<PathBuf>,
    /// Public key records for a trace that has no log
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Where the artifacts of a trace outside of a workspace lie: the directory that holds
    /// `artifacts/`, by default the trace's own, or the one whose `traces/` it lies in
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,
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
pub(super) struct Target {
    pub(super) source: FileSource,
    pub(super) is_log: bool,
    /// The trace that must be there, where a workspace keeps it under that name.
    pub(super) trace_id: Option<String>,
    reports: Option<PathBuf>,
}

pub(crate) fn run(args: &VerifyArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let Some(name) = &args.target else { return all::run(args, caller) };
    if proof::is_proof(name) {
        if args.expect_head.is_some() || args.expect_count.is_some() {
            let error =
                "a proof shows one event: `--expect-head` and `--expect-count` say nothing of it";
            return Err(CommandError::usage(error));
        }
        return proof::run(name, args, caller);
    }
    if cap::is_cap(name) {
        return cap::run(name, args, caller);
    }
    let mut target = find(name, caller)?;
    place::refuse_projection(&target.source.events)?;
    place::add_store(&mut target.source, args.artifacts.as_deref())?;
    for log in &args.log {
        add_log(&mut target.source, log)?;
    }
    let options = Options { expect_trace: target.trace_id, ..options(args, caller)? };
    let started = Instant::now();
    let watched = Watched::new(&target.source, &mut caller.output);
    let verified = if target.is_log {
        countersign_verify::verify_log(&watched, &options)
    } else {
        countersign_verify::verify(&watched, &options)
    };
    caller.output.clear_status();
    let mut report = verified.map_err(CommandError::failed)?;
    report.metrics.elapsed_ms = milliseconds(started);
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
    Ok(exit(exit_status(&report, args.open())))
}

impl VerifyArgs {
    const fn open(&self) -> OpenTraces {
        if self.allow_open { OpenTraces::Accepted } else { OpenTraces::Incomplete }
    }
}

/// What an exit status of the verifier is to this program.
const fn exit(status: u8) -> Exit {
    match status {
        0 => Exit::Done,
        3 => Exit::No,
        _ => Exit::Open,
    }
}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn options(args: &VerifyArgs, caller: &Caller) -> Result<Options, CommandError> {
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
    let (now, report_id) =
        new_report().map_err(|error| CommandError::failed_doing("cannot draw an id", error))?;
    Ok(Options {
        expect_trace: None,
        trusted_roots,
        keys,
        profile,
        expect_head: args.expect_head,
        expect_count: args.expect_count,
        report_id,
        now,
    })
}

/// The time of a report, and an id for it.
pub(super) fn new_report() -> std::io::Result<(Timestamp, String)> {
    let mut random = [0; 16];
    SystemEntropy.fill(&mut random).map_err(std::io::Error::other)?;
    let now = SystemClock.now();
    Ok((now, Ulid::from_parts(now, u128::from_le_bytes(random)).to_string()))
}

/// Bytes that a file of key records may have.
const KEYS_BYTES_MAX: u64 = 16 << 20;

fn read_keys(path: &Path) -> Result<Vec<AgentIdentity>, CommandError> {
    let doing = || format!("cannot read the keys in `{}`", path.display());
    let bytes = read_regular(path, KEYS_BYTES_MAX);
    let bytes = bytes.map_err(|error| CommandError::failed_doing(doing(), error))?;
    serde_json::from_slice(&bytes).map_err(|error| CommandError::failed_doing(doing(), error))
}

pub(super) fn find(name: &str, caller: &Caller) -> Result<Target, CommandError> {
    let path = Path::new(name);
    if path.join("log/events.jsonl").exists() {
        return Err(CommandError::usage(format!("`{name}` is a workspace, not a trace"))
            .with_hint(format!("run `countersign trace list --home {name}`, then name one"))
            .with_hint(format!("`countersign verify --all --home {name}` checks all of it")));
    }
    if path.is_dir() {
        let events = path.join("events.jsonl");
        if fs::symlink_metadata(&events).is_err() {
            return Err(CommandError::failed(format!(
                "`{name}` is no trace: there is no `events.jsonl` in it"
            )));
        }
        return Ok(in_files(&events));
    }
    if path.exists() {
        return Ok(in_files(path));
    }
    let home = match caller.home() {
        Ok(home) => home,
        // Who names a file that is not there does not want to hear of workspaces.
        Err(_) if name.contains(['/', '.']) => {
            return Err(CommandError::failed(format!("no file or directory `{name}`")));
        }
        Err(error) => return Err(error),
    };
    if name == "log" {
        return Ok(in_files(&home.join("log/events.jsonl")));
    }
    // A trace is found by its name alone: verifying needs no keys and opens no workspace.
    let entries = fs::read_dir(home.join("traces")).into_iter().flatten().flatten();
    let mut ids: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|id| id.len() == 26)
        .collect();
    ids.sort_unstable();
    let Some(id) = meant(&home.join("traces"), ids, name)? else {
        return Err(missing(name, &home));
    };
    let events = home.join("traces").join(&id).join("events.jsonl");
    match fs::symlink_metadata(&events) {
        Err(_) => Err(missing(&id, &home)),
        Ok(_) => Ok(in_files(&events)),
    }
}

/// A trace that is not here; if the log knows it, somebody took it away.
fn missing(name: &str, home: &Path) -> CommandError {
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    let log = home.join("log/events.jsonl");
    let _ = each_event(&log, LedgerId::Log, |event| {
        let trace_id = event.payload.get("trace_id").and_then(Value::as_str);
        if let Some(trace_id) = trace_id.filter(|id| !name.is_empty() && id.starts_with(name)) {
            let found = event.payload.get("size").and_then(Value::as_u64).unwrap_or(1);
            let size = known.entry(trace_id.to_owned()).or_default();
            *size = found.max(*size);
        }
    });
    match known.first_key_value() {
        Some((trace_id, size)) if known.len() == 1 => CommandError::no(format!(
            "trace {trace_id} is gone: the workspace log knows {size} of its events"
        )),
        _ => CommandError::failed(format!("no trace, file or directory `{name}`"))
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
