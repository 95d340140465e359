//! The MCP server, by clients of ours that speak it as lines and requests, and by real ones.

mod clients;
mod configuration;
mod hostile;
mod http;
mod sealing;
mod stdio;

use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use crate::place::Place;

/// A place with a workspace.
fn workspace() -> Place {
    let place = Place::empty();
    let made = place.run(&["init"]);
    assert_eq!(made.code, 0, "{made}");
    place
}

/// A client that cannot ask its user anything.
fn connect(place: &Place) -> StdioServer {
    connect_with(place, &json!({}))
}

fn connect_with(place: &Place, capabilities: &Value) -> StdioServer {
    StdioServer::connect(place.command(&["mcp"]), capabilities)
}

/// A change that the gate lets pass.
fn change(number: u32) -> Value {
    json!({
        "action_type": "code_edit",
        "description": format!("change number {number}"),
        "files_affected": [format!("src/file{number}.txt")],
    })
}

/// What says that it was done, under this verdict.
fn done(asked: &Value, token: &Value) -> Value {
    let mut done = asked.clone();
    done["tool_name"] = json!("edit");
    done["success"] = json!(true);
    done["duration_ms"] = json!(12);
    done["output"] = json!("done");
    done["gate_token"] = token.clone();
    done
}

/// Asks, and records what was asked for.
fn act(server: &mut StdioServer, number: u32) -> Value {
    let asked = change(number);
    let verdict = server.call("capseal_gate", &asked);
    assert_eq!(verdict["decision"], json!("approve"), "{verdict}");
    server.call("capseal_record", &done(&asked, &verdict["gate_token"]))
}

/// Something that the gate does not let pass by itself.
fn risky() -> Value {
    json!({
        "action_type": "shell_exec", "description": "publish the package",
        "command": "npm publish",
    })
}
