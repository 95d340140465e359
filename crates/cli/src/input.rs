//! Documents that a command is given: a file, or standard input.
//!
//! Never holds more of a document than it may have, so that an endless one does no harm.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use crate::CommandError;

/// Bytes that are read of a document that is too long, to say how long it is, where it is no file.
const COUNTED_BYTES_MAX: u64 = 64 << 20;

/// Where a document comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentSource {
    /// Standard input.
    Stdin,
    /// A file, a pipe or a device.
    File(PathBuf),
}

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its bytes. One that is too long is cut one byte after its limit.
    pub bytes: Vec<u8>,
    /// How many bytes it has, as far as they were counted.
    pub length: usize,
    counted: Counted,
}

/// How far the bytes of a document were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// To its end.
    Whole,
    /// Not to its end, which may be nowhere.
    InPart,
}

impl Document {
    /// How long it is, for a message.
    #[must_use]
    pub fn size(&self) -> String {
        match self.counted {
            Counted::Whole => format!("{} bytes", self.length),
            Counted::InPart => format!("more than {} bytes", self.length),
        }
    }
}

impl DocumentSource {
    /// The source that an optional argument names: none, or `-`, is standard input.
    #[must_use]
    pub fn from_argument(argument: Option<&PathBuf>) -> Self {
        match argument {
            Some(path) if path.as_os_str() != "-" => Self::File(path.clone()),
            _ => Self::Stdin,
        }
    }

    /// Reads a document that may have `max` bytes.
    pub fn read(&self, max: usize) -> Result<Document, CommandError> {
        let read = match self {
            Self::Stdin => read_up_to(io::stdin().lock(), max, given_file()),
            Self::File(path) => File::open(path).and_then(|file| {
                // Anything but a directory can be read: a pipe is what a shell's `<(…)` gives.
                if file.metadata()?.is_dir() {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                let rest = rest_of(&file);
                read_up_to(file, max, rest)
            }),
        };
        read.map_err(|error| CommandError::failed_doing(format!("cannot read {self}"), error))
    }
}

impl fmt::Display for DocumentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}

/// The bytes that are left of the file that standard input is, if it is one.
fn given_file() -> Option<u64> {
    let given = io::stdin().as_fd().try_clone_to_owned().ok()?;
    rest_of(&File::from(given))
}

/// The bytes behind the place at which `file` is read; none where only reading can tell.
fn rest_of(mut file: &File) -> Option<u64> {
    let found = file.metadata().ok()?;
    if !found.is_file() {
        return None;
    }
    let at = file.stream_position().ok()?;
    // Files that the system makes up while they are read have no length.
    found.len().checked_sub(at).filter(|rest| *rest > 0)
}

/// Reads a document that may have `max` bytes, and has `known` ones if that is known.
fn read_up_to(mut reader: impl Read, max: usize, known: Option<u64>) -> io::Result<Document> {
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    reader.by_ref().take(limit).read_to_end(&mut bytes)?;
    let mut document = Document { length: bytes.len(), bytes, counted: Counted::Whole };
    if document.length <= max {
        return Ok(document);
    }
    let known = known.and_then(|bytes| usize::try_from(bytes).ok());
    if let Some(known) = known.filter(|known| *known >= document.length) {
        document.length = known;
        return Ok(document);
    }
    let rest = io::copy(&mut reader.take(COUNTED_BYTES_MAX + 1), &mut io::sink())?;
    if rest > COUNTED_BYTES_MAX {
        document.counted = Counted::InPart;
    }
    let rest = usize::try_from(rest.min(COUNTED_BYTES_MAX)).unwrap_or(usize::MAX);
    document.length = document.length.saturating_add(rest);
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept and what is said of a document of `given` bytes.
    fn read(given: u64, max: usize, known: Option<u64>) -> (usize, String) {
        let read = read_up_to(io::repeat(b'x').take(given), max, known).unwrap();
        (read.bytes.len(), read.size())
    }

    #[test]
    fn a_document_that_is_too_long_is_counted_but_not_kept() {
        assert_eq!(read(10, 10, None), (10, "10 bytes".to_owned()));
        assert_eq!(read(11, 10, None), (11, "11 bytes".to_owned()));
        assert_eq!(read(5000, 10, None), (11, "5000 bytes".to_owned()));
        let most = 11 + COUNTED_BYTES_MAX;
        assert_eq!(read(most, 10, None), (11, format!("{most} bytes")));
        assert_eq!(read(most + 1, 10, None), (11, format!("more than {most} bytes")));
        assert_eq!(read(u64::MAX, 10, None), (11, format!("more than {most} bytes")));
    }

    #[test]
    fn the_length_of_a_file_needs_no_counting() {
        assert_eq!(read(11, 10, Some(1 << 40)), (11, format!("{} bytes", 1_u64 << 40)));
        // It may have grown since.
        assert_eq!(read(5000, 10, Some(7)), (11, "5000 bytes".to_owned()));
        assert_eq!(read(10, 10, Some(1 << 40)), (10, "10 bytes".to_owned()));
    }

    #[test]
    fn a_dash_and_nothing_are_standard_input() {
        assert_eq!(DocumentSource::from_argument(None), DocumentSource::Stdin);
        assert_eq!(DocumentSource::from_argument(Some(&"-".into())), DocumentSource::Stdin);
        assert_eq!(
            DocumentSource::from_argument(Some(&"./-".into())),
            DocumentSource::File("./-".into())
        );
    }
}
