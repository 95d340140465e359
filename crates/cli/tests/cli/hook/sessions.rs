//! Which recording a call belongs to.

use std::fs;
use std::thread;

use serde_json::{Value, json};

use super::{after, before, claude, events, hook, receipts, traces, types, verify_all, workspace};
use crate::place::Place;

fn call(place: &Place, session: &str, agent: Option<&str>, id: &str) -> Value {
    let mut call = before(place, id, "Bash", &json!({ "command": "ls" }));
    call["session_id"] = json!(session);
    if let Some(agent) = agent {
        call["agent_id"] = json!(agent);
        call["agent_type"] = json!("Explore");
    }
    call
}

fn links(place: &Place, trace: &str) -> Value {
    events(place, trace)[0]["payload"]["links"].clone()
}

fn event(place: &Place, session: &str, event: &str, members: &Value) -> Value {
    let mut input = claude(place, event, members);
    input["session_id"] = json!(session);
    input
}

fn done(place: &Place, input: &Value) {
    let said = hook(place, input);
    assert_eq!(said.code, 0, "{said}");
    assert_eq!(said.stderr, "", "{said}");
}

#[test]
fn a_session_is_one_recording_from_its_start_to_its_end() {
    let place = workspace();
    let start = json!({ "source": "startup", "model": "claude-sonnet-5" });
    done(&place, &event(&place, "s", "SessionStart", &start));
    done(&place, &call(&place, "s", None, "t1"));
    // Compaction is no new session.
    done(&place, &event(&place, "s", "SessionStart", &json!({ "source": "compact" })));
    done(&place, &event(&place, "s", "SessionEnd", &json!({ "reason": "prompt_input_exit" })));
    let [trace] = traces(&place).try_into().unwrap();
    let events = events(&place, &trace);
    assert_eq!(
        types(&events),
        [
            "session_initialized",
            "artifact_recorded",
            "tool_intent_signed",
            "tool_intent_reviewed",
            "final_statement_signed",
            "verification_run_started",
            "verification_run_completed",
        ]
    );
    assert_eq!(events[1]["payload"]["purpose"], "workspace_snapshot");
    let first = &events[0]["payload"];
    assert_eq!(
        first["on_behalf_of"],
        json!({ "agent_id": "claude-code", "client": "claude-code (claude-sonnet-5)" })
    );
    assert_eq!(
        first["links"],
        json!({ "agent_session": { "client": "claude-code", "session_id": "s" } })
    );
    assert_eq!(
        events[4]["payload"]["final_verdict"],
        "the agent's session ended: prompt_input_exit"
    );
    assert_eq!(place.run(&["verify", &trace]).code, 0);
}

#[test]
fn a_session_that_is_resumed_goes_on_in_a_recording_that_names_the_one_before() {
    let place = workspace();
    done(&place, &event(&place, "s", "SessionStart", &json!({ "source": "startup" })));
    done(&place, &event(&place, "s", "SessionEnd", &json!({ "reason": "other" })));
    done(&place, &event(&place, "s", "SessionStart", &json!({ "source": "resume" })));
    done(&place, &call(&place, "s", None, "t1"));
    let mut all = traces(&place);
    all.sort();
    let [before, now] = all.try_into().unwrap();
    assert_eq!(
        links(&place, &now),
        json!({
            "agent_session": { "client": "claude-code", "session_id": "s" },
            "continues": { "trace_id": before },
        })
    );
    verify_all(&place);
}

#[test]
fn a_sub_agent_has_a_recording_of_its_own_that_names_its_parent() {
    let place = workspace();
    done(&place, &call(&place, "s", Some("a1"), "t1"));
    done(&place, &call(&place, "s", None, "t2"));
    done(&place, &call(&place, "s", Some("a2"), "t3"));
    let stop = json!({
        "agent_id": "a1", "agent_type": "Explore", "stop_hook_active": false,
        "agent_transcript_path": "/x/subagents/a1.jsonl", "last_assistant_message": "done",
    });
    done(&place, &event(&place, "s", "SubagentStop", &stop));
    let named = |agent: Option<&str>| {
        let all = traces(&place);
        let mut found = all
            .iter()
            .filter(|trace| links(&place, trace)["agent_session"]["agent_id"].as_str() == agent);
        let only = found.next().unwrap().clone();
        assert_eq!(found.next(), None);
        only
    };
    let (main, one, two) = (named(None), named(Some("a1")), named(Some("a2")));
    for sub in [&one, &two] {
        assert_eq!(links(&place, sub)["parent"], json!({ "trace_id": main }));
    }
    assert_eq!(
        events(&place, &one)[0]["payload"]["on_behalf_of"]["agent_id"],
        "claude-code/Explore"
    );
    let closed = |trace: &str| place.run(&["verify", trace]).code == 0;
    assert_eq!([&main, &one, &two].map(|trace| closed(trace)), [false, true, false]);
    // What a sub-agent left open ends with its session.
    done(&place, &event(&place, "s", "SessionEnd", &json!({ "reason": "other" })));
    assert_eq!([&main, &one, &two].map(|trace| closed(trace)), [true, true, true]);
    // A stop of one that did nothing leaves nothing behind.
    done(&place, &event(&place, "s", "SubagentStop", &json!({ "agent_id": "a9" })));
    assert_eq!(traces(&place).len(), 3);
}

#[test]
fn parallel_hooks_of_one_session_make_one_recording() {
    let place = workspace();
    thread::scope(|scope| {
        for number in 0..12 {
            let place = &place;
            scope.spawn(move || {
                let id = format!("t{number}");
                done(place, &call(place, "s", None, &id));
                let input = json!({ "command": "ls" });
                let mut told = after(place, &id, "Bash", &input, &json!({ "stdout": "" }));
                told["session_id"] = json!("s");
                done(place, &told);
            });
        }
    });
    let [trace] = traces(&place).try_into().unwrap();
    let receipts = receipts(&events(&place, &trace));
    assert_eq!(receipts, vec![json!(["pass", "token", true]); 12]);
    verify_all(&place);
}

#[test]
fn what_is_kept_of_a_session_beside_its_trace_may_be_lost_or_wrong() {
    let place = workspace();
    done(&place, &call(&place, "s", None, "t1"));
    let [mine] = traces(&place).try_into().unwrap();
    let agents = place.path().join(".countersign/agents");
    fs::remove_dir_all(&agents).unwrap();
    done(&place, &call(&place, "s", None, "t2"));
    assert_eq!(traces(&place), [&*mine]);
    done(&place, &call(&place, "other", None, "t3"));
    let theirs = traces(&place).into_iter().find(|trace| *trace != mine).unwrap();
    // Files that name the recordings of others.
    for file in fs::read_dir(&agents).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|name| name == "json") {
            let text = fs::read_to_string(&path).unwrap();
            let other = if text.contains(&mine) { &theirs } else { &mine };
            fs::write(&path, json!({ "trace_id": other }).to_string()).unwrap();
        }
    }
    done(&place, &call(&place, "s", None, "t4"));
    done(&place, &call(&place, "other", None, "t5"));
    let calls = |trace: &str| -> Vec<Value> {
        let events = events(&place, trace);
        events.iter().filter_map(|event| event["payload"].get("call_id").cloned()).collect()
    };
    assert_eq!(
        (calls(&mine), calls(&theirs)),
        (vec![json!("t1"), json!("t2"), json!("t4")], vec![json!("t3"), json!("t5")],)
    );
    assert_eq!(traces(&place).len(), 2);
    verify_all(&place);
}
