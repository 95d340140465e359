//! `countersign trace follow`: events as they are recorded.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::place::Place;

/// A `trace follow` that runs; it is ended when dropped.
struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(arguments);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line; waits for it.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Waits for the end: exit code, and what was printed until then.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut rest, mut talk) = (String::new(), String::new());
        self.lines.read_to_string(&mut rest).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
        (self.child.wait().unwrap().code(), rest, talk)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kind(line: &str) -> String {
    let event: Value = serde_json::from_str(line).unwrap();
    event["event_type"].as_str().unwrap().to_owned()
}

#[test]
fn each_event_is_printed_when_it_comes_and_the_end_of_the_trace_is_the_end() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let id = recording.id().to_string();
    let mut following = Following::start(&place, &["trace", "follow", &id[..20], "--json"]);
    assert_eq!(kind(&following.line()), "session_initialized");
    for turn in 0..3 {
        // What is recorded only now can only be printed if it was waited for.
        recording.submit(note(&format!("turn {turn}"))).unwrap();
        let event: Value = serde_json::from_str(&following.line()).unwrap();
        assert_eq!(event["payload"]["purpose"], format!("turn {turn}"));
        assert_eq!(event["seq"], turn + 1);
    }
    recording.conclude("all is well").unwrap();
    let (code, rest, talk) = following.end();
    let kinds: Vec<String> = rest.lines().map(kind).collect();
    let expected =
        ["final_statement_signed", "verification_run_started", "verification_run_completed"];
    assert_eq!((code, kinds, &*talk), (Some(0), expected.map(str::to_owned).to_vec(), ""));
    home.check(recording.id(), 7);
}

/// Whoever has seen enough interrupts it; what was printed until then is whole.
#[test]
fn it_ends_when_it_is_interrupted() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let mut following = Following::start(&place, &["trace", "follow", &recording.id().to_string()]);
    assert!(following.line().ends_with("\"test-agent\"}}\n"));
    let process = Pid::from_child(&following.child);
    kill_process(process, Signal::INT).unwrap();
    assert_eq!(following.end(), (None, String::new(), String::new()));
}

#[test]
fn events_of_other_traces_are_not_shown() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (recording, other) = (home.recording(), home.recording());
    let id = recording.id().to_string();
    let mut following = Following::start(&place, &["trace", "follow", &id]);
    assert!(following.line().contains("session_initialized"));
    other.submit(note("elsewhere")).unwrap();
    recording.submit(note("here")).unwrap();
    assert!(following.line().contains("\"purpose\":\"here\""));
}

#[test]
fn a_trace_that_has_ended_is_shown_to_its_last_event() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let artifact = recording.put_artifact(b"my password is hunter2", "text/plain").unwrap();
    let hash = artifact.artifact_hash.to_hex();
    recording
        .submit(countersign_protocol::recording::RecordingCommand::RecordArtifact {
            purpose: "evidence".into(),
            artifacts: vec![artifact],
        })
        .unwrap();
    home.clock.advance(1_500);
    recording.conclude("all is well").unwrap();
    assert_eq!(place.run(&["artifact", "redact", &hash, "--reason", "a password"]).code, 0);
    let followed = place.run(&["trace", "follow", &recording.id().to_string()]);
    assert_eq!(followed.code, 0, "{followed}");
    let shown = place.run(&["trace", "show", &recording.id().to_string()]);
    assert_eq!(followed, shown);
    let last = followed.stdout().lines().last().unwrap();
    assert!(last.contains("artifact_redacted"), "{followed}");
}

#[test]
fn a_trace_that_is_not_there_cannot_be_followed() {
    let home = TestHome::new();
    assert_snapshot!(Place::owner_of(&home).run(&["trace", "follow", "01nothing"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: no trace `01nothing`
    hint: run `countersign trace list` to see all traces
    ");
}

#[test]
fn a_line_that_is_no_event_ends_it() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let path = home.workspace.trace_file(recording.id());
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{}\n");
    std::fs::write(&path, text).unwrap();
    let ended = place.run(&["trace", "follow", &recording.id().to_string()]);
    let talk = ended.stderr.replace(&recording.id().to_string(), "$ID");
    assert_eq!(ended.code, 1, "{ended}");
    assert_snapshot!(talk, @r"
    error: the line of event 1 cannot be read: the line is not an event
    hint: run `countersign verify $ID` to see everything that is wrong
    ");
}
