//! Clients that we did not write: the official Python SDK, the TypeScript SDK, and the inspector on it.
//!
//! The inspector's command line makes one call in one process, so each of its calls is a connection of
//! its own: it cannot gate and seal in one recording. What it can do is tried; the whole flow is done by
//! the SDK that it brings.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::http::HttpProcess;
use super::sealing::check_sealed;
use super::{change, workspace};
use crate::place::Place;

const HINT: &str = "run `cargo xtask test`, which installs the clients";

fn variable(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: {HINT}")).into()
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients")
}

fn node_modules() -> PathBuf {
    variable("COUNTERSIGN_TEST_MCP_NODE_MODULES")
}

fn node(script: &Path) -> Command {
    let node = std::env::var_os("COUNTERSIGN_TEST_NODE").unwrap_or_else(|| "node".into());
    let mut command = Command::new(node);
    command.arg(script);
    command
}

/// Runs a client in this place, and gives the JSON document that it prints.
fn said(mut client: Command, place: &Place) -> Value {
    client.current_dir(place.path());
    said_from(client, place)
}

/// The same, wherever the client stands.
fn said_from(mut client: Command, place: &Place) -> Value {
    let config = place.path().join("config");
    let output = client.env("COUNTERSIGN_CONFIG", config).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{talk}");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}\n{talk}", String::from_utf8_lossy(&output.stdout)))
}

/// How the client reaches the server.
fn stdio(client: &mut Command) {
    client.args(["stdio", env!("CARGO_BIN_EXE_countersign"), "mcp"]);
}

fn http(client: &mut Command, server: &HttpProcess) {
    client.arg("http").arg(format!("http://{}/mcp", server.address)).arg(&server.token_file);
}

fn python(answer: &str) -> Command {
    let mut client = Command::new(variable("COUNTERSIGN_TEST_MCP_PYTHON"));
    client.arg(scripts().join("flow.py")).arg(answer);
    client
}

fn typescript() -> Command {
    let mut client = node(&scripts().join("flow.mjs"));
    client.arg(node_modules());
    client
}

/// What every flow must have come to, and the file that it left.
fn check_flow(place: &Place, said: &Value) {
    assert_eq!(said["server"], json!("countersign"), "{said}");
    let tools =
        ["capseal_gate", "capseal_record", "capseal_seal", "capseal_status", "capseal_context"];
    assert_eq!(said["tools"], json!(tools));
    let calls = said["calls"].as_array().unwrap();
    let sealed = calls.iter().find(|call| call["tool"] == json!("capseal_seal")).unwrap();
    assert_eq!(sealed["verification"], json!("passed"), "{sealed}");
    let history = calls.last().unwrap();
    assert_eq!(
        (&history["tool"], &history["total_changes"]),
        (&json!("capseal_context"), &json!(1))
    );
    check_sealed(place, sealed["cap_file"].as_str().unwrap());
}

/// What the gate said in the Python flow, in order.
fn decisions(said: &Value) -> Vec<&str> {
    let calls = said["calls"].as_array().unwrap().iter();
    let gates = calls.filter(|call| call["tool"] == json!("capseal_gate"));
    gates.map(|call| call["decision"].as_str().unwrap()).collect()
}

#[test]
fn the_python_sdk_does_the_whole_flow_over_stdio() {
    for (answer, last, asked) in [("none", "flag", 0), ("yes", "approve", 1), ("no", "deny", 1)] {
        let place = workspace();
        let mut client = python(answer);
        stdio(&mut client);
        let said = said(client, &place);
        check_flow(&place, &said);
        assert_eq!(decisions(&said), ["approve", "approve", last], "{said}");
        assert_eq!(said["asked"].as_array().unwrap().len(), asked);
    }
}

#[test]
fn the_python_sdk_does_the_whole_flow_over_http() {
    for (answer, last) in [("none", "flag"), ("yes", "approve")] {
        let place = workspace();
        let server = HttpProcess::start(&place);
        let mut client = python(answer);
        http(&mut client, &server);
        let said = said(client, &place);
        check_flow(&place, &said);
        assert_eq!(decisions(&said), ["approve", "approve", last], "{said}");
    }
}

#[test]
fn the_typescript_sdk_does_the_whole_flow_over_both() {
    let place = workspace();
    let mut client = typescript();
    stdio(&mut client);
    check_flow(&place, &said(client, &place));
    let place = workspace();
    let server = HttpProcess::start(&place);
    let mut client = typescript();
    http(&mut client, &server);
    check_flow(&place, &said(client, &place));
}

/// One run of the inspector.
fn inspector(place: &Place, target: &[String], method: &[&str]) -> Value {
    // It finds what it needs to know of itself from where it lies.
    let build = node_modules().join("@modelcontextprotocol/inspector-cli/build");
    let mut client = node(&build.join("index.js"));
    client.current_dir(build).args(target).arg("--method").args(method);
    said_from(client, place)
}

#[test]
fn the_inspector_lists_and_calls_tools_over_both() {
    let place = workspace();
    let server = HttpProcess::start(&place);
    let token = std::fs::read_to_string(&server.token_file).unwrap();
    let header = format!("Authorization: Bearer {}", token.trim_end());
    let url = format!("http://{}/mcp", server.address);
    let home = place.path().join(".countersign").display().to_string();
    let targets = [
        [env!("CARGO_BIN_EXE_countersign"), "--home", &home, "mcp"].map(str::to_owned).to_vec(),
        vec![url, "--header".to_owned(), header],
    ];
    for target in targets {
        let listed = inspector(&place, &target, &["tools/list"]);
        assert_eq!(listed["tools"].as_array().map(Vec::len), Some(5), "{listed}");
        let structured =
            |method: &[&str]| inspector(&place, &target, method)["structuredContent"].clone();
        let call = |name| ["tools/call", "--tool-name", name];
        let status = structured(&call("capseal_status"));
        assert_eq!(status["session_active"], json!(false));
        let asked = change(1);
        let kind = format!("action_type={}", asked["action_type"].as_str().unwrap());
        let files = format!("files_affected={}", asked["files_affected"]);
        let given = ["--tool-arg", &kind, "description=x", &files];
        let gate = structured(&[&call("capseal_gate")[..], &given].concat());
        assert_eq!(gate["decision"], json!("approve"), "{gate}");
        let given = [&given[..], &["tool_name=edit", "success=true"]].concat();
        let recorded = structured(&[&call("capseal_record")[..], &given].concat());
        assert_eq!(recorded["gating"], json!("ungated"), "{recorded}");
        // Its own process has ended by now: what it recorded is sealed from outside.
        let trace = recorded["session_id"].as_str().unwrap();
        let sealed = place.run(&["seal", trace, "-o", &format!("{trace}.cap")]);
        assert_eq!(sealed.code, 0, "{sealed}");
        check_sealed(&place, &format!("{trace}.cap"));
    }
}
