//! What a comparison comes to: gaps, and what else is worth knowing.

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::time::Timestamp;
use serde::Serialize;

use super::transcript::CallResult;

/// Things of one sort that a report lists; more are only counted.
pub const COVERAGE_LISTED_MAX: usize = 1_000;

/// What was compared with a trace, and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct CoverageReport {
    /// The schema of this object.
    pub schema_version: String,
    /// The trace.
    pub trace_id: String,
    /// How many of its events were looked at.
    pub events: u64,
    /// The last of them.
    pub head: Hash,
    /// When.
    pub compared_at: Timestamp,
    /// Recordings of the same agent session and of its sub-agents, in which calls were looked for too.
    pub related: Vec<String>,
    /// Traces that could not be read, and were left out.
    pub unreadable: Vec<String>,
    /// The transcripts.
    pub transcripts: Vec<TranscriptSource>,
    /// The files.
    pub workspace: Option<WorkspaceSource>,
    /// How much bypassed the recorder.
    pub gaps: u64,
    /// What exactly.
    pub gap_list: Listed<CoverageGap>,
    /// Calls of a transcript that other traces of this workspace have.
    pub recorded_elsewhere: Listed<ElsewhereCall>,
    /// Calls that the trace has and no transcript does: a transcript can be edited.
    pub not_in_transcript: Listed<NotedCall>,
    /// Calls that were let pass, and of which nobody said how they ended.
    pub unknown: Listed<NotedCall>,
    /// Calls that the transcript and the trace tell differently.
    pub told_differently: Listed<NotedCall>,
    /// Files that changed, and that a recorded command may have changed.
    pub unattributed: Listed<ChangedFile>,
    /// What this comparison cannot see.
    pub cannot_see: Vec<String>,
}

/// Things, as far as they are listed.
#[derive(Debug, Clone, Serialize)]
pub struct Listed<T> {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub first: Vec<T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { count: 0, first: Vec::new() }
    }
}

impl<T> Listed<T> {
    /// Takes one more in.
    pub fn add(&mut self, one: T) {
        self.count += 1;
        if self.first.len() < COVERAGE_LISTED_MAX {
            self.first.push(one);
        }
    }
}

/// A transcript that was compared.
#[derive(Debug, Clone, Serialize)]
pub struct TranscriptSource {
    /// What its file is called.
    pub name: String,
    /// Hash of its bytes.
    pub sha256: Option<Hash>,
    /// Its lines.
    pub lines: u64,
    /// Lines that say nothing of calls.
    pub other_lines: u64,
    /// Whether its last line is torn.
    pub torn: bool,
    /// Its calls, each once.
    pub calls: u64,
    /// Those that the trace, or a related one, has by their id.
    pub recorded: u64,
    /// Those to this recorder itself.
    pub to_recorder: u64,
    /// Calls that the model's provider ran by itself; they cannot be recorded here.
    pub server_calls: u64,
}

/// Files that were compared.
#[derive(Debug, Clone, Serialize)]
pub struct WorkspaceSource {
    /// `git` or `files`.
    pub kind: String,
    /// The snapshot.
    pub snapshot: Hash,
    /// When it was recorded.
    pub taken_at: Timestamp,
    /// The commit at that time.
    pub head: Option<String>,
    /// Files that changed since.
    pub changed: u64,
    /// Those that a recorded action accounts for.
    pub recorded: u64,
    /// Those that only a recorded command can have changed, if anything did.
    pub unattributed: u64,
    /// Files that were not looked at, for want of room.
    pub left_out: u64,
}

/// Something that bypassed the recorder, or its gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CoverageGap {
    /// What sort of gap.
    pub kind: GapKind,
    /// What the agent's program calls the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Its input, a file, or whatever it is about, cut short.
    pub what: String,
    /// What the transcript says became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<CallResult>,
    /// Whether a sub-agent made the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_sub_agent: bool,
    /// The event that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventRef>,
}

/// A sort of gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GapKind {
    /// A call of the transcript that no trace has.
    NotRecorded,
    /// A call that was reported when it was done, and that nobody asked about before.
    NotAsked,
    /// A call that was refused, and done all the same.
    DoneDespite,
    /// A call that waited for a person's answer, and was done without one.
    DoneUnanswered,
    /// A call that was recorded with other arguments than the transcript has.
    ToldDifferently,
    /// A line of the transcript that cannot be read: there may be a call in it.
    UnreadableLine,
    /// A file that changed although nothing that was recorded can have changed it.
    FileChanged,
}

impl GapKind {
    /// What it means, in a few words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NotRecorded => "not recorded",
            Self::NotAsked => "reported when it was done, not asked about before",
            Self::DoneDespite => "done although it was refused",
            Self::DoneUnanswered => "done although nobody had answered",
            Self::ToldDifferently => "recorded with other arguments",
            Self::UnreadableLine => "a line that cannot be read",
            Self::FileChanged => "changed by nothing that was recorded",
        }
    }
}

/// A call of a transcript that another trace has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ElsewhereCall {
    /// What the agent's program calls it.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The trace that has it.
    pub trace_id: String,
    /// Where.
    pub event: EventRef,
}

/// A recorded call that is worth a look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotedCall {
    /// What the agent's program calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The tool.
    pub tool: String,
    /// When it was recorded.
    pub at: Timestamp,
    /// Where.
    pub event: EventRef,
    /// Why it is worth a look.
    pub why: String,
}

/// A file that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// Which.
    pub path: String,
    /// `created`, `changed` or `deleted`.
    pub how: String,
    /// Recorded commands that may have done it, or some of them.
    pub maybe_by: Vec<String>,
}
