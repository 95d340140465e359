//! One gzip stream, inflated in pieces, with nothing behind it.

use std::io::{self, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};
use sha2::{Digest as _, Sha256};

use super::{CAP_MAGIC, CapError, CapFault, INFLATED_FREE, RATIO_MAX, SEAL_PREFIX};
use crate::hash::Hash;

const INPUT_BYTES: usize = 64 << 10;
const TEXT_BYTES_MAX: usize = 255;

const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;

/// What stands before the compressed bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GzipHeader {
    /// A time, in seconds since 1970.
    pub mtime: u32,
    /// How hard the writer tried.
    pub effort: u8,
    /// The writer's system; 255 is unknown.
    pub system: u8,
    /// A file's name.
    pub name: Option<Vec<u8>>,
    /// Anything.
    pub comment: Option<Vec<u8>>,
}

impl GzipHeader {
    /// The hash of everything behind the header, where the header is that of a file of ours.
    #[must_use]
    pub fn seal(&self) -> Option<Hash> {
        let plain = self.mtime == 0 && self.effort == 0 && self.system == 255;
        let comment = self.comment.as_deref().filter(|_| plain && self.name.is_none())?;
        std::str::from_utf8(comment).ok()?.strip_prefix(SEAL_PREFIX)?.parse().ok()
    }

    /// The header of a file of ours.
    pub(super) fn sealed(seal: &Hash) -> Vec<u8> {
        let [one, two, method] = CAP_MAGIC;
        let mut bytes = vec![one, two, method, FLAG_COMMENT, 0, 0, 0, 0, 0, 255];
        bytes.extend_from_slice(SEAL_PREFIX.as_bytes());
        bytes.extend_from_slice(seal.to_hex().as_bytes());
        bytes.push(0);
        bytes
    }
}

/// Inflates one stream. What was read before its end was not checked yet.
pub(super) struct GzipReader<R> {
    inner: R,
    input: Box<[u8]>,
    at: usize,
    filled: usize,
    header: GzipHeader,
    header_bytes: u64,
    inflate: Decompress,
    crc: Crc,
    /// Hashes what is behind the header, where the header says what that comes to.
    seal: Option<(Hash, Sha256)>,
    ended: bool,
}

impl<R: Read> GzipReader<R> {
    pub(super) fn open(inner: R) -> Result<Self, CapError> {
        let mut reader = Self {
            inner,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            at: 0,
            filled: 0,
            header: GzipHeader::default(),
            header_bytes: 0,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            seal: None,
            ended: false,
        };
        reader.read_header()?;
        reader.seal = reader.header.seal().map(|seal| (seal, Sha256::new()));
        Ok(reader)
    }

    pub(super) const fn header(&self) -> &GzipHeader {
        &self.header
    }

    fn available(&self) -> &[u8] {
        self.input.get(self.at..self.filled).unwrap_or_default()
    }

    /// Reads more if nothing is there; false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at < self.filled {
            return Ok(true);
        }
        self.at = 0;
        self.filled = loop {
            match self.inner.read(&mut self.input) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        Ok(self.filled > 0)
    }

    fn byte(&mut self, within: &'static str) -> Result<u8, CapError> {
        if !self.fill()? {
            return Err(CapFault::Truncated(within).into());
        }
        let byte = self.available().first().copied().unwrap_or_default();
        self.at += 1;
        Ok(byte)
    }

    fn header_byte(&mut self) -> Result<u8, CapError> {
        self.header_bytes += 1;
        self.byte("gzip header")
    }

    fn read_header(&mut self) -> Result<(), CapError> {
        for wanted in CAP_MAGIC {
            if !self.fill()? || self.header_byte()? != wanted {
                return Err(CapFault::NotGzip.into());
            }
        }
        let flags = self.header_byte()?;
        if flags & !(FLAG_NAME | FLAG_COMMENT) != 0 {
            return Err(CapFault::GzipFlags(flags).into());
        }
        let mut time = [0; 4];
        for byte in &mut time {
            *byte = self.header_byte()?;
        }
        self.header.mtime = u32::from_le_bytes(time);
        self.header.effort = self.header_byte()?;
        self.header.system = self.header_byte()?;
        if flags & FLAG_NAME != 0 {
            self.header.name = Some(self.header_text("name")?);
        }
        if flags & FLAG_COMMENT != 0 {
            self.header.comment = Some(self.header_text("comment")?);
        }
        Ok(())
    }

    fn header_text(&mut self, what: &'static str) -> Result<Vec<u8>, CapError> {
        let mut text = Vec::new();
        loop {
            match self.header_byte()? {
                0 => return Ok(text),
                _ if text.len() == TEXT_BYTES_MAX => return Err(CapFault::GzipText(what).into()),
                byte => text.push(byte),
            }
        }
    }

    /// Inflates into `out`, which is not empty; 0 at the end, which was then checked.
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, CapError> {
        if self.ended {
            return Ok(0);
        }
        loop {
            let more = self.fill()?;
            let (before_in, before_out) = (self.inflate.total_in(), self.inflate.total_out());
            let input = self.input.get(self.at..self.filled).unwrap_or_default();
            let inflated = self.inflate.decompress(input, out, FlushDecompress::None);
            let Ok(status) = inflated else {
                return Err(CapFault::Corrupt { inflated: before_out }.into());
            };
            let taken = usize::try_from(self.inflate.total_in() - before_in).unwrap_or(0);
            let given = usize::try_from(self.inflate.total_out() - before_out).unwrap_or(0);
            if let Some((_, hasher)) = &mut self.seal {
                hasher.update(input.get(..taken).unwrap_or_default());
            }
            self.at += taken;
            self.crc.update(out.get(..given).unwrap_or_default());
            self.refuse_bomb()?;
            if status == Status::StreamEnd {
                self.end()?;
                return Ok(given);
            }
            if given > 0 {
                return Ok(given);
            }
            if taken == 0 {
                let inflated = before_out;
                return Err(match more {
                    true => CapFault::Corrupt { inflated },
                    false => CapFault::Truncated("compressed bytes"),
                }
                .into());
            }
        }
    }

    fn refuse_bomb(&self) -> Result<(), CapFault> {
        let (inflated, consumed) = (self.inflate.total_out(), self.consumed());
        if inflated > INFLATED_FREE && inflated / RATIO_MAX > consumed {
            return Err(CapFault::Bomb { inflated, consumed });
        }
        Ok(())
    }

    fn consumed(&self) -> u64 {
        self.header_bytes + self.inflate.total_in()
    }

    /// Checksum and length, and then nothing.
    fn end(&mut self) -> Result<(), CapError> {
        self.ended = true;
        let mut trailer = [0; 8];
        for byte in &mut trailer {
            *byte = self.byte("gzip trailer")?;
        }
        let [a, b, c, d, e, f, g, h] = trailer;
        let (stated, computed) = (u32::from_le_bytes([a, b, c, d]), self.crc.sum());
        if stated != computed {
            return Err(CapFault::Checksum { stated, computed }.into());
        }
        let (stated, computed) = (u32::from_le_bytes([e, f, g, h]), self.crc.amount());
        if stated != computed {
            return Err(CapFault::Length { stated, computed }.into());
        }
        if self.fill()? {
            let offset = self.consumed() + 8;
            return Err(match self.available() {
                [0x1f, 0x8b, ..] => CapFault::SecondStream(offset),
                _ => CapFault::TrailingBytes(offset),
            }
            .into());
        }
        if let Some((stated, mut hasher)) = self.seal.take() {
            hasher.update(trailer);
            let computed = Hash::from_bytes(hasher.finalize().into());
            if computed != stated {
                let (stated, computed) = (stated.to_hex(), computed.to_hex());
                return Err(CapFault::Seal { stated, computed }.into());
            }
        }
        Ok(())
    }
}
