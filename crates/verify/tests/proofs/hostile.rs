//! Proofs of what is not so, by strangers and by those who hold some of the keys.

use countersign_format::event::{Draft, EventType};
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::merkle::{Tree, root};
use countersign_format::note::Checkpoint;
use countersign_format::proof::EventProof;
use serde_json::{Value, json};

use crate::forge::{
    EXECUTOR, Forge, Holder, Kept, NEXT_RECORDER, PLANNER, RECORDER, ROOT, findings, judge,
    judge_with, second,
};

/// The one finding that a proof gives rise to.
#[track_caller]
fn finding(proof: &EventProof) -> String {
    let mut found = findings(&judge(proof));
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[track_caller]
fn found(proof: &EventProof, expected: &str) {
    let finding = finding(proof);
    assert!(finding.starts_with(expected), "{finding}");
}

/// The broken twin of the inclusion check: everything about this event holds, keys and signatures
/// too, but the log never had it.
#[test]
fn a_signed_event_that_the_log_does_not_have_is_not_included() {
    let forge = Forge::closed(4);
    let mut twin = forge.clone();
    twin.trace.events.truncate(2);
    twin.trace.lines.truncate(2);
    let draft = Draft::new(EventType::ArtifactRecorded, json!({ "purpose": "never recorded" }));
    twin.trace.push(EXECUTOR, 7, draft);
    let mut proof = forge.proof(2, RECORDER);
    proof.event = twin.trace.lines[2].clone();
    found(&proof, "CHAIN_BREAK: log entry 5: event 2 is not in its tree");
    // Nor is another event of the same trace at that place.
    proof.event = forge.trace.lines[3].clone();
    found(&proof, "CHAIN_BREAK: log entry 5: event 3 is not in its tree");
}

#[test]
fn a_key_event_cannot_be_left_out() {
    let mut forge = Forge::new();
    forge.begin();
    forge.revoke(EXECUTOR);
    forge.event(EXECUTOR);
    forge.close(RECORDER);
    let whole = forge.proof(1, RECORDER);
    found(&whole, "SIG_INVALID: key");
    let at = whole.log.entries.len() - 2;
    assert!(whole.log.entries[at].line.contains("key_revoked"));
    let mut hidden = whole.clone();
    hidden.log.entries.remove(at);
    found(&hidden, "CHAIN_BREAK: log entry 6: ");
    // The thief of the executor's key cannot make the last entry forget it either.
    let mut event: Value = serde_json::from_str(&hidden.log.entries[at].line).unwrap();
    event["payload"]["keys_head"] = json!(forge.log.events[3].event_hash);
    event["payload_hash"] = json!(Hash::of(&json::to_bytes(&event["payload"])));
    event.as_object_mut().unwrap().remove("event_hash");
    event["event_hash"] = json!(Hash::of(&json::to_bytes(&event)));
    hidden.log.entries[at].line = String::from_utf8(json::to_bytes(&event)).unwrap();
    found(&hidden, "CHAIN_BREAK: log entry 6: not in the tree of the checkpoint");
    // Nor can the last entry be left out, or the first.
    for cut in [0, whole.log.entries.len() - 1] {
        let mut cut_off = whole.clone();
        cut_off.log.entries.remove(cut);
        assert!(finding(&cut_off).starts_with("CHAIN_BREAK"));
    }
    let mut none = whole;
    none.log.entries.clear();
    found(&none, "CHAIN_BREAK: the last of the log's 7 entries is not there");
}

/// Times are the signer's word; what counts is what the log had of the trace.
#[test]
fn a_retired_key_signs_nothing_that_the_log_did_not_have_before() {
    let mut forge = Forge::new();
    forge.begin();
    forge.event(EXECUTOR);
    forge.checkpoint(RECORDER);
    forge.revoke(EXECUTOR);
    let early = Draft::new(EventType::ArtifactRecorded, json!({ "purpose": "dated before" }));
    forge.trace.push(EXECUTOR, 6, early);
    forge.close(RECORDER);
    assert_eq!(findings(&judge(&forge.proof(1, RECORDER))), Vec::<String>::new());
    let late = finding(&forge.proof(2, RECORDER));
    let expected = "the key was revoked when the log had 2 events of this trace; this is number 3";
    assert!(late.ends_with(expected), "{late}");
}

/// Whoever has a revoked key and the disk replaces what it had signed before, and a writer that does
/// not look tells the log of it.
#[test]
fn an_event_that_was_exchanged_after_its_key_was_retired_is_not_included() {
    let mut forge = Forge::new();
    forge.begin();
    forge.event(EXECUTOR);
    forge.checkpoint(RECORDER);
    forge.revoke(EXECUTOR);
    forge.trace.events.truncate(1);
    forge.trace.lines.truncate(1);
    let other = Draft::new(EventType::ArtifactRecorded, json!({ "purpose": "another" }));
    forge.trace.push(EXECUTOR, 6, other);
    forge.close(RECORDER);
    let proof = forge.proof(1, RECORDER);
    found(&proof, "CHAIN_BREAK: log entry 5: event 1 is not in its tree");
    let mut last_only = proof;
    last_only.extents.remove(0);
    found(&last_only, "CHAIN_BREAK: the trees that are shown are not the first and the last");
}

/// Between the events that the root signed, an extract shows nothing: a thief of a recorder key that
/// was retired could put its own entries there.
#[test]
fn a_checkpoint_by_a_retired_recorder_key_carries_no_extract() {
    let mut forge = Forge::closed(3);
    forge.rotate_recorder();
    assert_eq!(findings(&judge(&forge.proof(1, NEXT_RECORDER))), Vec::<String>::new());
    let refused = "SIG_INVALID: the checkpoint is not signed by an active recorder key of this log";
    for signer in [RECORDER, ROOT, EXECUTOR, Holder(9, "nobody", RECORDER.2)] {
        found(&forge.proof(1, signer), refused);
    }
}

#[test]
fn another_first_event_does_not_pass() {
    let forge = Forge::closed(4);
    let mut other = Forge::new();
    let _ = other.now();
    other.begin();
    let mut proof = forge.proof(2, RECORDER);
    proof.first = other.trace.lines[0].clone();
    found(&proof, "CHAIN_BREAK: log entry 5: event 0 is not in its tree");
    proof.first = forge.trace.lines[1].clone();
    found(&proof, "SCHEMA_INVALID: the line given as the first event is not one");
    proof.first = forge.log.lines[0].clone();
    found(&proof, "SCHEMA_INVALID: no trace begins with this event, or a log does");
    // The first event itself has one line, not two.
    let mut proof = forge.proof(0, RECORDER);
    proof.first = other.trace.lines[0].clone();
    found(&proof, "SCHEMA_INVALID: two different events are given as the first one");
}

#[test]
fn a_checkpoint_of_another_tree_or_size_does_not_pass() {
    let forge = Forge::closed(4);
    let mut proof = forge.proof(2, RECORDER);
    proof.log.checkpoint = Forge::closed(5).note(RECORDER);
    found(&proof, "CHAIN_BREAK: log entry 0: not in the tree of the checkpoint");
    let hashes = forge.log.hashes();
    for size in [0, 5, 7, 1 << 40] {
        let origin = forge.origin();
        let note = Checkpoint { origin, size, root: root(&hashes) }.sign(&RECORDER.secret());
        proof.log.checkpoint = note.unwrap().to_string();
        assert!(finding(&proof).starts_with("CHAIN_BREAK"), "{size}");
    }
    let origin = "countersign/elsewhere".to_owned();
    let note = Checkpoint { origin, size: 6, root: root(&hashes) }.sign(&RECORDER.secret());
    proof.log.checkpoint = note.unwrap().to_string();
    found(&proof, "CHAIN_BREAK: the checkpoint is of `countersign/elsewhere`");
    proof.log.checkpoint = "countersign/x\n".to_owned();
    found(&proof, "SCHEMA_INVALID: the checkpoint is no signed note");
}

#[test]
fn entries_out_of_order_or_of_another_log_do_not_pass() {
    let forge = Forge::closed(4);
    let proof = forge.proof(2, RECORDER);
    let mut swapped = proof.clone();
    swapped.log.entries.swap(1, 2);
    found(&swapped, "CHAIN_BREAK: log entry 2: ");
    let mut twice = proof.clone();
    twice.log.entries.insert(1, proof.log.entries[1].clone());
    found(&twice, "CHAIN_BREAK: log entry 1: entries and their ids must rise");
    let mut moved = proof;
    moved.log.entries[1].index = 2;
    found(&moved, "CHAIN_BREAK: log entry 2: the event says that it is number 1");
}

/// A log that breaks its own rules shows nothing, whoever signed it.
#[test]
fn a_key_that_the_root_did_not_name_counts_for_nothing() {
    let mut forge = Forge::new();
    let thief = Holder(66, "thief", EXECUTOR.2);
    let payload =
        json!({ "identity": thief.identity(second(1)), "prev_key_event": forge.keys_head });
    let at = forge.now();
    let draft = Draft::new(EventType::KeyAdded, payload);
    forge.keys_head = forge.log.push(RECORDER, at, draft);
    forge.begin();
    forge.event(thief);
    forge.close(RECORDER);
    found(&forge.proof(1, RECORDER), "ROLE_POLICY_VIOLATION: log entry 4: ");
    // Without that entry nobody knows the key.
    let mut forge = Forge::new();
    forge.begin();
    forge.event(thief);
    forge.close(RECORDER);
    found(&forge.proof(1, RECORDER), "SIG_INVALID: no key");
}

#[test]
fn roles_hold_for_single_events_too() {
    let mut forge = Forge::new();
    forge.begin();
    forge.event(PLANNER);
    forge.close(RECORDER);
    found(&forge.proof(1, RECORDER), "ROLE_POLICY_VIOLATION: ");
}

#[test]
fn what_was_kept_elsewhere_is_compared() {
    let forge = Forge::closed(4);
    let proof = forge.proof(2, RECORDER);
    let with = |note: String| {
        let kept = Kept { checkpoints: vec![note.into_bytes()], ..Kept::default() };
        let report = judge_with(&proof, &kept);
        let warnings: Vec<_> = report.warnings.iter().map(|it| it.warning_code.clone()).collect();
        (findings(&report), warnings)
    };
    assert_eq!(with(forge.note(RECORDER)), (vec![], vec![]));
    let unused = vec!["CHECKPOINT_UNUSED".to_owned()];
    assert_eq!(with(Forge::new().note(RECORDER)), (vec![], unused.clone()));
    // The same number of entries, told differently.
    let other = Forge::closed(5);
    let (found, _) = with(other.note(RECORDER));
    assert!(
        found[0].starts_with("CHAIN_BREAK: the checkpoint given has another root"),
        "{found:?}"
    );
    let (found, _) = with(other.note(EXECUTOR));
    assert!(found[0].starts_with("SIG_INVALID: the checkpoint given is not signed"), "{found:?}");
    // A whole log that was told differently, and one that went on and retired the key before.
    let log =
        |log: Vec<u8>| findings(&judge_with(&proof, &Kept { log: Some(log), ..Kept::default() }));
    assert!(log(other.log.bytes())[0].starts_with("CHAIN_BREAK: entry "), "another log");
    let mut edited = forge.log.bytes();
    let at = edited.len() - 40;
    edited[at] ^= 1;
    assert!(!log(edited).is_empty(), "an edited log");
}

/// A tree says nothing of a leaf that is not one, however the path is put together.
#[test]
fn a_node_is_no_leaf() {
    let forge = Forge::closed(4);
    let mut proof = forge.proof(2, RECORDER);
    let tree = Tree::new(&forge.trace.hashes());
    proof.extents[0].event_path = tree.inclusion_proof(3, 4).unwrap();
    found(&proof, "CHAIN_BREAK: log entry 5: event 2 is not in its tree");
    proof.extents[0].event_path.clear();
    found(&proof, "CHAIN_BREAK: log entry 5: event 2 is not in its tree: a path of 0 nodes");
    proof.extents.clear();
    found(&proof, "CHAIN_BREAK: the trees that are shown are not");
}
