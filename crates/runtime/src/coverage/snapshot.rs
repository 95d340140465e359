//! How the files of a workspace are at one moment, as far as is needed to see later which changed.
//!
//! In a git repository that is the commit and the files that differ from it; elsewhere every file. What
//! git ignores, `.git`, `.countersign` and `.capseal` are left out. Links are not followed. Both the
//! number of files and the bytes that are read are bounded: what is left out is counted.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use countersign_format::event::SCHEMA_VERSION;
use countersign_format::hash::Hash;
use countersign_format::json;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::git::{GitError, Repository};

/// Bytes that a stored snapshot may have.
pub(super) const SNAPSHOT_DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// Directories that are ours, or git's.
const LEFT_ALONE: [&str; 3] = [".git", ".countersign", ".capseal"];
/// How deep directories may lie in each other.
const DEPTH_MAX: usize = 128;

/// How much a snapshot may take in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Files that are named.
    pub files: usize,
    /// Bytes of a file up to which it is read; of a longer one only the size is kept.
    pub file_bytes: u64,
    /// Bytes that are read in all.
    pub total_bytes: u64,
}

impl Default for SnapshotLimits {
    fn default() -> Self {
        Self { files: 50_000, file_bytes: 16 << 20, total_bytes: 1 << 30 }
    }
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The files cannot be listed.
    #[error("cannot look at the files in `{path}`")]
    Files {
        /// Where.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Git does not answer.
    #[error(transparent)]
    Git(#[from] GitError),
    /// What is stored is none.
    #[error("the stored snapshot cannot be read: {0}")]
    Unreadable(String),
    /// The commit that it names is gone.
    #[error("the commit {0} of the snapshot is no longer in the repository")]
    CommitGone(String),
}

/// The files of a workspace at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSnapshot {
    /// The schema of this object.
    pub schema_version: String,
    /// What its files are.
    pub kind: SnapshotKind,
    /// The commit, where there is one.
    #[serde(default)]
    pub head: Option<String>,
    /// The files.
    pub files: Vec<SnapshotFile>,
    /// Files for which there was no room.
    pub left_out: u64,
}

/// What the files of a snapshot are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnapshotKind {
    /// Those that differ from the commit.
    Git,
    /// All.
    Files,
}

/// A file at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFile {
    /// Which, from the workspace's directory.
    pub path: String,
    /// How it was.
    #[serde(flatten)]
    pub state: FileState,
}

/// How a file is at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum FileState {
    /// There is none.
    Gone,
    /// A regular file.
    File {
        /// Its bytes.
        size: u64,
        /// Their hash, if they were read.
        sha256: Option<Hash>,
    },
    /// A link.
    Link {
        /// Hash of where it leads.
        sha256: Hash,
    },
    /// Something else, or something that cannot be read.
    Other,
}

impl FileState {
    /// Whether it may be the same as another one: where bytes were not read, the size decides.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::File { size, sha256: Some(hash) },
                Self::File { size: other_size, sha256: Some(other_hash) },
            ) => size == other_size && hash == other_hash,
            (Self::File { size, .. }, Self::File { size: other, .. }) => size == other,
            (one, other) => one == other,
        }
    }
}

/// How the files in `root` are now, as canonical JSON.
///
/// # Errors
/// They cannot be looked at.
pub fn snapshot(root: &Path, limits: SnapshotLimits) -> Result<Vec<u8>, SnapshotError> {
    let snapshot = WorkspaceSnapshot::take(root, limits)?;
    Ok(json::to_bytes(&serde_json::to_value(&snapshot).unwrap_or_default()))
}

impl WorkspaceSnapshot {
    /// How the files in `root` are now.
    ///
    /// # Errors
    /// They cannot be looked at.
    pub fn take(root: &Path, limits: SnapshotLimits) -> Result<Self, SnapshotError> {
        let mut reading = Reading::new(root, limits);
        let repository = Repository::at(root);
        let (kind, head) = match repository.is_there() && !repository.ignores_this() {
            true => {
                let head = repository.commit("HEAD")?;
                for path in differing(&repository, head.as_deref())?.into_keys() {
                    reading.add(path);
                }
                (SnapshotKind::Git, head)
            }
            false => return Self::take_files(root, limits),
        };
        Ok(Self::of(kind, head, reading))
    }

    /// Every file, whether git knows of it or not.
    pub(super) fn take_files(root: &Path, limits: SnapshotLimits) -> Result<Self, SnapshotError> {
        let mut reading = Reading::new(root, limits);
        reading.walk()?;
        Ok(Self::of(SnapshotKind::Files, None, reading))
    }

    fn of(kind: SnapshotKind, head: Option<String>, reading: Reading<'_>) -> Self {
        let (files, left_out) = reading.into_files();
        Self { schema_version: SCHEMA_VERSION.to_owned(), kind, head, files, left_out }
    }

    /// Reads a stored one.
    ///
    /// # Errors
    /// It is none, or of another schema.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let unreadable = |what: String| SnapshotError::Unreadable(what);
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| unreadable(error.to_string()))?;
        let snapshot: Self =
            serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))?;
        match snapshot.schema_version.starts_with("1.1.") {
            true => Ok(snapshot),
            false => Err(unreadable(format!("schema {}", snapshot.schema_version))),
        }
    }
}

/// The files that differ from `commit`, those that git does not know included, and how git names the
/// difference: `A`, `M`, `D`, `T` or, for unknown files, `?`.
pub(super) fn differing(
    repository: &Repository,
    commit: Option<&str>,
) -> Result<BTreeMap<String, char>, GitError> {
    let mut found = BTreeMap::new();
    if let Some(commit) = commit {
        // Not `diff-index`: that takes a file that was only touched for a changed one.
        let arguments = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--name-status",
            "--relative",
            "--no-renames",
            "--ignore-submodules=all",
            "-z",
            commit,
            "--",
            ".",
        ];
        let parts = repository.list("compare the files with a commit", &arguments)?;
        for pair in parts.chunks(2) {
            if let [status, path] = pair {
                found.insert(path.clone(), status.chars().next().unwrap_or('M'));
            }
        }
    }
    let mut arguments = vec!["ls-files", "-z", "--others", "--exclude-standard"];
    if commit.is_none() {
        arguments.push("--cached");
    }
    arguments.extend(["--", "."]);
    for path in repository.list("list the files", &arguments)? {
        found.entry(path).or_insert('?');
    }
    found.retain(|path, _| !is_left_alone(path));
    Ok(found)
}

fn is_left_alone(path: &str) -> bool {
    path.split('/').any(|part| LEFT_ALONE.contains(&part))
}

/// Files being looked at, within limits.
pub(super) struct Reading<'r> {
    root: &'r Path,
    limits: SnapshotLimits,
    room: u64,
    files: Vec<SnapshotFile>,
    left_out: u64,
}

impl<'r> Reading<'r> {
    pub(super) const fn new(root: &'r Path, limits: SnapshotLimits) -> Self {
        Self { root, limits, room: limits.total_bytes, files: Vec::new(), left_out: 0 }
    }

    fn add(&mut self, path: String) {
        if self.files.len() >= self.limits.files {
            self.left_out += 1;
            return;
        }
        let state = self.state(&path);
        self.files.push(SnapshotFile { path, state });
    }

    /// How the file `path` is now.
    pub(super) fn state(&mut self, path: &str) -> FileState {
        let place = self.root.join(path);
        let Ok(found) = fs::symlink_metadata(&place) else { return FileState::Gone };
        if found.is_symlink() {
            return match fs::read_link(&place) {
                Ok(target) => FileState::Link { sha256: Hash::of(target.as_os_str().as_bytes()) },
                Err(_) => FileState::Other,
            };
        }
        if !found.is_file() {
            return FileState::Other;
        }
        let size = found.len();
        if size > self.limits.file_bytes || size > self.room {
            return FileState::File { size, sha256: None };
        }
        match hash_of(&place, size) {
            Ok((size, hash)) => {
                self.room = self.room.saturating_sub(size);
                FileState::File { size, sha256: hash }
            }
            Err(_) => FileState::Other,
        }
    }

    fn walk(&mut self) -> Result<(), SnapshotError> {
        let mut open = vec![(String::new(), 0)];
        while let Some((directory, depth)) = open.pop() {
            let place = self.root.join(&directory);
            let entries = match fs::read_dir(&place) {
                Ok(entries) => entries,
                // What lies deeper may be somebody else's.
                Err(_) if depth > 0 => {
                    self.left_out += 1;
                    continue;
                }
                Err(source) => {
                    let path = place.display().to_string();
                    return Err(SnapshotError::Files { path, source });
                }
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                // A name that is no text cannot be named in a record.
                let Some(name) = name.to_str() else {
                    self.left_out += 1;
                    continue;
                };
                if LEFT_ALONE.contains(&name) {
                    continue;
                }
                let path = match directory.is_empty() {
                    true => name.to_owned(),
                    false => format!("{directory}/{name}"),
                };
                match entry.file_type() {
                    Ok(found) if found.is_dir() && depth < DEPTH_MAX => {
                        open.push((path, depth + 1))
                    }
                    Ok(found) if found.is_dir() => self.left_out += 1,
                    _ => self.add(path),
                }
            }
        }
        Ok(())
    }

    fn into_files(mut self) -> (Vec<SnapshotFile>, u64) {
        self.files.sort_by(|one, other| one.path.cmp(&other.path));
        (self.files, self.left_out)
    }
}

/// Size and hash of a file's bytes, of at most `max`; without a hash if there are more by now.
fn hash_of(place: &Path, max: u64) -> io::Result<(u64, Option<Hash>)> {
    let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::open(place, how, Mode::empty())?);
    let mut file = file.take(max + 1);
    let (mut hasher, mut size, mut room) = (Sha256::new(), 0_u64, vec![0; 64 << 10]);
    loop {
        let got = match file.read(&mut room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            got => got?,
        };
        if got == 0 {
            break;
        }
        size += got as u64;
        hasher.update(room.get(..got).unwrap_or_default());
    }
    let hash = (size <= max).then(|| Hash::from_bytes(hasher.finalize().into()));
    Ok((size, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let place = dir.path().join(name);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        }
        dir
    }

    fn paths(snapshot: &WorkspaceSnapshot) -> Vec<&str> {
        snapshot.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn a_snapshot_is_canonical_and_the_same_for_the_same_files() {
        let files = [("b", "x"), ("a/c", "y"), (".git/config", "z"), (".countersign/log", "")];
        let (one, other) = (of(&files), of(&files));
        let limits = SnapshotLimits::default();
        let bytes = snapshot(one.path(), limits).unwrap();
        assert_eq!(bytes, snapshot(other.path(), limits).unwrap());
        assert_eq!(bytes, json::to_bytes(&json::read(&bytes).unwrap()));
        let read = WorkspaceSnapshot::from_bytes(&bytes).unwrap();
        assert_eq!(
            (paths(&read), read.kind, read.left_out),
            (vec!["a/c", "b"], SnapshotKind::Files, 0)
        );
        let hash = Some(Hash::of(b"x"));
        assert_eq!(read.files[1].state, FileState::File { size: 1, sha256: hash });
    }

    #[test]
    fn what_has_no_room_is_counted_and_large_files_are_known_by_their_size() {
        let dir = of(&[("a", "1"), ("b", "22"), ("c", "333")]);
        let limits = SnapshotLimits { files: 2, ..SnapshotLimits::default() };
        let taken = WorkspaceSnapshot::take(dir.path(), limits).unwrap();
        assert_eq!((taken.files.len(), taken.left_out), (2, 1));
        let limits = SnapshotLimits { file_bytes: 2, ..SnapshotLimits::default() };
        let taken = WorkspaceSnapshot::take(dir.path(), limits).unwrap();
        assert_eq!(taken.files[2].state, FileState::File { size: 3, sha256: None });
        let whole = FileState::File { size: 3, sha256: Some(Hash::of(b"333")) };
        assert!(whole.is_like(&taken.files[2].state));
    }

    #[test]
    fn links_are_not_followed_and_what_is_no_file_is_not_opened() {
        let dir = of(&[("a", "1")]);
        std::os::unix::fs::symlink("/", dir.path().join("all")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(dir.path().join("pipe")).status();
        assert!(made.unwrap().success());
        let taken = WorkspaceSnapshot::take(dir.path(), SnapshotLimits::default()).unwrap();
        assert_eq!(paths(&taken), ["a", "all", "pipe"]);
        assert_eq!(taken.files[1].state, FileState::Link { sha256: Hash::of(b"/") });
        assert_eq!(taken.files[2].state, FileState::Other);
    }

    #[test]
    fn what_is_stored_and_is_no_snapshot_is_refused() {
        for bytes in [
            &b"x"[..],
            b"{}",
            b"{\"schema_version\":\"2.0.0\",\"kind\":\"git\",\"files\":[],\"left_out\":0}",
        ] {
            assert!(matches!(
                WorkspaceSnapshot::from_bytes(bytes),
                Err(SnapshotError::Unreadable(_))
            ));
        }
    }
}
