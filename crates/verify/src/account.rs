//! What one file says of a log or a trace: a checkpoint, a ledger, a proof.
//!
//! Nothing is believed yet. Of a ledger only the hashes are kept; a line is read again when it is
//! wanted.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use countersign_format::event::{EventType, Reading};
use countersign_format::hash::Hash;
use countersign_format::note::{Checkpoint, SignedNote};
use countersign_format::proof::EventProof;
use countersign_protocol::log::is_key_event;
use serde_json::Value;

use crate::extract::{parse_note, sound_line};
use crate::lines::{Lines, RawLine};
use crate::{FileSource, Source as _};

/// What one file says, and what it is called.
#[derive(Debug)]
pub struct Account {
    pub(crate) name: String,
    pub(crate) origin: Option<String>,
    pub(crate) log: Option<Telling>,
    pub(crate) trace: Option<Telling>,
    pub(crate) notes: Vec<(SignedNote, Checkpoint)>,
    /// The log's first event and its key events.
    pub(crate) key_lines: Vec<String>,
}

/// Events of one ledger, all from the first on or only some.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) id: String,
    known: Known,
}

#[derive(Debug)]
enum Known {
    All { hashes: Vec<Hash>, path: PathBuf },
    Some(BTreeMap<u64, (Hash, String)>),
}

/// Why a file says nothing.
#[derive(Debug, thiserror::Error)]
pub enum NoAccount {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is something else.
    #[error("{0}")]
    Other(String),
}

impl Telling {
    fn some(lines: impl IntoIterator<Item = String>) -> Result<Self, NoAccount> {
        let mut known = BTreeMap::new();
        let mut id = String::new();
        for line in lines {
            let sound = sound_line(&line).map_err(|(_, _, message)| NoAccount::Other(message))?;
            id = sound.event.trace_id;
            known.insert(sound.seq, (sound.event.event_hash, line));
        }
        Ok(Self { id, known: Known::Some(known) })
    }

    /// All hashes, if all are known.
    pub(crate) fn all(&self) -> Option<&[Hash]> {
        match &self.known {
            Known::All { hashes, .. } => Some(hashes),
            Known::Some(_) => None,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.all().map_or(0, |hashes| hashes.len() as u64)
    }

    fn hash(&self, index: u64) -> Option<Hash> {
        match &self.known {
            Known::All { hashes, .. } => hashes.get(usize::try_from(index).ok()?).copied(),
            Known::Some(known) => known.get(&index).map(|(hash, _)| *hash),
        }
    }

    /// How many events both know, and the first of them about which they differ.
    pub(crate) fn compare(&self, other: &Self) -> (u64, Option<u64>) {
        let mut shared = 0;
        let mut differ = |index: u64| match (self.hash(index), other.hash(index)) {
            (Some(one), Some(another)) => {
                shared += 1;
                one != another
            }
            _ => false,
        };
        let first = match (&self.known, &other.known) {
            (Known::Some(known), _) | (_, Known::Some(known)) => {
                known.keys().copied().find(|&index| differ(index))
            }
            _ => (0..self.size().min(other.size())).find(|&index| differ(index)),
        };
        (shared, first)
    }

    /// The line at `index`.
    pub(crate) fn line(&self, index: u64) -> io::Result<Option<String>> {
        let path = match &self.known {
            Known::Some(known) => return Ok(known.get(&index).map(|(_, line)| line.clone())),
            Known::All { path, .. } => path,
        };
        let source = ledger(path);
        let mut lines = Lines::new(source.events()?);
        for _ in 0..index {
            lines.next_line()?;
        }
        Ok(match lines.next_line()? {
            Some(RawLine::Complete(line)) => String::from_utf8(line.to_vec()).ok(),
            _ => None,
        })
    }
}

fn ledger(path: &Path) -> FileSource {
    FileSource { events: path.to_owned(), log: None, checkpoints: Vec::new(), store: None }
}

impl Account {
    fn empty(name: &str) -> Self {
        let name = name.to_owned();
        Self {
            name,
            origin: None,
            log: None,
            trace: None,
            notes: Vec::new(),
            key_lines: Vec::new(),
        }
    }

    /// What a checkpoint says.
    ///
    /// # Errors
    /// If it is none.
    pub fn of_checkpoint(name: &str, bytes: &[u8]) -> Result<Self, NoAccount> {
        let (note, checkpoint) = parse_note(bytes).map_err(NoAccount::Other)?;
        let origin = Some(checkpoint.origin.clone());
        Ok(Self { origin, notes: vec![(note, checkpoint)], ..Self::empty(name) })
    }

    /// What a proof says. Whether it holds is to be asked before.
    ///
    /// # Errors
    /// If its lines or its checkpoint cannot be read.
    pub fn of_proof(name: &str, proof: &EventProof) -> Result<Self, NoAccount> {
        let mut account = Self::of_checkpoint(name, proof.log.checkpoint.as_bytes())?;
        let lines = proof.log.entries.iter().map(|entry| entry.line.clone());
        account.log = Some(Telling::some(lines)?);
        account.trace = Some(Telling::some([proof.first.clone(), proof.event.clone()])?);
        for entry in &proof.log.entries {
            let of_keys = sound_line(&entry.line).is_ok_and(|it| is_key_event(it.event.event_type));
            account.key_lines.extend(of_keys.then(|| entry.line.clone()));
        }
        Ok(account)
    }

    /// What the log of a workspace says, with its checkpoint.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn of_home(name: &str, home: &Path) -> Result<Self, NoAccount> {
        let mut account = Self::of_ledger(name, &home.join("log/events.jsonl"))?;
        // A checkpoint of its own may be missing or torn: it then says nothing.
        let note = vec![home.join("log/checkpoint")];
        let source = FileSource { checkpoints: note, ..ledger(home) };
        let notes = source.checkpoints().unwrap_or_default();
        account.notes.extend(notes.iter().filter_map(|bytes| parse_note(bytes).ok()));
        Ok(account)
    }

    /// What a ledger says, of a log or of a trace.
    ///
    /// # Errors
    /// If it cannot be read, or holds something else than events.
    pub fn of_ledger(name: &str, path: &Path) -> Result<Self, NoAccount> {
        let mut account = Self::empty(name);
        let (mut hashes, mut id, mut is_log) = (Vec::new(), String::new(), false);
        let source = ledger(path);
        let mut lines = Lines::new(source.events()?);
        while let Some(raw) = lines.next_line()? {
            let line = match raw {
                RawLine::Complete(line) => line,
                // A torn tail is no event.
                RawLine::Unterminated(_) => break,
                RawLine::TooLong | RawLine::Endless => &[],
            };
            let unreadable = || NoAccount::Other(format!("line {} is no event", hashes.len() + 1));
            let reading = Reading::of(line).map_err(|_| unreadable())?;
            let text = |pointer: &str| reading.value.pointer(pointer).and_then(Value::as_str);
            let event_type = EventType::parse(text("/event_type").unwrap_or_default());
            if hashes.is_empty() {
                text("/trace_id").ok_or_else(unreadable)?.clone_into(&mut id);
                is_log = event_type == Some(EventType::LogOpened);
                account.origin = text("/payload/origin").filter(|_| is_log).map(str::to_owned);
            }
            if is_log && event_type.is_some_and(is_key_event) {
                account.key_lines.push(String::from_utf8_lossy(line).into_owned());
            }
            hashes.push(reading.event_hash);
        }
        if hashes.is_empty() {
            return Err(NoAccount::Other("it holds no events".to_owned()));
        }
        let told = Some(Telling { id, known: Known::All { hashes, path: path.to_owned() } });
        if is_log {
            account.log = told
        } else {
            account.trace = told
        }
        Ok(account)
    }

    /// What it is, in a few words.
    #[must_use]
    pub fn describe(&self) -> String {
        let note = self.notes.first().map(|(_, checkpoint)| checkpoint.size);
        match (&self.log, &self.trace, note) {
            (Some(_), Some(trace), _) => format!("proof of an event of trace {}", trace.id),
            (Some(log), None, _) => format!("log of {} entries", log.size()),
            (None, Some(trace), _) => format!("trace {} of {} events", trace.id, trace.size()),
            (None, None, Some(size)) => format!("checkpoint of {size} entries"),
            (None, None, None) => "nothing".to_owned(),
        }
    }
}
