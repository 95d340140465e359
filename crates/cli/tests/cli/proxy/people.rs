//! Calls about which a person is asked: at the client, in a terminal, or in vain.

use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use super::{
    call, check_all, connect, end, ends, events, list, of_type, proxied, said, traces, workspace,
};
use crate::place::Place;

/// Something that the gate does not decide by itself.
fn risky() -> Value {
    json!({ "name": "plain", "arguments": { "command": "npm publish" } })
}

/// A client that can ask its user.
fn asking(place: &Place, options: &[&str]) -> StdioServer {
    StdioServer::connect(proxied(place, options), &json!({ "elicitation": {} }))
}

fn answer(client: &mut StdioServer, question: &Value, result: &Value) {
    let id = &question["id"];
    client.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
}

/// The only question that waits, once there is one.
fn question(place: &Place) -> String {
    loop {
        let listed = place.run(&["approve", "--json"]);
        assert_eq!(listed.code, 0, "{listed}");
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        if let Some(id) = listed[0]["id"].as_str() {
            return id.to_owned();
        }
    }
}

#[test]
fn the_client_asks_its_user_and_their_word_counts() {
    for (said_by_user, runs) in [
        (json!({ "action": "accept", "content": { "approve": true } }), true),
        (json!({ "action": "accept", "content": { "approve": false } }), false),
        (json!({ "action": "decline" }), false),
    ] {
        let place = workspace();
        let mut client = asking(&place, &[]);
        client.ask("tools/call", &risky());
        let question = client.next_message();
        assert_eq!(question["method"], json!("elicitation/create"), "{question}");
        let message = question["params"]["message"].as_str().unwrap();
        assert!(message.contains("hostile/plain {\"command\":\"npm publish\"}"), "{message}");
        assert!(message.starts_with("Why you are asked:\n> ask by "), "{message}");
        answer(&mut client, &question, &said_by_user);
        let (text, failed) = said(&client.next_message());
        assert_eq!(failed, !runs, "{text}");
        end(&place, &mut client);
        let events = events(&place);
        assert_eq!(of_type(&events, "tool_execution_started").len(), usize::from(runs));
        let reviews = of_type(&events, "tool_intent_reviewed");
        assert_eq!(reviews.last().unwrap()["payload"]["channel"], json!("client-prompt"));
    }
}

#[test]
fn other_messages_pass_while_a_person_is_asked() {
    let place = workspace();
    let mut client = asking(&place, &[]);
    client.ask("tools/call", &risky());
    let question = client.next_message();
    assert_eq!(client.request("ping", &json!({}))["result"], json!({}));
    assert!(!said(&call(&mut client, "plain", &json!({ "n": 1 }))).1);
    answer(&mut client, &question, &json!({ "action": "decline" }));
    assert!(said(&client.next_message()).1);
    end(&place, &mut client);
}

#[test]
fn an_answer_in_a_terminal_lets_the_call_through_and_takes_the_form_away() {
    for can_ask in [true, false] {
        let place = workspace();
        let mut client = if can_ask { asking(&place, &[]) } else { connect(&place, &[]) };
        client.ask("tools/call", &risky());
        let form = can_ask.then(|| client.next_message());
        let approved = place.run(&["approve", &question(&place), "--yes"]);
        assert_eq!(approved.code, 0, "{approved}");
        if let Some(form) = form {
            let gone = client.next_message();
            assert_eq!(gone["method"], json!("notifications/cancelled"));
            assert_eq!(gone["params"]["requestId"], form["id"]);
        }
        assert!(!said(&client.next_message()).1);
        end(&place, &mut client);
    }
}

#[test]
fn without_an_answer_the_call_is_refused_and_the_same_one_may_come_later() {
    let place = workspace();
    let mut client = connect(&place, &["--wait", "0"]);
    let answer = client.request("tools/call", &risky());
    let (text, failed) = said(&answer);
    let id = question(&place);
    assert!(failed && text.contains(&format!("`countersign approve {id} --yes`")), "{text}");
    assert_eq!(place.run(&["approve", &id, "--yes"]).code, 0);
    // What was approved is this call, with these arguments, and nothing else.
    let other = json!({ "name": "plain", "arguments": { "command": "npm publish", "tag": "x" } });
    assert!(said(&client.request("tools/call", &other)).1);
    assert!(!said(&client.request("tools/call", &risky())).1);
    // And it was approved once.
    assert!(said(&client.request("tools/call", &risky())).1);
    end(&place, &mut client);
    assert_eq!(ends(&events(&place)).len(), 1);
}

#[test]
fn of_two_calls_that_are_the_same_each_needs_its_own_approval() {
    for can_ask in [true, false] {
        let place = workspace();
        let mut client = if can_ask { asking(&place, &[]) } else { connect(&place, &[]) };
        let mut calls =
            vec![client.ask("tools/call", &risky()), client.ask("tools/call", &risky())];
        for _ in 0..2 {
            // Both wait for the first answer; one has it, and the other one asks anew.
            assert_eq!(place.run(&["approve", &question(&place), "--yes"]).code, 0);
            let answer = loop {
                let message = client.next_message();
                if message.get("method").is_none() {
                    break message;
                }
            };
            assert!(!said(&answer).1, "{answer}");
            calls.retain(|id| answer["id"] != json!(id));
        }
        assert!(calls.is_empty(), "{calls:?}");
        end(&place, &mut client);
        let events = events(&place);
        let by_person = |event: &&&Value| event["actor"]["role"] == json!("operator");
        let reviews = of_type(&events, "tool_intent_reviewed");
        assert_eq!(reviews.iter().filter(by_person).count(), 2);
        assert_eq!(ends(&events).len(), 2);
    }
}

#[test]
fn arguments_that_nobody_was_shown_in_full_are_approved_in_full() {
    let place = workspace();
    let mut client = connect(&place, &["--wait", "0"]);
    let secret = ["ghp_", "0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let long = "x".repeat(5_000);
    for (first, second) in [
        (json!({ "a": format!("{long}1") }), json!({ "a": format!("{long}2") })),
        (json!({ "a": secret }), json!({ "a": secret.replace("012345", "543210") })),
    ] {
        let with = |more: &Value| {
            let mut call = risky();
            call["arguments"]["more"] = more.clone();
            call
        };
        assert!(said(&client.request("tools/call", &with(&first))).1);
        assert_eq!(place.run(&["approve", &question(&place), "--yes"]).code, 0);
        let (text, failed) = said(&client.request("tools/call", &with(&second)));
        assert!(failed, "{text}");
        assert_eq!(place.run(&["approve", &question(&place), "--no"]).code, 0);
        assert!(!said(&client.request("tools/call", &with(&first))).1);
    }
    end(&place, &mut client);
}

#[test]
fn a_call_that_is_cancelled_while_a_person_is_asked_is_not_made() {
    let place = workspace();
    let mut client = asking(&place, &[]);
    let id = client.ask("tools/call", &risky());
    let form = client.next_message();
    let params = json!({ "requestId": id, "reason": "no longer wanted" });
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    client.send(cancelled.to_string());
    let gone = client.next_message();
    assert_eq!(gone["params"]["requestId"], form["id"], "{gone}");
    answer(&mut client, &form, &json!({ "action": "accept", "content": { "approve": true } }));
    assert_eq!(client.request("ping", &json!({}))["result"], json!({}));
    // The refusal is recorded beside whatever the client does next: it is waited for.
    let reviewed = || {
        let trace = traces(&place).remove(0);
        let shown = place.run(&["trace", "show", &trace, "--json"]);
        shown.stdout().matches("\"event_type\":\"tool_intent_reviewed\"").count()
    };
    assert!((0..200).any(|_| reviewed() == 2), "the cancelled call is not refused");
    end(&place, &mut client);
    let events = events(&place);
    assert_eq!(of_type(&events, "tool_execution_started").len(), 0);
    let reviews = of_type(&events, "tool_intent_reviewed");
    let last = &reviews.last().unwrap()["payload"];
    assert_eq!(last["decision"], json!("blocked"));
    assert_eq!(last["reasons"], json!(["the client cancelled the call before anybody answered"]));
}

#[test]
fn a_call_that_is_cancelled_at_the_server_has_an_unknown_end() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    let id = client.ask("tools/call", &json!({ "name": "silent", "arguments": {} }));
    let params = json!({ "requestId": id });
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    client.send(cancelled.to_string());
    assert_eq!(client.request("ping", &json!({}))["result"], json!({}));
    end(&place, &mut client);
    let unknown = "unknown: the client cancelled it".to_owned();
    assert_eq!(ends(&events(&place)), [("hostile/silent".to_owned(), unknown)]);
}

#[test]
fn who_agrees_to_a_call_of_a_changed_tool_agrees_to_the_tool() {
    let place = workspace();
    let mut client = asking(&place, &[]);
    list(&mut client);
    list(&mut client);
    client.ask("tools/call", &json!({ "name": "added", "arguments": {} }));
    let form = client.next_message();
    assert!(form["params"]["message"].as_str().unwrap().contains("it is new"), "{form}");
    answer(&mut client, &form, &json!({ "action": "accept", "content": { "approve": true } }));
    assert!(!said(&client.next_message()).1);
    assert!(!said(&call(&mut client, "added", &json!({ "n": 2 }))).1);
    end(&place, &mut client);
    check_all(&place);
}
