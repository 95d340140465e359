//! Servers that we did not write, with and without the proxy, by clients that we did not write.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{check_all, ends, events, of_type, script, workspace};
use crate::place::Place;

const HINT: &str = "run `cargo xtask test`, which installs the servers";

fn variable(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: {HINT}")).into()
}

fn modules() -> PathBuf {
    variable("COUNTERSIGN_TEST_MCP_NODE_MODULES")
}

fn node() -> String {
    std::env::var("COUNTERSIGN_TEST_NODE").unwrap_or_else(|_| "node".to_owned())
}

/// How an installed server is started.
fn installed(name: &str, arguments: &[&str]) -> Vec<String> {
    let file = modules().join("@modelcontextprotocol").join(name).join("dist/index.js");
    let mut command = vec![node(), file.display().to_string()];
    command.extend(arguments.iter().map(|it| (*it).to_owned()));
    command
}

/// The same behind the proxy.
fn behind_proxy(name: &str, command: &[String]) -> Vec<String> {
    let proxy = [env!("CARGO_BIN_EXE_countersign"), "proxy", "--name", name, "--"];
    proxy.iter().map(|it| (*it).to_owned()).chain(command.iter().cloned()).collect()
}

/// What a client says, which stands in this place.
fn told(mut client: Command, place: &Place) -> Value {
    client.current_dir(place.path()).env("COUNTERSIGN_CONFIG", place.path().join("config"));
    let output = client.output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}\n{talk}", String::from_utf8_lossy(&output.stdout)))
}

/// Everything that the reference server can do.
fn everything(place: &Place, transport: &[String]) -> Value {
    let mut client = Command::new(node());
    client.arg(script("everything.mjs")).arg(modules()).args(transport);
    let mut messages = told(client, place);
    settle(&mut messages);
    messages
}

fn over_stdio(command: &[String]) -> Vec<String> {
    std::iter::once("stdio".to_owned()).chain(command.iter().cloned()).collect()
}

/// Takes out what differs between two runs of the server without us as well: times, random ids, and
/// random levels of its simulated log.
fn settle(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(settle),
        Value::Object(members) => {
            let simulated = members.get("data").and_then(Value::as_str).is_some_and(|data| {
                data.contains("-level message") || data.contains("level-message")
            });
            for (name, value) in members.iter_mut() {
                let is_random = match name.as_str() {
                    "createdAt" | "lastUpdatedAt" | "taskId" | "elicitationId" | "blob" => true,
                    "level" | "data" => simulated,
                    _ => false,
                };
                if is_random && value.is_string() {
                    *value = json!("*");
                } else {
                    settle(value);
                }
            }
        }
        Value::String(text) => {
            for mark in [" created at ", "Elicitation ID: "] {
                if let Some(at) = text.find(mark) {
                    text.truncate(at + mark.len());
                }
            }
        }
        _ => {}
    }
}

/// Compares message by message, so that the first difference is seen.
fn compare(direction: &str, with: &Value, without: &Value) {
    let (with, without) =
        (with[direction].as_array().unwrap(), without[direction].as_array().unwrap());
    for (at, (with, without)) in with.iter().zip(without).enumerate() {
        assert_eq!(with, without, "{direction} {at}");
    }
    assert_eq!(with.len(), without.len(), "{direction}");
}

#[test]
fn every_feature_of_the_reference_server_is_the_same_message_by_message() {
    let place = workspace();
    let server = installed("server-everything", &["stdio"]);
    let without = everything(&place, &over_stdio(&server));
    let with = everything(&place, &over_stdio(&behind_proxy("everything", &server)));
    compare("sent", &with, &without);
    compare("received", &with, &without);
    check_all(&place);
    let events = events(&place);
    let calls = with["sent"].as_array().unwrap().iter();
    let calls = calls.filter(|it| it["method"] == json!("tools/call")).count();
    let ends = ends(&events);
    assert_eq!(ends.len(), calls);
    let failed: Vec<&str> = ends
        .iter()
        .filter(|(_, outcome)| outcome != "succeeded")
        .map(|(_, outcome)| outcome.split(": ").next().unwrap())
        .collect();
    // One that the server refuses, two that go on as tasks, one that the client cancels.
    assert_eq!(failed, ["failed", "unknown", "unknown", "unknown"], "{ends:?}");
    assert_eq!(of_type(&events, "tools_listed").len(), 1);
}

/// The reference server on a port of its own.
struct HttpServer {
    process: Child,
    url: String,
}

impl HttpServer {
    fn start() -> Self {
        // Free when it was asked for; whoever takes it in between makes the test fail, not pass.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let command = installed("server-everything", &["streamableHttp"]);
        let mut process = Command::new(&command[0])
            .args(&command[1..])
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut talk = BufReader::new(process.stderr.take().unwrap()).lines();
        let listens = |line: &String| line.contains("listening on port");
        assert!(talk.by_ref().map_while(Result::ok).any(|line| listens(&line)));
        // What it says later has to go somewhere.
        std::thread::spawn(move || talk.map_while(Result::ok).for_each(drop));
        Self { process, url: format!("http://127.0.0.1:{port}/mcp") }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What came over HTTP, by what it belongs to: each answer, once, under its id; each question of the
/// server in its order; what it says by itself, of each sort in its order. Between these there is no
/// order, since they come on several streams. To this client some come twice, since it resumes streams
/// that have ended; then both are the same. The names of sessions differ, and are cut.
fn by_stream(messages: &Value) -> BTreeMap<String, Vec<Value>> {
    let mut streams: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for message in messages["received"].as_array().unwrap() {
        let mut message = message.clone();
        cut_session(&mut message);
        let method = message["method"].as_str().map(str::to_owned);
        let of = match (method, message.get("id")) {
            (None, Some(id)) => format!("answer {id}"),
            (Some(method), Some(_)) => {
                message["id"] = json!("*");
                method
            }
            (Some(method), None) => {
                // Steps of one call, or words of one logger.
                let of = [&message["params"]["progressToken"], &message["params"]["logger"]];
                format!("{method} {of:?}")
            }
            (None, None) => panic!("{message}"),
        };
        let stream = streams.entry(of).or_default();
        if !stream.contains(&message) {
            stream.push(message);
        }
    }
    for (of, stream) in streams.iter().filter(|(of, _)| of.starts_with("answer ")) {
        assert_eq!(stream.len(), 1, "{of}: {stream:?}");
    }
    streams
}

fn cut_session(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(cut_session),
        Value::Object(members) => members.values_mut().for_each(cut_session),
        Value::String(text) => {
            if let Some(at) = text.find("session ") {
                text.truncate(at);
            }
        }
        _ => {}
    }
}

/// What the client asked and told, in its order.
fn said_by_client(messages: &Value) -> Vec<&Value> {
    let sent = messages["sent"].as_array().unwrap().iter();
    sent.filter(|message| message.get("method").is_some()).collect()
}

#[test]
fn a_server_at_an_address_is_the_same_behind_the_proxy() {
    let place = workspace();
    let server = HttpServer::start();
    let without = everything(&place, &["http".to_owned(), server.url.clone()]);
    let program = env!("CARGO_BIN_EXE_countersign");
    let proxy = [program, "proxy", "--name", "everything", "--http", &server.url];
    let with = everything(&place, &over_stdio(&proxy.map(str::to_owned)));
    assert_eq!(said_by_client(&with), said_by_client(&without));
    let (with, without) = (by_stream(&with), by_stream(&without));
    for (of, messages) in &without {
        let same = with.get(of).unwrap_or_else(|| panic!("{of}: nothing"));
        assert_eq!(same, messages, "{of}");
    }
    assert_eq!(with.len(), without.len());
    check_all(&place);
    let first = &events(&place)[0]["payload"]["links"]["server"];
    assert_eq!(first["url"], json!(server.url));
}

#[test]
fn an_address_where_nobody_is_gives_every_request_an_answer() {
    let place = workspace();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let command = place.command(&["proxy", "--name", "nobody", "--http", &url]);
    let mut client = countersign_testkit::mcp::StdioServer::start(command);
    let answer = client.request("initialize", &json!({}));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the server cannot be reached: "), "{message}");
    let params = json!({ "name": "x", "arguments": {} });
    let answer = client.request("tools/call", &params);
    assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
    let (code, talk) = client.end();
    assert_eq!(code, Some(0), "{talk}");
    check_all(&place);
}

/// What the Python SDK gets from a server.
fn python(place: &Place, calls: &Value, command: &[String]) -> Value {
    let mut client = Command::new(variable("COUNTERSIGN_TEST_MCP_PYTHON"));
    client.arg(script("servers.py")).arg(calls.to_string()).args(command);
    told(client, place)
}

#[test]
fn the_file_system_server_is_the_same_behind_the_proxy_until_the_gate_says_no() {
    let place = workspace();
    let dir = place.path().canonicalize().unwrap();
    fs::write(dir.join("a.txt"), "one\ntwo\n").unwrap();
    let root = dir.display().to_string();
    let server = installed("server-filesystem", &[&root]);
    let file = |name: &str| dir.join(name).display().to_string();
    let calls = json!([
        ["list_allowed_directories", {}],
        ["read_text_file", { "path": file("a.txt") }],
        ["write_file", { "path": file("b.txt"), "content": "three\n" }],
        ["edit_file", { "path": file("b.txt"), "edits": [{ "oldText": "three", "newText": "four" }] }],
        ["read_multiple_files", { "paths": [file("a.txt"), file("b.txt")] }],
        ["read_text_file", { "path": file("missing.txt") }],
    ]);
    let without = python(&place, &calls, &server);
    fs::remove_file(dir.join("b.txt")).unwrap();
    let with = python(&place, &calls, &behind_proxy("files", &server));
    assert_eq!(with, without);
    assert_eq!(fs::read_to_string(dir.join("b.txt")).unwrap(), "four\n");
    let calls = json!([["write_file", { "path": file(".mcp.json"), "content": "{}" }]]);
    let refused = python(&place, &calls, &behind_proxy("files", &server));
    assert_eq!(refused["calls"][0]["isError"], json!(true), "{refused}");
    assert!(!dir.join(".mcp.json").exists());
    check_all(&place);
}

#[test]
fn the_git_server_is_the_same_behind_the_proxy() {
    let place = workspace();
    let repository = place.path().join("repository");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(&repository).args(arguments);
        assert!(git.output().unwrap().status.success(), "{arguments:?}");
    };
    fs::create_dir(&repository).unwrap();
    git(&["init", "--quiet"]);
    let somebody = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"];
    git(&[&somebody[..], &["commit", "--quiet", "--allow-empty", "-m", "begin"]].concat());
    fs::write(repository.join("a.txt"), "one\n").unwrap();
    let program = variable("COUNTERSIGN_TEST_MCP_PYTHON").with_file_name("mcp-server-git");
    let path = repository.display().to_string();
    let server = [program.display().to_string(), "--repository".to_owned(), path.clone()];
    let calls = json!([
        ["git_status", { "repo_path": path }],
        ["git_add", { "repo_path": path, "files": ["a.txt"] }],
        ["git_diff_staged", { "repo_path": path }],
        ["git_reset", { "repo_path": path }],
        ["git_show", { "repo_path": path, "revision": "no-such-revision" }],
    ]);
    let without = python(&place, &calls, &server);
    let with = python(&place, &calls, &behind_proxy("git", &server));
    assert_eq!(with, without);
    check_all(&place);
    assert_eq!(ends(&events(&place)).len(), 5);
}
