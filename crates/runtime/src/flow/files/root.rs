//! The workspace root, and what lies below it.
//!
//! A path is walked component by component from the root, each opened in the directory before it
//! and never through a link. Only regular files up to a limit are read, and nothing is waited for.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use countersign_format::hash::Hash;
use countersign_format::path::WorkspacePath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

/// Bytes of a file that an answer may write or replace.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;
/// How the names of temporary files begin. No agent may write such a name.
pub(super) const TEMPORARY_PREFIX: &str = ".countersign-";
/// What a file may carry over to the one that replaces it.
const MODE_KEPT: RawMode = 0o777;

/// The workspace root, held open.
#[derive(Debug)]
pub(crate) struct FileRoot(Directory);

/// A directory at or below the root, held open: it stays the same one when its name is given to
/// another.
#[derive(Debug)]
pub(super) struct Directory(pub(super) OwnedFd);

/// What has a name in a directory.
#[derive(Debug)]
pub(super) enum Entry {
    Absent,
    File(Stat),
    Directory,
    Link,
    Special,
}

/// What can be read under a name.
#[derive(Debug)]
pub(super) enum Content {
    Absent,
    Bytes { bytes: Vec<u8>, stat: Stat },
    TooLarge,
    NoFile(&'static str),
}

impl Content {
    /// The hash of its bytes, if it has any.
    pub(super) fn hash(&self) -> Option<Hash> {
        match self {
            Self::Bytes { bytes, .. } => Some(Hash::of(bytes)),
            Self::Absent | Self::TooLarge | Self::NoFile(_) => None,
        }
    }
}

impl FileRoot {
    /// Opens the directory at `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(Directory(rustix::fs::open(path, flags, Mode::empty())?)))
    }

    /// The directory reached by these components, or nothing if one of them is not there.
    pub(super) fn walk<'a>(
        &self,
        components: impl IntoIterator<Item = &'a str>,
    ) -> rustix::io::Result<Option<Directory>> {
        let mut directory = self.0.again()?;
        for component in components {
            match directory.child(component)? {
                Some(child) => directory = child,
                None => return Ok(None),
            }
        }
        Ok(Some(directory))
    }
}

impl Directory {
    /// The same directory, held once more.
    pub(super) fn again(&self) -> rustix::io::Result<Self> {
        rustix::io::fcntl_dupfd_cloexec(&self.0, 0).map(Self)
    }

    /// The directory of this name in it, unless there is nothing of this name.
    pub(super) fn child(&self, name: &str) -> rustix::io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(opened) => Ok(Some(Self(opened))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// What has this name in it.
    pub(super) fn entry(&self, name: &str) -> rustix::io::Result<Entry> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Entry::File(stat),
                FileType::Directory => Entry::Directory,
                FileType::Symlink => Entry::Link,
                _ => Entry::Special,
            }),
            Err(Errno::NOENT) => Ok(Entry::Absent),
            Err(errno) => Err(errno),
        }
    }

    /// What can be read under this name, at most `bytes_max` bytes of it.
    pub(super) fn read(&self, name: &str, bytes_max: u64) -> io::Result<Content> {
        match self.entry(name)? {
            Entry::File(_) => {}
            Entry::Absent => return Ok(Content::Absent),
            Entry::Directory => return Ok(Content::NoFile("a directory")),
            Entry::Link => return Ok(Content::NoFile("a link")),
            Entry::Special => return Ok(Content::NoFile("not a regular file")),
        }
        // It may be another thing by now, and then opening it must not wait.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(Content::Absent),
            Err(Errno::LOOP | Errno::MLINK) => return Ok(Content::NoFile("a link")),
            Err(errno) => return Err(errno.into()),
        };
        let stat = rustix::fs::fstat(&opened)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Content::NoFile("not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(opened).take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Ok(Content::TooLarge);
        }
        Ok(Content::Bytes { bytes, stat })
    }

    /// Which directory it is, whatever its name.
    pub(super) fn identity(&self) -> rustix::io::Result<(i128, i128)> {
        let stat = rustix::fs::fstat(&self.0)?;
        Ok((i128::from(stat.st_dev), i128::from(stat.st_ino)))
    }
}

/// The directory of a file and the file's name in it.
pub(super) fn split(path: &WorkspacePath) -> (&str, &str) {
    path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()))
}

/// The components of a directory's path; the root's has none.
pub(super) fn components(directory: &str) -> impl Iterator<Item = &str> {
    directory.split('/').filter(|component| !component.is_empty())
}

/// The mode that a file hands on to the one that replaces it.
pub(super) fn kept_mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & MODE_KEPT)
}

/// Whether an error means that a component on the way is a link or not a directory.
pub(super) fn is_detour(errno: Errno) -> bool {
    // What `O_NOFOLLOW` says of a link depends on what else was asked.
    matches!(errno, Errno::LOOP | Errno::MLINK | Errno::NOTDIR)
}

/// The bytes that the file at `path` has now, if it is there.
///
/// # Errors
/// It is not a regular file, has more than `bytes_max` bytes, or lies behind a link.
pub(crate) fn read_current(
    root: &FileRoot,
    path: &WorkspacePath,
    bytes_max: u64,
) -> io::Result<Option<Vec<u8>>> {
    let (above, name) = split(path);
    let Some(directory) = root.walk(components(above))? else { return Ok(None) };
    match directory.read(name, bytes_max)? {
        Content::Absent => Ok(None),
        Content::Bytes { bytes, .. } => Ok(Some(bytes)),
        Content::TooLarge => {
            Err(io::Error::other(format!("`{path}` has more than {bytes_max} bytes")))
        }
        Content::NoFile(what) => Err(io::Error::other(format!("`{path}` is {what}"))),
    }
}
