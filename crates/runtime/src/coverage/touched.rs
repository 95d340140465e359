//! Which traces touched some files: for a file, a directory, or the files of a commit.
//!
//! Paths are compared as a whole, or as a directory that they lie in; never as a part of a name. Memory
//! is bounded by the number of traces that match. A trace that cannot be read is named and left out.

use std::collections::BTreeSet;

use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use serde::Serialize;

use super::recorded::{Decided, EndOfCall, RecordedCall, RecordedTrace};
use super::transcript::cut;
use crate::workspace::{Workspace, WorkspaceError};

/// Actions that are shown of each trace.
const SHOWN_MAX: usize = 5;

/// Files, and what of them is looked for.
#[derive(Debug, Clone, Default)]
pub struct TouchedFiles {
    /// The files, from the workspace's directory; whatever lies below one counts too.
    pub paths: BTreeSet<String>,
    /// Only what was done after this time.
    pub after: Option<Timestamp>,
    /// Only what was done at this time or before.
    pub until: Option<Timestamp>,
    /// Only what changes files, and was not refused.
    pub writes_only: bool,
}

/// A trace that touched files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TouchingTrace {
    /// Which.
    pub trace_id: String,
    /// What it records.
    pub kind: String,
    /// Who acted, as it called itself.
    pub agent: String,
    /// Whether it has ended.
    pub ended: bool,
    /// When it touched them first.
    pub first: Timestamp,
    /// When it touched them last.
    pub last: Timestamp,
    /// Actions that name them.
    pub actions: u64,
    /// Actions of those that were refused.
    pub refused: u64,
    /// The first of those actions, in words.
    pub shown: Vec<String>,
}

/// The traces that touched `files`, the newest last, and those that cannot be read.
///
/// # Errors
/// The store cannot be read.
pub fn touching(
    workspace: &Workspace,
    files: &TouchedFiles,
) -> Result<(Vec<TouchingTrace>, Vec<String>), WorkspaceError> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for id in workspace.trace_ids()? {
        match RecordedTrace::read(workspace, id) {
            Ok(trace) => found.extend(files.touched_by(&trace)),
            Err(_) => unreadable.push(id.to_string()),
        }
    }
    Ok((found, unreadable))
}

impl TouchedFiles {
    /// What the trace `id` did to them, if anything.
    #[must_use]
    pub fn touched_in(&self, workspace: &Workspace, id: Ulid) -> Option<TouchingTrace> {
        RecordedTrace::read(workspace, id).ok().and_then(|trace| self.touched_by(&trace))
    }

    fn touched_by(&self, trace: &RecordedTrace) -> Option<TouchingTrace> {
        let mut found: Option<TouchingTrace> = None;
        for call in trace.calls.iter().filter(|call| self.concerns(call)) {
            let seen = found.get_or_insert_with(|| begin(trace, call));
            seen.last = call.at;
            seen.actions += 1;
            seen.refused += u64::from(call.decision == Decided::Blocked && !call.started);
            if seen.shown.len() < SHOWN_MAX {
                seen.shown.push(in_words(call));
            }
        }
        found
    }

    fn concerns(&self, call: &RecordedCall) -> bool {
        let in_time = self.after.is_none_or(|after| call.at > after)
            && self.until.is_none_or(|until| call.at <= until);
        let counts = !self.writes_only || (!call.only_looks() && call.may_have_run());
        in_time && counts && call.paths.iter().any(|path| self.hold(path))
    }

    fn hold(&self, path: &str) -> bool {
        let mut ends = path.match_indices('/').map(|(end, _)| end);
        self.paths.contains(path)
            || ends.any(|end| path.get(..end).is_some_and(|above| self.paths.contains(above)))
    }
}

fn begin(trace: &RecordedTrace, call: &RecordedCall) -> TouchingTrace {
    TouchingTrace {
        trace_id: trace.id.to_string(),
        kind: match trace.kind {
            TraceKind::Session => "session",
            kind => kind.as_str(),
        }
        .to_owned(),
        agent: trace.agent.clone(),
        ended: trace.ended,
        first: call.at,
        last: call.at,
        actions: 0,
        refused: 0,
        shown: Vec::new(),
    }
}

fn in_words(call: &RecordedCall) -> String {
    let what = if call.description.is_empty() { &call.tool } else { &call.description };
    let became = match (call.end, call.decision) {
        (Some(EndOfCall::Completed), _) => "done",
        (Some(EndOfCall::Failed), _) => "failed",
        (Some(EndOfCall::Unknown), _) => "end unknown",
        (None, Decided::Blocked) => "refused",
        (None, Decided::Asked) => "not answered",
        (None, _) => "not recorded as done",
    };
    format!("{} ({became})", cut(what, 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_never_a_part_of_a_name() {
        let files = TouchedFiles { paths: ["src/a".to_owned()].into(), ..TouchedFiles::default() };
        for (path, holds) in
            [("src/a", true), ("src/a/b.rs", true), ("src/ab", false), ("src", false)]
        {
            assert_eq!(files.hold(path), holds, "{path}");
        }
    }
}
