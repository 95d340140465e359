//! `countersign trace diff`: where two runs part.

use std::fs;

use countersign_format::event::EventRef;
use countersign_format::hash::Hash;
use countersign_protocol::ReviewDecision;
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::Recording;
use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;
use serde_json::json;

use crate::place::Place;

/// A run of one tool that prints `output` and exits with `status`.
fn run_of(home: &TestHome, output: &str, status: i32) -> Recording {
    home.clock.advance(61_000);
    let recording = home.recording();
    let place = |seq: u64| {
        let event = &home.events(recording.id())[usize::try_from(seq).unwrap()];
        EventRef { event_id: event.event_id.clone(), seq }
    };
    let submit = |command| recording.submit(command).unwrap();
    let _ = submit(RecordingCommand::Intend {
        tool_name: "exec".into(),
        input_hash: Hash::of(b"make"),
        safety_classification: "standard".into(),
        justification: "to build it".into(),
        artifacts: Vec::new(),
    });
    let (decision, reasons) = (ReviewDecision::Approved, vec!["allow by `guards`".into()]);
    let _ = submit(RecordingCommand::Review { intent: place(1), decision, reasons });
    let _ = submit(RecordingCommand::Start { intent: place(1) });
    let artifacts = vec![recording.put_artifact(output.as_bytes(), "text/plain").unwrap()];
    let execution = place(3);
    let _ = submit(match status {
        0 => RecordingCommand::Complete { execution, exit_status: 0, artifacts },
        status => RecordingCommand::Fail {
            execution,
            reason: "it failed".into(),
            exit_status: Some(status),
            artifacts,
        },
    });
    recording
}

fn diff(place: &Place, a: &Recording, b: &Recording, more: &[&str]) -> crate::binary::Screen {
    let (a, b) = (a.id().to_string(), b.id().to_string());
    let mut arguments = vec!["trace", "diff", &a, &b];
    arguments.extend_from_slice(more);
    place.run(&arguments)
}

#[test]
fn runs_of_the_same_thing_are_the_same_whatever_their_ids_and_times() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (a, b) = (run_of(&home, "built\n", 0), run_of(&home, "built\n", 0));
    a.conclude("all is well").unwrap();
    home.clock.advance(5_000);
    b.conclude("all is well").unwrap();
    let same = diff(&place, &a, &b, &[]);
    assert_eq!(same.to_string(), "exit 0\n--- stdout\nthe same 8 events\n\n--- stderr\n");
    let same = diff(&place, &a, &b, &["--json"]);
    let expected = json!({
        "same": true,
        "events": 8,
        "a": {"trace_id": a.id().to_string(), "event": null},
        "b": {"trace_id": b.id().to_string(), "event": null},
        "differences": [],
    });
    assert_eq!((same.code, same.answer()), (0, expected));
    home.check(a.id(), 8);
    home.check(b.id(), 8);
}

#[test]
fn the_first_event_that_differs_is_shown_from_both_sides() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (a, b) = (run_of(&home, "built\n", 0), run_of(&home, "no rule\n", 2));
    assert_snapshot!(diff(&place, &a, &b, &[]), @r#"
    exit 3
    --- stdout
    A  01kggtvnwr494h28jgxgpqnqc9
    B  01kggtxhf026mk7eqrm5vp1c16
    the runs part at event 4
      A tool_execution_completed by recorder: {"execution":{"seq":3},"exit_status":0,"on_behalf_of":{"agent_id":"test-agent"},"output_artifacts":[…
      B tool_execution_failed by recorder: {"execution":{"seq":3},"exit_status":2,"on_behalf_of":{"agent_id":"test-agent"},"outcome":"failed","…

    event_type:
      A "tool_execution_completed"
      B "tool_execution_failed"

    payload.exit_status:
      A 0
      B 2

    payload.outcome:
      A nothing
      B "failed"

    payload.output_artifacts[0]:
      A "56f6e6304d02d413bb7d5d463ac5cdc58551266dc7269b467fc385815f39b913"
      B "4789921999b21ad5649d69aa73c027397d457f8640ff14f73f141760bb339255"

    payload.reason:
      A nothing
      B "it failed"

    artifacts[0].artifact_hash:
      A "56f6e6304d02d413bb7d5d463ac5cdc58551266dc7269b467fc385815f39b913"
      B "4789921999b21ad5649d69aa73c027397d457f8640ff14f73f141760bb339255"

    artifacts[0].byte_size:
      A 6
      B 8

    --- stderr
    "#);
    let json = diff(&place, &a, &b, &["--json"]);
    let answer = json.answer();
    assert_eq!((json.code, &answer["events"]), (3, &json!(4)));
    assert_eq!(answer["a"]["event"]["event_type"], "tool_execution_completed");
    assert_eq!(answer["b"]["event"]["event_type"], "tool_execution_failed");
    let status = json!({"member": "payload.exit_status", "a": 0, "b": 2});
    assert!(answer["differences"].as_array().unwrap().contains(&status), "{json}");
}

#[test]
fn the_same_steps_with_another_output_part_at_that_output() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (a, b) = (run_of(&home, "built\n", 0), run_of(&home, "built!\n", 0));
    assert_snapshot!(diff(&place, &a, &b, &[]), @r#"
    exit 3
    --- stdout
    A  01kggtvnwr494h28jgxgpqnqc9
    B  01kggtxhf026mk7eqrm5vp1c16
    the runs part at event 4
      A tool_execution_completed by recorder: {"execution":{"seq":3},"exit_status":0,"on_behalf_of":{"agent_id":"test-agent"},"output_artifacts":[…
      B tool_execution_completed by recorder: {"execution":{"seq":3},"exit_status":0,"on_behalf_of":{"agent_id":"test-agent"},"output_artifacts":[…

    payload.output_artifacts[0]:
      A "56f6e6304d02d413bb7d5d463ac5cdc58551266dc7269b467fc385815f39b913"
      B "61de15d434ca899919b98841bc22ef7079494045075d713880d8fd960363f16b"

    artifacts[0].artifact_hash:
      A "56f6e6304d02d413bb7d5d463ac5cdc58551266dc7269b467fc385815f39b913"
      B "61de15d434ca899919b98841bc22ef7079494045075d713880d8fd960363f16b"

    artifacts[0].byte_size:
      A 6
      B 7

    --- stderr
    "#);
}

#[test]
fn a_run_that_ends_earlier_parts_there() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (a, b) = (run_of(&home, "built\n", 0), run_of(&home, "built\n", 0));
    b.submit(note("one more")).unwrap();
    assert_snapshot!(diff(&place, &a, &b, &[]), @r#"
    exit 3
    --- stdout
    A  01kggtvnwr494h28jgxgpqnqc9
    B  01kggtxhf026mk7eqrm5vp1c16
    the runs part at event 5
      A ends here
      B artifact_recorded by recorder: {"on_behalf_of":{"agent_id":"test-agent"},"purpose":"one more"}

    --- stderr
    "#);
    let json = diff(&place, &b, &a, &["--json"]);
    assert_eq!(json.code, 3);
    assert_eq!(json.answer()["events"], 5);
    assert_eq!(json.answer()["b"]["event"], json!(null));
}

#[test]
fn references_are_compared_by_what_they_point_to() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let pointing_at = |which: usize| {
        let recording = home.recording();
        for _ in 0..2 {
            recording
                .submit(RecordingCommand::Intend {
                    tool_name: "exec".into(),
                    input_hash: Hash::of(b"make"),
                    safety_classification: "low".into(),
                    justification: "again".into(),
                    artifacts: Vec::new(),
                })
                .unwrap();
        }
        let event = &home.events(recording.id())[which];
        let intent =
            EventRef { event_id: event.event_id.clone(), seq: u64::try_from(which).unwrap() };
        recording.submit(RecordingCommand::Start { intent }).unwrap();
        recording
    };
    let (a, b, c) = (pointing_at(1), pointing_at(2), pointing_at(1));
    assert_eq!(diff(&place, &a, &c, &[]).code, 0);
    assert_snapshot!(diff(&place, &a, &b, &[]), @r#"
    exit 3
    --- stdout
    A  01kggtstag494h28jgxgpqnqc9
    B  01kggtstag26mk7eqrm5vp1c16
    the runs part at event 3
      A tool_execution_started by recorder: {"intent":{"seq":1},"on_behalf_of":{"agent_id":"test-agent"}}
      B tool_execution_started by recorder: {"intent":{"seq":2},"on_behalf_of":{"agent_id":"test-agent"}}

    payload.intent.seq:
      A 1
      B 2

    --- stderr
    "#);
}

#[test]
fn traces_are_named_by_the_beginning_of_their_ids() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (a, b) = (run_of(&home, "built\n", 0), run_of(&home, "built\n", 0));
    let (a, b) = (a.id().to_string(), b.id().to_string());
    assert_eq!(place.run(&["trace", "diff", &a[..20], &b[..20]]).code, 0);
    assert_snapshot!(place.run(&["trace", "diff", &a, "nothing"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: no trace `nothing`
    hint: run `countersign trace list` to see all traces
    ");
}

#[test]
fn a_line_that_cannot_be_read_is_no_difference_but_a_failure() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (a, b) = (run_of(&home, "built\n", 0), run_of(&home, "built\n", 0));
    let path = home.workspace.trace_file(b.id());
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&path, [lines[0], lines[1], "{}\n"].concat()).unwrap();
    let failed = diff(&place, &a, &b, &[]);
    assert_snapshot!(failed.to_string().replace(&b.id().to_string(), "$B"), @r"
    exit 1
    --- stdout

    --- stderr
    error: the line of event 2 cannot be read: the line is not an event
    hint: run `countersign verify $B` to see everything that is wrong
    ");
}

#[test]
fn text_of_an_agent_cannot_drive_the_terminal() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let begin = |name| home.workspace.begin_recording(Some(name), None).unwrap();
    let (a, b) = (begin("\u{1b}[2Jevil\u{202e}"), begin("\u{9b}2J\r\nforged"));
    for more in [&[][..], &["--json"]] {
        let shown = diff(&place, &a, &b, more);
        let hidden = shown
            .stdout()
            .chars()
            .find(|c| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c));
        assert_eq!((shown.code, hidden), (3, None), "{shown}");
    }
}
