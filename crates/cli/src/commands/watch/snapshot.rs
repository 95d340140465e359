//! The sections of the screen: what is told in each, as lines and as a document.

use countersign_format::exit::WorkPhase;
use countersign_format::time::Timestamp;
use countersign_runtime::index::WorkRow;
use countersign_runtime::period::{Decider, Ruling};
use countersign_runtime::questions::Question;
use countersign_runtime::sight::{Overview, SeenDecision, SeenEvent, SeenTrace};
use serde_json::{Value, json};

use super::columns::pad;
use super::line::short_span;

/// Lines of a section that are printed where there is no screen to fill.
const PRINTED_MAX: usize = 20;
/// Digits of a trace's id by which it can be named.
const ID_CHARACTERS: usize = 12;

/// How a line is to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// As any other.
    Plain,
    /// Something that a person should do.
    Urgent,
    /// Something that was not let happen, or cannot be read.
    Bad,
    /// Something that belongs to the line before.
    Below,
}

/// A line that is not cut or escaped yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// A part of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: &'static str,
    /// All that there is of it, which may be more than its lines.
    pub(super) total: u64,
    pub(super) lines: Vec<Told>,
}

/// All sections, the most urgent first.
pub(super) fn sections(seen: &Overview, now: Timestamp) -> Vec<Section> {
    let mut all = Vec::new();
    if !seen.unreadable.is_empty() {
        let lines = seen.unreadable.iter().map(|(id, why)| told(Tone::Bad, format!("{id}  {why}")));
        all.push(section("CANNOT BE READ", seen.unreadable.len(), lines));
    }
    let questions = seen.questions.iter().flat_map(|question| asked(question, now));
    all.push(section("QUESTIONS", seen.questions.len(), questions));
    let running = seen.running.iter().map(|trace| told(Tone::Plain, runs(trace, now)));
    all.push(Section {
        total: seen.running_total,
        ..section("RUNNING", seen.running.len(), running)
    });
    let decisions = seen.decisions.iter().map(|decision| decided(decision, now));
    all.push(section("DECISIONS", seen.decisions.len(), decisions));
    let work = seen.work.iter().map(|item| told(Tone::Plain, stands(item, now)));
    all.push(section("WORK", seen.work.len(), work));
    let events = seen.events.iter().map(|event| told(Tone::Plain, happened(event)));
    all.push(section("LAST EVENTS", seen.events.len(), events));
    all
}

fn section(name: &'static str, total: usize, lines: impl Iterator<Item = Told>) -> Section {
    Section { name, total: total as u64, lines: lines.collect() }
}

const fn told(tone: Tone, text: String) -> Told {
    Told { tone, text }
}

fn age(then: Timestamp, now: Timestamp) -> String {
    short_span(now.as_millis().saturating_sub(then.as_millis()))
}

fn short(id: &str) -> String {
    id.chars().take(ID_CHARACTERS).collect()
}

fn runs(trace: &SeenTrace, now: Timestamp) -> String {
    let kind = trace.kind.map_or("unknown", |kind| kind.as_str());
    let title = trace.title.as_deref().unwrap_or("-");
    let (ago, role, last) = match &trace.last {
        Some(last) => (age(last.at, now), last.role, last.sentence.as_str()),
        None => ("?".to_owned(), "-", "its last event cannot be read"),
    };
    format!("{} {} {} {} {last}", pad(kind, 9), pad(title, 20), pad(role, 9), pad(&ago, 4))
}

fn asked(question: &Question, now: Timestamp) -> Vec<Told> {
    let risk = match question.risk.as_str() {
        "" => String::new(),
        risk => format!(", {risk}"),
    };
    let left = match question.deadline {
        Some(deadline) => {
            let left = deadline.as_millis().saturating_sub(now.as_millis());
            format!(", {} left", short_span(left))
        }
        None => String::new(),
    };
    let waits = age(question.asked_at, now);
    // A tool of an outside agent may be called `shell`: what it would run is what is asked about.
    let command = question.request.as_ref().and_then(|request| request.command.as_deref());
    let what = match command {
        Some(command) if !question.title.contains(command) => {
            format!("{}: {command}", question.title)
        }
        _ => question.title.clone(),
    };
    vec![
        // What is cut off on a narrow screen is the end of the action, which the answer shows whole.
        told(Tone::Urgent, format!("waits for {waits}{left}{risk}: {what}")),
        told(Tone::Below, answer_with(question)),
    ]
}

/// The command that answers a question.
fn answer_with(question: &Question) -> String {
    let id = &question.id;
    match &question.form {
        None => format!("countersign approve {id} --yes (or --no)"),
        Some(_) => format!("countersign approve {id}"),
    }
}

fn decided(decision: &SeenDecision, now: Timestamp) -> Told {
    let (tone, word) = match decision.ruling {
        Ruling::Allowed => (Tone::Plain, "allow"),
        Ruling::Denied => (Tone::Bad, "deny"),
        Ruling::Asked => (Tone::Urgent, "ask"),
    };
    let by = match decision.by {
        Decider::Person => "person",
        Decider::Gate => "gate",
        Decider::Critic => "critic",
        Decider::Rule => "rule",
    };
    // Of several reasons the one that decided says so itself.
    let deciding = decision.reasons.iter().find(|reason| reason.starts_with(word));
    let why = match deciding.or(decision.reasons.first()) {
        Some(reason) if decision.ruling != Ruling::Allowed => format!(": {reason}"),
        _ => String::new(),
    };
    let ago = age(decision.at, now);
    let text = format!("{} {} {} {}{why}", pad(word, 5), pad(by, 6), pad(&ago, 4), decision.action);
    told(tone, text)
}

fn stands(item: &WorkRow, now: Timestamp) -> String {
    let name = item.label.clone().unwrap_or_else(|| short(&item.id.to_string()));
    let stand = match (&item.holder, item.expires_at) {
        (Some(holder), Some(until)) if now < until => {
            let left = short_span(until.as_millis().saturating_sub(now.as_millis()));
            format!("{holder}, {left} left")
        }
        (Some(holder), Some(_)) => format!("free, lease of {holder} ran out"),
        _ if item.phase == WorkPhase::Blocked => "blocked".to_owned(),
        _ => format!("free for {}", age(item.phase_since, now)),
    };
    format!(
        "{} {} {} {}",
        pad(item.phase.as_str(), 16),
        pad(&name, 12),
        pad(&stand, 22),
        item.title
    )
}

fn happened(event: &SeenEvent) -> String {
    let time: String = event.at.to_string().chars().skip(11).take(8).collect();
    let id = short(&event.trace_id);
    format!("{time} {id} {} {}", pad(event.role, 9), event.sentence)
}

/// Everything once, in lines.
pub(super) fn lines(seen: &Overview, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    for section in sections(seen, now) {
        lines.push(format!("{} ({})", section.name, section.total));
        for line in section.lines.iter().take(PRINTED_MAX) {
            let indent = if line.tone == Tone::Below { "    " } else { "  " };
            lines.push(format!("{indent}{}", line.text));
        }
        if let Some(more @ 1..) = section.lines.len().checked_sub(PRINTED_MAX) {
            lines.push(format!("  and {more} more lines"));
        }
    }
    lines
}

/// Everything once, for a program.
pub(super) fn document(seen: &Overview, now: Timestamp) -> Value {
    let work = seen.work.iter().map(|item| {
        json!({
            "item": item.id.to_string(), "label": item.label, "title": item.title,
            "phase": item.phase, "holder": item.holder, "expires_at": item.expires_at,
            "expired": item.expires_at.is_some_and(|until| now >= until),
            "phase_since": item.phase_since, "blocked_reason": item.blocked_reason,
        })
    });
    let unreadable = seen.unreadable.iter().map(|(id, why)| json!({ "trace_id": id, "why": why }));
    json!({
        "now": now,
        "running_total": seen.running_total,
        "running": seen.running,
        "questions": seen.questions,
        "decisions": seen.decisions,
        "work": work.collect::<Vec<_>>(),
        "events": seen.events,
        "unreadable": unreadable.collect::<Vec<_>>(),
    })
}
