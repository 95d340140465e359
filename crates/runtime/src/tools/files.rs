//! The tools that open one file by themselves.
//!
//! A path is walked component by component from the root, each opened in the directory before it and
//! never through a link, so that nothing outside can be meant. Only regular files are touched, and
//! nothing is waited for.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use countersign_format::path::WorkspacePath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

use super::outcome::{Ended, ToolOutcome};
use crate::sandbox::Stream;

/// How often a name for a temporary file is tried before giving up.
const TEMP_NAMES_MAX: u32 = 100;
/// What a file may carry over to the one that replaces it.
const MODE_KEPT: RawMode = 0o777;

/// The file tools of a workspace.
#[derive(Debug)]
pub(super) struct FileTools {
    root: PathBuf,
    held: OwnedFd,
    hidden: Vec<PathBuf>,
    bytes_max: u64,
}

/// Why a file tool does not do what it was asked.
#[derive(Debug, thiserror::Error)]
enum FileFault {
    #[error("`{path}`: {reason}")]
    Refused { path: String, reason: String },
    #[error("`{path}`: {source}")]
    System { path: String, source: io::Error },
}

/// What a component of a path is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parents {
    /// They must be there.
    Found,
    /// They are made where they are missing.
    Made,
}

impl FileTools {
    pub(super) fn new(root: &Path, hidden: &[PathBuf], bytes_max: u64) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = rustix::fs::open(root, flags, Mode::empty())?;
        Ok(Self { root: root.to_owned(), held, hidden: hidden.to_vec(), bytes_max })
    }

    /// The bytes of a file.
    pub(super) fn read(&self, path: &str) -> ToolOutcome {
        told("read", || self.try_read(path))
    }

    /// Writes a file, whole.
    pub(super) fn write(&self, path: &str, content: &[u8]) -> ToolOutcome {
        told("write", || {
            self.try_write(path, content)?;
            Ok(format!("wrote {} bytes to `{path}`\n", content.len()).into_bytes())
        })
    }

    /// Deletes a file.
    pub(super) fn delete(&self, path: &str) -> ToolOutcome {
        told("delete", || {
            self.try_delete(path)?;
            Ok(format!("deleted `{path}`\n").into_bytes())
        })
    }

    fn try_read(&self, path: &str) -> Result<Vec<u8>, FileFault> {
        let (directory, name) = self.place(path, Parents::Found)?;
        let system = |errno: Errno| system(path, errno);
        regular(path, &self.look(&directory, &name).map_err(system)?)?;
        // It may be another thing by now, and then opening it must not wait.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&directory, &name, flags, Mode::empty()).map_err(system)?;
        regular(path, &rustix::fs::fstat(&opened).map_err(system)?)?;
        let mut bytes = Vec::new();
        File::from(opened)
            .take(self.bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|source| FileFault::System { path: path.to_owned(), source })?;
        if bytes.len() as u64 > self.bytes_max {
            let reason = format!("more than {} bytes, which is the limit", self.bytes_max);
            return Err(FileFault::Refused { path: path.to_owned(), reason });
        }
        Ok(bytes)
    }

    fn try_write(&self, path: &str, content: &[u8]) -> Result<(), FileFault> {
        let (directory, name) = self.place(path, Parents::Made)?;
        let system = |errno: Errno| system(path, errno);
        let mode = match self.look(&directory, &name) {
            Ok(found) => {
                regular(path, &found)?;
                Some(Mode::from_raw_mode(found.st_mode & MODE_KEPT))
            }
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(system(errno)),
        };
        let (temporary, mut file) = temporary_in(&directory).map_err(system)?;
        let written = file
            .write_all(content)
            .and_then(|()| mode.map_or(Ok(()), |mode| Ok(rustix::fs::fchmod(&file, mode)?)))
            .and_then(|()| file.sync_data())
            .and_then(|()| Ok(rustix::fs::renameat(&directory, &temporary, &directory, &name)?));
        written.map_err(|source| {
            let _ = rustix::fs::unlinkat(&directory, &temporary, AtFlags::empty());
            FileFault::System { path: path.to_owned(), source }
        })
    }

    fn try_delete(&self, path: &str) -> Result<(), FileFault> {
        let (directory, name) = self.place(path, Parents::Found)?;
        let system = |errno: Errno| system(path, errno);
        regular(path, &self.look(&directory, &name).map_err(system)?)?;
        rustix::fs::unlinkat(&directory, &name, AtFlags::empty()).map_err(system)
    }

    fn look(&self, directory: &OwnedFd, name: &str) -> rustix::io::Result<Stat> {
        rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The directory of a file, and the file's name in it.
    fn place(&self, path: &str, parents: Parents) -> Result<(OwnedFd, String), FileFault> {
        let refused = |reason: String| FileFault::Refused { path: path.to_owned(), reason };
        let checked = WorkspacePath::parse(path).map_err(|fault| refused(fault.to_string()))?;
        let whole = self.root.join(checked.as_str());
        if self.hidden.iter().any(|hidden| whole.starts_with(hidden)) {
            return Err(refused("it is kept from tools".to_owned()));
        }
        let components: Vec<&str> = checked.components().collect();
        let Some((name, above)) = components.split_last() else {
            return Err(refused("path is empty".to_owned()));
        };
        let mut directory =
            rustix::io::fcntl_dupfd_cloexec(&self.held, 0).map_err(|errno| system(path, errno))?;
        for component in above {
            directory = self
                .descend(&directory, component, parents)
                .map_err(|errno| system(path, errno))?;
            if self.is_hidden(&directory) {
                return Err(refused("it is kept from tools".to_owned()));
            }
        }
        Ok((directory, (*name).to_owned()))
    }

    fn descend(
        &self,
        directory: &OwnedFd,
        component: &str,
        parents: Parents,
    ) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(directory, component, flags, Mode::empty());
        match open() {
            Err(Errno::NOENT) if parents == Parents::Made => {
                match rustix::fs::mkdirat(directory, component, Mode::from_raw_mode(MODE_KEPT)) {
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(errno) => Err(errno),
                }
            }
            opened => opened,
        }
    }

    /// Whether a directory is hidden under another name, as where case does not count.
    fn is_hidden(&self, directory: &OwnedFd) -> bool {
        let Ok(found) = rustix::fs::fstat(directory) else { return true };
        self.hidden.iter().any(|hidden| {
            rustix::fs::stat(hidden)
                .is_ok_and(|other| (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino))
        })
    }
}

/// A new file in a directory, under a name that nobody uses.
fn temporary_in(directory: &OwnedFd) -> rustix::io::Result<(String, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..TEMP_NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".tmp-{}-{number}", std::process::id());
        match rustix::fs::openat(directory, &name, flags, Mode::from_raw_mode(0o666)) {
            Ok(opened) => return Ok((name, File::from(opened))),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

fn regular(path: &str, found: &Stat) -> Result<(), FileFault> {
    let reason = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "it is a directory",
        FileType::Symlink => "it is a link",
        _ => "it is not a regular file",
    };
    Err(FileFault::Refused { path: path.to_owned(), reason: reason.to_owned() })
}

fn system(path: &str, errno: Errno) -> FileFault {
    let reason = match errno {
        Errno::NOENT => "there is no such file",
        // What `O_NOFOLLOW` says of a link depends on what else was asked.
        Errno::LOOP | Errno::MLINK | Errno::NOTDIR => {
            "a component before the last is a link or not a directory"
        }
        _ => return FileFault::System { path: path.to_owned(), source: errno.into() },
    };
    FileFault::Refused { path: path.to_owned(), reason: reason.to_owned() }
}

fn told(doing: &str, act: impl FnOnce() -> Result<Vec<u8>, FileFault>) -> ToolOutcome {
    let began = Instant::now();
    let (ended, stdout, stderr) = match act() {
        Ok(bytes) => (Ended::Exited(0), Stream::of(bytes), Stream::default()),
        Err(fault) => {
            let said = format!("cannot {doing} {fault}\n");
            (Ended::Exited(1), Stream::default(), Stream::of(said))
        }
    };
    ToolOutcome { ended, stdout, stderr, elapsed: began.elapsed() }
}

/// The bytes of a file below `root`, which has at most `bytes_max` of them.
///
/// # Errors
/// It is not there, not a regular file, too large, or not to be read by anybody but its owner.
pub fn read_beneath(root: &Path, path: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    FileTools::new(root, &[], bytes_max)?.try_read(path).map_err(io::Error::other)
}

/// Writes a file below `root`, whole, and makes the directories that lead to it.
///
/// # Errors
/// The path is not to be written, or leads through a link.
pub fn write_beneath(root: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
    FileTools::new(root, &[], 0)?.try_write(path, bytes).map_err(io::Error::other)
}
