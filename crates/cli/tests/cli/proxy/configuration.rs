//! `init --wrap` and `--unwrap`: a client's servers go through the proxy, and no longer.

use std::fs;
use std::process::Command;

use countersign_testkit::mcp::StdioServer;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{check_all, events, python, script, workspace};
use crate::place::Place;

#[test]
fn a_wrapped_server_is_started_through_the_proxy_and_unwrapped_to_the_byte() {
    let place = Place::empty();
    let file = place.path().join(".mcp.json");
    let server = script("hostile.py").display().to_string();
    let theirs = format!(
        "{{\n    \"mcpServers\": {{\n        \"bad one\": {{\"command\" : {}, \"args\": [ \"-u\",{} ]}},\n        \
         \"far\": {{\"type\":\"http\",\"url\": \"http://127.0.0.1:9/mcp\", \"headers\":{{\"X-Key\":\"k\"}}}}\n    }}\n}}",
        json!(python()),
        json!(server),
    );
    fs::write(&file, &theirs).unwrap();
    let wrapped = place.run(&["init", "--wrap"]);
    assert_snapshot!(wrapped, @r"
    exit 0
    --- stdout
    client  $PLACE/.mcp.json
    server  bad one
    server  far

    --- stderr
    made a workspace at $PLACE/.countersign
    start your client anew; every call of these servers' tools is then recorded
    ");
    let once = fs::read_to_string(&file).unwrap();
    assert_eq!(place.run(&["init", "--wrap"]).stderr, "nothing to change\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), once);
    // As a client starts it, from wherever it stands.
    let entry = &serde_json::from_str::<Value>(&once).unwrap()["mcpServers"]["bad one"];
    let arguments = entry["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(arguments).env("COUNTERSIGN_CONFIG", place.path().join("config"));
    let mut client = StdioServer::connect(command, &json!({}));
    let params = json!({ "name": "plain", "arguments": {} });
    assert!(client.request("tools/call", &params)["result"].is_object());
    assert_eq!(client.end().0, Some(0));
    check_all(&place);
    assert_eq!(events(&place)[0]["payload"]["links"]["server"]["name"], json!("bad one"));
    let far = &serde_json::from_str::<Value>(&once).unwrap()["mcpServers"]["far"];
    assert!(!far["args"].to_string().contains("X-Key"), "{far}");
    let unwrapped = place.run(&["init", "--unwrap"]);
    assert_eq!(unwrapped.code, 0, "{unwrapped}");
    assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
    assert_eq!(place.run(&["init", "--unwrap"]).stderr, "nothing to change\n");
}

#[test]
fn what_is_no_configuration_is_left_alone() {
    let place = workspace();
    assert_snapshot!(place.run(&["init", "--wrap", "--client", "none.json"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: cannot read `none.json`
      caused by: no such file or directory
    hint: name the client's configuration with `--client FILE`
    ");
    fs::write(place.path().join("x.json"), "{\"a\": 1}").unwrap();
    assert_snapshot!(place.run(&["init", "--wrap", "--client", "x.json"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: left `$PLACE/x.json` as it is
      caused by: it lists no servers, neither in `mcpServers` nor in `servers`
    ");
    assert_snapshot!(place.run(&["init", "--client", "x.json"]), @r"
    exit 2
    --- stdout

    --- stderr
    error: `--client` says whose configuration is edited, and nothing is to be edited
    hint: add `--mcp`, `--wrap` or `--unwrap`
    ");
}

#[test]
fn a_wrapped_address_is_taken_from_its_variable() {
    let place = workspace();
    let mut command = place.command(&["proxy", "--name", "far", "--wrapped"]);
    command
        .env("COUNTERSIGN_WRAPPED", r#"{"url":"http://127.0.0.1:9/mcp","headers":{"X-Key":"k"}}"#);
    let mut client = StdioServer::start(command);
    let answer = client.request("ping", &json!({}));
    assert_eq!(answer["error"]["code"], json!(-32000), "{answer}");
    assert_eq!(client.end().0, Some(0));
    assert_snapshot!(place.run(&["proxy", "--name", "far", "--wrapped"]), @r"
    exit 2
    --- stdout

    --- stderr
    error: COUNTERSIGN_WRAPPED is not set
    hint: `countersign init --unwrap` puts back what was there
    ");
}
