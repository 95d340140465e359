//! `countersign verify --all`.

use std::path::Path;
use std::time::Instant;

use countersign_format::report::{
    Closed, FailureCode, Signer, VerificationReport, VerificationStatus,
};
use countersign_verify::{FileSource, OpenTraces, TraceVerdict, exit_status, verify_all};
use serde::Serialize;

use super::logs::add_log;
use super::{VerifyArgs, exit, keep, milliseconds, new_report, options};
use crate::{Caller, CommandError, Exit, Format};

/// Failures of a trace that its line is followed by.
const FAILURES_SHOWN: usize = 3;

/// What is said of a workspace.
#[derive(Debug, Default, Serialize)]
struct Answer {
    /// Null if there is none.
    log: Option<VerificationReport>,
    traces: Vec<VerificationReport>,
    /// Traces of which only the log still knows.
    gone: Vec<String>,
    /// Traces of which nothing can be said.
    unreadable: Vec<Unreadable>,
    counts: Counts,
}

#[derive(Debug, Serialize)]
struct Unreadable {
    trace_id: String,
    why: String,
}

#[derive(Debug, Default, Serialize)]
struct Counts {
    traces: u64,
    /// Nothing wrong, closed, signer pinned.
    good: u64,
    /// Nothing wrong, but open or unpinned.
    open_or_unpinned: u64,
    failed: u64,
    unreadable: u64,
}

pub(super) fn run(args: &VerifyArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let home = caller.home()?;
    if !home.join("log").is_dir() && !home.join("traces").is_dir() {
        return Err(CommandError::failed(format!("`{}` is no workspace", home.display()))
            .with_hint("name one with `--home`, or make one with `countersign init`"));
    }
    let traces = home.join("traces");
    let mut shared = FileSource::in_home(&home, traces.clone());
    for log in &args.log {
        add_log(&mut shared, log)?;
    }
    if !args.log.is_empty() && !home.join("log/events.jsonl").exists() {
        let error = format!("the log of `{}` is gone, and a copy of it was kept", home.display());
        return Err(CommandError::no(error)
            .with_hint("put the copy into its place, and ask again without `--log`"));
    }
    let options = options(args, caller)?;
    let mut answer = Answer::default();
    let mut unkept = None;
    let mut started = Instant::now();
    let output = &mut caller.output;
    let log = verify_all(&shared, &traces, &options, &mut |mut verdict| {
        if let Ok(report) = &mut verdict.report {
            (report.verified_at, report.report_id) = new_report()?;
            report.metrics.elapsed_ms = milliseconds(started);
            if verdict.present && !args.no_write {
                let reports = traces.join(&verdict.trace_id).join("reports");
                unkept = unkept.take().or(keep(&reports, report).err());
            }
        }
        started = Instant::now();
        answer.take(verdict, args.open());
        output.status(format_args!("verifying: {} traces", answer.counts.traces));
        Ok(())
    });
    output.clear_status();
    answer.log = log.map_err(CommandError::failed)?;
    // Traces were held against the longest log; the workspace's own must not be shorter.
    let own = home.join("log/events.jsonl");
    if !args.log.is_empty() {
        let log = shared.log.clone().filter(|log| *log != own);
        let kept = FileSource { events: own, log, ..shared };
        let report = countersign_verify::verify_log(&kept, &options);
        answer.log = Some(report.map_err(CommandError::failed)?);
    }
    match output.format() {
        Format::Json => output.json(&answer)?,
        Format::Text => output.block(answer.text(&home))?,
    }
    if let Some(error) = unkept {
        output.warning(format_args!("not every report could be kept: {error}"));
        output.hint("with `--no-write` nothing is written");
    }
    Ok(answer.exit())
}

impl Answer {
    fn take(&mut self, verdict: TraceVerdict, open: OpenTraces) {
        self.counts.traces += 1;
        match verdict.report {
            Ok(report) => {
                let count = match exit_status(&report, open) {
                    0 => &mut self.counts.good,
                    3 => &mut self.counts.failed,
                    _ => &mut self.counts.open_or_unpinned,
                };
                *count += 1;
                if !verdict.present {
                    self.gone.push(verdict.trace_id);
                }
                self.traces.push(report);
            }
            Err(error) => {
                self.counts.unreadable += 1;
                let (trace_id, why) = (verdict.trace_id, error.to_string());
                self.unreadable.push(Unreadable { trace_id, why });
            }
        }
    }

    /// The worst of all: the log never ends, so that it counts as open only in what it is.
    fn exit(&self) -> Exit {
        let log = self.log.as_ref().map(|log| exit_status(log, OpenTraces::Accepted));
        if self.counts.failed > 0 || log == Some(3) {
            exit(3)
        } else if self.counts.unreadable > 0 {
            Exit::Failed
        } else if self.counts.open_or_unpinned > 0 || log != Some(0) {
            exit(4)
        } else {
            exit(0)
        }
    }

    fn text(&self, home: &Path) -> String {
        let mut lines = vec![format!("workspace {}", home.display()), String::new()];
        match &self.log {
            Some(log) => lines.extend(of(log, "log")),
            None => lines.push("no log: nobody can say whether traces are missing".to_owned()),
        }
        for report in &self.traces {
            if self.gone.contains(&report.trace_id) {
                lines.push(format!("GONE  {}", report.trace_id));
                lines.extend(failures(report));
            } else {
                lines.extend(of(report, &report.trace_id));
            }
        }
        for Unreadable { trace_id, why } in &self.unreadable {
            lines.push(format!("????  {trace_id}  cannot be read: {why}"));
        }
        let Counts { traces, good, open_or_unpinned, failed, unreadable } = self.counts;
        lines.push(String::new());
        lines.push(format!(
            "{traces} traces: {good} good, {open_or_unpinned} open or unpinned, {failed} failed, \
             {unreadable} unreadable"
        ));
        lines.push("`countersign verify TRACE` says everything about one of them".to_owned());
        lines.join("\n")
    }
}

/// A line for a report, and what is wrong in it.
fn of(report: &VerificationReport, name: &str) -> Vec<String> {
    let mark = match report.verification_status {
        VerificationStatus::Pass => "ok  ",
        VerificationStatus::PassWithWarnings => "warn",
        VerificationStatus::Fail => "FAIL",
    };
    let kind = report.kind.map_or("unknown", |kind| kind.as_str());
    let closed = match report.closed {
        Closed::Yes => "closed",
        Closed::No => "open",
        Closed::Aborted => "aborted",
    };
    let signer = match report.signer {
        Signer::Pinned => "pinned",
        Signer::Unpinned => "unpinned",
    };
    let events = match report.metrics.events {
        1 => "1 event ".to_owned(),
        events => format!("{events} events"),
    };
    let mut lines =
        vec![format!("{mark}  {name:<26}  {kind:<9}  {events:>14}  {closed}, {signer}")];
    lines.extend(failures(report));
    lines
}

/// What is wrong, below the line of a trace.
fn failures(report: &VerificationReport) -> Vec<String> {
    let mut lines = Vec::new();
    for failure in report.failures.iter().take(FAILURES_SHOWN) {
        let code: FailureCode = failure.failure_code;
        lines.push(format!("        {code}: {}", failure.message));
    }
    if report.failures.len() > FAILURES_SHOWN {
        lines.push(format!("        and {} more", report.failures.len() - FAILURES_SHOWN));
    }
    lines
}
