//! Reading a workspace for a report: its log, the traces of the period, and a verdict on each.
//!
//! The disk is listed before the log is read, and the traces are read after it: so whatever was
//! acknowledged meanwhile is there, and no gap is told that is only a matter of who was faster.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use countersign_format::event::{Event, Reading};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::note::{Checkpoint, NOTE_BYTES_MAX, SignedNote};
use countersign_format::report::{Closed, Signer, VerificationReport, VerificationStatus};
use countersign_format::time::Timestamp;
use countersign_verify::{
    FileSource, KnownLog, Lines, Options, Profile, RawLine, open_regular, read_regular, verify,
};

use super::action::{complete, cut};
use super::gap::{OnDisk, gaps};
use super::log_facts::{LogFacts, LoggedTrace};
use super::trace_facts::{Lists, TraceFacts};
use super::{
    LogCheckpoint, Newest, Period, PeriodFacts, PeriodGap, PeriodGapKind, PeriodLog, PeriodTotals,
    PeriodTrace, PeriodVerdict, ToldFailure,
};
use crate::disk::{Access, DiskFile, read_full};
use crate::replica;
use crate::store::LedgerId;
use crate::workspace::{Workspace, WorkspaceError};

/// Failures and warnings of one trace that are told.
const FINDINGS_MAX: usize = 5;
/// Characters of what the verifier says.
const FINDING_CHARACTERS_MAX: usize = 1_000;
/// Bytes of the end of a ledger that are looked at for its last event.
const TAIL_BYTES: u64 = 64 << 10;

/// How a period is gathered.
#[derive(Debug, Clone)]
pub struct PeriodOptions {
    /// The period.
    pub period: Period,
    /// Fingerprints of roots that the reader trusts.
    pub trusted_roots: BTreeSet<Hash>,
}

struct Gathering<'a> {
    workspace: &'a Workspace,
    options: &'a PeriodOptions,
    known: Option<KnownLog>,
    lists: Lists,
    totals: PeriodTotals,
    gaps: Newest<PeriodGap>,
    traces: Newest<PeriodTrace>,
    not_proven: Vec<String>,
}

impl Workspace {
    /// Everything that is told of a period. `progress` hears how many traces were looked at, and of
    /// how many.
    ///
    /// # Errors
    /// The traces cannot be listed or the log cannot be opened. What cannot be read beside them is
    /// told as a gap.
    pub fn period(
        &self,
        options: &PeriodOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<PeriodFacts, WorkspaceError> {
        let failed = |doing| move |source| WorkspaceError::Io { doing, source };
        let here = listed(&self.home().join("traces")).map_err(failed("list the traces"))?;
        let log_file = self.home().join("log/events.jsonl");
        let (log, bad_entries) =
            read_log(&log_file, &options.period).map_err(failed("read the workspace log"))?;
        let source = FileSource::in_home(self.home(), log_file);
        let own = FileSource { log: Some(source.events.clone()), ..source.clone() };
        let (known, why) = match KnownLog::read(&own, Profile::DEFAULT) {
            Ok(known) => (known, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut gathering = Gathering {
            workspace: self,
            options,
            known,
            lists: Lists::default(),
            totals: PeriodTotals::default(),
            gaps: Newest::default(),
            traces: Newest::default(),
            not_proven: Vec::new(),
        };
        if bad_entries > 0 {
            gathering.gaps.add(options.period.to, bad_log(bad_entries));
        }
        let ids: BTreeSet<&str> =
            log.traces.keys().map(String::as_str).chain(here.iter().map(String::as_str)).collect();
        let total = ids.len() as u64;
        for (done, trace_id) in ids.into_iter().enumerate() {
            progress(done as u64, total);
            gathering.trace(trace_id, log.traces.get(trace_id))?;
        }
        progress(total, total);
        gathering.finish(log, why)
    }
}

impl Gathering<'_> {
    /// Looks at one trace, and takes it in if it belongs to the period.
    fn trace(&mut self, id: &str, logged: Option<&LoggedTrace>) -> Result<(), WorkspaceError> {
        let period = &self.options.period;
        let events = self.workspace.home().join("traces").join(id).join("events.jsonl");
        let last = match last_event(self.workspace, &events) {
            Last::At(at) => Some(at),
            // What cannot be told to lie outside is looked at.
            Last::NotTold => Some(period.from),
            Last::Absent => None,
        };
        // Of a trace that is gone and was not closed nobody knows how long it went on.
        let unended = logged.is_some_and(|logged| !logged.closed) && last.is_none();
        let known_last = match unended {
            true => Some(period.to),
            false => logged.map(|logged| logged.last_at).max(last),
        };
        let first = logged.map_or(Timestamp::EPOCH, |logged| logged.first_at);
        if !known_last.is_some_and(|last| period.meets(first, last)) {
            let gone = logged.is_some() && last.is_none();
            self.totals.gone_elsewhere += u64::from(gone);
            return Ok(());
        }
        let mut facts = TraceFacts::default();
        // An unknown trace is read to learn when it began, and may have begun after the period.
        let mut lists = std::mem::take(&mut self.lists);
        let disk = read_trace(&events, id, &mut facts, period, &mut lists);
        self.lists = lists;
        if logged.is_none() && (disk == OnDisk::Absent || !meets(period, &facts)) {
            return Ok(());
        }
        let last_at = facts.last_at.max(logged.map(|logged| logged.last_at));
        let size = logged.map(|logged| logged.size);
        for gap in gaps(id, size, &disk, last_at) {
            self.gaps.add(last_at.unwrap_or(period.from), gap);
        }
        if disk == OnDisk::Absent {
            return Ok(());
        }
        let verdict = self.verdict(id, &events)?;
        self.take(id, logged, facts, &disk, verdict, last_at);
        Ok(())
    }

    fn verdict(
        &self,
        id: &str,
        events: &Path,
    ) -> Result<io::Result<VerificationReport>, WorkspaceError> {
        let options = self.verifier(Some(id.to_owned()))?;
        let source = FileSource::in_home(self.workspace.home(), events.to_owned());
        Ok(match &self.known {
            Some(known) => known.verify(&source, &options),
            None => verify(&source, &options),
        })
    }

    fn verifier(&self, expect_trace: Option<String>) -> Result<Options, WorkspaceError> {
        Ok(Options {
            trusted_roots: self.options.trusted_roots.clone(),
            keys: Vec::new(),
            profile: Profile::DEFAULT,
            expect_trace,
            expect_head: None,
            expect_count: None,
            report_id: self.workspace.new_id()?.to_string(),
            now: self.workspace.now(),
        })
    }

    fn take(
        &mut self,
        id: &str,
        logged: Option<&LoggedTrace>,
        facts: TraceFacts,
        disk: &OnDisk,
        report: io::Result<VerificationReport>,
        last_at: Option<Timestamp>,
    ) {
        let (verdict, unverified) = match report {
            Ok(report) => {
                self.hear(&report.not_proven);
                (Some(told(&report)), None)
            }
            Err(error) => (None, Some(error.to_string())),
        };
        self.count(verdict.as_ref());
        self.totals.events += facts.events_in_period;
        let (events, unreadable_lines) = match disk {
            OnDisk::Lines { whole, unreadable } => (*whole, *unreadable),
            OnDisk::Absent | OnDisk::Failed(_) => (0, 0),
        };
        let trace = PeriodTrace {
            trace_id: id.to_owned(),
            kind: facts.kind.or(logged.and_then(|logged| logged.kind)),
            title: facts.title,
            started_at: facts.started_at.or(logged.map(|logged| logged.first_at)),
            last_at,
            status: facts.status,
            outcome: facts.outcome,
            events,
            events_in_period: facts.events_in_period,
            unreadable_lines,
            logged_events: logged.map(|logged| logged.size),
            participants: facts.participants,
            denials: facts.denials,
            approvals: facts.approvals,
            verdict,
            unverified,
        };
        self.traces.add(last_at.unwrap_or(self.options.period.from), trace);
    }

    fn count(&mut self, verdict: Option<&PeriodVerdict>) {
        let totals = &mut self.totals;
        totals.traces += 1;
        let Some(verdict) = verdict else {
            totals.unverified += 1;
            return;
        };
        match verdict.verification_status {
            VerificationStatus::Pass => totals.passed += 1,
            VerificationStatus::PassWithWarnings => {
                totals.passed += 1;
                totals.with_warnings += 1;
            }
            VerificationStatus::Fail => totals.failed += 1,
        }
        totals.open += u64::from(verdict.closed == Closed::No);
        totals.unpinned += u64::from(verdict.signer == Signer::Unpinned);
    }

    fn hear(&mut self, not_proven: &[String]) {
        for text in not_proven {
            if !self.not_proven.contains(text) {
                self.not_proven.push(text.clone());
            }
        }
    }

    fn finish(
        mut self,
        mut log: LogFacts,
        unverified: Option<String>,
    ) -> Result<PeriodFacts, WorkspaceError> {
        let options = self.verifier(None)?;
        let report = self.known.as_ref().map(|known| known.report(&options));
        if let Some(report) = &report {
            self.hear(&report.not_proven);
        }
        let lists = &mut self.lists;
        lists.redactions.absorb(log.redactions);
        lists.recovered.absorb(log.recovered);
        settle(lists);
        log.keys.settle();
        self.gaps.settle();
        self.traces.settle();
        // Only now, when it is known which are told: each costs a look into the store.
        for decision in lists.denials.rows.iter_mut().chain(&mut lists.approvals.rows) {
            complete(self.workspace, &mut decision.action);
        }
        let totals = PeriodTotals {
            passed_by_gate: lists.passed_by_gate,
            passed_by_critic: lists.passed_by_critic,
            asked: lists.asked,
            coverage_gaps: lists.coverage_gaps,
            channels: lists.channels.clone(),
            ..self.totals
        };
        Ok(PeriodFacts {
            workspace: self.workspace.home().display().to_string(),
            made_at: self.workspace.now(),
            period: self.options.period,
            totals,
            log: PeriodLog {
                entries: log.entries,
                entries_in_period: log.entries_in_period,
                verdict: report.as_ref().map(told),
                unverified,
                root_key: self.workspace.root(),
                checkpoint: checkpoint(&self.workspace.home().join("log/checkpoint")),
            },
            gaps: self.gaps,
            traces: self.traces,
            denials: self.lists.denials,
            approvals: self.lists.approvals,
            broken_off: self.lists.broken_off,
            coverage: self.lists.coverage,
            keys: log.keys,
            redactions: self.lists.redactions,
            recovered: self.lists.recovered,
            not_proven: self.not_proven,
        })
    }
}

fn settle(lists: &mut Lists) {
    lists.denials.settle();
    lists.approvals.settle();
    lists.broken_off.settle();
    lists.coverage.settle();
    lists.redactions.settle();
    lists.recovered.settle();
}

fn meets(period: &Period, facts: &TraceFacts) -> bool {
    match (facts.started_at, facts.last_at) {
        (Some(first), Some(last)) => period.meets(first, last),
        // Not one event can be read: nobody can say that it lies outside.
        _ => true,
    }
}

fn bad_log(count: u64) -> PeriodGap {
    PeriodGap {
        kind: PeriodGapKind::Unreadable,
        trace_id: "log".to_owned(),
        last_at: None,
        what: format!("{count} lines of the workspace log cannot be read"),
        hint: "countersign verify log".to_owned(),
    }
}

/// The names of traces that have a directory.
fn listed(dir: &Path) -> io::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut found = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name().into_string().ok();
        found.extend(name.filter(|name| name.parse::<Ulid>().is_ok()));
    }
    Ok(found)
}

/// Hands every event of a ledger over, and counts its whole lines and those that are none.
fn each_line(
    file: File,
    ledger: LedgerId,
    mut visit: impl FnMut(&Event),
) -> io::Result<(u64, u64)> {
    let mut lines = Lines::new(BufReader::new(file));
    let (mut whole, mut unreadable) = (0, 0);
    while let Some(line) = lines.next_line()? {
        let event = match line {
            RawLine::Complete(bytes) => as_it_stands(bytes),
            // A torn tail is no line yet.
            RawLine::Unterminated(_) => break,
            RawLine::TooLong => None,
            RawLine::Endless => {
                unreadable += 1;
                whole += 1;
                break;
            }
        };
        whole += 1;
        match event.filter(|event| replica::belongs(ledger, event).is_ok()) {
            Some(event) => visit(&event),
            None => unreadable += 1,
        }
    }
    Ok((whole, unreadable))
}

/// The event of a line, whatever its hashes are: who edits a denial must not make it vanish from the
/// list. That it was edited is in the verdict.
fn as_it_stands(line: &[u8]) -> Option<Event> {
    Reading::of(line).ok()?.into_event()
}

fn read_log(path: &Path, period: &Period) -> io::Result<(LogFacts, u64)> {
    let mut facts = LogFacts::default();
    let read = each_line(open_regular(path)?, LedgerId::Log, |event| facts.push(event, period));
    read.map(|(_, unreadable)| (facts, unreadable))
}

fn read_trace(
    path: &Path,
    id: &str,
    facts: &mut TraceFacts,
    period: &Period,
    lists: &mut Lists,
) -> OnDisk {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return OnDisk::Absent,
        Err(error) => return OnDisk::Failed(error.to_string()),
    };
    let Ok(id) = id.parse() else { return OnDisk::Failed("its name is no id".to_owned()) };
    match each_line(file, LedgerId::Trace(id), |event| facts.push(event, period, lists)) {
        Ok((0, _)) => OnDisk::Absent,
        Ok((whole, unreadable)) => OnDisk::Lines { whole, unreadable },
        Err(error) => OnDisk::Failed(error.to_string()),
    }
}

/// The time of the last event of a ledger.
enum Last {
    Absent,
    At(Timestamp),
    NotTold,
}

fn last_event(workspace: &Workspace, path: &Path) -> Last {
    let file = match workspace.store().disk().open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.is_missing() => return Last::Absent,
        Err(_) => return Last::NotTold,
    };
    match file.stat() {
        Ok(found) if found.len == 0 => Last::Absent,
        Ok(found) => last_time(&*file, found.len).map_or(Last::NotTold, Last::At),
        Err(_) => Last::NotTold,
    }
}

fn last_time(file: &dyn DiskFile, length: u64) -> Option<Timestamp> {
    let from = length.saturating_sub(TAIL_BYTES);
    let mut tail = vec![0; usize::try_from(length - from).ok()?];
    let read = read_full(file, from, &mut tail).ok()?;
    tail.truncate(read);
    let whole = tail.iter().rposition(|&byte| byte == b'\n')?;
    let lines = tail.get(..whole)?;
    let start = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if start == 0 && from > 0 {
        return None;
    }
    as_it_stands(lines.get(start..)?).map(|event| event.created_at)
}

fn checkpoint(path: &Path) -> Option<LogCheckpoint> {
    let bytes = read_regular(path, NOTE_BYTES_MAX as u64).ok()?;
    let Checkpoint { origin, size, root } = SignedNote::parse(&bytes).ok()?.text().parse().ok()?;
    Some(LogCheckpoint { origin, size, root })
}

/// As much of a verdict as is told.
fn told(report: &VerificationReport) -> PeriodVerdict {
    let short = |text: &str| cut(text, FINDING_CHARACTERS_MAX);
    let failures = report.failures.iter().take(FINDINGS_MAX).map(|failure| ToldFailure {
        failure_code: failure.failure_code,
        index: failure.index,
        message: short(&failure.message),
    });
    let warnings = report.warnings.iter().take(FINDINGS_MAX);
    PeriodVerdict {
        verification_status: report.verification_status,
        closed: report.closed,
        signer: report.signer,
        summary: short(&report.summary),
        failures: failures.collect(),
        failure_count: report.failures.len() as u64,
        warnings: warnings
            .map(|warning| short(&format!("{}: {}", warning.warning_code, warning.message)))
            .collect(),
        warning_count: report.warnings.len() as u64,
    }
}
