//! What lay at the places that a step may write, when its agent was started.
//!
//! A file counts as unchanged while its size, times, inode and device are the same. Times move in
//! ticks: of a file that was written just before the look the hash is kept as well. Whether a
//! change matters is for the plan to decide.

use std::collections::BTreeMap;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use countersign_format::hash::Hash;
use countersign_format::path::WorkspacePath;
use rustix::fs::{Dir, FileType, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::root::{
    Directory, Entry, FILE_BYTES_MAX, FileRoot, TEMPORARY_PREFIX, components, is_detour,
};

/// Names that are looked at, those that are passed over included.
const ENTRIES_MAX: usize = 1_000_000;
/// How old a change must be before a later one is sure to show in the times of a file.
const TICK_NANOS: i128 = 50_000_000;

/// How a path below the root stands to what a step may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Nothing there or below it may be written.
    Outside,
    /// A directory that may have such places below it.
    Leads,
    /// It may be written, and so may what is below it.
    Within,
}

/// What lay at the places that a step may write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    files: BTreeMap<String, Sighting>,
}

/// One file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Sighting {
    stamp: Stamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<Hash>,
}

/// Size, times, inode and device of a file. A text, because it is only ever compared and its
/// numbers are too large for some readers of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Stamp(String);

impl Stamp {
    fn of(stat: &Stat) -> Self {
        let [modified, changed] = times(stat);
        Self(format!("{} {modified} {changed} {} {}", stat.st_size, stat.st_ino, stat.st_dev))
    }
}

impl Seen {
    /// Looks at every file that `reach` says may be written. Links are not followed, and what no
    /// agent may name is passed over.
    ///
    /// # Errors
    /// A directory cannot be read, or there are more names than are looked at.
    pub(crate) fn look(
        root: &FileRoot,
        reach: &dyn Fn(&str) -> Reach,
        now: SystemTime,
    ) -> io::Result<Self> {
        Self::look_at_most(root, reach, now, ENTRIES_MAX)
    }

    pub(super) fn look_at_most(
        root: &FileRoot,
        reach: &dyn Fn(&str) -> Reach,
        now: SystemTime,
        entries_max: usize,
    ) -> io::Result<Self> {
        let settled_before = nanos(now).saturating_sub(TICK_NANOS);
        let mut seen = Self::default();
        let mut entries = 0_usize;
        // Paths and not open directories: there may be more of them than a process may hold open.
        let mut waiting = vec![String::new()];
        while let Some(above) = waiting.pop() {
            let directory = match root.walk(components(&above)) {
                Ok(Some(directory)) => directory,
                // Gone, or replaced by a link, since its name was read.
                Ok(None) => continue,
                Err(errno) if is_detour(errno) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for entry in Dir::read_from(&directory.0)? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                entries += 1;
                if entries > entries_max {
                    return Err(io::Error::other(format!(
                        "there are more than {entries_max} names where the step may write"
                    )));
                }
                let Ok(name) = name.to_str() else { continue };
                let path =
                    if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
                let standing = reach(&path);
                if standing == Reach::Outside
                    || name.starts_with(TEMPORARY_PREFIX)
                    || WorkspacePath::parse(&path).is_err()
                {
                    continue;
                }
                match kind(&directory, name, entry.file_type())? {
                    Entry::Directory => waiting.push(path),
                    Entry::File(stat) if standing == Reach::Within => {
                        let sighting = sighting(&directory, name, &stat, settled_before)?;
                        seen.files.insert(path, sighting);
                    }
                    Entry::File(_) | Entry::Absent | Entry::Link | Entry::Special => {}
                }
            }
        }
        Ok(seen)
    }

    /// Whether the file at `path`, which is now so, is as it was.
    pub(super) fn is_unchanged(&self, path: &str, stat: &Stat, hash: Hash) -> bool {
        self.files.get(path).is_some_and(|sighting| {
            sighting.stamp == Stamp::of(stat) && sighting.hash.is_none_or(|kept| kept == hash)
        })
    }
}

fn kind(directory: &Directory, name: &str, told: FileType) -> io::Result<Entry> {
    match told {
        FileType::Directory => Ok(Entry::Directory),
        FileType::Symlink => Ok(Entry::Link),
        // Also where the file system does not tell.
        _ => Ok(directory.entry(name)?),
    }
}

fn sighting(
    directory: &Directory,
    name: &str,
    stat: &Stat,
    settled_before: i128,
) -> io::Result<Sighting> {
    if times(stat).into_iter().all(|time| time < settled_before) {
        return Ok(Sighting { stamp: Stamp::of(stat), hash: None });
    }
    match directory.read(name, FILE_BYTES_MAX) {
        // The stamp from before the bytes were read: what is written while they are read shows.
        Ok(content) => Ok(Sighting { stamp: Stamp::of(stat), hash: content.hash() }),
        // The plan cannot read it either, and refuses it.
        Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => {
            Ok(Sighting { stamp: Stamp::of(stat), hash: None })
        }
        Err(error) => Err(error),
    }
}

/// When a file's bytes and when its entry were changed last, in nanoseconds since 1970.
fn times(stat: &Stat) -> [i128; 2] {
    let whole = |seconds: i128, nanos: i128| seconds.saturating_mul(1_000_000_000) + nanos;
    [
        whole(i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec)),
        whole(i128::from(stat.st_ctime), i128::from(stat.st_ctime_nsec)),
    ]
}

fn nanos(time: SystemTime) -> i128 {
    let whole = |since: std::time::Duration| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => whole(since),
        Err(before) => -whole(before.duration()),
    }
}
