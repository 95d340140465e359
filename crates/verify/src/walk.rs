//! One line after the other: what its bytes say of themselves, and whether it follows the one
//! before. The same for traces and for the log.

use std::collections::BTreeSet;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::merkle::Frontier;
use countersign_format::report::FailureCode;
use countersign_format::shape::Dialect;
use countersign_format::time::Timestamp;

use crate::examine::{Examined, Step};
use crate::findings::{CheckId, Findings, Place};
use crate::profile::Profile;

/// Ids that are remembered after a break, to tell a repeated event from one that was moved.
const IDS_AFTER_BREAK_MAX: usize = 4_096;

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
    /// The first place where the order is broken.
    pub(crate) broken: Option<Break>,
    /// The first line with something wrong in its bytes, hashes, order or signature.
    pub(crate) first_fault: Option<u64>,
    /// The last such line.
    last_fault: Option<u64>,
    /// Whether every event so far could be taken at its word; replaying stops where one cannot.
    pub(crate) sound: bool,
    /// Whether there are lines of which nothing is known, here or behind the last one.
    pub(crate) blind: bool,
    dialect: Option<Dialect>,
    trace_id: Option<String>,
    last_id: Option<Ulid>,
    seen_ids: BTreeSet<String>,
    last_at: Option<Timestamp>,
}

/// A place where the order is broken.
#[derive(Debug)]
pub(crate) struct Break {
    /// The first event out of order.
    index: u64,
    /// The id of the last one in order.
    last_id: Option<Ulid>,
    /// Ids met since.
    since: BTreeSet<Ulid>,
}

impl Walk {
    pub(crate) const fn new(profile: Profile, trace_id: Option<String>) -> Self {
        Self {
            profile,
            index: 0,
            head: Hash::GENESIS,
            tree: Frontier::new(),
            broken: None,
            first_fault: None,
            last_fault: None,
            sound: true,
            blind: false,
            dialect: None,
            trace_id,
            last_id: None,
            seen_ids: BTreeSet::new(),
            last_at: None,
        }
    }

    /// Takes the next line in. `None` if nothing can be read from it.
    pub(crate) fn line<'a>(
        &mut self,
        examined: &'a mut Examined,
        findings: &mut Findings,
    ) -> Option<&'a mut Step> {
        let why = match examined {
            Examined::Line(step) => {
                self.step(step, findings);
                return Some(step);
            }
            Examined::Torn => {
                let place = Place::event(self.index, None);
                let message = "an incomplete line at the end, which is no event".to_owned();
                findings.warn(CheckId::Schema, "TORN_TAIL", &place, message);
                return None;
            }
            Examined::TooLong => "the line is longer than an event may be".to_owned(),
            Examined::Endless => {
                "the line is longer than an event may be, and its end was not looked for: nothing \
                 after it was read"
                    .to_owned()
            }
            Examined::Unreadable(why) => std::mem::take(why),
        };
        let place = Place::event(self.index, None);
        findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, &place, why);
        self.faulty();
        self.sound = false;
        self.blind = true;
        self.index += 1;
        None
    }

    /// Says that something is wrong with the line that was just read, or is being read.
    fn faulty(&mut self) {
        self.failed(self.index);
    }

    fn failed(&mut self, index: u64) {
        self.first_fault.get_or_insert(index);
        self.last_fault = Some(index);
    }

    fn step(&mut self, step: &mut Step, findings: &mut Findings) {
        if !step.terminated {
            let message = "the last line has no line break".to_owned();
            findings.warn(
                CheckId::Schema,
                "MISSING_FINAL_NEWLINE",
                &Place::event(self.index, None),
                message,
            );
        }
        let gap = self.follow(step);
        self.schema(step, findings);
        self.hashes(step, findings);
        if let Some(message) = gap {
            let place = step.place(self.index);
            findings.fail(CheckId::Chain, FailureCode::ChainBreak, &place, message);
        }
        self.time(step, findings);
        self.index += 1;
    }

    fn schema(&mut self, step: &mut Step, findings: &mut Findings) {
        let foreign = self.identity(step);
        // One event that is wrong in five members is one cause.
        if !step.faults.is_empty() {
            let (place, message) = (step.place(self.index), step.faults.join("; "));
            findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, &place, message);
            self.faulty();
        }
        self.sound &= step.faults.is_empty() && step.event.is_some();
        if foreign {
            // What belongs to another trace says nothing about this one.
            step.leave_out();
        }
    }

    /// Compares the members that must fit to those of the events before; true if the event is one
    /// of another trace.
    fn identity(&mut self, step: &mut Step) -> bool {
        let dialect = *self.dialect.get_or_insert(step.dialect);
        if dialect != step.dialect {
            step.faults.push("/schema_version: not that of the first event".to_owned());
        }
        if let Some(trace_id) = step.trace_id() {
            let first = self.trace_id.get_or_insert_with(|| trace_id.to_owned());
            if first != trace_id {
                let fault = format!("/trace_id: this trace is {first}");
                step.faults.push(fault);
                return true;
            }
        }
        let id = step.event_id();
        let fault = match (dialect, id.and_then(|id| id.parse::<Ulid>().ok()), id) {
            (Dialect::V1_1, Some(id), _) => self.in_turn(id),
            (Dialect::V1_0, _, Some(id)) if !self.seen_ids.insert(id.to_owned()) => {
                Some("/event_id: used before in this trace")
            }
            _ => None,
        };
        step.faults.extend(fault.map(str::to_owned));
        false
    }

    /// What is wrong with the id of an event at this place. Where the order is broken, an event that
    /// was moved is out of turn for that cause; one that is here a second time is not.
    fn in_turn(&mut self, id: Ulid) -> Option<&'static str> {
        let last = self.last_id.replace(id);
        match &mut self.broken {
            None => last
                .is_some_and(|last| id <= last)
                .then_some("/event_id: ids must increase within a trace"),
            Some(broken) => {
                let repeated =
                    broken.last_id.is_some_and(|before| id <= before) || broken.since.contains(&id);
                if broken.since.len() < IDS_AFTER_BREAK_MAX {
                    broken.since.insert(id);
                }
                repeated.then_some("/event_id: used before in this trace")
            }
        }
    }

    fn hashes(&mut self, step: &Step, findings: &mut Findings) {
        let differs = |stated: Option<Hash>, computed: Option<Hash>| match (stated, computed) {
            (Some(stated), Some(computed)) if stated != computed => Some((stated, computed)),
            _ => None,
        };
        let (stated, computed) = (step.stated, step.computed);
        let message = if let Some((stated, computed)) = differs(stated.payload, computed.payload) {
            format!("the payload hashes to {computed}, the event states {stated}")
        } else if let Some((stated, computed)) = differs(stated.event, computed.event) {
            format!("the event hashes to {computed}, it states {stated}")
        } else {
            return;
        };
        self.sound = false;
        self.faulty();
        let place = step.place(self.index);
        findings.fail(CheckId::EventHash, FailureCode::HashMismatch, &place, message);
    }

    /// Goes on to the next event; says how it does not follow, if it is the first that does not.
    /// Everything after it is out of order for the same cause.
    fn follow(&mut self, step: &Step) -> Option<String> {
        let gap = if self.broken.is_none() { self.gap(step) } else { None };
        let message = gap.map(|gap| {
            let (last_id, since) = (self.last_id, BTreeSet::new());
            self.broken = Some(Break { index: self.index, last_id, since });
            self.sound = false;
            self.faulty();
            match (self.index.checked_sub(1), last_id) {
                (Some(last), Some(id)) => {
                    format!("{gap}; the last event in order is {last}, {id}")
                }
                (Some(last), None) => format!("{gap}; the last event in order is {last}"),
                (None, _) => format!("{gap}; no event is in order"),
            }
        });
        self.head = step.stated.event.or(step.computed.event).unwrap_or(Hash::GENESIS);
        self.tree.push(&self.head);
        message
    }

    /// Why an event does not follow the one before.
    fn gap(&self, step: &Step) -> Option<String> {
        let index = self.index;
        match (step.previous, step.seq) {
            (Some(found), _) if found != self.head => Some(format!(
                "event {index} does not follow the one before: expected previous {}, found {found}",
                self.head
            )),
            (_, Some(seq)) if seq != index => {
                Some(format!("event {index} says that it is number {seq}"))
            }
            _ => None,
        }
    }

    fn time(&mut self, step: &Step, findings: &mut Findings) {
        let Some(at) = step.created_at else { return };
        if let Some(last) = self.last_at.filter(|&last| at < last) {
            let place = step.place(self.index);
            let message = format!("the event says {at}, the one before {last}");
            if self.profile.time_never_decreases {
                findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, &place, message);
                self.faulty();
            } else {
                findings.warn(CheckId::Schema, "CLOCK_REGRESSION", &place, message);
            }
        }
        self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
    }

    /// Notes that the signature of the line that was read last is not in order.
    pub(crate) fn signature_failed(&mut self) {
        self.failed(self.index.saturating_sub(1));
    }

    /// Whether something was wrong with a line before place `index`.
    pub(crate) fn failed_before(&self, index: u64) -> bool {
        self.first_fault.is_some_and(|first| first < index)
    }

    /// Whether something was wrong with the line at place `index`, the last one that was read.
    pub(crate) fn failed_at(&self, index: u64) -> bool {
        self.last_fault == Some(index)
    }

    /// Events before the first that is out of order.
    pub(crate) fn trusted(&self) -> u64 {
        self.broken.as_ref().map_or(self.index, |broken| broken.index)
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
