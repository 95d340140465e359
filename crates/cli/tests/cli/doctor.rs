//! What the doctor finds, and that nothing keeps it from looking on.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;

use crate::place::Place;

/// A workspace whose owner trusts its root.
fn trusted() -> (TestHome, Place) {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_eq!(place.run(&["keys", "trust", &home.workspace.root().to_hex()]).code, 0);
    (home, place)
}

/// The screen, in which the settings are called `$CONFIG`.
fn visit(home: &TestHome, place: &Place, arguments: &[&str]) -> String {
    let screen = place.run(arguments).to_string();
    screen.replace(&home.config().display().to_string(), "$CONFIG")
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// All files below `dir` with their bytes.
fn contents(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path)
            } else {
                found.push((path.clone(), fs::read(path).unwrap()))
            }
        }
    }
    found.sort();
    found
}

#[test]
fn keys_are_in_order_only_if_all_can_be_used() {
    let (home, place) = trusted();
    let keys = home.config().join("keys").join(home.workspace.root().to_hex());
    let file =
        |agent: &str| keys.join(format!("{}.json", home.workspace.find_key(agent).unwrap().key_id));
    fs::remove_file(file("critic")).unwrap();
    fs::write(file("planner"), "{}").unwrap();
    fs::set_permissions(file("auditor"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_snapshot!(visit(&home, &place, &["doctor"]), @r"
    exit 3
    --- stdout
    ok       store   $HOME
    WRONG    keys    the key of `auditor` cannot be used: `$CONFIG/keys/ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd/1356f3c45232a70a619958ae3ff00052.json` is open to other users (mode 0644); run `chmod 600 $CONFIG/keys/ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd/1356f3c45232a70a619958ae3ff00052.json`
    WRONG    keys    the key of `critic` cannot be used: missing from `$CONFIG/keys/ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd`
                     hint: run `countersign keys rotate critic`
    WRONG    keys    the key of `planner` cannot be used: `$CONFIG/keys/ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd/6f57f266409d5fe70a0d9fd07cf6e110.json` is damaged or not a key file, at line 1 column 2
                     hint: run `countersign keys rotate planner`
    ok       root    ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd is trusted
    ok       log     7 entries, chain and signatures hold
    ok       traces  0 traces in the store

    --- stderr
    ");
}

#[test]
fn a_directory_of_keys_that_is_open_to_others_is_one_finding() {
    let (home, place) = trusted();
    let keys = home.config().join("keys");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o755)).unwrap();
    assert_snapshot!(visit(&home, &place, &["doctor"]), @r"
    exit 3
    --- stdout
    ok       store   $HOME
    WRONG    keys    none of the 7 active keys can be used: `$CONFIG/keys` is open to other users (mode 0755); run `chmod 700 $CONFIG/keys`
    ok       root    ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd is trusted
    ok       log     7 entries, chain and signatures hold
    ok       traces  0 traces in the store

    --- stderr
    ");
}

#[test]
fn a_stranger_is_told_once_that_keys_are_elsewhere_and_to_compare_the_root() {
    let home = TestHome::new();
    assert_snapshot!(visit(&home, &Place::stranger_to(&home), &["doctor"]), @r"
    exit 3
    --- stdout
    ok       store   $HOME
    WRONG    keys    none of the 7 active keys can be used: missing from `$PLACE/config/keys/ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd`
                     hint: put the keys back, or let `COUNTERSIGN_CONFIG` name the directory that has them
    warning  root    ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd is not trusted: traces are unpinned
                     hint: compare the fingerprint with the one that you got from the workspace's owner, then run `countersign keys trust FINGERPRINT`
    ok       log     7 entries, chain and signatures hold
    ok       traces  0 traces in the store

    --- stderr
    ");
}

#[test]
fn an_agent_without_a_key_is_a_warning() {
    let (home, place) = trusted();
    let planner = home.workspace.find_key("planner").unwrap();
    home.workspace.revoke_key(&planner.key_id, "left the team").unwrap();
    assert_snapshot!(visit(&home, &place, &["doctor"]), @r"
    exit 0
    --- stdout
    ok       store   $HOME
    ok       keys    6 active keys can be used
    warning  keys    `planner` has no active key
                     hint: run `countersign keys rotate planner`
    ok       root    ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd is trusted
    ok       log     8 entries, chain and signatures hold
    ok       traces  0 traces in the store

    --- stderr
    ");
    assert_eq!(place.run(&["keys", "rotate", "planner"]).code, 0);
    assert!(place.run(&["doctor"]).stdout().contains("7 active keys can be used"));
}

#[test]
fn what_cannot_be_read_is_found_and_does_not_end_the_visit() {
    let (home, place) = trusted();
    let (bent, piped, whole) = (home.recording(), home.recording(), home.recording());
    fs::write(home.config().join("known_roots"), "# mine\nnot a root\n").unwrap();
    let checkpoint = home.path().join("log/checkpoint");
    fs::remove_file(&checkpoint).unwrap();
    make_pipe(&checkpoint);
    let dir = home.workspace.trace_file(bent.id()).parent().unwrap().to_owned();
    fs::remove_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink(&dir, &dir).unwrap();
    let events = home.workspace.trace_file(piped.id());
    fs::remove_file(&events).unwrap();
    make_pipe(&events);
    let screen = visit(&home, &place, &["doctor"]);
    assert_snapshot!(screen, @r"
    exit 3
    --- stdout
    ok       store   $HOME
    ok       keys    7 active keys can be used
    WRONG    root    the roots that you trust cannot be read: line 2 of `$CONFIG/known_roots` is not `<fingerprint> <label>`
                     hint: correct or remove that line; one that starts with `#` is a comment
    WRONG    log     its checkpoint cannot be used: could not read `$HOME/log/checkpoint`: not a regular file
                     hint: move it away: the next writer makes a new one
    ok       log     10 entries, chain and signatures hold
    WRONG    traces  01kggtstag26mk7eqrm5vp1c16 cannot be read: `$HOME/traces/01kggtstag26mk7eqrm5vp1c16/events.jsonl` is not a regular file
    WRONG    traces  01kggtstag494h28jgxgpqnqc9 cannot be read: too many levels of symbolic links

    --- stderr
    ");
    assert!(!screen.contains(&whole.id().to_string()));
    let repaired = place.run(&["doctor", "--repair"]);
    assert_eq!(repaired.code, 3, "{repaired}");
    assert!(repaired.stdout().contains("WRONG    root"), "{repaired}");
}

#[test]
fn a_torn_tail_is_a_warning_and_is_left_to_the_next_writer() {
    let (home, place) = trusted();
    let recording = home.recording();
    let path = home.workspace.trace_file(recording.id());
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"half\":").unwrap();
    let before = contents(&home.path());
    assert_snapshot!(visit(&home, &place, &["doctor"]), @r"
    exit 0
    --- stdout
    ok       store   $HOME
    ok       keys    7 active keys can be used
    ok       root    ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd is trusted
    ok       log     8 entries, chain and signatures hold
    warning  traces  01kggtstag494h28jgxgpqnqc9 ends in a torn line: its writer died, or is at it; the next writer sets it aside

    --- stderr
    ");
    assert_eq!(contents(&home.path()), before, "doctor writes nothing");
    home.reopen().recording(recording.id()).unwrap().submit(note("next")).unwrap();
    assert!(place.run(&["doctor"]).stdout().contains("ok       traces  1 trace in the store"));
    home.check(recording.id(), 3);
}

#[test]
fn a_log_that_does_not_begin_as_one_is_a_finding() {
    let (home, place) = trusted();
    fs::write(home.path().join("log/events.jsonl"), "{}\n").unwrap();
    assert_snapshot!(visit(&home, &place, &["doctor"]), @r"
    exit 3
    --- stdout
    WRONG    log     the log of `$HOME` cannot be used: the line is not an event
                     hint: compare it with a copy kept elsewhere: nothing can be read without it

    --- stderr
    ");
}

#[test]
fn keys_of_other_workspaces_are_not_looked_at() {
    let (home, place) = trusted();
    let other = home.config().join("keys").join("ab".repeat(32));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("broken.json"), "?").unwrap();
    let screen = place.run(&["doctor"]);
    assert_eq!(screen.code, 0, "{screen}");
    assert!(!screen.stdout().contains("abab"), "{screen}");
}

#[test]
fn findings_as_json_carry_their_hints() {
    let home = TestHome::new();
    let screen = Place::owner_of(&home).run(&["doctor", "--json"]);
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&screen.stdout).unwrap();
    let root = findings.iter().find(|finding| finding["area"] == "root").unwrap();
    assert_eq!(root["state"], "warning");
    assert!(root["hint"].as_str().unwrap().contains("countersign keys trust FINGERPRINT"));
}

#[test]
fn keys_below_the_workspace_are_a_warning() {
    let place = Place::empty();
    assert_eq!(place.run(&["init"]).code, 0);
    let visit = place.run(&["doctor"]);
    assert_eq!(visit.code, 0, "{visit}");
    let said = "lies in the workspace, where agents can read private keys\n";
    assert!(visit.stdout().contains(said), "{visit}");
    let (_home, place) = trusted();
    assert!(!place.run(&["doctor"]).stdout().contains(said));
}
