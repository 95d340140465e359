//! What a tool prints: the first bytes are kept, the rest is counted.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// How much is read at once.
const READ_BYTES: usize = 64 << 10;
/// How often it is read before others get their turn.
const READS_MAX: usize = 16;

/// One of the two outputs of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stream {
    /// The first bytes, as they came.
    pub bytes: Vec<u8>,
    /// How many more there were.
    pub dropped: u64,
}

impl Stream {
    /// A stream of this text.
    pub(crate) fn of(text: impl Into<Vec<u8>>) -> Self {
        Self { bytes: text.into(), dropped: 0 }
    }

    fn add(&mut self, bytes: &[u8], limit: u64) {
        let room = limit.saturating_sub(self.bytes.len() as u64);
        let kept = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        self.bytes.extend_from_slice(bytes.get(..kept).unwrap_or_default());
        self.dropped += (bytes.len() - kept) as u64;
    }
}

/// A pipe that is emptied into a [`Stream`].
#[derive(Debug)]
pub(crate) struct Drain {
    pipe: Option<OwnedFd>,
    stream: Stream,
    limit: u64,
}

impl Drain {
    /// Keeps at most `limit` bytes of what comes through `pipe`, which will not block any more.
    pub(crate) fn new(pipe: OwnedFd, limit: u64) -> std::io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&pipe)?;
        rustix::fs::fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?;
        Ok(Self { pipe: Some(pipe), stream: Stream::default(), limit })
    }

    /// What can be waited for; None when all was read.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is there, and shows it to `see` before it is kept or dropped.
    pub(crate) fn read(&mut self, see: impl Fn(&[u8])) {
        let mut chunk = vec![0; READ_BYTES];
        for _ in 0..READS_MAX {
            let Some(pipe) = &self.pipe else { return };
            match rustix::io::read(pipe, &mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let bytes = chunk.get(..count).unwrap_or_default();
                    see(bytes);
                    self.stream.add(bytes, self.limit);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // What cannot be read any more has ended.
                Err(_) => self.pipe = None,
            }
        }
    }

    /// What was read.
    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_are_kept_and_the_rest_is_counted() {
        let (read, write) = std::io::pipe().unwrap();
        let mut drain = Drain::new(read.into(), 5).unwrap();
        drain.read(|_| {});
        rustix::io::write(&write, b"abc").unwrap();
        drain.read(|_| {});
        rustix::io::write(&write, b"defg").unwrap();
        drain.read(|_| {});
        assert!(drain.descriptor().is_some());
        drop(write);
        drain.read(|_| {});
        assert!(drain.descriptor().is_none());
        assert_eq!(drain.into_stream(), Stream { bytes: b"abcde".to_vec(), dropped: 2 });
    }
}
