//! `countersign init --git`: git names the traces of a commit in its message, or no longer.
//!
//! The hook is a file of its own. A hook that is there already is never replaced, and neither is one
//! put where other repositories would run it too.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::make;
use crate::{Caller, CommandError, Exit, Format};

const HOOK: &str = "prepare-commit-msg";
/// By what our own hook is known.
const MARK: &str =
    "# Countersign names the traces of a commit; `countersign init --git --undo` ends it.";
/// Bytes of a hook that are looked at to see whose it is.
const HOOK_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Nothing,
    Written,
    Removed,
}

pub(super) fn run(undo: bool, caller: &mut Caller) -> Result<Exit, CommandError> {
    let home = match caller.home() {
        Ok(home) if home.is_dir() || undo => home,
        _ if undo => caller.new_home()?,
        _ => {
            make(caller)?;
            caller.new_home()?
        }
    };
    let home = home.canonicalize().unwrap_or(home);
    let hook = hook_file(home.parent().unwrap_or(&home))?;
    let failed = |error: io::Error| {
        CommandError::failed_doing(format!("cannot change `{}`", hook.display()), error)
    };
    let line = line(&home)?;
    let text = format!("#!/bin/sh\n{MARK}\n{line}\n");
    let done = match (found(&hook).map_err(failed)?, undo) {
        (None, true) => Done::Nothing,
        (Some(old), true) if old.contains(MARK) && is_ours(&old) => {
            fs::remove_file(&hook).map(|()| Done::Removed).map_err(failed)?
        }
        (Some(_), true) => Done::Nothing,
        (Some(old), false) if old == text => Done::Nothing,
        (Some(old), false) if !is_ours(&old) => return Err(occupied(&hook, &line)),
        (_, false) => write(&hook, &text).map(|()| Done::Written).map_err(failed)?,
    };
    let output = &mut caller.output;
    let shown = hook.display().to_string();
    if output.format() == Format::Json {
        output.json(&json!({ "hook": shown, "changed": done != Done::Nothing }))?;
        return Ok(Exit::Done);
    }
    output.line(format_args!("hook  {shown}"))?;
    match done {
        Done::Nothing => output.note("nothing to change"),
        Done::Removed => output.note("removed"),
        Done::Written => output.note(
            "the message of a commit now names the traces that changed its files; \
             `countersign trace for COMMIT` shows them",
        ),
    }
    Ok(Exit::Done)
}

/// Where git looks for the hook. Its own settings say so, of whatever level.
fn hook_file(root: &Path) -> Result<PathBuf, CommandError> {
    let ask = |what: &[&str]| -> Result<PathBuf, CommandError> {
        let answer =
            Command::new("git").arg("-C").arg(root).args(what).stdin(Stdio::null()).output();
        let answer =
            answer.map_err(|error| CommandError::failed_doing("git could not be run", error))?;
        if !answer.status.success() {
            let error = format!("`{}` lies in no git repository", root.display());
            return Err(CommandError::failed(error).with_hint("run `git init` first"));
        }
        let text = String::from_utf8_lossy(&answer.stdout);
        Ok(root.join(text.trim_end_matches('\n')))
    };
    let hook = ask(&["rev-parse", "--git-path", &format!("hooks/{HOOK}")])?;
    let own = [
        ask(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?,
        ask(&["rev-parse", "--show-toplevel"])?,
    ];
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let above = real(hook.parent().unwrap_or(root));
    if own.iter().any(|own| above.starts_with(real(own))) {
        return Ok(hook);
    }
    let error =
        format!("git looks for hooks in `{}`, where other repositories may too", above.display());
    Err(CommandError::failed(error).with_hint(
        "give this repository a directory of its own: `git config core.hooksPath .git/hooks`",
    ))
}

/// What the hook runs: this program and this store, wherever git stands. Whatever becomes of it, the
/// commit is made.
fn line(home: &Path) -> Result<String, CommandError> {
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
    let (program, home) = (quoted(&program)?, quoted(home)?);
    Ok(format!("{program} --home {home} trace trailer \"$@\" >/dev/null 2>&1 || :"))
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

/// Puts the hook in its place at once, ready to be run.
fn write(hook: &Path, text: &str) -> io::Result<()> {
    let directory = hook.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let draft = directory.join(format!(".{HOOK}.{}.new", std::process::id()));
    let mut made = fs::OpenOptions::new().write(true).create_new(true).open(&draft)?;
    let written = made
        .write_all(text.as_bytes())
        .and_then(|()| made.set_permissions(fs::Permissions::from_mode(0o755)))
        .and_then(|()| made.sync_all())
        .and_then(|()| fs::rename(&draft, hook));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}
