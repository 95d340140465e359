//! Who says whether a workspace has lost anything: what was told is in a trace, and every trace verifies.
//!
//! What a judge accepts says nothing if it accepts everything. So it is also shown copies of a
//! workspace that it has accepted, in each of which one thing is missing or changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_verify::{FileSource, KnownLog, OpenTraces, Options, Profile, exit_status, verify};
use xtask::place::succeed;

use super::place::said;

/// What is wrong with a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Something that was told is in no trace.
    Lost(String),
    /// A trace does not verify, or cannot be looked at.
    Unsound(String),
}

impl From<Wrong> for String {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Lost(what) | Wrong::Unsound(what) => what,
        }
    }
}

/// The judge of one workspace.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    home: PathBuf,
    /// The root key that its owner trusts.
    root: Hash,
}

impl Judge {
    pub(super) const fn new(home: PathBuf, root: Hash) -> Self {
        Self { home, root }
    }

    /// Traces that hold anything, with their files.
    pub(super) fn traces(&self) -> Vec<(Ulid, PathBuf)> {
        let found = fs::read_dir(self.home.join("traces"));
        let names = found.into_iter().flatten().flatten().filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            Some((id, entry.path().join("events.jsonl")))
        });
        names.filter(|(_, file)| fs::metadata(file).is_ok_and(|found| found.len() > 0)).collect()
    }

    /// The options with which its owner verifies a trace.
    fn options(&self, id: Ulid) -> Result<Options, Wrong> {
        let now: Timestamp = "2026-02-03T04:05:06.000Z"
            .parse()
            .map_err(|_| Wrong::Unsound("there is no time".to_owned()))?;
        Ok(Options {
            trusted_roots: [self.root].into(),
            keys: Vec::new(),
            profile: Profile::DEFAULT,
            expect_trace: Some(id.to_string()),
            expect_head: None,
            expect_count: None,
            report_id: "01arz3ndektsv4rrffq69g5fav".to_owned(),
            now,
        })
    }

    /// Whether everything that was told is there, and every trace verifies or is open.
    pub(super) fn look(&self, told: &BTreeSet<String>) -> Result<(), Wrong> {
        let mut all = String::new();
        for (_, file) in self.traces() {
            let text = fs::read_to_string(&file).unwrap_or_default();
            // A line without its end is nothing yet.
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            all.push_str(text.get(..whole).unwrap_or_default());
        }
        let missing: Vec<_> = told.iter().filter(|told| !all.contains(told.as_str())).collect();
        if let Some(first) = missing.first() {
            let count = missing.len();
            return Err(Wrong::Lost(format!("{count} acknowledged, not there: `{first}`")));
        }
        // The log is read once: it has a line or two for each of them.
        let mut log = None;
        for (id, file) in self.traces() {
            let source = FileSource::in_home(&self.home, file);
            let options = self.options(id)?;
            let unread = |error: String| Wrong::Unsound(format!("trace {id}: {error}"));
            if log.is_none() {
                let read = KnownLog::read(&source, options.profile);
                log = read.map_err(|error| unread(error.to_string()))?;
            }
            let report = match &log {
                Some(log) => log.verify(&source, &options),
                None => verify(&source, &options),
            };
            let report = report.map_err(|error| unread(error.to_string()))?;
            if !matches!(exit_status(&report, OpenTraces::Incomplete), 0 | 4) {
                return Err(Wrong::Unsound(format!("trace {id}: {:?}", report.failures)));
            }
        }
        Ok(())
    }

    /// Breaks copies of the workspace, which are made at `aside`: of everything that was told one in which
    /// the traces that have it end before it, of every trace one with another signature. Says how many
    /// there were, once the judge has refused each of them for what is wrong with it.
    pub(super) fn refuses_what_is_broken(
        &self,
        told: &BTreeSet<String>,
        aside: &Path,
    ) -> Result<usize, String> {
        succeed(Command::new("cp").arg("-a").arg(&self.home).arg(aside))?;
        let copy = Self::new(aside.to_owned(), self.root);
        copy.look(told).map_err(|wrong| format!("a copy is refused: {}", String::from(wrong)))?;
        let mut refused = 0;
        for text in told {
            let wrong = copy.broken(told, |lines| {
                let at = lines.find(text.as_str())?;
                let line = lines.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
                Some(lines.get(..line)?.to_owned())
            })?;
            if !matches!(wrong, Err(Wrong::Lost(_))) {
                return Err(format!("`{text}` was taken away, and the judge says {wrong:?}"));
            }
            refused += 1;
        }
        for (id, file) in copy.traces() {
            let its = fs::read_to_string(file).map_err(said("read a trace"))?;
            let wrong =
                copy.broken(told, |lines| other_signature(lines).filter(|_| lines == its))?;
            if !matches!(wrong, Err(Wrong::Unsound(_))) {
                return Err(format!("trace {id} was changed, and the judge says {wrong:?}"));
            }
            refused += 1;
        }
        fs::remove_dir_all(aside).map_err(said("remove a copy"))?;
        Ok(refused)
    }

    /// What the judge says of traces that were changed like this, and put back afterwards.
    fn broken(
        &self,
        told: &BTreeSet<String>,
        change: impl Fn(&str) -> Option<String>,
    ) -> Result<Result<(), Wrong>, String> {
        let mut whole = BTreeMap::new();
        for (_, file) in self.traces() {
            let lines = fs::read_to_string(&file).map_err(said("read a trace"))?;
            if let Some(changed) = change(&lines) {
                fs::write(&file, changed).map_err(said("break a trace"))?;
                whole.insert(file, lines);
            }
        }
        if whole.is_empty() {
            return Err("there is nothing to break".to_owned());
        }
        let said_of_it = self.look(told);
        for (file, lines) in whole {
            fs::write(file, lines).map_err(said("mend a trace"))?;
        }
        Ok(said_of_it)
    }
}

/// The same lines, of which the last has another signature.
fn other_signature(lines: &str) -> Option<String> {
    let (_, behind) = lines.rsplit_once(SIGNATURE)?;
    let at = lines.len() - behind.len();
    let first = behind.chars().next()?;
    let other = if first == 'A' { "B" } else { "A" };
    Some(format!("{}{other}{}", lines.get(..at)?, behind.get(first.len_utf8()..)?))
}

/// What stands before the signature of an event.
const SIGNATURE: &str = "\"signature_b64\":\"";

#[cfg(test)]
mod tests {
    use countersign_testkit::{TestHome, note};

    use super::*;

    #[test]
    fn the_judge_accepts_what_is_whole_and_refuses_what_is_lost_or_changed() {
        let home = TestHome::new();
        let recording = home.recording();
        for round in 0..3 {
            recording.submit(note(&format!("round {round}"))).unwrap();
        }
        let ids = home.events(recording.id()).into_iter().map(|event| event.event_id);
        let told: BTreeSet<_> = ids.map(|id| format!("\"event_id\":\"{id}\"")).collect();
        assert_eq!(told.len(), 4);
        let judge = Judge::new(home.path(), home.workspace.root());
        assert_eq!(judge.look(&told), Ok(()));

        // Each of the four events is lost once, and the one trace is changed once.
        let aside = home.config().join("broken");
        assert_eq!(judge.refuses_what_is_broken(&told, &aside), Ok(5));
        assert_eq!(judge.look(&told), Ok(()), "the workspace itself is left alone");

        let early = BTreeSet::from(["\"purpose\":\"round 3\"".to_owned()]);
        assert!(matches!(judge.look(&early), Err(Wrong::Lost(_))));
    }

    #[test]
    fn a_changed_line_verifies_no_longer_and_is_not_called_lost() {
        let home = TestHome::new();
        let file = home.workspace.trace_file(home.recording().id());
        let lines = fs::read_to_string(&file).unwrap();
        fs::write(&file, other_signature(&lines).unwrap()).unwrap();
        let judge = Judge::new(home.path(), home.workspace.root());
        assert!(matches!(judge.look(&BTreeSet::new()), Err(Wrong::Unsound(_))));
    }
}
