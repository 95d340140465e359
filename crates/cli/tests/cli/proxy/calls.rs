//! Calls that go before the gate, and what is recorded of them.

use std::fs;

use countersign_testkit::mcp::StdioServer;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{
    artifact, call, connect, end, ends, events, list, of_type, proxied, said, traces, workspace,
};

#[test]
fn a_call_is_recorded_with_its_arguments_and_its_result() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    list(&mut client);
    let arguments = json!({ "b": [1, { "x": null }], "a": "grüße" });
    let answer = call(&mut client, "plain", &arguments);
    assert_eq!(serde_json::from_str::<Value>(&said(&answer).0).unwrap(), arguments);
    end(&place, &mut client);
    let events = events(&place);
    let first = &events[0]["payload"];
    assert_eq!(
        first["on_behalf_of"],
        json!({ "agent_id": "test-client", "client": "test-client 0.0.1" })
    );
    let server = &first["links"]["server"];
    assert_eq!((&server["name"], &server["command"][1]), (&json!("hostile"), &json!("-u")));
    let listed = &of_type(&events, "tools_listed")[0]["payload"];
    assert_eq!((&listed["server"], &listed["tool_count"]), (&json!("hostile"), &json!(19)));
    let intent = of_type(&events, "tool_intent_signed")[0];
    assert_eq!(intent["payload"]["tool_name"], json!("hostile/plain"));
    let stored = |event: &Value| -> Vec<String> {
        let all = event["artifacts"].as_array().unwrap().iter();
        all.map(|it| artifact(&place, it["artifact_hash"].as_str().unwrap())).collect()
    };
    assert!(stored(intent).contains(&arguments.to_string()), "{intent}");
    let completed = of_type(&events, "tool_execution_completed")[0];
    assert_eq!(
        serde_json::from_str::<Value>(&stored(completed)[0]).unwrap(),
        answer["result"],
        "{completed}"
    );
    assert_eq!(ends(&events), [("hostile/plain".to_owned(), "succeeded".to_owned())]);
}

#[test]
fn a_call_that_the_gate_refuses_never_reaches_the_server() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    let answer = call(&mut client, "plain", &json!({ "path": ".countersign/x", "content": "y" }));
    let (text, failed) = said(&answer);
    assert!(
        failed && text.starts_with("countersign refused this call: `plain` was not run.\nWhy: "),
        "{text}"
    );
    assert!(text.contains("What to do: "), "{text}");
    // A refusal is no result of the server, and the next call is judged by itself.
    assert!(!said(&call(&mut client, "plain", &json!({ "path": "src/x" }))).1);
    end(&place, &mut client);
    let events = events(&place);
    assert_eq!(of_type(&events, "tool_execution_started").len(), 1);
    let reviews = of_type(&events, "tool_intent_reviewed");
    assert_eq!(reviews[0]["payload"]["decision"], json!("blocked"));
}

#[test]
fn what_another_reader_could_take_for_a_call_is_not_passed_on() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    let inner = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"plain"}}"#;
    for (line, code) in [
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","METHOD":"tools/call"}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":"Tools/Call","params":{"name":"plain"}}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"plain","Name":"x"}}"#.to_owned(), -32602),
        (format!("[{inner}]"), -32600),
        (format!("{{\"method\":\"notifications/x\",\"params\":\r{inner}\r}}"), -32600),
        (format!("{inner} {inner}"), -32700),
    ] {
        client.send(&line);
        let answer = client.next_message();
        assert_eq!(answer["error"]["code"], json!(code), "{line}: {answer}");
    }
    // A call without an id cannot be answered, and is not made.
    client.send(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"plain"}}"#);
    assert_eq!(client.request("ping", &json!({}))["result"], json!({}));
    client.end();
    assert_eq!(traces(&place), Vec::<String>::new());
}

#[test]
fn ids_and_unknown_members_pass_as_they_came() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    for id in [json!("a-text"), json!(0), json!(-5), json!("")] {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "ping", "more": { "x": 1 } });
        client.send(request.to_string());
        assert_eq!(client.next_message(), json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
    // Batches that call no tool pass too; this server does not know them and ends.
    client.send(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    let answer = client.next_message();
    assert_eq!(answer["error"]["code"], json!(-32000), "{answer}");
    let (code, talk) = client.end();
    assert_eq!(code, Some(1), "{talk}");
    assert!(talk.contains("error: the server has ended with exit code 1"), "{talk}");
}

#[test]
fn nothing_is_sent_that_cannot_be_recorded() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    assert!(!said(&call(&mut client, "plain", &json!({}))).1);
    // Nothing can be written to the trace from now on, not even by root.
    let id = &traces(&place)[0];
    let dir = place.path().join(".countersign/traces").join(id);
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "in the way").unwrap();
    let (text, failed) = said(&call(&mut client, "plain", &json!({ "n": 2 })));
    assert!(failed && text.starts_with("countersign could not record this call"), "{text}");
    let (code, _) = client.end();
    assert_ne!(code, Some(0));
}

#[test]
fn a_proxy_that_was_killed_leaves_a_trace_that_can_be_sealed() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    call(&mut client, "plain", &json!({}));
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    let id = &traces(&place)[0];
    let sealed = place.run(&["seal", id, "-o", "later.cap"]);
    assert_eq!(sealed.code, 0, "{sealed}");
    assert_eq!(place.run(&["verify", id]).code, 0);
}

#[test]
fn a_proxy_that_is_told_to_end_closes_its_recording_and_its_server() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    client.ask("tools/call", &json!({ "name": "silent", "arguments": {} }));
    let answer = call_after(&mut client);
    assert!(answer["result"].is_object());
    let pid = rustix_pid(&client);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    // The client does not hang up meanwhile.
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
    let unknown = "unknown: the proxy was told to end".to_owned();
    assert_eq!(ends(&events(&place)), [("hostile/silent".to_owned(), unknown)]);
    super::check_all(&place);
}

/// Once this is answered, what was sent before has arrived.
fn call_after(client: &mut StdioServer) -> Value {
    client.request("ping", &json!({}))
}

fn rustix_pid(client: &StdioServer) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(i32::try_from(client.child.id()).unwrap()).unwrap()
}

#[test]
fn secrets_pass_to_the_server_and_not_into_the_store() {
    let place = workspace();
    let mut command = proxied(&place, &[]);
    command.arg(place.path().join("starts")).args(["--password", "hunter2hunter2"]);
    let mut client = StdioServer::connect(command, &json!({}));
    let secret = ["ghp_", "0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let (text, _) = said(&call(&mut client, "plain", &json!({ "token": secret })));
    assert!(text.contains(&secret));
    // Written so that only who reads JSON sees it.
    let hidden = secret.replacen('g', "\\u0067", 1);
    let params = format!(r#"{{"name":"plain","arguments":{{"note":"{hidden}"}}}}"#);
    client
        .send(format!(r#"{{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{params}}}"#));
    assert!(said(&client.next_message()).0.contains(&secret));
    end(&place, &mut client);
    let secrets = [secret.get(4..).unwrap(), "hunter2hunter2"];
    let mut dirs = vec![place.path().join(".countersign"), place.path().join(".capseal")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            for secret in secrets {
                let found = bytes.windows(secret.len()).any(|it| it == secret.as_bytes());
                assert!(!found, "{secret} in {}", path.display());
            }
        }
    }
}

#[test]
fn in_shadow_everything_passes_and_the_gate_is_recorded() {
    let place = workspace();
    let mut client = connect(&place, &["--shadow"]);
    let answer = call(&mut client, "plain", &json!({ "path": ".countersign/x", "content": "y" }));
    assert!(!said(&answer).1);
    end(&place, &mut client);
    let events = events(&place);
    let gate = &of_type(&events, "tool_intent_reviewed")[0]["payload"]["gate"];
    assert_eq!((&gate["decision"], &gate["enforced"]), (&json!("deny"), &json!(false)));
}

#[test]
fn a_server_that_cannot_be_started_is_named() {
    let place = workspace();
    assert_snapshot!(place.run(&["proxy", "--", "no-such-server", "x"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: cannot start `no-such-server`
      caused by: no such file or directory
    ");
    assert_snapshot!(place.run(&["proxy"]), @r"
    exit 2
    --- stdout

    --- stderr
    error: no server was named
    hint: name its program behind `--`: `countersign proxy -- npx some-server`, or its address with `--http`
    ");
}

#[test]
fn calls_that_are_under_way_when_the_client_hangs_up_are_finished() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    for number in 0..5 {
        client.ask("tools/call", &json!({ "name": "plain", "arguments": { "n": number } }));
    }
    client.hang_up();
    let answers = client.rest();
    assert_eq!(answers.len(), 5, "{answers:?}");
    end(&place, &mut client);
    assert_eq!(ends(&events(&place)).len(), 5);
}
