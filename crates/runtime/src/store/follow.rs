//! Following a ledger: reading what comes, and noticing when what was read is taken back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::Inner;
use super::lines::{read_lines, read_range};
use super::{Follower, Head, LedgerId, StoreError};
use crate::disk::DiskFile;
use crate::watch::Backoff;

/// About how much is returned at a time.
const FOLLOW_BYTES: usize = 1 << 20;

/// A reader of one ledger on files.
#[derive(Debug)]
pub(super) struct FileFollower {
    inner: Arc<Inner>,
    id: LedgerId,
    at: u64,
    /// The last line that was returned. Lines that were taken back may have been followed by others
    /// of the same length; this is how that is noticed.
    last: Vec<u8>,
    file: Option<Box<dyn DiskFile>>,
}

impl FileFollower {
    pub(super) fn new(inner: Arc<Inner>, id: LedgerId, from: Head) -> Self {
        Self { inner, id, at: from.bytes, last: Vec::new(), file: None }
    }

    fn new_lines(&mut self) -> Result<Vec<u8>, StoreError> {
        let cut_back = StoreError::CutBack { ledger: self.id, at: Head::at(self.at) };
        let kept = match self.file.take() {
            Some(file) => file.stat().ok().filter(|found| found.linked).map(|found| (file, found)),
            None => None,
        };
        let (file, found) = match kept {
            Some(kept) => kept,
            None => match self.inner.open_ledger(self.id)? {
                Some(file) => {
                    let found = file.stat()?;
                    (file, found)
                }
                None if self.at == 0 => return Ok(Vec::new()),
                None => return Err(cut_back),
            },
        };
        if found.len < self.at {
            return Err(cut_back);
        }
        let mut lines = Vec::new();
        if found.len > self.at {
            let before = self.at - self.last.len() as u64;
            if read_range(&*file, before, self.last.len())? != self.last {
                return Err(cut_back);
            }
            lines = read_lines(&*file, self.id, self.at, found.len, FOLLOW_BYTES)?;
        }
        self.file = Some(file);
        if let Some(body) = lines.strip_suffix(b"\n") {
            self.at += lines.len() as u64;
            let start = body.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            self.last = lines.get(start..).unwrap_or_default().to_vec();
        }
        Ok(lines)
    }
}

impl Follower for FileFollower {
    fn next(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        let until = Instant::now().checked_add(timeout);
        let mut backoff = Backoff::new(self.inner.is_watched());
        loop {
            // Counted before looking, so that what comes after looking is not waited for.
            let seen = self.inner.signal.count();
            let lines = self.new_lines()?;
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
            let left =
                until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            self.inner.signal.wait(seen, left.min(backoff.step()));
        }
    }

    fn head(&self) -> Head {
        Head::at(self.at)
    }
}
