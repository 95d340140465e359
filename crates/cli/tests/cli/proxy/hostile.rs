//! A server that means harm: the proxy stays up, the client gets its answers, the trace says what was.

use countersign_testkit::mcp::StdioServer;
use serde_json::{Value, json};

use super::{
    call, check_all, connect, end, ends, events, events_of, list, of_type, proxied, said, traces,
    workspace,
};

/// How the only call of a run ended.
fn end_of(place: &crate::place::Place, client: &mut StdioServer) -> (String, String) {
    let talk = end(place, client);
    let mut ends = ends(&events(place));
    assert_eq!(ends.len(), 1, "{ends:?}");
    (ends.remove(0).1, talk)
}

#[test]
fn answers_that_nobody_asked_for_are_dropped_and_counted() {
    for (tool, text, dropped) in [
        ("wrong_id", "done", 1),
        ("repeat", "first", 1),
        ("string_id", "done", 1),
        ("batch", "done", 1),
        ("junk", "done", 6),
    ] {
        let place = workspace();
        let mut client = connect(&place, &[]);
        assert_eq!(said(&call(&mut client, tool, &json!({}))), (text.to_owned(), false), "{tool}");
        // Whatever came behind the answer has been read by now.
        assert_eq!(client.request("ping", &json!({}))["result"], json!({}), "{tool}");
        let (ended, talk) = end_of(&place, &mut client);
        assert_eq!(ended, "succeeded", "{tool}");
        let expected = format!("warning: {dropped} messages of the server were not passed on");
        assert!(talk.contains(&expected), "{tool}: {talk}");
    }
}

#[test]
fn an_answer_that_comes_before_its_question_is_none() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    assert_eq!(said(&call(&mut client, "early", &json!({}))).0, "done");
    assert_eq!(said(&call(&mut client, "plain", &json!({ "a": 1 }))).0, r#"{"a": 1}"#);
    end(&place, &mut client);
}

#[test]
fn an_answer_that_can_be_read_in_two_ways_is_not_passed_on() {
    for tool in ["two_ways", "both"] {
        let place = workspace();
        let mut client = connect(&place, &[]);
        let (text, failed) = said(&call(&mut client, tool, &json!({})));
        assert!(failed && text.contains("what came of it is not known"), "{text}");
        let (ended, _) = end_of(&place, &mut client);
        assert!(ended.starts_with("unknown: the server's answer cannot be passed on"), "{ended}");
    }
}

#[test]
fn megabytes_pass_and_what_is_beyond_the_limit_does_not() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    assert_eq!(said(&call(&mut client, "megabytes", &json!({}))).0.len(), 8 << 20);
    let (text, failed) = said(&call(&mut client, "huge", &json!({})));
    assert!(failed && text.contains("more than 67108864 bytes"), "{text}");
    assert!(!said(&call(&mut client, "plain", &json!({}))).1);
    end(&place, &mut client);
    let ends = ends(&events(&place));
    let outcomes: Vec<&str> = ends.iter().map(|(_, outcome)| outcome.as_str()).collect();
    let huge = "unknown: the server's answer has more than 67108864 bytes";
    assert_eq!(outcomes, ["succeeded", huge, "succeeded"]);
}

#[test]
fn a_call_that_is_never_answered_gets_an_answer() {
    let place = workspace();
    let mut client = connect(&place, &["--call-timeout", "1"]);
    let (text, failed) = said(&call(&mut client, "silent", &json!({})));
    assert!(failed && text.contains("it was not answered within 1s"), "{text}");
    assert!(!said(&call(&mut client, "plain", &json!({}))).1);
    end(&place, &mut client);
    let ends = ends(&events(&place));
    assert_eq!(ends[0].1, "unknown: it was not answered within 1s");
    assert_eq!(ends[1].1, "succeeded");
}

#[test]
fn a_flood_of_notifications_passes_and_the_call_is_answered() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    client.ask("tools/call", &json!({ "name": "flood", "arguments": {} }));
    let mut notes = 0;
    let answer = loop {
        let message = client.next_message();
        if message.get("id").is_some() {
            break message;
        }
        notes += 1;
    };
    assert_eq!((notes, said(&answer).0.as_str()), (20_000, "done"));
    assert_eq!(end_of(&place, &mut client).0, "succeeded");
}

#[test]
fn escapes_and_exit_signals_are_bytes_like_others() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    let (text, failed) = said(&call(&mut client, "escapes", &json!({})));
    assert!(!failed && text.contains("\u{1b}[2J") && text.contains("exit_signal"));
    let error = call(&mut client, "error", &json!({}));
    assert_eq!(error["error"]["message"], json!("broken \u{1b}[31m"));
    end(&place, &mut client);
    let ends = ends(&events(&place));
    assert_eq!(ends[0].1, "succeeded");
    assert!(ends[1].1.starts_with("failed: the server answered with an error: broken"));
    let shown = place.run(&["trace", "show", &traces(&place)[0]]);
    assert_eq!(shown.code, 0);
    assert!(!shown.stdout().contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
}

#[test]
fn a_result_without_a_shape_is_a_failure_and_passes() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    assert_eq!(call(&mut client, "shapeless", &json!({}))["result"], json!(7));
    assert_eq!(end_of(&place, &mut client).0, "failed: its result is no object");
}

#[test]
fn a_server_that_dies_leaves_no_request_without_an_answer() {
    let place = workspace();
    let mut client = connect(&place, &[]);
    let silent = client.ask("tools/call", &json!({ "name": "silent", "arguments": {} }));
    let dies = client.ask("tools/call", &json!({ "name": "dies", "arguments": {} }));
    let mut answers = [client.next_message(), client.next_message()];
    answers.sort_by_key(|answer| answer["id"].as_u64());
    for (answer, id) in answers.iter().zip([silent, dies]) {
        assert_eq!(answer["id"], json!(id));
        let (text, failed) = said(answer);
        assert!(failed && text.contains("the server has ended with exit code 3"), "{text}");
    }
    let (code, talk) = client.end();
    assert_eq!(code, Some(1));
    assert!(talk.contains("error: the server has ended with exit code 3"), "{talk}");
    check_all(&place);
    let ends = ends(&events(&place));
    assert!(ends.iter().all(|end| end.1 == "unknown: the server has ended with exit code 3"));
    assert_eq!(ends.len(), 2);
}

#[test]
fn a_line_that_never_ends_blocks_nobody_from_ending() {
    let place = workspace();
    let mut client = connect(&place, &["--call-timeout", "1"]);
    let (_, failed) = said(&call(&mut client, "endless", &json!({})));
    assert!(failed);
    end(&place, &mut client);
}

#[test]
fn a_question_of_the_server_is_not_taken_for_one_of_ours() {
    let place = workspace();
    let capabilities = json!({ "elicitation": {} });
    let mut client = StdioServer::connect(proxied(&place, &[]), &capabilities);
    client.ask("tools/call", &json!({ "name": "asks", "arguments": {} }));
    let question = client.next_message();
    assert_eq!(
        (&question["id"], &question["params"]["message"]),
        (&json!("countersign-1"), &json!("m"))
    );
    let result = json!({ "action": "accept", "content": {} });
    client.send(json!({ "jsonrpc": "2.0", "id": "countersign-1", "result": result }).to_string());
    let answer = client.next_message();
    assert_eq!(serde_json::from_str::<Value>(&said(&answer).0).unwrap(), result);
    end(&place, &mut client);
}

#[test]
fn tools_that_change_after_they_were_listed_are_held() {
    let place = workspace();
    let mut client = connect(&place, &["--wait", "0"]);
    let first = list(&mut client);
    assert!(!said(&call(&mut client, "plain", &json!({}))).1);
    let second = list(&mut client);
    assert_ne!(first, second, "the client sees what the server says");
    let held = |client: &mut StdioServer, tool: &str| said(&call(client, tool, &json!({}))).0;
    let text = held(&mut client, "plain");
    assert!(text.contains("changed since it was agreed to: it has another description"), "{text}");
    assert!(text.contains("countersign approve "), "{text}");
    assert!(held(&mut client, "added").contains("was not agreed to yet: it is new"));
    assert!(held(&mut client, "unheard_of").contains("was never listed here"));
    assert!(!said(&call(&mut client, "repeat", &json!({}))).1, "it is as it was");
    end(&place, &mut client);
    let events = events(&place);
    let changed: Vec<&Value> = of_type(&events, "tools_listed")
        .into_iter()
        .map(|event| &event["payload"]["changed"])
        .collect();
    assert_eq!(changed, [&Value::Null, &json!(["plain", "wrong_number", "added"])]);
    assert_eq!(of_type(&events, "tool_execution_started").len(), 2);
}

#[test]
fn a_changed_tool_stays_held_in_later_runs_until_it_is_accepted() {
    let place = workspace();
    let kept = place.path().join("starts").display().to_string();
    let start = |place: &crate::place::Place| {
        let mut command = proxied(place, &["--wait", "0"]);
        command.arg(&kept);
        StdioServer::connect(command, &json!({}))
    };
    let mut client = start(&place);
    list(&mut client);
    end(&place, &mut client);
    for _ in 0..2 {
        let mut client = start(&place);
        list(&mut client);
        assert!(said(&call(&mut client, "plain", &json!({}))).1);
        end(&place, &mut client);
    }
    let accepted = place.run(&["proxy", "--name", "hostile", "--accept-tools"]);
    assert_eq!((accepted.code, accepted.stdout()), (0, "added\nplain\nwrong_number\n"));
    let mut client = start(&place);
    list(&mut client);
    assert!(!said(&call(&mut client, "plain", &json!({}))).1);
    end(&place, &mut client);
    let last = events_of(&place, traces(&place).last().unwrap());
    assert_eq!(of_type(&last, "tools_listed")[0]["payload"]["changed"], Value::Null);
}
