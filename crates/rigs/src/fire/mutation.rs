//! Every small change of a long session, and whether it is found.
//!
//! Changes of events, members and artifacts, and every cut of the ledger, go before the whole
//! verifier. Every byte of the ledger becomes every other byte, is taken out, and gets every byte
//! before it: of each such change the line that it falls into is read as the verifier reads it, and
//! what that does not find goes before the whole verifier, as does a part of the rest, evenly spread.

use std::io::{self, BufRead};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use countersign_format::event::Reading;
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::report::VerificationReport;
use countersign_format::shape::Dialect;
use countersign_testkit::mutation::{MutationKind, Mutations, strike};
use countersign_testkit::tamper::Scene;
use countersign_verify::{KnownLog, OpenTraces, Options, Profile, Source, exit_status};
use serde_json::Value;

use super::{Deadline, Ending, Order, Setting};

/// Events of the session.
const EVENTS: [usize; 2] = [12, 200];
/// Mutations of each kind that go before the whole verifier where no number is given; in the long
/// setting, all but those of single bytes do.
const WHOLE: [usize; 2] = [300, 20_000];
/// Mutations that were not found, of each kind, that are shown.
const SHOWN_MAX: usize = 20;
/// Mutations that are tried between two looks at the time.
const CHUNK: usize = 256;
/// Mutations of each kind that the reader of single lines is given.
const TWIN: usize = 50;

pub(super) fn run(order: &Order) -> Result<Ending, String> {
    let [short, long] = EVENTS;
    let events = if order.setting == Setting::Short { short } else { long };
    let scene = Scene::of_size(Dialect::V1_1, events);
    let options = scene.options(Profile::DEFAULT);
    let log = KnownLog::read(&scene, options.profile).map_err(|error| error.to_string())?;
    let log = log.ok_or("the session has no log")?;
    let whole = log.verify(&scene, &options).map_err(|error| error.to_string())?;
    if exit_status(&whole, OpenTraces::Incomplete) != 0 {
        return Err(format!("the session does not verify before anything is done: {whole:?}"));
    }
    println!("{:<20}{events:>8} events{:>9} bytes", "session", scene.ledger().len());
    let mutations = Mutations::of(&scene, &Scene::another(Dialect::V1_1));
    let field = Field { ledger: scene.ledger(), scene: &scene, options: &options, log: &log };
    let deadline = order.deadline();
    // Bytes are by far the most: they come last, so that a short time is spent on all the others.
    let (mut tried, mut missed) = (0, 0);
    for kind in KINDS.into_iter().filter(|kind| order.wants(kind.as_str())) {
        let tally = field.every(&mutations, kind, order, deadline);
        (tried, missed) = (tried + tally.tried, missed + tally.missed.len());
    }
    for change in Change::ALL.into_iter().filter(|change| order.wants(change.as_str())) {
        let tally = field.every_byte(change, order, deadline);
        (tried, missed) = (tried + tally.tried, missed + tally.missed.len());
    }
    by_lines(&mutations, order)?;
    let twin = field.twin();
    println!("{:<20}{twin:>10} blanks not found", "twin that rewrites");
    match (missed, twin) {
        (0, 1..) if tried == 0 => Ok(Ending::NotRun("nothing was tried".to_owned())),
        (0, 1..) => Ok(Ending::Passed),
        (0, 0) => Err("a verifier that rewrites lines was not caught".to_owned()),
        (missed, _) => Err(format!("{missed} mutations were not found")),
    }
}

/// The kinds that always go before the whole verifier; cuts are by far the most of them.
const KINDS: [MutationKind; 10] = [
    MutationKind::EventDeleted,
    MutationKind::EventDuplicated,
    MutationKind::EventsSwapped,
    MutationKind::EventMoved,
    MutationKind::EventSpliced,
    MutationKind::FieldEdited,
    MutationKind::ArtifactChanged,
    MutationKind::ArtifactShortened,
    MutationKind::ArtifactDeleted,
    MutationKind::Truncated,
];

/// The names of all kinds of change.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.map(MutationKind::as_str).into_iter().chain(Change::ALL.map(Change::as_str))
}

/// What is done to a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It is another one: all 255, of which eight differ in one bit.
    Substituted,
    Deleted,
    /// One is put before it: all 256.
    Inserted,
}

impl Change {
    const ALL: [Self; 3] = [Self::Deleted, Self::Substituted, Self::Inserted];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Substituted => "bytes substituted",
            Self::Deleted => "bytes deleted",
            Self::Inserted => "bytes inserted",
        }
    }

    /// In how many ways.
    const fn ways(self) -> usize {
        match self {
            Self::Substituted => 255,
            Self::Deleted => 1,
            Self::Inserted => 256,
        }
    }

    /// Changes the byte at `at` in one of these ways.
    fn apply(self, bytes: &mut Vec<u8>, at: usize, way: usize) {
        let way = way as u8;
        match self {
            Self::Substituted => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = byte.wrapping_add(way).wrapping_add(1);
                }
            }
            Self::Deleted => {
                bytes.remove(at);
            }
            Self::Inserted => bytes.insert(at, way),
        }
    }
}

/// A ledger in memory, with the artifacts and the log of the session that it was.
struct Changed<'f> {
    ledger: &'f [u8],
    scene: &'f Scene,
}

impl Source for Changed<'_> {
    fn events(&self) -> io::Result<Box<dyn BufRead + '_>> {
        Ok(Box::new(self.ledger))
    }

    fn log(&self) -> io::Result<Option<Box<dyn BufRead + '_>>> {
        self.scene.log()
    }

    fn checkpoints(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
}

struct Field<'f> {
    ledger: Vec<u8>,
    scene: &'f Scene,
    options: &'f Options,
    log: &'f KnownLog,
}

/// One line of the ledger with its line break, where it begins, and its hash.
struct Place {
    line: Vec<u8>,
    at: usize,
    hash: Hash,
}

/// What came of one kind of change.
#[derive(Default)]
struct Tally {
    tried: usize,
    /// Changes that went before the whole verifier.
    verified: usize,
    missed: Vec<String>,
}

impl Field<'_> {
    /// Whether the verifier fails the session that this is now, or does not have to.
    fn fails(&self, session: &dyn Source, ledger: &[u8]) -> Result<(), String> {
        let report = self.log.verify(session, self.options).map_err(|error| error.to_string())?;
        verdict(&report, self.ledger.strip_suffix(b"\n") == Some(ledger))
    }

    fn places(&self) -> Vec<Place> {
        let mut at = 0;
        let lines = self.ledger.split_inclusive(|&byte| byte == b'\n').map(|line| {
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            let hash = Reading::of(bare).map_or(Hash::GENESIS, |reading| reading.event_hash);
            let place = Place { line: line.to_vec(), at, hash };
            at += line.len();
            place
        });
        lines.collect()
    }

    /// Makes a change to every byte, in every way, in their order: so that another run can go on
    /// where the time of this one was over.
    fn every_byte(&self, change: Change, order: &Order, deadline: Deadline<'_>) -> Tally {
        let started = Instant::now();
        let (places, total) = (self.places(), self.ledger.len() * change.ways());
        let [short, long] = WHOLE;
        // As many as were asked for go before the whole verifier, at even distances.
        let stride = (total / order.count(short, long).max(1)).max(1);
        let next = AtomicUsize::new(order.skip.min(total));
        let all = Mutex::new(Tally::default());
        let work = || {
            let mut tally = Tally::default();
            // Whatever was taken is tried to its end.
            while next.load(Ordering::Relaxed) < total && !deadline.is_over() {
                let from = next.fetch_add(CHUNK, Ordering::Relaxed);
                for index in from..total.min(from + CHUNK) {
                    let (number, way) = (index / change.ways(), index % change.ways());
                    tally.tried += 1;
                    if self.is_found(change, &places, number, way) && !index.is_multiple_of(stride)
                    {
                        continue;
                    }
                    tally.verified += 1;
                    let mut ledger = self.ledger.clone();
                    change.apply(&mut ledger, number, way);
                    let changed = Changed { ledger: &ledger, scene: self.scene };
                    if let Err(why) = self.fails(&changed, &ledger) {
                        tally.missed.push(format!("byte {number}, way {way}: {why}"));
                    }
                }
            }
            let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.tried += tally.tried;
            all.verified += tally.verified;
            all.missed.extend(tally.missed);
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, Into::into) {
                scope.spawn(work);
            }
        });
        let tally = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        report(change.as_str(), &tally, (order.skip, total, total), started);
        tally
    }

    /// Whether a change is found by the line alone that the verifier then reads.
    fn is_found(&self, change: Change, places: &[Place], number: usize, way: usize) -> bool {
        let after = places.partition_point(|place| place.at <= number);
        let Some(place) = after.checked_sub(1).and_then(|at| places.get(at)) else { return false };
        let mut line = place.line.clone();
        change.apply(&mut line, number - place.at, way);
        if !line.ends_with(b"\n") {
            // Without its line break it goes on with the next line. Behind the last one, the
            // verifier takes half a line for one that was never written: the log has to tell.
            let Some(next) = places.get(after) else { return false };
            line.extend_from_slice(&next.line);
        }
        tells(&line, place)
    }

    /// Makes changes of a kind, all before the whole verifier.
    fn every(
        &self,
        mutations: &Mutations,
        kind: MutationKind,
        order: &Order,
        deadline: Deadline<'_>,
    ) -> Tally {
        let [short, _] = WHOLE;
        let (started, total) = (Instant::now(), mutations.count(kind));
        let mut tally = Tally::default();
        let chosen = chosen(total, order.count(short, total), order.seed);
        for chunk in chosen.get(order.skip..).unwrap_or_default().chunks(CHUNK) {
            if deadline.is_over() {
                break;
            }
            let struck =
                strike(mutations, kind, chunk, |struck| self.fails(struck, struck.ledger()));
            tally.tried += struck.tried;
            tally.missed.extend(struck.missed);
        }
        tally.verified = tally.tried;
        report(kind.as_str(), &tally, (order.skip, chosen.len(), total), started);
        tally
    }

    /// How many spaces can be put into the first event before a reader notices that reads a line and
    /// writes it again, rather than to ask whether these are its bytes.
    fn twin(&self) -> usize {
        let Some(place) = self.places().into_iter().next() else { return 0 };
        let bare = place.line.strip_suffix(b"\n").unwrap_or(&place.line);
        let rewritten = |bytes: &[u8]| {
            serde_json::from_slice::<Value>(bytes).ok().map(|value| json::to_bytes(&value))
        };
        (0..bare.len())
            .filter(|&at| {
                let mut line = bare.to_vec();
                line.insert(at, b' ');
                rewritten(&line).as_deref() == Some(bare) && tells(&line, &place)
            })
            .count()
    }
}

/// Whether a changed line tells by itself: what it says now, or what it should have been, is not
/// what the next line, or the log, says of it.
fn tells(line: &[u8], place: &Place) -> bool {
    let bare = line.strip_suffix(b"\n").unwrap_or(line);
    bare.split(|&byte| byte == b'\n').any(|piece| match Reading::of(piece) {
        Err(_) => true,
        Ok(reading) => {
            let stated = reading.value.get("event_hash").and_then(Value::as_str);
            reading.fault.is_some()
                || reading.event_hash != place.hash
                || stated != Some(place.hash.to_hex().as_str())
        }
    })
}

/// Strikes a reader that takes each line for itself: it knows of no order, signature, log or artifact,
/// and forgives half a line at the end. Each kind of change must get past it, or the kind shows nothing.
fn by_lines(mutations: &Mutations, order: &Order) -> Result<(), String> {
    let (mut tried, mut missed) = (0, 0);
    for kind in KINDS.into_iter().filter(|kind| order.wants(kind.as_str())) {
        let chosen = chosen(mutations.count(kind), TWIN, order.seed);
        let struck = strike(mutations, kind, &chosen, |struck| {
            let lines = struck.ledger().split_inclusive(|&byte| byte == b'\n');
            let mut whole = lines.filter_map(|line| line.strip_suffix(b"\n"));
            match whole.all(is_sound) {
                true => Err("every line is sound".to_owned()),
                false => Ok(()),
            }
        });
        if struck.missed.is_empty() {
            return Err(format!("{kind}: a reader of single lines was not caught"));
        }
        (tried, missed) = (tried + struck.tried, missed + struck.missed.len());
    }
    println!("{:<20}{tried:>10} tried{missed:>10} not found", "twin by lines");
    Ok(())
}

/// Whether a line is an event that has the hash it states.
fn is_sound(line: &[u8]) -> bool {
    Reading::of(line).is_ok_and(|reading| {
        let stated = reading.value.get("event_hash").and_then(Value::as_str);
        reading.fault.is_none() && stated == Some(reading.event_hash.to_hex().as_str())
    })
}

/// Says what came of a kind: so many were left to an earlier run, so many were due, so many there are.
fn report(name: &str, tally: &Tally, (skip, due, total): (usize, usize, usize), started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    let found = tally.tried - tally.missed.len();
    println!(
        "{name:<20}{:>10} tried of {total}{found:>10} found{:>9} by all of the verifier{seconds:>9.1} s",
        tally.tried, tally.verified
    );
    for what in tally.missed.iter().take(SHOWN_MAX) {
        println!("  not found: {what}");
    }
    let until = skip.saturating_add(tally.tried);
    if until < due {
        println!("  not tried to the end, go on with: --only '{name}' --skip {until}");
    }
}

/// Which mutations of a kind are tried: all, or as many as were asked for, evenly spread from where
/// the seed begins.
fn chosen(all: usize, count: usize, seed: u64) -> Vec<usize> {
    if count >= all {
        return (0..all).collect();
    }
    let step = all / count.max(1);
    let first = usize::try_from(seed % step.max(1) as u64).unwrap_or(0);
    (0..count).map(|turn| first + turn * step).collect()
}

/// What the verifier's report comes to. A warning is enough where `only_the_end` is gone: the last line
/// break is no part of an event. Nowhere else: half a line at the end is no more than a warning either,
/// and the events that are gone with it must fail.
fn verdict(report: &VerificationReport, only_the_end: bool) -> Result<(), String> {
    let told = |code: &str| report.warnings.iter().any(|it| it.warning_code == code);
    match exit_status(report, OpenTraces::Accepted) {
        3 if !report.failures.is_empty() => Ok(()),
        // 4 since it is given no artifacts.
        0 | 4 if only_the_end && told("MISSING_FINAL_NEWLINE") => Ok(()),
        status => Err(format!("exit status {status}, {}", report.summary)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_all_mutations_is_spread_over_them() {
        assert_eq!(chosen(10, usize::MAX, 1).len(), 10);
        assert_eq!(chosen(10, 50, 1).len(), 10);
        assert_eq!(chosen(10, 3, 5), [2, 5, 8]);
        assert_eq!(chosen(10, 3, 6), [0, 3, 6]);
    }

    #[test]
    fn every_way_to_change_a_byte_gives_another_text() {
        for (change, ways) in
            [(Change::Substituted, 255), (Change::Deleted, 1), (Change::Inserted, 256)]
        {
            let all: std::collections::BTreeSet<Vec<u8>> = (0..change.ways())
                .map(|way| {
                    let mut bytes = b"abc".to_vec();
                    change.apply(&mut bytes, 1, way);
                    bytes
                })
                .collect();
            assert_eq!(all.len(), ways, "{change:?}");
            assert!(!all.contains(b"abc".as_slice()), "{change:?}");
        }
    }

    /// Asks the verifier for its report of the first so many bytes of a session.
    fn cut_to(scene: &Scene, ledger: &[u8]) -> VerificationReport {
        let options = scene.options(Profile::DEFAULT);
        let log = KnownLog::read(scene, options.profile).unwrap().unwrap();
        log.verify(&Changed { ledger, scene }, &options).unwrap()
    }

    #[test]
    fn only_the_last_line_break_may_be_gone_with_a_warning() {
        let scene = Scene::of_size(Dialect::V1_1, 12);
        let ledger = scene.ledger();
        let whole = cut_to(&scene, &ledger);
        assert!(verdict(&whole, false).is_err() && verdict(&whole, true).is_err());
        let report = cut_to(&scene, &ledger[..ledger.len() - 1]);
        assert!(verdict(&report, true).is_ok());
        assert!(verdict(&report, false).is_err(), "the same warning about anything else");
        // Half of the last event: the line is only warned of, and the log tells what is missing.
        let report = cut_to(&scene, &ledger[..ledger.len() - 2]);
        assert!(report.warnings.iter().any(|it| it.warning_code == "TORN_TAIL"));
        assert!(verdict(&report, false).is_ok());
        let torn = VerificationReport { failures: Vec::new(), ..report };
        assert!(verdict(&torn, false).is_err());
    }

    #[test]
    fn a_line_that_loses_its_end_is_read_with_the_next_one_and_the_last_one_by_the_whole_verifier()
    {
        let scene = Scene::of_size(Dialect::V1_1, 12);
        let options = scene.options(Profile::DEFAULT);
        let log = KnownLog::read(&scene, options.profile).unwrap().unwrap();
        let ledger = scene.ledger();
        let end = ledger.iter().position(|&byte| byte == b'\n').unwrap();
        let last = ledger.len() - 1;
        let field = Field { ledger, scene: &scene, options: &options, log: &log };
        let places = field.places();
        assert!(field.is_found(Change::Deleted, &places, end, 0));
        assert!(!field.is_found(Change::Deleted, &places, last, 0));
        assert!((0..255).all(|way| !field.is_found(Change::Substituted, &places, last, way)));
        assert!(field.is_found(Change::Inserted, &places, last, 0));
    }
}
