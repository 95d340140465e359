//! Files that Countersign sealed: a whole trace, judged as it streams by.
//!
//! The container, every member against the manifest, the log's extract, the events, and every copy
//! of what they say. The trace is judged while the rest is still unread; what comes of that counts
//! only if the rest holds too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Cursor, Read};

use countersign_format::cap::{CapFault, CapManifest, CapMember, CapReader, Member, capsule};
use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::json::line::containers;
use countersign_format::proof::{EXTRACT_BYTES_MAX, LogExtract};
use countersign_format::report::{FailureCode, VerificationReport, VerificationStatus};
use countersign_protocol::LogPin;

use super::feed::{Feed, Hashing, Item, OpenedCap};
use super::stop::Stop;
use super::tally::CapTally;
use super::{OpenCap, refusal};
use crate::against::{Against, Evidence, Onlooker};
use crate::extract::{self, ExtractView};
use crate::findings::{CheckId, Findings, Place};
use crate::log::{self, Extent, LogView, Traces, Wanted};
use crate::pipeline::Ledger;
use crate::trace::{pin_of, verify_against};
use crate::{Options, Source, StoredArtifact, elsewhere};

/// The members that come before the artifacts.
pub const EXTRACT: &str = "log/extract.json";
pub const REPORT: &str = "report.json";
pub const EVENTS: &str = "trace/events.jsonl";
pub const ACTIONS: &str = "actions.jsonl";
pub const CAPSULE: &str = "agent_capsule.json";
/// What the names of artifacts begin with; their hash follows.
pub const ARTIFACTS: &str = "artifacts/sha256/";

/// Lines of the trace that may be no events before the file is refused as a whole.
const NO_EVENTS_MAX: u64 = 100;
/// Bytes that a report may have.
pub const REPORT_BYTES_MAX: u64 = 4 << 20;
const CAPSULE_BYTES_MAX: u64 = 64 << 10;
/// Objects and lists of a report: what its tree costs follows from them.
const REPORT_CONTAINERS_MAX: usize = 16_384;

/// Verifies a file whose manifest was read already.
pub(super) fn verify(
    reader: CapReader<OpenedCap>,
    (member, bytes): (&Member, &[u8]),
    open: &OpenCap<'_>,
    kept: &dyn Source,
    options: &Options,
) -> Result<VerificationReport, Stop> {
    if reader.gzip_header().seal().is_none() {
        return Err(Stop::Refused("the gzip header is not that of a sealed file".to_owned()));
    }
    plain(member)?;
    let mut manifest = CapManifest::read(bytes).map_err(|fault| fault.to_string())?;
    let artifacts = listed_artifacts(&manifest)?;
    let mut listed = std::mem::take(&mut manifest.members);
    listed.reverse();
    let mut intake = Intake { feed: Feed::start(reader, Hashing::Wanted), listed, current: None };
    let extract = intake.named(EXTRACT, EXTRACT_BYTES_MAX as u64)?;
    let extract = LogExtract::read(&extract).map_err(|fault| format!("`{EXTRACT}`: {fault}"))?;
    if let Some(entry) = extract.entries.iter().find(|entry| heavy(entry.line.as_bytes())) {
        let index = entry.index;
        return Err(Stop::Refused(format!("`{EXTRACT}`: entry {index} {}", too_heavy())));
    }
    let report = match intake.listed.last() {
        Some(next) if next.name == REPORT => {
            let hash = next.sha256;
            let bytes = intake.named(REPORT, REPORT_BYTES_MAX)?;
            if containers(&bytes) > REPORT_CONTAINERS_MAX {
                return Err(Stop::Refused(format!(
                    "`{REPORT}` has more than {REPORT_CONTAINERS_MAX} objects and lists"
                )));
            }
            Some((hash, bytes))
        }
        _ => None,
    };
    intake.begin_named(EVENTS)?;
    let mut findings = Findings::default();
    let view = extract::read(&extract, &manifest.trace_id, &mut findings);
    if findings.status() == VerificationStatus::Fail {
        return Ok(refusal(
            &manifest.trace_id,
            findings,
            "the log's extract does not hold",
            options,
        ));
    }
    let intake = RefCell::new(intake);
    let source = CapSource { intake: &intake, artifacts, report, open };
    let ledger = Ledger::open_admitting(source.events()?, &|line| match heavy(line) {
        true => Err(Stop::Refused(format!("`{EVENTS}`: a line {}", too_heavy())).into()),
        false => Ok(()),
    })?;
    let pin = ledger.first_event().as_ref().and_then(pin_of);
    let (root, origin) = (view.root, view.origin.clone());
    let view =
        log_view(&extract, view, pin.as_ref(), &manifest.trace_id, (kept, options), &mut findings)?;
    let mut copies = Copies {
        source: &source,
        manifest: &manifest,
        tally: CapTally::default(),
        no_events: 0,
        root,
        origin,
    };
    let options = Options { expect_trace: Some(manifest.trace_id.clone()), ..options.clone() };
    let against = Against { ledger, pin, view: Some(view), onlooker: Some(&mut copies) };
    Ok(verify_against(&source, &options, Evidence::Read, against, findings)?)
}

/// Objects and lists of one line, an event's or one of the log's.
const LINE_CONTAINERS_MAX: usize = 8_192;

/// Whether the tree of a line would be far larger than the line.
fn heavy(line: &[u8]) -> bool {
    // A shorter one cannot open so many.
    line.len() > LINE_CONTAINERS_MAX && containers(line) > LINE_CONTAINERS_MAX
}

fn too_heavy() -> String {
    format!("has more than {LINE_CONTAINERS_MAX} objects and lists")
}

fn plain(member: &Member) -> Result<(), Stop> {
    match member.plain {
        true => Ok(()),
        false => Err(Stop::Refused(format!(
            "the tar header of member `{}` is not that of a sealed file",
            member.name
        ))),
    }
}

/// The artifacts of the manifest with their sizes; and the members before them are what they must be.
fn listed_artifacts(manifest: &CapManifest) -> Result<BTreeMap<Hash, u64>, Stop> {
    let mut wanted = vec![EXTRACT, REPORT, EVENTS, ACTIONS, CAPSULE].into_iter().peekable();
    let mut artifacts = BTreeMap::new();
    let mut last: Option<Hash> = None;
    for member in &manifest.members {
        let name = member.name.as_str();
        if wanted.peek() == Some(&REPORT) && name != REPORT {
            wanted.next();
        }
        if let Some(expected) = wanted.next() {
            if name != expected {
                let message = format!("`manifest.json` lists `{name}` where `{expected}` must be");
                return Err(Stop::Refused(message));
            }
            continue;
        }
        let hash = name.strip_prefix(ARTIFACTS).and_then(|hash| hash.parse::<Hash>().ok());
        let hash = hash.ok_or_else(|| {
            format!("`manifest.json` lists `{name}`, which is no member of a sealed file")
        })?;
        if hash != member.sha256 {
            let sha256 = member.sha256;
            let message = format!("`manifest.json` lists `{name}` with the hash {sha256}");
            return Err(Stop::Refused(message));
        }
        if last.is_some_and(|last| last >= hash) {
            let message = format!("`manifest.json` lists `{name}` out of order");
            return Err(Stop::Refused(message));
        }
        last = Some(hash);
        artifacts.insert(hash, member.size);
    }
    match wanted.find(|name| *name != REPORT) {
        Some(name) => Err(Stop::Refused(format!("`manifest.json` does not list `{name}`"))),
        None => Ok(artifacts),
    }
}

/// The members as they come, each held against the manifest.
struct Intake {
    feed: Feed,
    /// What is still to come, the next one last.
    listed: Vec<CapMember>,
    current: Option<CapMember>,
}

impl Intake {
    /// The next member; nothing at the end.
    fn begin(&mut self) -> Result<Option<CapMember>, Stop> {
        let member = match self.feed.next()? {
            Item::Member(member) => member,
            Item::Done => {
                return match self.listed.pop() {
                    None => Ok(None),
                    Some(listed) => Err(Stop::Refused(format!(
                        "member `{}` is missing: `manifest.json` lists it",
                        listed.name
                    ))),
                };
            }
            Item::Data(_) | Item::End(_) => return Err(lost()),
        };
        let name = &member.name;
        let listed = match self.listed.pop() {
            Some(listed) if listed.name == *name => listed,
            Some(next) if self.listed.iter().any(|listed| listed.name == *name) => {
                return Err(Stop::Refused(format!(
                    "member `{name}` stands where `manifest.json` lists `{}`",
                    next.name
                )));
            }
            _ => {
                return Err(Stop::Refused(format!(
                    "member `{name}` is not listed in `manifest.json`"
                )));
            }
        };
        if listed.size != member.size {
            return Err(Stop::Refused(format!(
                "member `{name}` has {} bytes, `manifest.json` lists it with {}",
                member.size, listed.size
            )));
        }
        plain(&member)?;
        self.current = Some(listed.clone());
        Ok(Some(listed))
    }

    fn begin_named(&mut self, name: &str) -> Result<CapMember, Stop> {
        match self.begin()? {
            Some(member) if member.name == name => Ok(member),
            _ => Err(Stop::Refused(format!("member `{name}` is not in its place"))),
        }
    }

    /// The member is at its end and has this hash.
    fn ended(&mut self, hash: Option<Hash>) -> Result<(), Stop> {
        let Some(listed) = self.current.take() else { return Err(lost()) };
        match hash {
            Some(hash) if hash == listed.sha256 => Ok(()),
            hash => {
                let hash = hash.map(|hash| hash.to_hex()).unwrap_or_default();
                Err(Stop::Refused(format!(
                    "member `{}` hashes to {hash}, `manifest.json` lists it with {}",
                    listed.name, listed.sha256
                )))
            }
        }
    }

    fn named(&mut self, name: &str, max: u64) -> Result<Vec<u8>, Stop> {
        let member = self.begin_named(name)?;
        if member.size > max {
            let (name, size) = (member.name, member.size);
            return Err(CapFault::MemberTooLong { name, size, max }.into());
        }
        let (bytes, hash) = self.feed.rest(max)?;
        self.ended(hash)?;
        Ok(bytes)
    }

    /// Passes over the rest of the member.
    fn pass(&mut self) -> Result<(), Stop> {
        loop {
            match self.feed.next()? {
                Item::Data(_) => {}
                Item::End(hash) => return self.ended(hash),
                Item::Member(_) | Item::Done => return Err(lost()),
            }
        }
    }
}

fn lost() -> Stop {
    Stop::Io(io::Error::other("the members came in no order"))
}

/// The file as a source of one trace.
struct CapSource<'a> {
    intake: &'a RefCell<Intake>,
    artifacts: BTreeMap<Hash, u64>,
    report: Option<(Hash, Vec<u8>)>,
    open: &'a OpenCap<'a>,
}

impl Source for CapSource<'_> {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(Events { intake: self.intake, piece: Vec::new(), at: 0, ended: false }))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        Ok(None)
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn artifact(&self, hash: &Hash) -> io::Result<StoredArtifact<'_>> {
        match &self.report {
            Some((report, bytes)) if report == hash => {
                Ok(StoredArtifact::Bytes(Box::new(Cursor::new(bytes))))
            }
            _ if self.artifacts.contains_key(hash) => {
                let name = format!("{ARTIFACTS}{hash}");
                Ok(StoredArtifact::Bytes(Box::new(Again {
                    open: self.open,
                    name,
                    reader: None,
                    rest: Vec::new(),
                })))
            }
            _ => Ok(StoredArtifact::Absent),
        }
    }

    fn proven(&self, hash: &Hash) -> Option<u64> {
        self.artifacts.get(hash).copied()
    }
}

/// The ledger as it comes.
struct Events<'a> {
    intake: &'a RefCell<Intake>,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Read for Events<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = self.fill_buf()?.read(into)?;
        self.consume(got);
        Ok(got)
    }
}

impl BufRead for Events<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at >= self.piece.len() && !self.ended {
            let mut intake = self.intake.borrow_mut();
            match intake.feed.next().map_err(io::Error::from)? {
                Item::Data(piece) => (self.piece, self.at) = (piece, 0),
                Item::End(hash) => {
                    intake.ended(hash)?;
                    self.ended = true;
                }
                Item::Member(_) | Item::Done => return Err(lost().into()),
            }
        }
        Ok(self.piece.get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

/// A member that is looked for from the beginning of the file, once somebody reads it.
struct Again<'a> {
    open: &'a OpenCap<'a>,
    name: String,
    reader: Option<CapReader<OpenedCap>>,
    rest: Vec<u8>,
}

impl Read for Again<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.reader.is_none() {
            let mut reader = CapReader::open((self.open)()?)?;
            while reader.next_member()?.is_some_and(|member| member.name != self.name) {}
            self.reader = Some(reader);
        }
        if let (true, Some(reader)) = (self.rest.is_empty(), &mut self.reader) {
            self.rest = reader.piece()?.unwrap_or_default().to_vec();
        }
        let got = self.rest.as_slice().read(into)?;
        self.rest.drain(..got);
        Ok(got)
    }
}

/// Holds every copy of what the events say against the events.
struct Copies<'a> {
    source: &'a CapSource<'a>,
    manifest: &'a CapManifest,
    tally: CapTally,
    no_events: u64,
    root: Option<Hash>,
    origin: String,
}

impl Onlooker for Copies<'_> {
    fn line(&mut self, event: Option<&Event>) -> io::Result<()> {
        match event {
            Some(event) => self.tally.meet(event),
            // Nothing comes of reading on.
            None => self.no_events += 1,
        }
        if self.no_events > NO_EVENTS_MAX {
            let why = format!("`{EVENTS}` has more than {NO_EVENTS_MAX} lines that are no events");
            return Err(Stop::Refused(why).into());
        }
        Ok(())
    }

    fn end(&mut self, findings: &mut Findings) -> io::Result<()> {
        let mut intake = self.source.intake.borrow_mut();
        let actions = intake.begin_named(ACTIONS)?;
        intake.pass()?;
        let found = intake.named(CAPSULE, CAPSULE_BYTES_MAX)?;
        while intake.begin()?.is_some() {
            intake.pass()?;
        }
        let mut wrong = |message: String| {
            let code = FailureCode::HashMismatch;
            findings.fail_each(CheckId::Schema, code, &Place::default(), message);
        };
        if self.tally.action_lines() != (actions.size, actions.sha256) {
            wrong(format!("`{ACTIONS}` does not say what the events of the trace say"));
        }
        let reported = self.source.report.as_ref().map(|(hash, _)| *hash);
        let there = self.tally.report().filter(|hash| self.source.artifacts.contains_key(hash));
        if reported != there {
            wrong(format!("`{REPORT}` is not the report that the last audit of the trace names"));
        }
        let strange =
            self.source.artifacts.keys().find(|hash| !self.tally.artifacts().contains(hash));
        if let Some(hash) = strange {
            wrong(format!("no event of the trace lists the artifact {hash}"));
        }
        let trace = self.root.and_then(|root| self.tally.trace(root, &self.origin));
        let Some(trace) = trace else { return Ok(()) };
        let stated = CapManifest::of(&trace, Vec::new());
        if let Some((name, found, expected)) = self.manifest.disagreement(&stated) {
            wrong(format!("`manifest.json` has the `{name}` {found}, the trace gives {expected}"));
        }
        if found != capsule(&trace) {
            wrong(format!(
                "`{CAPSULE}` does not say what the trace says: {} actions, the last receipt {}",
                trace.actions,
                trace.last_receipt.map_or_else(|| "none".to_owned(), |hash| hash.to_hex())
            ));
        }
        Ok(())
    }
}

/// What the log says of the trace: the log that was kept where it reaches at least as far as the
/// extract, else the extract.
fn log_view(
    extract: &LogExtract,
    view: ExtractView,
    pin: Option<&LogPin>,
    trace_id: &str,
    (kept, options): (&dyn Source, &Options),
    findings: &mut Findings,
) -> io::Result<LogView> {
    let mut checkpoints = kept.checkpoints()?;
    if let Some(reader) = kept.log()? {
        let entries = elsewhere::shared_entries(reader, &view, findings)?;
        if entries >= view.size
            && let Some(reader) = kept.log()?
        {
            checkpoints.insert(0, extract.checkpoint.clone().into_bytes());
            let wanted = Wanted {
                traces: Traces::One(trace_id),
                sizes: pin.map(|pin| pin.size).into_iter().collect(),
                checkpoints: &checkpoints,
                profile: options.profile,
            };
            let mut own = Findings::default();
            let log = log::read(reader, &wanted, &mut own)?;
            findings.take_over_from_log(own);
            return Ok(log.view(trace_id, pin));
        }
        elsewhere::shorter(entries, &view, findings);
    }
    for bytes in &checkpoints {
        elsewhere::checkpoint(bytes, &view, &extract.checkpoint, findings);
    }
    Ok(of_extract(&view, pin))
}

fn of_extract(view: &ExtractView, pin: Option<&LogPin>) -> LogView {
    let known_before = |entry: u64| {
        let extents = view.extents.iter().filter(|extent| extent.entry < entry);
        let opened = view.opened.is_some_and(|(opened, _)| opened < entry);
        extents.map(|extent| extent.size).max().unwrap_or(u64::from(opened))
    };
    let pin_holds = pin.map(|pin| {
        let head = pin.size.checked_sub(1).and_then(|last| view.hashes.get(&last));
        head == Some(&pin.head) && view.keys_head_before(pin.size) == Some(pin.keys_head)
    });
    LogView {
        book: view.book(known_before),
        origin: view.origin.clone(),
        root: view.root,
        entries: view.size,
        opened: view.opened.map(|(_, hash)| hash),
        extents: view
            .extents
            .iter()
            .map(|extent| Extent {
                entry: extent.entry,
                size: extent.size,
                head: Some(extent.head),
                merkle_root: Some(extent.merkle_root),
                last_event_at: Some(extent.last_event_at),
            })
            .collect(),
        closed: view.closed,
        pin_holds,
    }
}
