//! `countersign init --git`: git names the traces of a commit in its message, or no longer.
//!
//! The hook is a file of its own. A hook that is there already is never replaced, and neither is one
//! put where other repositories would run it too. It runs when the message is written: an empty one, with
//! which git gives up, is told from others only then.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::client::store;
use super::edited::{Done, replace, tell};
use crate::{Caller, CommandError, Exit};

const HOOK: &str = "commit-msg";
/// Where it was put before.
const OLD_HOOK: &str = "prepare-commit-msg";
/// By what our own hook is known.
const MARK: &str =
    "# Countersign names the traces of a commit; `countersign init --git --undo` ends it.";
/// Bytes of a hook that are looked at to see whose it is.
const HOOK_BYTES_MAX: u64 = 64 << 10;

pub(super) fn run(undo: bool, caller: &mut Caller) -> Result<Exit, CommandError> {
    let home = store(undo, caller)?;
    let root = home.parent().unwrap_or(&home);
    let top = top_of(root)?;
    let hook = hook_file(&top)?;
    let failed = |error: io::Error| {
        CommandError::failed_doing(format!("cannot change `{}`", hook.display()), error)
    };
    let line = line(&home, &top)?;
    let text = format!("#!/bin/sh\n{MARK}\n{line}\n");
    let done = match (found(&hook).map_err(failed)?, undo) {
        (None, true) => Done::Nothing,
        (Some(old), true) if old.contains(MARK) && is_ours(&old) => {
            fs::remove_file(&hook).map(|()| Done::Removed).map_err(failed)?
        }
        (Some(_), true) => Done::Nothing,
        (Some(old), false) if old == text => Done::Nothing,
        (Some(old), false) if !is_ours(&old) => return Err(occupied(&hook, &line)),
        (_, false) => {
            let directory = hook.parent().map_or(Ok(()), fs::create_dir_all);
            let written = directory.and_then(|()| replace(&hook, &text, Some(0o755)));
            written.map(|()| Done::Written).map_err(failed)?
        }
    };
    let old = hook.with_file_name(OLD_HOOK);
    let done = match found(&old).map_err(failed)? {
        Some(text) if is_ours(&text) => {
            fs::remove_file(&old).map_err(failed)?;
            if undo { Done::Removed } else { Done::Written }
        }
        _ => done,
    };
    let note = match done {
        Done::Removed => "removed",
        _ => {
            "the message of a commit now names the traces that changed its files; \
             `countersign trace for COMMIT` shows them"
        }
    };
    tell(caller, ("hook", &hook), done, json!({}), &[note])
}

/// What git answers about the repository at `root`.
fn ask(root: &Path, what: &[&str]) -> Result<PathBuf, CommandError> {
    let answer = Command::new("git").arg("-C").arg(root).args(what).stdin(Stdio::null()).output();
    let answer =
        answer.map_err(|error| CommandError::failed_doing("git could not be run", error))?;
    if !answer.status.success() {
        let error = format!("`{}` lies in no git repository", root.display());
        return Err(CommandError::failed(error).with_hint("run `git init` first"));
    }
    let text = String::from_utf8_lossy(&answer.stdout);
    Ok(root.join(text.trim_end_matches('\n')))
}

/// The top of the files of the repository, where git stands when it runs hooks.
fn top_of(root: &Path) -> Result<PathBuf, CommandError> {
    ask(root, &["rev-parse", "--show-toplevel"])
}

/// Where git looks for the hook. Its own settings say so, of whatever level; all worktrees of a repository
/// have the same, unless these name one in their files.
fn hook_file(top: &Path) -> Result<PathBuf, CommandError> {
    let hook = ask(top, &["rev-parse", "--git-path", &format!("hooks/{HOOK}")])?;
    let common = ask(top, &["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let above = real(hook.parent().unwrap_or(top));
    if above.starts_with(real(&common)) || above.starts_with(real(top)) {
        return Ok(hook);
    }
    let error =
        format!("git looks for hooks in `{}`, where other repositories may too", above.display());
    Err(CommandError::failed(error).with_hint(
        "give this repository a directory of its own: `git config core.hooksPath .git/hooks`",
    ))
}

/// What the hook runs: this program, and this store or, in another worktree that has one in the same
/// place, that one. Whatever becomes of it, the commit is made.
fn line(home: &Path, top: &Path) -> Result<String, CommandError> {
    let program = std::env::current_exe()
        .map_err(|error| CommandError::failed_doing("cannot tell where this program is", error))?;
    let quoted = |path: &Path| {
        let text = path.to_str().map(|text| format!("'{}'", text.replace('\'', "'\\''")));
        text.ok_or_else(|| {
            let error =
                format!("`{}` cannot be written in a script: it is not UTF-8", path.display());
            CommandError::failed(error)
        })
    };
    let top = top.canonicalize().unwrap_or_else(|_| top.to_owned());
    let own = match home.strip_prefix(&top) {
        Ok(place) => {
            let place = quoted(&Path::new(".").join(place))?;
            format!("test -d {place}/log && h={place}; ")
        }
        Err(_) => String::new(),
    };
    let (program, home) = (quoted(&program)?, quoted(home)?);
    Ok(format!("h={home}; {own}{program} --home \"$h\" trace trailer \"$@\" >/dev/null 2>&1 || :"))
}

fn found(hook: &Path) -> io::Result<Option<String>> {
    match fs::symlink_metadata(hook) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(data) if data.is_file() && data.len() <= HOOK_BYTES_MAX => {
            fs::read(hook).map(|bytes| Some(String::from_utf8_lossy(&bytes).into_owned()))
        }
        // A link, or something large: not ours.
        Ok(_) => Ok(Some(String::new())),
    }
}

/// Whether nothing but our line is in it.
fn is_ours(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    matches!(lines.as_slice(), ["#!/bin/sh", mark, _] if *mark == MARK)
}

fn occupied(hook: &Path, line: &str) -> CommandError {
    CommandError::failed(format!("there is a hook at `{}` already", hook.display()))
        .with_details(["it stays as it is".to_owned()])
        .with_hint(format!("add this line to it, before any `exit`: {line}"))
}
