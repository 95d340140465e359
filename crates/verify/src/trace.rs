//! The whole verdict on one trace.

use std::io;

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::report::{
    Approvals, Closed, FailureCode, Metrics, Signer, VerificationReport,
};
use countersign_format::shape::Dialect;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::{LogPin, ending, kind_of};

use crate::artifacts::Artifacts;
use crate::audit::{self, Audits};
use crate::duties::Duties;
use crate::findings::{CheckId, Findings, Place};
use crate::keys::KeyBook;
use crate::lines::Lines;
use crate::log::{self, Extent, LogView, Wanted};
use crate::replay::Replay;
use crate::verdict::{Verdict, count_approval};
use crate::walk::{Step, Walk};
use crate::{Options, Source, signature};

/// Verifies a trace.
pub fn verify(source: &dyn Source, options: &Options) -> io::Result<VerificationReport> {
    verify_with(source, options, Evidence::Read)
}

/// Verifies a trace that goes on, without its artifacts: schema, hashes, chain, signatures, keys and
/// rules. This is what must hold before a final statement is signed.
pub fn verify_prefix(source: &dyn Source, options: &Options) -> io::Result<VerificationReport> {
    verify_with(source, options, Evidence::Left)
}

/// Whether artifacts are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    Read,
    Left,
}

fn verify_with(
    source: &dyn Source,
    options: &Options,
    evidence: Evidence,
) -> io::Result<VerificationReport> {
    let mut findings = Findings::default();
    let first = first_event(source)?;
    let pin = first
        .as_ref()
        .and_then(|event| serde_json::from_value::<LogPin>(event.payload.get("log")?.clone()).ok());
    let trace_id = match (&options.expect_trace, &first) {
        (Some(trace_id), _) => trace_id.clone(),
        (None, Some(event)) => event.trace_id.clone(),
        (None, None) => String::new(),
    };
    let view = read_log(source, options, &trace_id, pin.as_ref(), &mut findings)?;
    let keys = match &view {
        Some(view) => view.book.clone(),
        None => KeyBook::from_identities(&options.keys),
    };
    let mut run = Run::new(options, keys);
    // A log that names no keys vouches for none: every signature is then one of a stranger.
    run.signatures_checked = view.is_some() || !options.keys.is_empty();
    let reports = (evidence == Evidence::Read).then_some(source);
    let mut lines = Lines::new(source.events()?);
    while let Some(raw) = lines.next_line()? {
        if let Some(step) = run.walk.line(&raw, &mut findings) {
            run.step(&step, view.as_ref(), reports, &mut findings)?;
        }
    }
    run.finish(&mut findings);
    if let Some(view) = &view {
        run.against_log(view, pin.as_ref(), &mut findings);
    } else {
        run.without_log(source, pin.is_some(), &mut findings)?;
    }
    run.expectations(&mut findings);
    run.evidence(source, evidence, &mut findings)?;
    Ok(run.report(view, findings))
}

/// Verifies a workspace log by itself.
pub fn verify_log(source: &dyn Source, options: &Options) -> io::Result<VerificationReport> {
    let mut findings = Findings::default();
    let checkpoints = source.checkpoints()?;
    let wanted =
        Wanted { trace_id: "", pin: None, checkpoints: &checkpoints, profile: options.profile };
    let view = log::read(source.events()?, &wanted, &mut findings)?;
    let mut run = Run::new(options, KeyBook::default());
    run.kind = Some(TraceKind::Log);
    run.walk.index = view.entries;
    run.walk.head = view.head.unwrap_or(Hash::GENESIS);
    run.signatures = view.signatures;
    for check in [
        CheckId::ArtifactExistence,
        CheckId::ArtifactHash,
        CheckId::ClaimEvidence,
        CheckId::Separation,
        CheckId::Finalization,
    ] {
        findings.skip(check, "a log has nothing of the kind");
    }
    Ok(run.report(Some(view), findings))
}

fn first_event(source: &dyn Source) -> io::Result<Option<Event>> {
    let mut lines = Lines::new(source.events()?);
    let mut walk = Walk::new(crate::Profile::LENIENT, None);
    Ok(match lines.next_line()? {
        Some(raw) => {
            walk.line(&raw, &mut Findings::default()).and_then(|step| step.reading.into_event())
        }
        None => None,
    })
}

/// Reads the log, if there is one. What is wrong with the log itself is one check of the trace.
fn read_log(
    source: &dyn Source,
    options: &Options,
    trace_id: &str,
    pin: Option<&LogPin>,
    findings: &mut Findings,
) -> io::Result<Option<LogView>> {
    let Some(reader) = source.log()? else { return Ok(None) };
    let checkpoints = source.checkpoints()?;
    let wanted = Wanted { trace_id, pin, checkpoints: &checkpoints, profile: options.profile };
    let mut own = Findings::default();
    let view = log::read(reader, &wanted, &mut own)?;
    let (_, failures, warnings) = own.into_parts();
    for failure in failures {
        let place = Place { event_id: failure.event_id, ..Place::default() };
        let entry = failure.index.map(|index| format!(" entry {index}")).unwrap_or_default();
        let message = format!("workspace log{entry}: {}", failure.message);
        findings.fail(CheckId::Log, failure.failure_code, &place, message);
    }
    for warning in warnings {
        let message = format!("workspace log: {}", warning.message);
        findings.warn(CheckId::Log, &warning.warning_code, &Place::default(), message);
    }
    Ok(Some(view))
}

struct Run<'a> {
    options: &'a Options,
    keys: KeyBook,
    walk: Walk,
    kind: Option<TraceKind>,
    replay: Option<Replay>,
    artifacts: Artifacts,
    artifacts_read: bool,
    duties: Duties,
    audits: Audits,
    approvals: Approvals,
    ended: Option<TraceStatus>,
    closing_recorded: bool,
    log_absent: bool,
    signatures_checked: bool,
    signatures: u64,
    first_hash: Option<Hash>,
    /// The log's words on this trace that were looked at already.
    extents_met: usize,
    contradicted: bool,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options, keys: KeyBook) -> Self {
        Self {
            options,
            keys,
            walk: Walk::new(options.profile, options.expect_trace.clone()),
            kind: None,
            replay: None,
            artifacts: Artifacts::default(),
            artifacts_read: true,
            duties: Duties::default(),
            audits: Audits::default(),
            approvals: Approvals::default(),
            ended: None,
            closing_recorded: false,
            log_absent: false,
            signatures_checked: false,
            signatures: 0,
            first_hash: None,
            extents_met: 0,
            contradicted: false,
        }
    }

    fn step(
        &mut self,
        step: &Step,
        view: Option<&LogView>,
        reports: Option<&dyn Source>,
        findings: &mut Findings,
    ) -> io::Result<()> {
        if step.index == 0 {
            self.begin(step, findings);
        }
        if self.signatures_checked {
            let profile = &self.options.profile;
            let (reading, place) = (&step.reading, &step.place);
            let verified =
                signature::check(reading, step.index, place, &self.keys, profile, findings);
            self.signatures += u64::from(verified);
        }
        if let (Some(event), Some(kind)) = (&step.event, self.kind) {
            self.ended = self.ended.or_else(|| ending(kind, event));
            self.take_in(kind, event, step, reports, findings)?;
        }
        if let Some(view) = view {
            self.meet_extents(view, findings);
        }
        Ok(())
    }

    fn begin(&mut self, step: &Step, findings: &mut Findings) {
        self.first_hash = Some(self.walk.head);
        self.kind = step.event.as_ref().and_then(kind_of);
        self.replay = self.kind.map(|kind| Replay::new(kind, self.dialect()));
        if let (Some(event), None) = (&step.event, self.kind) {
            let message = format!("a trace cannot begin with `{}`", event.event_type.as_str());
            let code = FailureCode::SchemaInvalid;
            findings.fail(CheckId::Schema, code, &step.place, message);
        }
    }

    fn dialect(&self) -> Dialect {
        self.walk.dialect().unwrap_or(Dialect::V1_1)
    }

    /// Takes in a valid event: the rules by which it was written, and what it leaves to look at.
    fn take_in(
        &mut self,
        kind: TraceKind,
        event: &Event,
        step: &Step,
        reports: Option<&dyn Source>,
        findings: &mut Findings,
    ) -> io::Result<()> {
        let (profile, place) = (&self.options.profile, &step.place);
        if let Some(replay) = &mut self.replay
            && (self.walk.sound || !replay.has_state())
        {
            replay.step(event, place, profile, findings);
        }
        self.artifacts.meet(event, step.index, findings);
        count_approval(event, &mut self.approvals);
        if kind == TraceKind::Session {
            self.duties.step(event, place, profile, findings);
        }
        if !ends_in_audit(kind) || !self.walk.sound {
            return Ok(());
        }
        if event.event_type == EventType::VerificationRunCompleted {
            let dialect = self.dialect();
            if let Some(found) = self.audits.end(event, dialect, reports)? {
                audit::tell(found, event, place, profile, findings);
            }
        }
        self.audits.meet(event, self.walk.index, self.walk.head);
        Ok(())
    }

    /// Compares the trace, at each size of which the log speaks, with what the log says.
    fn meet_extents(&mut self, view: &LogView, findings: &mut Findings) {
        while let Some(extent) = view.extents.get(self.extents_met)
            && extent.size <= self.walk.index
        {
            self.extents_met += 1;
            // Two words of the log may concern the same size; the sizes themselves never fall.
            if let (Some(what), false) = (self.differs(extent), self.contradicted) {
                self.contradicted = true;
                let message = format!(
                    "the log's entry {} has {} events of this trace {what}",
                    extent.entry, extent.size
                );
                let place = Place::event(extent.size.saturating_sub(1), None);
                findings.fail(CheckId::Log, FailureCode::ChainBreak, &place, message);
            }
        }
    }

    /// What is different here from what the log says of the trace at this size.
    fn differs(&self, extent: &Extent) -> Option<String> {
        let head = extent.head.map(|head| head.to_hex()).unwrap_or_default();
        if extent.size != self.walk.index || extent.head != Some(self.walk.head) {
            Some(format!("ending in {head}, found {}", self.walk.head))
        } else if extent.merkle_root != Some(self.walk.tree.root()) {
            Some("with another Merkle root".to_owned())
        } else if extent.last_event_at != self.walk.last_at() {
            Some("with another time of the last one".to_owned())
        } else {
            None
        }
    }

    fn finish(&self, findings: &mut Findings) {
        let place = Place::default();
        if self.walk.index == 0 {
            let message = "the trace holds no events".to_owned();
            findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, &place, message);
        }
        if !self.signatures_checked {
            let why = "no keys: neither a workspace log nor `--keys` was given";
            findings.skip(CheckId::Signature, why);
            findings.skip(CheckId::KeyStatus, why);
        }
        match &self.replay {
            Some(Replay::Recording(_) | Replay::Session(_)) => {}
            Some(Replay::Roles(kind)) => {
                let old = if *kind == TraceKind::Session { " of schema 1.0" } else { "" };
                let message = format!(
                    "only roles were checked: this version does not replay {} traces{old}",
                    kind.as_str()
                );
                findings.warn(CheckId::RolePolicy, "RULES_NOT_REPLAYED", &place, message);
            }
            None => findings.skip(CheckId::RolePolicy, "the kind of trace is not known"),
        }
        if self.kind == Some(TraceKind::Session) {
            findings.scope(CheckId::ClaimEvidence, format!("{} claims", self.artifacts.claims));
        } else {
            let why = "only sessions have claims";
            findings.skip(CheckId::ClaimEvidence, why);
            findings.skip(CheckId::Separation, "only sessions have duties to separate");
        }
        self.audits(findings);
    }

    fn audits(&self, findings: &mut Findings) {
        let check = CheckId::Finalization;
        if !self.kind.is_some_and(ends_in_audit) {
            findings.skip(check, "only sessions and recordings end in an audit");
        } else if self.audits.ended == 0 {
            findings.skip(check, "no audit has ended");
        } else {
            let unread = match self.audits.unread {
                0 => String::new(),
                count => format!(", {count} without a report that could be read"),
            };
            findings.scope(check, format!("{} audits{unread}", self.audits.ended));
        }
    }

    /// Looks at the artifacts, if they can and shall be looked at.
    fn evidence(
        &mut self,
        source: &dyn Source,
        evidence: Evidence,
        findings: &mut Findings,
    ) -> io::Result<()> {
        let why = match evidence {
            Evidence::Left => "artifacts are left to the audit",
            Evidence::Read => "no store of artifacts was given",
        };
        self.artifacts_read = evidence == Evidence::Read
            && self.artifacts.check(source, &self.options.profile, findings)?;
        if !self.artifacts_read {
            findings.skip(CheckId::ArtifactExistence, why);
            findings.skip(CheckId::ArtifactHash, why);
        }
        Ok(())
    }

    fn against_log(&mut self, view: &LogView, pin: Option<&LogPin>, findings: &mut Findings) {
        let place = Place::default();
        let mut broken = |message: String| {
            findings.fail(CheckId::Log, FailureCode::ChainBreak, &place, message);
        };
        if let Some(pin) = pin {
            if pin.origin != view.origin {
                broken(format!(
                    "the trace belongs to `{}`, the log is `{}`",
                    pin.origin, view.origin
                ));
            } else if view.pin_holds != Some(true) {
                broken(format!(
                    "the log does not extend the {} entries that the trace names",
                    pin.size
                ));
            }
        }
        match (view.opened, self.first_hash) {
            (Some(opened), Some(first)) if opened != first => {
                broken(format!("the log opened this trace with {opened}, it begins with {first}"));
            }
            _ => {}
        }
        let longest = view.extents.iter().map(|extent| extent.size).max().unwrap_or(0);
        if longest > self.walk.index && !self.contradicted {
            self.contradicted = true;
            broken(format!(
                "the log knows {longest} events of this trace, here are {}",
                self.walk.index
            ));
        }
        self.closing_recorded = view.closed;
        let mut missing = |message: &str| {
            findings.warn(CheckId::Log, "LOG_ENTRY_MISSING", &place, message.to_owned());
        };
        if view.opened.is_none() && self.kind != Some(TraceKind::Log) {
            missing("the log does not say that this trace was opened");
        }
        if self.ended.is_some() && !view.closed {
            missing("the trace has ended, but the log does not say so yet");
        }
        findings.scope(CheckId::Log, format!("keys as of log entry {}", view.entries));
    }

    /// A trace that names a log, read without one: nobody can say whether it is whole.
    fn without_log(
        &mut self,
        source: &dyn Source,
        names_log: bool,
        findings: &mut Findings,
    ) -> io::Result<()> {
        findings.skip(CheckId::Log, "no workspace log was given");
        let place = Place::default();
        if names_log {
            self.log_absent = true;
            let message = "the trace names a workspace log, and none was given: whether it is \
                           whole, and who signed it, cannot be told";
            findings.warn(CheckId::Log, "LOG_ABSENT", &place, message.to_owned());
        }
        if !source.checkpoints()?.is_empty() {
            let message = "a checkpoint was given, but no log that it could be compared with";
            findings.warn(CheckId::Log, "CHECKPOINT_UNUSED", &place, message.to_owned());
        }
        Ok(())
    }

    fn expectations(&self, findings: &mut Findings) {
        let place = Place::default();
        if let Some(expected) = self.options.expect_head.filter(|&head| head != self.walk.head) {
            let message = format!("the head is {}, expected {expected}", self.walk.head);
            findings.fail(CheckId::Chain, FailureCode::ChainBreak, &place, message);
        }
        let count = self.walk.index;
        if let Some(expected) = self.options.expect_count.filter(|&expected| expected != count) {
            let message = format!("there are {count} events, expected {expected}");
            findings.fail(CheckId::Chain, FailureCode::ChainBreak, &place, message);
        }
    }

    fn report(self, view: Option<LogView>, findings: Findings) -> VerificationReport {
        let closed = match self.ended {
            Some(_) if self.log_absent || (view.is_some() && !self.closing_recorded) => Closed::No,
            Some(TraceStatus::Aborted) => Closed::Aborted,
            Some(_) => Closed::Yes,
            None => Closed::No,
        };
        let root = view.as_ref().and_then(|view| view.root);
        let pinned = root.is_some_and(|root| self.options.trusted_roots.contains(&root));
        let events = self.walk.index;
        let trace_id = match (self.walk.trace_id(), &view) {
            (Some(trace_id), _) => trace_id.to_owned(),
            (None, Some(view)) if self.kind == Some(TraceKind::Log) => view.log_id.clone(),
            (None, _) => String::new(),
        };
        let verdict = Verdict {
            report_id: self.options.report_id.clone(),
            now: self.options.now,
            profile: self.options.profile.name,
            trace_id,
            kind: self.kind,
            head: (events > 0).then_some(self.walk.head),
            ended: self.ended,
            closed,
            signer: if pinned { Signer::Pinned } else { Signer::Unpinned },
            root,
            signatures_checked: self.signatures_checked,
            artifacts_read: self.artifacts_read,
            approvals: self.approvals,
            metrics: Metrics {
                events,
                signatures_verified: self.signatures,
                log_entries: view.map_or(0, |view| view.entries),
                trusted_events: self.walk.first_break.unwrap_or(events),
                elapsed_ms: 0,
            },
        };
        verdict.into_report(findings)
    }
}

/// Whether traces of this kind are closed by an audit.
const fn ends_in_audit(kind: TraceKind) -> bool {
    matches!(kind, TraceKind::Session | TraceKind::Recording)
}
