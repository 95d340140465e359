//! A directory of its own for each test, in which `countersign` runs with settings of its own.

use std::path::PathBuf;
use std::process::Command;

use countersign_testkit::TestHome;

use crate::binary::{Screen, command, run_with};

/// Where commands run.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    config: PathBuf,
    home: Option<PathBuf>,
}

impl Place {
    /// An empty directory.
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config");
        Self { dir, config, home: None }
    }

    /// Somebody who has this workspace and its keys.
    pub(crate) fn owner_of(home: &TestHome) -> Self {
        let mut place = Self::empty();
        place.config = home.config();
        place.home = Some(home.path());
        place
    }

    /// Somebody who has the files of this workspace, and nothing else.
    pub(crate) fn stranger_to(home: &TestHome) -> Self {
        let mut place = Self::empty();
        place.home = Some(home.path());
        place
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Screen {
        self.run_with(arguments, b"")
    }

    /// A command that is ready to be run here.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.current_dir(self.dir.path()).env("COUNTERSIGN_CONFIG", &self.config);
        if let Some(home) = &self.home {
            command.arg("--home").arg(home);
        }
        command
    }

    /// Runs a command; in what it prints, this place is called `$PLACE` and the workspace `$HOME`.
    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &[u8]) -> Screen {
        let mut screen = run_with(self.command(arguments), stdin);
        let mut names = vec![(self.dir.path().to_owned(), "$PLACE")];
        names.extend(self.home.clone().map(|home| (home, "$HOME")));
        for (path, name) in names {
            let path = path.display().to_string();
            let stdout = String::from_utf8_lossy(&screen.stdout).replace(&path, name);
            screen.stdout = stdout.into_bytes();
            screen.stderr = screen.stderr.replace(&path, name);
        }
        screen
    }
}
