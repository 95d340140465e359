//! The descriptor on which a program can signal, apart from all that it prints.
//!
//! A pipe whose writing end the program inherits; what comes through it is passed on to the recorder.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::{Errno, FdFlags};

use super::line::Line;
use super::order::Report;

/// How much is read at once.
const READ_BYTES: usize = 16 << 10;
/// Bytes that are passed on; whoever signals more is not understood anyway.
pub(super) const SIGNAL_BYTES_MAX: usize = 512 << 10;

/// The reading end.
#[derive(Debug)]
pub(super) struct Channel {
    pipe: Option<OwnedFd>,
    passed: usize,
}

impl Channel {
    /// Both ends. Whatever is started inherits the second, until that is dropped.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (read, write) = io::pipe()?;
        let (read, write) = (OwnedFd::from(read), OwnedFd::from(write));
        let flags = rustix::fs::fcntl_getfl(&read)?;
        rustix::fs::fcntl_setfl(&read, flags | OFlags::NONBLOCK)?;
        rustix::io::fcntl_setfd(&write, FdFlags::empty())?;
        Ok((Self { pipe: Some(read), passed: 0 }, write))
    }

    /// What names the writing end to a program.
    pub(super) fn number(write: &OwnedFd) -> String {
        write.as_raw_fd().to_string()
    }

    /// What can be waited for; None when all was read.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Passes on what is there.
    pub(super) fn pass_on(&mut self, line: &mut Line) -> io::Result<()> {
        let mut chunk = vec![0; READ_BYTES];
        while let Some(pipe) = &self.pipe {
            match rustix::io::read(pipe, &mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let room = SIGNAL_BYTES_MAX.saturating_sub(self.passed).min(count);
                    self.passed += room;
                    let bytes = chunk.get(..room).unwrap_or_default();
                    if !bytes.is_empty() {
                        line.send(&Report::Signal(bytes.to_vec()))?;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // What cannot be read any more has ended.
                Err(_) => self.pipe = None,
            }
        }
        Ok(())
    }
}
