//! Learning from the history of a repository: which changes were taken back later.
//!
//! A commit failed if a later one says that it reverts or fixes it; all others are taken to have
//! succeeded, which flatters: most mistakes are mended without naming what they mend. Git is asked
//! only to read, and to run nothing that the repository's own settings name.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

use countersign_gate::Features;
use countersign_gate::risk::{CellCounts, HistoryLearned, Outcomes};
use serde::Serialize;

use super::learn::Effect;
use crate::git::git;
use crate::workspace::{Workspace, WorkspaceError};

/// Commits that are looked at, at most.
pub const COMMITS_MAX: u64 = 100_000;
/// Bytes of a commit's message and of its diff that are looked at.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
const DIFF_BYTES_MAX: usize = 1 << 20;
/// Bytes that git may say in all.
const OUTPUT_BYTES_MAX: u64 = 4 << 30;
/// The fewest digits by which a message may name a commit.
const ABBREVIATION_MIN: usize = 7;

/// Why nothing could be learned from a history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Git could not be run.
    #[error("git could not be run")]
    NoGit(#[source] io::Error),
    /// Git refused.
    #[error("git could not {doing}: {said}")]
    Refused {
        /// What was asked of it.
        doing: &'static str,
        /// What it said.
        said: String,
    },
    /// What git says cannot be understood.
    #[error("the output of git cannot be understood: {what}")]
    Strange {
        /// What is wrong.
        what: &'static str,
    },
    /// The model could not be changed.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// What was learned from a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryReport {
    /// The first commit, by which the repository is known.
    pub root: String,
    /// The commit up to which it was learned.
    pub head: String,
    /// What became of the commits.
    pub outcomes: Outcomes,
}

impl Workspace {
    /// Learns from the last `commits` commits of the repository at `path`. What was learned from it
    /// before is replaced.
    ///
    /// # Errors
    /// Git cannot read it, or the model could not be read or written.
    pub fn learn_from_history(
        &self,
        path: &Path,
        commits: u64,
        effect: Effect,
    ) -> Result<HistoryReport, HistoryError> {
        let head = one_line(path, "find the last commit", &["rev-parse", "--verify", "HEAD"])?;
        let roots = ["rev-list", "--max-parents=0", "HEAD"];
        let root = one_line(path, "find the first commit", &roots)?;
        let mut learned = HistoryLearned { head: head.clone(), ..HistoryLearned::default() };
        read_commits(path, commits.min(COMMITS_MAX), &mut learned)?;
        let outcomes = learned.cells.total();
        self.change_model(effect, |model| {
            model.learn_history(&root, learned);
            Ok(HistoryReport { root: root.clone(), head, outcomes })
        })
    }
}

/// The smallest of the lines that git answers with: it may name several first commits.
fn one_line(path: &Path, doing: &'static str, arguments: &[&str]) -> Result<String, HistoryError> {
    let output = git(path, arguments).output().map_err(HistoryError::NoGit)?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().min() {
        Some(line) if output.status.success() => Ok(line.trim().to_owned()),
        _ => Err(refused(doing, &output.stderr)),
    }
}

fn refused(doing: &'static str, said: &[u8]) -> HistoryError {
    let said = String::from_utf8_lossy(said);
    let first = said.lines().next().unwrap_or("it said nothing").trim();
    HistoryError::Refused { doing, said: first.to_owned() }
}

/// A child that does not outlive whoever started it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_commits(
    path: &Path,
    commits: u64,
    learned: &mut HistoryLearned,
) -> Result<(), HistoryError> {
    let count = format!("--max-count={commits}");
    // A message and a diff hold no zero byte, so nothing that somebody commits can look like the
    // beginning of another commit.
    let mut command = git(
        path,
        &[
            "log",
            "--no-merges",
            &count,
            "--format=%x00%H%x00%B%x00",
            "--patch",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-renames",
            "--no-show-signature",
            "--no-notes",
            "--no-mailmap",
            "--ignore-submodules=all",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            "--unified=0",
            "HEAD",
        ],
    );
    // What it complains about is asked for again below, without a pipe that could fill up.
    let child = command.stderr(Stdio::null()).spawn().map_err(HistoryError::NoGit)?;
    let mut child = Running(child);
    let Some(output) = child.0.stdout.take() else {
        return Err(HistoryError::Strange { what: "there is none" });
    };
    let mut reader = BufReader::with_capacity(64 << 10, output.take(OUTPUT_BYTES_MAX));
    let mut blamed = Blamed::default();
    let mut counts = CellCounts::default();
    let cannot = |_| HistoryError::Strange { what: "it cannot be read" };
    token(&mut reader, MESSAGE_BYTES_MAX).map_err(cannot)?;
    while let Some(hash) = token(&mut reader, MESSAGE_BYTES_MAX).map_err(cannot)? {
        let missing = HistoryError::Strange { what: "it ends in the middle of a commit" };
        let message = token(&mut reader, MESSAGE_BYTES_MAX).map_err(cannot)?.ok_or(missing)?;
        let diff = token(&mut reader, DIFF_BYTES_MAX).map_err(cannot)?.unwrap_or_default();
        let subject = message.lines().next().unwrap_or_default();
        let success = !blamed.names(&hash, subject);
        blamed.hear(&message);
        counts.count(Features::of_diff(&diff, subject).cell(), success);
        learned.commits += 1;
    }
    let status = child.0.wait().map_err(HistoryError::NoGit)?;
    if !status.success() {
        return Err(refused("read the history", b"it ended with an error"));
    }
    learned.cells = counts;
    Ok(())
}

/// What stands before the next zero byte, as far as there is room for it; nothing at the end.
fn token(reader: &mut impl BufRead, max: usize) -> io::Result<Option<String>> {
    let mut kept = Vec::new();
    let mut any = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        any = true;
        let end = buffer.iter().position(|&byte| byte == 0);
        let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = max.saturating_sub(kept.len()).min(part.len());
        kept.extend_from_slice(part.get(..room).unwrap_or_default());
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(any.then(|| String::from_utf8_lossy(&kept).into_owned()))
}

/// Commits that later ones take back or mend.
#[derive(Debug, Default)]
struct Blamed {
    hashes: BTreeSet<String>,
    lengths: BTreeSet<usize>,
    subjects: BTreeSet<String>,
}

impl Blamed {
    /// Notes what a message says about earlier commits.
    fn hear(&mut self, message: &str) {
        for line in message.lines().map(str::trim) {
            let named = line
                .strip_prefix("This reverts commit ")
                .or_else(|| line.strip_prefix("Fixes:"))
                .or_else(|| line.strip_prefix("fixup! "));
            let Some(named) = named.map(str::trim) else { continue };
            let digits: String = named
                .chars()
                .take_while(char::is_ascii_hexdigit)
                .collect::<String>()
                .to_lowercase();
            if digits.len() >= ABBREVIATION_MIN {
                self.lengths.insert(digits.len());
                self.hashes.insert(digits);
            } else if line.starts_with("fixup! ") {
                self.subjects.insert(named.to_owned());
            }
        }
    }

    fn names(&self, hash: &str, subject: &str) -> bool {
        let prefixes = self.lengths.iter().filter_map(|&length| hash.get(..length));
        prefixes.into_iter().any(|prefix| self.hashes.contains(prefix))
            || self.subjects.contains(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_what_they_take_back_or_mend() {
        let mut blamed = Blamed::default();
        blamed.hear(
            "Revert \"x\"\n\nThis reverts commit 0123456789abcdef0123456789abcdef01234567.\n",
        );
        blamed.hear("mend\n\nFixes: ABCDEF1 (\"the subject\")\n");
        blamed.hear("fixup! add the parser");
        blamed.hear("Fixes: #12\nThis reverts commit 99.\n");
        let hash = |start: &str| format!("{start:0<40}");
        assert!(blamed.names("0123456789abcdef0123456789abcdef01234567", ""));
        assert!(blamed.names(&hash("abcdef1"), ""));
        assert!(blamed.names(&hash("7"), "add the parser"));
        assert!(!blamed.names(&hash("99"), "fixup! add the parser"));
        assert!(!blamed.names(&hash("abcdef2"), "add the printer"));
    }

    #[test]
    fn a_token_is_kept_as_far_as_there_is_room_and_read_to_its_end() {
        let mut reader = BufReader::with_capacity(3, &b"abcdefgh\0ij\0"[..]);
        let mut next = || token(&mut reader, 5).unwrap();
        assert_eq!([next(), next(), next()], [Some("abcde".into()), Some("ij".into()), None]);
    }
}
