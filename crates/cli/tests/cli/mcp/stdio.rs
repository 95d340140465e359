//! The protocol over standard streams: what the server says, records and leaves behind.

use std::fs;

use countersign_testkit::mcp::StdioServer;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{act, change, connect, connect_with, done, risky, workspace};
use crate::place::Place;

/// What `tools/list` must say, to the letter.
const TOOLS: &str = include_str!("tools.json");

#[test]
fn without_a_workspace_the_server_says_how_to_make_one() {
    assert_snapshot!(Place::empty().run(&["mcp"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: no workspace in `$PLACE` or above
    hint: run `countersign init` to make one here
    ");
}

#[test]
fn the_server_says_who_it_is_and_how_to_use_it() {
    let place = workspace();
    let mut server = StdioServer::start(place.command(&["mcp"]));
    let said = server.initialize(&json!({}));
    let expected = json!({ "name": "countersign", "version": env!("CARGO_PKG_VERSION") });
    assert_eq!(said["serverInfo"], expected);
    assert_eq!(said["protocolVersion"], json!("2025-06-18"));
    assert_eq!(said["capabilities"], json!({ "prompts": {}, "tools": {} }));
    let instructions = said["instructions"].as_str().unwrap();
    assert!(instructions.contains("capseal_gate") && instructions.contains("countersign approve"));
    let prompts = server.request("prompts/list", &json!({}));
    assert_eq!(prompts["result"]["prompts"][0]["name"], json!("capseal-instructions"));
    let prompt = server.request("prompts/get", &json!({ "name": "capseal-instructions" }));
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], said["instructions"]);
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn the_tools_are_these_five_to_the_letter() {
    let mut server = connect(&workspace());
    let listed = server.request("tools/list", &json!({}))["result"]["tools"].clone();
    let expected: Value = serde_json::from_str(TOOLS).unwrap();
    assert!(listed == expected, "tools.json should be:\n{listed:#}");
}

#[test]
fn a_session_is_gated_recorded_and_counted() {
    let place = workspace();
    let mut server = connect(&place);
    let before = server.call("capseal_status", &json!({}));
    assert_eq!((&before["session_active"], &before["session_id"]), (&json!(false), &Value::Null));
    let asked = change(1);
    let verdict = server.call("capseal_gate", &asked);
    let recorded = server.call("capseal_record", &done(&asked, &verdict["gate_token"]));
    assert_eq!(recorded["gating"], json!("token"), "{recorded}");
    assert_eq!(recorded["receipt_chain_length"], json!(1));
    assert_eq!(recorded["gate_decision"], json!("pass"));
    assert_eq!(recorded["session_id"], verdict["session_id"]);
    // Without its token, the verdict of equal type and files counts; used up, none does.
    server.call("capseal_gate", &asked);
    let inferred = server.call("capseal_record", &done(&asked, &Value::Null));
    let ungated = server.call("capseal_record", &done(&asked, &Value::Null));
    assert_eq!((&inferred["gating"], &ungated["gating"]), (&json!("inferred"), &json!("ungated")));
    let again = server.call("capseal_record", &done(&asked, &verdict["gate_token"]));
    assert_eq!(again["gating"], json!("ungated"));
    assert!(again["token_fault"].is_string(), "{again}");
    let after = server.call("capseal_status", &json!({}));
    assert_eq!(after["session_id"], verdict["session_id"]);
    let counts = ["actions_count", "gates_count", "denials_count"].map(|name| after[name].clone());
    assert_eq!(counts, [json!(4), json!(2), json!(0)]);
    let context = server.call("capseal_context", &json!({ "file": "./src/file1.txt" }));
    assert_eq!(context["total_sessions"], json!(1), "{context}");
    let other = server.call("capseal_context", &json!({ "file": "file1.txt" }));
    assert_eq!(other["total_changes"], json!(0), "paths are compared, not their ends");
}

#[test]
fn a_failure_says_which_field_is_wrong_in_words_for_a_model() {
    let place = workspace();
    let mut server = connect(&place);
    let said = server.fail("capseal_record", &json!({ "action_type": "x", "description": "y" }));
    assert_eq!(said["ok"], json!(false));
    assert_eq!(said["error"], json!("`tool_name` is missing; it must be a text"));
    assert_eq!(
        said["human_summary"],
        json!("capseal_record failed: `tool_name` is missing; it must be a text")
    );
    let wrong = json!({ "action_type": "x", "description": 5 });
    let said = server.fail("capseal_gate", &wrong);
    assert_eq!(said["error"], json!("`description` must be a text, not this number"));
    assert_eq!(said["decision"], json!("deny"));
    let said = server.fail("capseal_seal", &json!({}));
    assert_eq!((&said["sealed"], &said["session_id"]), (&json!(false), &Value::Null));
    let unknown = server.request("tools/call", &json!({ "name": "rm", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], json!(-32602), "{unknown}");
    let nothing = fs::read_dir(place.path().join(".countersign/traces")).map_or(0, Iterator::count);
    assert_eq!(nothing, 0, "what was not understood begins no recording");
}

#[test]
fn calls_in_flight_are_answered_after_the_input_has_ended() {
    let place = workspace();
    let mut server = connect(&place);
    let ids: Vec<u64> = (0..20)
        .map(|number| {
            let params = json!({ "name": "capseal_gate", "arguments": change(number) });
            server.ask("tools/call", &params)
        })
        .collect();
    server.hang_up();
    let answers = server.rest();
    let answered: Vec<u64> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    assert_eq!(answered, ids, "each once, in the order in which they came");
    assert_eq!(server.end(), (Some(0), String::new()));
}

#[test]
fn two_servers_in_one_workspace_do_not_disturb_each_other() {
    let place = workspace();
    let (mut one, mut two) = (connect(&place), connect(&place));
    for number in 0..5 {
        let params = |server: &mut StdioServer| {
            let done = done(&change(number), &Value::Null);
            server.ask("tools/call", &json!({ "name": "capseal_record", "arguments": done }));
        };
        params(&mut one);
        params(&mut two);
        let answers = [one.next_message(), two.next_message()];
        let chain = answers
            .map(|answer| answer["result"]["structuredContent"]["receipt_chain_length"].clone());
        assert_eq!(chain, [json!(number + 1), json!(number + 1)]);
    }
    let sessions = [&mut one, &mut two].map(|server| {
        server.call("capseal_status", &json!({}))["session_id"].as_str().unwrap().to_owned()
    });
    assert_ne!(sessions[0], sessions[1]);
    for session in &sessions {
        let verified = place.run(&["verify", session]);
        assert_eq!(verified.code, 4, "open, and nothing wrong: {verified}");
    }
}

#[test]
fn no_secret_and_no_diff_reach_the_live_events() {
    let place = workspace();
    let mut command = place.command(&["mcp"]);
    let secret = "s3cr3t-value-of-the-environment";
    command.env("MY_API_TOKEN", secret);
    let mut server = StdioServer::connect(command, &json!({}));
    let mut asked = change(1);
    asked["description"] = json!(format!("use {secret}"));
    asked["diff_text"] = json!(format!("--- a/x\n+++ b/x\n+a line of the diff {secret}\n"));
    let verdict = server.call("capseal_gate", &asked);
    let mut report = done(&asked, &verdict["gate_token"]);
    report["output"] = json!(format!("it printed {secret}"));
    server.call("capseal_record", &report);
    server.end();
    let live = fs::read_to_string(place.path().join(".capseal/events.jsonl")).unwrap();
    let kinds: Vec<String> = live
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().into())
        .collect();
    assert_eq!(kinds, ["session_start", "gate", "record"]);
    assert!(!live.contains("a line of the diff"));
    let everything = std::process::Command::new("grep")
        .args(["-rl", secret, "."])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&everything.stdout), "", "the secret is nowhere");
}

#[test]
fn a_flagged_action_waits_for_a_person_and_the_same_question_gets_their_answer() {
    let place = workspace();
    let mut server = connect(&place);
    let flagged = server.call("capseal_gate", &risky());
    assert_eq!(flagged["decision"], json!("flag"), "{flagged}");
    let question = flagged["question"].as_str().unwrap();
    let summary = flagged["human_summary"].as_str().unwrap();
    assert!(summary.contains(&format!("countersign approve {question} --yes")), "{summary}");
    let approved = place.run(&["approve", question, "--yes"]);
    assert_eq!(approved.code, 0, "{approved}");
    let verdict = server.call("capseal_gate", &risky());
    assert_eq!(verdict["decision"], json!("approve"), "{verdict}");
    assert_eq!(verdict["approved_by_person"], json!(true));
    // It was approved once: what is asked for before that is recorded is asked about by itself.
    let second = server.call("capseal_gate", &risky());
    assert_eq!(second["decision"], json!("flag"), "{second}");
    assert_ne!(second["question"].as_str().unwrap(), question);
    let recorded = server.call("capseal_record", &done(&risky(), &verdict["gate_token"]));
    assert_eq!(recorded["gate_decision"], json!("human_approved"), "{recorded}");
}

/// Answers the server's question with this form, and gives what the gate says then.
fn asked_in_the_client(answer: &Value) -> (Value, Value) {
    let place = workspace();
    let mut server = connect_with(&place, &json!({ "elicitation": {} }));
    let id = server.ask("tools/call", &json!({ "name": "capseal_gate", "arguments": risky() }));
    let question = server.next_message();
    assert_eq!(question["method"], json!("elicitation/create"), "{question}");
    // Another call goes on while the person thinks.
    let meanwhile = server.call("capseal_status", &json!({}));
    assert_eq!(meanwhile["questions_count"], json!(1));
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
    server.send(reply.to_string());
    let verdict = server.next_message();
    assert_eq!(verdict["id"], json!(id), "{verdict}");
    let message = question["params"]["message"].clone();
    (message, verdict["result"]["structuredContent"].clone())
}

#[test]
fn a_client_that_can_ask_its_user_is_asked() {
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    let (message, verdict) = asked_in_the_client(&yes);
    assert!(message.as_str().unwrap().contains("npm publish"), "{message}");
    assert_eq!(verdict["decision"], json!("approve"), "{verdict}");
    assert_eq!(verdict["approved_by_person"], json!(true));
    let (_, verdict) = asked_in_the_client(&json!({ "action": "decline" }));
    assert_eq!(verdict["decision"], json!("deny"), "{verdict}");
    let (_, verdict) = asked_in_the_client(&json!({ "action": "cancel" }));
    assert_eq!(verdict["decision"], json!("flag"), "{verdict}");
}

#[test]
fn a_client_that_hangs_up_while_its_user_is_asked_still_gets_its_answer() {
    let place = workspace();
    let mut server = connect_with(&place, &json!({ "elicitation": {} }));
    server.ask("tools/call", &json!({ "name": "capseal_gate", "arguments": risky() }));
    assert_eq!(server.next_message()["method"], json!("elicitation/create"));
    server.hang_up();
    let last = server.rest().pop().unwrap();
    assert_eq!(last["result"]["structuredContent"]["decision"], json!("flag"), "{last}");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn in_shadow_mode_nothing_is_stopped_and_the_opinion_is_told() {
    let place = workspace();
    let mut server = StdioServer::connect(place.command(&["mcp", "--shadow"]), &json!({}));
    let verdict = server.call("capseal_gate", &risky());
    let told = ["decision", "gate_opinion", "enforced"].map(|name| verdict[name].clone());
    assert_eq!(told, [json!("approve"), json!("flag"), json!(false)], "{verdict}");
}

#[test]
fn the_agent_is_called_what_the_environment_or_else_its_client_says() {
    let place = workspace();
    let agents: Vec<String> = [None, Some("claude")]
        .into_iter()
        .map(|agent| {
            let mut command = place.command(&["mcp"]);
            if let Some(agent) = agent {
                command.env("CAPSEAL_AGENT", agent).env("CAPSEAL_MODEL", "big-model-9");
            }
            let mut server = StdioServer::connect(command, &json!({}));
            act(&mut server, 1);
            let status = server.call("capseal_status", &json!({}));
            status["recent_sessions"][0]["agent"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(agents, ["test-client", "claude"]);
    let live = fs::read_to_string(place.path().join(".capseal/events.jsonl")).unwrap();
    assert!(live.contains("test-client 0.0.1, model big-model-9"), "{live}");
}

#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_end_answers_what_is_under_way() {
    let place = workspace();
    let mut server = connect(&place);
    for number in 0..10 {
        let params = json!({ "name": "capseal_gate", "arguments": change(number) });
        server.ask("tools/call", &params);
    }
    // One answer shows that the others have been read, or are about to be.
    server.next_message();
    let pid = server.child.id().to_string();
    std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let rest = server.rest();
    assert!(rest.iter().all(|answer| answer["result"]["isError"] != json!(true)), "{rest:?}");
}
