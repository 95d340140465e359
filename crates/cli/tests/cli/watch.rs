//! `countersign watch`: the workspace live, once, and in one line.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use countersign_format::event::EventRef;
use countersign_protocol::ReviewDecision;
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::Recording;
use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;

use crate::place::Place;

const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;t\u{7}\r\u{202e}\u{200b}中文";
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";
/// Bytes after which whatever was waited for does not come any more.
const SHOWN_MAX: usize = 1 << 20;

fn intend(home: &TestHome, recording: &Recording) -> EventRef {
    let input = b"{\"tool\":\"file_delete\",\"path\":\"doomed\"}";
    let input = recording.put_artifact(input, "application/json").unwrap();
    recording
        .submit(RecordingCommand::Intend {
            tool_name: "file_delete".into(),
            input_hash: input.artifact_hash,
            safety_classification: "critical".into(),
            justification: "it is in the way".into(),
            artifacts: vec![input],
        })
        .unwrap();
    let event = home.events(recording.id()).pop().unwrap();
    EventRef { event_id: event.event_id, seq: event.seq.unwrap() }
}

fn review(recording: &Recording, intent: EventRef, decision: ReviewDecision, reason: &str) {
    let reasons = vec![reason.to_owned()];
    recording.submit(RecordingCommand::Review { intent, decision, reasons }).unwrap();
}

/// A recording in which something was denied and a person is asked.
fn scene(home: &TestHome) -> Recording {
    let recording = home.workspace.begin_recording(Some("test-agent"), Some("tidy up")).unwrap();
    let intent = intend(home, &recording);
    review(&recording, intent, ReviewDecision::Blocked, "not this one");
    let intent = intend(home, &recording);
    review(&recording, intent, ReviewDecision::Asked, "a person must say");
    recording
}

/// Ages, which depend on the day of the test, replaced.
fn ageless(text: &str) -> String {
    let ages = |word: &str| {
        let (digits, unit) = word.split_at(word.len().saturating_sub(1));
        !digits.is_empty()
            && digits.bytes().all(|it| it.is_ascii_digit())
            && ["s", "m", "h", "d"].contains(&unit)
    };
    let lines = text.lines().map(|line| {
        let words = line.split(' ').map(|word| match word.strip_suffix(',') {
            Some(word) if ages(word) => "$AGE,",
            None if ages(word) => "$AGE",
            _ => word,
        });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn without_a_terminal_it_is_printed_once() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = scene(&home);
    let work = place.command(&["work", "open", "Mend the roof", "--label", "ROOF-1"]).output();
    assert!(work.unwrap().status.success());
    let screen = place.run(&["watch"]);
    assert_eq!(screen.code, 0, "{screen}");
    let question = home.workspace.questions().unwrap().0.remove(0).id;
    let id = recording.id().to_string();
    let shown =
        ageless(screen.stdout()).replace(&question, "$QUESTION").replace(&id[..12], "$TRACE");
    // The item was opened now, by the system's clock.
    let shown: Vec<&str> = shown.lines().filter(|line| !line.contains("opens: ")).collect();
    assert_snapshot!(shown.join("\n"), @r#"
    QUESTIONS (1)
      waits for $AGE, critical: file_delete
        countersign approve $QUESTION --yes (or --no)
    RUNNING (1)
      recording tidy up              recorder  $AGE asks a person about file_delete doomed
    DECISIONS (2)
      ask   rule   $AGE file_delete doomed: a person must say
      deny  rule   $AGE file_delete doomed: not this one
    WORK (1)
      DRAFT            ROOF-1       free for $AGE            Mend the roof
    LAST EVENTS (6)
      04:05:06 $TRACE recorder  asks a person about file_delete doomed
      04:05:06 $TRACE recorder  intends file_delete doomed (critical)
      04:05:06 $TRACE recorder  blocks file_delete doomed: not this one
      04:05:06 $TRACE recorder  intends file_delete doomed (critical)
      04:05:06 $TRACE recorder  begins: tidy up
    "#);
    assert_eq!(place.run(&["watch", "--once"]).code, 0);
}

/// On a long board the first rows of the screen are all that is seen of it.
#[test]
fn what_is_held_stands_before_what_nobody_works_on() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    for label in ["W-1", "W-2", "W-3"] {
        let opened = place.run(&["work", "open", "Mend the roof", "--label", label]);
        assert_eq!(opened.code, 0, "{opened}");
    }
    let mut claim = place.command(&["work", "claim", "W-3", "--as", "ana", "--for", "1h"]);
    let claimed = claim.env("AGENT_EXIT_PROTOCOL_ENABLED", "true").output().unwrap();
    assert!(claimed.status.success(), "{claimed:?}");
    let seen = place.run(&["watch", "--json"]).answer();
    let labels: Vec<_> = (0..3).map(|at| seen["work"][at]["label"].clone()).collect();
    assert_eq!(labels, ["W-3", "W-1", "W-2"]);
}

#[test]
fn that_a_person_unblocked_an_item_is_told_with_what_it_was() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let work = |arguments: &[&str], stdin: &[u8]| {
        let mut command = place.command(&[&["work"], arguments].concat());
        command.env("AGENT_EXIT_PROTOCOL_ENABLED", "true");
        let screen = crate::binary::run_with(command, stdin);
        assert_eq!(screen.code, 0, "{screen}");
        screen
    };
    work(&["open", "Mend the roof", "--label", "ROOF-1"], b"");
    let claimed = work(&["claim", "ROOF-1", "--as", "ana", "--json"], b"");
    let lease: serde_json::Value = serde_json::from_slice(&claimed.stdout).unwrap();
    let signal = b"{\"protocol\":\"apm2_agent_exit\",\"version\":\"1.0.0\",\
        \"phase_completed\":\"DRAFT\",\"exit_reason\":\"blocked\",\"notes\":\"which roof?\"}";
    let (epoch, session) = (lease["epoch"].to_string(), lease["session_id"].as_str().unwrap());
    work(&["exit", "ROOF-1", "--lease", &epoch, "--session", session], signal);
    work(&["unblock", "ROOF-1", "--reason", "the red one"], b"");
    let seen = place.run(&["watch", "--json"]).answer();
    let decided = &seen["decisions"][0];
    assert_eq!((&decided["ruling"], &decided["by"]), (&"allowed".into(), &"person".into()));
    assert_eq!(decided["action"], "unblock Mend the roof, back to DRAFT");
}

#[test]
fn one_line_tells_how_it_stands() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_eq!(place.run(&["watch", "--line"]).stdout(), "countersign: idle\n");
    let recording = scene(&home);
    // The denial is of the tests' clock, and so too old to be told.
    assert_eq!(place.run(&["watch", "--line"]).stdout(), "countersign: 1 running · 1 question\n");
    let answer = place.run(&["watch", "--line", "--json"]).answer();
    assert_eq!(
        (&answer["running"], &answer["questions"], &answer["held"], &answer["last_denial"]),
        (&1.into(), &1.into(), &0.into(), &serde_json::Value::Null)
    );
    recording.conclude("enough").unwrap();
    assert_eq!(place.run(&["watch", "--line"]).stdout(), "countersign: idle\n");
}

#[test]
fn a_program_gets_the_same_as_a_document() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    scene(&home);
    let seen = place.run(&["watch", "--json"]).answer();
    assert_eq!(seen["running"][0]["title"], "tidy up");
    assert_eq!(seen["running"][0]["last"]["sentence"], "asks a person about file_delete doomed");
    assert_eq!(seen["questions"][0]["title"], "file_delete");
    let rulings: Vec<_> = (0..2).map(|at| seen["decisions"][at]["ruling"].clone()).collect();
    assert_eq!(rulings, ["asked", "denied"]);
}

#[test]
fn a_trace_that_cannot_be_read_is_named_and_hides_no_other() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (bad, good) = (home.recording(), home.recording());
    good.submit(note("still here")).unwrap();
    let path = home.workspace.trace_file(bad.id());
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{}\n");
    fs::write(&path, text).unwrap();
    let screen = place.run(&["watch", "--once"]);
    assert_eq!(screen.code, 0, "{screen}");
    let shown = screen.stdout();
    assert!(
        shown.starts_with(&format!("CANNOT BE READ (1)\n  {}  event 1: ", bad.id())),
        "{shown}"
    );
    assert!(shown.contains("keeps evidence: still here"), "{shown}");
    let line = place.run(&["watch", "--line"]);
    assert_eq!(line.stdout(), "countersign: 1 running · 1 unreadable\n");
}

/// A `watch` on a terminal of its own; it is ended when dropped.
struct Live {
    script: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    shown: String,
}

impl Live {
    fn start(place: &Place) -> Self {
        let wanted = place.command(&["watch"]);
        let quote = |part: &std::ffi::OsStr| format!("'{}'", part.to_str().unwrap());
        let mut line = quote(wanted.get_program());
        for argument in wanted.get_args() {
            line = format!("{line} {}", quote(argument));
        }
        let tty = place.path().join("tty");
        let line = format!("tty > '{}'; stty cols 80 rows 24; exec {line}", tty.display());
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("NO_COLOR", "1");
        script.envs(wanted.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut script = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test needs `script`, of util-linux");
        let (keys, screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        Self { script, keys, screen, shown: String::new() }
    }

    /// Waits until the screen has shown `text` since the last time.
    fn until(&mut self, text: &str) -> String {
        let mut pending = Vec::new();
        while !self.shown.contains(text) {
            let mut bytes = [0; 4096];
            let count = self.screen.read(&mut bytes).unwrap();
            assert!(count > 0 && self.shown.len() < SHOWN_MAX, "no {text:?} in {:?}", self.shown);
            pending.extend_from_slice(&bytes[..count]);
            let whole = match std::str::from_utf8(&pending) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            };
            let rest = pending.split_off(whole);
            self.shown.push_str(&String::from_utf8(pending).unwrap());
            pending = rest;
        }
        let end = self.shown.find(text).unwrap() + text.len();
        let rest = self.shown.split_off(end);
        std::mem::replace(&mut self.shown, rest)
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
        self.keys.flush().unwrap();
    }

    fn ended(&mut self) -> Option<i32> {
        self.script.wait().unwrap().code()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// The frames that were drawn whole, each as its lines.
fn frames(shown: &str) -> Vec<Vec<String>> {
    let whole = shown.split("\u{1b}[H").skip(1).filter_map(|frame| frame.split_once("\u{1b}[J"));
    whole
        .map(|(frame, _)| {
            frame
                .split("\r\n")
                .map(|line| line.replace("\u{1b}[K", "").trim_end_matches('\r').to_owned())
                .collect()
        })
        .collect()
}

#[test]
fn what_is_recorded_appears_and_the_screen_is_given_back_after_ctrl_c() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = scene(&home);
    let mut live = Live::start(&place);
    live.until(ENTER);
    let first = live.until("\u{1b}[J");
    assert!(first.contains("asks a person about file_delete doomed"), "{first:?}");
    // What is recorded only now can only be shown if it was noticed.
    recording.submit(note("something new")).unwrap();
    live.until("keeps evidence: something new");
    live.press(b"\x03");
    live.until(LEAVE);
    assert_eq!(live.ended(), Some(0));
}

#[test]
fn q_ends_it() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let mut live = Live::start(&place);
    live.until("RUNNING none");
    live.press(b"xq");
    live.until(LEAVE);
    assert_eq!(live.ended(), Some(0));
}

#[test]
fn every_frame_fits_the_screen_and_nothing_in_it_is_obeyed() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    for turn in 0..40 {
        let title = format!("{turn} {}", HOSTILE.repeat(20));
        let recording = home.workspace.begin_recording(Some("agent"), Some(&title)).unwrap();
        recording.submit(note(&HOSTILE.repeat(20))).unwrap();
    }
    let mut live = Live::start(&place);
    let mut shown = live.until("\u{1b}[J");
    shown.push_str(&live.until("\u{1b}[J"));
    let drawn = frames(&shown);
    assert_eq!(drawn.len(), 2);
    for frame in drawn {
        assert!(frame.len() <= 24, "{frame:?}");
        for line in frame {
            // What is erased behind a line must not be its last character.
            assert!(line.chars().count() < 80, "{line:?}");
            assert!(!line.chars().any(|it| it.is_control() || it == '\u{202e}'), "{line:?}");
        }
    }
    assert!(shown.contains("\\u{1b}[2J"), "{shown:?}");
    // The window grows, and so does the picture.
    let tty = fs::read_to_string(place.path().join("tty")).unwrap();
    let sized = Command::new("stty").args(["-F", tty.trim(), "cols", "120", "rows", "50"]).status();
    assert!(sized.unwrap().success());
    let mut rows = 0;
    while rows <= 24 {
        let shown = live.until("\u{1b}[J");
        rows = frames(&shown).last().unwrap().len();
    }
    assert!(rows <= 50);
    live.press(b"q");
    live.until(LEAVE);
}
