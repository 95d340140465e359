//! The whole verdict on one trace.

use std::collections::BTreeSet;
use std::io;

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::report::{
    Closed, CoverageClaim, FailureCode, Metrics, Signer, VerificationReport,
};
use countersign_format::shape::Dialect;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::{LogPin, ending, kind_of};
use serde::Deserialize as _;

use crate::against::{Against, Evidence};
use crate::approvals::ApprovalCount;
use crate::artifacts::Artifacts;
use crate::audit::{self, Audits};
use crate::duties::Duties;
use crate::examine::Step;
use crate::findings::{CheckId, Findings, Place};
use crate::keys::KeyBook;
use crate::log::{self, Extent, LogRead, LogView, Sizes, Traces, Wanted};
use crate::pipeline::{Ledger, SharedRing};
use crate::receipts::{Doubt, Receipts};
use crate::replay::Replay;
use crate::signature::{self, Outcome, Vouched};
use crate::verdict::{ARTIFACTS_UNREAD, Verdict, keep_coverage};
use crate::walk::Walk;
use crate::{Options, Source};

/// Verifies a trace.
pub fn verify(source: &dyn Source, options: &Options) -> io::Result<VerificationReport> {
    verify_with(source, options, Evidence::Read)
}

/// Verifies a trace that goes on, without its artifacts: schema, hashes, chain, signatures, keys and
/// rules. This is what must hold before a final statement is signed.
pub fn verify_prefix(source: &dyn Source, options: &Options) -> io::Result<VerificationReport> {
    verify_with(source, options, Evidence::Left)
}

fn verify_with(
    source: &dyn Source,
    options: &Options,
    evidence: Evidence,
) -> io::Result<VerificationReport> {
    let mut findings = Findings::default();
    let ledger = Ledger::open(source.events()?)?;
    let first = ledger.first_event();
    let pin = first.as_ref().and_then(pin_of);
    let trace_id = match (&options.expect_trace, &first) {
        (Some(trace_id), _) => trace_id.clone(),
        (None, Some(event)) => event.trace_id.clone(),
        (None, None) => String::new(),
    };
    let view = read_log(source, options, &trace_id, pin.as_ref(), &mut findings)?;
    verify_against(
        source,
        options,
        evidence,
        Against { ledger, pin, view, onlooker: None },
        findings,
    )
}

pub(crate) fn verify_against(
    source: &dyn Source,
    options: &Options,
    evidence: Evidence,
    against: Against<'_>,
    mut findings: Findings,
) -> io::Result<VerificationReport> {
    let Against { ledger, pin, view, mut onlooker } = against;
    let keys = match &view {
        Some(view) => view.book.clone(),
        None => KeyBook::from_identities(&options.keys),
    };
    let ring = SharedRing::new(keys.ring());
    let mut run = Run::new(options, keys);
    // A log that names no keys vouches for none: every signature is then one of a stranger.
    run.signatures_checked = view.is_some() || !options.keys.is_empty();
    let reports = (evidence == Evidence::Read).then_some(source);
    ledger.each(&ring, &mut |examined| {
        let index = run.walk.index;
        let step = run.walk.line(examined, &mut findings);
        if let Some(onlooker) = &mut onlooker {
            onlooker.line(step.as_ref().and_then(|step| step.event.as_ref()))?;
        }
        let Some(step) = step else { return Ok(()) };
        run.step(index, step, view.as_ref(), reports, &mut findings)
    })?;
    run.finish(&mut findings);
    if let Some(view) = &view {
        run.against_log(view, pin.as_ref(), &mut findings);
    } else {
        run.without_log(source, pin.is_some(), &mut findings)?;
    }
    run.expectations(&mut findings);
    if let Some(onlooker) = onlooker {
        onlooker.end(&mut findings)?;
    }
    run.evidence(source, evidence, &mut findings)?;
    Ok(run.report(view, findings))
}

/// Verifies a workspace log by itself. If the source has a log besides, it is a copy that was kept
/// elsewhere: the one here must be at least as long, and begin with it.
pub fn verify_log(source: &dyn Source, options: &Options) -> io::Result<VerificationReport> {
    let mut findings = Findings::default();
    let checkpoints = source.checkpoints()?;
    let wanted = Wanted {
        traces: Traces::None,
        sizes: Sizes::These(BTreeSet::new()),
        checkpoints: &checkpoints,
        profile: options.profile,
    };
    let log = log::read(source.events()?, &wanted, &mut findings)?;
    if let Some(kept) = source.log()? {
        log::hold_against(source.events()?, kept, &mut findings)?;
    }
    Ok(log_report(&log, options, findings))
}

/// What is to be said of a log by itself.
pub(crate) fn log_report(
    log: &LogRead,
    options: &Options,
    mut findings: Findings,
) -> VerificationReport {
    let mut run = Run::new(options, KeyBook::default());
    run.kind = Some(TraceKind::Log);
    run.walk.index = log.entries;
    run.walk.head = log.head.unwrap_or(Hash::GENESIS);
    run.signatures = log.signatures();
    run.log_id = Some(log.log_id.clone());
    run.log_trusted = Some(log.trusted);
    run.contradicted = log.trusted < log.entries;
    run.expectations(&mut findings);
    for check in [
        CheckId::ArtifactExistence,
        CheckId::ArtifactHash,
        CheckId::ReceiptChain,
        CheckId::ClaimEvidence,
        CheckId::Separation,
        CheckId::Finalization,
    ] {
        findings.skip(check, "a log has nothing of the kind");
    }
    run.report(Some(log.own_view()), findings)
}

/// Where the log stood when a trace began, as its first event tells it.
pub(crate) fn pin_of(first: &Event) -> Option<LogPin> {
    // Schema 1.0 names no log, whatever stands there.
    if first.schema_version.starts_with("1.0.") {
        return None;
    }
    LogPin::deserialize(first.payload.get("log")?).ok()
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
    let wanted = Wanted {
        traces: Traces::One(trace_id),
        sizes: pin.map(|pin| pin.size).into_iter().collect(),
        checkpoints: &checkpoints,
        profile: options.profile,
    };
    let mut own = Findings::default();
    let log = log::read(reader, &wanted, &mut own)?;
    findings.take_over_from_log(own);
    Ok(Some(log.view(trace_id, pin)))
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
    receipts: Receipts,
    audits: Audits,
    approvals: ApprovalCount,
    coverage: Option<CoverageClaim>,
    ended: Option<TraceStatus>,
    closing_recorded: bool,
    log_absent: bool,
    signatures_checked: bool,
    signatures: u64,
    first_hash: Option<Hash>,
    /// The id, where a log itself is looked at.
    log_id: Option<String>,
    log_trusted: Option<u64>,
    /// The log's words on this trace that were looked at already.
    extents_met: usize,
    contradicted: bool,
    /// Whether the log says otherwise for a cause that was told where it is.
    explained: bool,
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
            receipts: Receipts::default(),
            audits: Audits::default(),
            approvals: ApprovalCount::default(),
            coverage: None,
            ended: None,
            closing_recorded: false,
            log_absent: false,
            signatures_checked: false,
            signatures: 0,
            first_hash: None,
            log_id: None,
            log_trusted: None,
            extents_met: 0,
            contradicted: false,
            explained: false,
        }
    }

    fn step(
        &mut self,
        index: u64,
        step: &Step,
        view: Option<&LogView>,
        reports: Option<&dyn Source>,
        findings: &mut Findings,
    ) -> io::Result<()> {
        if index == 0 {
            self.begin(step, findings);
        }
        let vouched = if self.signatures_checked {
            self.signature(index, step, findings)
        } else {
            Vouched::Yes
        };
        if let Some(payload) = step.payload_without_place() {
            let place = Place { artifact: Some(payload), ..step.place(index) };
            let message =
                format!("the payload {payload} is not here, and no artifact has its hash");
            let code = FailureCode::ArtifactMissing;
            findings.fail(CheckId::ArtifactExistence, code, &place, message);
        }
        if let (Some(event), Some(kind)) = (&step.event, self.kind) {
            if vouched == Vouched::Yes {
                self.ended = self.ended.or_else(|| ending(kind, event));
                self.approvals.take(event);
                keep_coverage(event, &mut self.coverage);
            }
            self.artifacts.meet(event, index, vouched, findings);
            let doubt = Doubt::at(index, &self.walk);
            self.receipts.step(event, step.receipt, index, self.replay.as_ref(), doubt, findings);
            self.take_in(kind, event, index, reports, findings)?;
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
            findings.fail(CheckId::Schema, code, &step.place(0), message);
        }
    }

    fn signature(&mut self, index: u64, step: &Step, findings: &mut Findings) -> Vouched {
        let profile = &self.options.profile;
        match signature::check(step, index, &self.keys, profile, findings) {
            Outcome::Counts => {
                self.signatures += 1;
                return Vouched::Yes;
            }
            Outcome::Absent => {}
            Outcome::Failed => {
                self.walk.signature_failed();
                let claim = step.event.as_ref().map(|event| event.event_type);
                if claim == Some(EventType::ClaimIssued) {
                    let message = "whoever made the claim did not sign it so".to_owned();
                    let rule = (CheckId::ClaimEvidence, FailureCode::ClaimUnproven);
                    findings.broken_rule(rule, profile, &step.place(index), message);
                }
            }
        }
        Vouched::No
    }

    fn dialect(&self) -> Dialect {
        self.walk.dialect().unwrap_or(Dialect::V1_1)
    }

    /// Takes in a valid event: the rules by which it was written, and what it leaves to look at.
    fn take_in(
        &mut self,
        kind: TraceKind,
        event: &Event,
        index: u64,
        reports: Option<&dyn Source>,
        findings: &mut Findings,
    ) -> io::Result<()> {
        let profile = &self.options.profile;
        if let Some(replay) = &mut self.replay
            && (self.walk.sound || !replay.has_state())
        {
            replay.step(event, index, profile, findings);
        }
        if kind == TraceKind::Session {
            self.duties.step(event, index, profile, findings);
        }
        if !ends_in_audit(kind) || !self.walk.sound {
            return Ok(());
        }
        if event.event_type == EventType::VerificationRunCompleted {
            let dialect = self.dialect();
            if let Some(found) = self.audits.end(event, dialect, reports)? {
                audit::tell(found, event, &Place::of(event, index), profile, findings);
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
            // Two words of the log may concern the same size; the sizes themselves never fall. What
            // is wrong with an event up to here was told where it is.
            let Some(what) = self.differs(extent) else { continue };
            if self.walk.failed_before(extent.size) {
                self.explained = true;
            } else if !self.contradicted {
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
            Some(_) => {}
            None => findings.skip(CheckId::RolePolicy, "the kind of trace is not known"),
        }
        if self.kind == Some(TraceKind::Session) {
            findings.scope(CheckId::ClaimEvidence, format!("{} claims", self.artifacts.claims));
        } else {
            let why = "only sessions have claims";
            findings.skip(CheckId::ClaimEvidence, why);
            findings.skip(CheckId::Separation, "only sessions have duties to separate");
        }
        self.receipts.finish(findings);
        match self.kind.is_some_and(ends_in_audit) {
            true => {
                let stop = if self.walk.sound { None } else { self.walk.first_fault };
                self.audits.finish(stop, findings);
            }
            false => {
                let why = "only sessions and recordings end in an audit";
                findings.skip(CheckId::Finalization, why);
            }
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
            if evidence == Evidence::Read && self.artifacts.are_named() {
                let message = format!("the evidence was not looked at: {why}");
                let check = CheckId::ArtifactExistence;
                findings.warn(check, ARTIFACTS_UNREAD, &Place::default(), message);
                findings.skip(CheckId::ClaimEvidence, why);
                findings.skip(CheckId::Finalization, why);
            }
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
            (Some(opened), Some(first)) if opened != first && self.walk.failed_before(1) => {
                self.explained = true;
            }
            (Some(opened), Some(first)) if opened != first => {
                self.contradicted = true;
                broken(format!("the log opened this trace with {opened}, it begins with {first}"));
            }
            _ => {}
        }
        let longest = view.extents.iter().map(|extent| extent.size).max().unwrap_or(0);
        // A trace with a hole is shorter for that cause.
        let hole = self.walk.broken.is_some() || self.walk.blind;
        self.explained |= longest > self.walk.index && hole;
        if longest > self.walk.index && !self.contradicted && !hole {
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
        if self.explained {
            let why = "the log has this trace otherwise, for a cause that is told where it is";
            findings.skip(CheckId::Log, why);
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
        let count = self.walk.index;
        let head = self.options.expect_head.filter(|&head| head != self.walk.head);
        let head =
            head.map(|expected| format!("the head is {}, expected {expected}", self.walk.head));
        let number = self.options.expect_count.filter(|&expected| expected != count);
        let number =
            number.map(|expected| format!("there are {count} events, expected {expected}"));
        let told = self.contradicted || self.walk.broken.is_some();
        for message in head.into_iter().chain(number) {
            // A cut or a hole that was told before is the cause of this as well.
            if told {
                findings.evidence(CheckId::Chain, message);
            } else {
                let place = Place::default();
                findings.fail(CheckId::Chain, FailureCode::ChainBreak, &place, message);
            }
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
        let events = self.walk.index;
        // Who trusts a root trusts what it vouches for: every event, and not those of somebody else.
        let vouched = events > 0 && self.signatures == events;
        let pinned = vouched && root.is_some_and(|root| self.options.trusted_roots.contains(&root));
        let trace_id = self.log_id.as_deref().or(self.walk.trace_id()).unwrap_or_default();
        let trace_id = trace_id.to_owned();
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
            approvals: self.approvals.counts,
            coverage: self.coverage,
            metrics: Metrics {
                events,
                signatures_verified: self.signatures,
                log_entries: view.map_or(0, |view| view.entries),
                trusted_events: self.log_trusted.unwrap_or_else(|| self.walk.trusted()),
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
