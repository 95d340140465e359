//! What an agent did against what was recorded of it: gaps are named, and the report is an event.
//!
//! Compared are the agent's own transcript, the files of the workspace, and the trace with itself. All
//! of these are the word of somebody: no gap found is no proof that there is none, and every report
//! says what it cannot see. Nothing here judges whether a trace holds; that is the verifier's.

mod calls;
mod files;
mod looking;
mod recorded;
mod report;
mod snapshot;
mod touched;
mod transcript;

use std::path::PathBuf;

use countersign_format::event::{SCHEMA_VERSION, TraceKind};
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::time::Timestamp;
use countersign_protocol::Refusal;
use countersign_protocol::recording::RecordingCommand;
use countersign_protocol::session::SessionCommand;

use self::calls::Wanted;
use self::files::{RecordedWrites, TakenSnapshot};
use self::recorded::{RecordedTrace, linked};
use crate::inspect::first_event;
use crate::secrets::Redactor;
use crate::store::{Blobs as _, StoreError};
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{Recorded, WriteError};
pub use recorded::{RECORDED_CALLS_MAX, SNAPSHOT_PURPOSE};
pub use report::{
    COVERAGE_LISTED_MAX, ChangedFile, CoverageGap, CoverageReport, ElsewhereCall, GapKind, Listed,
    NotedCall, TranscriptSource, WorkspaceSource,
};
pub use snapshot::{
    FileState, SnapshotError, SnapshotFile, SnapshotKind, SnapshotLimits, WorkspaceSnapshot,
    snapshot,
};
pub use touched::{TouchedFiles, TouchingTrace, touching};
pub use transcript::{
    CallResult, TRANSCRIPT_BYTES_MAX, TRANSCRIPT_CALLS_MAX, TRANSCRIPT_LINE_BYTES_MAX, Transcript,
    TranscriptCall, TranscriptError,
};

/// Traces that are looked at as belonging to one agent session.
const RELATED_MAX: usize = 10_000;
/// Sources that are named in the event.
const SOURCES_MAX: usize = 100;

/// What a trace is compared with, beside itself.
#[derive(Debug, Default)]
pub struct ComparedWith {
    /// What the agent's program wrote down.
    pub transcripts: Vec<Transcript>,
    /// Whether the files of the workspace are looked at.
    pub workspace: bool,
}

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
pub enum CoverageError {
    /// There is no such trace.
    #[error("trace {id} has no events")]
    NoTrace {
        /// Which.
        id: String,
    },
    /// The trace cannot be read to its end.
    #[error("trace {id} cannot be read: the line of event {index}: {what}")]
    Damaged {
        /// Which.
        id: String,
        /// Where.
        index: u64,
        /// Why not.
        what: String,
    },
    /// The trace holds too many calls.
    #[error("trace {id} holds more than {RECORDED_CALLS_MAX} calls")]
    TooManyCalls {
        /// Which.
        id: String,
    },
    /// It is none of a session or of an agent.
    #[error("{id} is a {kind}: only sessions and recordings are compared")]
    WrongKind {
        /// Which.
        id: String,
        /// What it is.
        kind: &'static str,
    },
    /// There is nothing to compare the files with.
    #[error("trace {id} holds no snapshot of the workspace's files")]
    NoSnapshot {
        /// Which.
        id: String,
    },
    /// The snapshot is not in the store.
    #[error("the snapshot of the workspace's files cannot be read")]
    SnapshotMissing(#[source] StoreError),
    /// The files could not be compared.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The workspace failed.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

impl Workspace {
    /// Compares the trace `id` with what is given. Nothing is written.
    ///
    /// # Errors
    /// The trace or what it is to be compared with cannot be read.
    pub fn coverage(
        &self,
        id: Ulid,
        with: &ComparedWith,
        redactor: &Redactor,
    ) -> Result<CoverageReport, CoverageError> {
        let trace = RecordedTrace::read(self, id)?;
        if !matches!(trace.kind, TraceKind::Session | TraceKind::Recording) {
            let kind = trace.kind.as_str();
            return Err(CoverageError::WrongKind { id: id.to_string(), kind });
        }
        let taken = match with.workspace {
            true => Some(self.taken_snapshot(&trace)?),
            false => None,
        };
        let mut report = self.begin_report(&trace);
        let related = self.related(&trace, &mut report)?;
        for recorded in std::iter::once(&trace).chain(&related) {
            calls::look_at_trace(recorded, &mut report);
        }
        let mut wanted = calls::compare(&trace, &related, &with.transcripts, &mut report);
        let mut writes = RecordedWrites::default();
        let since = taken.as_ref().map(|taken| taken.at);
        let mut take_in = |recorded: &RecordedTrace, wanted: &mut Wanted, report: &mut _| {
            wanted.look_in(recorded, report);
            since.into_iter().for_each(|since| writes.take(recorded, since, self));
        };
        for recorded in std::iter::once(&trace).chain(&related) {
            take_in(recorded, &mut wanted, &mut report);
        }
        let looked_at: Vec<Ulid> =
            std::iter::once(&trace).chain(&related).map(|it| it.id).collect();
        let others = match since.is_some() || !wanted.is_empty() {
            true => self.trace_ids()?,
            false => Vec::new(),
        };
        for other in others {
            if looked_at.contains(&other) || !self.concerns(other, trace.began) {
                continue;
            }
            match RecordedTrace::read(self, other) {
                Ok(recorded) => take_in(&recorded, &mut wanted, &mut report),
                Err(_) => report.unreadable.push(other.to_string()),
            }
        }
        wanted.give_up(&trace, &mut report);
        if let Some(taken) = &taken {
            files::compare(&self.directory(), taken, &writes, redactor, &mut report)?;
        }
        report.unreadable.sort_unstable();
        report.unreadable.dedup();
        report.gaps = report.gap_list.count;
        report.cannot_see = blind_spots(with, &report);
        Ok(report)
    }

    /// Records a report in the trace that it is about. When it returns, the event survives power
    /// loss.
    ///
    /// # Errors
    /// The trace does not take it now, or it could not be written.
    pub fn report_coverage(&self, report: &CoverageReport) -> Result<Recorded, WorkspaceError> {
        let unknown = || WriteError::Refused(Refusal::NotAsked { id: report.trace_id.clone() });
        let id: Ulid = report.trace_id.parse().map_err(|_| unknown())?;
        let bytes = json::to_bytes(&serde_json::to_value(report).unwrap_or_default());
        let stored = Box::new(self.put_artifact(&bytes, "application/json")?);
        let (gaps, sources) = (report.gaps, report.sources());
        let recorded = match self.kind_of(id)? {
            TraceKind::Recording => {
                let command = RecordingCommand::ReportCoverage { gaps, sources, report: stored };
                self.recording(id)?.submit(command)?
            }
            _ => {
                let command = SessionCommand::ReportCoverage { gaps, sources, report: stored };
                self.session(id)?.submit(command)?
            }
        };
        self.keep_summary(id);
        Ok(recorded)
    }

    /// Records how the files of the workspace are now, for a later comparison.
    ///
    /// # Errors
    /// They cannot be looked at, or the recording does not take it.
    pub fn record_snapshot(
        &self,
        id: Ulid,
        limits: SnapshotLimits,
    ) -> Result<Recorded, CoverageError> {
        let recording = self.recording(id)?;
        let bytes = snapshot(&self.directory(), limits)?;
        let artifact = recording.put_artifact(&bytes, "application/json")?;
        let purpose = SNAPSHOT_PURPOSE.to_owned();
        let command = RecordingCommand::RecordArtifact { purpose, artifacts: vec![artifact] };
        Ok(recording.submit(command).map_err(WorkspaceError::from)?)
    }

    /// The directory that the workspace is of.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        let home = std::path::absolute(self.home()).unwrap_or_else(|_| self.home().to_owned());
        home.parent().map_or(home.clone(), std::path::Path::to_owned)
    }

    fn begin_report(&self, trace: &RecordedTrace) -> CoverageReport {
        CoverageReport {
            schema_version: SCHEMA_VERSION.to_owned(),
            trace_id: trace.id.to_string(),
            events: trace.events,
            head: trace.head,
            compared_at: self.now(),
            related: Vec::new(),
            unreadable: Vec::new(),
            transcripts: Vec::new(),
            workspace: None,
            gaps: 0,
            gap_list: Listed::default(),
            recorded_elsewhere: Listed::default(),
            not_in_transcript: Listed::default(),
            unknown: Listed::default(),
            told_differently: Listed::default(),
            unattributed: Listed::default(),
            cannot_see: Vec::new(),
        }
    }

    fn taken_snapshot(&self, trace: &RecordedTrace) -> Result<TakenSnapshot, CoverageError> {
        let (hash, at) =
            trace.snapshot.ok_or_else(|| CoverageError::NoSnapshot { id: trace.id.to_string() })?;
        let bytes = self.store().get(&hash, snapshot::SNAPSHOT_DOCUMENT_BYTES_MAX);
        let bytes = bytes.map_err(CoverageError::SnapshotMissing)?;
        Ok(TakenSnapshot { hash, at, files: WorkspaceSnapshot::from_bytes(&bytes)? })
    }

    /// Whether a trace was written to at or after `since`.
    fn concerns(&self, id: Ulid, since: Timestamp) -> bool {
        let summary = self.summary(id).ok().flatten();
        // One that cannot be summed up is read, and then named as unreadable.
        summary.is_none_or(|summary| summary.ended_at.is_none_or(|ended| ended >= since))
    }

    /// The recordings that belong to the same work: of the agent and its sub-agents, and those that
    /// one of them goes on with.
    fn related(
        &self,
        trace: &RecordedTrace,
        report: &mut CoverageReport,
    ) -> Result<Vec<RecordedTrace>, CoverageError> {
        let mut links = Vec::new();
        for id in self.trace_ids()?.into_iter().filter(|id| *id != trace.id) {
            let Ok(Some(first)) = first_event(&self.trace_file(id)) else { continue };
            let (parent, continues) = (linked(&first, "parent"), linked(&first, "continues"));
            if parent.is_some() || continues.is_some() {
                links.push((id, parent, continues));
            }
        }
        let mut known = vec![trace.id.to_string()];
        known.extend(trace.parent.iter().chain(&trace.continues).cloned());
        let mut found = Vec::new();
        loop {
            let before = found.len();
            links.retain(|(id, parent, continues)| {
                let is = |name: &Option<String>| name.as_ref().is_some_and(|it| known.contains(it));
                let belongs = is(parent) || is(continues) || known.contains(&id.to_string());
                if belongs && found.len() < RELATED_MAX {
                    known.push(id.to_string());
                    known.extend(parent.iter().chain(continues).cloned());
                    found.push(*id);
                }
                !belongs
            });
            if found.len() == before {
                break;
            }
        }
        // What a recording goes on with need not be linked to anything itself.
        let others = known.iter().filter_map(|id| id.parse::<Ulid>().ok());
        let mut ids: Vec<Ulid> = others.filter(|id| *id != trace.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut related = Vec::new();
        for id in ids {
            match RecordedTrace::read(self, id) {
                Ok(read) => {
                    report.related.push(id.to_string());
                    related.push(read);
                }
                Err(_) => report.unreadable.push(id.to_string()),
            }
        }
        Ok(related)
    }
}

impl CoverageReport {
    /// What was looked at, in the words of the event.
    #[must_use]
    pub fn sources(&self) -> Vec<String> {
        let transcripts = self.transcripts.iter().map(|it| match it.sha256 {
            Some(hash) => format!("transcript {}, sha256 {hash}", it.name),
            None => format!("transcript {}", it.name),
        });
        let workspace = self.workspace.iter().map(|it| {
            let since = match &it.head {
                Some(head) => format!("files since commit {head}"),
                None => format!("files since {}", it.taken_at),
            };
            // Whoever sees no gap is to see this: nobody can say where these changes came from.
            match it.unattributed {
                0 => since,
                1 => format!("{since}: 1 changed by a recorded command, or past the recorder"),
                many => {
                    format!("{since}: {many} changed by recorded commands, or past the recorder")
                }
            }
        });
        let trace = format!("its own first {} events", self.events);
        std::iter::once(trace).chain(workspace).chain(transcripts).take(SOURCES_MAX).collect()
    }
}

/// What a comparison like this cannot see.
fn blind_spots(with: &ComparedWith, report: &CoverageReport) -> Vec<String> {
    let mut spots = Vec::new();
    let mut say = |spot: &str| spots.push(spot.to_owned());
    if with.transcripts.is_empty() {
        say("calls that were not recorded: no transcript was given");
    } else {
        say(
            "calls that the transcript does not have: nobody signs it, and the agent's user can edit it",
        );
        say("what a recorded command did beyond its own words");
    }
    if report.transcripts.iter().any(|it| it.server_calls > 0) {
        say("what the model's provider ran by itself: such calls never reach this machine");
    }
    if report.transcripts.iter().any(|it| it.torn) {
        say("the last line of a transcript that was being written");
    }
    match &report.workspace {
        None => say("files that were changed without a call: they were not compared"),
        Some(source) => {
            say("who changed a file, and when: changes by people, and after the end, count too");
            say(
                "files outside of the workspace, those that git ignores or is told to take as unchanged, \
                 and those that were changed back",
            );
            if source.left_out > 0 {
                spots.push(format!("{} files for which there was no room", source.left_out));
            }
        }
    }
    spots
}
