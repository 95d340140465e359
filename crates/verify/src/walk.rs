//! One line after the other: bytes, schema, hashes, chain. The same for traces and for the log.

use std::collections::BTreeSet;

use countersign_format::event::{Event, Reading, SignatureFaults, check_event};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::merkle::Frontier;
use countersign_format::report::FailureCode;
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;
use serde_json::Value;

use crate::findings::{CheckId, Findings, Place};
use crate::lines::RawLine;
use crate::profile::Profile;

/// Faults of one event that its finding spells out; `check event` lists the others.
const FAULTS_SHOWN: usize = 8;

/// Where the walk stands.
#[derive(Debug)]
pub(crate) struct Walk {
    profile: Profile,
    /// Lines seen.
    pub(crate) index: u64,
    /// Stored hash of the last event.
    pub(crate) head: Hash,
    /// The tree over the stored hashes.
    pub(crate) tree: Frontier,
    /// Events before the first break.
    pub(crate) first_break: Option<u64>,
    /// Whether every event so far could be taken at its word; replaying stops where one cannot.
    pub(crate) sound: bool,
    dialect: Option<Dialect>,
    trace_id: Option<String>,
    last_id: Option<Ulid>,
    seen_ids: BTreeSet<String>,
    last_at: Option<Timestamp>,
}

/// A line that could be read.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) index: u64,
    pub(crate) place: Place,
    pub(crate) reading: Reading,
    /// The event, if its schema holds.
    pub(crate) event: Option<Event>,
}

impl Walk {
    pub(crate) const fn new(profile: Profile, trace_id: Option<String>) -> Self {
        Self {
            profile,
            index: 0,
            head: Hash::GENESIS,
            tree: Frontier::new(),
            first_break: None,
            sound: true,
            dialect: None,
            trace_id,
            last_id: None,
            seen_ids: BTreeSet::new(),
            last_at: None,
        }
    }

    /// Takes the next line in. `None` if nothing can be read from it.
    pub(crate) fn line(&mut self, raw: &RawLine<'_>, findings: &mut Findings) -> Option<Step> {
        let bytes = match raw {
            RawLine::Complete(bytes) => *bytes,
            RawLine::Unterminated(bytes) => return self.unterminated(bytes, findings),
            RawLine::TooLong => {
                self.unreadable("the line is longer than an event may be".to_owned(), findings);
                return None;
            }
        };
        match Reading::of(bytes) {
            Ok(reading) => Some(self.step(reading, findings)),
            Err(fault) => {
                self.unreadable(fault.to_string(), findings);
                None
            }
        }
    }

    /// The last bytes of a ledger. A whole event that only lacks its line break counts; anything
    /// else is what a crash leaves behind, and no event.
    fn unterminated(&mut self, bytes: &[u8], findings: &mut Findings) -> Option<Step> {
        let whole = Reading::of(bytes).ok().filter(|reading| {
            reading.fault.is_none()
                && hash_member(reading, "event_hash") == Some(reading.event_hash)
        });
        let place = Place::event(self.index, None);
        match whole {
            Some(reading) => {
                let message = "the last line has no line break".to_owned();
                findings.warn(CheckId::Schema, "MISSING_FINAL_NEWLINE", &place, message);
                Some(self.step(reading, findings))
            }
            None => {
                let message = "an incomplete line at the end, which is no event".to_owned();
                findings.warn(CheckId::Schema, "TORN_TAIL", &place, message);
                None
            }
        }
    }

    fn unreadable(&mut self, message: String, findings: &mut Findings) {
        let place = Place::event(self.index, None);
        findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, &place, message);
        self.sound = false;
        self.index += 1;
    }

    fn step(&mut self, reading: Reading, findings: &mut Findings) -> Step {
        let index = self.index;
        let event_id = reading.value.get("event_id").and_then(Value::as_str).map(str::to_owned);
        let place = Place::event(index, event_id);
        let event = self.schema(&reading, &place, findings);
        self.hashes(&reading, &place, findings);
        self.chain(&reading, &place, findings);
        self.time(&reading, &place, findings);
        self.index += 1;
        Step { index, place, reading, event }
    }

    fn schema(
        &mut self,
        reading: &Reading,
        place: &Place,
        findings: &mut Findings,
    ) -> Option<Event> {
        let mut messages: Vec<String> = Vec::new();
        messages.extend(reading.fault.as_ref().map(ToString::to_string));
        let faults = check_event(&reading.value, SignatureFaults::LeftOut);
        messages.extend(faults.iter().take(FAULTS_SHOWN).map(ToString::to_string));
        if faults.len() > FAULTS_SHOWN {
            messages.push(format!("and {} more", faults.len() - FAULTS_SHOWN));
        }
        messages.extend(self.identity(reading));
        // One event that is wrong in five members is one cause.
        if !messages.is_empty() {
            let message = messages.join("; ");
            findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, place, message);
        }
        let event = if faults.is_empty() { reading.event() } else { None };
        self.sound &= messages.is_empty() && event.is_some();
        event
    }

    /// The members that must fit to those of the events before.
    fn identity(&mut self, reading: &Reading) -> Vec<String> {
        let mut messages = Vec::new();
        let member = |name: &str| reading.value.get(name).and_then(Value::as_str);
        let dialect = *self.dialect.get_or_insert(reading.dialect);
        if dialect != reading.dialect {
            messages.push("/schema_version: not that of the first event".to_owned());
        }
        if let Some(trace_id) = member("trace_id") {
            let first = self.trace_id.get_or_insert_with(|| trace_id.to_owned());
            if first != trace_id {
                messages.push(format!("/trace_id: this trace is {first}"));
            }
        }
        if let Some(id) = member("event_id") {
            match (dialect, id.parse::<Ulid>()) {
                (Dialect::V1_1, Ok(ulid)) => {
                    if self.last_id.is_some_and(|last| ulid <= last) {
                        messages.push("/event_id: ids must increase within a trace".to_owned());
                    }
                    self.last_id = Some(ulid);
                }
                (Dialect::V1_1, Err(_)) => {}
                (Dialect::V1_0, _) => {
                    if !self.seen_ids.insert(id.to_owned()) {
                        messages.push("/event_id: used before in this trace".to_owned());
                    }
                }
            }
        }
        messages
    }

    fn hashes(&mut self, reading: &Reading, place: &Place, findings: &mut Findings) {
        let stored_event = hash_member(reading, "event_hash");
        let stored_payload = hash_member(reading, "payload_hash");
        let differs = |stored: Option<Hash>, computed: Option<Hash>| match (stored, computed) {
            (Some(stored), Some(computed)) if stored != computed => Some((stored, computed)),
            _ => None,
        };
        let message = if let Some((stored, computed)) =
            differs(stored_payload, reading.payload_hash)
        {
            format!("the payload hashes to {computed}, the event states {stored}")
        } else if let Some((stored, computed)) = differs(stored_event, Some(reading.event_hash)) {
            format!("the event hashes to {computed}, it states {stored}")
        } else {
            return;
        };
        self.sound = false;
        findings.fail(CheckId::EventHash, FailureCode::HashMismatch, place, message);
    }

    /// Only the first break is reported: everything after it is out of order for the same cause.
    fn chain(&mut self, reading: &Reading, place: &Place, findings: &mut Findings) {
        let previous = hash_member(reading, "prev_event_hash");
        let seq = reading.value.get("seq").and_then(Value::as_u64);
        let fault = if previous.is_some_and(|previous| previous != self.head) {
            let found = previous.unwrap_or(Hash::GENESIS);
            Some(format!(
                "event {} does not follow the one before: expected previous {}, found {found}",
                self.index, self.head
            ))
        } else {
            seq.filter(|&seq| seq != self.index)
                .map(|seq| format!("event {} says that it is number {seq}", self.index))
        };
        if let (Some(message), None) = (fault, self.first_break) {
            let trusted = match self.index.checked_sub(1) {
                Some(last) => format!("the last event in order is {last}"),
                None => "no event is in order".to_owned(),
            };
            let message = format!("{message}; {trusted}");
            findings.fail(CheckId::Chain, FailureCode::ChainBreak, place, message);
            self.first_break = Some(self.index);
            self.sound = false;
        }
        self.head = hash_member(reading, "event_hash").unwrap_or(reading.event_hash);
        self.tree.push(&self.head);
    }

    fn time(&mut self, reading: &Reading, place: &Place, findings: &mut Findings) {
        let text = reading.value.get("created_at").and_then(Value::as_str).unwrap_or_default();
        let Ok(at) = text.parse::<Timestamp>() else { return };
        if let Some(last) = self.last_at.filter(|&last| at < last) {
            let message = format!("the event says {at}, the one before {last}");
            if self.profile.time_never_decreases {
                findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, place, message);
            } else {
                findings.warn(CheckId::Schema, "CLOCK_REGRESSION", place, message);
            }
        }
        self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
    }

    /// The schema that the trace follows.
    pub(crate) const fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// The latest time of all events so far.
    pub(crate) const fn last_at(&self) -> Option<Timestamp> {
        self.last_at
    }

    pub(crate) fn trace_id(&self) -> Option<&str> {
        self.trace_id.as_deref()
    }
}

fn hash_member(reading: &Reading, name: &str) -> Option<Hash> {
    reading.value.get(name)?.as_str()?.parse().ok()
}
