//! `countersign seal`, `cap show`, and `verify` of sealed files.

use std::fs;

use countersign_testkit::{TestHome, note};
use serde_json::Value;

use crate::place::Place;

const INTEROP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/interop");

#[test]
fn a_recording_is_sealed_and_handed_to_a_stranger() {
    let home = TestHome::new();
    let owner = Place::owner_of(&home);
    let recording = home.recording();
    let _ = recording.submit(note("a note")).unwrap();
    let id = recording.id().to_string();
    // It is open: it is concluded first, and that is said.
    let sealed = owner.run(&["seal", &id, "-o", "one.cap"]);
    assert_eq!(sealed.code, 0, "{sealed}");
    assert!(sealed.stderr.contains("is still open: it is concluded first"), "{sealed}");
    let file = owner.path().join("one.cap");
    let bytes = fs::read(&file).unwrap();
    // Again: the same bytes, and nothing is replaced.
    let again = owner.run(&["seal", &id, "-o", "one.cap"]);
    assert_eq!(again.code, 0, "{again}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
    fs::write(&file, b"something else").unwrap();
    let refused = owner.run(&["seal", &id, "-o", "one.cap"]);
    assert_eq!(refused.code, 3, "{refused}");
    assert_eq!(fs::read(&file).unwrap(), b"something else");
    let forced = owner.run(&["seal", &id, "-o", "one.cap", "--force", "--json"]);
    assert_eq!(forced.code, 0, "{forced}");
    let answer: Value = serde_json::from_slice(&forced.stdout).unwrap();
    assert_eq!(answer["bytes"], bytes.len());
    assert_eq!(fs::read(&file).unwrap(), bytes);

    let stranger = Place::empty();
    fs::write(stranger.path().join("one.cap"), &bytes).unwrap();
    fs::write(stranger.path().join("nameless"), &bytes).unwrap();
    let root = home.workspace.root().to_hex();
    for name in ["one.cap", "nameless"] {
        assert_eq!(stranger.run(&["verify", name]).code, 4);
        let trusted = stranger.run(&["verify", name, "--trust", &root]);
        assert_eq!(trusted.code, 0, "{trusted}");
        assert!(trusted.stdout().starts_with("file     sealed by Countersign"), "{trusted}");
    }
    let wrong = stranger.run(&["verify", "one.cap", "--trust", &root, "--expect-count", "99"]);
    assert_eq!(wrong.code, 3, "{wrong}");
    let shown = stranger.run(&["cap", "show", "one.cap"]);
    assert_eq!(shown.code, 0, "{shown}");
    for words in ["sealed by  countersign", &format!("trace      {id}"), "trace/events.jsonl"] {
        assert!(shown.stdout().contains(words), "{shown}");
    }
}

#[test]
fn files_of_capseal_are_told_apart() {
    let place = Place::empty();
    let good = format!("{INTEROP}/gated.cap");
    let verified = place.run(&["verify", &good]);
    assert_eq!(verified.code, 4, "{verified}");
    assert!(verified.stdout().contains("anyone could have written them"), "{verified}");
    let shown = place.run(&["cap", "show", &good, "--json"]);
    let answer: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(answer["actions_count"], 10);
    assert_eq!(answer["actions"][1]["gate_decision"], "skip");
    let mut attacks = 0;
    for entry in fs::read_dir(format!("{INTEROP}/attacks")).unwrap() {
        let path = entry.unwrap().path();
        let refused = place.run(&["verify", path.to_str().unwrap(), "--json"]);
        assert_eq!(refused.code, 3, "{refused}");
        let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(report["verification_status"], "fail");
        attacks += 1;
    }
    assert_eq!(attacks, 9);
    let usage = place.run(&["verify", &good, "--expect-count", "10"]);
    assert_eq!(usage.code, 2, "{usage}");
}

#[test]
fn names_of_members_are_escaped() {
    let place = Place::empty();
    fs::write(place.path().join("x.cap"), b"no archive").unwrap();
    let refused = place.run(&["cap", "show", "x.cap"]);
    assert_eq!(refused.code, 3, "{refused}");
    assert!(refused.stderr.contains("not a gzip file"), "{refused}");
    assert_eq!(place.run(&["verify", "x.cap"]).code, 3);
}
