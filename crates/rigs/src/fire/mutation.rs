//! Every small change of a long session, and whether it is found.
//!
//! Every byte of the ledger becomes every other byte, is taken out, gets every byte before it, and is
//! where the ledger ends. Of each such change the line that it falls into is read as the verifier reads it; what that does not
//! find goes before the whole verifier, as does a part of the rest, evenly spread. Changes of events,
//! members and artifacts always do. The twin reads a line and writes it again before it looks.

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
/// Mutations of each kind that go before the whole verifier where no number is given.
const WHOLE: [usize; 2] = [300, 20_000];
/// Mutations that were not found, of each kind, that are shown.
const SHOWN_MAX: usize = 20;
/// Mutations that are tried between two looks at the time.
const CHUNK: usize = 256;

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
    let field = Field { scene: &scene, options: &options, log: &log };
    let deadline = order.deadline();
    let kinds = MutationKind::ALL.iter().filter(|kind| !kind.is_of_bytes());
    let mut kinds = kinds.map(|kind| kind.as_str()).chain(Change::ALL.map(Change::as_str));
    if !kinds.any(|kind| order.wants(kind)) {
        return Err(format!("there is no kind of change `{}`", order.only.unwrap_or_default()));
    }
    // Bytes are by far the most: they come last, so that a short time is spent on all the others.
    let mut missed = field.every_kind(order, deadline);
    for change in Change::ALL.into_iter().filter(|change| order.wants(change.as_str())) {
        missed += field.every_byte(change, order, deadline);
    }
    let twin = field.twin();
    println!("{:<20}{twin:>8} whitespaces not found", "twin that rewrites");
    match (missed, twin) {
        (0, 1..) => Ok(Ending::Passed),
        (0, 0) => Err("a verifier that rewrites lines was not caught".to_owned()),
        (missed, _) => Err(format!("{missed} mutations were not found")),
    }
}

/// What is done to a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It is another one: all 255, of which eight differ in one bit.
    Substituted,
    Deleted,
    /// One is put before it: all 256.
    Inserted,
    /// It and everything behind it is gone.
    CutOff,
}

impl Change {
    const ALL: [Self; 4] = [Self::CutOff, Self::Deleted, Self::Substituted, Self::Inserted];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Substituted => "bytes substituted",
            Self::Deleted => "bytes deleted",
            Self::Inserted => "bytes inserted",
            Self::CutOff => "ledger cut off",
        }
    }

    /// In how many ways.
    const fn ways(self) -> usize {
        match self {
            Self::Substituted => 255,
            Self::Deleted | Self::CutOff => 1,
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
            Self::CutOff => bytes.truncate(at),
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
    /// Whether the verifier fails the session with this ledger.
    fn fails(&self, ledger: &[u8]) -> Result<(), String> {
        judged(self.log.verify(&Changed { ledger, scene: self.scene }, self.options))
    }

    fn places(&self) -> Vec<Place> {
        let mut at = 0;
        let ledger = self.scene.ledger();
        let lines = ledger.split_inclusive(|&byte| byte == b'\n').map(|line| {
            let bare = line.strip_suffix(b"\n").unwrap_or(line);
            let hash = Reading::of(bare).map_or(Hash::GENESIS, |reading| reading.event_hash);
            let place = Place { line: line.to_vec(), at, hash };
            at += line.len();
            place
        });
        lines.collect()
    }

    /// Makes a change to every byte, in every way.
    fn every_byte(&self, change: Change, order: &Order, deadline: Deadline) -> usize {
        let started = Instant::now();
        let (ledger, places) = (self.scene.ledger(), self.places());
        let total = ledger.len() * change.ways();
        let [short, long] = WHOLE;
        // As many as were asked for go before the whole verifier, at even distances.
        let stride = (total / order.count(short, long).max(1)).max(1);
        let next = AtomicUsize::new(0);
        let all = Mutex::new(Tally::default());
        let work = || {
            let mut tally = Tally::default();
            while let Some(place) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
                for (at, number) in (0..place.line.len()).zip(place.at..) {
                    if deadline.is_over() {
                        break;
                    }
                    for way in 0..change.ways() {
                        tally.tried += 1;
                        let mut line = place.line.clone();
                        change.apply(&mut line, at, way);
                        let due = (number * change.ways() + way).is_multiple_of(stride);
                        // Nothing is left of the line: the others say whether one is missing.
                        if !line.is_empty() && is_found(&line, place) && !due {
                            continue;
                        }
                        tally.verified += 1;
                        let mut changed = ledger.clone();
                        change.apply(&mut changed, number, way);
                        if let Err(why) = self.fails(&changed) {
                            tally.missed.push(format!("byte {number}, way {way}: {why}"));
                        }
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
        report(change.as_str(), &tally, total, started);
        tally.missed.len()
    }

    /// Makes changes of every kind that are not of bytes, all before the whole verifier.
    fn every_kind(&self, order: &Order, deadline: Deadline) -> usize {
        let mutations = Mutations::of(self.scene, &Scene::another(Dialect::V1_1));
        let [short, _] = WHOLE;
        let mut missed = 0;
        for kind in MutationKind::ALL {
            // Those of bytes come by themselves, and all of them.
            if kind.is_of_bytes() || !order.wants(kind.as_str()) {
                continue;
            }
            let (started, total) = (Instant::now(), mutations.count(kind));
            let mut tally = Tally::default();
            let chosen = chosen(total, order.count(short, total), order.seed);
            for chunk in chosen.get(order.skip..).unwrap_or_default().chunks(CHUNK) {
                if deadline.is_over() {
                    break;
                }
                let struck = strike(&mutations, kind, chunk, |struck| {
                    judged(self.log.verify(struck, self.options))
                });
                tally.tried += struck.tried;
                tally.missed.extend(struck.missed);
            }
            tally.verified = tally.tried;
            report(kind.as_str(), &tally, total, started);
            missed += tally.missed.len();
        }
        missed
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
                rewritten(&line).as_deref() == Some(bare) && is_found(&line, &place)
            })
            .count()
    }
}

/// Whether a changed line is found by itself: what it says now, or what it should have been, is not
/// what the next line, or the log, says of it.
fn is_found(line: &[u8], place: &Place) -> bool {
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

fn report(name: &str, tally: &Tally, total: usize, started: Instant) {
    let seconds = started.elapsed().as_secs_f64();
    let found = tally.tried - tally.missed.len();
    println!(
        "{name:<20}{:>10} tried of {total}{found:>10} found{:>9} by all of the verifier{seconds:>9.1} s",
        tally.tried, tally.verified
    );
    for what in tally.missed.iter().take(SHOWN_MAX) {
        println!("  not found: {what}");
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

fn judged(verified: io::Result<VerificationReport>) -> Result<(), String> {
    let report = verified.map_err(|error| error.to_string())?;
    // The last line break is no part of an event: that it is gone is told, and is no failure.
    let told = |code: &str| report.warnings.iter().any(|it| it.warning_code == code);
    match exit_status(&report, OpenTraces::Accepted) {
        3 if !report.failures.is_empty() => Ok(()),
        _ if told("MISSING_FINAL_NEWLINE") => Ok(()),
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
        for (change, ways) in [
            (Change::Substituted, 255),
            (Change::Deleted, 1),
            (Change::Inserted, 256),
            (Change::CutOff, 1),
        ] {
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
}
