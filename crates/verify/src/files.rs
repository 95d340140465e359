//! Reading a trace and its log from plain files, never for anything but reading.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use countersign_format::event::artifact::{new_uri, storage_uri};
use countersign_format::hash::Hash;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Source, StoredArtifact};

/// Bytes that a checkpoint may have.
const CHECKPOINT_BYTES_MAX: u64 = 256 << 10;
const BUFFER_BYTES: usize = 256 << 10;

/// The files of one trace.
#[derive(Debug, Clone)]
pub struct FileSource {
    /// The ledger.
    pub events: PathBuf,
    /// The workspace log.
    pub log: Option<PathBuf>,
    /// Checkpoints of the log: its own, and whatever was kept elsewhere.
    pub checkpoints: Vec<PathBuf>,
    /// The directory that the places of artifacts are relative to.
    pub store: Option<PathBuf>,
}

impl FileSource {
    /// The files of a trace as a workspace keeps them, or of its log. A log or checkpoint that is not
    /// there is left out; something else in its place is not, and cannot be read. The log itself has
    /// no other log.
    #[must_use]
    pub fn in_home(home: &Path, events: PathBuf) -> Self {
        // What cannot be looked at is not left out either: opening it says why.
        let is_missing = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        let present = |path: PathBuf| match fs::symlink_metadata(&path) {
            Err(error) if is_missing(&error) => None,
            _ => Some(path),
        };
        let log = present(home.join("log/events.jsonl")).filter(|log| *log != events);
        Self {
            events,
            log,
            checkpoints: present(home.join("log/checkpoint")).into_iter().collect(),
            store: Some(home.to_owned()),
        }
    }
}

/// Opens a regular file for reading. Anything else could block, or never end.
///
/// # Errors
/// If it cannot be opened, or is something else.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // A pipe without a writer is opened at once this way, and then looked at.
    let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, how, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// The bytes of a regular file, of which there may be at most `max`.
///
/// # Errors
/// If it cannot be read, is something else, or is longer.
pub fn read_regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {max} bytes")));
    }
    Ok(bytes)
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    let file = open_regular(path).map_err(|error| {
        io::Error::new(error.kind(), format!("could not read `{}`: {error}", path.display()))
    })?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, file))
}

/// Opens what lies at `place` below `store`. No step below it follows a link, and a pipe is not
/// waited for.
fn open_beneath(store: &Path, place: &str) -> io::Result<StoredArtifact<'static>> {
    let always = OFlags::RDONLY | OFlags::CLOEXEC;
    let dir = always | OFlags::DIRECTORY;
    let mut opened = rustix::fs::open(store, dir, Mode::empty());
    let mut steps = place.split('/').peekable();
    while let (Some(step), Ok(at)) = (steps.next(), &opened) {
        let how = match steps.peek() {
            Some(_) => dir | OFlags::NOFOLLOW,
            None => always | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY,
        };
        opened = rustix::fs::openat(at, step, how, Mode::empty());
    }
    let file = match opened {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(StoredArtifact::Absent),
        // A link, something else than a directory on the way, a socket.
        Err(Errno::LOOP | Errno::MLINK | Errno::NOTDIR | Errno::NXIO | Errno::OPNOTSUPP) => {
            return Ok(StoredArtifact::NotAFile);
        }
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() {
        Ok(StoredArtifact::Bytes(Box::new(file)))
    } else {
        Ok(StoredArtifact::NotAFile)
    }
}

impl Source for FileSource {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(open(&self.events)?))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        match &self.log {
            Some(path) => Ok(Some(Box::new(open(path)?))),
            None => Ok(None),
        }
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut found = Vec::new();
        for path in &self.checkpoints {
            let mut bytes = Vec::new();
            open(path)?.take(CHECKPOINT_BYTES_MAX).read_to_end(&mut bytes)?;
            // A checkpoint is not synced: after power loss an empty file stands for none.
            if !bytes.is_empty() {
                found.push(bytes);
            }
        }
        Ok(found)
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        let Some(store) = &self.store else { return Ok(StoredArtifact::NoStore) };
        let [place, new] = [storage_uri(hash), new_uri(hash)];
        let open = |place: &str| {
            open_beneath(store, place).map_err(|error| {
                let path = store.join(place).display().to_string();
                io::Error::new(error.kind(), format!("could not read `{path}`: {error}"))
            })
        };
        let mut among_new = StoredArtifact::Absent;
        // In its place last, too: it may be taken there between the first look and the second. What is
        // among the new ones by then may be another writer's, who has not written it yet.
        for (place, is_new) in [(&place, false), (&new, true), (&place, false)] {
            match open(place)? {
                StoredArtifact::Absent => {}
                found if is_new => among_new = found,
                found => return Ok(found),
            }
        }
        Ok(among_new)
    }
}
