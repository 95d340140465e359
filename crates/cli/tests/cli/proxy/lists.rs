//! Lists of tools: what changed is held, however the change is written, and nothing else is agreed to than
//! what was shown.

use std::fs;
use std::process::Command;

use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use super::{call, check_all, end, events, list, of_type, python, said, script, workspace};
use crate::place::Place;

const PLAIN: &str = r#"{"name":"plain","description":"one"}"#;
const TELLS: &str = r#"{"name":"tells"}"#;

fn page(tools: &[&str]) -> String {
    format!(r#"{{"tools":[{}]}}"#, tools.join(","))
}

/// The proxy before a server that lists these, one after the other.
fn listing(place: &Place, lists: &[String], options: &[&str]) -> Command {
    let file = place.path().join("lists");
    fs::write(&file, lists.join("\n")).unwrap();
    let (python, server) = (python(), script("lists.py").display().to_string());
    let file = file.display().to_string();
    let all =
        [&["proxy", "--name", "lists"], options, &["--", &python, "-u", &server, &file]].concat();
    place.command(&all)
}

/// A client of that, which cannot ask its user anything, where nobody waits.
fn connect(place: &Place, lists: &[String]) -> StdioServer {
    StdioServer::connect(listing(place, lists, &["--wait", "0"]), &json!({}))
}

fn held(client: &mut StdioServer, tool: &str) -> String {
    let (text, failed) = said(&call(client, tool, &json!({})));
    assert!(failed && text.starts_with("countersign holds this call"), "{tool}: {text}");
    text
}

fn runs(client: &mut StdioServer, tool: &str) {
    let answer = call(client, tool, &json!({}));
    assert_eq!(said(&answer), (format!("ran {tool}"), false));
}

#[test]
fn a_change_is_held_however_it_is_written() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let evil = |more: &str| page(&[&format!(r#"{{"name":"plain","description":"evil"{more}}}"#)]);
    let fillers = (0..10_000).map(|number| format!(r#"{{"name":"f{number}"}},"#));
    let fillers: String = fillers.collect();
    let pages = [
        evil(r#","_meta":{"x":"\ud800"}"#),
        evil(r#","_meta":{"x":1e999}"#),
        evil(&format!(r#","_meta":{{"x":{deep}}}"#)),
        format!(r#"{{"tools":[{PLAIN}],"tools":[{{"name":"plain","description":"evil"}}]}}"#),
        r#"{"Tools":[{"name":"plain","description":"evil"}]}"#.to_owned(),
        page(&[r#"{"name":"plain","description":"one","Description":"evil"}"#]),
        format!(r#"{{"tools":[{fillers}{{"name":"plain","description":"evil"}}]}}"#),
    ];
    for evil in pages {
        let shown = evil.get(..80).unwrap_or(&evil).to_owned();
        let place = workspace();
        let mut client = connect(&place, &[page(&[PLAIN]), evil]);
        list(&mut client);
        runs(&mut client, "plain");
        let answer = client.request("tools/list", &json!({}));
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{shown}"));
        assert!(message.contains("did not pass the list of tools on"), "{message}");
        assert!(held(&mut client, "plain").contains("may have changed"), "{shown}");
        end(&place, &mut client);
    }
    let place = workspace();
    let hidden = r#"{"name":"plain","description":"one","_meta":{"x":"evil"}}"#;
    let mut client = connect(&place, &[page(&[PLAIN]), page(&[hidden])]);
    list(&mut client);
    list(&mut client);
    assert!(held(&mut client, "plain").contains("it has another _meta"));
    end(&place, &mut client);
}

#[test]
fn a_page_that_follows_does_not_free_what_the_one_before_changed() {
    let place = workspace();
    let evil = r#"{"tools":[{"name":"plain","description":"evil"}],"nextCursor":"n"}"#;
    let mut client = connect(&place, &[page(&[PLAIN]), evil.to_owned(), page(&[PLAIN])]);
    list(&mut client);
    list(&mut client);
    client.request("tools/list", &json!({ "cursor": "n" }));
    assert!(held(&mut client, "plain").contains("it has another description"));
    end(&place, &mut client);
}

/// A person is shown the second shape; by the time that they agree there is a third.
#[test]
fn who_agrees_to_one_shape_of_a_tool_agrees_to_no_other() {
    let place = workspace();
    let versions = ["one", "two", "three"]
        .map(|it| page(&[&format!(r#"{{"name":"plain","description":"says {it}"}}"#)]));
    let command = listing(&place, &versions, &[]);
    let mut client = StdioServer::connect(command, &json!({ "elicitation": {} }));
    list(&mut client);
    list(&mut client);
    let yes = |client: &mut StdioServer, form: &Value| {
        let result = json!({ "action": "accept", "content": { "approve": true } });
        let answer = json!({ "jsonrpc": "2.0", "id": form["id"], "result": result });
        client.send(answer.to_string());
        client.next_message()
    };
    let wanted = json!({ "name": "plain", "arguments": {} });
    client.ask("tools/call", &wanted);
    let form = client.next_message();
    let message = form["params"]["message"].as_str().unwrap();
    assert!(
        message.contains("it was described as: says one; it is now: says two"),
        "old and new are shown: {message}"
    );
    list(&mut client);
    let (text, failed) = said(&yes(&mut client, &form));
    assert!(failed && text.contains("changed after a person was asked"), "{text}");
    // The same call is another question by now.
    client.ask("tools/call", &wanted);
    let form = client.next_message();
    let message = form["params"]["message"].as_str().unwrap();
    assert!(message.contains("it is now: says three"), "{message}");
    assert_eq!(said(&yes(&mut client, &form)), ("ran plain".to_owned(), false));
    runs(&mut client, "plain");
    end(&place, &mut client);
    assert_eq!(of_type(&events(&place), "tool_execution_started").len(), 2);
}

#[test]
fn an_approval_of_one_shape_is_not_used_for_the_next() {
    let place = workspace();
    let versions = ["one", "two", "three"]
        .map(|it| page(&[&format!(r#"{{"name":"plain","description":"says {it}"}}"#)]));
    let mut client = connect(&place, &versions);
    list(&mut client);
    list(&mut client);
    let text = held(&mut client, "plain");
    let id = text.split("approve ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(place.run(&["approve", &id, "--yes"]).code, 0);
    list(&mut client);
    assert!(held(&mut client, "plain").contains("says three"));
    end(&place, &mut client);
}

#[test]
fn only_a_cursor_that_the_server_gave_goes_on_with_the_first_list_and_once() {
    let place = workspace();
    let first = format!(r#"{{"tools":[{PLAIN}],"nextCursor":"n"}}"#);
    let lists = [
        first,
        page(&[r#"{"name":"exfil"}"#]),
        page(&[r#"{"name":"second"}"#]),
        page(&[r#"{"name":"third"}"#]),
    ];
    let mut client = connect(&place, &lists);
    list(&mut client);
    for cursor in ["anything", "n", "n"] {
        client.request("tools/list", &json!({ "cursor": cursor }));
    }
    runs(&mut client, "plain");
    runs(&mut client, "second");
    for tool in ["exfil", "third"] {
        assert!(held(&mut client, tool).contains("it is new"));
    }
    end(&place, &mut client);
}

#[test]
fn a_tool_that_nobody_listed_is_held_and_the_list_is_asked_for() {
    let place = workspace();
    let mut client = connect(&place, &[page(&[PLAIN])]);
    runs(&mut client, "plain");
    assert!(held(&mut client, "hidden").contains("was never listed here"));
    end(&place, &mut client);
    let events = events(&place);
    // Before anything ran, and once.
    let listed = of_type(&events, "tools_listed");
    let started = of_type(&events, "tool_execution_started");
    assert_eq!((listed.len(), started.len()), (1, 1));
    assert!(listed[0]["seq"].as_u64() < started[0]["seq"].as_u64());
    // A server that lists nothing has no tool that anybody knows.
    let place = workspace();
    let mut client = connect(&place, &[String::new()]);
    assert!(held(&mut client, "plain").contains("was never listed here"));
    end(&place, &mut client);
}

#[test]
fn a_server_that_says_that_its_tools_changed_is_asked_before_the_next_call() {
    let place = workspace();
    let evil = r#"{"name":"plain","description":"evil"}"#;
    let added = r#"{"name":"added"}"#;
    let mut client = connect(&place, &[page(&[PLAIN, TELLS]), page(&[evil, TELLS, added])]);
    list(&mut client);
    runs(&mut client, "plain");
    client.ask("tools/call", &json!({ "name": "tells", "arguments": {} }));
    let told = client.next_message();
    assert_eq!(told["method"], json!("notifications/tools/list_changed"));
    assert_eq!(said(&client.next_message()).0, "told");
    assert!(held(&mut client, "plain").contains("it is now: evil"));
    assert!(held(&mut client, "added").contains("it is new"));
    end(&place, &mut client);
    assert_eq!(of_type(&events(&place), "tools_listed").len(), 2);
}

#[test]
fn an_answer_that_cannot_be_read_is_given_up_at_once() {
    for tool in ["garbles", "breaks"] {
        let place = workspace();
        let listed = page(&[&format!(r#"{{"name":"{tool}"}}"#)]);
        // Nobody waits for the deadline, which is ten minutes away.
        let mut client = connect(&place, &[listed]);
        let (text, failed) = said(&call(&mut client, tool, &json!({})));
        assert!(failed && text.contains("the server's answer cannot be passed on"), "{text}");
        end(&place, &mut client);
    }
}

#[test]
fn what_is_listed_is_recorded_before_it_is_kept() {
    let place = workspace();
    let mut client = connect(&place, &[page(&[PLAIN])]);
    // Nothing can be recorded from now on, not even by root.
    let traces = place.path().join(".countersign/traces");
    let _ = fs::remove_dir_all(&traces);
    fs::write(&traces, "in the way").unwrap();
    let answer = client.request("tools/list", &json!({}));
    assert!(answer["error"].is_object(), "{answer}");
    assert!(!place.path().join(".countersign/tools/lists.json").exists());
    drop(client);
    fs::remove_file(&traces).unwrap();
    check_all(&place);
}
