//! From what was found in a proof to what is said of it, as an object and as text.

use std::fmt::Write as _;

use countersign_format::event::{Event, SCHEMA_VERSION, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::proof::{InclusionReport, InclusionStatus, ShownEvent};
use countersign_format::report::{Check, Signer, VerificationStatus};
use countersign_format::text::escape;

use crate::Options;
use crate::findings::{CheckId, Findings};
use crate::text::{write_checks, write_failures, write_not_proven, write_root, write_warnings};

/// What no proof of one event shows.
const NOT_PROVEN: [&str; 9] = [
    "what came before or after it, or that nothing did",
    "that the rest of the trace, or of the log, is intact",
    "that it was allowed when it was recorded, beyond its role",
    "that the artifacts that it names are there and whole",
    "that what it says is true",
    "which model acted, or that roles were separate people or processes",
    "that its keys were not retired after the log entry given above",
    "when it happened, beyond the signer's word and a checkpoint kept elsewhere",
    "anything against someone who holds the keys and the disk, since that checkpoint",
];

/// The checks that apply to a proof, in the order of reports, with what holds if they pass.
const CHECKS: [(CheckId, &str); 6] = [
    (CheckId::Schema, "every line is a valid event in its canonical bytes"),
    (CheckId::EventHash, "every hash is that of the bytes"),
    (CheckId::Signature, "the event and the first of its trace are signed"),
    (CheckId::KeyStatus, "their keys could sign when they did"),
    (CheckId::Log, "the log has the event, and no key event is left out"),
    (CheckId::RolePolicy, "the role may record such an event, and the key has it"),
];

/// The event of a proof.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) event: Event,
    pub(crate) seq: u64,
    pub(crate) kind: Option<TraceKind>,
}

pub(crate) fn report(
    shown: Option<Shown>,
    root: Option<Hash>,
    keys_as_of: u64,
    options: &Options,
    mut findings: Findings,
) -> InclusionReport {
    if keys_as_of > 0 {
        findings.scope(CheckId::Log, format!("keys as of log entry {keys_as_of}"));
    }
    let included = findings.status() != VerificationStatus::Fail && shown.is_some();
    let (checks, failures, warnings) = findings.into_parts();
    let event = shown.map(shown_event);
    let summary = match (&event, included, failures.len()) {
        (Some(event), true, _) => format!(
            "event {} of trace {} is included: {} by `{}`",
            event.seq, event.trace_id, event.event_type, event.agent_id
        ),
        (_, _, 1) => "not included: 1 failure".to_owned(),
        (_, _, count) => format!("not included: {count} failures"),
    };
    let pinned = root.is_some_and(|root| options.trusted_roots.contains(&root));
    let mut report = InclusionReport {
        schema_version: SCHEMA_VERSION.to_owned(),
        report_id: options.report_id.clone(),
        verified_at: options.now,
        inclusion_status: match included {
            true => InclusionStatus::Included,
            false => InclusionStatus::Fail,
        },
        signer: if pinned { Signer::Pinned } else { Signer::Unpinned },
        root,
        keys_as_of,
        event,
        summary,
        checks: applying(checks),
        failures,
        warnings,
        not_proven: NOT_PROVEN.map(str::to_owned).to_vec(),
        report_digest: None,
    };
    report.report_digest = Some(report.digest());
    report
}

fn applying(checks: Vec<Check>) -> Vec<Check> {
    let named = |check: Check| {
        let (_, name) = CHECKS.into_iter().find(|(id, _)| id.as_str() == check.check_id)?;
        Some(Check { name: name.to_owned(), ..check })
    };
    checks.into_iter().filter_map(named).collect()
}

fn shown_event(Shown { event, seq, kind }: Shown) -> ShownEvent {
    ShownEvent {
        trace_id: event.trace_id,
        kind,
        seq,
        event_id: event.event_id,
        event_hash: event.event_hash,
        event_type: event.event_type.as_str().to_owned(),
        agent_id: event.actor.agent_id,
        role: event.actor.role.as_str().to_owned(),
        key_id: event.actor.key_id,
        created_at: event.created_at,
        artifacts: event.artifacts.iter().map(|artifact| artifact.artifact_hash).collect(),
    }
}

/// What a report on a proof comes to, as the exit status of a command.
#[must_use]
pub fn inclusion_exit_status(report: &InclusionReport) -> u8 {
    match (report.inclusion_status, report.signer) {
        (InclusionStatus::Fail, _) => 3,
        (InclusionStatus::Included, Signer::Unpinned) => 4,
        (InclusionStatus::Included, Signer::Pinned) => 0,
    }
}

/// The report as text. Everything that came from the proof is escaped; the verdict comes last.
#[must_use]
pub fn render_inclusion(report: &InclusionReport) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_report(report, &mut out);
    out
}

fn write_report(report: &InclusionReport, out: &mut String) -> std::fmt::Result {
    if let Some(event) = &report.event {
        let kind = event.kind.map_or("unknown", |kind| kind.as_str());
        writeln!(out, "trace    {}, {kind}", escape(&event.trace_id))?;
        writeln!(out, "event    {}, {}", event.seq, escape(&event.event_id))?;
        writeln!(out, "type     {}", escape(&event.event_type))?;
        let (agent, role) = (escape(&event.agent_id), escape(&event.role));
        writeln!(out, "actor    {agent}, {role}, key {}", escape(&event.key_id))?;
        writeln!(out, "time     {}", event.created_at)?;
        for artifact in &event.artifacts {
            writeln!(out, "names    artifact {artifact}")?;
        }
    }
    write_root(report.root, report.signer, out)?;
    writeln!(out, "keys     as of log entry {}\n", report.keys_as_of)?;
    write_checks(&report.checks, out)?;
    write_failures(&report.failures, out)?;
    write_warnings(&report.warnings, out)?;
    write_not_proven(&report.not_proven, out)?;
    writeln!(out, "\n{}", escape(&report.summary))?;
    let status = match report.inclusion_status {
        InclusionStatus::Included => "included",
        InclusionStatus::Fail => "fail",
    };
    writeln!(out, "verdict: {status}, signer: {}", signer(report.signer))
}

pub(crate) const fn signer(signer: Signer) -> &'static str {
    match signer {
        Signer::Pinned => "pinned",
        Signer::Unpinned => "unpinned",
    }
}
