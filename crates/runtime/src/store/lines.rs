//! Whole lines in a file: what may be appended, what is read, and where the sound lines end.

use countersign_format::json::LINE_BYTES_MAX;

use super::{Head, LedgerId, StoreError, TornTail};
use crate::disk::{DiskError, DiskFile, read_full};

/// Bytes that one append may have. A writer that died can have torn no more than this.
pub const BATCH_BYTES_MAX: usize = 2 << 20;

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
    if has_bad(body) {
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

/// Whether some byte cannot occur in a line. It looks at all of them, because a loop that does not
/// stop early is several times as fast, and almost always there is none.
fn has_bad(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |bad, &byte| bad | !can_occur(byte))
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
    let mut at = start;
    // The line that is under way at `start` began before it, and is as old.
    let mut skipping = start > sound && !is_line_start(file, start)?;
    while at < len {
        let want = usize::try_from(len - at).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let mut chunk = read_range(file, at, want)?;
        if chunk.is_empty() {
            break;
        }
        if skipping {
            let old =
                chunk.iter().position(|&byte| byte == b'\n').map_or(chunk.len(), |end| end + 1);
            skipping = old == chunk.len() && chunk.last() != Some(&b'\n');
            chunk.drain(..old);
            at += old as u64;
            line = at;
        }
        let bad =
            if has_bad(&chunk) { chunk.iter().position(|&byte| !can_occur(byte)) } else { None };
        let sound_part = chunk.get(..bad.unwrap_or(chunk.len())).unwrap_or_default();
        if let Some(end) = sound_part.iter().rposition(|&byte| byte == b'\n') {
            line = at + end as u64 + 1;
        }
        if bad.is_some() {
            break;
        }
        at += chunk.len() as u64;
    }
    // Not one line feed in more than a whole append: only the last line's start can tell.
    let end = if skipping { whole_end(file, len)? } else { line };
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
