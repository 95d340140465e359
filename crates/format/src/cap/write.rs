//! Writing a container: the same members give the same bytes.

use std::io::{self, Seek, SeekFrom, Write};

use flate2::{Compress, Compression, Crc, FlushCompress};
use sha2::{Digest as _, Sha256};

use super::gzip::GzipHeader;
use super::name::check_name;
use super::tar;
use super::{BLOCK_BYTES, INFLATED_FREE, MEMBERS_MAX, RATIO_MAX};
use crate::hash::Hash;

const OUTPUT_BYTES: usize = 64 << 10;
/// Bytes that are compressed, or stored, as one.
const PIECE_BYTES: usize = 32 << 10;

/// Writes a container as a stream. The header is written again at the end, with the hash of all that
/// is behind it, so that no byte of the file can change without a trace.
pub struct CapWriter<W> {
    inner: W,
    compress: Compress,
    crc: Crc,
    seal: Sha256,
    /// Bytes written behind the header.
    written: u64,
    /// Bytes that went in.
    taken: u64,
    output: Vec<u8>,
    /// What is not compressed yet.
    piece: Vec<u8>,
    current: String,
    left: u64,
    members: usize,
}

impl<W> std::fmt::Debug for CapWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { written, taken, members, .. } = self;
        f.debug_struct("CapWriter")
            .field("written", written)
            .field("taken", taken)
            .field("members", members)
            .finish_non_exhaustive()
    }
}

impl<W: Write + Seek> CapWriter<W> {
    /// Begins a container at the beginning of `inner`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(mut inner: W) -> io::Result<Self> {
        inner.write_all(&GzipHeader::sealed(&Hash::GENESIS))?;
        Ok(Self {
            inner,
            // One level for all: another one would give other bytes.
            compress: Compress::new(Compression::new(6), false),
            crc: Crc::new(),
            seal: Sha256::new(),
            written: 0,
            taken: 0,
            output: Vec::with_capacity(OUTPUT_BYTES),
            piece: Vec::with_capacity(PIECE_BYTES),
            current: String::new(),
            left: 0,
            members: 0,
        })
    }

    /// Begins a member of exactly `size` bytes.
    ///
    /// # Errors
    /// The one before is not whole, a reader would refuse this one, or it cannot be written.
    pub fn member(&mut self, name: &str, size: u64) -> io::Result<()> {
        self.end_member()?;
        if let Err(fault) = check_name(name) {
            return Err(refused(format!("member `{name}`: the name {fault}")));
        }
        self.members += 1;
        if self.members > MEMBERS_MAX {
            return Err(refused(format!("more than {MEMBERS_MAX} members")));
        }
        let Some(header) = tar::plain(name, size) else {
            return Err(refused(format!("member `{name}` of {size} bytes has no tar header")));
        };
        self.put(&header)?;
        name.clone_into(&mut self.current);
        self.left = size;
        Ok(())
    }

    /// The next bytes of the member.
    ///
    /// # Errors
    /// They are more than was said, or cannot be written.
    pub fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(refused(format!("member `{}` has more bytes than was said", self.current)));
        };
        self.left = left;
        self.put(bytes)
    }

    /// A whole member.
    ///
    /// # Errors
    /// As [`Self::member`].
    pub fn whole(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.member(name, bytes.len() as u64)?;
        self.data(bytes)
    }

    /// Ends the container and says how many bytes it has.
    ///
    /// # Errors
    /// The last member is not whole, or it cannot be written.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.end_member()?;
        self.put(&[0; 2 * BLOCK_BYTES])?;
        self.flush_piece()?;
        self.deflate(&[], FlushCompress::Finish)?;
        let mut trailer = self.crc.sum().to_le_bytes().to_vec();
        trailer.extend_from_slice(&self.crc.amount().to_le_bytes());
        self.emit(&trailer)?;
        let seal = Hash::from_bytes(self.seal.finalize().into());
        let header = GzipHeader::sealed(&seal);
        self.inner.seek(SeekFrom::Start(0))?;
        self.inner.write_all(&header)?;
        let length = self.written + header.len() as u64;
        self.inner.seek(SeekFrom::Start(length))?;
        self.inner.flush()?;
        Ok((self.inner, length))
    }

    fn end_member(&mut self) -> io::Result<()> {
        if self.left > 0 {
            let (name, left) = (&self.current, self.left);
            return Err(refused(format!("member `{name}` lacks {left} of its bytes")));
        }
        let taken = self.taken + self.piece.len() as u64;
        let filling = taken.next_multiple_of(BLOCK_BYTES as u64) - taken;
        self.put([0; BLOCK_BYTES].get(..usize::try_from(filling).unwrap_or(0)).unwrap_or_default())
    }

    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = PIECE_BYTES - self.piece.len();
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE_BYTES {
                self.flush_piece()?;
            }
        }
        Ok(())
    }

    /// Compresses what is there, or stores it where so much repeats itself that a reader would take
    /// the file for a bomb. Both limits are met with half of what a reader allows.
    fn flush_piece(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        self.crc.update(&piece);
        self.taken += piece.len() as u64;
        let enough = self.taken / (RATIO_MAX / 2) <= self.written;
        if enough || self.taken <= INFLATED_FREE / 2 {
            self.deflate(&piece, FlushCompress::None)?;
        } else {
            // From a full flush on, nothing refers to what was before: bytes may be put between.
            self.deflate(&[], FlushCompress::Full)?;
            let length = u16::try_from(piece.len()).unwrap_or(0);
            let [low, high] = length.to_le_bytes();
            self.emit(&[0, low, high, !low, !high])?;
            self.emit(&piece)?;
        }
        self.piece = piece;
        self.piece.clear();
        Ok(())
    }

    fn deflate(&mut self, mut bytes: &[u8], flush: FlushCompress) -> io::Result<()> {
        loop {
            let mut output = std::mem::take(&mut self.output);
            output.clear();
            let before = self.compress.total_in();
            let done = self.compress.compress_vec(bytes, &mut output, flush);
            done.map_err(io::Error::other)?;
            let taken = usize::try_from(self.compress.total_in() - before).unwrap_or(0);
            bytes = bytes.get(taken..).unwrap_or_default();
            self.emit(&output)?;
            let full = output.len() == output.capacity();
            self.output = output;
            // Room that was left says that everything was given out.
            if bytes.is_empty() && !full {
                return Ok(());
            }
        }
    }

    fn emit(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.seal.update(bytes);
        self.written += bytes.len() as u64;
        self.inner.write_all(bytes)
    }
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
