//! Every small change of a ledger, one after the other, by number.
//!
//! Each kind of change has a number of them, and any can be made by its index: so they can be run
//! through, shared out among threads, or drawn by a seed. What a verifier makes of them is for whoever
//! strikes; [`strike`] runs the threads and counts.

mod field;
mod rig;

use std::fmt;

use countersign_format::hash::Hash;

use crate::dice::Dice;
use crate::tamper::Scene;
use field::FieldEdit;
pub use rig::{Struck, Tally, strike};

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MutationKind {
    /// A bit of a byte of the ledger: all eight, one after the other.
    BitFlipped,
    /// One bit of each byte of the ledger, each bit in turn.
    ByteChanged,
    /// A byte of the ledger is taken out.
    ByteDeleted,
    /// The ledger ends after so many bytes.
    Truncated,
    /// An event is taken out.
    EventDeleted,
    /// A copy of an event is put somewhere.
    EventDuplicated,
    /// Two events change places.
    EventsSwapped,
    /// An event is put elsewhere.
    EventMoved,
    /// An event of another trace is put somewhere.
    EventSpliced,
    /// A member is edited, and all hashes are made to fit.
    FieldEdited,
    /// One bit of each byte of each artifact, each bit in turn.
    ArtifactChanged,
    /// An artifact loses a byte.
    ArtifactShortened,
    /// An artifact is taken away.
    ArtifactDeleted,
}

impl MutationKind {
    /// Every kind, with one flipped bit for each byte of the ledger.
    pub const ALL: [Self; 12] = [
        Self::ByteChanged,
        Self::ByteDeleted,
        Self::Truncated,
        Self::EventDeleted,
        Self::EventDuplicated,
        Self::EventsSwapped,
        Self::EventMoved,
        Self::EventSpliced,
        Self::FieldEdited,
        Self::ArtifactChanged,
        Self::ArtifactShortened,
        Self::ArtifactDeleted,
    ];

    /// The kinds that change the ledger alone.
    pub const OF_LEDGER: [Self; 9] = [
        Self::ByteChanged,
        Self::ByteDeleted,
        Self::Truncated,
        Self::EventDeleted,
        Self::EventDuplicated,
        Self::EventsSwapped,
        Self::EventMoved,
        Self::EventSpliced,
        Self::FieldEdited,
    ];

    /// Whether it changes bytes of the ledger, whatever they mean.
    #[must_use]
    pub const fn is_of_bytes(self) -> bool {
        matches!(self, Self::BitFlipped | Self::ByteChanged | Self::ByteDeleted | Self::Truncated)
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BitFlipped => "bit flipped",
            Self::ByteChanged => "byte changed",
            Self::ByteDeleted => "byte deleted",
            Self::Truncated => "truncated",
            Self::EventDeleted => "event deleted",
            Self::EventDuplicated => "event duplicated",
            Self::EventsSwapped => "events swapped",
            Self::EventMoved => "event moved",
            Self::EventSpliced => "event spliced in",
            Self::FieldEdited => "field edited",
            Self::ArtifactChanged => "artifact changed",
            Self::ArtifactShortened => "artifact shortened",
            Self::ArtifactDeleted => "artifact deleted",
        }
    }
}

impl fmt::Display for MutationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A changed session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// What was done.
    pub what: String,
    /// The ledger.
    pub ledger: Vec<u8>,
    /// The workspace log.
    pub log: Vec<u8>,
    /// An artifact that is another now, or gone.
    pub artifact: Option<(Hash, Option<Vec<u8>>)>,
}

/// All changes of one session.
#[derive(Debug)]
pub struct Mutations {
    lines: Vec<Vec<u8>>,
    foreign: Vec<Vec<u8>>,
    ledger: Vec<u8>,
    log: Vec<u8>,
    artifacts: Vec<(Hash, Vec<u8>)>,
    edits: Vec<FieldEdit>,
}

fn lines_of(ledger: &[u8]) -> Vec<Vec<u8>> {
    let whole = ledger.strip_suffix(b"\n").unwrap_or(ledger);
    whole.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn joined(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
}

impl Mutations {
    /// The changes of `scene`, with events of `other` to splice in.
    #[must_use]
    pub fn of(scene: &Scene, other: &Scene) -> Self {
        let ledger = scene.ledger();
        let lines = lines_of(&ledger);
        Self {
            foreign: lines_of(&other.ledger()),
            log: scene.log_bytes(),
            artifacts: scene.artifacts().into_iter().collect(),
            edits: field::edits(&lines),
            lines,
            ledger,
        }
    }

    /// How many there are of a kind.
    #[must_use]
    pub fn count(&self, kind: MutationKind) -> usize {
        let (bytes, events) = (self.ledger.len(), self.lines.len());
        match kind {
            MutationKind::BitFlipped => 8 * bytes,
            // The last byte is the last line break, without which the last event is still whole.
            MutationKind::ByteChanged => bytes,
            MutationKind::ByteDeleted | MutationKind::Truncated => bytes - 1,
            MutationKind::EventDeleted => events,
            MutationKind::EventDuplicated => events * (events + 1),
            MutationKind::EventsSwapped => events * (events - 1) / 2,
            MutationKind::EventMoved => events * (events - 1),
            MutationKind::EventSpliced => self.foreign.len() * (events + 1),
            MutationKind::FieldEdited => self.edits.len(),
            MutationKind::ArtifactChanged | MutationKind::ArtifactShortened => {
                self.artifacts.iter().map(|(_, bytes)| bytes.len()).sum()
            }
            MutationKind::ArtifactDeleted => self.artifacts.len(),
        }
    }

    /// The change of this kind with this index.
    #[must_use]
    pub fn get(&self, kind: MutationKind, index: usize) -> Mutation {
        if let MutationKind::ArtifactChanged
        | MutationKind::ArtifactShortened
        | MutationKind::ArtifactDeleted = kind
        {
            return self.of_artifact(kind, index);
        }
        let (what, ledger) = match kind {
            MutationKind::BitFlipped => self.flipped(index / 8, index % 8),
            MutationKind::ByteChanged => self.flipped(index, index % 8),
            MutationKind::ByteDeleted => {
                let mut ledger = self.ledger.clone();
                ledger.remove(index);
                (format!("byte {index} deleted"), ledger)
            }
            MutationKind::Truncated => {
                (format!("cut to {index} bytes"), self.ledger[..index].to_vec())
            }
            MutationKind::FieldEdited => {
                let edit = &self.edits[index];
                (edit.to_string(), joined(&edit.applied(&self.lines)))
            }
            _ => self.of_events(kind, index),
        };
        Mutation { what, ledger, log: self.log.clone(), artifact: None }
    }

    fn flipped(&self, byte: usize, bit: usize) -> (String, Vec<u8>) {
        let mut ledger = self.ledger.clone();
        ledger[byte] ^= 1 << bit;
        (format!("bit {bit} of byte {byte} flipped"), ledger)
    }

    fn of_events(&self, kind: MutationKind, index: usize) -> (String, Vec<u8>) {
        let events = self.lines.len();
        let mut lines = self.lines.clone();
        let what = match kind {
            MutationKind::EventDeleted => {
                lines.remove(index);
                format!("event {index} deleted")
            }
            MutationKind::EventDuplicated => {
                let (from, to) = (index / (events + 1), index % (events + 1));
                lines.insert(to, self.lines[from].clone());
                format!("event {from} put again at {to}")
            }
            MutationKind::EventSpliced => {
                let (from, to) = (index / (events + 1), index % (events + 1));
                lines.insert(to, self.foreign[from].clone());
                format!("event {from} of another trace put at {to}")
            }
            MutationKind::EventMoved => {
                let (from, to) = (index / (events - 1), index % (events - 1));
                // To its own place it would not move.
                let to = if to < from { to } else { to + 1 };
                let line = lines.remove(from);
                lines.insert(to, line);
                format!("event {from} moved to {to}")
            }
            _ => {
                let (mut first, mut left) = (0, index);
                while left >= events - 1 - first {
                    left -= events - 1 - first;
                    first += 1;
                }
                let second = first + 1 + left;
                lines.swap(first, second);
                format!("events {first} and {second} swapped")
            }
        };
        (what, joined(&lines))
    }

    fn of_artifact(&self, kind: MutationKind, index: usize) -> Mutation {
        let (mut place, mut left) = (0, index);
        if kind == MutationKind::ArtifactDeleted {
            (place, left) = (index, 0);
        } else {
            while left >= self.artifacts[place].1.len() {
                left -= self.artifacts[place].1.len();
                place += 1;
            }
        }
        let (hash, bytes) = &self.artifacts[place];
        let mut bytes = bytes.clone();
        let bytes = match kind {
            MutationKind::ArtifactChanged => {
                bytes[left] ^= 1 << (left % 8);
                Some(bytes)
            }
            MutationKind::ArtifactShortened => {
                bytes.remove(left);
                Some(bytes)
            }
            _ => None,
        };
        Mutation {
            what: format!("{kind}: {hash}, byte {left}"),
            ledger: self.ledger.clone(),
            log: self.log.clone(),
            artifact: Some((*hash, bytes)),
        }
    }

    /// So many changes of these kinds, each kind as often as the others, drawn by `seed`.
    pub fn sample<'m>(
        &'m self,
        kinds: &'m [MutationKind],
        seed: u64,
        count: usize,
    ) -> impl Iterator<Item = (MutationKind, Mutation)> + 'm {
        let mut dice = Dice::new(seed);
        (0..count).map(move |turn| {
            let kind = kinds[turn % kinds.len()];
            (kind, self.get(kind, dice.below(self.count(kind))))
        })
    }
}
