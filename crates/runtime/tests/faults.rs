//! What crashes leave between a trace and the log, and what the next writer makes of it.
#![cfg(test)]

use std::path::{Path, PathBuf};

use countersign_format::event::EventType;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::{Closed, VerificationReport, VerificationStatus};
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::Reconciled;
use countersign_testkit::{TestHome, note};

/// The checkpoint is not synced, since the log says the same: after power loss its name may be
/// there and only a part of its bytes. The verifier took that for a forged log.
#[test]
fn a_checkpoint_torn_by_power_loss_is_a_warning_until_the_next_writer_replaces_it() {
    let home = TestHome::new();
    let recording = home.recording();
    let path = home.path().join("log/checkpoint");
    let whole = std::fs::read(&path).unwrap();
    for keep in 1..whole.len() {
        std::fs::write(&path, &whole[..keep]).unwrap();
        let log = home.verify_log();
        assert_eq!(log.failures, [], "{keep} bytes");
        assert_eq!(log.warnings[0].warning_code, "CHECKPOINT_UNREADABLE", "{keep} bytes");
        let report = home.verify(recording.id());
        assert_eq!(report.verification_status, VerificationStatus::PassWithWarnings);
    }
    std::fs::write(&path, vec![0; whole.len()]).unwrap();
    assert_eq!(home.verify_log().failures, []);
    recording.submit(note("goes on")).unwrap();
    recording.conclude("done").unwrap();
    home.check(recording.id(), 5);
}

/// The audit's result comes in a second append. A writer that died between the two left a recording
/// to which nothing could be added, and which nobody could close either.
#[test]
fn a_conclusion_that_was_interrupted_is_finished_by_concluding_again() {
    let home = TestHome::new();
    let recording = home.recording();
    let verdict = "done".to_owned();
    recording.submit(RecordingCommand::Conclude { verdict, achieved: None }).unwrap();
    assert_eq!(home.check(recording.id(), 3).closed, Closed::No);
    let other = home.reopen();
    let other = other.recording(recording.id()).unwrap();
    other.conclude("done").unwrap();
    assert_eq!(home.check(recording.id(), 4).closed, Closed::Yes);
    let refused = other.conclude("done").unwrap_err();
    assert!(refused.to_string().contains("has ended"), "{refused}");
    home.check(recording.id(), 4);
}

/// Final statement and beginning of the audit are one append of two lines; power loss may keep the
/// first and take the second.
#[test]
fn half_a_conclusion_is_completed_by_concluding_again() {
    let home = TestHome::new();
    let id = home.recording().id();
    let verdict = "done".to_owned();
    home.workspace
        .recording(id)
        .unwrap()
        .submit(RecordingCommand::Conclude { verdict, achieved: None })
        .unwrap();
    let path = home.workspace.trace_file(id);
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    std::fs::write(&path, lines[..2].concat()).unwrap();
    home.reopen().recording(id).unwrap().conclude("done").unwrap();
    assert_eq!(home.check(id, 4).closed, Closed::Yes);
}

/// A writer that died while it copied torn bytes left half a copy under the first name. The next
/// one made a whole copy under the second name, and recorded the first.
#[test]
fn the_record_of_a_torn_tail_names_the_copy_that_holds_it() {
    let home = TestHome::new();
    let id = home.recording().id();
    let path = home.workspace.trace_file(id);
    let whole = std::fs::read(&path).unwrap();
    let torn = b"{\"actor\":{\"agent_id\":\"rec";
    std::fs::write(&path, [&whole, &torn[..]].concat()).unwrap();
    let dir = path.with_file_name("torn");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join(format!("{}-0", whole.len())), &torn[..5]).unwrap();

    home.reopen().recording(id).unwrap().submit(note("after")).unwrap();
    home.check(id, 3);
    let recovered = &home.events(id)[1];
    let name = recovered.payload["torn_file"].as_str().unwrap();
    let kept = std::fs::read(path.with_file_name("").join(name)).unwrap();
    assert_eq!(kept, torn);
    assert_eq!(recovered.payload["torn_hash"], Hash::of(torn).to_hex());
}

/// What the log and the files beside it hold.
struct LogFiles(Vec<(PathBuf, Option<Vec<u8>>)>);

impl LogFiles {
    fn of(home: &Path) -> Self {
        let files = ["events.jsonl", "checkpoint", "snapshot", "open"]
            .map(|name| home.join("log").join(name));
        Self(files.into_iter().map(|path| (path.clone(), std::fs::read(path).ok())).collect())
    }

    /// Puts back what was, as if a writer had died before it told the log.
    fn restore(&self) {
        for (path, bytes) in &self.0 {
            match bytes {
                Some(bytes) => std::fs::write(path, bytes).unwrap(),
                None if path.exists() => std::fs::remove_file(path).unwrap(),
                None => {}
            }
        }
    }
}

fn entry_is_missing(report: &VerificationReport) {
    assert_eq!(report.failures, []);
    let codes: Vec<_> = report.warnings.iter().map(|it| it.warning_code.as_str()).collect();
    assert_eq!(codes, ["LOG_ENTRY_MISSING"]);
    assert_eq!(report.closed, Closed::No);
}

#[test]
fn a_trace_of_which_the_log_was_not_told_is_told_of_by_the_next_writer() {
    let home = TestHome::new();
    let log = LogFiles::of(&home.path());
    let id = home.recording().id();
    log.restore();
    entry_is_missing(&home.verify(id));
    home.reopen().recording(id).unwrap().submit(note("next")).unwrap();
    home.check(id, 2);
}

#[test]
fn a_trace_of_which_the_log_was_not_told_is_told_of_by_repair() {
    let home = TestHome::new();
    let log = LogFiles::of(&home.path());
    let id = home.recording().id();
    log.restore();
    entry_is_missing(&home.verify(id));
    let workspace = home.reopen();
    assert_eq!(workspace.reconcile_all().unwrap(), [Reconciled::Opened(id)]);
    home.check(id, 1);
    assert_eq!(workspace.reconcile_all().unwrap(), []);
    home.check(id, 1);
}

#[test]
fn an_end_of_which_the_log_was_not_told_is_told_of_by_repair() {
    let (home, id) = ended_and_not_told();
    assert_eq!(home.reopen().reconcile_all().unwrap(), [Reconciled::Closed(id)]);
    assert_eq!(home.check(id, 5).closed, Closed::Yes);
    assert_eq!(home.reopen().reconcile_all().unwrap(), []);
}

#[test]
fn an_end_of_which_the_log_was_not_told_is_told_of_by_the_next_writer() {
    let (home, id) = ended_and_not_told();
    redact(&home, id);
    assert_eq!(home.check(id, 6).closed, Closed::Yes);
}

#[test]
fn a_key_change_tells_the_log_what_it_was_not_told_before() {
    let (home, id) = ended_and_not_told();
    let workspace = home.reopen();
    let recorder = workspace.find_key("recorder").unwrap();
    workspace.rotate_key(&recorder.key_id).unwrap();
    assert_eq!(home.check(id, 5).closed, Closed::Yes);
}

fn ended_and_not_told() -> (TestHome, Ulid) {
    let home = TestHome::new();
    let recording = home.recording();
    let id = recording.id();
    recording.submit(note("one")).unwrap();
    let log = LogFiles::of(&home.path());
    recording.conclude("done").unwrap();
    drop(recording);
    log.restore();
    entry_is_missing(&home.verify(id));
    (home, id)
}

fn redact(home: &TestHome, id: Ulid) {
    let redact = RecordingCommand::Redact { artifact_hash: Hash::of(b"x"), reason: "test".into() };
    home.reopen().recording(id).unwrap().submit(redact).unwrap();
}

/// The state of the log holds open traces only, so a writer takes an ended trace that the log does
/// not know for one that was closed, and tells of its length alone. Repair then found an entry, and
/// never told that the trace was opened and closed.
#[test]
fn repair_also_opens_a_trace_of_which_the_log_knows_no_more_than_its_length() {
    let home = TestHome::new();
    let log = LogFiles::of(&home.path());
    let recording = home.recording();
    let id = recording.id();
    recording.conclude("done").unwrap();
    drop(recording);
    log.restore();
    redact(&home, id);
    let done = home.reopen().reconcile_all().unwrap();
    assert_eq!(done, [Reconciled::Opened(id), Reconciled::Closed(id)]);
    assert_eq!(home.check(id, 5).closed, Closed::Yes);
}

/// Repair, and every change of keys, tells the log of a trace whose writer is just about to do so.
/// The writer was then refused, and took it for a failure to begin.
#[test]
fn a_recording_begins_although_repair_was_faster_to_tell_the_log() {
    let home = TestHome::new();
    let done = std::sync::atomic::AtomicBool::new(false);
    let ids = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let workspace = home.reopen();
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    workspace.reconcile_all().unwrap();
                }
            });
        }
        let begun: Result<Vec<Ulid>, _> = (0..60)
            .map(|_| {
                let recording = home.workspace.begin_recording(None, None)?;
                recording.conclude("done").map(|_| recording.id())
            })
            .collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        begun.unwrap()
    });
    for id in ids {
        assert_eq!(home.check(id, 4).closed, Closed::Yes);
    }
}

/// Adds an event that was never acknowledged, with zeros in place of what did not reach the disk.
fn add_line_with_hole(ledger: &Path) {
    let mut bytes = std::fs::read(ledger).unwrap();
    bytes.extend_from_slice(b"{\"actor\":{\"agent_id\":\"");
    bytes.extend_from_slice(&[0; 512]);
    bytes.extend_from_slice(b"\",\"trace_id\":\"\"}\n");
    std::fs::write(ledger, bytes).unwrap();
}

/// Blocks reach the disk in any order, so the end of a line may be there and its beginning not.
/// Whoever opened the recording without its lock took that for damage, and nobody could repair it.
#[test]
fn a_hole_that_power_loss_left_in_a_trace_is_set_aside_by_the_next_writer() {
    let home = TestHome::new();
    let id = home.recording().id();
    add_line_with_hole(&home.workspace.trace_file(id));
    home.reopen().recording(id).unwrap().submit(note("after")).unwrap();
    home.check(id, 3);
    assert_eq!(home.events(id)[1].event_type, EventType::SessionRecovered);
}

#[test]
fn a_hole_that_power_loss_left_in_the_log_stops_neither_writers_nor_repair() {
    let home = TestHome::new();
    let id = home.recording().id();
    let log = home.path().join("log/events.jsonl");
    add_line_with_hole(&log);
    assert_eq!(home.reopen().reconcile_all().unwrap(), []);
    home.check(id, 1);
    add_line_with_hole(&log);
    home.reopen().recording(id).unwrap().submit(note("after")).unwrap();
    let other = home.reopen().begin_recording(None, None).unwrap();
    home.check(other.id(), 1);
    add_line_with_hole(&log);
    let workspace = home.reopen();
    let recorder = workspace.find_key("recorder").unwrap();
    workspace.rotate_key(&recorder.key_id).unwrap();
    home.check(id, 2);
}

/// By the look of the bytes a line with a zero is torn, and with it everything behind it. Only the
/// log can tell that the events behind it were acknowledged: they are evidence, not a tail.
#[test]
fn damage_to_events_that_the_log_knows_is_not_set_aside() {
    let home = TestHome::new();
    let ended = home.recording();
    ended.submit(note("to be damaged")).unwrap();
    ended.conclude("done").unwrap();
    let long = home.recording();
    for round in 0..1_030 {
        let purpose = if round == 900 { "to be damaged".to_owned() } else { round.to_string() };
        long.submit(note(&purpose)).unwrap();
    }
    for recording in [ended, long] {
        let id = recording.id();
        drop(recording);
        let path = home.workspace.trace_file(id);
        let _ = std::fs::remove_file(path.with_file_name("snapshot"));
        let text = std::fs::read_to_string(&path).unwrap();
        let damaged = text.replace("to be damaged", "to be d\u{0}maged");
        std::fs::write(&path, &damaged).unwrap();
        let redact =
            RecordingCommand::Redact { artifact_hash: Hash::of(b"x"), reason: "test".into() };
        let workspace = home.reopen();
        let refused = workspace.recording(id).and_then(|it| Ok(it.submit(redact)?)).unwrap_err();
        assert!(refused.to_string().contains("damaged ledger"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        assert!(!path.with_file_name("torn").exists());
    }
}

#[test]
fn damage_to_entries_that_the_checkpoint_counts_is_not_set_aside() {
    let home = TestHome::new();
    let id = home.recording().id();
    let path = home.path().join("log/events.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let damaged = text.replace("\"display_name\":\"Critic\"", "\"display_name\":\"Cr\u{0}tic\"");
    std::fs::write(&path, &damaged).unwrap();
    let workspace = home.reopen();
    let refused = workspace.begin_recording(None, None).unwrap_err();
    assert!(refused.to_string().contains("damaged ledger"), "{refused}");
    assert!(workspace.reconcile_all().is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    assert!(!home.verify(id).failures.is_empty());
}
