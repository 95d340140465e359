//! A writer misses what was cut off at a line's end, where a reader of the ledger alone could not: what
//! it signed on top would deny what others were told.
#![cfg(test)]

use std::path::Path;

use countersign_format::role::Role;
use countersign_runtime::{Recording, WorkspaceError, WriteError};
use countersign_testkit::{TestHome, note};

/// Leaves the first `keep` lines of the ledger at `path`, and gives what stood there.
fn cut(path: &Path, keep: usize) -> String {
    let whole = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    assert!(keep < lines.len());
    std::fs::write(path, lines[..keep].concat()).unwrap();
    whole
}

fn refused(recording: &Recording) -> String {
    let error = recording.submit(note("behind what is missing")).unwrap_err();
    let WriteError::Damaged(damage) = error else { panic!("{error:?}") };
    damage.to_string()
}

#[test]
fn a_trace_whose_end_was_cut_off_is_left_alone() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.submit(note("one")).unwrap();
    recording.conclude("done").unwrap();
    let path = home.workspace.trace_file(recording.id());
    let log = home.path().join("log/events.jsonl");
    let told = std::fs::read(&log).unwrap();
    let events = std::fs::read_to_string(&path).unwrap().lines().count();
    for keep in [1, 2, events - 1] {
        let whole = cut(&path, keep);
        let short = std::fs::read(&path).unwrap();
        let said = refused(&home.reopen().recording(recording.id()).unwrap());
        assert!(said.contains(&format!("{events} events were acknowledged")), "{said}");
        assert_eq!(std::fs::read(&path).unwrap(), short, "{keep}");
        assert_eq!(std::fs::read(&log).unwrap(), told, "{keep}");
        std::fs::write(&path, whole).unwrap();
    }
    home.check(recording.id(), events as u64);
}

#[test]
fn an_open_trace_that_is_shorter_than_the_log_says_is_left_alone() {
    let home = TestHome::new();
    let recording = home.recording();
    for round in 0..4 {
        recording.submit(note(&round.to_string())).unwrap();
    }
    // Whoever rotates a key first tells the log how far each open trace is.
    let critic = home.workspace.find_key("critic").unwrap();
    home.workspace.rotate_key(&critic.key_id).unwrap();
    let path = home.workspace.trace_file(recording.id());
    let whole = cut(&path, 3);
    let said = refused(&home.reopen().recording(recording.id()).unwrap());
    assert!(said.contains("5 events were acknowledged"), "{said}");
    // The one who wrote them notices, too.
    let said = refused(&recording);
    assert!(said.contains("5 events were acknowledged"), "{said}");
    std::fs::write(&path, whole).unwrap();
    recording.submit(note("four")).unwrap();
    home.check(recording.id(), 6);
}

/// Somebody who damages a trace must not be able to keep a key alive by it.
#[test]
fn keys_change_although_a_trace_was_cut_off_behind_its_end() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.conclude("done").unwrap();
    let path = home.workspace.trace_file(recording.id());
    cut(&path, 1);
    let open = home.recording();
    let critic = home.workspace.find_key("critic").unwrap();
    home.reopen().revoke_key(&critic.key_id, "left").unwrap();
    assert!(home.reopen().log_state(|log| log.active_key(Role::Critic).is_none()).unwrap());
    open.submit(note("on")).unwrap();
    home.check(open.id(), 2);
}

/// As above, where what stands there instead has an end: one of another history of the same trace, that
/// was put back.
#[test]
fn keys_change_although_a_shorter_history_of_a_trace_has_ended() {
    let home = TestHome::new();
    let recording = home.recording();
    let id = recording.id();
    let files = ["log/events.jsonl", "log/checkpoint"].map(|name| home.path().join(name));
    let trace = home.workspace.trace_file(id);
    let before = files.each_ref().map(|file| std::fs::read(file).unwrap());
    let begun = std::fs::read(&trace).unwrap();
    recording.conclude("in one history").unwrap();
    drop(recording);
    let ended = std::fs::read(&trace).unwrap();
    for (file, bytes) in files.iter().zip(&before) {
        std::fs::write(file, bytes).unwrap();
    }
    std::fs::write(&trace, begun).unwrap();
    let other = home.reopen();
    let recording = other.recording(id).unwrap();
    for round in 0..9 {
        recording.submit(note(&round.to_string())).unwrap();
    }
    other.rotate_key(&other.find_key("planner").unwrap().key_id).unwrap();
    std::fs::write(&trace, ended).unwrap();
    let critic = home.reopen().find_key("critic").unwrap();
    home.reopen().revoke_key(&critic.key_id, "left").unwrap();
    assert!(home.reopen().log_state(|log| log.active_key(Role::Critic).is_none()).unwrap());
}

/// Otherwise a revocation would be undone, and the owner's own next checkpoint would contradict the
/// one before.
#[test]
fn a_log_that_is_shorter_than_its_checkpoint_is_neither_believed_nor_continued() {
    let home = TestHome::new();
    let recording = home.recording();
    let critic = home.workspace.find_key("critic").unwrap();
    home.workspace.revoke_key(&critic.key_id, "stolen").unwrap();
    let log = home.path().join("log/events.jsonl");
    let entries = std::fs::read_to_string(&log).unwrap().lines().count();
    for keep in [1, entries - 1] {
        let whole = cut(&log, keep);
        let short = std::fs::read(&log).unwrap();
        let workspace = home.reopen();
        let keys = workspace.keys().unwrap_err();
        let WorkspaceError::Write(WriteError::Damaged(damage)) = &keys else { panic!("{keys:?}") };
        let said = damage.to_string();
        assert!(said.contains(&format!("{entries} events were acknowledged")), "{said}");
        assert!(workspace.begin_recording(None, None).is_err());
        assert!(workspace.add_key("critic").is_err());
        assert_eq!(std::fs::read(&log).unwrap(), short, "{keep}");
        std::fs::write(&log, whole).unwrap();
    }
    let workspace = home.reopen();
    assert!(workspace.log_state(|log| log.active_key(Role::Critic).is_none()).unwrap());
    workspace.recording(recording.id()).unwrap().submit(note("on")).unwrap();
    home.check(recording.id(), 2);
}

/// The twin: who deletes the checkpoint as well is missed by whoever kept one elsewhere, and by nobody
/// else. The security page says so.
#[test]
fn without_its_checkpoint_a_shorter_log_is_believed() {
    let home = TestHome::new();
    let critic = home.workspace.find_key("critic").unwrap();
    home.workspace.revoke_key(&critic.key_id, "stolen").unwrap();
    let log = home.path().join("log/events.jsonl");
    let entries = std::fs::read_to_string(&log).unwrap().lines().count();
    cut(&log, entries - 1);
    std::fs::remove_file(home.path().join("log/checkpoint")).unwrap();
    assert!(home.reopen().log_state(|log| log.active_key(Role::Critic).is_some()).unwrap());
}
