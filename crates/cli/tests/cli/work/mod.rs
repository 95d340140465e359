//! `countersign work`: items, leases, agents, and what goes wrong with them.

mod by_hand;
mod dispatched;
mod figures;
mod labels;
mod raced;
mod run;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::binary::Screen;
use crate::place::Place;

/// A workspace in which exit signals are taken.
pub(super) fn workspace() -> Place {
    let place = Place::empty();
    let made = place.run(&["init"]);
    assert_eq!(made.code, 0, "{made}");
    place
}

/// A command in which exit signals are taken.
pub(super) fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(arguments);
    command.env("AGENT_EXIT_PROTOCOL_ENABLED", "true").env("USER", "somebody");
    command
}

pub(super) fn run(place: &Place, arguments: &[&str]) -> Screen {
    run_with(place, arguments, b"")
}

pub(super) fn run_with(place: &Place, arguments: &[&str], stdin: &[u8]) -> Screen {
    crate::binary::run_with(command(place, arguments), stdin)
}

/// What a command answers, which must be done.
pub(super) fn done(place: &Place, arguments: &[&str]) -> String {
    let screen = run(place, arguments);
    assert_eq!(screen.code, 0, "{arguments:?}: {screen}");
    screen.stdout().trim_end().to_owned()
}

/// The same as JSON.
pub(super) fn answer(place: &Place, arguments: &[&str]) -> Value {
    let text = done(place, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

pub(super) fn open(place: &Place, title: &str) -> String {
    done(place, &["work", "open", title])
}

/// The events of an item, by type and payload.
pub(super) fn events(place: &Place, item: &str) -> Vec<(String, Value)> {
    let shown = answer(place, &["work", "show", item]);
    let events = shown["events"].as_array().unwrap();
    let event = |event: &Value| {
        (event["event_type"].as_str().unwrap().to_owned(), event["payload"].clone())
    };
    events.iter().map(event).collect()
}

/// What the first event of a trace links to.
pub(super) fn links(place: &Place, trace: &str) -> Value {
    let shown = done(place, &["trace", "show", trace, "--json"]);
    let first: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    first["payload"]["links"].clone()
}

pub(super) fn types(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(event_type, _)| event_type.as_str()).collect()
}

/// Whether a trace verifies: exit 0 if it is closed, 4 if it goes on.
pub(super) fn verify(place: &Place, trace: &str, code: i32) {
    let verified = run(place, &["verify", trace, "--no-write"]);
    assert_eq!(verified.code, code, "{verified}");
}

pub(super) fn signal(phase: &str, reason: &str) -> String {
    format!(
        "{{\"protocol\":\"apm2_agent_exit\",\"version\":\"1.0.0\",\"phase_completed\":\"{phase}\",\
         \"exit_reason\":\"{reason}\"}}"
    )
}

/// A shell script that says so on the descriptor.
pub(super) fn says(phase: &str, reason: &str) -> String {
    let signal = signal(phase, reason);
    format!("printf '%s %s\\n' \"$COUNTERSIGN_EXIT_NONCE\" '{signal}' >&\"$COUNTERSIGN_EXIT_FD\"")
}

/// Copies a directory of small files.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
