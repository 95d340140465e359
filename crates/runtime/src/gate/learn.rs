//! Learning from our own traces: what became of actions that the gate had judged.
//!
//! Joins the end of an execution over its start and its intent with the cell that the gate had
//! named. Outcomes that the recorder saw count; what an agent says of itself counts only where
//! somebody asks for it. A trace that does not verify teaches nothing.

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::id::Ulid;
use countersign_format::report::{VerificationReport, VerificationStatus};
use countersign_gate::risk::{Outcomes, TraceLearned};
use countersign_gate::{Cell, RiskModel};
use countersign_protocol::kind_of;
use countersign_verify::{FileSource, KnownLog, Options, Profile};
use serde::Serialize;
use serde_json::Value;

use crate::inspect::each_event;
use crate::store::LedgerId;
use crate::workspace::{Workspace, WorkspaceError};

/// Whether what was learned is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The model is saved.
    Save,
    /// Everything is as it was.
    DryRun,
}

/// What happens to outcomes that agents report of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfReports {
    /// They are learned from, and kept apart in the model.
    Learned,
    /// They are counted, and nothing else.
    LeftOut,
}

/// What was learned from the traces of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// Traces that gave something new.
    pub traces: u64,
    /// New outcomes that the recorder saw.
    pub seen: Outcomes,
    /// New outcomes that agents reported of themselves, and that were learned.
    pub reported: Outcomes,
    /// Those that were not.
    pub reported_left_out: u64,
    /// Executions that the gate had not judged, so that they have no cell.
    pub ungated: u64,
    /// Programs that sessions ran: what they changed is not known, and that one failed may be what it
    /// was run for.
    pub programs: u64,
    /// Executions of which nobody knows how they ended.
    pub unknown: u64,
    /// Traces that taught nothing because something is wrong with them.
    pub left_out: Vec<LeftOut>,
}

/// A trace that was not learned from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Which.
    pub trace_id: String,
    /// Why.
    pub because: String,
}

/// What one trace says about outcomes.
#[derive(Debug, Default)]
struct Lessons {
    kind: Option<TraceKind>,
    events: u64,
    /// Ends of executions: place, what it was, and success.
    ends: Vec<(u64, Judged, Option<bool>)>,
    cells: BTreeMap<u64, Cell>,
    /// Intents that name no file.
    fileless: BTreeSet<u64>,
    starts: BTreeMap<u64, u64>,
}

/// What the gate had said of an action that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// It is a change of this cell.
    Change(Cell),
    /// It names no file: what it changes is not known.
    Program,
    /// It was not asked.
    Nothing,
}

impl Lessons {
    fn hear(&mut self, event: &Event) {
        let seq = event.seq.unwrap_or(self.events);
        if self.events == 0 {
            self.kind = kind_of(event);
        }
        self.events += 1;
        let number = |pointer: &str| event.payload.pointer(pointer).and_then(Value::as_u64);
        match event.event_type {
            EventType::ToolIntentSigned => {
                let paths = event.payload.get("paths").and_then(Value::as_array);
                if paths.is_none_or(Vec::is_empty) {
                    self.fileless.insert(seq);
                }
            }
            EventType::ToolIntentReviewed => {
                let cell = number("/gate/cell").and_then(|index| Cell::new(index).ok());
                if let (Some(intent), Some(cell)) = (number("/subject/seq"), cell) {
                    self.cells.insert(intent, cell);
                }
            }
            EventType::ToolExecutionStarted => {
                self.starts.extend(number("/intent/seq").map(|intent| (seq, intent)));
            }
            EventType::ToolExecutionCompleted | EventType::ToolExecutionFailed => {
                let completed = event.event_type == EventType::ToolExecutionCompleted;
                let unknown =
                    event.payload.get("outcome").and_then(Value::as_str) == Some("unknown");
                let start = number("/execution/seq");
                let intent = start.and_then(|start| self.starts.remove(&start));
                let cell = intent.and_then(|intent| self.cells.get(&intent).copied());
                let is_program =
                    self.is_seen() && intent.is_some_and(|intent| self.fileless.contains(&intent));
                let judged = match cell {
                    Some(_) if is_program => Judged::Program,
                    Some(cell) => Judged::Change(cell),
                    None => Judged::Nothing,
                };
                self.ends.push((seq, judged, (!unknown).then_some(completed)));
            }
            _ => {}
        }
    }

    /// Whether the recorder ran the tools itself. In a recording it has the agent's word.
    fn is_seen(&self) -> bool {
        self.kind == Some(TraceKind::Session)
    }
}

impl Workspace {
    /// Learns what became of actions since the last time.
    ///
    /// # Errors
    /// A trace or the model could not be read, or the model not be written.
    pub fn learn_from_traces(
        &self,
        self_reports: SelfReports,
        effect: Effect,
    ) -> Result<TraceReport, WorkspaceError> {
        self.change_model(effect, |model| {
            let mut report = TraceReport::default();
            let mut log = None;
            for id in self.trace_ids()? {
                self.learn_trace(id, self_reports, model, &mut log, &mut report)?;
            }
            Ok(report)
        })
    }

    fn learn_trace(
        &self,
        id: Ulid,
        self_reports: SelfReports,
        model: &mut RiskModel,
        log: &mut Option<KnownLog>,
        report: &mut TraceReport,
    ) -> Result<(), WorkspaceError> {
        let mut lessons = Lessons::default();
        let read = each_event(&self.trace_file(id), LedgerId::Trace(id), |event| {
            lessons.hear(&event);
        });
        // A trace that breaks off in the middle is for the verifier to talk about.
        let readable = read.map_err(cannot_read)?;
        let mut learned = model.learned_of(id);
        let before = if lessons.is_seen() { learned.seen } else { learned.reported };
        lessons.ends.retain(|(seq, ..)| *seq >= before);
        if lessons.ends.is_empty() && readable.is_ok() {
            return Ok(());
        }
        let verified = match readable {
            Ok(_) => self.verified_events(id, log)?,
            Err(bad) => Err(format!("event {}: {}", bad.index, bad.what)),
        };
        let events = match verified {
            Ok(events) => events.min(lessons.events),
            Err(because) => {
                report.left_out.push(LeftOut { trace_id: id.to_string(), because });
                return Ok(());
            }
        };
        let new = count(&lessons, events, self_reports, model, report);
        if new > 0 {
            let looked_at =
                if lessons.is_seen() { &mut learned.seen } else { &mut learned.reported };
            *looked_at = events;
            note(model, id, learned);
            report.traces += 1;
        }
        Ok(())
    }

    /// How many events of a trace the verifier vouches for, or why it does not.
    fn verified_events(
        &self,
        id: Ulid,
        log: &mut Option<KnownLog>,
    ) -> Result<Result<u64, String>, WorkspaceError> {
        let source = FileSource::in_home(self.home(), self.trace_file(id));
        let options = Options {
            trusted_roots: std::iter::once(self.root()).collect(),
            keys: Vec::new(),
            profile: Profile::DEFAULT,
            expect_trace: Some(id.to_string()),
            expect_head: None,
            expect_count: None,
            report_id: self.new_id()?.to_string(),
            now: self.now(),
        };
        if log.is_none() {
            *log = KnownLog::read(&source, Profile::DEFAULT).map_err(cannot_read)?;
        }
        let verdict = match log {
            Some(log) => log.verify(&source, &options),
            None => countersign_verify::verify(&source, &options),
        };
        Ok(accepted(&verdict.map_err(cannot_read)?))
    }
}

fn accepted(report: &VerificationReport) -> Result<u64, String> {
    if report.verification_status == VerificationStatus::Fail {
        let first = report.failures.first();
        let why = first.map_or_else(|| "it fails".to_owned(), |it| it.message.clone());
        return Err(format!("it does not verify: {why}"));
    }
    Ok(report.metrics.events)
}

/// Counts what is new, and says how much of it was learned.
fn count(
    lessons: &Lessons,
    events: u64,
    self_reports: SelfReports,
    model: &mut RiskModel,
    report: &mut TraceReport,
) -> u64 {
    let mut learned = 0;
    for &(_, judged, success) in lessons.ends.iter().filter(|(seq, ..)| *seq < events) {
        let (cell, success) = match (judged, success) {
            (Judged::Change(cell), Some(success)) => (cell, success),
            (Judged::Nothing, _) => {
                report.ungated += 1;
                continue;
            }
            (Judged::Program, _) => {
                report.programs += 1;
                continue;
            }
            (_, None) => {
                report.unknown += 1;
                continue;
            }
        };
        let outcomes = if lessons.is_seen() {
            model.learn(cell, success);
            &mut report.seen
        } else if self_reports == SelfReports::Learned {
            model.learn_reported(cell, success);
            &mut report.reported
        } else {
            report.reported_left_out += 1;
            continue;
        };
        learned += 1;
        *if success { &mut outcomes.succeeded } else { &mut outcomes.failed } += 1;
    }
    learned
}

fn note(model: &mut RiskModel, id: Ulid, learned: TraceLearned) {
    model.note_trace(id, learned);
}

fn cannot_read(source: std::io::Error) -> WorkspaceError {
    WorkspaceError::Io { doing: "read a trace", source }
}
