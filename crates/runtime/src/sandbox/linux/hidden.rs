//! What must be neither readable nor writable: finding all ways to it, and making sure.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::mount_table::{self, Alias};
use crate::sandbox::order::{Bounds, Start};

/// How deep a file is looked for by which to make sure.
const SAMPLE_DEPTH: usize = 3;
/// How many entries of a directory are looked at for it.
const SAMPLE_ENTRIES: usize = 64;

/// What tells one file or directory from all others.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// A hidden path that exists, and what lies there as long as it is not hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    pub(super) is_directory: bool,
}

/// All that is to be hidden and exists, under every name that it has among the mounts.
pub(super) fn secrets(bounds: &Bounds) -> io::Result<Vec<Secret>> {
    let table = mount_table::read()?;
    let mut found = Vec::new();
    for hidden in bounds.hidden() {
        for Alias { path, original } in mount_table::aliases(&table, &hidden) {
            let Ok(original) = fs::symlink_metadata(&original) else { continue };
            // Another mount may lie on top of an alias, and then it is not one.
            if fs::symlink_metadata(&path).is_ok_and(|at| identity(&at) == identity(&original)) {
                let (identity, is_directory) = (identity(&original), original.is_dir());
                found.push(Secret { path, identity, is_directory });
            }
        }
    }
    Ok(found)
}

/// A file of each hidden path by which to see whether it is hidden.
pub(super) fn samples(bounds: &Bounds) -> Vec<PathBuf> {
    bounds.hidden().iter().filter_map(|hidden| sample(hidden, SAMPLE_DEPTH)).collect()
}

fn sample(path: &Path, depth: usize) -> Option<PathBuf> {
    let found = fs::symlink_metadata(path).ok()?;
    if found.is_file() {
        return Some(path.to_path_buf());
    }
    if depth == 0 || !found.is_dir() {
        return None;
    }
    let entries = fs::read_dir(path).ok()?.take(SAMPLE_ENTRIES).flatten();
    entries.into_iter().find_map(|entry| sample(&entry.path(), depth - 1))
}

/// Makes sure that nothing hidden can be seen, or with Landlock alone, read.
pub(super) fn check(samples: &[PathBuf], start: &Start) -> Result<(), String> {
    if start.plan.namespaces.is_some() {
        let seen = start.bounds.hidden().into_iter().find(|path| shows_something(path));
        return seen.map_or(Ok(()), |path| Err(format!("`{}` can be seen", path.display())));
    }
    let read = samples.iter().find(|path| File::open(path).is_ok());
    read.map_or(Ok(()), |path| Err(format!("`{}` can be read", path.display())))
}

/// Whether there is more at `path` than what hides it: an empty directory, or a device that gives
/// nothing.
fn shows_something(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
        }
        Ok(found) => !found.file_type().is_char_device(),
        Err(_) => false,
    }
}
