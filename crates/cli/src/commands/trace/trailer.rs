//! `countersign trace trailer`: names the traces of a commit in its message. Started by git's hook.
//!
//! A trace is named if it changed a file of the commit, and is open or ended after the last commit. The
//! commit is made whatever happens here, unless its message says nothing: git gives up then, and it has
//! to stay so.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_format::time::Timestamp;
use countersign_runtime::actions::plain_paths;
use countersign_runtime::coverage::{TouchedFiles, touching};
use countersign_runtime::git::Repository;
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// The name of the line in a message.
pub(super) const TRAILER: &str = "Countersign-Trace";
/// Traces that a message names; a commit of more is a merge of other people's work.
const NAMED_MAX: usize = 20;

/// Bytes of a message, with the diff that git may show in it.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// What follows this line is not part of a message.
const SCISSORS: &str = "------------------------ >8 ------------------------";
/// Lines that git adds by itself, and that say nothing.
const SIGNED: &str = "Signed-off-by: ";

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
    let repository = repository(&workspace.directory());
    let merges = || repository.commit("MERGE_HEAD").ok().flatten().is_some();
    // The parents' work is named in their own commits.
    if args.source.as_deref() == Some("merge") || merges() || says_nothing(&args.message)? {
        return Ok(Exit::Done);
    }
    let paths = staged(&repository, &workspace.directory())?;
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

/// The repository in which the commit is made: where git has started us, which may be another worktree
/// than that of the workspace.
fn repository(root: &Path) -> Repository {
    let here = std::env::current_dir().ok().map(|here| Repository::of_commit_being_made(&here));
    let here = here.filter(Repository::is_there);
    here.unwrap_or_else(|| Repository::of_commit_being_made(root))
}

/// The files of the commit, as the actions of the workspace at `root` name them.
fn staged(repository: &Repository, root: &Path) -> Result<Vec<String>, CommandError> {
    let list = |since: Option<&str>| {
        let mut arguments = vec!["diff", "--cached", "--name-only", "--no-renames", "-z"];
        arguments.extend(["--no-relative", "--no-ext-diff", "--no-textconv"]);
        arguments.push("--ignore-submodules=all");
        arguments.extend(since);
        arguments.push("--");
        repository.list("list the staged files", &arguments)
    };
    let mut names = list(None).map_err(CommandError::failed)?;
    if names.is_empty() {
        // Nothing new is staged: the last commit is made anew, and its files are the ones.
        names = list(Some("HEAD^")).unwrap_or_default();
    }
    let top = repository.text("find the top of the files", &["rev-parse", "--show-toplevel"]);
    let top = PathBuf::from(top.map_err(CommandError::failed)?);
    let whole: Vec<String> =
        names.iter().map(|name| top.join(name).to_string_lossy().into_owned()).collect();
    Ok(plain_paths(root, whole.iter().map(String::as_str)))
}

/// Whether git takes a message for empty, or for a template that nobody has filled in.
fn says_nothing(message: &Path) -> Result<bool, CommandError> {
    let failed =
        |error| CommandError::failed_doing(format!("cannot read `{}`", message.display()), error);
    let said = said(&read(message).map_err(failed)?).map_err(failed)?;
    if said.is_empty() {
        return Ok(true);
    }
    let mut template = Command::new("git");
    template.args(["config", "--type=path", "commit.template"]).stderr(Stdio::null());
    let template = template.stdin(Stdio::null()).output().map_err(failed)?.stdout;
    let template = String::from_utf8_lossy(&template).trim_end_matches('\n').to_owned();
    if template.is_empty() {
        return Ok(false);
    }
    let template = read(Path::new(&template)).and_then(|text| self::said(&text));
    Ok(template.is_ok_and(|template| template == said))
}

fn read(file: &Path) -> std::io::Result<String> {
    if fs::metadata(file)?.len() > MESSAGE_BYTES_MAX {
        return Err(std::io::Error::other(format!("it has more than {MESSAGE_BYTES_MAX} bytes")));
    }
    fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// What a message says: without comments, which git knows, and without what is added by itself.
fn said(message: &str) -> std::io::Result<String> {
    let cut = message.lines().take_while(|line| !line.ends_with(SCISSORS));
    let cut: String = cut.flat_map(|line| [line, "\n"]).collect();
    let mut git = Command::new("git");
    git.args(["stripspace", "--strip-comments"]).stderr(Stdio::null());
    let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = git.stdin.take();
    // It reads on while it answers: the answer is taken beside that.
    let stripped = std::thread::scope(|scope| {
        let told =
            scope.spawn(move || input.as_mut().map_or(Ok(()), |it| it.write_all(cut.as_bytes())));
        let answer = git.wait_with_output();
        drop(told.join());
        answer
    })?;
    if !stripped.status.success() {
        return Err(std::io::Error::other(format!("git ended with {}", stripped.status)));
    }
    let stripped = String::from_utf8_lossy(&stripped.stdout).into_owned();
    let ours = format!("{TRAILER}: ");
    let said =
        stripped.lines().filter(|line| !line.starts_with(SIGNED) && !line.starts_with(&ours));
    Ok(said.collect::<Vec<_>>().join("\n").trim().to_owned())
}

/// Git knows where in a message such lines stand, and which of them are there already.
fn add(args: &TrailerArgs, id: &str) -> Result<(), CommandError> {
    let trailer = format!("{TRAILER}: {id}");
    let ended = Command::new("git")
        .args(["interpret-trailers", "--in-place", "--no-divider", "--if-exists", "addIfDifferent"])
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
