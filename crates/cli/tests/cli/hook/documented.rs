//! Inputs as Claude Code's documentation has them, and the outputs that it describes.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{
    NOTHING, after, before, claude, decision, events, hook, hook_with, receipts, traces, types,
    verify_all, workspace,
};
use crate::place::Place;

fn bash(command: &str) -> Value {
    json!({ "command": command, "description": "what it is for", "timeout": 120_000 })
}

#[test]
fn a_command_that_the_policy_permits_is_allowed_with_the_rule() {
    let place = workspace();
    let call = before(&place, "toolu_01", "Bash", &bash("cargo test"));
    let answer = hook_with(&place, &["--skip-prompts"], call.to_string().as_bytes());
    assert_snapshot!(answer, @r#"
    exit 0
    --- stdout
    {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"countersign: runs programs that look at things, build or test (`everyday-commands`); nothing has been learned yet, so its risk class decides: standard (`learned-risk`); no guard objects (`guards`)"}}

    --- stderr
    "#);
    verify_all(&place);
}

#[test]
fn a_command_that_a_guard_refuses_is_denied_with_every_reason() {
    let place = workspace();
    let answer = hook(&place, &before(&place, "toolu_01", "Bash", &bash("cat ~/.ssh/id_rsa")));
    assert_snapshot!(answer, @r#"
    exit 0
    --- stdout
    {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"countersign: a file that holds credentials: cat ~/.ssh/id_rsa (`credential-files`)"}}

    --- stderr
    "#);
}

#[test]
fn what_no_rule_permits_is_asked_in_the_client_itself() {
    let place = workspace();
    let answer = hook(&place, &before(&place, "toolu_01", "Bash", &bash("npm publish")));
    assert_snapshot!(answer, @r#"
    exit 0
    --- stdout
    {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"countersign: may destroy something that cannot be brought back (`critical-risk`); nothing has been learned yet, so its risk class decides: critical (`learned-risk`); publishes something that cannot be taken back: npm publish (`publish`). Question $ID in trace $ID"}}

    --- stderr
    "#);
}

#[test]
fn each_documented_tool_is_judged_by_what_it_does() {
    let place = workspace();
    let file = |name: &str| place.path().join(name);
    let table = [
        ("Write", json!({ "file_path": file("src/file.txt"), "content": "x" }), "allow"),
        (
            "Edit",
            json!({ "file_path": file("a.txt"), "old_string": "a", "new_string": "b", "replace_all": false }),
            "allow",
        ),
        (
            "Edit",
            json!({ "file_path": file(".claude/settings.json"), "old_string": "a", "new_string": "b" }),
            "deny",
        ),
        ("Write", json!({ "file_path": "/etc/hosts", "content": "x" }), "deny"),
        ("Write", json!({ "file_path": file(".env"), "content": "A=b" }), "ask"),
        ("NotebookEdit", json!({ "notebook_path": file("n.ipynb"), "new_source": "1" }), "allow"),
        ("Read", json!({ "file_path": file("src/file.txt"), "offset": 10, "limit": 50 }), "allow"),
        ("Read", json!({ "file_path": "/etc/passwd" }), "ask"),
        ("Glob", json!({ "pattern": "**/*.ts", "path": file("src") }), "allow"),
        (
            "Grep",
            json!({ "pattern": "fix.*me", "path": file("src"), "glob": "*.ts", "output_mode": "content", "-i": true }),
            "allow",
        ),
        (
            "WebFetch",
            json!({ "url": "https://example.com/api", "prompt": "Extract the endpoints" }),
            NOTHING,
        ),
        (
            "WebSearch",
            json!({ "query": "react hooks", "allowed_domains": ["docs.example.com"] }),
            NOTHING,
        ),
        (
            "Agent",
            json!({ "prompt": "Find all endpoints", "description": "Find", "subagent_type": "Explore" }),
            "allow",
        ),
        ("TodoWrite", json!({ "todos": [] }), "allow"),
        ("mcp__memory__create_entities", json!({ "entities": [] }), NOTHING),
        ("Bash", bash("cargo test"), NOTHING),
        ("Bash", json!({ "command": "ls", "dangerouslyDisableSandbox": true }), "ask"),
        ("Bash", bash("node -e \"require('fs').writeFileSync('a', '')\""), "ask"),
        ("Bash", bash("cat .e*"), "ask"),
        ("Grep", json!({ "pattern": "KEY", "glob": ".env" }), "ask"),
        ("Grep", json!({ "pattern": "KEY", "glob": "**/.env*" }), "ask"),
        ("Grep", json!({ "pattern": "KEY", "glob": ["x"] }), "ask"),
        ("Read", json!({ "file_path": [file("a.txt")] }), "ask"),
        ("ReadMcpResourceTool", json!({ "server": "s", "uri": "file:///etc/passwd" }), "ask"),
        ("ReadMcpResourceTool", json!({ "server": "s", "uri": "demo://a/1" }), "allow"),
        ("mcp__x__y", json!({ "bash": "rm -rf /" }), "deny"),
        ("mcp__x__y", json!({ "program": "rm", "args": ["-rf", "/"] }), "deny"),
        ("mcp__x__y", json!({ "code": "rm -rf /" }), "ask"),
        ("mcp__x__y", json!({ "location": "/etc/passwd" }), "deny"),
        ("mcp__x__y", json!({ "thing": "/etc/passwd" }), "ask"),
        ("mcp__x__y", json!({ "thing": file("src/a.rs") }), NOTHING),
        ("mcp__x__y", json!({ "u": format!("file://{}", file("%2eclaude/a").display()) }), "deny"),
        ("mcp__x__y", json!({ "text": "How do I undo a commit? See docs/git.md." }), NOTHING),
        ("mcp__fs__write_file", json!({ "path": file(".mcp.json"), "content": "{}" }), "deny"),
        ("SomethingNew", json!({}), "ask"),
    ];
    for (number, (tool, input, expected)) in table.iter().enumerate() {
        let answer = hook(&place, &before(&place, &format!("toolu_{number}"), tool, input));
        assert_eq!(decision(&answer), *expected, "{tool} {input}: {answer}");
    }
    verify_all(&place);
}

#[test]
fn what_ran_is_recorded_under_the_verdict_of_its_own_call() {
    let place = workspace();
    // Two calls of the same command at once: each has its own name.
    for id in ["toolu_01", "toolu_02"] {
        hook(&place, &before(&place, id, "Bash", &bash("cargo test")));
    }
    let response = json!({ "stdout": "ok", "stderr": "", "interrupted": false, "isImage": false });
    let said = hook(&place, &after(&place, "toolu_02", "Bash", &bash("cargo test"), &response));
    assert_eq!(said.to_string(), "exit 0\n--- stdout\n\n--- stderr\n");
    let failure = claude(
        &place,
        "PostToolUseFailure",
        &json!({
            "tool_name": "Bash", "tool_input": bash("cargo test"), "tool_use_id": "toolu_01",
            "error": "Command exited with non-zero status code 1", "is_interrupt": false,
            "duration_ms": 4187,
        }),
    );
    assert_eq!(hook(&place, &failure).code, 0);
    let [trace] = traces(&place).try_into().unwrap();
    let events = events(&place, &trace);
    assert_eq!(
        types(&events),
        [
            "session_initialized",
            "tool_intent_signed",
            "tool_intent_reviewed",
            "tool_intent_signed",
            "tool_intent_reviewed",
            "tool_execution_started",
            "tool_execution_completed",
            "tool_execution_started",
            "tool_execution_failed",
        ]
    );
    assert_eq!(
        receipts(&events),
        [json!(["pass", "token", true]), json!(["pass", "token", false])]
    );
    let calls: Vec<&Value> = [1, 3].map(|at: usize| &events[at]["payload"]["call_id"]).into();
    assert_eq!(calls, ["toolu_01", "toolu_02"]);
    assert_eq!(events[8]["payload"]["reason"], "Command exited with non-zero status code 1");
    assert_eq!(events[8]["payload"]["elapsed_ms"], 4187);
    verify_all(&place);
}

#[test]
fn arguments_and_results_are_kept_as_the_bytes_that_came() {
    let place = workspace();
    let input = "{ \"command\" :\"cargo test\",\"n\":1.50 }";
    let response = "{\"stdout\": \"caf\\u00e9\" }";
    for (event, rest) in
        [("PreToolUse", ""), ("PostToolUse", &*format!(",\"tool_response\":{response}"))]
    {
        let text = format!(
            "{{\"session_id\":\"s\",\"hook_event_name\":\"{event}\",\"tool_name\":\"Bash\",\
             \"tool_use_id\":\"t\",\"tool_input\":{input}{rest}}}"
        );
        let answer = hook_with(&place, &[], text.as_bytes());
        assert_eq!(answer.code, 0, "{answer}");
    }
    let [trace] = traces(&place).try_into().unwrap();
    let events = events(&place, &trace);
    let kept = |event: usize, artifact: usize| {
        let hash = events[event]["artifacts"][artifact]["artifact_hash"].as_str().unwrap();
        place.run(&["artifact", "show", hash]).stdout().to_owned()
    };
    assert_eq!((kept(1, 1), kept(4, 0)), (input.to_owned(), response.to_owned()));
}

#[test]
fn a_call_that_ran_after_a_question_was_approved_in_the_client() {
    let place = workspace();
    let call = bash("npm publish");
    assert_eq!(decision(&hook(&place, &before(&place, "toolu_01", "Bash", &call))), "ask");
    // The user said no; the agent asks again and the user agrees.
    assert_eq!(decision(&hook(&place, &before(&place, "toolu_02", "Bash", &call))), "ask");
    hook(&place, &after(&place, "toolu_02", "Bash", &call, &json!({ "stdout": "" })));
    let [trace] = traces(&place).try_into().unwrap();
    let events = events(&place, &trace);
    assert_eq!(receipts(&events), [json!(["human_approved", "token", true])]);
    // Each call is in the record, by its name.
    let calls: Vec<&Value> =
        events.iter().filter_map(|event| event["payload"].get("call_id")).collect();
    assert_eq!(calls, ["toolu_01", "toolu_02"]);
    let answer = events.iter().find(|event| event["actor"]["role"] == "operator").unwrap();
    assert_eq!(answer["payload"]["channel"], "client-prompt");
    verify_all(&place);
}

#[test]
fn where_nobody_is_certain_to_be_asked_a_question_is_a_refusal_and_nobodys_answer() {
    let edit = |place: &Place| json!({ "file_path": place.path().join(".env"), "content": "A=b" });
    for (mode, tool) in [
        (Some("bypassPermissions"), "Bash"),
        (Some("dontAsk"), "Bash"),
        (Some("acceptEdits"), "Write"),
        (Some("something-new"), "Bash"),
        (None, "Bash"),
    ] {
        let place = workspace();
        let input = if tool == "Bash" { bash("npm publish") } else { edit(&place) };
        let in_mode = |mut call: Value| {
            call["permission_mode"] = json!(mode);
            call
        };
        let asked = hook(&place, &in_mode(before(&place, "toolu_01", tool, &input)));
        assert_eq!(decision(&asked), "deny", "{mode:?}");
        assert!(asked.stdout().contains("countersign approve $ID --yes"), "{asked}");
        // It ran all the same: nobody is said to have agreed.
        let ran = after(&place, "toolu_01", tool, &input, &json!({ "stdout": "" }));
        assert_eq!(hook(&place, &in_mode(ran)).code, 0);
        let [trace] = traces(&place).try_into().unwrap();
        let events = events(&place, &trace);
        assert_eq!(receipts(&events), [json!(["human_review", "token", true])], "{mode:?}");
        assert!(events.iter().all(|event| event["actor"]["role"] != "operator"), "{mode:?}");
        verify_all(&place);
    }
    let place = workspace();
    let mut call = before(&place, "toolu_01", "Bash", &bash("npm publish"));
    call["permission_mode"] = json!("acceptEdits");
    assert_eq!(decision(&hook(&place, &call)), "ask");
}

#[test]
fn what_a_person_approved_elsewhere_may_be_tried_again_and_both_calls_are_recorded() {
    let place = workspace();
    let call = |id: &str| {
        let mut call = before(&place, id, "Bash", &bash("npm publish"));
        call["permission_mode"] = json!("bypassPermissions");
        call
    };
    assert_eq!(decision(&hook(&place, &call("toolu_01"))), "deny");
    let [trace] = traces(&place).try_into().unwrap();
    let question = events(&place, &trace)[1]["event_id"].as_str().unwrap().to_owned();
    let approved = place.run(&["approve", &question, "--yes"]);
    assert_eq!(approved.code, 0, "{approved}");
    assert_eq!(decision(&hook(&place, &call("toolu_02"))), NOTHING);
    let ran = after(&place, "toolu_02", "Bash", &bash("npm publish"), &json!({ "stdout": "" }));
    assert_eq!(hook(&place, &ran).code, 0);
    let events = events(&place, &trace);
    assert_eq!(receipts(&events), [json!(["human_approved", "inferred", true])]);
    let calls: Vec<&Value> =
        events.iter().filter_map(|event| event["payload"].get("call_id")).collect();
    assert_eq!(calls, ["toolu_01", "toolu_02"]);
    verify_all(&place);
}

#[test]
fn a_verdict_covers_only_what_was_asked_for() {
    let place = workspace();
    // The same call by its name, and something else was done.
    hook(&place, &before(&place, "x1", "Bash", &bash("ls")));
    let response = json!({ "stdout": "" });
    hook(&place, &after(&place, "x1", "Bash", &bash("rm -rf /srv/data"), &response));
    // What a person agreed to is not what was done under another name.
    assert_eq!(decision(&hook(&place, &before(&place, "t1", "Bash", &bash("npm publish")))), "ask");
    hook(&place, &after(&place, "t1", "Bash", &bash("npm publish --tag next"), &response));
    hook(&place, &after(&place, "t9", "Bash", &bash("npm unpublish"), &response));
    let [trace] = traces(&place).try_into().unwrap();
    let events = events(&place, &trace);
    assert_eq!(receipts(&events), vec![json!([null, "ungated", true]); 3]);
    let action = |description: &str| {
        let actions = events.iter().filter_map(|event| event["payload"].get("action"));
        let told =
            |it: &&Value| it["metadata"]["description"].as_str().unwrap().starts_with(description);
        actions.clone().find(told).unwrap().clone()
    };
    let fault = "the verdict of this call is for something else than what was done";
    assert_eq!(action("rm -rf /srv/data")["metadata"]["token_fault"], fault);
    assert_eq!(action("npm publish --tag next")["metadata"]["token_fault"], fault);
    assert_eq!(action("npm unpublish")["metadata"]["token_fault"], Value::Null);
    assert!(events.iter().all(|event| event["actor"]["role"] != "operator"));
    verify_all(&place);
}

#[test]
fn what_ran_without_being_asked_about_is_recorded_as_that() {
    let place = workspace();
    hook(&place, &after(&place, "toolu_09", "Bash", &bash("make"), &json!({ "stdout": "" })));
    let [trace] = traces(&place).try_into().unwrap();
    let events = events(&place, &trace);
    assert_eq!(receipts(&events), [json!([null, "ungated", true])]);
    let hash = events[1]["artifacts"][0]["artifact_hash"].as_str().unwrap();
    let input: Value =
        serde_json::from_str(place.run(&["artifact", "show", hash]).stdout()).unwrap();
    assert_eq!(input["arguments"], bash("make"));
    verify_all(&place);
}

#[test]
fn what_ran_although_it_was_denied_says_so() {
    let place = workspace();
    let call = bash("cat ~/.ssh/id_rsa");
    assert_eq!(decision(&hook(&place, &before(&place, "toolu_01", "Bash", &call))), "deny");
    hook(&place, &after(&place, "toolu_01", "Bash", &call, &json!({ "stdout": "" })));
    let [trace] = traces(&place).try_into().unwrap();
    let denied = json!(["skip", null, false]);
    assert_eq!(receipts(&events(&place, &trace)), [denied, json!(["skip", "token", true])]);
    verify_all(&place);
}

#[test]
fn prompts_stay_where_they_are_to_stay() {
    let place = workspace();
    let allowed = before(&place, "toolu_01", "Bash", &bash("ls")).to_string();
    let denied = before(&place, "toolu_02", "Bash", &bash("cat ~/.ssh/id_rsa")).to_string();
    let nothing = "exit 0\n--- stdout\n\n--- stderr\n";
    let keep = |input: &str| hook_with(&place, &["--keep-prompts"], input.as_bytes());
    assert_eq!(keep(&allowed).to_string(), nothing);
    // What runs code is left to Claude Code's own rules in any case; what edits files is not.
    assert_eq!(hook_with(&place, &[], allowed.as_bytes()).to_string(), nothing);
    let edit = json!({ "file_path": "a.txt", "old_string": "a", "new_string": "b" });
    let edit = before(&place, "toolu_03", "Edit", &edit).to_string();
    assert_eq!(decision(&hook_with(&place, &[], edit.as_bytes())), "allow");
    assert_eq!(keep(&edit).to_string(), nothing);
    assert_eq!(decision(&keep(&denied)), "deny");
    // In the shadow nothing is stopped, and nothing is allowed that would have been asked about.
    for input in [&allowed, &denied] {
        assert_eq!(hook_with(&place, &["--shadow"], input.as_bytes()).to_string(), nothing);
    }
}

/// Whatever stands on standard output would be put before the model, and any code but 0 would keep a
/// session, a prompt or a sub-agent from going on.
#[test]
fn every_other_documented_event_is_answered_with_nothing() {
    let place = workspace();
    let stopped = json!({
        "stop_hook_active": false, "agent_id": "def456", "agent_type": "Explore",
        "agent_transcript_path": "/transcripts/abc123/subagents/agent-def456.jsonl",
        "last_assistant_message": "Analysis complete.",
    });
    let prompt = json!({ "prompt": "Write a function" });
    let asked =
        json!({ "tool_name": "Bash", "tool_input": bash("ls"), "permission_suggestions": [] });
    let table = [
        ("SessionStart", json!({ "source": "startup", "model": "claude-sonnet-5" }), true),
        ("SessionStart", json!({ "source": "resume" }), true),
        ("SessionStart", json!({ "source": "compact" }), true),
        ("SessionStart", json!({ "source": "clear", "agent_type": "reviewer" }), true),
        ("SubagentStart", json!({ "agent_id": "def456", "agent_type": "Explore" }), true),
        ("SubagentStop", stopped, true),
        ("SubagentStop", json!({ "stop_hook_active": true }), true),
        ("UserPromptSubmit", prompt, false),
        ("PermissionRequest", asked, false),
        (
            "Notification",
            json!({ "message": "m", "notification_type": "permission_prompt" }),
            false,
        ),
        ("Stop", json!({ "stop_hook_active": true, "last_assistant_message": "x" }), false),
        ("PreCompact", json!({ "trigger": "manual", "custom_instructions": "" }), false),
        ("SomethingNew", json!({ "anything": { "at": ["all"] } }), false),
        ("SessionEnd", json!({ "reason": "clear" }), true),
        ("SessionEnd", json!({ "reason": "prompt_input_exit" }), true),
        ("SessionEnd", json!({}), true),
    ];
    for (event, members, is_known) in &table {
        let said = hook(&place, &claude(&place, event, members));
        assert_eq!((said.code, said.stdout()), (0, ""), "{event}: {said}");
        assert_eq!(said.stderr.is_empty(), *is_known, "{event}: {said}");
    }
    // One of the session, one of its sub-agent; both have ended.
    let traces = traces(&place);
    assert_eq!(traces.len(), 2);
    for trace in &traces {
        let verified = place.run(&["verify", trace]);
        assert_eq!(verified.code, 0, "{verified}");
    }
}

#[test]
fn other_events_are_left_alone() {
    let place = workspace();
    let stop = claude(&place, "Stop", &json!({ "stop_hook_active": true }));
    assert_snapshot!(hook(&place, &stop), @r"
    exit 0
    --- stdout

    --- stderr
    warning: nothing is recorded of the event `Stop`
    ");
    let other = Place::empty();
    let nowhere = claude(&other, "SessionStart", &json!({ "source": "startup" }));
    assert_snapshot!(hook(&other, &nowhere), @r#"
    exit 0
    --- stdout
    {"systemMessage":"countersign could not record this: no workspace in `$PLACE` or above"}

    --- stderr
    error: no workspace in `$PLACE` or above
    hint: run `countersign init` to make one here
    "#);
}
