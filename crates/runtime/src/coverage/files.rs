//! Files that changed against the writes that were recorded.
//!
//! A file that changed is accounted for by a recorded action that writes and names it. A recorded
//! command can change anything unless it is known only to look, so a file that only a command can have
//! changed is not attributed to anybody; where no such command ran either, it is a gap. Who changed a
//! file is not seen, nor is when.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_format::text::to_nfc;
use countersign_format::time::Timestamp;
use countersign_gate::{GateRequest, REQUEST_BYTES_MAX};

use super::calls::gap;
use super::looking::only_looks;
use super::recorded::{RecordedCall, RecordedTrace};
use super::report::{ChangedFile, CoverageReport, GapKind, WorkspaceSource};
use super::snapshot::{
    FileState, Reading, SnapshotError, SnapshotKind, SnapshotLimits, WorkspaceSnapshot, differing,
};
use super::transcript::cut;
use crate::git::Repository;
use crate::secrets::Redactor;
use crate::store::Blobs as _;
use crate::workspace::Workspace;

/// Commands that are named as possible causes.
const NAMED_MAX: usize = 3;

/// What the traces of a workspace say was done to its files since a time.
#[derive(Debug, Default)]
pub(super) struct RecordedWrites {
    written: BTreeSet<String>,
    /// Actions that name a file, and whose effect on it is not known.
    touched: BTreeMap<String, String>,
    commands: Vec<String>,
    more_commands: u64,
}

impl RecordedWrites {
    /// Takes in what a trace has, from `since` on.
    pub(super) fn take(&mut self, trace: &RecordedTrace, since: Timestamp, workspace: &Workspace) {
        let done = trace.calls.iter().filter(|call| call.at >= since && call.may_have_run());
        for call in done {
            if call.writes() {
                self.written.extend(call.paths.iter().cloned());
            } else if call.is_command() {
                if !command_of(call, workspace).is_some_and(|command| only_looks(&command)) {
                    self.command(trace, call);
                }
            } else if !call.only_looks() {
                for path in &call.paths {
                    let by = named(trace, &call.place, &call.tool, &call.description);
                    self.touched.entry(path.clone()).or_insert(by);
                }
            }
        }
    }

    fn command(&mut self, trace: &RecordedTrace, call: &RecordedCall) {
        if self.commands.len() >= NAMED_MAX {
            self.more_commands += 1;
            return;
        }
        self.commands.push(named(trace, &call.place, &call.tool, &call.description));
    }

    /// Whether an action that writes names the file, or a directory that it lies in.
    fn wrote(&self, path: &str) -> bool {
        let mut ends = path.match_indices('/').map(|(end, _)| end);
        self.written.contains(path)
            || ends.any(|end| path.get(..end).is_some_and(|above| self.written.contains(above)))
    }

    fn maybe_by(&self, path: &str) -> Vec<String> {
        let mut by: Vec<String> = self.touched.get(path).into_iter().cloned().collect();
        by.extend(self.commands.iter().cloned());
        if self.more_commands > 0 {
            by.push(format!("{} more commands", self.more_commands));
        }
        by
    }
}

/// What a recorded command runs, as the gate was told.
fn command_of(call: &RecordedCall, workspace: &Workspace) -> Option<String> {
    let bytes = workspace.store().get(&call.request?, REQUEST_BYTES_MAX as u64).ok()?;
    GateRequest::from_bytes(&bytes).ok()?.command
}

fn named(trace: &RecordedTrace, place: &EventRef, tool: &str, description: &str) -> String {
    let what = if description.is_empty() { tool } else { description };
    format!("event {} of {}: {}", place.seq, trace.id, cut(what, 100))
}

/// A snapshot, and where it is recorded.
pub(super) struct TakenSnapshot {
    pub(super) hash: Hash,
    pub(super) at: Timestamp,
    pub(super) files: WorkspaceSnapshot,
}

/// Compares the files in `root` with the snapshot, and what changed with the recorded writes.
pub(super) fn compare(
    root: &Path,
    taken: &TakenSnapshot,
    writes: &RecordedWrites,
    redactor: &Redactor,
    report: &mut CoverageReport,
) -> Result<(), SnapshotError> {
    let then = &taken.files;
    let limits = SnapshotLimits::default();
    let mut source = WorkspaceSource {
        kind: match then.kind {
            SnapshotKind::Git => "git".to_owned(),
            SnapshotKind::Files => "files".to_owned(),
        },
        snapshot: taken.hash,
        taken_at: taken.at,
        head: then.head.clone(),
        changed: 0,
        recorded: 0,
        unattributed: 0,
        left_out: then.left_out,
    };
    let changed = match then.kind {
        SnapshotKind::Git => changed_in_git(root, then, limits)?,
        SnapshotKind::Files => {
            let now = WorkspaceSnapshot::take_files(root, limits)?;
            source.left_out += now.left_out;
            changed_files(then, &now)
        }
    };
    for (path, how) in changed {
        source.changed += 1;
        // Traces name files in one spelling, and without secrets.
        let path = to_nfc(&redactor.redact_text(&path).0);
        if writes.wrote(&path) {
            source.recorded += 1;
            continue;
        }
        let maybe_by = writes.maybe_by(&path);
        match maybe_by.is_empty() {
            true => report.gap_list.add(gap(GapKind::FileChanged, format!("{path} ({how})"))),
            false => {
                source.unattributed += 1;
                report.unattributed.add(ChangedFile { path, how: how.to_owned(), maybe_by });
            }
        }
    }
    report.workspace = Some(source);
    Ok(())
}

/// What differs from the commit of then, or did, and is not as it was.
fn changed_in_git(
    root: &Path,
    then: &WorkspaceSnapshot,
    limits: SnapshotLimits,
) -> Result<BTreeMap<String, &'static str>, SnapshotError> {
    let repository = Repository::at(root);
    if let Some(head) = &then.head
        && repository.commit(head)?.is_none()
    {
        return Err(SnapshotError::CommitGone(head.clone()));
    }
    let mut before: BTreeMap<&str, &FileState> =
        then.files.iter().map(|file| (file.path.as_str(), &file.state)).collect();
    let mut reading = Reading::new(root, limits);
    let mut changed = BTreeMap::new();
    for (path, status) in differing(&repository, then.head.as_deref())? {
        let now = reading.state(&path);
        let how = match (before.remove(path.as_str()), &now) {
            (Some(before), now) if before.is_like(now) => continue,
            (Some(FileState::Gone), _) => "created",
            (_, FileState::Gone) => "deleted",
            (Some(_), _) => "changed",
            (None, _) if matches!(status, 'A' | '?') => "created",
            (None, _) => "changed",
        };
        changed.insert(path, how);
    }
    // What differed then, and is as the commit has it, or ignored, by now.
    for (path, before) in before {
        let now = reading.state(path);
        let how = match (before, &now) {
            (before, now) if before.is_like(now) => continue,
            (_, FileState::Gone) => "deleted",
            (FileState::Gone, _) => "created",
            _ => "changed",
        };
        changed.insert(path.to_owned(), how);
    }
    Ok(changed)
}

fn changed_files(
    then: &WorkspaceSnapshot,
    now: &WorkspaceSnapshot,
) -> BTreeMap<String, &'static str> {
    let map = |snapshot: &WorkspaceSnapshot| -> BTreeMap<String, FileState> {
        snapshot.files.iter().map(|file| (file.path.clone(), file.state.clone())).collect()
    };
    let (mut before, now) = (map(then), map(now));
    let mut changed = BTreeMap::new();
    for (path, state) in now {
        match before.remove(&path) {
            Some(before) if before.is_like(&state) => {}
            Some(_) => drop(changed.insert(path, "changed")),
            None => drop(changed.insert(path, "created")),
        }
    }
    changed.extend(before.into_keys().map(|path| (path, "deleted")));
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_by_its_own_name_or_that_of_a_directory_above() {
        let writes = RecordedWrites {
            written: ["src/a.rs".to_owned(), "old".to_owned()].into(),
            ..RecordedWrites::default()
        };
        for (path, wrote) in [
            ("src/a.rs", true),
            ("old/x/y", true),
            ("src/a.rs.bak", false),
            ("older/x", false),
            ("src", false),
        ] {
            assert_eq!(writes.wrote(path), wrote, "{path}");
        }
    }
}
