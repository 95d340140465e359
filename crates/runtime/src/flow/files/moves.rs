//! The system calls that change something, each announced before it is made.
//!
//! Names move within one directory and never onto a name that is taken. Where the file system
//! cannot exchange two names, or rename without replacing, the same is done in steps that
//! [`Hands::mend`] makes whole after a crash.

use std::fs::File;
use std::io::{self, Write as _};
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::root::{Directory, Entry};

/// What is about to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    MakeDirectory,
    OpenPart,
    WritePart,
    SyncPart,
    Stage,
    SyncDirectory,
    Place,
    Exchange,
    SetAside,
    Return,
    Withdraw,
    Link,
    Remove,
    RemoveDirectory,
}

/// Is told of a change before it is made. An error stands for that of the system call.
pub(super) type Watcher<'a> = &'a mut dyn FnMut(Change, &str) -> io::Result<()>;

/// Where a file goes, and the names beside it that are used on the way.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) path: String,
    pub(super) directory: Rc<Directory>,
    pub(super) name: String,
    /// The new bytes before they are in their place, the old ones after.
    pub(super) temporary: String,
    /// New bytes that are not whole yet. A name of its own, so that what is found under the other
    /// one is always whole.
    pub(super) part: String,
    /// Old bytes while an exchange is made in steps.
    pub(super) aside: String,
}

/// Makes changes.
pub(super) struct Hands<'a> {
    watcher: Watcher<'a>,
}

impl<'a> Hands<'a> {
    pub(super) fn new(watcher: Watcher<'a>) -> Self {
        Self { watcher }
    }

    /// Writes and syncs the new bytes, and gives them the name of the temporary file.
    pub(super) fn stage(
        &mut self,
        spot: &Spot,
        bytes: &[u8],
        mode: Option<Mode>,
    ) -> io::Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        (self.watcher)(Change::OpenPart, &spot.path)?;
        let opened =
            rustix::fs::openat(&spot.directory.0, &spot.part, flags, Mode::from_raw_mode(0o666))?;
        let mut file = File::from(opened);
        (self.watcher)(Change::WritePart, &spot.path)?;
        file.write_all(bytes)?;
        if let Some(mode) = mode {
            rustix::fs::fchmod(&file, mode)?;
        }
        (self.watcher)(Change::SyncPart, &spot.path)?;
        file.sync_all()?;
        // If we die here, the part is written again.
        self.rename_free(Change::Stage, spot, &spot.part, &spot.temporary)
    }

    /// Puts the new bytes in their place, which must be empty.
    pub(super) fn place(&mut self, spot: &Spot) -> io::Result<()> {
        self.rename_free(Change::Place, spot, &spot.temporary, &spot.name)
    }

    /// Puts what came out back in its place, which must be empty.
    pub(super) fn give_back(&mut self, spot: &Spot) -> io::Result<()> {
        self.rename_free(Change::Return, spot, &spot.temporary, &spot.name)
    }

    /// Takes what is in the place out of it.
    pub(super) fn withdraw(&mut self, spot: &Spot) -> io::Result<()> {
        self.rename_free(Change::Withdraw, spot, &spot.name, &spot.temporary)
    }

    /// Exchanges the place and the temporary file.
    pub(super) fn exchange(&mut self, spot: &Spot) -> io::Result<()> {
        let directory = &spot.directory.0;
        let exchanged = (self.watcher)(Change::Exchange, &spot.path).and_then(|()| {
            let flags = RenameFlags::EXCHANGE;
            let (from, to) = (&spot.temporary, &spot.name);
            Ok(rustix::fs::renameat_with(directory, from, directory, to, flags)?)
        });
        match exchanged {
            Err(error) if is_unsupported(&error) => {
                self.rename_free(Change::SetAside, spot, &spot.name, &spot.aside)?;
                // If we die here, the place is empty and `mend` fills it again.
                self.rename_free(Change::Place, spot, &spot.temporary, &spot.name)?;
                self.rename_free(Change::Return, spot, &spot.aside, &spot.temporary)
            }
            exchanged => exchanged,
        }
    }

    /// Brings what an earlier call left half done to where it was before or would be after.
    ///
    /// Tells whether something is still set aside, both of the names being taken.
    pub(super) fn mend(&mut self, spot: &Spot) -> io::Result<bool> {
        if !matches!(spot.directory.entry(&spot.part)?, Entry::Absent) {
            self.remove(spot, &spot.part)?;
        }
        let entries = || -> io::Result<_> {
            Ok((spot.directory.entry(&spot.name)?, spot.directory.entry(&spot.temporary)?))
        };
        if let (Entry::File(place), Entry::File(temporary)) = entries()?
            && (place.st_dev, place.st_ino) == (temporary.st_dev, temporary.st_ino)
        {
            self.remove(spot, &spot.temporary)?;
        }
        if matches!(spot.directory.entry(&spot.aside)?, Entry::Absent) {
            return Ok(false);
        }
        match entries()? {
            (Entry::Absent, _) => {
                self.rename_free(Change::Return, spot, &spot.aside, &spot.name)?;
                Ok(false)
            }
            (_, Entry::Absent) => {
                self.rename_free(Change::Return, spot, &spot.aside, &spot.temporary)?;
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    /// Removes a name beside the place.
    pub(super) fn remove(&mut self, spot: &Spot, name: &str) -> io::Result<()> {
        (self.watcher)(Change::Remove, &spot.path)?;
        match rustix::fs::unlinkat(&spot.directory.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// When it returns, the names in the directory survive power loss.
    pub(super) fn sync(&mut self, directory: &Directory, path: &str) -> io::Result<()> {
        (self.watcher)(Change::SyncDirectory, path)?;
        Ok(rustix::fs::fsync(&directory.0)?)
    }

    /// Makes a directory, and tells whether it was not there.
    pub(super) fn make_directory(
        &mut self,
        above: &Directory,
        name: &str,
        path: &str,
    ) -> io::Result<bool> {
        (self.watcher)(Change::MakeDirectory, path)?;
        match rustix::fs::mkdirat(&above.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes a directory if it is empty.
    pub(super) fn remove_directory(&mut self, above: &Directory, name: &str) {
        if (self.watcher)(Change::RemoveDirectory, name).is_ok() {
            // One that stays is empty or in use: neither takes anything from anybody.
            let _ = rustix::fs::unlinkat(&above.0, name, AtFlags::REMOVEDIR);
        }
    }

    /// Renames to a name that nobody has.
    fn rename_free(&mut self, change: Change, spot: &Spot, from: &str, to: &str) -> io::Result<()> {
        let directory = &spot.directory.0;
        let renamed = (self.watcher)(change, &spot.path).and_then(|()| {
            let flags = RenameFlags::NOREPLACE;
            Ok(rustix::fs::renameat_with(directory, from, directory, to, flags)?)
        });
        match renamed {
            Err(error) if is_unsupported(&error) && to == spot.name => self.link_free(spot, from),
            // Nobody else uses the other names, and a link would be a second look at the place:
            // what is put there between the two would be lost.
            Err(error) if is_unsupported(&error) => {
                Ok(rustix::fs::renameat(directory, from, directory, to)?)
            }
            renamed => renamed,
        }
    }

    /// Fills the place by a second link, which never replaces anything either.
    fn link_free(&mut self, spot: &Spot, from: &str) -> io::Result<()> {
        let (directory, to) = (&spot.directory.0, spot.name.as_str());
        let linked = (self.watcher)(Change::Link, &spot.path).and_then(|()| {
            Ok(rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?)
        });
        match linked {
            Ok(()) => self.remove(spot, from),
            // No links either: looking first is all that is left.
            Err(error) if is_unsupported(&error) || has_code(&error, Errno::PERM) => {
                match spot.directory.entry(to)? {
                    Entry::Absent => Ok(rustix::fs::renameat(directory, from, directory, to)?),
                    _ => Err(Errno::EXIST.into()),
                }
            }
            linked => linked,
        }
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP]
        .into_iter()
        .any(|errno| has_code(error, errno))
}

fn has_code(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}
