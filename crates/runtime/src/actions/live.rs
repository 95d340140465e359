//! Live events for status bars: one JSON line for each thing that happens, in `.capseal`.
//!
//! A convenience beside the trace, never read by us. Not synced, no diffs, no secrets; failing to
//! write one is no failure of what it tells.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_gate::GateRequest;
use serde::Serialize;
use serde_json::{Value, json};

use super::{CAPSEAL, GateAnswer, ReceiptGiven};

/// From this size on the file is set aside as `events.jsonl.1`, and a new one begun.
const BYTES_MAX: u64 = 16 << 20;
/// Characters of a description in a summary.
const SUMMARY_CHARS: usize = 60;
/// What a score is taken for where nothing is known.
const UNKNOWN_SCORE: f64 = 0.5;

/// The directory beside the workspace `home`.
pub(super) fn directory(home: &Path) -> PathBuf {
    let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
    home.parent().unwrap_or(&home).join(CAPSEAL)
}

/// Where live events go.
#[derive(Debug)]
pub(super) struct LiveEvents {
    directory: PathBuf,
    path: PathBuf,
    /// The file as it was last opened.
    open: Mutex<Option<Opened>>,
}

/// The file, and by what it is known.
#[derive(Debug)]
struct Opened {
    file: File,
    device: u64,
    inode: u64,
}

/// One line, its members in the order of the specification.
#[derive(Serialize)]
struct Line<'a> {
    r#type: &'a str,
    timestamp: f64,
    summary: String,
    data: Value,
}

impl LiveEvents {
    pub(super) fn beside(home: &Path) -> Self {
        let directory = directory(home);
        let path = directory.join("events.jsonl");
        Self { directory, path, open: Mutex::default() }
    }

    pub(super) fn started(
        &self,
        now: Timestamp,
        id: Ulid,
        agent: Option<&str>,
        client: Option<&str>,
    ) {
        let agent = agent.unwrap_or("agent");
        let data = json!({ "session_id": id.to_string(), "agent": agent, "client": client });
        self.write("session_start", now, format!("Session started: {agent}"), data);
    }

    pub(super) fn gated(&self, now: Timestamp, request: &GateRequest, answer: &GateAnswer) {
        let p_fail = answer.opinion.estimate.map_or(UNKNOWN_SCORE, |estimate| estimate.q);
        let decision = answer.decision.name_over_mcp();
        let short = shortened(&request.description);
        let data = json!({
            "decision": decision,
            "p_fail": p_fail,
            "files": request.paths,
            "action_type": request.action_type.as_str(),
            "description": request.description,
            "reason": answer.reasons.join("; "),
            "label": answer.opinion.label,
            "enforced": answer.enforced,
        });
        self.write("gate", now, format!("{decision}: {short} (p_fail={p_fail:.2})"), data);
    }

    pub(super) fn recorded(&self, now: Timestamp, description: &str, receipt: &ReceiptGiven) {
        let kind = receipt.action_type.as_str();
        let data = json!({
            "action_type": kind,
            "files": receipt.files,
            "receipt_hash": receipt.receipt_hash,
            "gating": receipt.gating.as_str(),
        });
        self.write("record", now, format!("{kind}: {}", shortened(description)), data);
    }

    pub(super) fn sealed(&self, now: Timestamp, id: Ulid, actions: u64, last: Option<Hash>) {
        let data = json!({
            "session_id": id.to_string(),
            "total_actions": actions,
            "receipt_hash": last,
        });
        self.write("seal", now, format!("Sealed {actions} actions"), data);
    }

    fn write(&self, kind: &str, now: Timestamp, summary: String, data: Value) {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds fit for 285,000 years")]
        let timestamp = now.as_millis() as f64 / 1_000.0;
        let line = Line { r#type: kind, timestamp, summary, data };
        let Ok(mut bytes) = serde_json::to_vec(&line) else { return };
        bytes.push(b'\n');
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = open.take().filter(|opened| self.is_in_place(opened));
        let written = opened.map_or_else(|| self.open_anew(), Ok).and_then(|mut opened| {
            // One call for one line: several servers may write at once.
            opened.file.write_all(&bytes)?;
            Ok(opened)
        });
        *open = written.ok();
    }

    /// Whether a file is still the one to write to: others may have set it aside, or removed it.
    fn is_in_place(&self, opened: &Opened) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|there| {
            (there.dev(), there.ino()) == (opened.device, opened.inode) && there.len() < BYTES_MAX
        })
    }

    fn open_anew(&self) -> std::io::Result<Opened> {
        let file = self.open()?;
        let found = file.metadata()?;
        Ok(Opened { device: found.dev(), inode: found.ino(), file })
    }

    fn open(&self) -> std::io::Result<File> {
        prepare(&self.directory)?;
        let open = || {
            OpenOptions::new()
                .append(true)
                .create(true)
                .mode(0o600)
                .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
                .open(&self.path)
        };
        let file = open()?;
        if file.metadata()?.len() < BYTES_MAX {
            return Ok(file);
        }
        // Whoever comes second finds that the file has been moved already.
        file.lock()?;
        if fs::metadata(&self.path)?.len() >= BYTES_MAX {
            fs::rename(&self.path, self.directory.join("events.jsonl.1"))?;
        }
        open()
    }
}

/// Makes the directory, and keeps it out of repositories.
pub(super) fn prepare(directory: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    match fs::create_dir(directory) {
        // Another server was faster.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    fs::write(directory.join(".gitignore"), "*\n")
}

fn shortened(text: &str) -> String {
    text.chars().take(SUMMARY_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summaries(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["summary"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_file_that_is_no_longer_in_its_place_is_not_written_to() {
        let place = tempfile::tempdir().unwrap();
        let live = LiveEvents::beside(&place.path().join("home"));
        let tell = |what: &str| live.write("seal", Timestamp::EPOCH, what.to_owned(), json!({}));
        let (path, old) = (live.path.clone(), live.directory.join("events.jsonl.1"));
        tell("one");
        tell("two");
        assert_eq!(summaries(&path), ["one", "two"]);
        // Another server has set it aside.
        fs::rename(&path, &old).unwrap();
        tell("three");
        assert_eq!((summaries(&old).len(), summaries(&path)), (2, vec!["three".to_owned()]));
        fs::remove_dir_all(&live.directory).unwrap();
        tell("four");
        assert_eq!(summaries(&path), ["four"]);
        // Nothing is written through a link, not even to the file that was written to before.
        fs::rename(&path, &old).unwrap();
        std::os::unix::fs::symlink(&old, &path).unwrap();
        tell("five");
        assert_eq!(summaries(&old), ["four"]);
        fs::remove_file(&path).unwrap();
        tell("six");
        assert_eq!(summaries(&path), ["six"]);
    }

    #[test]
    fn a_file_that_has_grown_too_long_is_set_aside_also_while_it_is_open() {
        let place = tempfile::tempdir().unwrap();
        let live = LiveEvents::beside(&place.path().join("home"));
        let tell = |what: &str| live.write("seal", Timestamp::EPOCH, what.to_owned(), json!({}));
        tell("one");
        let file = OpenOptions::new().write(true).open(&live.path).unwrap();
        file.set_len(BYTES_MAX).unwrap();
        tell("two");
        assert_eq!(summaries(&live.path), ["two"]);
        let old = fs::metadata(live.directory.join("events.jsonl.1")).unwrap();
        assert_eq!(old.len(), BYTES_MAX);
    }
}
