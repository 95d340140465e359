//! Whole lines in a file: what may be appended, what is read, and where the sound lines end.

use countersign_format::json::LINE_BYTES_MAX;

use super::{Head, LedgerId, StoreError, TornTail};
use crate::disk::{DiskError, DiskFile, read_full};

/// Bytes that one append may have. A writer that died can have torn no more than this.
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// How much is read at a time when bytes are only looked at.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Refuses what would not be read back as the same lines. Bytes below a space never occur in
/// canonical JSON, and so mark what was torn: blocks that never reached the disk read as zeros.
pub(super) fn check_lines(ledger: LedgerId, bytes: &[u8]) -> Result<(), StoreError> {
    let refuse = |reason| Err(StoreError::NotLines { ledger, reason });
    if bytes.len() > BATCH_BYTES_MAX {
        return refuse("there are too many bytes for one append");
    }
    let Some(body) = bytes.strip_suffix(b"\n") else {
        return refuse("the last line has no end");
    };
    if body.iter().any(|&byte| !can_occur(byte)) {
        return refuse("a line has a control character");
    }
    for line in body.split(|&byte| byte == b'\n') {
        if line.is_empty() {
            return refuse("a line is empty");
        }
        if line.len() > LINE_BYTES_MAX {
            return refuse("a line is too long");
        }
    }
    Ok(())
}

const fn can_occur(byte: u8) -> bool {
    byte >= b' ' || byte == b'\n'
}

/// Whole lines of `file` from `from`, not beyond `end`: about `max` bytes, at least one line.
pub(super) fn read_lines(
    file: &dyn DiskFile,
    ledger: LedgerId,
    from: u64,
    end: u64,
    max: usize,
) -> Result<Vec<u8>, StoreError> {
    let at = Head::at(from);
    if from > end {
        return Err(StoreError::CutBack { ledger, at });
    }
    if !is_line_start(file, from)? {
        return Err(StoreError::NotALineStart { ledger, at });
    }
    let left = usize::try_from(end - from).unwrap_or(usize::MAX);
    let mut bytes = read_range(file, from, left.min(max))?;
    if let Some(last) = bytes.iter().rposition(|&byte| byte == b'\n') {
        bytes.truncate(last + 1);
        return Ok(bytes);
    }
    // The first line is longer than `max`, or the last has no end.
    bytes = read_range(file, from, left.min(LINE_BYTES_MAX + 1))?;
    if let Some(first) = bytes.iter().position(|&byte| byte == b'\n') {
        bytes.truncate(first + 1);
        return Ok(bytes);
    }
    match last_newline(file, from, end)? {
        Some(_) => Err(StoreError::LineTooLong { ledger, at }),
        None => Ok(Vec::new()),
    }
}

/// Where the whole lines before `end` end.
pub(super) fn whole_end(file: &dyn DiskFile, end: u64) -> Result<u64, DiskError> {
    Ok(last_newline(file, 0, end)?.map_or(0, |at| at + 1))
}

/// Whether a line can start at `at`: at the beginning, or after a line feed.
pub(super) fn is_line_start(file: &dyn DiskFile, at: u64) -> Result<bool, DiskError> {
    let Some(before) = at.checked_sub(1) else { return Ok(true) };
    Ok(read_range(file, before, 1)? == b"\n")
}

/// What a dead writer may have left at the end of a file of `len` bytes, of which the lines up to
/// `sound` are known to be sound.
///
/// Blocks reach the disk in any order, so the last line may be whole while one before it, of the
/// same append, has holes. No append is longer than [`BATCH_BYTES_MAX`]: what lies before that is
/// not torn, whatever it looks like, and must not be cut.
pub(super) fn find_tear(
    file: &dyn DiskFile,
    sound: u64,
    len: u64,
) -> Result<Option<TornTail>, DiskError> {
    let start = sound.max(len.saturating_sub(BATCH_BYTES_MAX as u64));
    let mut line = start;
    let mut in_line = start == sound || is_line_start(file, start)?;
    let mut at = start;
    let mut tear = None;
    'chunks: while at < len {
        let want = usize::try_from(len - at).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let chunk = read_range(file, at, want)?;
        if chunk.is_empty() {
            break;
        }
        for (offset, &byte) in (at..).zip(&chunk) {
            if byte == b'\n' {
                line = offset + 1;
                in_line = true;
            } else if in_line && !can_occur(byte) {
                tear = Some(line);
                break 'chunks;
            }
        }
        at += chunk.len() as u64;
    }
    let end = match tear {
        Some(line) => line,
        None if in_line => line,
        // Not one line feed in more than a whole append: only the last line's start can tell.
        None => whole_end(file, len)?,
    };
    Ok((end < len).then(|| TornTail { at: Head::at(end), bytes: len - end }))
}

fn last_newline(file: &dyn DiskFile, start: u64, end: u64) -> Result<Option<u64>, DiskError> {
    let mut to = end;
    while to > start {
        let from = to.saturating_sub(CHUNK_BYTES as u64).max(start);
        let chunk = read_range(file, from, usize::try_from(to - from).unwrap_or(CHUNK_BYTES))?;
        if let Some(at) = chunk.iter().rposition(|&byte| byte == b'\n') {
            return Ok(Some(from + at as u64));
        }
        to = from;
    }
    Ok(None)
}

pub(super) fn read_range(file: &dyn DiskFile, at: u64, len: usize) -> Result<Vec<u8>, DiskError> {
    let mut bytes = vec![0; len];
    let got = read_full(file, at, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}
