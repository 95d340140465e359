//! Traces that were changed, cut, emptied or taken away: every overview shows it, and every hint that it
//! gives leads on.

use std::fs;
use std::path::PathBuf;

use countersign_runtime::Recording;
use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;

use crate::binary::Screen;
use crate::place::Place;

/// A recording of five events that has ended, whose owner trusts it.
fn ended() -> (TestHome, Place, Recording) {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let _ = recording.submit(note("fine")).unwrap();
    recording.conclude("done").unwrap();
    assert_eq!(place.run(&["keys", "trust", &home.workspace.root().to_hex()]).code, 0);
    assert_eq!(place.run(&["trace", "list"]).code, 0, "the index knows it whole");
    (home, place, recording)
}

fn file(home: &TestHome, recording: &Recording) -> PathBuf {
    home.workspace.trace_file(recording.id())
}

/// The words of an agent are other ones of the same length.
fn forge(home: &TestHome, recording: &Recording) {
    let path = file(home, recording);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"done\""));
    fs::write(&path, text.replace("\"done\"", "\"gone\"")).unwrap();
}

fn listed(place: &Place, recording: &Recording) -> String {
    place.run(&["trace", "list"]).to_string().replace(&recording.id().to_string(), "$ID")
}

/// What doctor says of traces, and how it ends.
fn visited(place: &Place, recording: &Recording) -> String {
    let visit = place.run(&["doctor"]);
    let said = visit.stdout().replace(&recording.id().to_string(), "$ID");
    let from = said.find("WRONG    traces").unwrap_or(said.len());
    let to = said.find("ok       index").unwrap_or(said.len());
    format!("exit {}\n{}", visit.code, said.get(from..to).unwrap_or_default())
}

/// Runs the last hint of the screen that has a command.
fn follow_hint(place: &Place, screen: &Screen) -> Screen {
    let text = screen.to_string();
    let from = text.rfind("run `countersign ").unwrap() + "run `countersign ".len();
    let command = text.get(from..).unwrap().split('`').next().unwrap().to_owned();
    place.run(&command.split(' ').collect::<Vec<_>>())
}

#[test]
fn a_changed_event_shows_in_the_list_and_to_doctor() {
    let (home, place, recording) = ended();
    forge(&home, &recording);
    assert_snapshot!(listed(&place, &recording), @r"
    exit 0
    --- stdout
    trace                       kind       status     outcome        events  started                        took  task
    $ID  recording  damaged    -                   2  2026-02-03T04:05:06.000Z          -  -

    --- stderr
    warning: trace $ID is damaged: event 2: the event hashes to 18cc31a2a4fe6114423364e902aaf3757c1d4ba6551a405ecf183356c43bd759, it states b08a7b09807ba8b119ec7f13c0d666b60df9294b297640e3e84a9ea8256c7235
    hint: run `countersign verify $ID`
    ");
    assert_snapshot!(visited(&place, &recording), @r"
    exit 3
    WRONG    traces  $ID is damaged at event 2: the event hashes to 18cc31a2a4fe6114423364e902aaf3757c1d4ba6551a405ecf183356c43bd759, it states b08a7b09807ba8b119ec7f13c0d666b60df9294b297640e3e84a9ea8256c7235
                     hint: run `countersign verify $ID`
    ");
}

#[test]
fn a_changed_first_event_is_listed_and_named_by_doctor() {
    let (home, place, recording) = ended();
    let path = file(&home, &recording);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("session_initialized", "session_initializes", 2)).unwrap();
    assert_snapshot!(listed(&place, &recording), @r"
    exit 0
    --- stdout
    trace                       kind       status     outcome        events  started                        took  task
    $ID  recording  damaged    -                   0  -                                 -  -

    --- stderr
    warning: trace $ID is damaged: event 0: the line is not an event
    hint: run `countersign verify $ID`
    ");
    assert_snapshot!(visited(&place, &recording), @r"
    exit 3
    WRONG    traces  $ID is damaged at event 0: the line is not an event
                     hint: run `countersign verify $ID`
    ");
}

#[test]
fn an_event_that_was_taken_out_is_found_by_doctor() {
    let (home, place, recording) = ended();
    let path = file(&home, &recording);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&path, [lines[0], lines[2], lines[3], lines[4]].concat()).unwrap();
    let visit = visited(&place, &recording);
    assert!(visit.contains("$ID is damaged at event 1: event 1 does not follow"), "{visit}");
    assert!(visit.starts_with("exit 3"), "{visit}");
    assert!(listed(&place, &recording).contains("$ID has 4 events, the log knows 5"));
}

#[test]
fn a_trace_that_is_cut_emptied_or_gone_is_listed_with_what_the_log_knows() {
    let (home, place, recording) = ended();
    let path = file(&home, &recording);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&path, [lines[0], lines[1]].concat()).unwrap();
    assert_snapshot!(listed(&place, &recording), @r"
    exit 0
    --- stdout
    trace                       kind       status     outcome        events  started                        took  task
    $ID  recording  damaged    -                   2  2026-02-03T04:05:06.000Z          -  -

    --- stderr
    warning: trace $ID has 2 events, the log knows 5
    hint: run `countersign verify $ID`
    ");
    fs::write(&path, "").unwrap();
    assert_snapshot!(listed(&place, &recording), @r"
    exit 0
    --- stdout
    trace                       kind       status     outcome        events  started                        took  task
    $ID  recording  gone       -                   0  -                                 -  -

    --- stderr
    warning: trace $ID is empty; the log knows 5 of its events
    hint: run `countersign verify $ID`
    ");
    assert_snapshot!(visited(&place, &recording), @r"
    exit 3
    WRONG    traces  $ID is empty; the log knows 5 of its events
                     hint: run `countersign verify $ID`
    ");
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    assert_snapshot!(listed(&place, &recording), @r"
    exit 0
    --- stdout
    trace                       kind       status     outcome        events  started                        took  task
    $ID  recording  gone       -                   0  -                                 -  -

    --- stderr
    warning: trace $ID is gone; the log knows 5 of its events
    hint: run `countersign verify $ID`
    ");
    let visit = place.run(&["doctor"]);
    let told = follow_hint(&place, &visit);
    assert_eq!(told.code, 3, "{told}");
    assert!(told.stderr.contains("is gone: the workspace log knows 5 of its events"), "{told}");
}

#[test]
fn damage_is_a_status_of_its_own_for_programs() {
    let (home, place, recording) = ended();
    let gone = home.recording();
    fs::remove_dir_all(file(&home, &gone).parent().unwrap()).unwrap();
    forge(&home, &recording);
    let listed = place.run(&["trace", "list", "--json"]);
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let seen: Vec<_> = listed.iter().map(|it| (it["trace_id"].clone(), &it["status"])).collect();
    let (damaged, gone) = (recording.id().to_string(), gone.id().to_string());
    assert_eq!(seen, [(damaged.into(), &"damaged".into()), (gone.into(), &"gone".into())]);
}

#[test]
fn many_damaged_traces_are_counted_and_doctor_names_them() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    for _ in 0..7 {
        let path = file(&home, &home.recording());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
    let list = place.run(&["trace", "list"]);
    assert_eq!(list.stderr.matches("is gone; the log knows").count(), 5, "{list}");
    assert!(list.stderr.contains("2 more are damaged or gone"), "{list}");
    assert_eq!(place.run(&["doctor"]).stdout().matches("is gone; the log knows").count(), 7);
}

#[test]
fn a_changed_event_is_not_followed_as_if_it_had_been_recorded() {
    let (home, place, recording) = ended();
    forge(&home, &recording);
    let followed = place.run(&["trace", "follow", &recording.id().to_string()]);
    assert_eq!(followed.code, 1, "{followed}");
    assert!(!followed.stdout().contains("gone"), "{followed}");
    assert!(followed.stderr.contains("the line of event 2 cannot be read: the event hashes to"));
}

#[test]
fn what_verify_and_show_say_of_a_changed_event_leads_to_its_line() {
    let (home, place, recording) = ended();
    forge(&home, &recording);
    let id = recording.id().to_string();
    let verified = place.run(&["verify", &id, "--no-write"]);
    let shown = follow_hint(&place, &verified);
    let line = fs::read_to_string(file(&home, &recording)).unwrap();
    let line = line.lines().nth(2).unwrap().to_owned();
    assert!(shown.stdout().contains(&format!("as it stands: {line}\n")), "{shown}");
    assert!(shown.stdout().starts_with("     2  cannot be read: the event hashes to"), "{shown}");
    assert!(shown.stdout().contains("verification_run_completed"), "and what follows: {shown}");
    assert_eq!(shown.code, 1);
    let again = follow_hint(&place, &shown);
    assert_eq!(again.code, 3, "{again}");
    assert!(again.stdout().contains("HASH_MISMATCH at event 2"), "{again}");
    let before = place.run(&["trace", "show", &id, "--count", "2"]);
    assert_eq!(before.code, 0, "what is shown can be read: {before}");
}

#[test]
fn a_line_that_cannot_be_read_cannot_drive_the_terminal() {
    let (home, place, recording) = ended();
    let path = file(&home, &recording);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "\u{1b}[2Jnothing to see\n").unwrap();
    let shown = place.run(&["trace", "show", &recording.id().to_string(), "--from", "5"]);
    assert!(shown.stdout().contains("nothing to see"), "{shown}");
    assert!(!shown.stdout().contains('\u{1b}'), "{shown}");
}

#[test]
fn what_is_said_of_the_log_leads_to_its_entry() {
    let (home, place, _) = ended();
    let path = home.path().join("log/events.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"Critic\"", "\"Cricic\"", 1)).unwrap();
    let verified = place.run(&["verify", "log", "--no-write"]);
    assert_eq!(verified.code, 3, "{verified}");
    let shown = follow_hint(&place, &verified);
    assert!(shown.stdout().contains("Cricic"), "{shown}");
    assert!(follow_hint(&place, &shown).stdout().contains("HASH_MISMATCH"), "{shown}");
}

#[test]
fn the_log_is_shown_like_a_trace() {
    let (_home, place, _) = ended();
    let shown = place.run(&["trace", "show", "log", "--from", "8"]);
    assert_eq!(shown.code, 0, "{shown}");
    assert!(shown.stdout().contains("trace_closed"), "{shown}");
}

#[test]
fn a_trusted_root_is_not_called_untrusted_where_a_signature_is_wanting() {
    let (home, place, recording) = ended();
    let path = file(&home, &recording);
    let whole = fs::read_to_string(&path).unwrap();
    let id = recording.id().to_string();
    let verify = || place.run(&["verify", &id, "--no-write"]).stdout().to_owned();
    assert!(verify().contains(", which you trust\n"));
    fs::write(&path, format!("{whole}\n")).unwrap();
    let said = verify();
    assert!(said.contains(", which vouches for 5 of 6 events\n"), "{said}");
    fs::write(&path, &whole).unwrap();
    forge(&home, &recording);
    let said = verify();
    assert!(said.contains(", which vouches for 4 of 5 events\n"), "{said}");
    assert!(!said.contains("you do not trust"), "{said}");
    assert!(said.contains("(no audit ends before event 2, where reading stopped)"), "{said}");
}
