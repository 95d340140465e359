//! The page: one file that an auditor can keep, without scripts and without requests.

use std::collections::BTreeSet;

use countersign_runtime::period::PeriodFacts;

use super::markup::Markup;
use super::style::{STYLE, STYLE_HASH};
use super::{sections, words};

/// The sections, in their order, each with its anchor.
const SECTIONS: [(&str, &str, Section); 11] = [
    ("gaps", "Gaps", sections::gaps),
    ("failed", "Verdicts that failed", sections::failed),
    ("denials", "Denials", sections::denials),
    ("approvals", "Approvals by people", sections::approvals),
    ("broken-off", "Failed and aborted", sections::broken_off),
    ("coverage", "Coverage", sections::coverage),
    ("keys", "Keys", sections::keys),
    ("removed", "Redactions and recovered tails", sections::removed),
    ("log", "The workspace log", sections::log),
    ("traces", "Traces", sections::traces),
    ("not-proven", "What this does not prove", sections::not_proven),
];

type Section = fn(&mut Markup, &Told<'_>);

/// What the sections are made of.
pub(super) struct Told<'a> {
    pub(super) facts: &'a PeriodFacts,
    /// The traces that have a place on the page.
    pub(super) anchored: BTreeSet<&'a str>,
}

/// The whole page.
pub(super) fn page(facts: &PeriodFacts, title: &str) -> String {
    let anchored = facts.traces.rows.iter().map(|trace| trace.trace_id.as_str()).collect();
    let told = Told { facts, anchored };
    let mut page = Markup::default();
    page.fixed("<!doctype html>\n");
    page.begin("html", &[("lang", "en")]);
    head(&mut page, title);
    page.begin("body", &[]);
    page.begin("header", &[]);
    page.quoted("h1", "", title);
    page.begin("p", &[]);
    page.words(&format!("Period: {} (UTC).", words::period(&facts.period)));
    page.end();
    page.begin("p", &[]);
    page.words("Workspace ");
    page.quoted("code", "", &facts.workspace);
    page.words(&format!(
        ". Made at {} by countersign {}.",
        facts.made_at,
        env!("CARGO_PKG_VERSION")
    ));
    if facts.period.to > facts.made_at {
        page.words(" The period was not over then.");
    }
    page.end();
    let class = if facts.is_wrong() { "verdict bad" } else { "verdict good" };
    page.said("p", class, &sentence(&words::verdict(facts)));
    totals(&mut page, facts);
    page.end();
    contents(&mut page);
    page.begin("main", &[]);
    for (anchor, name, section) in SECTIONS {
        page.begin("section", &[("id", anchor)]);
        page.said("h2", "", name);
        section(&mut page, &told);
        page.end();
    }
    page.end();
    page.begin("footer", &[]);
    page.said(
        "p",
        "dim",
        "Check it yourself: `countersign verify --all` in the workspace, or `countersign verify \
         TRACE` for one trace. This page is derived from the traces and is not signed.",
    );
    page.finish()
}

fn head(page: &mut Markup, title: &str) {
    page.begin("head", &[]);
    page.tag("meta", &[("charset", "utf-8")]);
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; form-action 'none'"
    );
    page.tag("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]);
    page.tag("meta", &[("name", "referrer"), ("content", "no-referrer")]);
    page.tag("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    page.begin("title", &[]);
    page.plain(title);
    page.end();
    page.begin("style", &[]);
    page.fixed(STYLE);
    page.end();
    page.end();
}

fn contents(page: &mut Markup) {
    page.begin("nav", &[("aria-label", "Contents")]);
    page.begin("ol", &[]);
    for (anchor, name, _) in SECTIONS {
        page.begin("li", &[]);
        page.begin("a", &[("href", &format!("#{anchor}"))]);
        page.words(name);
        page.end();
        page.end();
    }
    page.end();
    page.end();
}

fn totals(page: &mut Markup, facts: &PeriodFacts) {
    let totals = &facts.totals;
    let numbers = [
        ("gaps", facts.gaps.total),
        ("traces", totals.traces),
        ("verdict pass", totals.passed),
        ("of them with warnings", totals.with_warnings),
        ("verdict fail", totals.failed),
        ("not verified", totals.unverified),
        ("still open", totals.open),
        ("signer not pinned", totals.unpinned),
        ("events in the period", totals.events),
        ("denials", facts.denials.total),
        ("approvals by people", facts.approvals.total),
        ("questions asked", totals.asked),
        ("let pass by the gate", totals.passed_by_gate),
        ("let pass by a critic", totals.passed_by_critic),
        ("failed or aborted", facts.broken_off.total),
        ("gaps by coverage reports", totals.coverage_gaps),
        ("changes of keys", facts.keys.total),
        ("redactions", facts.redactions.total),
        ("recovered tails", facts.recovered.total),
    ];
    page.begin("dl", &[]);
    for (name, number) in numbers {
        page.begin("div", &[]);
        page.said("dt", "", name);
        page.said("dd", "", &number.to_string());
        page.end();
    }
    page.end();
    if totals.gone_elsewhere > 0 {
        let gone = words::count(totals.gone_elsewhere, "trace", "traces");
        page.said("p", "warn", &format!("{gone} of other times that the log knows are gone too."));
    }
}

/// Words as a sentence.
fn sentence(words: &str) -> String {
    let mut rest = words.chars();
    let first = rest.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", rest.as_str())
}
