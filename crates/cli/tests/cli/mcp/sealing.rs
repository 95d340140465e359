//! From a connection to a sealed file that a stranger can check.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{act, connect, workspace};
use crate::place::Place;

/// The root that whoever verifies has to trust.
pub(super) fn root_of(place: &Place) -> String {
    let logs = fs::read_dir(place.path().join("config/keys")).unwrap();
    let names: Vec<String> =
        logs.map(|found| found.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].clone()
}

/// A stranger with nothing but the file: unpinned by itself, and in order once the root is trusted.
pub(super) fn check_sealed(place: &Place, cap_file: &str) {
    let stranger = Place::empty();
    fs::copy(place.path().join(cap_file), stranger.path().join("session.cap")).unwrap();
    let unpinned = stranger.run(&["verify", "session.cap"]);
    assert_eq!(unpinned.code, 4, "{unpinned}");
    let pinned = stranger.run(&["verify", "session.cap", "--trust", &root_of(place)]);
    assert_eq!(pinned.code, 0, "{pinned}");
    let (code, said) = as_capseal_reads(&stranger.path().join("session.cap"));
    assert_eq!(code, Some(0), "{said}");
}

/// What CapSeal's own verifier would say, by a reader that shares nothing with ours.
fn as_capseal_reads(file: &Path) -> (Option<i32>, String) {
    let python = std::env::var_os("COUNTERSIGN_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/independent/capseal.py");
    let ended = Command::new(python).arg(script).arg(file).output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_reader_that_stands_for_capseal_takes_its_files_and_refuses_others() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/interop");
    let mut taken = 0;
    for file in fs::read_dir(&cases).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "cap") {
            let (code, said) = as_capseal_reads(&file);
            assert_eq!(code, Some(0), "{}: {said}", file.display());
            taken += 1;
        }
    }
    assert!(taken > 0);
    let place = Place::empty();
    let bad = place.path().join("bad.cap");
    fs::write(&bad, b"no archive").unwrap();
    assert_eq!(as_capseal_reads(&bad).0, Some(20));
}

#[test]
fn a_sealed_recording_verifies_for_a_stranger_and_the_next_action_begins_another() {
    let place = workspace();
    let mut server = connect(&place);
    act(&mut server, 1);
    act(&mut server, 2);
    let sealed = server.call("capseal_seal", &json!({ "session_name": "a test" }));
    assert_eq!((&sealed["sealed"], &sealed["actions_count"]), (&json!(true), &json!(2)));
    assert_eq!(sealed["verification"], json!("passed"), "{sealed}");
    check_sealed(&place, sealed["cap_file"].as_str().unwrap());
    let again = server.fail("capseal_seal", &json!({}));
    assert_eq!(again["sealed"], json!(false));
    let next = act(&mut server, 3);
    assert_ne!(next["session_id"], sealed["session_id"]);
    assert_eq!(next["receipt_chain_length"], json!(1));
}

#[test]
fn what_a_killed_server_had_answered_is_sealed_later() {
    let place = workspace();
    let mut server = connect(&place);
    act(&mut server, 1);
    let last = act(&mut server, 2);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let trace = last["session_id"].as_str().unwrap();
    let sealed = place.run(&["seal", trace, "-o", "later.cap"]);
    assert_eq!(sealed.code, 0, "{sealed}");
    check_sealed(&place, "later.cap");
    let receipts = last["receipt_hash"].clone();
    let shown = place.run(&["trace", "show", trace, "--json"]);
    assert!(shown.stdout().contains(receipts.as_str().unwrap()), "{shown}");
}
