//! `countersign trace trailer`: names the traces of a commit in its message. Started by git's hook.
//!
//! A trace is named if it changed a file of the commit, and is open or ended after the last commit. The
//! commit is made whatever happens here.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use countersign_format::time::Timestamp;
use countersign_runtime::coverage::{TouchedFiles, touching};
use countersign_runtime::git::Repository;
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// The name of the line in a message.
pub(super) const TRAILER: &str = "Countersign-Trace";
/// Traces that a message names; a commit of more is a merge of other people's work.
const NAMED_MAX: usize = 20;

/// Name the traces that changed the staged files in the message of a commit
#[derive(Debug, clap::Args)]
pub(super) struct TrailerArgs {
    /// The file with the message
    message: PathBuf,
    /// Where the message comes from, as git says
    source: Option<String>,
    /// The commit that is made anew, as git says
    commit: Option<String>,
}

pub(super) fn run(args: &TrailerArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let root = workspace.directory();
    let repository = Repository::of_commit_being_made(&root);
    // The parents' work is named in their own commits.
    if args.source.as_deref() == Some("merge") {
        return Ok(Exit::Done);
    }
    let staged = [
        "diff",
        "--cached",
        "--name-only",
        "--relative",
        "--no-renames",
        "-z",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=all",
        "--",
        ".",
    ];
    let mut paths =
        repository.list("list the staged files", &staged).map_err(CommandError::failed)?;
    if paths.is_empty() {
        // Nothing new is staged: the last commit is made anew, and its files are the ones.
        let mut again = staged.to_vec();
        again.insert(1, "HEAD^");
        paths = repository.list("list the files of the last commit", &again).unwrap_or_default();
    }
    let last =
        repository.text("read the last commit", &["show", "--no-patch", "--format=%ct", "HEAD"]);
    let last = last.ok().and_then(|seconds| seconds.trim().parse::<i64>().ok());
    let last = last.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1_000)));
    let files = TouchedFiles {
        paths: paths.into_iter().collect(),
        writes_only: true,
        ..TouchedFiles::default()
    };
    let (found, _) = touching(&workspace, &files).map_err(explain)?;
    let mut ids = Vec::new();
    for trace in found {
        let is_of_it = !trace.ended || last.is_none_or(|last| trace.last > last);
        if is_of_it && ids.len() < NAMED_MAX {
            ids.push(trace.trace_id);
        }
    }
    for id in &ids {
        add(args, id)?;
    }
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({ "traces": ids, "commit": args.commit }))?;
    }
    Ok(Exit::Done)
}

/// Git knows where in a message such lines stand, and which of them are there already.
fn add(args: &TrailerArgs, id: &str) -> Result<(), CommandError> {
    let trailer = format!("{TRAILER}: {id}");
    let ended = Command::new("git")
        .args(["interpret-trailers", "--in-place", "--if-exists", "addIfDifferent"])
        .args(["--trailer", &trailer])
        .arg(&args.message)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let failed = |why: String| {
        let doing = format!("cannot add a line to `{}`", args.message.display());
        CommandError::failed_doing(doing, why)
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!("git ended with {status}"))),
        Err(error) => Err(failed(error.to_string())),
    }
}
