//! What a trace comes to in a sealed file: the copies that other readers look at.

use std::collections::BTreeSet;

use countersign_format::cap::{CapTrace, write_record_line};
use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::receipt::PolicyVerdict;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::receipts::carries_receipt;
use countersign_protocol::{ending, kind_of};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// What the events of a trace come to in a sealed file.
#[derive(Debug, Default)]
pub struct CapTally {
    begin: Option<Begin>,
    size: u64,
    head: Option<(Hash, Timestamp)>,
    actions: u64,
    last_receipt: Option<Hash>,
    ended: Option<TraceStatus>,
    report: Option<Hash>,
    artifacts: BTreeSet<Hash>,
    /// The lines of all actions as their events have them.
    recorded: Lines,
    /// The same with enforced ones as fully verified; nothing while that is no different.
    upgraded: Option<Lines>,
    line: String,
}

#[derive(Debug)]
struct Begin {
    trace_id: String,
    kind: TraceKind,
    agent: String,
    objective: String,
}

#[derive(Debug, Default, Clone)]
struct Lines {
    size: u64,
    hasher: Sha256,
}

impl Lines {
    fn put(&mut self, line: &str) {
        self.size += line.len() as u64;
        self.hasher.update(line.as_bytes());
    }
}

impl CapTally {
    /// Takes in the next event.
    pub fn meet(&mut self, event: &Event) {
        if self.size == 0 {
            self.begin = begin(event);
        }
        self.size += 1;
        self.head = Some((event.event_hash, event.created_at));
        if let Some(begin) = &self.begin {
            self.ended = self.ended.or_else(|| ending(begin.kind, event));
        }
        self.artifacts.extend(event.artifacts.iter().map(|artifact| artifact.artifact_hash));
        if event.event_type == EventType::VerificationRunCompleted {
            let report = event.payload.get("report_artifact").and_then(Value::as_str);
            self.report = report.and_then(|text| text.parse().ok());
        }
        if event.event_type == EventType::FinalStatementSigned
            && let Some(begin) = &mut self.begin
            && begin.objective.is_empty()
        {
            // A recording is called what it was sealed as.
            let called = event.payload.get("final_verdict").and_then(Value::as_str);
            begin.objective = called.unwrap_or_default().to_owned();
        }
        if let Some((action, receipt)) = action_of(event) {
            self.meet_action(action, receipt);
        }
    }

    fn meet_action(&mut self, action: &Map<String, Value>, receipt: Hash) {
        self.actions += 1;
        self.last_receipt = Some(receipt);
        let mut line = std::mem::take(&mut self.line);
        let enforced = is_enforced(action);
        if enforced && self.upgraded.is_none() {
            self.upgraded = Some(self.recorded.clone());
        }
        write_line(action, &receipt, Audit::NotPassed, &mut line);
        self.recorded.put(&line);
        if let (true, Some(upgraded)) = (enforced, &mut self.upgraded) {
            write_line(action, &receipt, Audit::Passed, &mut line);
            upgraded.put(&line);
        } else if let Some(upgraded) = &mut self.upgraded {
            upgraded.put(&line);
        }
        self.line = line;
    }

    /// Whether an audit closed the trace and found nothing wrong.
    #[must_use]
    pub fn audit(&self) -> Audit {
        match self.ended {
            Some(TraceStatus::Succeeded) => Audit::Passed,
            _ => Audit::NotPassed,
        }
    }

    /// How the trace ended, if it has.
    #[must_use]
    pub const fn ended(&self) -> Option<TraceStatus> {
        self.ended
    }

    /// What the manifest says of the trace, under the root and the name of its log.
    #[must_use]
    pub fn trace(&self, root: Hash, origin: &str) -> Option<CapTrace> {
        let (begin, (head, last_event_at)) = (self.begin.as_ref()?, self.head?);
        Some(CapTrace {
            trace_id: begin.trace_id.clone(),
            kind: begin.kind,
            size: self.size,
            head,
            root,
            origin: origin.to_owned(),
            agent: begin.agent.clone(),
            objective: begin.objective.clone(),
            last_event_at,
            actions: self.actions,
            last_receipt: self.last_receipt,
        })
    }

    /// Size and hash of `actions.jsonl`.
    #[must_use]
    pub fn action_lines(&self) -> (u64, Hash) {
        let lines = match (&self.upgraded, self.audit()) {
            (Some(upgraded), Audit::Passed) => upgraded,
            _ => &self.recorded,
        };
        (lines.size, Hash::from_bytes(lines.hasher.clone().finalize().into()))
    }

    /// The report of the last audit.
    #[must_use]
    pub const fn report(&self) -> Option<Hash> {
        self.report
    }

    /// Every artifact that an event lists.
    #[must_use]
    pub const fn artifacts(&self) -> &BTreeSet<Hash> {
        &self.artifacts
    }
}

/// Whether an audit closed a trace and found nothing wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// It did.
    Passed,
    /// There was none, or it found something.
    NotPassed,
}

/// Writes the line of `actions.jsonl` that an event gives, with its line break. False if it gives none.
pub fn action_line(event: &Event, audit: Audit, line: &mut String) -> bool {
    match action_of(event) {
        Some((action, receipt)) => {
            write_line(action, &receipt, audit, line);
            true
        }
        None => false,
    }
}

fn write_line(action: &Map<String, Value>, receipt: &Hash, audit: Audit, line: &mut String) {
    let upgraded = audit == Audit::Passed && is_enforced(action);
    line.clear();
    write_record_line(action, receipt, upgraded.then_some(PolicyVerdict::FullyVerified), line);
    line.push('\n');
}

fn is_enforced(action: &Map<String, Value>) -> bool {
    let verdict = action.get("policy_verdict").and_then(Value::as_str);
    verdict == Some(PolicyVerdict::PolicyEnforced.as_str())
}

/// The action that an event carries, and its receipt hash.
fn action_of(event: &Event) -> Option<(&Map<String, Value>, Hash)> {
    let carries = carries_receipt(event);
    let action = event.payload.get("action").filter(|_| carries)?.as_object()?;
    let receipt = event.payload.get("receipt_hash")?.as_str()?.parse().ok()?;
    Some((action, receipt))
}

fn begin(event: &Event) -> Option<Begin> {
    let text = |place: &str| {
        let found = event.payload.pointer(place).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    Some(Begin {
        trace_id: event.trace_id.clone(),
        kind: kind_of(event)?,
        agent: text("/on_behalf_of/agent_id"),
        objective: text("/objective"),
    })
}
