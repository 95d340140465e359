//! Every trace of a workspace at once.

use std::fs;

use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;
use serde_json::Value;

use crate::place::Place;

/// A workspace with a closed recording, an open one, and a reader who trusts its root.
fn workspace() -> (TestHome, Place, [String; 2]) {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_eq!(place.run(&["keys", "trust", &home.workspace.root().to_hex()]).code, 0);
    let closed = home.recording();
    closed.submit(note("something")).unwrap();
    home.clock.advance(1_500);
    closed.conclude("all is well").unwrap();
    let open = home.recording();
    let ids = [closed.id().to_string(), open.id().to_string()];
    (home, place, ids)
}

fn named(screen: impl ToString, ids: &[String; 2]) -> String {
    screen.to_string().replace(&ids[0], "$CLOSED").replace(&ids[1], "$OPEN")
}

#[test]
fn all_traces_and_the_log_are_told_with_the_worst_of_them_as_exit_status() {
    let (home, place, ids) = workspace();
    assert_snapshot!(named(place.run(&["verify", "--all", "--no-write"]), &ids), @r"
    exit 4
    --- stdout
    workspace $HOME

    ok    log                         log             10 events  open, pinned
    ok    $CLOSED  recording        5 events  closed, pinned
    ok    $OPEN  recording        1 event   open, pinned

    2 traces: 1 good, 1 open or unpinned, 0 failed, 0 unreadable
    `countersign verify TRACE` says everything about one of them

    --- stderr
    ");
    assert_eq!(place.run(&["verify", "--all", "--no-write", "--allow-open"]).code, 0);
    let report: Value =
        serde_json::from_slice(&place.run(&["verify", "--all", "--no-write", "--json"]).stdout)
            .unwrap();
    for trace in report["traces"].as_array().unwrap() {
        // The same verdict as by itself.
        let id = trace["trace_id"].as_str().unwrap();
        let alone = place.run(&["verify", id, "--no-write", "--json"]);
        let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
        assert_eq!(alone["report_digest"], trace["report_digest"], "{id}");
    }
    assert_eq!(report["traces"].as_array().unwrap().len(), 2);
    assert!(!home.path().join("traces").join(&ids[0]).join("reports").exists());
    assert_eq!(place.run(&["verify", "--all"]).code, 4);
    assert!(home.path().join("traces").join(&ids[0]).join("reports").exists());
}

#[test]
fn a_trace_that_was_deleted_whole_is_reported_by_the_doctor_and_by_verify_all() {
    let (home, place, ids) = workspace();
    fs::remove_dir_all(home.path().join("traces").join(&ids[0])).unwrap();
    assert_snapshot!(named(place.run(&["verify", "--all", "--no-write"]), &ids), @r"
    exit 3
    --- stdout
    workspace $HOME

    ok    log                         log             10 events  open, pinned
    GONE  $CLOSED
            SCHEMA_INVALID: the trace holds no events
            CHAIN_BREAK: the log knows 5 events of this trace, here are 0
    ok    $OPEN  recording        1 event   open, pinned

    2 traces: 0 good, 1 open or unpinned, 1 failed, 0 unreadable
    `countersign verify TRACE` says everything about one of them

    --- stderr
    ");
    let doctor = place.run(&["doctor"]);
    assert_eq!(doctor.code, 3, "{doctor}");
    assert!(doctor.stdout().contains(&format!("{} is gone", ids[0])), "{doctor}");
}

/// Found by killing writers: between making the file and the first event nothing was recorded, and
/// the workspace failed for good.
#[test]
fn an_empty_ledger_is_no_trace_unless_the_log_knows_it() {
    let (home, place, ids) = workspace();
    let traces = home.path().join("traces");
    let begun = traces.join("01kggtstdm0000000000000009");
    fs::create_dir(&begun).unwrap();
    fs::write(begun.join("events.jsonl"), "").unwrap();
    let all = ["verify", "--all", "--no-write", "--allow-open"];
    assert_eq!(place.run(&all).code, 0);
    assert_eq!(place.run(&["doctor"]).code, 0);
    fs::write(traces.join(&ids[0]).join("events.jsonl"), "").unwrap();
    let gone = place.run(&all);
    assert_eq!(gone.code, 3);
    assert!(gone.stdout().contains(&format!("GONE  {}", ids[0])), "{gone}");
}

#[test]
fn one_changed_trace_fails_the_workspace_and_not_the_others() {
    let (home, place, ids) = workspace();
    let ledger = home.path().join("traces").join(&ids[0]).join("events.jsonl");
    let text = fs::read_to_string(&ledger).unwrap();
    fs::write(&ledger, text.replace("something", "somethinG")).unwrap();
    assert_snapshot!(named(place.run(&["verify", "--all", "--no-write"]), &ids), @r"
    exit 3
    --- stdout
    workspace $HOME

    ok    log                         log             10 events  open, pinned
    FAIL  $CLOSED  recording        5 events  closed, unpinned
            HASH_MISMATCH: the payload hashes to 9a58355a4263202e1069bea86cccf131c5280070f5fe5725c51e7a48310523ab, the event states f65fa18fba708ea5a8d796265b634824c7fc3b36d2a302e1d2b651383570a309
            SIG_INVALID: the signature of key 74b2e759f10cbb5e749af1a968ed8b8e does not verify
    ok    $OPEN  recording        1 event   open, pinned

    2 traces: 0 good, 1 open or unpinned, 1 failed, 0 unreadable
    `countersign verify TRACE` says everything about one of them

    --- stderr
    ");
}

#[test]
fn without_a_workspace_there_is_nothing_to_verify() {
    let place = Place::empty();
    let empty = place.path().join("nothing");
    fs::create_dir(&empty).unwrap();
    let screen = place.run(&["verify", "--all", "--home", empty.to_str().unwrap()]);
    assert_snapshot!(screen, @r"
    exit 1
    --- stdout

    --- stderr
    error: `$PLACE/nothing` is no workspace
    hint: name one with `--home`, or make one with `countersign init`
    ");
}
