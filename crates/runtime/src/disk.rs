//! What the stores need of a file system, names and contents apart.
//!
//! The stores are written against [`Disk`], so that the code that runs on a real file system is the
//! very code that the tests crash on a simulated one. What is kept where, and when it is synced, is
//! decided by the callers.

mod early;
mod os;
mod replace;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use os::OsDisk;
pub(crate) use replace::create_temp;
pub use replace::{Durability, replace_file};

use crate::watch::{Signal, WatchSource};

/// One operation on a disk, as it is named in errors and in scripts of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Open a file.
    Open,
    /// Make a directory.
    CreateDir,
    /// Give a file another name.
    Rename,
    /// Give a file one more name.
    Link,
    /// Remove a file's name.
    Remove,
    /// Read a directory.
    List,
    /// Ask for length and kind.
    Stat,
    /// Make the names in a directory durable.
    SyncDir,
    /// Read contents.
    Read,
    /// Write contents.
    Write,
    /// Cut or extend a file.
    SetLen,
    /// Make a file's contents durable.
    SyncData,
    /// Take the lock.
    Lock,
    /// Release the lock.
    Unlock,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::CreateDir => "create directory",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Remove => "remove",
            Self::List => "list",
            Self::Stat => "look at",
            Self::SyncDir => "sync directory",
            Self::Read => "read",
            Self::Write => "write to",
            Self::SetLen => "set the length of",
            Self::SyncData => "sync",
            Self::Lock => "lock",
            Self::Unlock => "unlock",
        })
    }
}

/// An operation on a disk that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {op} `{}`", path.display())]
pub struct DiskError {
    /// What was being done.
    pub op: Op,
    /// To which file or directory.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl DiskError {
    /// An error of `op` on `path`.
    #[must_use]
    pub fn new(op: Op, path: &Path, source: io::Error) -> Self {
        Self { op, path: path.to_owned(), source }
    }

    /// The error of opening something that is not a regular file.
    #[must_use]
    pub fn not_a_file(path: &Path) -> Self {
        Self::new(Op::Open, path, io::Error::new(io::ErrorKind::InvalidInput, NotARegularFile))
    }

    /// Whether there was no room: the device, a quota or a limit on file size.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }

    /// Whether the file or directory does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Whether something of that name exists already.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }

    /// Whether a link, a directory, a pipe or a device stands where a file was expected.
    #[must_use]
    pub fn is_not_a_file(&self) -> bool {
        self.source.get_ref().is_some_and(|inner| inner.is::<NotARegularFile>())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it is not a regular file")]
struct NotARegularFile;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, a pipe, a socket or a device.
    Other,
}

/// Length and kind of a file, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub len: u64,
    /// What it is.
    pub kind: Kind,
    /// Whether a name still leads to it. Bytes written to a file without one are lost.
    pub linked: bool,
}

/// How to open a file. None of these follows a link in the last place or opens anything but a
/// regular file, and none waits: a pipe is refused, not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read; it must exist.
    Read,
    /// To read and write; it must exist.
    Write,
    /// To read and write; it is created for its owner alone if it does not exist.
    Create,
    /// To read and write; it must not exist.
    CreateNew,
    /// To add at the end with [`DiskFile::append`]; it is created if it does not exist.
    Append,
}

/// A file system, as little of it as the stores need. Paths are absolute.
///
/// When an operation that changes names returns, the change can be seen, but is durable only once
/// [`Disk::sync_dir`] of the directory has returned.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be opened in this way; see [`DiskError::is_missing`] and
    /// [`DiskError::is_not_a_file`].
    fn open(&self, path: &Path, access: Access) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Makes one directory, for its owner alone, in a directory that exists.
    ///
    /// # Errors
    /// It cannot be made, or something of that name exists.
    fn create_dir(&self, path: &Path) -> Result<(), DiskError>;

    /// Gives the file `from` the name `to`, replacing the file that has it.
    ///
    /// # Errors
    /// The names stay as they are, unless the error came after the effect.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    /// Gives the file `from` the name `to` as well, if nothing has it.
    ///
    /// # Errors
    /// It has no further name: see [`DiskError::is_taken`]. Not every file system can do this.
    fn link(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// There is none, or it cannot be removed.
    fn remove(&self, path: &Path) -> Result<(), DiskError>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn list(&self, path: &Path) -> Result<Vec<OsString>, DiskError>;

    /// Hands out the names in a directory one by one, until `visit` breaks off: for a directory that may
    /// be too large to list. Names that come or go meanwhile may be among them or not.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn visit(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(OsString) -> ControlFlow<()>,
    ) -> Result<(), DiskError>;

    /// Some name in a directory; `None` if it is empty.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn first_entry(&self, path: &Path) -> Result<Option<OsString>, DiskError> {
        let mut first = None;
        self.visit(path, &mut |name| {
            first = Some(name);
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// What a name stands for, without following a link; `None` if nothing has the name.
    ///
    /// # Errors
    /// It cannot be told.
    fn stat(&self, path: &Path) -> Result<Option<Stat>, DiskError>;

    /// Makes the names in a directory durable: when it returns they survive power loss.
    ///
    /// # Errors
    /// Some changes of names may be lost, and syncing again may not help.
    fn sync_dir(&self, path: &Path) -> Result<(), DiskError>;

    /// Raises `signal` whenever the file `name` in `dir` changes, until the source is dropped.
    /// `None` where that is not possible; the caller then polls.
    fn watch(&self, dir: &Path, name: &str, signal: &Arc<Signal>) -> Option<Box<dyn WatchSource>> {
        let _ = (dir, name, signal);
        None
    }
}

/// An open file. Changes can be seen at once and are durable once [`DiskFile::sync_data`] returned.
pub trait DiskFile: Send + fmt::Debug {
    /// Length, and whether the file still has a name.
    ///
    /// # Errors
    /// It cannot be told.
    fn stat(&self) -> Result<Stat, DiskError>;

    /// Reads some bytes at an offset; 0 at the end.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, DiskError>;

    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// Any part of the bytes may have been written.
    fn write_all_at(&self, at: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Adds bytes at the end, wherever that is by now. Only for [`Access::Append`].
    ///
    /// # Errors
    /// Any part of the bytes may have been written.
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError>;

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// The length may or may not have changed.
    fn set_len(&self, len: u64) -> Result<(), DiskError>;

    /// Has the disk begin with bytes that were just written, and does not wait for it:
    /// [`DiskFile::sync_data`] then takes less time. Promises nothing.
    fn start_sync(&self, at: u64, bytes: usize) {
        let _ = (at, bytes);
    }

    /// Makes contents and length durable: when it returns they survive power loss.
    ///
    /// # Errors
    /// Any part may be lost. The system may since believe that the bytes are on disk: syncing again
    /// proves nothing.
    fn sync_data(&self) -> Result<(), DiskError>;

    /// Waits for the exclusive lock, which belongs to this opening of the file and ends with it,
    /// also when the process dies.
    ///
    /// # Errors
    /// The lock is not held.
    fn lock_exclusive(&self) -> Result<(), DiskError>;

    /// Releases the lock.
    ///
    /// # Errors
    /// The lock may still be held, until the file is closed.
    fn unlock(&self) -> Result<(), DiskError>;
}

/// Reads at an offset until `into` is full or the file ends, and says how much that was.
pub(crate) fn read_full(file: &dyn DiskFile, at: u64, into: &mut [u8]) -> Result<usize, DiskError> {
    let mut done = 0;
    while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let got = file.read_at(at + done as u64, rest)?;
        if got == 0 {
            break;
        }
        done += got;
    }
    Ok(done)
}
