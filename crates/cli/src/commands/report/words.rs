//! Facts of a period in words, the same on the screen and on the page.

use countersign_format::report::{Closed, Signer, VerificationStatus};
use countersign_runtime::period::{ChannelCounts, Period, PeriodFacts, PeriodTrace, PeriodVerdict};

/// From when to when.
pub(super) fn period(period: &Period) -> String {
    format!("from {} until just before {}", period.from, period.to)
}

/// A number and what it counts.
pub(super) fn count(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Whether the verdict on a trace is not a good one.
pub(super) fn failed(trace: &PeriodTrace) -> bool {
    let verdict = trace.verdict.as_ref();
    verdict.is_none_or(|verdict| verdict.verification_status == VerificationStatus::Fail)
}

/// What is wrong with a trace, in a line.
pub(super) fn failure(trace: &PeriodTrace) -> String {
    let Some(verdict) = &trace.verdict else {
        let why = trace.unverified.as_deref().unwrap_or("nobody knows why");
        return format!("cannot be verified: {why}");
    };
    match verdict.failures.first() {
        Some(failure) => format!("{}: {}", failure.failure_code, failure.message),
        None => verdict.summary.clone(),
    }
}

/// A verdict in a few words.
pub(super) fn status(verdict: &PeriodVerdict) -> String {
    let closed = match verdict.closed {
        Closed::Yes => "closed",
        Closed::No => "open",
        Closed::Aborted => "aborted",
    };
    let signer = match verdict.signer {
        Signer::Pinned => "signer pinned",
        Signer::Unpinned => "signer unpinned",
    };
    format!("{}, {closed}, {signer}", verdict.verification_status.as_str())
}

/// How approvals were given.
pub(super) fn channels(channels: &ChannelCounts) -> String {
    let ways = [
        (channels.protected_key, channel(Some("protected-key"))),
        (channels.unprotected_key, channel(Some("unprotected-key"))),
        (channels.client_prompt, channel(Some("client-prompt"))),
        (channels.unstated, channel(None)),
    ];
    let ways = ways.iter().filter(|(count, _)| *count > 0);
    ways.map(|(count, how)| format!("{count} {how}")).collect::<Vec<_>>().join(", ")
}

/// How one approval was given.
pub(super) fn channel(channel: Option<&str>) -> &'static str {
    match channel {
        Some("protected-key") => "with a protected key",
        Some("unprotected-key") => {
            "with an unprotected key (an agent under the same user could have used it)"
        }
        Some("client-prompt") => "at the client's own prompt",
        _ => "in a way that is not stated",
    }
}

/// How much there is of everything, a line each.
pub(super) fn summary(facts: &PeriodFacts) -> Vec<String> {
    let totals = &facts.totals;
    let mut lines = vec![format!(
        "traces     {}: {} passed ({} with warnings), {} failed, {} not verified; {} open, {} unpinned",
        totals.traces,
        totals.passed,
        totals.with_warnings,
        totals.failed,
        totals.unverified,
        totals.open,
        totals.unpinned
    )];
    let how = match channels(&totals.channels) {
        ways if ways.is_empty() => ways,
        ways => format!(": {ways}"),
    };
    lines.push(format!("denials    {}", facts.denials.total));
    lines.push(format!("approvals  {}{how}", facts.approvals.total));
    lines.push(format!(
        "others     {} failed or aborted, {} by coverage reports, {}, {}, {}",
        facts.broken_off.total,
        count(totals.coverage_gaps, "gap", "gaps"),
        count(facts.keys.total, "change of keys", "changes of keys"),
        count(facts.redactions.total, "redaction", "redactions"),
        count(facts.recovered.total, "recovered tail", "recovered tails")
    ));
    if totals.gone_elsewhere > 0 {
        let gone = count(totals.gone_elsewhere, "trace", "traces");
        lines.push(format!("beside it  {gone} of other times that the log knows, gone as well"));
    }
    lines.push(format!("log        {}", log(facts)));
    lines
}

/// The log's own verdict and checkpoint.
pub(super) fn log(facts: &PeriodFacts) -> String {
    let log = &facts.log;
    let verdict = match (&log.verdict, &log.unverified) {
        (Some(verdict), _) => verdict.verification_status.as_str().to_owned(),
        (None, Some(why)) => format!("cannot be verified: {why}"),
        (None, None) => "cannot be verified".to_owned(),
    };
    let checkpoint = match &log.checkpoint {
        Some(checkpoint) => format!("checkpoint {} {}", checkpoint.size, checkpoint.root),
        None => "no checkpoint".to_owned(),
    };
    format!("{verdict}, {}, {checkpoint}", count(log.entries, "entry", "entries"))
}

/// What it all comes to.
pub(super) fn verdict(facts: &PeriodFacts) -> String {
    let mut wrong = Vec::new();
    if facts.gaps.total > 0 {
        wrong.push(count(facts.gaps.total, "gap", "gaps"));
    }
    if facts.totals.failed > 0 {
        let failed = count(facts.totals.failed, "trace", "traces");
        wrong.push(format!("{failed} in which something is wrong"));
    }
    if facts.totals.unverified > 0 {
        let unverified = count(facts.totals.unverified, "trace", "traces");
        wrong.push(format!("{unverified} that could not be verified"));
    }
    match &facts.log.verdict {
        None => wrong.push("the log could not be verified".to_owned()),
        Some(verdict) if verdict.verification_status == VerificationStatus::Fail => {
            wrong.push("the log does not hold".to_owned());
        }
        Some(_) => {}
    }
    match wrong.is_empty() {
        true => "nothing wrong was found".to_owned(),
        false => format!("something is wrong: {}", wrong.join(", ")),
    }
}
