//! Whether a proof shows that one event is in a trace that the log knows.
//!
//! The answer is `included` or not, never `pass`: of the rest of the trace nothing is known. An event
//! that is wrong by itself, or that nobody could sign then, is not included either.

use std::io;

use countersign_format::event::{Event, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::merkle::verify_inclusion;
use countersign_format::proof::{EventProof, ExtentPaths, InclusionReport, NoProof};
use countersign_format::report::{FailureCode, VerificationStatus};
use countersign_protocol::{LogPin, kind_of, roles};

use crate::extract::{
    self, ExtractView, SIGNED_THROUGHOUT, SoundLine, TraceExtent, signed, sound_line,
};
use crate::findings::{CheckId, Findings, Place};
use crate::inclusion_report::{Shown, report};
use crate::keys::KeyBook;
use crate::profile::Profile;
use crate::{Options, Source, elsewhere};

/// Verifies a proof. Of `kept`, only the log and the checkpoints are looked at: what somebody has of
/// the log beside the proof.
///
/// # Errors
/// What was kept cannot be read.
pub fn verify_proof(
    proof: &EventProof,
    kept: &dyn Source,
    options: &Options,
) -> io::Result<InclusionReport> {
    let mut findings = Findings::default();
    let event = line_of(&proof.event, &mut findings);
    let first = match proof.first == proof.event {
        // One cause once.
        true => sound_line(&proof.first).ok(),
        false => line_of(&proof.first, &mut findings),
    };
    let trace_id = event.as_ref().map_or("", |line| line.event.trace_id.as_str());
    let kind = first.as_ref().and_then(|line| kind_of(&line.event));
    let view = extract::read(&proof.log, trace_id, &mut findings);
    let mut keys_as_of = view.size;
    let both = event.as_ref().zip(first.as_ref());
    if both.is_none() {
        findings.skip(CheckId::Log, "there is no event to look for");
    }
    if let Some((event, first)) = both {
        // What the reader makes of a compromised key is theirs to say; that all is signed is not.
        let compromise_counts_back = options.profile.compromise_counts_back;
        let profile = Profile { compromise_counts_back, ..SIGNED_THROUGHOUT };
        let pair = Pair { event, first, kind, profile };
        pair.begin(&mut findings);
        if sound(&findings) {
            pair.extents(&proof.extents, &view, &mut findings);
            pair.pin(&view, &mut findings);
        }
        if sound(&findings) {
            pair.signatures(|line| book(line, &proof.extents, &view), &mut findings);
            pair.roles(&mut findings);
            keys_as_of = elsewhere::compare(proof, &pair, &view, kept, &mut findings)?;
        }
    }
    if !sound(&findings) {
        let why = "what comes before it does not hold";
        for check in [CheckId::Signature, CheckId::KeyStatus, CheckId::RolePolicy] {
            findings.skip(check, why);
        }
    }
    let shown = event.map(|line| Shown { seq: line.seq, event: line.event, kind });
    Ok(report(shown, view.root, keys_as_of, options, findings))
}

/// What is said of a file that is no proof, although it begins like one.
#[must_use]
pub fn refuse_proof(fault: &NoProof, options: &Options) -> InclusionReport {
    let mut findings = Findings::default();
    let code = FailureCode::SchemaInvalid;
    findings.fail(CheckId::Schema, code, &Place::default(), fault.to_string());
    for check in [
        CheckId::EventHash,
        CheckId::Signature,
        CheckId::KeyStatus,
        CheckId::Log,
        CheckId::RolePolicy,
    ] {
        findings.skip(check, "the proof cannot be read");
    }
    report(None, None, 0, options, findings)
}

fn line_of(line: &str, findings: &mut Findings) -> Option<SoundLine> {
    match sound_line(line) {
        Ok(line) => Some(line),
        Err((check, code, message)) => {
            findings.fail(check, code, &Place::default(), message);
            None
        }
    }
}

/// The keys that count for an event that is in the trees of these extents. A larger tree that is not
/// shown to hold it says nothing about when it was there.
fn book(line: &SoundLine, shown: &[ExtentPaths], view: &ExtractView) -> KeyBook {
    view.book(|entry| {
        let counts = |extent: &&TraceExtent| {
            let shown = shown.iter().any(|paths| paths.entry == extent.entry);
            extent.entry < entry && (shown || extent.size <= line.seq)
        };
        let sizes = view.extents.iter().filter(counts).map(|extent| extent.size);
        let opened = view.opened.is_some_and(|(opened, _)| opened < entry);
        sizes.max().unwrap_or(u64::from(opened))
    })
}

fn extent_at(view: &ExtractView, entry: u64) -> Option<&TraceExtent> {
    view.extents.iter().find(|extent| extent.entry == entry)
}

/// An event, and the first one of its trace.
pub(crate) struct Pair<'a> {
    pub(crate) event: &'a SoundLine,
    pub(crate) first: &'a SoundLine,
    kind: Option<TraceKind>,
    profile: Profile,
}

impl Pair<'_> {
    fn both(&self) -> impl Iterator<Item = &SoundLine> {
        let event = (self.event.seq > 0).then_some(self.event);
        [self.first].into_iter().chain(event)
    }

    /// The two belong to one trace, which one of them begins.
    fn begin(&self, findings: &mut Findings) {
        let (event, first) = (&self.event.event, &self.first.event);
        let mut broken = |message: &str| {
            let place = place(self.first);
            findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, &place, message.to_owned());
        };
        if self.first.seq != 0 || first.prev_event_hash != Hash::GENESIS {
            broken("the line given as the first event is not one");
        } else if self.kind.is_none_or(|kind| kind == TraceKind::Log) {
            broken("no trace begins with this event, or a log does");
        } else if event.trace_id != first.trace_id {
            broken("/trace_id: the two events are of different traces");
        } else if self.event.seq == 0 && event.event_hash != first.event_hash {
            broken("two different events are given as the first one");
        } else if self.event.seq > 0 && event.event_id <= first.event_id {
            broken("/event_id: ids must increase within a trace");
        } else if self.event.seq == 1 && event.prev_event_hash != first.event_hash {
            broken("the second event does not follow the first one");
        }
    }

    /// Both are in the trees of the extents that are shown: of the first that covers the event, so
    /// that it is known since when the log has it, and of the last.
    fn extents(&self, shown: &[ExtentPaths], view: &ExtractView, findings: &mut Findings) {
        let covering: Vec<_> = view.extents.iter().filter(|it| it.size > self.event.seq).collect();
        let wanted = [covering.first(), covering.last()].map(|it| it.map(|extent| extent.entry));
        let found = [shown.first(), shown.last()].map(|it| it.map(|paths| paths.entry));
        let rising = shown.is_sorted_by(|one, other| one.entry < other.entry);
        if covering.is_empty() || wanted != found || !rising {
            let message = "the trees that are shown are not the first and the last that hold \
                           this event";
            return broken(findings, message.to_owned());
        }
        for paths in shown {
            let held = match extent_at(view, paths.entry) {
                Some(extent) => self.held(paths, extent),
                None => Err("it says nothing of this trace's length".to_owned()),
            };
            if let Err(message) = held {
                return broken(findings, format!("log entry {}: {message}", paths.entry));
            }
        }
        match view.opened {
            Some((entry, hash)) if hash != self.first.event.event_hash => {
                let message = format!("log entry {entry}: the trace was opened with {hash}");
                broken(findings, message);
            }
            Some(_) => {}
            None => {
                let message = "the log does not say that this trace was opened".to_owned();
                findings.warn(CheckId::Log, "LOG_ENTRY_MISSING", &Place::default(), message);
            }
        }
    }

    fn held(&self, paths: &ExtentPaths, extent: &TraceExtent) -> Result<(), String> {
        let lines = [(self.event, &paths.event_path), (self.first, &paths.first_path)];
        for (line, path) in lines {
            let (hash, root) = (&line.event.event_hash, &extent.merkle_root);
            verify_inclusion(hash, line.seq, extent.size, path, root)
                .map_err(|error| format!("event {} is not in its tree: {error}", line.seq))?;
            if line.seq + 1 == extent.size && *hash != extent.head {
                return Err(format!("its head is {}, the event is {hash}", extent.head));
            }
            if line.event.created_at > extent.last_event_at {
                let at = line.event.created_at;
                return Err(format!(
                    "the last event is of {}, event {} of {at}",
                    extent.last_event_at, line.seq
                ));
            }
        }
        Ok(())
    }

    /// The log is what the trace found when it began.
    fn pin(&self, view: &ExtractView, findings: &mut Findings) {
        let Some(pin) = pin_of(&self.first.event) else {
            return broken(findings, "the first event names no log".to_owned());
        };
        let head = pin.size.checked_sub(1).and_then(|last| view.hashes.get(&last));
        if pin.origin != view.origin {
            let message =
                format!("the trace belongs to `{}`, the log is `{}`", pin.origin, view.origin);
            broken(findings, message);
        } else if head.is_none() {
            broken(findings, format!("the log's entry before {} is not there", pin.size));
        } else if head != Some(&pin.head) || view.keys_head_before(pin.size) != Some(pin.keys_head)
        {
            let message =
                format!("the log does not extend the {} entries that the trace names", pin.size);
            broken(findings, message);
        }
    }

    /// Both are signed by keys that could sign them.
    pub(crate) fn signatures(&self, book: impl Fn(&SoundLine) -> KeyBook, findings: &mut Findings) {
        for line in self.both() {
            signed(line, &book(line), &self.profile, findings);
        }
    }

    fn roles(&self, findings: &mut Findings) {
        let Some(kind) = self.kind else { return };
        for line in self.both() {
            if let Err(refusal) = roles::admit(kind, &line.event) {
                let code = FailureCode::RolePolicyViolation;
                findings.fail(CheckId::RolePolicy, code, &place(line), refusal.to_string());
            }
        }
    }
}

/// Whether nothing is wrong so far.
pub(crate) fn sound(findings: &Findings) -> bool {
    findings.status() != VerificationStatus::Fail
}

fn place(line: &SoundLine) -> Place {
    Place::event(line.seq, Some(line.event.event_id.clone()))
}

/// The log as a trace found it.
pub(crate) fn pin_of(first: &Event) -> Option<LogPin> {
    serde_json::from_value(first.payload.get("log")?.clone()).ok()
}

fn broken(findings: &mut Findings, message: String) {
    findings.fail(CheckId::Log, FailureCode::ChainBreak, &Place::default(), message);
}
