//! From a connection to a sealed file that a stranger can check.

use std::fs;

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
