//! Files that nobody else may touch.
//!
//! Every step goes through an open directory and never follows a link, and what was opened is what
//! is checked, so nothing can be exchanged in between. What the files mean is decided elsewhere.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self as rfs, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RawMode};
use rustix::io::Errno;
use zeroize::Zeroizing;

/// Temporary names that one write tries before it gives up.
const TEMPORARY_NAMES_MAX: u32 = 100;

/// Why a private file or directory was not used.
#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    /// The system refused.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A link where the thing itself must be.
    #[error("`{}` is a symbolic link; keys are read from real files only", path.display())]
    Symlink {
        /// The link.
        path: PathBuf,
    },
    /// Something other than was expected.
    #[error("`{}` is not {expected}", path.display())]
    Kind {
        /// The place.
        path: PathBuf,
        /// What must be there.
        expected: &'static str,
    },
    /// Somebody else owns it, and could change or read it at any time.
    #[error("`{}` belongs to user {found}, expected user {expected}", path.display())]
    Owner {
        /// The place.
        path: PathBuf,
        /// The owner.
        found: u32,
        /// Who runs this process.
        expected: u32,
    },
    /// Others may read or write it.
    #[error("`{}` is open to other users (mode {mode:04o}); run `{}`", path.display(), self.remedy())]
    Permissions {
        /// The place.
        path: PathBuf,
        /// Its permission bits.
        mode: RawMode,
        /// The argument that `chmod` needs.
        wanted: &'static str,
    },
    /// More bytes than such a file has.
    #[error("`{}` has more than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// What is allowed.
        limit: usize,
    },
}

impl PrivateFileError {
    /// The command that puts the permissions right; empty for other errors.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Permissions { path, wanted, .. } => {
                format!("chmod {wanted} {}", shell_word(&path.to_string_lossy()))
            }
            _ => String::new(),
        }
    }
}

fn shell_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Who else may do what.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    /// Nobody else may read or write: secrets.
    Private,
    /// Nobody else may write: what we trust.
    Trusted,
}

/// A directory that was opened and checked.
#[derive(Debug)]
pub(crate) struct PrivateDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDir {
    /// Opens the directory at the top, or gives `None` if there is none. People link this one to
    /// where they keep their settings, so a link is followed here and nowhere below.
    pub(crate) fn open_top(path: &Path) -> Result<Option<Self>, PrivateFileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rfs::open(path, flags, Mode::empty()) {
            Ok(fd) => Self::checked(fd, path.to_owned(), Access::Trusted).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR) => {
                Err(PrivateFileError::Kind { path: path.to_owned(), expected: "a directory" })
            }
            Err(error) => Err(io_error("open", path, error)),
        }
    }

    /// As [`Self::open_top`], making it and what is above it where that is missing.
    pub(crate) fn create_top(path: &Path) -> Result<Self, PrivateFileError> {
        if let Some(dir) = Self::open_top(path)? {
            return Ok(dir);
        }
        let fail = |error: io::Error| io_error("create", path, error);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
        if let Some(parent) = path.parent() {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(fail)?;
        }
        Self::open_top(path)?.ok_or_else(|| fail(io::ErrorKind::NotFound.into()))
    }

    /// Opens the private directory `name` in this one.
    pub(crate) fn open(&self, name: &str) -> Result<Option<Self>, PrivateFileError> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rfs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Self::checked(fd, path, Access::Private).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.explain("a directory", name, error)),
        }
    }

    /// Opens the private directory `name` in this one, making it if it is missing.
    pub(crate) fn create(&self, name: &str) -> Result<Self, PrivateFileError> {
        let path = self.path.join(name);
        match rfs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => self.sync()?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(io_error("create", &path, error)),
        }
        self.open(name)?.ok_or_else(|| io_error("open", &path, Errno::NOENT))
    }

    fn checked(fd: OwnedFd, path: PathBuf, access: Access) -> Result<Self, PrivateFileError> {
        let wanted = match access {
            Access::Private => "700",
            Access::Trusted => "go-w",
        };
        check(&fd, &path, access, (FileType::Directory, "a directory"), wanted)?;
        Ok(Self { fd, path })
    }

    /// The bytes of the file `name`, wiped when dropped; `None` if there is no such file.
    pub(crate) fn read(
        &self,
        name: &str,
        limit: usize,
        access: Access,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, PrivateFileError> {
        let path = self.path.join(name);
        // Without NONBLOCK a pipe in the place of the file would hold us up for ever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rfs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(self.explain("a regular file", name, error)),
        };
        let wanted = match access {
            Access::Private => "600",
            Access::Trusted => "go-w",
        };
        check(&fd, &path, access, (FileType::RegularFile, "a regular file"), wanted)?;
        // A buffer that grew would leave copies of the secret behind.
        let mut buffer = Zeroizing::new(vec![0; limit.saturating_add(1)]);
        let (mut file, mut filled) = (File::from(fd), 0);
        while let Some(space) = buffer.get_mut(filled..).filter(|space| !space.is_empty()) {
            match file.read(space) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error("read", &path, error)),
            }
        }
        if filled > limit {
            return Err(PrivateFileError::TooLong { path, limit });
        }
        buffer.truncate(filled);
        Ok(Some(buffer))
    }

    /// Puts `bytes` in the place of the file `name`, readable by nobody else. When this returns,
    /// they survive power loss; before, the file is as it was.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), PrivateFileError> {
        let path = self.path.join(name);
        let fail = |error: io::Error| io_error("write", &path, error);
        let (temporary, mut file) = self.temporary(name).map_err(fail)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(rfs::renameat(&self.fd, &temporary, &self.fd, name)?));
        if let Err(error) = written {
            // The first error is the one to report; a leftover is not read by anyone.
            let _ = rfs::unlinkat(&self.fd, &temporary, AtFlags::empty());
            return Err(fail(error));
        }
        self.sync()
    }

    /// A new file beside `name`. Names differ by process and by count, so a leftover of a process
    /// that died is met at most once and stepped over.
    fn temporary(&self, name: &str) -> io::Result<(String, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..TEMPORARY_NAMES_MAX {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let temporary = format!(".{name}.{}-{count}.tmp", std::process::id());
            match rfs::openat(&self.fd, &temporary, flags, Mode::RUSR | Mode::WUSR) {
                Ok(fd) => return Ok((temporary, fd.into())),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Whether there is anything of this name.
    pub(crate) fn contains(&self, name: &str) -> Result<bool, PrivateFileError> {
        match rfs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(io_error("look at", &self.path.join(name), error)),
        }
    }

    /// The names in this directory, in order.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, PrivateFileError> {
        let fail = |error: Errno| io_error("list", &self.path, error);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(fail)? {
            names.push(OsString::from_vec(entry.map_err(fail)?.file_name().to_bytes().to_vec()));
        }
        names.sort();
        Ok(names)
    }

    /// Keeps other processes from changing what is here until the result is dropped.
    pub(crate) fn lock(&self) -> Result<DirLock, PrivateFileError> {
        let fail = |error: Errno| io_error("lock", &self.path, error);
        // A descriptor of its own, since a lock belongs to the open file and not to the process.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rfs::openat(&self.fd, ".", flags, Mode::empty()).map_err(fail)?;
        rfs::flock(&fd, FlockOperation::LockExclusive).map_err(fail)?;
        Ok(DirLock { _fd: fd })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn sync(&self) -> Result<(), PrivateFileError> {
        rfs::fsync(&self.fd).map_err(|error| io_error("sync", &self.path, error))
    }

    /// Says what stands in the way of opening `name`: systems answer differently for links.
    fn explain(&self, expected: &'static str, name: &str, error: Errno) -> PrivateFileError {
        let path = self.path.join(name);
        let stat = rfs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Symlink) => PrivateFileError::Symlink { path },
            Ok(_) if error == Errno::NOTDIR || error == Errno::NXIO => {
                PrivateFileError::Kind { path, expected }
            }
            _ => io_error("open", &path, error),
        }
    }
}

/// Released when dropped.
#[derive(Debug)]
pub(crate) struct DirLock {
    _fd: OwnedFd,
}

fn check(
    fd: &OwnedFd,
    path: &Path,
    access: Access,
    (kind, expected): (FileType, &'static str),
    wanted: &'static str,
) -> Result<(), PrivateFileError> {
    let stat = rfs::fstat(fd).map_err(|error| io_error("look at", path, error))?;
    let path = path.to_owned();
    if FileType::from_raw_mode(stat.st_mode) != kind {
        return Err(PrivateFileError::Kind { path, expected });
    }
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != user {
        return Err(PrivateFileError::Owner { path, found: stat.st_uid, expected: user });
    }
    let refused = match access {
        Access::Private => Mode::RWXG | Mode::RWXO,
        Access::Trusted => Mode::WGRP | Mode::WOTH,
    };
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.intersects(refused) {
        return Err(PrivateFileError::Permissions { path, mode: mode.as_raw_mode(), wanted });
    }
    Ok(())
}

fn io_error(doing: &'static str, path: &Path, error: impl Into<io::Error>) -> PrivateFileError {
    PrivateFileError::Io { doing, path: path.to_owned(), source: error.into() }
}
