//! From findings to a report.

use countersign_format::event::{Event, EventType, SCHEMA_VERSION, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::{
    Approvals, Closed, CoverageClaim, Metrics, Signer, VerificationReport,
};
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use serde_json::Value;

use crate::findings::{CheckId, Findings};

/// What no verdict of this reader shows.
pub const NOT_PROVEN: [&str; 6] = [
    "that a claim is true",
    "that nothing happened outside the channel that was recorded",
    "which model acted",
    "that roles were separate people or processes",
    "when something happened, beyond the signer's word and a checkpoint kept elsewhere",
    "anything against someone who holds the keys and the disk, since that checkpoint",
];
const EVIDENCE_UNSEEN: &str = "that the artifacts are there and whole: they were not read";
/// The warning of a trace whose evidence nobody could look at.
pub(crate) const ARTIFACTS_UNREAD: &str = "ARTIFACTS_UNREAD";

/// Everything that a report says besides the findings.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) report_id: String,
    pub(crate) now: Timestamp,
    pub(crate) profile: &'static str,
    pub(crate) trace_id: String,
    pub(crate) kind: Option<TraceKind>,
    pub(crate) head: Option<Hash>,
    pub(crate) ended: Option<TraceStatus>,
    pub(crate) closed: Closed,
    pub(crate) signer: Signer,
    pub(crate) root: Option<Hash>,
    pub(crate) signatures_checked: bool,
    pub(crate) artifacts_read: bool,
    pub(crate) approvals: Approvals,
    pub(crate) coverage: Option<CoverageClaim>,
    pub(crate) metrics: Metrics,
}

impl Verdict {
    pub(crate) fn into_report(self, mut findings: Findings) -> VerificationReport {
        let events = self.metrics.events;
        for check in [CheckId::Schema, CheckId::EventHash, CheckId::Chain] {
            findings.scope(check, format!("{events} events"));
        }
        let signatures = self.metrics.signatures_verified;
        findings.scope(CheckId::Signature, format!("{signatures} signatures"));
        if let Some(root) = self.root {
            findings.evidence(CheckId::Signature, format!("root {root}"));
        }
        let verification_status = findings.status();
        let unlisted = findings.unlisted();
        let (checks, mut failures, warnings) = findings.into_parts();
        for failure in &mut failures {
            // Advice is given before it is known what the trace is called.
            failure.suggested_action = failure.suggested_action.replace("TRACE", &self.name());
        }
        let unread = (!self.artifacts_read).then_some(EVIDENCE_UNSEEN);
        let not_proven = NOT_PROVEN.into_iter().chain(unread).map(str::to_owned).collect();
        let mut report = VerificationReport {
            schema_version: SCHEMA_VERSION.to_owned(),
            summary: self.summary(failures.len(), unlisted),
            report_id: self.report_id,
            trace_id: self.trace_id,
            kind: self.kind,
            head: self.head,
            verified_at: self.now,
            verification_status,
            closed: self.closed,
            signer: self.signer,
            root: self.root,
            profile: self.profile.to_owned(),
            checks,
            failures,
            warnings,
            approvals: self.approvals,
            coverage: self.coverage,
            not_proven,
            metrics: self.metrics,
            report_digest: None,
        };
        report.report_digest = Some(report.digest());
        report
    }

    /// What the trace is called on a command line.
    fn name(&self) -> String {
        match self.kind {
            Some(TraceKind::Log) => "log".to_owned(),
            // Whatever stands in a trace that is not an id may be anything.
            _ if self.trace_id.parse::<Ulid>().is_ok() => self.trace_id.clone(),
            _ => "TRACE".to_owned(),
        }
    }

    fn summary(&self, failures: usize, unlisted: u64) -> String {
        let is_log = self.kind == Some(TraceKind::Log);
        let mut summary = match (failures, self.ended) {
            (0, _) if !self.signatures_checked && !is_log => {
                "the bytes agree with themselves, but no signature was checked".to_owned()
            }
            (0, Some(status)) => format!("intact; the trace ended: {}", status.as_str()),
            (0, None) if is_log => "intact as far as it goes; a log never ends".to_owned(),
            (0, None) => "intact as far as it goes; the trace has not ended".to_owned(),
            (1, _) => "1 failure".to_owned(),
            (count, _) => format!("{count} failures"),
        };
        if self.kind == Some(TraceKind::Recording) {
            summary.push_str(" (a recording: what the recorder saw of an outside agent)");
        }
        if unlisted > 0 {
            summary.push_str(&format!(" and {unlisted} more findings that are not listed"));
        }
        summary
    }
}

/// Keeps what the coverage report with the most gaps says; of several, the last. Whoever compares with
/// less finds less, and must not take back what was found.
pub(crate) fn keep_coverage(event: &Event, coverage: &mut Option<CoverageClaim>) {
    if event.event_type != EventType::CoverageReported {
        return;
    }
    let sources = event.payload.get("sources").and_then(Value::as_array);
    let sources = sources.into_iter().flatten().filter_map(Value::as_str);
    let gaps = event.payload.get("gaps").and_then(Value::as_u64).unwrap_or_default();
    if coverage.as_ref().is_some_and(|before| before.gaps > gaps) {
        return;
    }
    *coverage = Some(CoverageClaim {
        event_id: event.event_id.clone(),
        gaps,
        sources: sources.map(str::to_owned).collect(),
    });
}
