//! Workspaces to measure in.
//!
//! They lie beside the build output, because that is on a disk: temporary directories are often in
//! memory, where a sync costs nothing.

use std::fs;
use std::path::PathBuf;

use countersign_runtime::{Environment, Recording, Workspace};

use xtask::place::target;

/// A directory of its own, which goes when this is dropped.
pub(super) struct Home {
    path: PathBuf,
}

impl Home {
    pub(super) fn new(name: &str) -> Result<Self, String> {
        let path = target().join("bench-tmp").join(format!("{name}-{}", std::process::id()));
        let made = fs::create_dir_all(&path);
        made.map_err(|error| format!("cannot create `{}`: {error}", path.display()))?;
        Ok(Self { path })
    }

    /// A place in it.
    pub(super) fn below(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn init(&self, environment: Environment) -> Result<Workspace, String> {
        Workspace::init(&self.path.join("config"), &self.path.join("home"), environment)
            .map_err(|error| told(&error))
    }

    pub(super) fn open(&self, environment: Environment) -> Result<Workspace, String> {
        Workspace::open(&self.path.join("config"), &self.path.join("home"), environment)
            .map_err(|error| told(&error))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        // The last one to leave takes the directory above along.
        let _ = fs::remove_dir(target().join("bench-tmp"));
    }
}

/// An error with its causes.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A recording with its first event.
pub(super) fn begin(workspace: &Workspace) -> Result<Recording, String> {
    workspace
        .begin_recording(Some("coding-agent"), Some("make the tests pass"))
        .map_err(|error| told(&error))
}
