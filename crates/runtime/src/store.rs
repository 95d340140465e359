//! Where traces and artifacts are kept: two traits, by mutability, and the backend on files.
//!
//! [`Ledgers`] are append-only lines with compare-and-append as the only way to be exclusive;
//! [`Blobs`] are immutable bytes named by their hash. The stores know lines, not events: what a line
//! says, and what to do about a torn tail, is decided by the caller.

mod aside;
mod blobs;
mod file;
mod follow;
mod fresh;
mod ledger;
mod lines;

use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;
use std::time::Duration;

use countersign_format::hash::Hash;
use countersign_format::id::{NotAUlid, Ulid};

pub(crate) use aside::Aside;
pub use file::FileStore;
pub use lines::BATCH_BYTES_MAX;

use crate::disk::DiskError;

/// The name of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LedgerId {
    /// The workspace log.
    Log,
    /// One trace.
    Trace(Ulid),
}

impl fmt::Display for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log => f.write_str("log"),
            Self::Trace(id) => id.fmt(f),
        }
    }
}

impl FromStr for LedgerId {
    type Err = NotAUlid;

    fn from_str(text: &str) -> Result<Self, NotAUlid> {
        if text == "log" { Ok(Self::Log) } else { text.parse().map(Self::Trace) }
    }
}

/// A place between two lines of a ledger: the number of bytes of all lines before it, their line
/// feeds included. Every backend can keep this number beside a line, and it needs no counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Head {
    /// Bytes of the lines before this place.
    pub bytes: u64,
}

impl Head {
    /// The head of a ledger without lines.
    pub const EMPTY: Self = Self { bytes: 0 };

    /// The place after `bytes` bytes of lines.
    #[must_use]
    pub const fn at(bytes: u64) -> Self {
        Self { bytes }
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.bytes)
    }
}

/// What became of a compare-and-append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The lines were added, and this is the head now.
    Done(Head),
    /// Nothing was added: the head is this one, not the one that was expected.
    Moved(Head),
}

/// Bytes at the end of a ledger that a writer left there when it died, or that were damaged since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    /// Where the sound lines end.
    pub at: Head,
    /// How many bytes follow.
    pub bytes: u64,
}

/// Torn bytes that were set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// What was cut off.
    pub tail: TornTail,
    /// The hash of the bytes that were set aside.
    pub hash: Hash,
    /// Where they are now, beside the ledger.
    pub copy: String,
}

/// Why a store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no room. Nothing was added.
    #[error("there is no room left to write")]
    Full(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What the store is built on failed. Nothing was acknowledged.
    #[error("the store failed")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// An earlier failure leaves open what is on disk, so nothing more is written through this
    /// handle. A new one, which looks again, may work.
    #[error("an earlier write to {what} failed, and what is on disk is not known")]
    Poisoned {
        /// The ledger, or the artifacts.
        what: String,
    },
    /// The ledger ends in bytes that are not whole lines; a writer must set them aside first.
    #[error("{ledger} ends in {} torn bytes at {}", tail.bytes, tail.at)]
    Torn {
        /// Which ledger.
        ledger: LedgerId,
        /// The torn bytes.
        tail: TornTail,
    },
    /// What was to be appended is not a sequence of lines.
    #[error("cannot append to {ledger}: {reason}")]
    NotLines {
        /// Which ledger.
        ledger: LedgerId,
        /// What is wrong with the bytes.
        reason: &'static str,
    },
    /// No line of the ledger starts at the place that was named.
    #[error("no line of {ledger} starts at {at}")]
    NotALineStart {
        /// Which ledger.
        ledger: LedgerId,
        /// The place.
        at: Head,
    },
    /// The ledger is not what was read before: lines that nobody had acknowledged were taken back.
    /// Whoever read them starts again.
    #[error("{ledger} was read up to {at}, and has changed before that place")]
    CutBack {
        /// Which ledger.
        ledger: LedgerId,
        /// Up to where it had been read.
        at: Head,
    },
    /// A line is longer than a line may be.
    #[error("the line of {ledger} at {at} is too long to be read")]
    LineTooLong {
        /// Which ledger.
        ledger: LedgerId,
        /// Where the line starts.
        at: Head,
    },
    /// There is no artifact with this hash.
    #[error("artifact {hash} is missing")]
    Missing {
        /// Its hash.
        hash: Hash,
    },
    /// The stored bytes do not have the hash that they are stored under.
    #[error("artifact {hash} is corrupt: its bytes have the hash {found}")]
    Corrupt {
        /// The hash that was asked for.
        hash: Hash,
        /// The hash of what is stored.
        found: Hash,
    },
    /// More bytes than the caller is willing to take.
    #[error("an artifact has more than {max} bytes")]
    TooLarge {
        /// The caller's limit.
        max: u64,
    },
    /// The bytes to be stored could not be read, or the bytes that were read not passed on.
    #[error("could not copy the bytes of an artifact")]
    Copy(#[source] std::io::Error),
}

impl From<DiskError> for StoreError {
    fn from(error: DiskError) -> Self {
        if error.is_full() { Self::Full(error.into()) } else { Self::Backend(error.into()) }
    }
}

/// Immutable bytes, named by their SHA-256.
///
/// When a `put` returns, the bytes survive power loss. Putting the same bytes again succeeds and
/// writes nothing, unless what is stored under their name is damaged: then it is replaced by the
/// good bytes. Stored bytes are never trusted: whatever is returned has been compared with its name.
pub trait Blobs: Send + Sync + fmt::Debug {
    /// Stores `bytes` and returns their hash.
    ///
    /// # Errors
    /// Nothing was stored that a reader would take for an artifact of other bytes.
    fn put(&self, bytes: &[u8]) -> Result<Hash, StoreError>;

    /// Stores several at once, which may take less time than one after the other, and returns their
    /// hashes in the same order.
    ///
    /// # Errors
    /// As for `put`; some of them may be stored.
    fn put_all(&self, all: &[&[u8]]) -> Result<Vec<Hash>, StoreError> {
        all.iter().map(|bytes| self.put(bytes)).collect()
    }

    /// Stores what `from` yields, without holding it in memory, and returns hash and size.
    ///
    /// # Errors
    /// As for `put`; and [`StoreError::TooLarge`] above `max` bytes, [`StoreError::Copy`] where
    /// `from` fails.
    fn put_reader(&self, from: &mut dyn Read, max: u64) -> Result<(Hash, u64), StoreError>;

    /// The bytes with this hash.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Corrupt`], or [`StoreError::TooLarge`] above `max`
    /// bytes.
    fn get(&self, hash: &Hash, max: u64) -> Result<Vec<u8>, StoreError>;

    /// Copies the bytes with this hash into `to` and returns their number.
    ///
    /// # Errors
    /// As for `get`. On any error `to` may have received bytes that are to be thrown away.
    fn copy_to(&self, hash: &Hash, to: &mut dyn Write) -> Result<u64, StoreError>;

    /// The size of what is stored under this hash, unverified; `None` if nothing is.
    ///
    /// # Errors
    /// It cannot be told.
    fn stat(&self, hash: &Hash) -> Result<Option<u64>, StoreError>;

    /// Removes the bytes with this hash, and says whether there were any. Only for redaction, after
    /// the event that records it: nothing else ever removes an artifact. When it returns, the name
    /// stays gone after power loss; the bytes are not wiped from the medium.
    ///
    /// # Errors
    /// The bytes may still be there.
    fn remove(&self, hash: &Hash) -> Result<bool, StoreError>;
}

/// Append-only lines. A ledger without lines and one that was never written to are the same.
///
/// When an append returns, its lines survive power loss, and so do all lines before them.
///
/// Readers see whole lines only, and may see lines that are not yet acknowledged. Such lines can be
/// taken back if their writer fails; whatever was read within a [`Batch`] cannot, but by a repair. So compare-and-append
/// with a head from [`Appended`] or [`Batch::head`], not from [`Ledgers::head`].
pub trait Ledgers: Send + Sync + fmt::Debug {
    /// Adds one or more lines, each ended by a line feed, if the ledger's head is `expected`.
    ///
    /// # Errors
    /// Nothing was acknowledged. The lines may be there all the same, whole or torn, if the backend
    /// failed; the next writer finds out.
    fn append(&self, id: LedgerId, expected: Head, lines: &[u8]) -> Result<Appended, StoreError> {
        let mut batch = self.begin(id)?;
        if let Some(tail) = batch.torn_tail() {
            return Err(StoreError::Torn { ledger: id, tail });
        }
        if batch.head() != expected {
            return Ok(Appended::Moved(batch.head()));
        }
        batch.append(lines).map(Appended::Done)
    }

    /// Waits until no one else writes to the ledger, and keeps others out until the batch is
    /// dropped, or its process dies. Beginning a second batch on one ledger in the same thread waits
    /// forever; whoever needs several begins traces in the order of their ids, and the log last.
    ///
    /// # Errors
    /// [`StoreError::Poisoned`] after a failure through this handle; or the backend failed.
    fn begin(&self, id: LedgerId) -> Result<Box<dyn Batch>, StoreError> {
        self.begin_from(id, Head::EMPTY)
    }

    /// As [`Ledgers::begin`], by a caller who knows that the lines up to `sound` were acknowledged
    /// once, so that only what follows them needs to be looked at for torn bytes.
    ///
    /// # Errors
    /// As for `begin`.
    fn begin_from(&self, id: LedgerId, sound: Head) -> Result<Box<dyn Batch>, StoreError>;

    /// Whether the ledger may have changed since its head was `since`. Cheap enough to ask before
    /// every write.
    ///
    /// # Errors
    /// The backend failed.
    fn moved(&self, id: LedgerId, since: Head) -> Result<bool, StoreError>;

    /// Whole lines from `from` on: about `max` bytes, but at least one line if there is one.
    ///
    /// # Errors
    /// [`StoreError::CutBack`] or [`StoreError::NotALineStart`] where no line starts at `from`.
    fn read(&self, id: LedgerId, from: Head, max: usize) -> Result<Vec<u8>, StoreError>;

    /// Where the whole lines end, at this moment.
    ///
    /// # Errors
    /// The backend failed.
    fn head(&self, id: LedgerId) -> Result<Head, StoreError>;

    /// All ledgers that have lines, in order of their ids.
    ///
    /// # Errors
    /// The backend failed.
    fn list(&self) -> Result<Vec<LedgerId>, StoreError>;

    /// A reader of the lines from `from` on, as they come.
    ///
    /// # Errors
    /// The backend failed.
    fn follow(&self, id: LedgerId, from: Head) -> Result<Box<dyn Follower>, StoreError>;

    /// Waits, at most for `timeout`, until some ledger may have changed since `wait` last returned
    /// `seen`; 0 to begin with. Returns what to pass next time; the same number means that the time
    /// is over. It may wake for nothing.
    fn wait(&self, seen: u64, timeout: Duration) -> u64;
}

/// The right to write to one ledger, until it is dropped.
pub trait Batch: Send + fmt::Debug {
    /// Where the sound lines end. Others cannot move it.
    fn head(&self) -> Head;

    /// The bytes after the sound lines, if there are any: a line without its end, or lines with
    /// bytes that no line can have. Backends that write all or nothing never have any.
    fn torn_tail(&self) -> Option<TornTail>;

    /// Whole lines from `from` on, up to the head: about `max` bytes, but at least one line.
    ///
    /// # Errors
    /// As for [`Ledgers::read`].
    fn read(&self, from: Head, max: usize) -> Result<Vec<u8>, StoreError>;

    /// Adds lines, and returns the new head. When it returns, they survive power loss.
    ///
    /// # Errors
    /// Nothing was acknowledged. [`StoreError::Full`] and other failures to write leave the ledger as
    /// it was and can be tried again. After a failure to sync, or to restore the ledger, everything
    /// more through this handle is [`StoreError::Poisoned`].
    fn append(&mut self, lines: &[u8]) -> Result<Head, StoreError>;

    /// Makes the lines up to the head durable. They may have come from a writer that died before it
    /// could; whoever answers from them without appending calls this first.
    ///
    /// # Errors
    /// They may be lost on power loss; the handle is poisoned.
    fn sync(&mut self) -> Result<(), StoreError>;

    /// Sets everything after `keep` aside, where it is kept as evidence, and cuts it off. The caller
    /// has made sure that nothing after `keep` was ever acknowledged: by its own records, not by the
    /// look of the bytes. `None` if nothing follows. When it returns, both copy and cut survive power
    /// loss.
    ///
    /// # Errors
    /// The bytes are still in the ledger, unless only the last sync failed.
    fn repair_tail(&mut self, keep: Head) -> Result<Option<Repaired>, StoreError>;
}

/// A reader that waits for lines.
pub trait Follower: Send + fmt::Debug {
    /// The next whole lines, or `None` if there are none within `timeout`.
    ///
    /// # Errors
    /// [`StoreError::CutBack`] if lines that were returned before have been taken back.
    fn next(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError>;

    /// Up to where it has read.
    fn head(&self) -> Head;
}
