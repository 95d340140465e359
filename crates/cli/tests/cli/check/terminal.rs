//! What reaches a real terminal: nothing that it would obey, nothing that cannot be seen.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::event::valid_event;
use crate::binary::{command, run};
use crate::cases::{bytes, each, hostile, text};

/// Text for the places of a document in which a terminal could be addressed.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;t\u{7}\u{8}\r\u{9b}31m\u{7f}\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}\u{ad}\u{61c}x";

/// Runs `countersign` with a terminal as its standard output and error; what was shown there, or
/// nothing where the system has no `script`.
fn on_a_terminal(arguments: &[&str], no_color: Option<&str>) -> Option<String> {
    let quoted = [env!("CARGO_BIN_EXE_countersign")].iter().chain(arguments);
    let quoted: Vec<_> = quoted.map(|part| format!("'{}'", part.replace('\'', "'\\''"))).collect();
    let mut script = Command::new("script");
    script.args(["-qec", &quoted.join(" "), "/dev/null"]);
    script.stdin(Stdio::null()).env("TERM", "xterm").env("AGENT_EXIT_PROTOCOL_ENABLED", "1");
    match no_color {
        Some(value) => script.env("NO_COLOR", value),
        None => script.env_remove("NO_COLOR"),
    };
    let ended = script.output().ok()?;
    Some(String::from_utf8(ended.stdout).unwrap())
}

fn has_script() -> bool {
    on_a_terminal(&["--version"], Some("1")).is_some_and(|shown| shown.contains("countersign "))
}

fn assert_harmless(shown: &str, about: &str) {
    let bad = shown.chars().find(|&c| match u32::from(c) {
        0x0a | 0x0d | 0x09 => false,
        0x00..=0x1f | 0x7f..=0x9f | 0xad | 0x61c | 0x180e | 0xfeff => true,
        0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xe0000..=0xe0fff => true,
        _ => false,
    });
    assert_eq!(bad, None, "{about}: {shown:?}");
}

fn write(directory: &Path, name: &str, document: &[u8]) -> String {
    let path = directory.join(name);
    std::fs::write(&path, document).unwrap();
    path.to_str().unwrap().to_owned()
}

/// An event with `text` in its payload, as a key, and in places where it is a fault.
fn faulty_event(text: &Value) -> Vec<u8> {
    let mut event = valid_event();
    event["payload"]["remark"] = text.clone();
    event["event_type"] = text.clone();
    event["artifacts"] = text.clone();
    let key = format!("{}\u{ffff}", text.as_str().unwrap());
    event["payload"][key] = Value::Null;
    event.to_string().into_bytes()
}

#[test]
fn render_cases_are_harmless_on_a_terminal() {
    if !has_script() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let cases = hostile(&["render"]);
    each(&cases, |case| {
        let (name, document) = (text(case, "name"), bytes(case, "bytes_b64"));
        let path = write(home.path(), name, &document);
        for arguments in [&["check", "json", &path][..], &["check", "json", &path, "--json"]] {
            let shown = on_a_terminal(arguments, Some("1")).unwrap();
            assert_harmless(&shown, name);
            assert!(shown.len() >= document.len(), "{name}: {shown:?}");
        }
        let texts: Value = serde_json::from_slice(&document).unwrap();
        let path = write(home.path(), &format!("{name}-event"), &faulty_event(&texts[0]));
        let shown = on_a_terminal(&["check", "event", &path], Some("1")).unwrap();
        assert_harmless(&shown, name);
        assert!(shown.contains("error: not a valid event: "), "{name}: {shown:?}");
    });
    assert_eq!(cases.len(), 10);
}

/// Documents whose errors quote them: a key, an unknown value, a phase, a version, a path.
fn quoting(directory: &Path) -> Vec<(&'static str, String)> {
    let quoted = serde_json::to_string(HOSTILE).unwrap();
    let signal = |member: &str| {
        format!(
            "{{\"protocol\":\"apm2_agent_exit\",\"version\":\"1.0.0\",\
             \"phase_completed\":\"DRAFT\",\"exit_reason\":\"blocked\",{member}}}"
        )
    };
    let documents = [
        ("json", format!("{{{quoted}:1,{quoted}:2}}")),
        ("ledger-line", format!("{{{quoted}:1,{quoted}:2}}")),
        ("json", HOSTILE.to_owned()),
        ("json", quoted.clone()),
        ("event", String::from_utf8(faulty_event(&HOSTILE.into())).unwrap()),
        ("event", format!("{{{quoted}:[1,{{{quoted}:01}}]}}")),
        ("receipt", format!("{{{quoted}:1,\"action_type\":{quoted}}}")),
        ("receipt", HOSTILE.to_owned()),
        ("exit-signal", format!("{{\"protocol\":{quoted}}}")),
        ("exit-signal", format!("{{\"protocol\":\"apm2_agent_exit\",\"version\":{quoted}}}")),
        ("exit-signal", signal(&format!("{quoted}:1"))),
        ("exit-signal", signal(&format!("\"pr_url\":{quoted}"))),
        ("exit-signal", signal(&format!("\"pr_url\":\"https://a/{HOSTILE}\"")).replace('\r', "")),
        ("input-envelope", format!("{{\"paths\":{{{quoted}:{quoted}}},{quoted}:1}}")),
        ("output-envelope", format!("{{\"artifacts\":[{{\"path\":{quoted}}}]}}")),
        ("task", format!("{quoted} = 1\ntask_id = {quoted}\npolicy_profile = {quoted}\n")),
        ("task", HOSTILE.to_owned()),
    ];
    let name = |index: usize| format!("document-{index}");
    let write = |(index, (kind, text)): (usize, (&'static str, String))| {
        (kind, write(directory, &name(index), text.as_bytes()))
    };
    documents.into_iter().enumerate().map(write).collect()
}

#[test]
fn errors_that_quote_the_input_are_harmless_everywhere() {
    let home = tempfile::tempdir().unwrap();
    let mut all = quoting(home.path());
    all.push(("json", home.path().join(HOSTILE.replace('/', "")).to_str().unwrap().to_owned()));
    let terminal = has_script();
    each(&all, |(kind, path)| {
        let mut check = command(&["check", kind, path]);
        let ended = check.env("AGENT_EXIT_PROTOCOL_ENABLED", "1").output().unwrap();
        assert_harmless(&String::from_utf8(ended.stderr).unwrap(), kind);
        let mut check = command(&["check", kind, path, "--json"]);
        let ended = check.env("AGENT_EXIT_PROTOCOL_ENABLED", "1").output().unwrap();
        assert_harmless(&String::from_utf8(ended.stdout).unwrap(), kind);
        if terminal {
            let shown = on_a_terminal(&["check", kind, path], Some("1")).unwrap();
            assert_harmless(&shown, kind);
        }
    });
    let screen = run(&["check", HOSTILE], "");
    assert_eq!(screen.code, 2);
    assert_harmless(&screen.stderr, "kind");
}

#[test]
fn colours_are_for_terminals_and_can_be_refused() {
    if !has_script() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let path = write(home.path(), "document", b"{");
    let reason = "not valid: unexpected end of input, expected `\"` at line 1 column 2";
    let shown = |no_color| on_a_terminal(&["check", "json", &path], no_color).unwrap();
    assert_eq!(shown(Some("1")), format!("error: {reason}\r\n"));
    assert_eq!(shown(None), format!("\u{1b}[1;31merror\u{1b}[0m: {reason}\r\n"));
    assert_eq!(shown(Some("")), shown(None));
}
