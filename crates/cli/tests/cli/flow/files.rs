//! Files: a person's edits, undeclared changes, confinement.

use serde_json::json;

use super::{files, flow, run, says, script, workspace, write, writes};

/// An update of a file.
fn updates(path: &str, content: &str) -> serde_json::Value {
    let mut envelope = writes(&[(path, content)]);
    envelope["artifacts"][0]["operation"] = json!("update");
    envelope
}

#[test]
fn a_persons_edit_between_dispatch_and_apply_is_not_lost() {
    let place = workspace();
    write(&place, "doc.md", "as it was\n");
    write(&place, "other.md", "other\n");
    let mut both = updates("doc.md", "by the agent\n");
    let other = updates("other.md", "by the agent\n")["artifacts"][0].clone();
    both["artifacts"].as_array_mut().unwrap().insert(0, other);
    write(&place, "answers/edit.json", &both.to_string());
    // The agent answers once the person has written.
    script(
        &place,
        "edit",
        "echo started >&2\nuntil grep -q person doc.md; do sleep 0.01; done\ncat answers/edit.json\n",
    );
    flow(
        &place,
        "[limits]\nquestion_seconds = 1\n[[steps]]\nid = \"edit\"\nagent = \"a\"\n\
         action = \"edit\"\nattempts = 1\nwrites = [\"*.md\"]\n",
    );
    let ran = std::thread::scope(|scope| {
        let edited = scope.spawn(|| {
            let traces = place.path().join(".countersign/traces");
            // Once the call is recorded.
            loop {
                let found = std::fs::read_dir(&traces).into_iter().flatten().flatten();
                let called = found.map(|it| it.path().join("events.jsonl")).any(|it| {
                    std::fs::read_to_string(it).unwrap_or_default().contains("step_dispatched")
                });
                if called {
                    break;
                }
                std::thread::yield_now();
            }
            std::fs::write(place.path().join("doc.md"), "by a person\n").unwrap();
        });
        let ran = run(&place);
        edited.join().unwrap();
        ran
    });
    assert_eq!((ran.screen.code, ran.outcome()), (3, "failed"), "{}", ran.screen);
    let reason = ran.of("step_answered")[0]["files_refused"].as_str().unwrap();
    assert!(reason.contains("`doc.md`") && reason.contains("changed since"), "{reason}");
    let left = files(&place);
    assert_eq!((left["doc.md"].as_str(), left["other.md"].as_str()), ("by a person\n", "other\n"));
    ran.holds(&place, 0);
}

#[test]
fn another_attempt_sees_what_the_person_wrote_and_may_then_change_it() {
    let place = workspace();
    write(&place, "doc.md", "as it was\n");
    write(&place, "answers/edit.json", &updates("doc.md", "by the agent\n").to_string());
    // Whatever it sees, the file is edited once while the first attempt runs.
    script(
        &place,
        "edit",
        "if grep -q was doc.md; then until grep -q person doc.md; do sleep 0.01; done; fi\n\
         cat answers/edit.json\n",
    );
    flow(
        &place,
        "[[steps]]\nid = \"edit\"\nagent = \"a\"\naction = \"edit\"\nwrites = [\"doc.md\"]\n",
    );
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let traces = place.path().join(".countersign/traces");
            while std::fs::read_dir(&traces).map_or(0, Iterator::count) == 0 {
                std::thread::yield_now();
            }
            let trace = std::fs::read_dir(&traces).unwrap().next().unwrap().unwrap().path();
            let events = trace.join("events.jsonl");
            while !std::fs::read_to_string(&events).unwrap_or_default().contains("step_dispatched")
            {
                std::thread::yield_now();
            }
            std::fs::write(place.path().join("doc.md"), "by a person\n").unwrap();
        });
        run(&place)
    });
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    assert_eq!(ran.of("step_dispatched").len(), 2);
    assert_eq!(files(&place)["doc.md"], "by the agent\n");
    // What the person wrote is in the store.
    let before = ran.of("files_applied")[0]["files"][0]["before"].as_str().unwrap();
    assert_eq!(place.run(&["artifact", "show", before]).stdout(), "by a person\n");
    ran.holds(&place, 0);
}

#[test]
fn a_confined_agent_cannot_write_and_an_unconfined_one_that_does_is_told_of() {
    let place = workspace();
    script(
        &place,
        "go",
        "echo x > sneaky.txt 2>/dev/null || DENIED=1\n\
         printf '{\"success\":true,\"summary\":\"denied %s\",\"artifacts\":[],\
         \"recommendation\":\"proceed\"}' \"$DENIED\"\n",
    );
    flow(&place, "[[steps]]\nid = \"go\"\nagent = \"a\"\naction = \"go\"\n");
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    assert_eq!(ran.of("step_answered")[0]["summary"], json!("denied 1"));
    assert!(!place.path().join("sneaky.txt").exists());
    let level = &ran.of("step_dispatched")[0]["isolation"]["level"];
    assert_eq!(level, &json!("full"));

    let text = std::fs::read_to_string(place.path().join("flow.toml")).unwrap();
    let text = text.replace("time_seconds = 20\n", "time_seconds = 20\nconfine = false\n");
    let text = text.replace("[agents.join]", "[limits]\nquestion_seconds = 1\n[agents.join]");
    write(&place, "flow.toml", &text);
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (3, "failed"), "{}", ran.screen);
    let changed = &ran.of("step_answered")[0]["undeclared_changes"];
    assert_eq!(changed, &json!(["sneaky.txt"]));
    ran.holds(&place, 0);
}

#[test]
fn sensitive_files_need_to_be_named_and_those_that_decide_what_runs_are_never_written() {
    let place = workspace();
    let steps = |writes: &str| {
        format!(
            "[limits]\nquestion_seconds = 1\n[[steps]]\nid = \"go\"\nagent = \"a\"\n\
             action = \"go\"\nattempts = 1\nwrites = [\"{writes}\"]\n"
        )
    };
    says(&place, "go", &writes(&[(".github/workflows/ci.yml", "on: push\n")]));
    flow(&place, &steps("**"));
    let ran = run(&place);
    let reason = ran.of("step_answered")[0]["files_refused"].as_str().unwrap();
    assert!(reason.contains("name this very file in `writes` to permit it"), "{reason}");
    flow(&place, &steps(".github/workflows/ci.yml"));
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    says(&place, "go", &writes(&[(".git/hooks/pre-commit", "x")]));
    flow(&place, &steps("**"));
    let ran = run(&place);
    let reason = ran.of("step_answered")[0]["protocol_error"].as_str().unwrap();
    assert!(reason.contains("path leads into `.git`"), "{reason}");
}
