//! The proxy: before servers that we did not write, before one that means harm, and in a client's
//! configuration.

mod calls;
mod configuration;
mod hostile;
mod http;
mod http_hostile;
mod lists;
mod people;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use crate::place::Place;

/// A place with a workspace as it is made.
fn workspace() -> Place {
    let place = Place::empty();
    let made = place.run(&["init"]);
    assert_eq!(made.code, 0, "{made}");
    place
}

fn python() -> String {
    std::env::var("COUNTERSIGN_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// A file of the clients and servers that the tests bring.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients").join(name)
}

/// The proxy with these options before the server that means harm.
fn proxied(place: &Place, options: &[&str]) -> Command {
    let server = script("hostile.py").display().to_string();
    let python = python();
    let all = [&["proxy", "--name", "hostile"], options, &["--", &python, "-u", &server]].concat();
    place.command(&all)
}

/// A client of that, which cannot ask its user anything.
fn connect(place: &Place, options: &[&str]) -> StdioServer {
    StdioServer::connect(proxied(place, options), &json!({}))
}

/// Asks for the tools, as clients do first.
fn list(client: &mut StdioServer) -> Value {
    client.request("tools/list", &json!({}))["result"]["tools"].clone()
}

/// The answer to a call.
fn call(client: &mut StdioServer, tool: &str, arguments: &Value) -> Value {
    client.request("tools/call", &json!({ "name": tool, "arguments": arguments }))
}

/// The text of an answer, and whether it says that it failed.
fn said(answer: &Value) -> (String, bool) {
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("no text: {answer}")).to_owned();
    (text, answer["result"]["isError"] == json!(true))
}

/// The ids of all traces, oldest first.
fn traces(place: &Place) -> Vec<String> {
    let Ok(found) = fs::read_dir(place.path().join(".countersign/traces")) else {
        return Vec::new();
    };
    let mut ids: Vec<String> =
        found.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    ids.sort();
    ids
}

/// The events of the only trace.
fn events(place: &Place) -> Vec<Value> {
    let ids = traces(place);
    let [id] = ids.as_slice() else { panic!("not one trace: {ids:?}") };
    events_of(place, id)
}

fn events_of(place: &Place, id: &str) -> Vec<Value> {
    let file = place.path().join(".countersign/traces").join(id).join("events.jsonl");
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The bytes of an artifact.
fn artifact(place: &Place, hash: &str) -> String {
    let dir = place.path().join(".countersign/artifacts/sha256");
    fs::read_to_string(dir.join(&hash[..2]).join(&hash[2..4]).join(hash)).unwrap()
}

fn of_type<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["event_type"] == json!(name)).collect()
}

/// How each call ended: its tool, and `succeeded`, or the outcome with its reason.
fn ends(events: &[Value]) -> Vec<(String, String)> {
    let ends = events.iter().filter_map(|event| {
        let payload = &event["payload"];
        let tool = payload["action"]["metadata"]["tool_name"].as_str();
        let tool =
            tool.or_else(|| payload["action"]["tool_name"].as_str()).unwrap_or("?").to_owned();
        match event["event_type"].as_str()? {
            "tool_execution_completed" => Some((tool, "succeeded".to_owned())),
            "tool_execution_failed" => {
                let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
                Some((tool, format!("{}: {}", text("outcome"), text("reason"))))
            }
            _ => None,
        }
    });
    ends.collect()
}

/// Ends the proxy as a client does; the trace is closed and in order.
fn end(place: &Place, client: &mut StdioServer) -> String {
    let (code, talk) = client.end();
    assert_eq!(code, Some(0), "{talk}");
    check_all(place);
    talk
}

/// Every trace verifies.
fn check_all(place: &Place) {
    for id in traces(place) {
        let verified = place.run(&["verify", &id]);
        assert_eq!(verified.code, 0, "{verified}");
    }
}
