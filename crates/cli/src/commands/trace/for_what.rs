//! `countersign trace for`.

use std::collections::BTreeSet;

use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_runtime::Workspace;
use countersign_runtime::actions::plain_paths;
use countersign_runtime::coverage::{TouchedFiles, TouchingTrace, touching};
use countersign_runtime::git::{GitError, Repository};
use serde_json::json;

use super::trailer::TRAILER;
use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// The traces of a file, or of a commit
///
/// Of a file, or of a directory: the traces whose actions name it, or something below it. Of a commit:
/// those that its message names in `Countersign-Trace:` lines, and those that wrote its files after its
/// parent was made and before it was; the latter are a guess, and marked so.
///
/// The argument is a file if there is one of that name, or git tracks one; otherwise a commit.
/// Exit status: 0 there are traces; 3 there are none.
#[derive(Debug, clap::Args)]
pub(super) struct ForArgs {
    /// A file, a directory, or a commit
    what: String,
    /// It is a file or a directory
    #[arg(long, conflicts_with = "commit")]
    file: bool,
    /// It is a commit
    #[arg(long)]
    commit: bool,
}

/// How a trace was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum FoundBy {
    /// An action of it names the file.
    Action,
    /// The commit names it.
    Trailer,
    /// It wrote files of the commit at the right time.
    Guess,
}

impl FoundBy {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Trailer => "trailer",
            Self::Guess => "guess",
        }
    }
}

#[derive(Debug, serde::Serialize)]
struct FoundTrace {
    found_by: FoundBy,
    trace_id: String,
    /// Whether it lies in this workspace.
    here: bool,
    touched: Option<TouchingTrace>,
}

/// What was asked for, and what was found.
struct Answer {
    about: serde_json::Value,
    found: Vec<FoundTrace>,
    unreadable: Vec<String>,
}

pub(super) fn run(args: &ForArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let root = workspace.directory();
    let repository = Repository::at(&root);
    let file = args.file || (!args.commit && is_file(&args.what, &workspace, &repository));
    let answer = match file {
        true => for_file(&args.what, &workspace)?,
        false => for_commit(&args.what, &workspace, &repository)?,
    };
    tell(&answer, &args.what, caller)
}

/// The name as the workspace calls it: it is given from where the caller stands.
fn named(what: &str, workspace: &Workspace) -> Result<String, CommandError> {
    let place = std::path::absolute(what)
        .map_err(|error| CommandError::failed_doing("cannot tell the current directory", error))?;
    let root = workspace.directory();
    let root = root.canonicalize().unwrap_or(root);
    // The directory may have been reached through a link; the file itself may be one, or be gone.
    let above = place.parent().and_then(|above| above.canonicalize().ok());
    let place =
        above.zip(place.file_name()).map_or(place.clone(), |(above, name)| above.join(name));
    let name = plain_paths(&root, [place.to_string_lossy().as_ref()]).pop().unwrap_or_default();
    match name.is_empty() || name == root.to_string_lossy() {
        true => Err(CommandError::usage("that is the workspace itself")
            .with_hint("run `countersign trace list` to see all traces")),
        false => Ok(name),
    }
}

fn is_file(what: &str, workspace: &Workspace, repository: &Repository) -> bool {
    if std::fs::symlink_metadata(what).is_ok() {
        return true;
    }
    let Ok(name) = named(what, workspace) else { return false };
    let tracked = ["ls-files", "-z", "--error-unmatch", "--", &name];
    repository.list("look for a file", &tracked).is_ok()
}

fn for_file(what: &str, workspace: &Workspace) -> Result<Answer, CommandError> {
    let name = named(what, workspace)?;
    let files = TouchedFiles { paths: [name.clone()].into(), ..TouchedFiles::default() };
    let (found, unreadable) = touching(workspace, &files).map_err(explain)?;
    let found = found.into_iter().map(|touched| FoundTrace {
        found_by: FoundBy::Action,
        trace_id: touched.trace_id.clone(),
        here: true,
        touched: Some(touched),
    });
    Ok(Answer { about: json!({ "file": name }), found: found.collect(), unreadable })
}

fn for_commit(
    what: &str,
    workspace: &Workspace,
    repository: &Repository,
) -> Result<Answer, CommandError> {
    let failed = |error: GitError| CommandError::failed(error);
    let Some(commit) = repository.commit(what).map_err(failed)? else {
        return Err(CommandError::failed(format!("`{what}` is no file here, and no commit"))
            .with_hint("name a file with `--file` if it is gone"));
    };
    let format = format!("--format=%ct%x00%P%x00%(trailers:key={TRAILER},valueonly,unfold)");
    let shown = repository.text("read a commit", &["show", "--no-patch", &format, &commit]);
    let shown = shown.map_err(failed)?;
    let mut parts = shown.splitn(3, '\0');
    let made = parts.next().and_then(seconds);
    let parent = parts.next().and_then(|parents| parents.split_whitespace().next());
    let parent = parent.map(str::to_owned);
    let named: BTreeSet<Ulid> = parts
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|id| id.parse().ok())
        .collect();
    let before = match &parent {
        Some(parent) => {
            let time = ["show", "--no-patch", "--format=%ct", parent];
            repository.text("read a commit's parent", &time).ok().as_deref().and_then(seconds)
        }
        None => None,
    };
    let names = [
        "diff-tree",
        "--root",
        "--no-commit-id",
        "--name-only",
        "--relative",
        "-r",
        "-z",
        "-m",
        "--first-parent",
        "--no-renames",
        &commit,
    ];
    let paths = repository.list("list the files of a commit", &names).map_err(failed)?;
    let files = TouchedFiles {
        paths: paths.into_iter().collect(),
        after: before,
        // A commit's time is in whole seconds.
        until: made.map(|made| made.plus_millis(999)),
        writes_only: true,
    };
    let (guessed, unreadable) = touching(workspace, &files).map_err(explain)?;
    let here: BTreeSet<Ulid> = workspace.trace_ids().map_err(explain)?.into_iter().collect();
    let anywhen = TouchedFiles { after: None, until: None, ..files };
    let mut found: Vec<FoundTrace> = named
        .iter()
        .map(|id| FoundTrace {
            found_by: FoundBy::Trailer,
            trace_id: id.to_string(),
            here: here.contains(id),
            touched: here.contains(id).then(|| anywhen.touched_in(workspace, *id)).flatten(),
        })
        .collect();
    let guessed = guessed
        .into_iter()
        .filter(|it| !named.iter().any(|named| named.to_string() == it.trace_id));
    found.extend(guessed.map(|touched| FoundTrace {
        found_by: FoundBy::Guess,
        trace_id: touched.trace_id.clone(),
        here: true,
        touched: Some(touched),
    }));
    Ok(Answer { about: json!({ "commit": commit }), found, unreadable })
}

fn seconds(text: &str) -> Option<Timestamp> {
    let seconds: i64 = text.trim().parse().ok()?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1_000)))
}

fn tell(answer: &Answer, what: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    let output = &mut caller.output;
    for trace in &answer.unreadable {
        output.warning(format_args!("trace {trace} cannot be read and is left out"));
        output.hint(format_args!("run `countersign verify {trace}` to see what is wrong"));
    }
    let exit = if answer.found.is_empty() { Exit::No } else { Exit::Done };
    if output.format() == Format::Json {
        output.json(&json!({
            "about": answer.about, "traces": answer.found, "unreadable": answer.unreadable,
        }))?;
        return Ok(exit);
    }
    if answer.found.is_empty() {
        output.note(format_args!("no trace touches `{what}`"));
        return Ok(exit);
    }
    output.line(format_args!(
        "{:<26}  {:<8}  {:<9}  {:>7}  {:>7}  {:<24}  {:<24}  agent",
        "trace", "found by", "kind", "actions", "refused", "first", "last"
    ))?;
    for found in &answer.found {
        let by = found.found_by.as_str();
        let Some(it) = &found.touched else {
            let why = match found.here {
                true => "names none of the files",
                false => "not in this workspace",
            };
            output.line(format_args!("{:<26}  {by:<8}  {why}", found.trace_id))?;
            continue;
        };
        output.line(format_args!(
            "{:<26}  {by:<8}  {:<9}  {:>7}  {:>7}  {:<24}  {:<24}  {}",
            it.trace_id,
            it.kind,
            it.actions,
            it.refused,
            it.first.to_string(),
            it.last.to_string(),
            it.agent
        ))?;
        for shown in &it.shown {
            output.line(format_args!("    {shown}"))?;
        }
    }
    if answer.found.iter().any(|found| found.found_by == FoundBy::Guess) {
        output.note("a guess: these traces wrote files of the commit after its parent was made");
    }
    Ok(exit)
}
