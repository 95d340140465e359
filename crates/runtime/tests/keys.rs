//! Rotation and revocation: what a retired key signed before counts, what it signs after does not.
#![cfg(test)]

use std::io::Write as _;

use countersign_format::event::{Actor, Draft, EventType, Sealer};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::KeyStatus;
use countersign_format::report::{FailureCode, VerificationReport};
use countersign_format::role::Role;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use countersign_testkit::{TestHome, note};
use serde_json::{Map, json};

fn codes(report: &VerificationReport) -> Vec<(FailureCode, Option<u64>)> {
    report.failures.iter().map(|failure| (failure.failure_code, failure.index)).collect()
}

/// Appends an event signed by the recorder key `key_id`, as a thief of that key would.
fn forge(home: &TestHome, id: Ulid, key_id: &str, created_at: &str) {
    let path = home.workspace.trace_file(id);
    let mut last = None;
    let count =
        each_event(&path, LedgerId::Trace(id), |event| last = Some(event)).unwrap().unwrap();
    let last = last.unwrap();
    let secret = home.workspace.keyring().load(key_id.parse().unwrap()).unwrap();
    let actor = Actor {
        agent_id: "recorder".into(),
        key_id: key_id.into(),
        role: Role::Recorder,
        unknown: Map::new(),
    };
    let sealed = Sealer {
        trace_id: id,
        event_id: last.event_id.parse::<Ulid>().unwrap().next(),
        seq: count,
        prev: last.event_hash,
        created_at: created_at.parse().unwrap(),
        raw_clock: None,
        actor: &actor,
    }
    .seal(Draft::new(EventType::ArtifactRecorded, json!({ "purpose": "forged" })), |bytes| {
        *secret.sign(bytes).as_bytes()
    })
    .unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(&sealed.line).unwrap();
}

#[test]
fn a_rotated_key_keeps_its_past_and_the_new_one_goes_on() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.submit(note("before")).unwrap();
    home.clock.advance(1_000);
    let old = home.workspace.find_key("recorder").unwrap();
    let new = home.workspace.rotate_key(&old.key_id).unwrap();
    assert_ne!(new.key_id, old.key_id);
    let recorded = recording.submit(note("after")).unwrap();
    assert_eq!(recorded.events[0].actor.key_id, new.key_id);
    recording.conclude("done").unwrap();
    home.check(recording.id(), 6);
    let statuses: Vec<_> = home
        .workspace
        .keys()
        .unwrap()
        .into_iter()
        .filter(|key| key.agent_id == "recorder")
        .map(|key| (key.key_id, key.status))
        .collect();
    assert_eq!(statuses, [(old.key_id, KeyStatus::Rotated), (new.key_id, KeyStatus::Active)]);
}

#[test]
fn another_process_signs_with_the_new_key_without_being_told() {
    let home = TestHome::new();
    let recording = home.recording();
    let other = home.reopen();
    let other = other.recording(recording.id()).unwrap();
    other.submit(note("before")).unwrap();
    home.clock.advance(1);
    let old = home.workspace.find_key("recorder").unwrap();
    let new = home.workspace.rotate_key(&old.key_id).unwrap();
    let recorded = other.submit(note("after")).unwrap();
    assert_eq!(recorded.events[0].actor.key_id, new.key_id);
    home.check(recording.id(), 3);
}

#[test]
fn a_thief_of_a_rotated_key_cannot_back_date_behind_the_rotation() {
    let home = TestHome::new();
    let recording = home.recording();
    let old = home.workspace.find_key("recorder").unwrap();
    home.clock.advance(60_000);
    home.workspace.rotate_key(&old.key_id).unwrap();
    // The time lies before the rotation, but the log had only one event of this trace then.
    forge(&home, recording.id(), &old.key_id, "2026-02-03T04:05:06.001Z");
    let report = home.verify(recording.id());
    assert_eq!(codes(&report), [(FailureCode::SigInvalid, Some(1))], "{report:#?}");
    assert!(report.failures[0].message.contains("rotated when the log had 1 events"));
}

#[test]
fn a_revoked_key_signs_nothing_more() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.submit(note("before")).unwrap();
    let old = home.workspace.find_key("recorder").unwrap();
    home.clock.advance(1_000);
    home.workspace.rotate_key(&old.key_id).unwrap();
    let auditor = home.workspace.find_key("auditor").unwrap();
    home.workspace.revoke_key(&auditor.key_id, "lost laptop").unwrap();
    let redact = countersign_protocol::recording::RecordingCommand::Redact {
        artifact_hash: Hash::of(b"x"),
        reason: "needs the auditor".into(),
    };
    let refused = recording.submit(redact).unwrap_err();
    assert_eq!(refused.to_string(), "the workspace has no active key for `auditor`");
    home.check(recording.id(), 2);
    let known = home.workspace.find_key(&auditor.key_id).unwrap();
    assert_eq!(known.status, KeyStatus::Revoked);
    assert_eq!(known.revoked_reason.as_deref(), Some("lost laptop"));
}

#[test]
fn the_root_key_and_retired_keys_cannot_be_retired() {
    let home = TestHome::new();
    let root = home.workspace.keys().unwrap().remove(0);
    let refused = home.workspace.rotate_key(&root.key_id).unwrap_err();
    assert!(refused.to_string().contains("cannot be rotated or revoked"), "{refused}");
    let critic = home.workspace.find_key("critic").unwrap();
    home.workspace.revoke_key(&critic.key_id, "test").unwrap();
    let refused = home.workspace.revoke_key(&critic.key_id, "again").unwrap_err();
    assert_eq!(refused.to_string(), format!("no active key {} in the log", critic.key_id));
    assert_eq!(home.verify_log().failures, []);
}

#[test]
fn keys_change_while_many_write_and_every_event_still_counts() {
    let home = TestHome::new();
    let recordings: Vec<_> = (0..4).map(|_| home.recording()).collect();
    std::thread::scope(|scope| {
        for recording in &recordings {
            scope.spawn(move || {
                for round in 0..60 {
                    recording.submit(note(&round.to_string())).unwrap();
                }
            });
        }
        let home = &home;
        scope.spawn(move || {
            for _ in 0..5 {
                home.clock.advance(10);
                let active = home.workspace.find_key("recorder").unwrap();
                home.workspace.rotate_key(&active.key_id).unwrap();
            }
        });
    });
    for recording in &recordings {
        home.check(recording.id(), 61);
    }
}

/// The clock jumped back after a trace had been closed: the key that signed it ends after its last
/// event all the same, because the log was told when that was.
#[test]
fn a_clock_that_jumped_back_does_not_spoil_what_was_signed_before() {
    let home = TestHome::new();
    let recording = home.recording();
    home.clock.advance(3_600_000);
    recording.conclude("done").unwrap();
    home.clock.advance(-3_600_000);
    let old = home.workspace.find_key("recorder").unwrap();
    home.workspace.rotate_key(&old.key_id).unwrap();
    home.check(recording.id(), 4);
}

#[test]
fn nothing_is_dated_before_the_key_that_signs_it() {
    let home = TestHome::new();
    home.clock.advance(-86_400_000);
    let recording = home.recording();
    let report = home.check(recording.id(), 1);
    assert_eq!(report.metrics.signatures_verified, 1);
}

/// Rotation read the held traces by a walk of its own, which did not ask whose events they are: the
/// log would have been told, over the recorder's signature, that one trace has another's events.
#[test]
fn rotation_tells_the_log_nothing_of_a_trace_that_lies_in_anothers_place() {
    let home = TestHome::new();
    let (short, long) = (home.recording(), home.recording());
    for round in 0..5 {
        long.submit(note(&round.to_string())).unwrap();
    }
    std::fs::copy(home.workspace.trace_file(long.id()), home.workspace.trace_file(short.id()))
        .unwrap();
    let _ = std::fs::remove_file(home.workspace.trace_file(short.id()).with_file_name("snapshot"));
    let workspace = home.reopen();
    let old = workspace.find_key("recorder").unwrap();
    workspace.rotate_key(&old.key_id).unwrap();
    let told = workspace.log_entries().unwrap();
    assert_eq!(told[&short.id().to_string()].size, 1);
    assert_eq!(told[&long.id().to_string()].size, 6);
    assert_eq!(home.verify_log().failures, []);
}
