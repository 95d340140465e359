//! Lines that no client should send: each is answered or passed over, and the server lives on.

use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use super::{change, connect, connect_with, risky, workspace};

/// The code of the error, and the id under which it came.
fn refused(server: &mut StdioServer, line: &[u8]) -> (Value, Value) {
    server.send(line);
    let answer = server.next_message();
    (answer["error"]["code"].clone(), answer["id"].clone())
}

#[test]
fn lines_that_are_no_messages_are_refused_and_the_next_call_works() {
    let place = workspace();
    let mut server = connect(&place);
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let huge =
        [b"{\"jsonrpc\":\"2.0\",\"id\":1,\"x\":\"", &vec![b'x'; 40 << 20][..], b"\"}"].concat();
    for (line, expected) in [
        (&b"{"[..], -32700),
        (b"hello", -32700),
        (b"\xff\xfe", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} trailing", -32700),
        (&deep, -32700),
        (b"[]", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
        (b"null", -32600),
        (b"{\"jsonrpc\":\"1.0\",\"method\":\"ping\"}", -32600),
        (&huge, -32600),
    ] {
        let shown = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
        assert_eq!(refused(&mut server, line), (json!(expected), Value::Null), "{shown}");
    }
    let verdict = server.call("capseal_gate", &change(1));
    assert_eq!(verdict["decision"], json!("approve"));
}

#[test]
fn requests_of_a_wrong_shape_are_refused_under_their_id() {
    let place = workspace();
    let mut server = connect(&place);
    for (params, code) in [
        (json!({ "name": 5 }), -32602),
        (json!({ "name": "capseal_gate", "arguments": [] }), -32602),
        (json!("text"), -32600),
        (json!({ "name": "CAPSEAL_GATE", "arguments": {} }), -32602),
    ] {
        let answer = server.request("tools/call", &params);
        assert_eq!(answer["error"]["code"], json!(code), "{params}: {answer}");
    }
    let answer = server.request("no/such/method", &json!({}));
    assert_eq!(answer["error"]["code"], json!(-32601), "{answer}");
    // Notifications that nobody knows are passed over.
    server.notify("notifications/of/something");
    assert!(server.request("ping", &json!({}))["result"].is_object());
}

#[test]
fn a_tool_cannot_be_called_before_the_connection_has_begun() {
    let place = workspace();
    let mut server = StdioServer::start(place.command(&["mcp"]));
    let params = json!({ "name": "capseal_gate", "arguments": change(1) });
    server.ask("tools/call", &params);
    server.hang_up();
    for answer in server.rest() {
        assert!(answer["error"].is_object(), "{answer}");
    }
    assert!(!place.path().join(".capseal").exists(), "nothing was recorded");
}

#[test]
fn arguments_that_are_too_large_are_refused_by_name() {
    let place = workspace();
    let mut server = connect(&place);
    for (field, value) in [
        ("description", json!("x".repeat(20_000))),
        ("diff_text", json!("x".repeat((1 << 20) + 1))),
        ("files_affected", json!(vec!["a"; 1001])),
        ("command", json!("x".repeat(70_000))),
    ] {
        let mut asked = change(1);
        asked[field] = value;
        let said = server.fail("capseal_gate", &asked);
        let error = said["error"].as_str().unwrap();
        assert!(
            error.starts_with(&format!("`{field}` ")) && error.contains("more than"),
            "{error}"
        );
    }
}

#[test]
fn two_open_calls_cannot_have_one_id() {
    let place = workspace();
    // The first stays open for as long as the client's user is asked.
    let mut server = connect_with(&place, &json!({ "elicitation": {} }));
    let call = json!({
        "jsonrpc": "2.0", "id": "same", "method": "tools/call",
        "params": { "name": "capseal_gate", "arguments": risky() },
    });
    server.send(call.to_string());
    assert_eq!(server.next_message()["method"], json!("elicitation/create"));
    assert_eq!(refused(&mut server, call.to_string().as_bytes()), (json!(-32600), json!("same")));
    server.hang_up();
    let answers: Vec<Value> =
        server.rest().into_iter().filter(|message| message["id"] == json!("same")).collect();
    let decisions: Vec<&Value> =
        answers.iter().map(|answer| &answer["result"]["structuredContent"]["decision"]).collect();
    assert_eq!(decisions, [&json!("flag")], "{answers:?}");
}
