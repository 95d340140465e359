//! The server's own verdicts, each as of the bytes that it was made of.
//!
//! Decides when a trace is verified: when somebody asks for its verdict, and by and by when it was
//! listed. One at a time, since each takes all cores. A verdict whose trace or log has changed since
//! is none, and a whole report is used again only for moments, since artifacts may change unseen.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::response::Response;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::{Closed, Signer, VerificationReport, VerificationStatus};
use countersign_format::time::Timestamp;
use countersign_runtime::store::LedgerId;
use countersign_verify::{FileSource, Options, Profile, verify, verify_log};
use serde::Serialize;
use serde_json::{Value, json};

use super::answer::{ApiFailure, json as answer};
use super::asked::Asked;
use super::desk::Desk;
use super::traces::row;

/// Whole reports that are kept, and verdicts for lists.
const REPORTS_MAX: usize = 32;
const BRIEFS_MAX: usize = 20_000;
/// Traces that wait to be verified because they were listed.
const WANTED_MAX: usize = 512;
/// For so long a whole report is given again.
const REPORT_AGE_MAX: Duration = Duration::from_secs(10);
/// A trace of more bytes is verified only when somebody asks.
const UNASKED_BYTES_MAX: u64 = 8 << 20;

/// A verdict in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct VerdictBrief {
    verification_status: VerificationStatus,
    closed: Closed,
    signer: Signer,
    verified_at: Timestamp,
}

/// A file as it was: which one, how long, and when it last changed, which nobody can set back.
type FileSight = (u64, u64, i64, i64);

/// What a verdict was made of: the trace, and what the log says of keys and of this trace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Basis {
    trace: FileSight,
    keys: Option<Hash>,
    open: Option<u64>,
}

/// The verdicts of this run of the server.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    state: Mutex<State>,
    wanted: Condvar,
    /// Held while something is verified.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    briefs: HashMap<LedgerId, (Basis, VerdictBrief)>,
    reports: VecDeque<(LedgerId, Basis, Instant, Arc<VerificationReport>)>,
    queue: VecDeque<Ulid>,
    closed: bool,
}

impl Verdicts {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The verdict on a trace, if it is of what lies there now. One that is not is forgotten.
    fn brief(&self, ledger: LedgerId, now: Option<&Basis>) -> Option<VerdictBrief> {
        let mut state = self.state();
        let (basis, brief) = state.briefs.get(&ledger)?;
        if Some(basis) == now {
            return Some(brief.clone());
        }
        state.briefs.remove(&ledger);
        None
    }

    /// What the last whole report says of one event, if there is one of what lies there now.
    fn findings_at(&self, ledger: LedgerId, now: &Basis, index: u64) -> Option<Vec<Value>> {
        let state = self.state();
        let mut reports = state.reports.iter();
        let (.., report) = reports.find(|(it, basis, ..)| *it == ledger && basis == now)?;
        let here = report.failures.iter().filter(|failure| failure.index == Some(index));
        let told = here.map(|failure| {
            json!({
                "failure_code": failure.failure_code,
                "check_id": failure.check_id,
                "message": failure.message,
            })
        });
        Some(told.collect())
    }

    /// These were listed: they are verified when there is time.
    pub(super) fn want(&self, listed: impl Iterator<Item = (Ulid, u64)>) {
        let mut state = self.state();
        for (id, bytes) in listed {
            let known = state.briefs.contains_key(&LedgerId::Trace(id));
            let large = bytes > UNASKED_BYTES_MAX;
            if known || large || state.queue.contains(&id) || state.queue.len() >= WANTED_MAX {
                continue;
            }
            state.queue.push_back(id);
        }
        self.wanted.notify_one();
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wanted.notify_all();
    }

    /// The next trace to verify unasked; none once the server ends.
    fn next(&self) -> Option<Ulid> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(id) = state.queue.pop_front() {
                return Some(id);
            }
            state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn known(&self, ledger: LedgerId, basis: &Basis) -> Option<Arc<VerificationReport>> {
        let state = self.state();
        let mut reports = state.reports.iter();
        let found = reports
            .find(|(it, of, at, _)| *it == ledger && of == basis && at.elapsed() < REPORT_AGE_MAX);
        found.map(|(.., report)| Arc::clone(report))
    }

    fn keep(&self, ledger: LedgerId, basis: Basis, report: Arc<VerificationReport>) {
        let brief = brief(&report);
        let mut state = self.state();
        if state.briefs.len() >= BRIEFS_MAX {
            state.briefs.clear();
        }
        state.briefs.insert(ledger, (basis.clone(), brief));
        state.reports.retain(|(it, ..)| *it != ledger);
        state.reports.push_front((ledger, basis, Instant::now(), report));
        state.reports.truncate(REPORTS_MAX);
    }
}

/// Verifies what was listed, one after the other, for as long as the server runs.
pub(super) fn begin(desk: &Arc<Desk>) -> io::Result<()> {
    let desk = Arc::clone(desk);
    let work = move || {
        while let Some(id) = desk.verdicts.next() {
            // Whatever cannot be read is said to whoever asks for it.
            if let Ok(report) = verdict(&desk, LedgerId::Trace(id)) {
                desk.news.verdict(id, &report);
            }
        }
    };
    std::thread::Builder::new().name("verdicts".into()).spawn(work).map(drop)
}

/// The verdict on a ledger as it is now.
pub(super) fn verdict(
    desk: &Desk,
    ledger: LedgerId,
) -> Result<Arc<VerificationReport>, ApiFailure> {
    let home = desk.workspace.home();
    let events = events_of(desk, ledger);
    let failed = |error: io::Error| ApiFailure::unusable(format!("it cannot be read: {error}"));
    let before = basis(desk, ledger).map_err(failed)?;
    if let Some(report) = desk.verdicts.known(ledger, &before) {
        return Ok(report);
    }
    let _turn = desk.verdicts.turn.lock().unwrap_or_else(PoisonError::into_inner);
    // Whoever had the turn before may have verified the same.
    let before = basis(desk, ledger).map_err(failed)?;
    if let Some(report) = desk.verdicts.known(ledger, &before) {
        return Ok(report);
    }
    let options = Options {
        trusted_roots: desk.trusted_roots()?,
        keys: Vec::new(),
        profile: Profile::DEFAULT,
        expect_trace: match ledger {
            LedgerId::Trace(id) => Some(id.to_string()),
            LedgerId::Log => None,
        },
        expect_head: None,
        expect_count: None,
        report_id: desk.workspace.new_id()?.to_string(),
        now: desk.workspace.now(),
    };
    let started = Instant::now();
    let source = FileSource::in_home(home, events);
    let verified = match ledger {
        LedgerId::Trace(_) => verify(&source, &options),
        LedgerId::Log => verify_log(&source, &options),
    };
    let mut report = verified.map_err(failed)?;
    report.metrics.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let report = Arc::new(report);
    // What changed while it was read has a verdict of something between.
    if basis(desk, ledger).is_ok_and(|after| after == before) {
        desk.verdicts.keep(ledger, before, Arc::clone(&report));
    }
    Ok(report)
}

fn events_of(desk: &Desk, ledger: LedgerId) -> PathBuf {
    desk.workspace.store().ledger_dir(ledger).join("events.jsonl")
}

fn basis(desk: &Desk, ledger: LedgerId) -> io::Result<Basis> {
    let found = events_of(desk, ledger).symlink_metadata()?;
    // A log that cannot be read is a state like any other.
    let keys = desk.workspace.log_state(|log| log.keys_head).unwrap_or_default();
    let open = match ledger {
        LedgerId::Trace(id) => desk.workspace.open_trace(id).unwrap_or_default(),
        LedgerId::Log => None,
    };
    let open = open.map(|open| open.size);
    let trace = (found.ino(), found.len(), found.ctime(), found.ctime_nsec());
    Ok(Basis { trace, keys, open })
}

/// The verdict on a trace for a list, if there is one of what lies there now.
pub(super) fn known_brief(desk: &Desk, id: Ulid) -> Option<VerdictBrief> {
    let ledger = LedgerId::Trace(id);
    desk.verdicts.brief(ledger, basis(desk, ledger).ok().as_ref())
}

/// The traces that have a verdict of what lies there now, each with it.
pub(super) fn all_known(desk: &Desk) -> Vec<(Ulid, VerificationStatus)> {
    let ids: Vec<Ulid> = desk
        .verdicts
        .state()
        .briefs
        .keys()
        .filter_map(|ledger| match ledger {
            LedgerId::Trace(id) => Some(*id),
            LedgerId::Log => None,
        })
        .collect();
    let known = ids.into_iter().filter_map(|id| Some((id, known_brief(desk, id)?)));
    known.map(|(id, brief)| (id, brief.verification_status)).collect()
}

/// What the last verdict on a trace says of one event.
pub(super) fn findings_at(desk: &Desk, id: Ulid, index: u64) -> Option<Vec<Value>> {
    let ledger = LedgerId::Trace(id);
    desk.verdicts.findings_at(ledger, &basis(desk, ledger).ok()?, index)
}

pub(super) fn of_trace(desk: &Desk, asked: &Asked) -> Result<Response, ApiFailure> {
    let id = row(desk, asked.id()?)?.id;
    Ok(answer(&*verdict(desk, LedgerId::Trace(id))?))
}

pub(super) fn of_log(desk: &Desk, _: &Asked) -> Result<Response, ApiFailure> {
    Ok(answer(&*verdict(desk, LedgerId::Log)?))
}

/// A verdict for a list.
pub(super) fn brief(report: &VerificationReport) -> VerdictBrief {
    VerdictBrief {
        verification_status: report.verification_status,
        closed: report.closed,
        signer: report.signer,
        verified_at: report.verified_at,
    }
}
