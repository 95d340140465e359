//! What happened in a workspace between two times, for somebody who was not there.
//!
//! Decides which traces belong to a period and what is told of each: the log's list is the list, so
//! that what vanished is told as well. `log_facts`, `trace_facts`, `decision` and `gap` are pure;
//! `gather` reads and verifies. Nothing is written, and every list keeps its newest rows only.

mod action;
mod decision;
mod gap;
mod gather;
mod log_facts;
mod newest;
mod trace_facts;

use countersign_format::event::TraceKind;
use countersign_format::hash::Hash;
use countersign_format::report::{Closed, FailureCode, Signer, VerificationStatus};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use serde::Serialize;

pub use action::DecidedAction;
pub(crate) use action::action_of;
pub(crate) use decision::heard;
pub use decision::{Decider, PeriodDecision, Ruling};
pub use gap::{PeriodGap, PeriodGapKind};
pub use gather::PeriodOptions;
pub use newest::Newest;

/// Rows that a list of a report has at most; the oldest are left out, and counted.
pub const PERIOD_ROWS_MAX: usize = 10_000;

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Period {
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it.
    pub to: Timestamp,
}

impl Period {
    /// Whether `at` lies in it.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.from <= at && at < self.to
    }

    /// Whether something that lasted from `first` to `last` lies in it, wholly or in part.
    #[must_use]
    pub fn meets(&self, first: Timestamp, last: Timestamp) -> bool {
        first < self.to && last >= self.from
    }
}

/// Everything that is told of a period.
#[derive(Debug, Serialize)]
pub struct PeriodFacts {
    /// Where the workspace lies.
    pub workspace: String,
    /// When this was gathered.
    pub made_at: Timestamp,
    /// The period.
    pub period: Period,
    /// How much there is of everything, with what the lists leave out.
    pub totals: PeriodTotals,
    /// The workspace log, as it stood then.
    pub log: PeriodLog,
    /// What is missing, or is there and should not be.
    pub gaps: Newest<PeriodGap>,
    /// The traces.
    pub traces: Newest<PeriodTrace>,
    /// What was not let happen.
    pub denials: Newest<PeriodDecision>,
    /// What people permitted.
    pub approvals: Newest<PeriodDecision>,
    /// Sessions and flows that failed or were aborted.
    pub broken_off: Newest<BrokenOff>,
    /// Comparisons with what agents did.
    pub coverage: Newest<ReportedCoverage>,
    /// Changes of keys.
    pub keys: Newest<KeyChange>,
    /// Artifacts whose bytes were removed.
    pub redactions: Newest<RemovedArtifact>,
    /// Unfinished lines that were set aside.
    pub recovered: Newest<RecoveredTail>,
    /// What none of this proves, in the verifier's words.
    pub not_proven: Vec<String>,
}

impl PeriodFacts {
    /// Whether something is wrong: a gap, or a verdict that failed.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        let log = self.log.verdict.as_ref();
        self.gaps.total > 0
            || self.totals.failed > 0
            || self.totals.unverified > 0
            || log.is_none_or(|log| log.verification_status == VerificationStatus::Fail)
    }
}

/// How much there is in a period.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PeriodTotals {
    /// Traces.
    pub traces: u64,
    /// Those in which nothing is wrong.
    pub passed: u64,
    /// Those of them with warnings.
    pub with_warnings: u64,
    /// Those in which something is wrong.
    pub failed: u64,
    /// Those of which the verifier could say nothing.
    pub unverified: u64,
    /// Those that are not over, by the log.
    pub open: u64,
    /// Those whose signers lead to no root that is trusted here.
    pub unpinned: u64,
    /// Events of these traces within the period.
    pub events: u64,
    /// Actions that the gate let pass by itself.
    pub passed_by_gate: u64,
    /// Actions that a critic let pass.
    pub passed_by_critic: u64,
    /// Questions that were put to people.
    pub asked: u64,
    /// Approvals by people, by how they were given.
    pub channels: ChannelCounts,
    /// Gaps that coverage reports name.
    pub coverage_gaps: u64,
    /// Traces of other times that the log knows and that are gone.
    pub gone_elsewhere: u64,
}

/// Approvals by the channel that they name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChannelCounts {
    /// The operator's key asked for its passphrase.
    pub protected_key: u64,
    /// Whatever runs under the same user could have signed.
    pub unprotected_key: u64,
    /// The agent's own client asked.
    pub client_prompt: u64,
    /// They do not say.
    pub unstated: u64,
}

impl ChannelCounts {
    pub(crate) fn count(&mut self, channel: Option<&str>) {
        let counted = match channel {
            Some("protected-key") => &mut self.protected_key,
            Some("unprotected-key") => &mut self.unprotected_key,
            Some("client-prompt") => &mut self.client_prompt,
            _ => &mut self.unstated,
        };
        *counted += 1;
    }
}

/// The workspace log at the time of a report.
#[derive(Debug, Serialize)]
pub struct PeriodLog {
    /// Entries that were read.
    pub entries: u64,
    /// Entries within the period.
    pub entries_in_period: u64,
    /// What the verifier says of it; none if it could not say anything.
    pub verdict: Option<PeriodVerdict>,
    /// Why it could not.
    pub unverified: Option<String>,
    /// Fingerprint of its root key.
    pub root_key: Hash,
    /// What its checkpoint says; none if there is none that can be read.
    pub checkpoint: Option<LogCheckpoint>,
}

/// What a checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogCheckpoint {
    /// Which log.
    pub origin: String,
    /// Its entries.
    pub size: u64,
    /// Root of the tree over them.
    pub root: Hash,
}

/// A verdict, as far as a report tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PeriodVerdict {
    /// Whether something is wrong.
    pub verification_status: VerificationStatus,
    /// Whether it is over.
    pub closed: Closed,
    /// Whether its signers lead to a root that is trusted here.
    pub signer: Signer,
    /// The verdict in a sentence.
    pub summary: String,
    /// The first failures.
    pub failures: Vec<ToldFailure>,
    /// All failures.
    pub failure_count: u64,
    /// The first warnings, each with its code.
    pub warnings: Vec<String>,
    /// All warnings.
    pub warning_count: u64,
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToldFailure {
    /// Its code.
    pub failure_code: FailureCode,
    /// The place of the event, if it is about one.
    pub index: Option<u64>,
    /// What is wrong.
    pub message: String,
}

/// A trace of the period.
#[derive(Debug, Clone, Serialize)]
pub struct PeriodTrace {
    /// Its id.
    pub trace_id: String,
    /// What it records, as its first event says, else the log.
    pub kind: Option<TraceKind>,
    /// What people would call it.
    pub title: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// Its last event.
    pub last_at: Option<Timestamp>,
    /// How it stands by its events.
    pub status: Option<TraceStatus>,
    /// Whether it reached its aim, as its executor says.
    pub outcome: Option<String>,
    /// Whole lines of its ledger.
    pub events: u64,
    /// Events of the period.
    pub events_in_period: u64,
    /// Lines that are no events of it.
    pub unreadable_lines: u64,
    /// Events that the log knows of; none if the log does not know the trace.
    pub logged_events: Option<u64>,
    /// Who took part, each as role and agent, or once where both are the same.
    pub participants: Vec<String>,
    /// Things that were not let happen in it, within the period.
    pub denials: u64,
    /// Things that people permitted in it, within the period.
    pub approvals: u64,
    /// What the verifier says; none if it could not say anything.
    pub verdict: Option<PeriodVerdict>,
    /// Why it could not.
    pub unverified: Option<String>,
}

/// A trace that did not end well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenOff {
    /// When.
    pub at: Timestamp,
    /// The trace.
    pub trace_id: String,
    /// The event.
    pub event_id: String,
    /// Whether it failed or was aborted.
    pub status: TraceStatus,
    /// Who recorded it.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// A comparison of a trace with what its agent did: somebody's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedCoverage {
    /// When.
    pub at: Timestamp,
    /// The trace.
    pub trace_id: String,
    /// The event.
    pub event_id: String,
    /// How much bypassed the recorder.
    pub gaps: u64,
    /// What was compared.
    pub sources: Vec<String>,
}

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyChangeKind {
    /// It may sign from then on.
    Added,
    /// It replaced another one.
    Rotated,
    /// It may sign no longer.
    Revoked,
}

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyChange {
    /// When.
    pub at: Timestamp,
    /// The entry of the log.
    pub event_id: String,
    /// What happened.
    pub change: KeyChangeKind,
    /// The key.
    pub key_id: String,
    /// Whose it is, where the log said so.
    pub agent_id: Option<String>,
    /// The roles in which it may sign.
    pub roles: Vec<Role>,
    /// The key that it replaced.
    pub replaces: Option<String>,
    /// Why it was revoked.
    pub reason: Option<String>,
}

/// An artifact whose bytes were removed from the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemovedArtifact {
    /// When.
    pub at: Timestamp,
    /// The trace; `log` for the workspace log.
    pub trace_id: String,
    /// The event.
    pub event_id: String,
    /// Hash of the bytes.
    pub artifact_hash: String,
    /// Who recorded it.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// An unfinished line that a writer set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveredTail {
    /// When.
    pub at: Timestamp,
    /// The trace; `log` for the workspace log.
    pub trace_id: String,
    /// The event.
    pub event_id: String,
    /// Bytes that were set aside.
    pub torn_bytes: u64,
    /// Where they lie.
    pub torn_file: String,
    /// Why.
    pub reason: String,
}
