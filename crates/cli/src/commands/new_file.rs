//! Files that a command makes because somebody named them: never over something else unless asked.

use std::fs;
use std::path::Path;

use countersign_runtime::disk::{Durability, OsDisk, replace_file};

use crate::CommandError;

/// What may become of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Keep,
    Replace,
}

impl Existing {
    /// By whether `--force` was given.
    pub(crate) const fn by_force(force: bool) -> Self {
        if force { Self::Replace } else { Self::Keep }
    }
}

/// Refuses a place where nothing can or may be put. Asked before the work, not after it.
pub(crate) fn refuse_existing(path: &Path, existing: Existing) -> Result<(), CommandError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(CommandError::failed(format!("`{}` is a directory", path.display()))
                .with_hint("name a file in it with `-o`"))
        }
        _ if existing == Existing::Replace || fs::symlink_metadata(path).is_err() => Ok(()),
        _ => Err(is_there_already(path)),
    }
}

pub(crate) fn is_there_already(path: &Path) -> CommandError {
    CommandError::failed(format!("`{}` is there already", path.display()))
        .with_hint("name another file with `-o`, or replace it with `--force`")
}

/// Puts a file in its place as a whole.
pub(crate) fn write(
    path: &Path,
    bytes: &[u8],
    existing: Existing,
    durability: Durability,
) -> Result<(), CommandError> {
    let doing = || format!("cannot write `{}`", path.display());
    let path =
        std::path::absolute(path).map_err(|error| CommandError::failed_doing(doing(), error))?;
    refuse_existing(&path, existing)?;
    replace_file(&OsDisk, &path, bytes, durability)
        .map_err(|error| CommandError::failed_doing(doing(), error))
}
