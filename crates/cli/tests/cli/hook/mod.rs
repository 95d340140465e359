//! Hooks, as the programs of agents call them.

mod agents_files;
mod documented;
mod failing;
mod generic;
#[cfg(target_os = "linux")]
mod killed;
mod player;
mod sessions;
mod settings;

use serde_json::{Value, json};

use crate::binary::Screen;
use crate::place::Place;

/// A place with a workspace.
fn workspace() -> Place {
    let place = Place::empty();
    let made = place.run(&["init"]);
    assert_eq!(made.code, 0, "{made}");
    place
}

/// What Claude Code gives to the hook of `event`, with what is common to all and these members.
fn claude(place: &Place, event: &str, members: &Value) -> Value {
    let mut input = json!({
        "session_id": "abc123",
        "transcript_path": "/transcripts/abc123.jsonl",
        "cwd": place.path(),
        "permission_mode": "default",
        "hook_event_name": event,
    });
    input.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    input
}

/// A call of a tool, before it runs.
fn before(place: &Place, id: &str, tool: &str, input: &Value) -> Value {
    let members = json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id });
    claude(place, "PreToolUse", &members)
}

/// The same after it ran.
fn after(place: &Place, id: &str, tool: &str, input: &Value, response: &Value) -> Value {
    let members = json!({
        "tool_name": tool, "tool_input": input, "tool_use_id": id, "tool_response": response,
    });
    claude(place, "PostToolUse", &members)
}

/// Runs the hook.
fn hook(place: &Place, input: &Value) -> Screen {
    hook_with(place, &[], input.to_string().as_bytes())
}

fn hook_with(place: &Place, options: &[&str], input: &[u8]) -> Screen {
    let mut screen = place.run_with(&[&["hook", "claude-code"], options].concat(), input);
    screen.stdout = without_ids(screen.stdout()).into_bytes();
    screen.stderr = without_ids(&screen.stderr);
    screen
}

/// What the hook says to a call that is left to Claude Code's own rules.
const NOTHING: &str = "nothing";

/// What the hook says to a call.
fn decision(screen: &Screen) -> String {
    assert_eq!(screen.code, 0, "{screen}");
    if screen.stdout.is_empty() {
        return NOTHING.to_owned();
    }
    let answer: Value = serde_json::from_slice(&screen.stdout).unwrap();
    answer["hookSpecificOutput"]["permissionDecision"].as_str().unwrap().to_owned()
}

/// A text in which every id is `$ID`.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| {
        word.len() == 26
            && word.starts_with('0')
            && word.bytes().all(|it| it.is_ascii_alphanumeric())
    };
    let mut told = String::new();
    for word in text.split_inclusive(|it: char| !it.is_ascii_alphanumeric()) {
        let name = word.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
        told.push_str(&if is_id(name) { word.replace(name, "$ID") } else { word.to_owned() });
    }
    told
}

/// The ids of all traces.
fn traces(place: &Place) -> Vec<String> {
    let listed = place.run(&["trace", "list", "--json"]);
    let list: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    list.iter().map(|trace| trace["trace_id"].as_str().unwrap().to_owned()).collect()
}

/// The events of a trace.
fn events(place: &Place, trace: &str) -> Vec<Value> {
    let file = place.path().join(".countersign/traces").join(trace).join("events.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The types of these events.
fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}

/// What the receipts of a trace say: the decision, how it was tied to a verdict, and whether it went well.
fn receipts(events: &[Value]) -> Vec<Value> {
    let actions = events.iter().filter_map(|event| event["payload"].get("action"));
    let told = |action: &Value| {
        json!([action["gate_decision"], action["metadata"]["gating"], action["success"]])
    };
    actions.map(told).collect()
}

/// Every trace verifies, whether it has ended or not.
fn verify_all(place: &Place) {
    for trace in traces(place) {
        let verified = place.run(&["verify", &trace, "--allow-open"]);
        assert_eq!(verified.code, 0, "{verified}");
    }
}
