//! Traces of schema 1.0 from the command line: shown, verified, and shown in the form of 1.1.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_testkit::TestHome;
use insta::assert_snapshot;

use crate::place::Place;

fn vectors() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/vectors"))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

/// Somebody who was given some traces, their artifacts and a file of keys.
fn given(traces: &[&str]) -> Place {
    let place = Place::empty();
    let published = vectors().join("traces-1.0");
    for trace in traces {
        copy(&published.join("traces").join(trace), &place.path().join("traces").join(trace));
    }
    copy(&published.join("artifacts"), &place.path().join("artifacts"));
    fs::copy(published.join("keys.json"), place.path().join("keys.json")).unwrap();
    place
}

#[test]
fn a_trace_outside_of_a_workspace_is_shown_by_its_path() {
    let place = given(&["whole"]);
    let screen = place.run(&["trace", "show", "traces/whole", "--from", "2", "--count", "5"]);
    assert_snapshot!(screen, @r#"
    exit 0
    --- stdout
         2  2026-01-31T12:00:02.000Z  critic     proposal_reviewed           {"proposal_status":"approved","rationale":"harmless enough"}
         3  2026-01-31T12:00:03.000Z  executor   tool_intent_signed          {"justification":"as proposed","normalized_input_hash":"fd99008dd43400943fd0b7d87a24a352d6d3040d6e44…
         4  2026-01-31T12:00:04.000Z  executor   tool_execution_started      {"tool_name":"make"}
         5  2026-01-31T12:00:05.000Z  executor   artifact_recorded           {"purpose":"input"}
         6  2026-01-31T12:00:06.000Z  executor   tool_execution_completed    {"exit_status":0,"output_artifacts":["7f144e5c3f40c85719a459c66ab23f2c11102f7a9d3c18a16e6234e4215523…

    --- stderr
    "#);
    let json = place.run(&["trace", "show", "traces/whole/events.jsonl", "--json"]);
    assert_eq!((json.code, json.stdout().lines().count()), (0, 12), "{json}");
}

#[test]
fn artifacts_are_found_beside_a_trace_or_where_one_says() {
    let place = given(&["whole"]);
    let arguments = ["verify", "traces/whole", "--keys", "keys.json"];
    let verdict = |arguments: &[&str]| {
        let screen = place.run(arguments);
        (screen.code, screen.stdout().lines().last().unwrap_or_default().to_owned())
    };
    let intact = (4, "verdict: pass, closed: yes, signer: unpinned".to_owned());
    assert_eq!(verdict(&arguments), intact);

    fs::rename(place.path().join("artifacts"), place.path().join("kept")).unwrap();
    let unread = place.run(&arguments);
    assert!(unread.stdout().contains("no store of artifacts was given"), "{unread}");
    fs::create_dir(place.path().join("elsewhere")).unwrap();
    fs::rename(place.path().join("kept"), place.path().join("elsewhere/artifacts")).unwrap();
    let named = [&arguments[..], &["--artifacts", "elsewhere"]].concat();
    assert_eq!(verdict(&named), intact);
    assert!(!place.run(&named).stdout().contains("no store of artifacts"));

    let nowhere = [&arguments[..], &["--artifacts", "nowhere"]].concat();
    assert_snapshot!(place.run(&nowhere), @r"
    exit 1
    --- stdout

    --- stderr
    error: `nowhere` is no directory with artifacts
    ");
}

#[test]
fn a_rejected_proposal_that_was_executed_fails() {
    let place = given(&["rejected"]);
    let screen = place.run(&["verify", "traces/rejected", "--keys", "keys.json"]);
    assert_eq!(screen.code, 3, "{screen}");
    let told = "the proposal at 1 was rejected; a new one must revise it";
    assert!(screen.stdout().contains(told), "{screen}");
}

#[test]
fn a_projection_is_a_file_of_its_own_and_no_proof() {
    let place = given(&["whole"]);
    let events = place.path().join("traces/whole/events.jsonl");
    let original = fs::read(&events).unwrap();
    let made = place.run(&["trace", "show", "traces/whole", "--as", "1.1", "-o", "new.jsonl"]);
    assert_snapshot!(made, @r"
    exit 0
    --- stdout

    --- stderr
    12 events of trace 01KG9YS7G000000000000TRACE in the form of schema 1.1: new.jsonl
    hint: a projection proves nothing: verify the original
    ");
    let published = fs::read(vectors().join("projections/whole.jsonl")).unwrap();
    assert_eq!(fs::read(place.path().join("new.jsonl")).unwrap(), published);
    let shown = place.run(&["trace", "show", "traces/whole", "--as", "1.1"]);
    assert_eq!(shown.stdout, published);

    assert_snapshot!(place.run(&["verify", "new.jsonl", "--keys", "keys.json"]), @r"
    exit 3
    --- stdout

    --- stderr
    error: `$PLACE/new.jsonl` is a projection of trace 01KG9YS7G000000000000TRACE: it is not signed and proves nothing
    hint: verify the trace that it was made of
    ");
    let over = place.run(&[
        "trace",
        "show",
        "traces/whole",
        "--as",
        "1.1",
        "-o",
        "traces/whole/events.jsonl",
    ]);
    assert_snapshot!(over, @r"
    exit 1
    --- stdout

    --- stderr
    error: cannot write `traces/whole/events.jsonl`
      caused by: file exists
    ");
    assert_eq!(fs::read(&events).unwrap(), original);
}

#[test]
fn a_projection_without_its_first_line_is_known_all_the_same() {
    let place = given(&[]);
    let published = fs::read_to_string(vectors().join("projections/whole.jsonl")).unwrap();
    let (_, events) = published.split_once('\n').unwrap();
    fs::write(place.path().join("events.jsonl"), events).unwrap();
    let screen = place.run(&["verify", "events.jsonl"]);
    assert_eq!(screen.code, 3, "{screen}");
    assert!(screen.stderr.contains("is a projection of trace"), "{screen}");
}

#[test]
fn a_trace_of_schema_1_1_has_its_form_already() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let id = recording.id().to_string();
    let screen = place.run(&["trace", "show", &id, "--as", "1.1"]);
    assert_snapshot!(screen.to_string().replace(&id, "$TRACE"), @r"
    exit 1
    --- stdout

    --- stderr
    error: trace $TRACE is of schema 1.1 already
    hint: `countersign trace show --json` has its events as they are
    ");
}
