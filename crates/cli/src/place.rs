//! Where the workspace lies, and how it is opened.

use std::env;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use countersign_format::event::EventType;
use countersign_format::id::Ulid;
use countersign_format::json::LINE_BYTES_MAX;
use countersign_runtime::keyring::config_dir;
use countersign_runtime::{AGENTS, Environment, Workspace, WorkspaceError, WriteError};
use countersign_verify::{Lines, RawLine, open_regular};

use crate::{Caller, CommandError, Exit};

const HOME_NAME: &str = ".countersign";

impl Caller {
    /// Where settings and keys lie.
    pub(crate) fn config(&self) -> Result<PathBuf, CommandError> {
        config_dir(|name| env::var_os(name)).map_err(CommandError::failed)
    }

    /// The store to make: the one that was named, else one here.
    pub(crate) fn new_home(&self) -> Result<PathBuf, CommandError> {
        match &self.home {
            Some(home) => absolute(home),
            None => Ok(current_dir()?.join(HOME_NAME)),
        }
    }

    /// The store to use: the one that was named, else the nearest one here or above.
    pub(crate) fn home(&self) -> Result<PathBuf, CommandError> {
        if let Some(home) = &self.home {
            return absolute(home);
        }
        let here = current_dir()?;
        let found = here.ancestors().map(|dir| dir.join(HOME_NAME)).find(|home| home.is_dir());
        found.ok_or_else(|| {
            let error = format!("no workspace in `{}` or above", here.display());
            CommandError::failed(error).with_hint("run `countersign init` to make one here")
        })
    }

    /// Opens the workspace.
    pub(crate) fn workspace(&self) -> Result<Workspace, CommandError> {
        Workspace::open(&self.config()?, &self.home()?, Environment::system()).map_err(explain)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path)
        .map_err(|error| CommandError::failed_doing("cannot tell the current directory", error))
}

fn current_dir() -> Result<PathBuf, CommandError> {
    env::current_dir()
        .map_err(|error| CommandError::failed_doing("cannot tell the current directory", error))
}

/// A failure of the workspace, with what can be done about it. A refusal is an answer.
pub(crate) fn explain(error: WorkspaceError) -> CommandError {
    let hint = match &error {
        WorkspaceError::Missing { .. } => Some("run `countersign init` to make one here".into()),
        WorkspaceError::NotEmpty { .. } => {
            Some("name an empty or a new directory with `--home`".into())
        }
        WorkspaceError::BadLog { .. } | WorkspaceError::Write(WriteError::Damaged(_)) => {
            Some("run `countersign doctor` to see what is wrong".into())
        }
        WorkspaceError::Write(WriteError::NoKey { who })
            if AGENTS.iter().any(|agent| agent.agent_id == who) =>
        {
            Some(format!("run `countersign keys rotate {who}` to give it a new one"))
        }
        WorkspaceError::Write(WriteError::NoKey { .. }) => {
            Some("run `countersign keys list` to see which keys there are".into())
        }
        _ => None,
    };
    let exit = match &error {
        WorkspaceError::Write(WriteError::Refused(_)) => Exit::No,
        _ => Exit::Failed,
    };
    let explained = CommandError::new(exit, error);
    match hint {
        Some(hint) => explained.with_hint(hint),
        None => explained,
    }
}

/// What there is in place of a trace of which the log knows `events`.
pub(crate) fn lost(workspace: &Workspace, trace_id: &str, events: u64) -> String {
    let dir = workspace.home().join("traces").join(trace_id);
    let is_there = dir.join("events.jsonl").symlink_metadata().is_ok();
    let how = if is_there { "is empty" } else { "is gone" };
    format!("{trace_id} {how}; the log knows {events} of its events")
}

/// The trace that `name` means: an id, the label of a work item, or the beginning of exactly one id.
pub(crate) fn find_trace(workspace: &Workspace, name: &str) -> Result<Ulid, CommandError> {
    let ids = workspace.trace_ids().map_err(explain)?;
    let names = ids.iter().map(Ulid::to_string).collect();
    let found = meant(&workspace.home().join("traces"), names, name)?;
    found.and_then(|id| id.parse().ok()).ok_or_else(|| {
        CommandError::failed(format!("no trace `{name}`"))
            .with_hint("run `countersign trace list` to see all traces")
    })
}

/// Which of the traces `ids` below `traces` a name means. An id before a label, a label before the
/// beginning of an id. Nothing but the traces is looked at, so that a verifier can ask too.
pub(crate) fn meant(
    traces: &Path,
    ids: Vec<String>,
    name: &str,
) -> Result<Option<String>, CommandError> {
    if ids.iter().any(|id| id == name) {
        return Ok(Some(name.to_owned()));
    }
    let has_label = |id: &&String| label(&traces.join(id)).is_some_and(|label| label == name);
    let could_be_label = !name.is_empty() && name.parse::<Ulid>().is_err();
    let labelled: Vec<&String> = ids.iter().filter(|_| could_be_label).filter(has_label).collect();
    let (matching, what) = match labelled.is_empty() {
        false => (labelled, "is the label of"),
        true => (ids.iter().filter(|id| id.starts_with(name)).collect(), "begins"),
    };
    match matching.as_slice() {
        [] => Ok(None),
        [id] => Ok(Some((*id).clone())),
        several => Err(CommandError::failed(format!("`{name}` {what} {} traces", several.len()))
            .with_details(several.iter().take(5).map(ToString::to_string))
            .with_hint("name one of them by its id")),
    }
}

/// The label with which the trace in a directory begins, if it is a work item that has one.
fn label(trace: &Path) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct First {
        event_type: EventType,
        payload: Payload,
    }
    #[derive(serde::Deserialize)]
    struct Payload {
        label: Option<String>,
    }
    let file = open_regular(&trace.join("events.jsonl")).ok()?;
    // Whatever else lies there is not read to its end.
    let mut lines = Lines::new(BufReader::new(file.take(LINE_BYTES_MAX as u64 + 1)));
    let Ok(Some(RawLine::Complete(line))) = lines.next_line() else { return None };
    let first: First = serde_json::from_slice(line).ok()?;
    first.payload.label.filter(|_| first.event_type == EventType::WorkOpened)
}
