//! Where the workspace lies, and how it is opened.

use std::env;
use std::path::{Path, PathBuf};

use countersign_format::id::Ulid;
use countersign_runtime::keyring::config_dir;
use countersign_runtime::{Environment, Workspace, WorkspaceError, WriteError};

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
        WorkspaceError::Missing { .. } => Some("run `countersign init` to make one here"),
        WorkspaceError::NotEmpty { .. } => Some("name an empty or a new directory with `--home`"),
        WorkspaceError::BadLog { .. } | WorkspaceError::Write(WriteError::Damaged(_)) => {
            Some("run `countersign doctor` to see what is wrong")
        }
        WorkspaceError::Write(WriteError::NoKey { .. }) => {
            Some("run `countersign keys list` to see which keys there are")
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

/// The trace that `name` means: an id, or the beginning of exactly one.
pub(crate) fn find_trace(workspace: &Workspace, name: &str) -> Result<Ulid, CommandError> {
    let ids = workspace.trace_ids().map_err(explain)?;
    let matching: Vec<Ulid> =
        ids.into_iter().filter(|id| id.to_string().starts_with(name)).collect();
    match matching.as_slice() {
        [id] => Ok(*id),
        [] => Err(CommandError::failed(format!("no trace `{name}`"))
            .with_hint("run `countersign trace list` to see all traces")),
        several => Err(CommandError::failed(format!("`{name}` begins {} traces", several.len()))
            .with_details(several.iter().take(5).map(Ulid::to_string))),
    }
}
