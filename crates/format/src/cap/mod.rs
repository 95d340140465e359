//! The `.cap` file: a gzip stream with a tar in it, read and written as a stream.
//!
//! Decides which bytes are such a container: plain files with harmless names, nothing before,
//! between or behind them. What the members mean is decided elsewhere; nothing is ever extracted.

mod error;
mod gzip;
mod lines;
mod manifest;
mod name;
mod pax;
mod read;
mod tar;
mod write;

pub use error::{CapError, CapFault};
pub use gzip::GzipHeader;
pub use lines::{record_line, write_record_line};
pub use manifest::{
    CAP_MANIFEST, CapManifest, CapMember, CapTrace, MANIFEST_BYTES_MAX, NoManifest, PROOF_TYPE,
    capsule,
};
pub use name::{NameFault, check_name};
pub use read::{CapReader, Member};
pub use write::CapWriter;

/// What every such file begins with: gzip's magic and its only method.
pub const CAP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// Members of one file.
pub const MEMBERS_MAX: usize = 80_000;
/// Bytes of a member's name.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes that may be inflated from however few.
pub const INFLATED_FREE: u64 = 64 << 20;
/// How many times the bytes read may be inflated beyond that.
pub const RATIO_MAX: u64 = 100;

/// What the comment of the gzip header begins with in files of ours; the SHA-256 of everything
/// behind the header follows in hex.
const SEAL_PREFIX: &str = "countersign sha256:";
/// Bytes of a block of a tar.
const BLOCK_BYTES: usize = 512;
/// Bytes of a record: what other writers fill up with zeros.
const RECORD_BYTES: u64 = 10_240;
