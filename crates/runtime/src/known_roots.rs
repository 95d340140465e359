//! The roots that the user trusts: `<config>/known_roots`, one fingerprint and label per line.
//!
//! The file is for people to read and edit, so comments and order stay as they are; a line that
//! cannot be read is an error rather than a root that silently counts for nothing.

use std::path::{Path, PathBuf};

use countersign_format::hash::Hash;

use crate::keyring::PrivateFileError;
use crate::keyring::files::{Access, PrivateDir};

/// Bytes of the whole file.
pub const KNOWN_ROOTS_BYTES_MAX: usize = 1 << 20;
/// Bytes of one label.
pub const LABEL_BYTES_MAX: usize = 256;

const FILE_NAME: &str = "known_roots";

/// Why the file could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KnownRootsError {
    /// The file or its directory must not be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// A line is neither empty, nor a comment, nor a root.
    #[error("line {line} of `{}` is not `<fingerprint> <label>`", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The file is not UTF-8.
    #[error("`{}` is not text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A label that would not stay on its line.
    #[error("a label has at most {LABEL_BYTES_MAX} bytes and no control characters")]
    Label,
}

/// A label for a root out of any text, such as the path of its workspace: without control characters, and
/// as long as a label may be. What is too long loses its beginning: the end of a path tells more.
#[must_use]
pub fn label_from(text: &str) -> String {
    const CUT: char = '…';
    let visible = |it: char| if it.is_control() { char::REPLACEMENT_CHARACTER } else { it };
    let label: String = text.trim().chars().map(visible).collect();
    if label.len() <= LABEL_BYTES_MAX {
        return label;
    }
    let from = label.len() + CUT.len_utf8() - LABEL_BYTES_MAX;
    let rest = label.char_indices().filter(|(at, _)| *at >= from).map(|(_, it)| it);
    std::iter::once(CUT).chain(rest).collect()
}

/// A root that the user trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRoot {
    /// Its fingerprint.
    pub fingerprint: Hash,
    /// What the user calls it; may be empty.
    pub label: String,
}

/// The file of trusted roots.
#[derive(Debug, Clone)]
pub struct KnownRoots {
    config: PathBuf,
}

impl KnownRoots {
    /// The file in the directory of settings. Nothing is read yet.
    #[must_use]
    pub fn new(config: &Path) -> Self {
        Self { config: config.to_owned() }
    }

    /// All roots, in the order of the file; none if there is no file.
    ///
    /// # Errors
    /// If others may write to the file, or a line cannot be read.
    pub fn list(&self) -> Result<Vec<KnownRoot>, KnownRootsError> {
        match PrivateDir::open_top(&self.config)? {
            Some(dir) => self.parse(&read(&dir)?),
            None => Ok(Vec::new()),
        }
    }

    /// Whether the user trusts the root with this fingerprint.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn contains(&self, fingerprint: &Hash) -> Result<bool, KnownRootsError> {
        Ok(self.list()?.iter().any(|root| root.fingerprint == *fingerprint))
    }

    /// Trusts a root. One that is there already stays as it is, with its label. When this returns,
    /// the entry survives power loss.
    ///
    /// # Errors
    /// As [`Self::list`], or if the label cannot stand on a line or the file cannot be written.
    pub fn add(&self, fingerprint: &Hash, label: &str) -> Result<(), KnownRootsError> {
        let label = label.trim();
        if label.len() > LABEL_BYTES_MAX || label.contains(char::is_control) {
            return Err(KnownRootsError::Label);
        }
        let dir = PrivateDir::create_top(&self.config)?;
        let _lock = dir.lock()?;
        let bytes = read(&dir)?;
        if self.parse(&bytes)?.iter().any(|root| root.fingerprint == *fingerprint) {
            return Ok(());
        }
        let mut text = self.text(&bytes)?.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(format!("{fingerprint} {label}").trim_end());
        text.push('\n');
        Ok(dir.replace(FILE_NAME, text.as_bytes())?)
    }

    /// Trusts a root no longer, and says whether it was there.
    ///
    /// # Errors
    /// As [`Self::list`], or if the file cannot be written.
    pub fn remove(&self, fingerprint: &Hash) -> Result<bool, KnownRootsError> {
        let Some(dir) = PrivateDir::open_top(&self.config)? else { return Ok(false) };
        let _lock = dir.lock()?;
        let bytes = read(&dir)?;
        if !self.parse(&bytes)?.iter().any(|root| root.fingerprint == *fingerprint) {
            return Ok(false);
        }
        let names_it =
            |line: &str| parse_line(line).is_some_and(|root| root.fingerprint == *fingerprint);
        let kept: String =
            self.text(&bytes)?.split_inclusive('\n').filter(|line| !names_it(line)).collect();
        dir.replace(FILE_NAME, kept.as_bytes())?;
        Ok(true)
    }

    fn path(&self) -> PathBuf {
        self.config.join(FILE_NAME)
    }

    fn text<'b>(&self, bytes: &'b [u8]) -> Result<&'b str, KnownRootsError> {
        std::str::from_utf8(bytes).map_err(|_| KnownRootsError::NotText { path: self.path() })
    }

    fn parse(&self, bytes: &[u8]) -> Result<Vec<KnownRoot>, KnownRootsError> {
        let mut roots = Vec::new();
        for (text, line) in self.text(bytes)?.lines().zip(1..) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let bad = || KnownRootsError::Line { path: self.path(), line };
            roots.push(parse_line(text).ok_or_else(bad)?);
        }
        Ok(roots)
    }
}

fn read(dir: &PrivateDir) -> Result<Vec<u8>, KnownRootsError> {
    let bytes = dir.read(FILE_NAME, KNOWN_ROOTS_BYTES_MAX, Access::Trusted)?;
    Ok(bytes.map(|bytes| bytes.to_vec()).unwrap_or_default())
}

fn parse_line(line: &str) -> Option<KnownRoot> {
    let (fingerprint, label) = match line.trim().split_once(char::is_whitespace) {
        Some((fingerprint, label)) => (fingerprint, label.trim()),
        None => (line.trim(), ""),
    };
    let fingerprint = fingerprint.parse().ok()?;
    (!label.contains(char::is_control)).then(|| KnownRoot { fingerprint, label: label.to_owned() })
}
