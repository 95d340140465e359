//! Git, asked and never told: what a repository says of commits and files.
//!
//! Only the repository's own settings count, and of those none that runs something. What git answers
//! is bounded. Nothing here writes.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes that git may answer with.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The index that git itself names when it starts a hook.
const INDEX_VARIABLE: &str = "GIT_INDEX_FILE";

/// Why git did not answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It could not be run.
    #[error("git could not be run")]
    NotRun(#[source] io::Error),
    /// It refused.
    #[error("git could not {doing}: {said}")]
    Refused {
        /// What was asked of it.
        doing: &'static str,
        /// What it said.
        said: String,
    },
    /// It answers with more than can be held.
    #[error("git answers with more than {ANSWER_BYTES_MAX} bytes when it is to {doing}")]
    TooMuch {
        /// What was asked of it.
        doing: &'static str,
    },
}

/// A repository, seen from one of its directories.
#[derive(Debug, Clone)]
pub struct Repository {
    path: PathBuf,
    index: Option<OsString>,
}

impl Repository {
    /// The repository that `path` lies in, whether there is one or not.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), index: None }
    }

    /// The same with the index of the commit that is being made, where git started this process.
    #[must_use]
    pub fn of_commit_being_made(path: &Path) -> Self {
        // Named from where git stands, which is not where it will be asked.
        let index = std::env::var_os(INDEX_VARIABLE).filter(|name| !name.is_empty());
        let index = index.and_then(|name| std::path::absolute(name).ok());
        Self { index: index.map(PathBuf::into_os_string), ..Self::at(path) }
    }

    /// Whether there is a repository with files here.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let asked = self.text("look for a repository", &["rev-parse", "--is-inside-work-tree"]);
        asked.is_ok_and(|answer| answer == "true")
    }

    /// Whether it ignores this directory, and so says nothing of what is in it.
    #[must_use]
    pub fn ignores_this(&self) -> bool {
        self.text("see what is ignored", &["check-ignore", "--quiet", "."]).is_ok()
    }

    /// The commit that `name` means, if it means one.
    ///
    /// # Errors
    /// Git cannot be run.
    pub fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        let name = format!("{name}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        match self.text("find a commit", &arguments) {
            Ok(commit) => Ok(Some(commit)),
            Err(GitError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What git answers, as one text without its last line break.
    ///
    /// # Errors
    /// Git cannot be run, refuses, or says too much.
    pub fn text(&self, doing: &'static str, arguments: &[&str]) -> Result<String, GitError> {
        let answer = self.answer(doing, arguments)?;
        Ok(String::from_utf8_lossy(&answer).trim_end_matches('\n').to_owned())
    }

    /// What git answers, cut at zero bytes.
    ///
    /// # Errors
    /// As for [`Repository::text`].
    pub fn list(&self, doing: &'static str, arguments: &[&str]) -> Result<Vec<String>, GitError> {
        let answer = self.answer(doing, arguments)?;
        let parts = answer.split(|&byte| byte == 0).filter(|part| !part.is_empty());
        Ok(parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect())
    }

    fn answer(&self, doing: &'static str, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        let mut command = self.command(arguments);
        // What it complains about is asked for again below, without a pipe that could fill up.
        let mut child = command.stderr(Stdio::null()).spawn().map_err(GitError::NotRun)?;
        let mut answer = Vec::new();
        let read = match child.stdout.take() {
            Some(stdout) => stdout.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut answer),
            None => Ok(0),
        };
        if answer.len() as u64 > ANSWER_BYTES_MAX {
            // Both fail only where it has ended already.
            let _ = child.kill();
            let _ = child.wait();
            return Err(GitError::TooMuch { doing });
        }
        let status = child.wait().and_then(|status| read.map(|_| status));
        if status.map_err(GitError::NotRun)?.success() {
            return Ok(answer);
        }
        let said = self.command(arguments).stdout(Stdio::null()).output();
        let said = said.map_err(GitError::NotRun)?.stderr;
        let said = String::from_utf8_lossy(&said);
        let said = said.lines().next().unwrap_or("it said nothing").trim().to_owned();
        Err(GitError::Refused { doing, said })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = git(&self.path, arguments);
        if let Some(index) = &self.index {
            command.env(INDEX_VARIABLE, index);
        }
        command
    }
}

/// Git, reading only: no settings but the repository's own, and of those none that runs something.
pub(crate) fn git(path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.env_clear();
    if let Some(programs) = std::env::var_os("PATH") {
        command.env("PATH", programs);
    }
    command
        .envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("LC_ALL", "C"),
        ])
        .arg("--no-pager")
        .arg("-C")
        .arg(path)
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .args(["-c", "log.showSignature=false", "-c", "protocol.allow=never"])
        .args(["-c", "diff.external=", "-c", "core.pager=cat", "-c", "gpg.program=false"])
        .args(["-c", "core.quotePath=false"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
