//! Whether the files of an answer may be written, all of them.
//!
//! Decides by what lies there now, what was there when the agent was started and what the step
//! wrote itself. Writes nothing: the plan is recorded first, and what comes between is found out
//! later by the hashes in it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use countersign_format::envelope::Operation;
use countersign_format::hash::Hash;
use countersign_format::path::WorkspacePath;
use serde::{Deserialize, Serialize};

use super::root::{
    Content, FILE_BYTES_MAX, FileRoot, TEMPORARY_PREFIX, components, is_detour, split,
};
use super::seen::Seen;

/// Directories that the files of one answer may lie in: each is held open while they are written.
const DIRECTORIES_MAX: usize = 400;

/// A file that an agent wants written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileWish<'a> {
    /// Where, below the workspace root.
    pub(crate) path: &'a WorkspacePath,
    /// Whether it is new.
    pub(crate) operation: Operation,
    /// Its bytes.
    pub(crate) content: &'a [u8],
}

/// A file that is going to be written, as it is recorded before anything is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedFile {
    /// Where, below the workspace root.
    pub(crate) path: WorkspacePath,
    /// What the agent called it.
    pub(crate) operation: Operation,
    /// The bytes that it replaces, if there is a file.
    pub(crate) before: Option<Hash>,
    /// The bytes that will be there.
    pub(crate) after: Hash,
}

/// Why none of the files is written.
#[derive(Debug, thiserror::Error)]
pub(crate) struct FilesRefused {
    /// Each file that stands in the way; at least one.
    pub(crate) files: Vec<RefusedFile>,
}

/// A file that may not be written.
#[derive(Debug, thiserror::Error)]
#[error("`{path}`: {reason}")]
pub(crate) struct RefusedFile {
    /// Where, below the workspace root.
    pub(crate) path: WorkspacePath,
    /// What stands in the way.
    pub(crate) reason: RefusedBecause,
}

/// What stands in the way of a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefusedBecause {
    /// No scope of the step has it.
    #[error("the step may not write it")]
    OutOfScope,
    /// An agent that wrote such a name could pass for this module.
    #[error("names that begin with `{TEMPORARY_PREFIX}` are kept for files in transit")]
    Reserved,
    /// Something else than a regular file has the name.
    #[error("it is {0}")]
    NoFile(&'static str),
    /// It could lie anywhere.
    #[error("a component before the last is a link or not a directory")]
    Detour,
    /// Created, but there, with bytes that are neither the same nor the step's own.
    #[error("it exists already")]
    Exists,
    /// Updated, but not there.
    #[error("there is no such file to update")]
    Missing,
    /// Updated, but the agent cannot have known what is there.
    #[error("it changed since the agent was started")]
    Changed,
    /// More than [`FILE_BYTES_MAX`], there or in the answer.
    #[error("it has more than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// More than can be held open.
    #[error("the answer has files in more than {DIRECTORIES_MAX} directories")]
    TooManyDirectories,
    /// The system does not let it be looked at.
    #[error("it cannot be read: {0}")]
    Unreadable(#[source] io::Error),
}

impl fmt::Display for FilesRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, file) in self.files.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{file}")?;
        }
        Ok(())
    }
}

/// The plan for all of the wishes, in their order.
///
/// `within` tells whether the step may write a path, `own` the hash of what it wrote there itself.
///
/// # Errors
/// At least one of them may not be written; every one that may not is named.
pub(crate) fn plan(
    root: &FileRoot,
    wishes: &[FileWish<'_>],
    within: &dyn Fn(&str) -> bool,
    seen: &Seen,
    own: &dyn Fn(&str) -> Option<Hash>,
) -> Result<Vec<PlannedFile>, FilesRefused> {
    let mut planned = Vec::new();
    let mut files = Vec::new();
    let mut directories = BTreeSet::new();
    for wish in wishes {
        directories.insert(split(wish.path).0);
        let decided = if directories.len() > DIRECTORIES_MAX {
            Err(RefusedBecause::TooManyDirectories)
        } else if within(wish.path.as_str()) {
            decide(root, wish, seen, own(wish.path.as_str()))
        } else {
            Err(RefusedBecause::OutOfScope)
        };
        match decided {
            Ok(file) => planned.push(file),
            Err(reason) => files.push(RefusedFile { path: wish.path.clone(), reason }),
        }
    }
    if files.is_empty() { Ok(planned) } else { Err(FilesRefused { files }) }
}

fn decide(
    root: &FileRoot,
    wish: &FileWish<'_>,
    seen: &Seen,
    own: Option<Hash>,
) -> Result<PlannedFile, RefusedBecause> {
    if wish.path.components().any(is_reserved) {
        return Err(RefusedBecause::Reserved);
    }
    if wish.content.len() as u64 > FILE_BYTES_MAX {
        return Err(RefusedBecause::TooLarge);
    }
    let after = Hash::of(wish.content);
    let content = current(root, wish.path)?;
    let before = match (wish.operation, content.hash(), content) {
        (_, _, Content::NoFile(what)) => return Err(RefusedBecause::NoFile(what)),
        (_, _, Content::TooLarge) => return Err(RefusedBecause::TooLarge),
        (Operation::Create, None, Content::Absent) => None,
        (Operation::Create, Some(now), _) if now == after || Some(now) == own => Some(now),
        (Operation::Create, ..) => return Err(RefusedBecause::Exists),
        (Operation::Update, Some(now), Content::Bytes { stat, .. }) => {
            if Some(now) != own && !seen.is_unchanged(wish.path.as_str(), &stat, now) {
                return Err(RefusedBecause::Changed);
            }
            Some(now)
        }
        (Operation::Update, ..) => return Err(RefusedBecause::Missing),
    };
    Ok(PlannedFile { path: wish.path.clone(), operation: wish.operation, before, after })
}

fn current(root: &FileRoot, path: &WorkspacePath) -> Result<Content, RefusedBecause> {
    let (above, name) = split(path);
    match root.walk(components(above)) {
        Ok(Some(directory)) => {
            directory.read(name, FILE_BYTES_MAX).map_err(RefusedBecause::Unreadable)
        }
        Ok(None) => Ok(Content::Absent),
        Err(errno) if is_detour(errno) => Err(RefusedBecause::Detour),
        Err(errno) => Err(RefusedBecause::Unreadable(errno.into())),
    }
}

/// Whether some file system may take the name for that of a temporary file.
fn is_reserved(component: &str) -> bool {
    component
        .as_bytes()
        .get(..TEMPORARY_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(TEMPORARY_PREFIX.as_bytes()))
}
