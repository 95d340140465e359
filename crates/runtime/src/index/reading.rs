//! Reading the events of a trace from some place on, up to the length that it had when looked at.
//!
//! Leaves out what the events come to. What is no whole line yet is left for the next time.

use std::io::{self, BufReader, Read};

use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json::LINE_BYTES_MAX;
use countersign_verify::{Lines, RawLine};

use crate::disk::{DiskError, DiskFile, read_full};
use crate::replica;
use crate::store::LedgerId;

/// What comes next in a trace.
#[derive(Debug)]
pub(super) enum Next {
    /// An event, and the bytes of its line.
    Event(Box<Event>, u64),
    /// A line that is no event of this trace. Nothing behind it is read.
    Bad(String),
    /// No whole line.
    End,
}

/// The events of a part of a trace.
#[derive(Debug)]
pub(super) struct Events<'a> {
    ledger: LedgerId,
    lines: Lines<BufReader<Part<'a>>>,
}

impl<'a> Events<'a> {
    /// Those of the trace `id` between two places in its file.
    pub(super) fn between(file: &'a dyn DiskFile, id: Ulid, from: u64, end: u64) -> Self {
        let part = Part { file, at: from, end };
        Self { ledger: LedgerId::Trace(id), lines: Lines::new(BufReader::new(part)) }
    }

    pub(super) fn next(&mut self) -> io::Result<Next> {
        let line = match self.lines.next_line()? {
            Some(RawLine::Complete(line)) => line,
            None | Some(RawLine::Unterminated(_)) => return Ok(Next::End),
            Some(RawLine::TooLong | RawLine::Endless) => {
                return Ok(Next::Bad("the line is longer than an event may be".to_owned()));
            }
        };
        let event = replica::read(line)
            .and_then(|event| replica::belongs(self.ledger, &event).map(|()| event));
        Ok(match event {
            Ok(event) => Next::Event(Box::new(event), line.len() as u64 + 1),
            Err(what) => Next::Bad(what),
        })
    }
}

/// Whether the line between two places is the event with this hash. The hash covers everything
/// before it, so one line tells.
pub(super) fn is_line(
    file: &dyn DiskFile,
    from: u64,
    end: u64,
    hash: &Hash,
) -> Result<bool, DiskError> {
    let length = end.checked_sub(from).and_then(|length| usize::try_from(length).ok());
    let Some(length) = length.filter(|&length| length <= LINE_BYTES_MAX + 1) else {
        return Ok(false);
    };
    let mut line = vec![0; length];
    if read_full(file, from, &mut line)? != length {
        return Ok(false);
    }
    let line = line.strip_suffix(b"\n").map(replica::read);
    Ok(line.is_some_and(|read| read.is_ok_and(|event| event.event_hash == *hash)))
}

/// The bytes of a file between two places.
#[derive(Debug)]
struct Part<'a> {
    file: &'a dyn DiskFile,
    at: u64,
    end: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let room = left.min(into.len());
        let got = match into.get_mut(..room) {
            None | Some([]) => 0,
            Some(room) => self.file.read_at(self.at, room).map_err(io::Error::other)?,
        };
        self.at += got as u64;
        Ok(got)
    }
}
