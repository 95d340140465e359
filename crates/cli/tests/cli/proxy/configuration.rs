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
    error: `--client` is an option of `--mcp`, `--wrap` or `--unwrap`
    hint: add `--mcp`, `--wrap` or `--unwrap`
    ");
}

#[test]
fn options_that_say_nothing_of_what_is_done_are_refused_and_shadow_takes_effect() {
    let place = workspace();
    let file = place.path().join(".mcp.json");
    let theirs = "{ \"mcpServers\": { // mine\n  \"git\": { \"command\": \"uvx\", \"args\": [\"mcp-server-git\",] },\n} }\n";
    fs::write(&file, theirs).unwrap();
    for options in [
        &["--wrap", "--settings", "x.json"][..],
        &["--wrap", "--keep-prompts"],
        &["--unwrap", "--shadow"],
        &["--git", "--shadow"],
        &["--git", "--client", "x.json"],
        &["--claude-code", "--client", "x.json"],
        &["--mcp", "--settings", "x.json"],
        &["--mcp", "--keep-prompts"],
        &["--shadow"],
    ] {
        let refused = place.run(&[&["init"], options].concat());
        assert_eq!(refused.code, 2, "{options:?}: {refused}");
        let words = format!("error: `{}` is an option of `--", options.last().unwrap());
        let words = words.replace("x.json", options[options.len().saturating_sub(2)]);
        assert!(refused.stderr.contains(&words), "{options:?}: {refused}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
    for (options, count) in [(&["--wrap", "--shadow"][..], 1), (&["--wrap"], 0)] {
        let wrapped = place.run(&[&["init"], options].concat());
        assert_eq!(wrapped.code, 0, "{wrapped}");
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("\"--name=git\", \"--shadow\", \"--\"").count(), count, "{text}");
        assert!(text.contains("// mine\n"), "{text}");
    }
    assert_eq!(place.run(&["init", "--unwrap"]).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
    // The recorder's own entry, and what it says there.
    assert_eq!(place.run(&["init", "--mcp", "--shadow"]).code, 0);
    assert!(fs::read_to_string(&file).unwrap().contains("\"mcp\",\"--shadow\""));
    assert_eq!(place.run(&["init", "--wrap"]).code, 0);
    assert_eq!(place.run(&["init", "--unwrap"]).code, 0);
    assert_eq!(place.run(&["init", "--mcp", "--undo"]).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
}

/// VS Code's own place and name for the list of servers.
#[test]
fn vs_codes_configuration_is_edited_with_its_comments() {
    let place = workspace();
    let file = place.path().join(".vscode/mcp.json");
    let client = ["--client", ".vscode/mcp.json"];
    assert_eq!(place.run(&[&["init", "--mcp"], &client[..]].concat()).code, 0);
    let made: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert!(made["servers"]["countersign"]["command"].is_string(), "{made}");
    assert_eq!(place.run(&[&["init", "--mcp", "--undo"], &client[..]].concat()).code, 0);
    assert!(!file.exists());
    let theirs = "{\n\t// Ask for keys\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t/* local */\n\t\t\"a\": {\n\t\t\t\"command\": \"x\",\n\t\t},\n\t},\n}\n";
    fs::write(&file, theirs).unwrap();
    for (there, back) in [("--wrap", &["--unwrap"][..]), ("--mcp", &["--mcp", "--undo"])] {
        let done = place.run(&[&["init", there], &client[..]].concat());
        assert_eq!(done.code, 0, "{done}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("// Ask for keys\n") && text.contains("/* local */"), "{text}");
        assert_ne!(text, theirs);
        assert_eq!(place.run(&[&["init"], back, &client[..]].concat()).code, 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), theirs);
    }
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
