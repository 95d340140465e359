//! Documents that a command is given: a file, or standard input.
//!
//! Never holds more of a document than it may have, so that an endless one does no harm.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use crate::CommandError;

/// Bytes up to which the length of a document that is too long is found out, for the message.
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
    /// How many bytes it has altogether, or at least has.
    pub length: usize,
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
            Self::Stdin => read_up_to(io::stdin().lock(), max),
            Self::File(path) => File::open(path).and_then(|file| {
                // Anything but a directory can be read: a pipe is what a shell's `<(…)` gives.
                if file.metadata()?.is_dir() {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                read_up_to(file, max)
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

fn read_up_to(mut reader: impl Read, max: usize) -> io::Result<Document> {
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    reader.by_ref().take(limit).read_to_end(&mut bytes)?;
    let mut length = bytes.len();
    if length > max {
        let rest = io::copy(&mut reader.take(COUNTED_BYTES_MAX), &mut io::sink())?;
        length = length.saturating_add(usize::try_from(rest).unwrap_or(usize::MAX));
    }
    Ok(Document { bytes, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_is_too_long_is_counted_but_not_kept() {
        let read = |given: u64, max| read_up_to(io::repeat(b'x').take(given), max).unwrap();
        assert_eq!(read(10, 10), Document { bytes: vec![b'x'; 10], length: 10 });
        assert_eq!(read(11, 10), Document { bytes: vec![b'x'; 11], length: 11 });
        assert_eq!(read(5000, 10), Document { bytes: vec![b'x'; 11], length: 5000 });
        assert_eq!(read_up_to(io::repeat(b'x'), 10).unwrap().length, 11 + (64 << 20));
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
