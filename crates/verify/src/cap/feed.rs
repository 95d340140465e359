//! The members of a container, inflated and hashed by a thread of its own.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use countersign_format::cap::{CapError, CapReader, Member};
use countersign_format::hash::Hash;
use sha2::{Digest as _, Sha256};

/// The bytes of a file, from its beginning.
pub type OpenedCap = Box<dyn Read + Send>;

/// Pieces that may wait to be taken in; each has at most 128 KiB.
const WAITING_MAX: usize = 8;

/// What the thread brings.
#[derive(Debug)]
pub(crate) enum Item {
    Member(Member),
    Data(Vec<u8>),
    /// The member is at its end; its hash, where hashes are wanted.
    End(Option<Hash>),
    /// Nothing follows, and nothing is wrong with the container.
    Done,
}

/// Whether members are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hashing {
    Wanted,
    Unwanted,
}

/// Brings the members of a container in their order.
#[derive(Debug)]
pub(crate) struct Feed {
    inbox: Receiver<Result<Item, CapError>>,
}

impl Feed {
    /// Begins with the member behind those that were read.
    pub(crate) fn start(mut reader: CapReader<OpenedCap>, hashing: Hashing) -> Self {
        let (outbox, inbox) = sync_channel(WAITING_MAX);
        thread::spawn(move || {
            // Nobody listens any more: nothing is to be said.
            let _ = match run(&mut reader, hashing, &outbox) {
                Ok(()) => outbox.send(Ok(Item::Done)),
                Err(Some(error)) => outbox.send(Err(error)),
                Err(None) => Ok(()),
            };
        });
        Self { inbox }
    }

    pub(crate) fn next(&self) -> Result<Item, CapError> {
        let gone = || Err(io::Error::other("the thread that reads the file has ended").into());
        self.inbox.recv().unwrap_or_else(|_| gone())
    }

    /// The rest of the member, which has at most `max` bytes.
    pub(crate) fn rest(&self, max: u64) -> Result<(Vec<u8>, Option<Hash>), CapError> {
        let mut bytes = Vec::new();
        loop {
            match self.next()? {
                Item::Data(piece) if (bytes.len() + piece.len()) as u64 <= max => {
                    bytes.extend_from_slice(&piece);
                }
                Item::End(hash) => return Ok((bytes, hash)),
                _ => return Err(io::Error::other("more than was announced").into()),
            }
        }
    }
}

/// An error without a value: nobody listens any more.
fn run(
    reader: &mut CapReader<OpenedCap>,
    hashing: Hashing,
    outbox: &SyncSender<Result<Item, CapError>>,
) -> Result<(), Option<CapError>> {
    let send = |item| outbox.send(Ok(item)).map_err(|_| None);
    while let Some(member) = reader.next_member().map_err(Some)? {
        send(Item::Member(member))?;
        let mut hasher = (hashing == Hashing::Wanted).then(Sha256::new);
        while let Some(piece) = reader.piece().map_err(Some)? {
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
            send(Item::Data(piece.to_vec()))?;
        }
        let hash = hasher.map(|hasher| Hash::from_bytes(hasher.finalize().into()));
        send(Item::End(hash))?;
    }
    Ok(())
}
