//! The sections of the page, each a list that says how much of it is left out.

use countersign_format::report::VerificationStatus;
use countersign_format::role::Role;
use countersign_runtime::period::{
    DecidedAction, Decider, KeyChangeKind, Newest, PeriodDecision, PeriodTrace, PeriodVerdict,
};

use super::markup::Markup;
use super::page::Told;
use super::words;

pub(super) fn gaps(page: &mut Markup, told: &Told<'_>) {
    page.said(
        "p",
        "dim",
        "The workspace log is the list of what must be there. A gap is a trace that it knows and \
         that is gone or shorter, or one that it does not know.",
    );
    let gaps = &told.facts.gaps;
    if nothing(page, gaps, "No gap was found.") {
        return;
    }
    table(page, gaps, &["Trace", "Gap", "What", "Last heard of", "What can be done"]);
    for gap in &gaps.rows {
        page.begin("tr", &[]);
        trace(page, told, &gap.trace_id);
        page.said("td", "bad", gap.kind.as_str());
        page.quoted("td", "", &gap.what);
        let last = gap.last_at.map(|at| at.to_string()).unwrap_or_default();
        page.said("td", "", &last);
        page.quoted("td", "", &gap.hint);
        page.end();
    }
    end_table(page);
}

pub(super) fn failed(page: &mut Markup, told: &Told<'_>) {
    let failed: Vec<_> = told.facts.traces.rows.iter().filter(|it| words::failed(it)).collect();
    if failed.is_empty() {
        page.said("p", "good", "No verdict failed.");
        return;
    }
    page.begin("ul", &[]);
    for trace in failed {
        page.begin("li", &[]);
        link(page, told, &trace.trace_id);
        page.words(" ");
        page.quoted("span", "bad", &words::failure(trace));
        page.end();
    }
    page.end();
}

pub(super) fn denials(page: &mut Markup, told: &Told<'_>) {
    let denials = &told.facts.denials;
    if !nothing(page, denials, "Nothing was denied.") {
        decisions(page, told, denials, &["When", "Who", "What", "Why", "Trace"]);
    }
}

pub(super) fn approvals(page: &mut Markup, told: &Told<'_>) {
    let approvals = &told.facts.approvals;
    if nothing(page, approvals, "Nobody was asked and said yes.") {
        return;
    }
    let how = words::channels(&told.facts.totals.channels);
    page.said("p", "", &format!("Given: {how}."));
    decisions(page, told, approvals, &["When", "Who, and how", "What", "Why", "Trace"]);
}

fn decisions(
    page: &mut Markup,
    told: &Told<'_>,
    list: &Newest<PeriodDecision>,
    columns: &[&'static str],
) {
    table(page, list, columns);
    for decision in &list.rows {
        page.begin("tr", &[]);
        page.said("td", "", &decision.at.to_string());
        who(page, decision);
        action(page, &decision.action);
        page.begin("td", &[]);
        for reason in &decision.reasons {
            page.quoted("p", "", reason);
        }
        if !decision.enforced {
            page.said("p", "warn", "The gate only watched: it was let happen.");
        }
        page.end();
        page.begin("td", &[]);
        link(page, told, &decision.trace_id);
        page.begin("p", &[("class", "dim")]);
        page.words("event ");
        page.words(&decision.seq.map(|seq| seq.to_string()).unwrap_or_default());
        page.words(" ");
        page.quoted("span", "id", &decision.event_id);
        page.end();
        page.end();
        page.end();
    }
    end_table(page);
}

fn who(page: &mut Markup, decision: &PeriodDecision) {
    page.begin("td", &[]);
    let by = match decision.by {
        Decider::Person => "a person",
        Decider::Gate => "the gate",
        Decider::Critic => "the critic",
        Decider::Rule => "a rule of the recorder",
    };
    page.words(by);
    page.words(", signed as ");
    let (role, agent) = (decision.role.as_str(), decision.agent_id.as_str());
    let signed = if role == agent { role.to_owned() } else { format!("{role} {agent}") };
    page.quoted("span", "", &signed);
    if decision.by == Decider::Person {
        let channel = decision.channel.as_deref();
        page.begin(
            "p",
            &[("class", if channel == Some("protected-key") { "good" } else { "warn" })],
        );
        page.words(channel.unwrap_or("unstated"));
        page.end();
        page.said("p", "dim", words::channel(channel));
    }
    page.end();
}

fn action(page: &mut Markup, action: &DecidedAction) {
    page.begin("td", &[]);
    page.quoted("p", "", &action.title);
    let risk = action.risk.as_deref().map(|risk| format!("risk {risk}"));
    let tool = action.tool.as_deref().map(|tool| format!("tool {tool}"));
    let about: Vec<String> = tool.into_iter().chain(risk).collect();
    if !about.is_empty() {
        page.quoted("p", "dim", &about.join(", "));
    }
    if let Some(why) = &action.justification {
        page.begin("p", &[("class", "dim")]);
        page.words("wanted for: ");
        page.text(why);
        page.end();
    }
    if let Some(input) = &action.input {
        page.block(input);
        let bytes = action.input_bytes.unwrap_or_default();
        page.said("p", "dim", &format!("stored input, {}", words::count(bytes, "byte", "bytes")));
    }
    if let Some(why) = &action.input_missing {
        page.begin("p", &[("class", "warn")]);
        page.words("stored input not shown: ");
        page.text(why);
        page.end();
    }
    if let Some(hash) = &action.input_hash {
        page.said("p", "id dim", &hash.to_hex());
    }
    page.end();
}

pub(super) fn broken_off(page: &mut Markup, told: &Told<'_>) {
    let list = &told.facts.broken_off;
    if nothing(page, list, "Nothing failed or was aborted.") {
        return;
    }
    table(page, list, &["When", "Trace", "How", "By", "Why"]);
    for row in &list.rows {
        page.begin("tr", &[]);
        page.said("td", "", &row.at.to_string());
        trace(page, told, &row.trace_id);
        page.said("td", "bad", row.status.as_str());
        page.quoted("td", "", &row.by);
        page.quoted("td", "", &row.reason);
        page.end();
    }
    end_table(page);
}

pub(super) fn coverage(page: &mut Markup, told: &Told<'_>) {
    page.said(
        "p",
        "dim",
        "What comparisons with transcripts and files say of what bypassed the recorder. It is the \
         word of whoever compared; no check stands behind it.",
    );
    let list = &told.facts.coverage;
    if nothing(page, list, "Nothing was compared.") {
        return;
    }
    table(page, list, &["When", "Trace", "Gaps", "Compared with"]);
    for row in &list.rows {
        page.begin("tr", &[]);
        page.said("td", "", &row.at.to_string());
        trace(page, told, &row.trace_id);
        page.said("td", if row.gaps > 0 { "bad" } else { "good" }, &row.gaps.to_string());
        page.quoted("td", "", &row.sources.join(", "));
        page.end();
    }
    end_table(page);
}

pub(super) fn keys(page: &mut Markup, told: &Told<'_>) {
    let list = &told.facts.keys;
    if nothing(page, list, "No key was added, rotated or revoked.") {
        return;
    }
    table(page, list, &["When", "Change", "Key", "Whose", "More"]);
    for row in &list.rows {
        page.begin("tr", &[]);
        page.said("td", "", &row.at.to_string());
        let (class, change) = match row.change {
            KeyChangeKind::Added => ("", "added"),
            KeyChangeKind::Rotated => ("warn", "rotated"),
            KeyChangeKind::Revoked => ("bad", "revoked"),
        };
        page.said("td", class, change);
        page.quoted("td", "id", &row.key_id);
        let roles: Vec<&str> = row.roles.iter().copied().map(Role::as_str).collect();
        let agent = row.agent_id.as_deref().unwrap_or("not known");
        page.quoted("td", "", &format!("{agent} ({})", roles.join(", ")));
        let replaces = row.replaces.as_ref().map(|key| format!("replaces {key}"));
        let more: Vec<String> = replaces.into_iter().chain(row.reason.clone()).collect();
        page.quoted("td", "", &more.join("; "));
        page.end();
    }
    end_table(page);
}

pub(super) fn removed(page: &mut Markup, told: &Told<'_>) {
    let list = &told.facts.redactions;
    if !nothing(page, list, "No artifact was redacted.") {
        table(page, list, &["When", "Trace", "Artifact", "By", "Why"]);
        for row in &list.rows {
            page.begin("tr", &[]);
            page.said("td", "", &row.at.to_string());
            trace(page, told, &row.trace_id);
            page.quoted("td", "id", &row.artifact_hash);
            page.quoted("td", "", &row.by);
            page.quoted("td", "", &row.reason);
            page.end();
        }
        end_table(page);
    }
    let list = &told.facts.recovered;
    if !nothing(page, list, "No unfinished line was set aside.") {
        table(page, list, &["When", "Trace", "Bytes set aside", "Where they lie", "Why"]);
        for row in &list.rows {
            page.begin("tr", &[]);
            page.said("td", "", &row.at.to_string());
            trace(page, told, &row.trace_id);
            page.said("td", "", &row.torn_bytes.to_string());
            page.quoted("td", "id", &row.torn_file);
            page.quoted("td", "", &row.reason);
            page.end();
        }
        end_table(page);
    }
}

pub(super) fn log(page: &mut Markup, told: &Told<'_>) {
    let log = &told.facts.log;
    page.begin("table", &[]);
    page.begin("tbody", &[]);
    let mut row = |name: &str, value: &str| {
        page.begin("tr", &[]);
        page.said("th", "", name);
        page.quoted("td", "", value);
        page.end();
    };
    row("entries", &format!("{}, of them {} in the period", log.entries, log.entries_in_period));
    row("root key", &log.root_key.to_hex());
    match &log.checkpoint {
        Some(checkpoint) => {
            row("checkpoint of", &checkpoint.origin);
            row("checkpoint size", &checkpoint.size.to_string());
            row("checkpoint root", &checkpoint.root.to_hex());
        }
        None => row("checkpoint", "there is none that can be read"),
    }
    page.end();
    page.end();
    page.said(
        "p",
        "dim",
        "Compare size and root with a checkpoint that was kept elsewhere: a log that was cut back or \
         written anew does not have both.",
    );
    verdict(page, log.verdict.as_ref(), log.unverified.as_deref());
}

pub(super) fn traces(page: &mut Markup, told: &Told<'_>) {
    let list = &told.facts.traces;
    if nothing(page, list, "No trace belongs to this period.") {
        return;
    }
    left_out(page, list);
    for trace in &list.rows {
        page.begin("article", &[("id", &format!("trace-{}", trace.trace_id))]);
        page.begin("h3", &[]);
        page.text(trace.title.as_deref().unwrap_or("without a title"));
        page.words(" ");
        page.quoted("span", "id dim", &trace.trace_id);
        page.end();
        about(page, trace);
        verdict(page, trace.verdict.as_ref(), trace.unverified.as_deref());
        page.end();
    }
}

fn about(page: &mut Markup, trace: &PeriodTrace) {
    let kind = trace.kind.map_or("unknown kind", |kind| kind.as_str());
    let status = trace.status.map_or("unknown", |status| status.as_str());
    let outcome = trace.outcome.as_ref().map(|it| format!(", outcome {it}")).unwrap_or_default();
    let time = |at: Option<_>| {
        at.map_or("?".to_owned(), |at: countersign_format::time::Timestamp| at.to_string())
    };
    let logged = match trace.logged_events {
        Some(events) => format!("the log knows {events}"),
        None => "the log does not know it".to_owned(),
    };
    page.quoted("p", "", &format!("{kind}, {status}{outcome}"));
    page.said(
        "p",
        "dim",
        &format!(
            "{} to {}; {}, of them {} in the period; {logged}; {}, {}",
            time(trace.started_at),
            time(trace.last_at),
            words::count(trace.events, "event", "events"),
            trace.events_in_period,
            words::count(trace.denials, "denial", "denials"),
            words::count(trace.approvals, "approval", "approvals"),
        ),
    );
    if !trace.participants.is_empty() {
        page.quoted("p", "dim", &trace.participants.join(", "));
    }
}

fn verdict(page: &mut Markup, verdict: Option<&PeriodVerdict>, unverified: Option<&str>) {
    let Some(verdict) = verdict else {
        page.begin("p", &[("class", "bad")]);
        page.words("Cannot be verified: ");
        page.text(unverified.unwrap_or("nobody knows why"));
        page.end();
        return;
    };
    let class = match verdict.verification_status {
        VerificationStatus::Pass => "good",
        VerificationStatus::PassWithWarnings => "warn",
        VerificationStatus::Fail => "bad",
    };
    page.begin("p", &[]);
    page.said("span", class, &words::status(verdict));
    page.words(" ");
    page.text(&verdict.summary);
    page.end();
    let (failures, warnings) = (&verdict.failures, &verdict.warnings);
    if failures.is_empty() && warnings.is_empty() {
        return;
    }
    page.begin("ul", &[]);
    for failure in failures {
        page.begin("li", &[]);
        page.said("span", "bad", failure.failure_code.as_str());
        let place = failure.index.map(|index| format!(" at event {index}")).unwrap_or_default();
        page.words(&format!("{place}: "));
        page.text(&failure.message);
        page.end();
    }
    for warning in warnings {
        page.quoted("li", "", warning);
    }
    let told = (failures.len() + warnings.len()) as u64;
    let more = (verdict.failure_count + verdict.warning_count).saturating_sub(told);
    if more > 0 {
        page.said("li", "dim", &format!("and {more} more"));
    }
    page.end();
}

pub(super) fn not_proven(page: &mut Markup, told: &Told<'_>) {
    page.begin("ul", &[]);
    for text in &told.facts.not_proven {
        page.quoted("li", "", text);
    }
    page.end();
}

/// Says that a list is empty, if it is.
fn nothing<T>(page: &mut Markup, list: &Newest<T>, words: &str) -> bool {
    if list.total == 0 {
        page.said("p", "dim", words);
    }
    list.total == 0
}

fn left_out<T>(page: &mut Markup, list: &Newest<T>) {
    if list.left_out() > 0 {
        let words = format!(
            "The newest {} of {}: {} older ones are left out, and counted in the totals.",
            list.rows.len(),
            list.total,
            list.left_out()
        );
        page.said("p", "warn", &words);
    }
}

fn table<T>(page: &mut Markup, list: &Newest<T>, columns: &[&'static str]) {
    left_out(page, list);
    page.begin("table", &[]);
    page.begin("thead", &[]);
    page.begin("tr", &[]);
    for column in columns {
        page.begin("th", &[("scope", "col")]);
        page.words(column);
        page.end();
    }
    page.end();
    page.end();
    page.begin("tbody", &[]);
}

fn end_table(page: &mut Markup) {
    page.end();
    page.end();
}

/// A trace in a column of a table.
fn trace(page: &mut Markup, told: &Told<'_>, id: &str) {
    page.begin("td", &[]);
    link(page, told, id);
    page.end();
}

/// A trace, with a link where it has a place on the page.
fn link(page: &mut Markup, told: &Told<'_>, id: &str) {
    if told.anchored.contains(id) {
        page.begin("a", &[("class", "id"), ("href", &format!("#trace-{id}"))]);
        page.text(id);
        page.end();
    } else {
        page.quoted("span", "id", id);
    }
}
