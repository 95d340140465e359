//! Where the lines of a ledger begin, and what kind of event each is.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use countersign_format::hash::Hash;
use countersign_format::json::{self, line};
use countersign_verify::open_regular;
use serde::Deserialize;
use serde_json::Value;

use super::{Facets, NameCount};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;
/// Lines of a ledger that are looked at; a longer one has to be read by other means.
const LINES_MAX: usize = 8_000_000;
/// A line may be longer than an event may be; no more than this is read of it.
const LINE_BYTES_MAX: u32 = 2 << 20;
/// Different types, roles and agents that are told apart.
const NAMES_MAX: usize = 4_096;

/// Where a line lies.
#[derive(Debug, Clone, Copy)]
struct Span {
    at: u64,
    bytes: u32,
}

/// What a line is about, by the numbers of names. Zero is no name.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fact {
    pub(super) event_type: u16,
    pub(super) role: u16,
    pub(super) actor: u16,
}

/// Names by number, from 1.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<String, u16>,
    names: Vec<String>,
}

/// The lines of one file.
#[derive(Debug)]
pub(super) struct LineTable {
    file: File,
    identity: (u64, u64),
    /// The length and the time of change when it was read.
    seen: (u64, i64, i64),
    read_to: u64,
    spans: Vec<Span>,
    /// The hash of the last line, by which it is told whether the file only grew.
    last: Option<Hash>,
    facts: Vec<Fact>,
    pub(super) types: Names,
    pub(super) roles: Names,
    pub(super) actors: Names,
}

impl Names {
    fn number(&mut self, name: &str) -> u16 {
        if let Some(&known) = self.numbers.get(name) {
            return known;
        }
        // Whoever makes up thousands of names has them told apart no further.
        if name.is_empty() || self.names.len() >= NAMES_MAX {
            return 0;
        }
        self.names.push(name.to_owned());
        let number = u16::try_from(self.names.len()).unwrap_or(0);
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The numbers of those names that occur.
    pub(super) fn known(&self, names: &[String]) -> Vec<u16> {
        names.iter().filter_map(|name| self.numbers.get(name).copied()).collect()
    }

    fn counted(&self, numbers: impl Iterator<Item = u16>) -> Vec<NameCount> {
        let mut counts = vec![0_u64; self.names.len() + 1];
        for number in numbers {
            if let Some(count) = counts.get_mut(usize::from(number)) {
                *count += 1;
            }
        }
        let named = self.names.iter().zip(counts.into_iter().skip(1));
        let mut all: Vec<NameCount> =
            named.map(|(name, count)| NameCount { name: name.clone(), count }).collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        all
    }
}

impl LineTable {
    /// Opens a ledger. Nothing is read yet.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = open_regular(path)?;
        let found = file.metadata()?;
        Ok(Self {
            file,
            identity: (found.dev(), found.ino()),
            seen: (0, 0, 0),
            read_to: 0,
            spans: Vec::new(),
            last: None,
            facts: Vec::new(),
            types: Names::default(),
            roles: Names::default(),
            actors: Names::default(),
        })
    }

    /// Takes in what was added. Says whether what was known before still stands.
    pub(super) fn catch_up(&mut self, path: &Path) -> io::Result<bool> {
        let found = path.symlink_metadata()?;
        let same = (found.dev(), found.ino()) == self.identity && found.len() >= self.read_to;
        let now = (found.len(), found.ctime(), found.ctime_nsec());
        if same && now == self.seen {
            return Ok(true);
        }
        // What has changed and kept its length was not appended to.
        let stands = same && now.0 != self.seen.0 && self.last_stands()?;
        if !stands {
            *self = Self::open(path)?;
        }
        self.seen = now;
        let end = self.file.metadata()?.len();
        if end > self.read_to {
            self.scan_to(end)?;
        }
        Ok(stands)
    }

    fn last_stands(&self) -> io::Result<bool> {
        let Some(place) = self.spans.len().checked_sub(1) else { return Ok(true) };
        let last = self.line(place)?.map(|line| Hash::of(&line));
        Ok(last.is_some() && last == self.last)
    }

    fn scan_to(&mut self, end: u64) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut begin) = (self.read_to, self.read_to);
        while at < end {
            let wanted = usize::try_from(end - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let room = piece.get_mut(..wanted).unwrap_or_default();
            let got = self.file.read_at(room, at)?;
            let bytes = room.get(..got).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            for found in memchr::memchr_iter(b'\n', bytes) {
                let stop = at + found as u64;
                if self.spans.len() >= LINES_MAX {
                    let message = format!("the ledger has more than {LINES_MAX} lines");
                    return Err(io::Error::other(message));
                }
                let bytes = u32::try_from(stop - begin).unwrap_or(u32::MAX);
                self.spans.push(Span { at: begin, bytes });
                begin = stop + 1;
            }
            at += got as u64;
        }
        self.read_to = begin;
        let last = self.spans.len().checked_sub(1).map(|place| self.line(place)).transpose()?;
        self.last = last.flatten().map(|line| Hash::of(&line));
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// How long a line is that is too long to be looked at.
    pub(super) fn too_long(&self, index: usize) -> Option<u64> {
        let span = self.spans.get(index).filter(|span| span.bytes > LINE_BYTES_MAX)?;
        Some(u64::from(span.bytes))
    }

    /// The bytes of a line, as many as are looked at.
    pub(super) fn line(&self, index: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(span) = self.spans.get(index) else { return Ok(None) };
        let mut bytes = vec![0; span.bytes.min(LINE_BYTES_MAX) as usize];
        self.file.read_exact_at(&mut bytes, span.at)?;
        Ok(Some(bytes))
    }

    /// Visits the lines from `from` on, in order, with few reads. Ends when `visit` says so.
    pub(super) fn each(
        &self,
        from: usize,
        mut visit: impl FnMut(usize, &[u8]) -> bool,
    ) -> io::Result<()> {
        let mut room = Vec::new();
        let mut next = from;
        while let Some(first) = self.spans.get(next) {
            let mut end = next;
            let mut bytes = 0;
            while let Some(span) = self.spans.get(end) {
                let whole = usize::try_from(span.at - first.at).unwrap_or(usize::MAX);
                let whole = whole.saturating_add(span.bytes.min(LINE_BYTES_MAX) as usize);
                if end > next && whole > PIECE_BYTES {
                    break;
                }
                (bytes, end) = (whole, end + 1);
            }
            room.resize(bytes, 0);
            self.file.read_exact_at(&mut room, first.at)?;
            for (place, span) in self.spans.get(next..end).unwrap_or_default().iter().enumerate() {
                let begin = usize::try_from(span.at - first.at).unwrap_or(usize::MAX);
                let stop = begin.saturating_add(span.bytes.min(LINE_BYTES_MAX) as usize);
                if !visit(next + place, room.get(begin..stop).unwrap_or_default()) {
                    return Ok(());
                }
            }
            next = end;
        }
        Ok(())
    }

    /// What each line is about.
    pub(super) fn facts(&mut self) -> io::Result<&[Fact]> {
        let known = self.facts.len();
        if known < self.spans.len() {
            let (mut types, mut roles) =
                (std::mem::take(&mut self.types), std::mem::take(&mut self.roles));
            let mut actors = std::mem::take(&mut self.actors);
            let mut facts = std::mem::take(&mut self.facts);
            let read = self.each(known, |_, line| {
                let about = About::of(line).unwrap_or_default();
                facts.push(Fact {
                    event_type: types.number(&about.event_type),
                    role: roles.number(&about.actor.role),
                    actor: actors.number(&about.actor.agent_id),
                });
                true
            });
            (self.types, self.roles, self.actors, self.facts) = (types, roles, actors, facts);
            read?;
        }
        Ok(&self.facts)
    }

    /// What occurs.
    pub(super) fn facets(&mut self) -> io::Result<Facets> {
        self.facts()?;
        let facts = || self.facts.iter();
        Ok(Facets {
            total: self.spans.len() as u64,
            types: self.types.counted(facts().map(|fact| fact.event_type)),
            roles: self.roles.counted(facts().map(|fact| fact.role)),
            actors: self.actors.counted(facts().map(|fact| fact.actor)),
        })
    }
}

/// The members by which events are told apart.
#[derive(Debug, Default)]
struct About {
    event_type: String,
    actor: AboutActor,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AboutActor {
    agent_id: String,
    role: String,
}

impl About {
    fn of(bytes: &[u8]) -> Option<Self> {
        if let Ok(scanned) = line::scan(bytes) {
            let event_type = scanned.plain_string("event_type").unwrap_or_default().to_owned();
            let actor = scanned.member("actor").and_then(|it| serde_json::from_slice(it).ok());
            return Some(Self { event_type, actor: actor.unwrap_or_default() });
        }
        // Schema 1.0 may be written in another form.
        let value = json::read(bytes).ok()?;
        let event_type = value.get("event_type").and_then(Value::as_str)?.to_owned();
        let actor = AboutActor::deserialize(value.get("actor")?).unwrap_or_default();
        Some(Self { event_type, actor })
    }
}
