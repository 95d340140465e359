//! Where recorded decisions and what they rest on are read from: a trace with its store, or a sealed
//! file, which is read as a stream and never extracted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use countersign_format::cap::{CapError, CapReader};
use countersign_format::event::{Event, Reading};
use countersign_format::hash::Hash;
use countersign_format::json::LINE_BYTES_MAX;
use countersign_runtime::gate::{AskedIntent, RecordedDecision};
use countersign_verify::cap::members::{ARTIFACTS, EVENTS};
use countersign_verify::cap::{OpenedCap, verify_cap};
use countersign_verify::{
    FileSource, Lines, Options, Profile, RawLine, Source as _, StoredArtifact, open_regular,
};

use crate::commands::trace::LedgerFile;
use crate::commands::verify::new_report;
use crate::place::find_trace;
use crate::{Caller, CommandError};

/// Bytes of artifacts that are held at once.
const HELD_BYTES_MAX: usize = 256 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Where decisions are read from.
#[derive(Debug)]
pub(super) enum Evidence {
    /// A trace and the store beside it.
    Trace { ledger: LedgerFile, source: FileSource },
    /// A sealed file.
    Sealed { file: PathBuf, held: BTreeMap<Hash, Vec<u8>> },
}

impl Evidence {
    /// What `target` means: an id in the workspace, a directory, a ledger or a sealed file.
    pub(super) fn find(target: &str, caller: &Caller) -> Result<Self, CommandError> {
        if let Some(ledger) = LedgerFile::find(target) {
            if is_sealed(ledger.path()) {
                let file = ledger.path().to_owned();
                return Ok(Self::Sealed { file, held: BTreeMap::new() });
            }
            if !begins_with_an_event(ledger.path()) {
                let error = format!("`{target}` is not a sealed file or trace");
                return Err(CommandError::failed(error)
                    .with_hint(format!("run `countersign verify {target}` to see what is wrong")));
            }
            let source = FileSource::in_home(&home_of(ledger.path()), ledger.path().to_owned());
            return Ok(Self::Trace { ledger, source });
        }
        let workspace = caller.workspace()?;
        let path = workspace.trace_file(find_trace(&workspace, target)?);
        let source = FileSource::in_home(workspace.home(), path.clone());
        Ok(Self::Trace { ledger: LedgerFile::at(path), source })
    }

    /// Every decision of the gate in the trace, in order.
    pub(super) fn decisions(&self) -> Result<Vec<RecordedDecision>, CommandError> {
        let mut found = Decisions::default();
        match self {
            Self::Trace { ledger, .. } => ledger.each(|stored| {
                found.meet(&stored.event, stored.index);
                Ok(())
            })?,
            Self::Sealed { file, .. } => {
                each_sealed_event(file, |event, index| found.meet(event, index))?;
            }
        }
        Ok(found.made)
    }

    /// Why a sealed file cannot be relied on; a trace is not looked at here.
    pub(super) fn failures(&self) -> Result<Vec<String>, CommandError> {
        let Self::Sealed { file, .. } = self else { return Ok(Vec::new()) };
        let failed = |error| refused(file, CapError::Io(error));
        let (now, report_id) = new_report().map_err(failed)?;
        let options = Options {
            trusted_roots: BTreeSet::new(),
            keys: Vec::new(),
            profile: Profile::DEFAULT,
            expect_trace: None,
            expect_head: None,
            expect_count: None,
            report_id,
            now,
        };
        let open = || open_regular(file).map(|file| Box::new(file) as OpenedCap);
        let nothing =
            FileSource { events: PathBuf::new(), log: None, checkpoints: Vec::new(), store: None };
        let verdict = verify_cap(&open, &nothing, &options).map_err(failed)?;
        Ok(verdict.report.failures.into_iter().map(|failure| failure.message).collect())
    }

    /// Makes ready what these decisions rest on.
    pub(super) fn hold(&mut self, decisions: &[RecordedDecision]) -> Result<(), CommandError> {
        if let Self::Sealed { file, held } = self {
            let wanted = decisions.iter().flat_map(RecordedDecision::artifacts).collect();
            *held = sealed_artifacts(file, &wanted)?;
        }
        Ok(())
    }

    /// The bytes that are kept under a hash, as far as `max`.
    pub(super) fn artifact(&self, hash: &Hash, max: u64) -> io::Result<Option<Vec<u8>>> {
        let stored = match self {
            Self::Sealed { held, .. } => return Ok(held.get(hash).cloned()),
            Self::Trace { source, .. } => source.artifact(hash)?,
        };
        match stored {
            StoredArtifact::Bytes(reader) => {
                let mut bytes = Vec::new();
                reader.take(max).read_to_end(&mut bytes)?;
                Ok(Some(bytes))
            }
            StoredArtifact::NoStore | StoredArtifact::Absent | StoredArtifact::NotAFile => Ok(None),
        }
    }
}

/// Decisions, each with the intent that it is about.
#[derive(Debug, Default)]
struct Decisions {
    asked: BTreeMap<String, AskedIntent>,
    made: Vec<RecordedDecision>,
}

impl Decisions {
    fn meet(&mut self, event: &Event, index: u64) {
        if let Some(asked) = AskedIntent::of(event) {
            self.asked.insert(asked.event_id().to_owned(), asked);
        }
        if let Some(mut decision) = RecordedDecision::of(event) {
            decision.seq = index;
            let asked = self.asked.remove(&decision.intent_id);
            self.made.push(decision.about(asked));
        }
    }
}

/// Whether the first line of a file is an event; true of one that cannot be read, which others say.
fn begins_with_an_event(path: &Path) -> bool {
    let Ok(file) = open_regular(path) else { return true };
    let mut lines = Lines::new(BufReader::new(file));
    match lines.next_line() {
        Ok(Some(RawLine::Complete(line))) => {
            Reading::of(line).is_ok_and(|reading| reading.into_event().is_some())
        }
        Ok(_) => false,
        Err(_) => true,
    }
}

/// The store that a ledger lies in, by where it lies: `traces/<id>/events.jsonl` below it.
fn home_of(ledger: &Path) -> PathBuf {
    let above = ledger.ancestors().nth(3).unwrap_or(Path::new(""));
    if above.as_os_str().is_empty() { PathBuf::from(".") } else { above.to_owned() }
}

fn is_sealed(path: &Path) -> bool {
    let mut magic = [0; 2];
    let read = open_regular(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == GZIP_MAGIC
}

fn open(file: &Path) -> Result<CapReader<File>, CommandError> {
    let opened = open_regular(file).map_err(|error| refused(file, CapError::Io(error)))?;
    CapReader::open(opened).map_err(|error| refused(file, error))
}

fn refused(file: &Path, error: CapError) -> CommandError {
    match error {
        CapError::Io(error) => {
            CommandError::failed_doing(format!("cannot read `{}`", file.display()), error)
        }
        CapError::Refused(fault) => {
            CommandError::no(format!("`{}` is no sealed file", file.display()))
                .with_details([fault.to_string()])
        }
    }
}

/// Visits the events of a sealed file one by one.
fn each_sealed_event(file: &Path, mut visit: impl FnMut(&Event, u64)) -> Result<(), CommandError> {
    let unreadable = |index: u64, what: &str| {
        CommandError::failed(format!("the line of event {index} cannot be read: {what}"))
            .with_hint(format!("run `countersign verify {}` to see what is wrong", file.display()))
    };
    let mut reader = open(file)?;
    while let Some(member) = reader.next_member().map_err(|error| refused(file, error))? {
        if member.name != EVENTS {
            continue;
        }
        let (mut line, mut index) = (Vec::new(), 0);
        while let Some(piece) = reader.piece().map_err(|error| refused(file, error))? {
            for part in piece.split_inclusive(|&byte| byte == b'\n') {
                line.extend_from_slice(part);
                if line.len() > LINE_BYTES_MAX + 1 {
                    return Err(unreadable(index, "it is longer than an event may be"));
                }
                if line.pop_if(|last| *last == b'\n').is_none() {
                    continue;
                }
                let reading =
                    Reading::of(&line).map_err(|it| unreadable(index, &it.to_string()))?;
                let event = reading.into_event();
                let event = event.ok_or_else(|| unreadable(index, "it is no event"))?;
                visit(&event, index);
                line.clear();
                index += 1;
            }
        }
        return Ok(());
    }
    Err(CommandError::failed(format!("`{}` holds no trace", file.display()))
        .with_hint("only files that Countersign sealed say by what the gate decided"))
}

/// What a sealed file keeps under these hashes, whatever it is.
fn sealed_artifacts(
    file: &Path,
    wanted: &BTreeSet<Hash>,
) -> Result<BTreeMap<Hash, Vec<u8>>, CommandError> {
    let mut held = BTreeMap::new();
    let mut room = HELD_BYTES_MAX;
    let mut reader = open(file)?;
    while let Some(member) = reader.next_member().map_err(|error| refused(file, error))? {
        let hash = member.name.strip_prefix(ARTIFACTS).and_then(|name| name.parse().ok());
        let Some(hash) = hash.filter(|hash| wanted.contains(hash)) else { continue };
        if member.size > room as u64 {
            let error = "the decisions rest on more than can be held at once";
            return Err(CommandError::failed(error).with_hint("name one of them"));
        }
        let bytes = reader.read_member(room as u64).map_err(|error| refused(file, error))?;
        room -= bytes.len();
        held.insert(hash, bytes);
    }
    Ok(held)
}
