//! The members of a container, one after the other.

use std::collections::BTreeSet;
use std::io::Read;

use super::gzip::{GzipHeader, GzipReader};
use super::name::{exact, folded};
use super::pax;
use super::tar::{self, Block, Header};
use super::{BLOCK_BYTES, CapError, CapFault, MEMBERS_MAX, RECORD_BYTES};

const BUFFER_BYTES: usize = 128 << 10;

/// One file in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name, which leads nowhere else.
    pub name: String,
    /// How many bytes it has.
    pub size: u64,
    /// Whether its header is exactly the one that [`CapWriter`](super::CapWriter) writes.
    pub plain: bool,
}

/// Reads a container as a stream. What it gave before it reached the end may still be refused.
pub struct CapReader<R> {
    gzip: GzipReader<R>,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
    /// Bytes of the tar that were given out.
    offset: u64,
    /// Names met, and their folded forms.
    exact: BTreeSet<u128>,
    folded: BTreeSet<u128>,
    current: Member,
    left: u64,
    ended: bool,
}

impl<R> std::fmt::Debug for CapReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { offset, current, left, .. } = self;
        f.debug_struct("CapReader")
            .field("offset", offset)
            .field("current", current)
            .field("left", left)
            .finish_non_exhaustive()
    }
}

impl<R: Read> CapReader<R> {
    /// Reads the gzip header.
    ///
    /// # Errors
    /// There is none, or it says more than it may.
    pub fn open(inner: R) -> Result<Self, CapError> {
        Ok(Self {
            gzip: GzipReader::open(inner)?,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            at: 0,
            filled: 0,
            offset: 0,
            exact: BTreeSet::new(),
            folded: BTreeSet::new(),
            current: Member { name: String::new(), size: 0, plain: true },
            left: 0,
            ended: false,
        })
    }

    /// What stands before the compressed bytes.
    pub const fn gzip_header(&self) -> &GzipHeader {
        self.gzip.header()
    }

    /// The next member; what was not read of the one before is passed over. Nothing at the end,
    /// which was then checked, and everything before it.
    ///
    /// # Errors
    /// The file cannot be read, or is refused.
    pub fn next_member(&mut self) -> Result<Option<Member>, CapError> {
        while self.piece()?.is_some() {}
        if self.ended {
            return Ok(None);
        }
        self.padding()?;
        let offset = self.offset;
        let Some(block) = self.block()? else { return Err(CapFault::NoEnd.into()) };
        if is_zero(&block) {
            self.end()?;
            return Ok(None);
        }
        let (header, block, extended) = match tar::parse(&block, offset)? {
            Header::Extended { size } => {
                let (header, block) = self.extended(offset, size)?;
                (header, block, true)
            }
            header @ Header::File { .. } => (header, block, false),
        };
        let Header::File { name, size } = header else {
            let what = "follows another one".to_owned();
            return Err(CapFault::Extended { offset, what }.into());
        };
        self.meet(&name)?;
        let plain = !extended && tar::plain(&name, size) == Some(block);
        self.left = size;
        self.current = Member { name, size, plain };
        Ok(Some(self.current.clone()))
    }

    /// The next bytes of the member, at least one; nothing at its end.
    ///
    /// # Errors
    /// The file cannot be read, or is refused.
    pub fn piece(&mut self) -> Result<Option<&[u8]>, CapError> {
        if self.left == 0 {
            return Ok(None);
        }
        if !self.fill()? {
            return Err(CapFault::Truncated("last member").into());
        }
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.filled - self.at);
        let start = self.at;
        self.advance(length);
        self.left -= length as u64;
        Ok(self.buffer.get(start..start + length))
    }

    /// The whole of the member, which has at most `max` bytes.
    ///
    /// # Errors
    /// It has more, cannot be read, or is refused.
    pub fn read_member(&mut self, max: u64) -> Result<Vec<u8>, CapError> {
        let Member { name, size, .. } = &self.current;
        if *size > max {
            let (name, size) = (name.clone(), *size);
            return Err(CapFault::MemberTooLong { name, size, max }.into());
        }
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece()? {
            bytes.extend_from_slice(piece);
        }
        Ok(bytes)
    }
}

impl<R: Read> CapReader<R> {
    /// Inflates more if nothing is there; false at the end of the stream.
    fn fill(&mut self) -> Result<bool, CapError> {
        if self.at < self.filled {
            return Ok(true);
        }
        self.at = 0;
        self.filled = self.gzip.read(&mut self.buffer)?;
        Ok(self.filled > 0)
    }

    fn advance(&mut self, length: usize) {
        self.at += length;
        self.offset += length as u64;
    }

    /// Fills `out` as far as the stream goes.
    fn read_into(&mut self, out: &mut [u8]) -> Result<usize, CapError> {
        let mut done = 0;
        while done < out.len() && self.fill()? {
            let room = out.get_mut(done..).unwrap_or_default();
            let there = self.buffer.get(self.at..self.filled).unwrap_or_default();
            let length = room.len().min(there.len());
            for (to, from) in room.iter_mut().zip(there) {
                *to = *from;
            }
            self.advance(length);
            done += length;
        }
        Ok(done)
    }

    /// The next block; nothing if the stream ends before it.
    fn block(&mut self) -> Result<Option<Block>, CapError> {
        let mut block = [0; BLOCK_BYTES];
        match self.read_into(&mut block)? {
            0 => Ok(None),
            BLOCK_BYTES => Ok(Some(block)),
            _ => Err(CapFault::Truncated("last block").into()),
        }
    }

    /// What fills the last block of a member is zero.
    fn padding(&mut self) -> Result<(), CapError> {
        let mut filling = [0; BLOCK_BYTES];
        let length = self.offset.next_multiple_of(BLOCK_BYTES as u64) - self.offset;
        let filling = filling.get_mut(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
        if self.read_into(filling)? < filling.len() {
            return Err(CapFault::Truncated("last member").into());
        }
        match is_zero(filling) {
            true => Ok(()),
            false => Err(CapFault::Padding(self.current.name.clone()).into()),
        }
    }

    /// An extended header of this size, and the header that it belongs to.
    fn extended(&mut self, offset: u64, size: u64) -> Result<(Header, Block), CapError> {
        let refused = |what: String| CapError::from(CapFault::Extended { offset, what });
        if size > pax::EXTENDED_BYTES_MAX {
            return Err(refused(format!("has {size} bytes")));
        }
        let mut body = vec![0; usize::try_from(size).unwrap_or(0)];
        if self.read_into(&mut body)? < body.len() {
            return Err(CapFault::Truncated("extended header").into());
        }
        self.current.name = "extended header".to_owned();
        self.padding()?;
        pax::check(&body).map_err(refused)?;
        let offset = self.offset;
        match self.block()? {
            Some(block) if !is_zero(&block) => Ok((tar::parse(&block, offset)?, block)),
            Some(_) | None => Err(refused("belongs to nothing".to_owned())),
        }
    }

    /// No two members have a name that is the same to anybody.
    fn meet(&mut self, name: &str) -> Result<(), CapFault> {
        if self.exact.len() >= MEMBERS_MAX {
            return Err(CapFault::TooManyMembers(MEMBERS_MAX));
        }
        if !self.exact.insert(exact(name)) {
            return Err(CapFault::Duplicate(name.to_owned()));
        }
        if !self.folded.insert(folded(name)) {
            return Err(CapFault::FoldedDuplicate(name.to_owned()));
        }
        Ok(())
    }

    /// A second block of zeros, at most a record of them, and the end of the stream.
    fn end(&mut self) -> Result<(), CapError> {
        let start = self.offset;
        match self.block()? {
            Some(block) if is_zero(&block) => {}
            Some(_) => return Err(CapFault::AfterEnd(start).into()),
            None => return Err(CapFault::ShortEnd.into()),
        }
        let behind = self.offset;
        while self.fill()? {
            let there = self.buffer.get(self.at..self.filled).unwrap_or_default();
            if let Some(place) = there.iter().position(|&byte| byte != 0) {
                return Err(CapFault::AfterEnd(self.offset + place as u64).into());
            }
            self.advance(there.len());
            if self.offset - behind > RECORD_BYTES {
                return Err(CapFault::LongEnd.into());
            }
        }
        self.ended = true;
        match self.offset % BLOCK_BYTES as u64 {
            0 => Ok(()),
            _ => Err(CapFault::Truncated("last block").into()),
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
