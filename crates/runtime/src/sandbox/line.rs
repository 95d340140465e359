//! The line between the recorder and the process that enters a sandbox: a socket on the latter's
//! standard input, whose end tells either side that the other is gone.
//!
//! Each message is its length in four bytes and JSON.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of one message. Arguments, environment and standard input are all in one.
const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// How much is read at once.
const READ_BYTES: usize = 16 << 10;

/// One end of the line.
#[derive(Debug)]
pub(crate) struct Line {
    stream: UnixStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// How much of `outgoing` is sent.
    sent: usize,
    ended: bool,
}

impl Line {
    /// The recorder's end, which never blocks, and what becomes the standard input of the other.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((Self::of(ours), theirs.into()))
    }

    /// The end that a process got as its standard input. It blocks.
    pub(crate) fn from_stdin() -> io::Result<Self> {
        // A copy is closed on exec, so that no program inherits it.
        Ok(Self::of(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?)))
    }

    const fn of(stream: UnixStream) -> Self {
        Self { stream, incoming: Vec::new(), outgoing: Vec::new(), sent: 0, ended: false }
    }

    /// What can be waited for.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether the other side is gone, and all that it said was taken.
    pub(crate) const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether something waits to be sent.
    pub(crate) const fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Says that nothing more will come: the other side ends all that it started.
    pub(crate) fn close(&mut self) {
        self.forget_outgoing();
        // It fails if the other side is gone, which is what is wanted.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Puts a message behind those that wait to be sent.
    pub(crate) fn queue(&mut self, message: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
        checked(length)?;
        self.outgoing.extend_from_slice(&length);
        self.outgoing.extend_from_slice(&bytes);
        Ok(())
    }

    /// Sends what can be sent without waiting. Whether the other side still listens shows in what
    /// it says.
    pub(crate) fn flush(&mut self) {
        while let Some(rest) = self.outgoing.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => break,
            }
        }
        self.forget_outgoing();
    }

    fn forget_outgoing(&mut self) {
        self.outgoing.clear();
        self.sent = 0;
    }

    /// Sends a message and waits until it is sent.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.queue(message)?;
        let bytes = std::mem::take(&mut self.outgoing);
        self.stream.write_all(&bytes)
    }

    /// The next message, if all of it is there. Reads once at most.
    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        if let Some(message) = self.take()? {
            return Ok(Some(message));
        }
        let mut chunk = vec![0; READ_BYTES];
        match self.stream.read(&mut chunk) {
            Ok(0) => self.ended = true,
            Ok(count) => self.incoming.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.ended = true,
            Err(error) => return Err(error),
        }
        self.take()
    }

    /// Waits for the next message, and takes nothing behind it: another process may read that.
    /// None if the other side is gone.
    pub(crate) fn wait<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            done => done?,
        }
        let mut bytes = vec![0; checked(length)?];
        self.stream.read_exact(&mut bytes)?;
        Ok(Some(serde_json::from_slice(&bytes)?))
    }

    fn take<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some((length, rest)) = self.incoming.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = checked(*length)?;
        let Some(bytes) = rest.get(..length) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(bytes)?;
        self.incoming.drain(..4 + length);
        Ok(Some(message))
    }
}

fn checked(length: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        let message = format!("message of {length} bytes, the limit is {MESSAGE_BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (Line, Line) {
        let (ours, theirs) = Line::pair().unwrap();
        (ours, Line::of(UnixStream::from(theirs)))
    }

    #[test]
    fn messages_arrive_one_by_one_and_in_order() {
        let (mut recorder, mut inside) = ends();
        recorder.queue(&"one").unwrap();
        recorder.queue(&"two").unwrap();
        recorder.flush();
        assert!(!recorder.has_outgoing());
        assert_eq!(inside.wait::<String>().unwrap().as_deref(), Some("one"));
        assert_eq!(inside.wait::<String>().unwrap().as_deref(), Some("two"));
        inside.send(&1).unwrap();
        inside.send(&2).unwrap();
        drop(inside);
        assert_eq!(recorder.receive::<i32>().unwrap(), Some(1));
        assert_eq!(recorder.receive::<i32>().unwrap(), Some(2));
        assert!(!recorder.is_ended());
        assert_eq!(recorder.receive::<i32>().unwrap(), None);
        assert!(recorder.is_ended());
    }

    #[test]
    fn nothing_is_waited_for_that_has_not_come() {
        let (mut recorder, _inside) = ends();
        assert_eq!(recorder.receive::<i32>().unwrap(), None);
        assert!(!recorder.is_ended());
        recorder.queue(&"x".repeat(4 << 20)).unwrap();
        recorder.flush();
        assert!(recorder.has_outgoing());
    }

    #[test]
    fn whoever_waits_learns_that_the_other_is_gone() {
        let (mut recorder, mut inside) = ends();
        recorder.close();
        assert_eq!(inside.wait::<String>().unwrap(), None);
    }

    #[test]
    fn a_message_beyond_all_bounds_is_refused() {
        let (recorder, mut inside) = ends();
        (&recorder.stream).write_all(&[0xff; 8]).unwrap();
        let refused = inside.wait::<String>().unwrap_err().to_string();
        assert_eq!(refused, "message of 4294967295 bytes, the limit is 268435456");
    }
}
