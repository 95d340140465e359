//! `countersign demo`.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::report::VerificationReport;
use countersign_runtime::clock::Clock as _;
use countersign_runtime::conduct::{Conductor, TaskText};
use countersign_runtime::{Environment, Workspace};
use countersign_verify::{FileSource, Options, Profile, verify};
use serde_json::{Value, json};

use super::run::conduct;
use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// A real session, a forged copy of its trace, and how `verify` finds the forged event
///
/// Everything happens in a new directory, with keys of its own, and is removed in the end.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Keep the directory, to look at it
    #[arg(long)]
    keep: bool,
}

const TASK: &str = r#"task_id = "demo"
objective = "Find out whether the tests pass"

[[steps]]
id = "tests"
objective = "Run the tests"
expected_evidence = ["what the tests print"]

[[steps.actions]]
tool = "exec"
argv = ["sh", "tests.sh"]
justification = "only running them shows whether they pass"

[[steps.claims]]
text = "All tests pass"
"#;

/// A test run that fails, as test runs do.
const TESTS: &str =
    "echo 'test addition ... ok'\necho 'test division ... FAILED: 7 / 2 is not 3'\nexit 1\n";

pub(crate) fn run(args: &DemoArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    if caller.output.format() == Format::Json {
        return Err(CommandError::usage("the demo is for people; it has no `--json`"));
    }
    let place = Place::make()?;
    let workspace = Workspace::init(
        &place.path.join("config"),
        &place.project.join(".countersign"),
        Environment::system(),
    )
    .map_err(explain)?;
    let out = |line: &str, caller: &mut Caller| caller.output.line(line);
    out("1. An agent runs a project's tests. They fail, and the trace says so.", caller)?;
    let task = TaskText::parse(TASK.to_owned())
        .map_err(|_| CommandError::failed("the demo's task cannot be read"))?;
    let begin = |setting| Conductor::begin(&workspace, task, setting).map_err(CommandError::failed);
    let ran = conduct(&workspace, place.project.clone(), begin, caller)?;
    out("", caller)?;
    out("2. Anybody who pins the root key can check the trace, offline:", caller)?;
    let honest = check(&workspace, workspace.home(), ran.id)?;
    show(&honest, caller)?;
    let forged = forge(&place, &workspace, ran.id)?;
    out("", caller)?;
    out(
        "3. Somebody who can write the files, but has no keys, lets the tests pass in a copy,",
        caller,
    )?;
    out("   and makes every hash fit again:", caller)?;
    caller.output.line(format_args!("     event {}  was  {}", forged.index, forged.before))?;
    caller.output.line(format_args!("     event {}  is   {}", forged.index, forged.after))?;
    out("", caller)?;
    out("4. The same check of the forged copy:", caller)?;
    let forgery = check(&workspace, &forged.home, ran.id)?;
    show(&forgery, caller)?;
    let found = forgery.failures.iter().any(|failure| failure.index == Some(forged.index as u64));
    if args.keep {
        caller.output.note(format_args!("kept: {}", place.path.display()));
        place.keep();
    } else {
        caller.output.hint("run `countersign run -- cargo test` in a project of yours");
    }
    if !found || !honest.failures.is_empty() {
        return Err(CommandError::failed("the forgery was not found: this is a fault of ours"));
    }
    Ok(Exit::Done)
}

/// A directory for the demo, which goes when this is dropped.
struct Place {
    path: PathBuf,
    project: PathBuf,
    kept: std::cell::Cell<bool>,
}

impl Place {
    fn make() -> Result<Self, CommandError> {
        let cannot =
            |error| CommandError::failed_doing("cannot make a directory for the demo", error);
        let base = std::env::temp_dir().canonicalize().map_err(cannot)?;
        let now = countersign_runtime::clock::SystemClock.now().as_millis();
        let path = base.join(format!("countersign-demo-{}-{now}", std::process::id()));
        let project = path.join("project");
        fs::create_dir(&path).and_then(|()| fs::create_dir(&project)).map_err(cannot)?;
        fs::write(project.join("tests.sh"), TESTS).map_err(cannot)?;
        Ok(Self { path, project, kept: std::cell::Cell::new(false) })
    }

    fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.kept.get() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Verifies a trace.
fn check(workspace: &Workspace, home: &Path, id: Ulid) -> Result<VerificationReport, CommandError> {
    let events = home.join("traces").join(id.to_string()).join("events.jsonl");
    let source = FileSource::in_home(home, events);
    let options = Options {
        trusted_roots: [workspace.root()].into(),
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: Some(id.to_string()),
        expect_head: None,
        expect_count: None,
        report_id: workspace.new_id().map_err(explain)?.to_string(),
        now: workspace.now(),
    };
    verify(&source, &options).map_err(CommandError::failed)
}

/// The heart of a report.
fn show(report: &VerificationReport, caller: &mut Caller) -> Result<(), CommandError> {
    let verdict = report.verification_status.as_str();
    caller
        .output
        .line(format_args!("     {} events, verdict: {verdict}", report.metrics.events))?;
    let mut failures = report.failures.iter();
    if let Some(first) = failures.next() {
        let place = first.index.map(|index| format!(" at event {index}")).unwrap_or_default();
        caller.output.line(format_args!("     {}{place}", first.failure_code.as_str()))?;
        caller.output.line(format_args!("       {}", first.message))?;
        let rest = failures.count();
        if rest > 0 {
            caller.output.line(format_args!(
                "     and {rest} more: whatever was signed on top of it, and the workspace log"
            ))?;
        }
    }
    Ok(())
}

struct Forged {
    home: PathBuf,
    index: usize,
    before: String,
    after: String,
}

/// Copies the store and edits one event of the copy as somebody without keys would.
fn forge(place: &Place, workspace: &Workspace, id: Ulid) -> Result<Forged, CommandError> {
    let cannot = |error| CommandError::failed_doing("cannot forge a copy", error);
    let home = place.path.join("forged");
    copy(workspace.home(), &home).map_err(cannot)?;
    let path = home.join("traces").join(id.to_string()).join("events.jsonl");
    let text = fs::read_to_string(&path).map_err(cannot)?;
    let mut lines: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let index = lines
        .iter()
        .position(|line| line.get("event_type") == Some(&json!("tool_execution_failed")))
        .ok_or_else(|| CommandError::failed("nothing failed in the demo's session"))?;
    let status = |line: &Value| {
        let payload = line.get("payload");
        let member = |name: &str| payload.and_then(|payload| payload.get(name)).cloned();
        format!(
            "exit_status {}, reason {}",
            member("exit_status").unwrap_or_default(),
            member("reason").unwrap_or_default()
        )
    };
    let mut forged = Forged { home, index, before: String::new(), after: String::new() };
    let mut previous: Option<Value> = None;
    for line in lines.iter_mut().skip(index) {
        if previous.is_none() {
            forged.before = status(line);
            edit(line);
            forged.after = status(line);
        }
        if let Some(members) = line.as_object_mut() {
            if let Some(hash) = previous {
                members.insert("prev_event_hash".into(), hash);
            }
            members.remove("event_hash");
            let hash = json!(Hash::of(&json::to_bytes(&Value::Object(members.clone()))));
            members.insert("event_hash".into(), hash.clone());
            previous = Some(hash);
        }
    }
    let mut bytes = Vec::new();
    for line in &lines {
        bytes.extend(json::to_bytes(line));
        bytes.push(b'\n');
    }
    fs::write(&path, bytes).map_err(cannot)?;
    Ok(forged)
}

fn edit(line: &mut Value) {
    if let Some(payload) = line.get_mut("payload").and_then(Value::as_object_mut) {
        payload.insert("exit_status".into(), json!(0));
        payload.insert("reason".into(), json!("ended with exit status 0"));
    }
    let payload = line.get("payload").cloned().unwrap_or_default();
    if let Some(members) = line.as_object_mut() {
        members.insert("payload_hash".into(), json!(Hash::of(&json::to_bytes(&payload))));
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
