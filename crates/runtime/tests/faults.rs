//! What crashes leave between a trace and the log, and what the next writer makes of it.
#![cfg(test)]

use countersign_format::report::{Closed, VerificationStatus};
use countersign_protocol::recording::RecordingCommand;
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
    recording.submit(RecordingCommand::Conclude { verdict }).unwrap();
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
    home.workspace.recording(id).unwrap().submit(RecordingCommand::Conclude { verdict }).unwrap();
    let path = home.workspace.trace_file(id);
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    std::fs::write(&path, lines[..2].concat()).unwrap();
    home.reopen().recording(id).unwrap().conclude("done").unwrap();
    assert_eq!(home.check(id, 4).closed, Closed::Yes);
}
