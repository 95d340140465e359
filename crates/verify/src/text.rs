//! Reports for people, and the pieces that all kinds of report share.

use std::fmt::Write as _;

use countersign_format::hash::Hash;
use countersign_format::report::{
    Approvals, Check, CheckStatus, Closed, CoverageClaim, Failure, Metrics, Signer,
    VerificationReport, Warning,
};
use countersign_format::text::escape;

use crate::cap::{CapOwner, CapVerdict};

/// The report as text. Everything that came from the trace is escaped; the verdict comes last.
#[must_use]
pub fn render(report: &VerificationReport) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_report(report, &mut out);
    out
}

/// The report on a sealed file as text.
#[must_use]
pub fn render_cap(verdict: &CapVerdict) -> String {
    let (report, mut out) = (&verdict.report, String::new());
    let sealed = match verdict.owner {
        CapOwner::Countersign => "sealed by Countersign: a signed trace".to_owned(),
        CapOwner::CapSeal { actions } => {
            format!("sealed by CapSeal: {actions} actions with unsigned receipts")
        }
        CapOwner::Unknown => "refused".to_owned(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "file     {sealed}");
    let _ = match verdict.owner {
        CapOwner::Countersign => write_report(report, &mut out),
        CapOwner::CapSeal { .. } => writeln!(out, "run      {}", escape(&report.trace_id))
            .and_then(|()| write_findings(report, &mut out)),
        CapOwner::Unknown => write_findings(report, &mut out),
    };
    out
}

fn write_report(report: &VerificationReport, out: &mut String) -> std::fmt::Result {
    let kind = report.kind.map_or("unknown", |kind| kind.as_str());
    writeln!(out, "trace    {}", escape(&report.trace_id))?;
    writeln!(out, "kind     {kind}, {} events", report.metrics.events)?;
    write_findings(report, out)
}

fn write_findings(report: &VerificationReport, out: &mut String) -> std::fmt::Result {
    writeln!(out, "profile  {}", report.profile)?;
    match (report.root, report.signer) {
        // Whether it is trusted is not what is wanting here, and the report does not say it.
        (Some(root), Signer::Unpinned) if !is_vouched_for(&report.metrics) => {
            let Metrics { events, signatures_verified, .. } = report.metrics;
            let events = format_args!("{signatures_verified} of {events} events");
            writeln!(out, "root     {root}, which vouches for {events}")?;
        }
        (root, signer) => write_root(root, signer, out)?,
    }
    writeln!(out)?;
    write_checks(&report.checks, out)?;
    write_failures(&report.failures, out)?;
    write_warnings(&report.warnings, out)?;
    write_approvals(&report.approvals, out)?;
    write_coverage(report.coverage.as_ref(), out)?;
    write_not_proven(&report.not_proven, out)?;
    let closed = match report.closed {
        Closed::Yes => "yes",
        Closed::No => "no",
        Closed::Aborted => "aborted",
    };
    let signer = match report.signer {
        Signer::Pinned => "pinned",
        Signer::Unpinned => "unpinned",
    };
    writeln!(out, "\n{}", escape(&report.summary))?;
    writeln!(
        out,
        "verdict: {}, closed: {closed}, signer: {signer}",
        report.verification_status.as_str()
    )
}

/// Whether keys of the log sign every event.
const fn is_vouched_for(metrics: &Metrics) -> bool {
    metrics.events > 0 && metrics.signatures_verified == metrics.events
}

fn write_approvals(approvals: &Approvals, out: &mut String) -> std::fmt::Result {
    let ways = [
        (approvals.protected_key, "with a protected key"),
        (
            approvals.unprotected_key,
            "with an unprotected key (an agent under the same user could have used it)",
        ),
        (approvals.client_prompt, "at the client's own prompt"),
        (approvals.unstated, "in a way that is not stated"),
    ];
    let ways: Vec<_> = ways
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, how)| format!("{count} {how}"))
        .collect();
    if ways.is_empty() { Ok(()) } else { writeln!(out, "\napprovals: {}", ways.join(", ")) }
}

/// Sources of a coverage report that are shown.
const SOURCES_SHOWN_MAX: usize = 10;

/// What whoever compared the trace says of it. No check stands behind that.
fn write_coverage(claim: Option<&CoverageClaim>, out: &mut String) -> std::fmt::Result {
    let Some(claim) = claim else { return Ok(()) };
    let gaps = match claim.gaps {
        0 => "no gap found".to_owned(),
        1 => "1 gap: something bypassed the recorder".to_owned(),
        gaps => format!("{gaps} gaps: something bypassed the recorder"),
    };
    writeln!(out, "\ncoverage, as recorded in {}: {gaps}", escape(&claim.event_id))?;
    for source in claim.sources.iter().take(SOURCES_SHOWN_MAX) {
        writeln!(out, "  compared with {}", escape(source))?;
    }
    match claim.sources.len().saturating_sub(SOURCES_SHOWN_MAX) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more"),
    }
}

/// What was looked at, a line each.
pub(crate) fn write_checks(checks: &[Check], out: &mut String) -> std::fmt::Result {
    for check in checks {
        let status = match check.status {
            CheckStatus::Pass => "ok  ",
            CheckStatus::Warn => "warn",
            CheckStatus::Fail => "FAIL",
            CheckStatus::NotChecked => "--  ",
        };
        write!(out, "  {status}  {:<30} {}", check.check_id, check.name)?;
        if !check.scope.is_empty() {
            write!(out, " ({})", escape(&check.scope))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What is worth knowing, and where.
pub(crate) fn write_warnings(warnings: &[Warning], out: &mut String) -> std::fmt::Result {
    for warning in warnings {
        write!(out, "\nwarning: {}", warning.warning_code)?;
        if let Some(event_id) = &warning.event_id {
            write!(out, " ({})", escape(event_id))?;
        }
        writeln!(out, ": {}", escape(&warning.message))?;
    }
    Ok(())
}

pub(crate) fn write_root(root: Option<Hash>, is: Signer, out: &mut String) -> std::fmt::Result {
    match (root, is) {
        (Some(root), Signer::Pinned) => writeln!(out, "root     {root}, which you trust"),
        (Some(root), Signer::Unpinned) => writeln!(out, "root     {root}, which you do not trust"),
        (None, _) => writeln!(out, "root     unknown"),
    }
}

pub(crate) fn write_failures(failures: &[Failure], out: &mut String) -> std::fmt::Result {
    for failure in failures {
        write!(out, "\n{}", failure.failure_code)?;
        if let Some(index) = failure.index {
            write!(out, " at event {index}")?;
        }
        if let Some(event_id) = &failure.event_id {
            write!(out, " ({})", escape(event_id))?;
        }
        writeln!(out, "\n  {}", escape(&failure.message))?;
        writeln!(out, "  hint: {}", failure.suggested_action)?;
    }
    Ok(())
}

pub(crate) fn write_not_proven(lines: &[String], out: &mut String) -> std::fmt::Result {
    writeln!(out, "\nthis does not prove:")?;
    for line in lines {
        writeln!(out, "  - {line}")?;
    }
    Ok(())
}
