//! A run that is cut off, and what resuming it does and does not do again.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{events, files, flow, says, script, workspace, writes};
use crate::place::Place;

fn start(place: &Place) -> std::process::Child {
    let mut command = place.command(&["flow", "run", "flow.toml", "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// The trace of the only flow, once it has begun.
fn begun(place: &Place) -> String {
    let traces = place.path().join(".countersign/traces");
    loop {
        let found = std::fs::read_dir(&traces).into_iter().flatten().flatten();
        for entry in found {
            let text = std::fs::read_to_string(entry.path().join("events.jsonl"));
            if text.is_ok_and(|text| text.ends_with('\n')) {
                return entry.file_name().into_string().unwrap();
            }
        }
        std::thread::yield_now();
    }
}

fn wait_for(place: &Place, trace: &str, event_type: &str, count: usize) {
    loop {
        let path = place.path().join(".countersign/traces").join(trace).join("events.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.matches(&format!("\"event_type\":\"{event_type}\"")).count() >= count {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn an_agent_whose_answer_is_recorded_is_not_called_again_after_kill_9() {
    let place = workspace();
    says(&place, "one", &writes(&[("out/one.md", "1\n")]));
    script(&place, "two", "if [ ! -f go ]; then sleep 60; fi\ncat answers/two.json\n");
    super::write(&place, "answers/two.json", &writes(&[("out/two.md", "2\n")]).to_string());
    flow(
        &place,
        "[[steps]]\nid = \"one\"\nagent = \"a\"\naction = \"one\"\nwrites = [\"out/one.md\"]\n\
         [[steps]]\nid = \"two\"\nagent = \"a\"\naction = \"two\"\nneeds = [\"one\"]\n\
         writes = [\"out/two.md\"]\n",
    );
    let mut child = start(&place);
    let trace = begun(&place);
    wait_for(&place, &trace, "step_dispatched", 2);
    let busy = place.run(&["flow", "resume", &trace]);
    assert!(busy.code == 3 && busy.stderr.contains("run by another process"), "{busy}");
    child.kill().unwrap();
    child.wait().unwrap();
    super::write(&place, "go", "");
    let resumed = place.run(&["flow", "resume", &trace, "--json"]);
    assert_eq!(resumed.code, 0, "{resumed}");
    let events = events(&place, &trace);
    let calls: Vec<(Value, Value, Value)> = events
        .iter()
        .filter(|it| it["event_type"] == "step_dispatched")
        .map(|it| &it["payload"])
        .map(|it| (it["step"].clone(), it["attempt"].clone(), it["interrupted"].clone()))
        .collect();
    assert_eq!(
        calls,
        [
            (json!("one"), json!(1), Value::Null),
            (json!("two"), json!(1), Value::Null),
            (json!("two"), json!(2), json!(true)),
        ]
    );
    assert_eq!(place.run(&["verify", &trace, "--no-write"]).code, 0);
    let over = place.run(&["flow", "resume", &trace]);
    assert!(over.code == 3 && over.stderr.contains("has ended: completed"), "{over}");
}

#[test]
fn a_call_that_was_cut_off_and_cannot_be_paid_for_again_ends_the_flow() {
    for budget in ["calls = 1", "time_seconds = 1"] {
        let place = workspace();
        script(&place, "go", "sleep 60\n");
        flow(
            &place,
            &format!(
                "[budget]\n{budget}\n[[steps]]\nid = \"go\"\nagent = \"a\"\naction = \"go\"\n"
            ),
        );
        let mut child = start(&place);
        let trace = begun(&place);
        wait_for(&place, &trace, "step_dispatched", 1);
        if budget.starts_with("time") {
            // Until what was reserved is used up.
            std::thread::sleep(std::time::Duration::from_millis(900));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let resumed = place.run(&["flow", "resume", &trace]);
        assert_eq!(resumed.code, 3, "{budget}: {resumed}");
        let last = events(&place, &trace).pop().unwrap();
        assert_eq!(last["payload"]["outcome"], json!("exhausted"), "{budget}: {resumed}");
        assert_eq!(place.run(&["verify", &trace, "--no-write"]).code, 0);
    }
}

#[test]
fn a_session_that_ended_before_the_flow_could_say_so_is_not_run_again() {
    let place = workspace();
    super::write(
        &place,
        "task.toml",
        "task_id = \"count\"\nobjective = \"count\"\n[[steps]]\nid = \"count\"\n\
         objective = \"count\"\n[[steps.actions]]\ntool = \"exec\"\n\
         argv = [\"sh\", \"-c\", \"echo x >> out.txt\"]\n",
    );
    flow(
        &place,
        "[agents.s]\nkind = \"session\"\ntask = \"task.toml\"\n\
         [[steps]]\nid = \"it\"\nagent = \"s\"\naction = \"run\"\nwrites = [\"out.txt\"]\n",
    );
    let mut child = start(&place);
    // Killed as soon as the session has its last event.
    let session = loop {
        let traces = std::fs::read_dir(place.path().join(".countersign/traces"));
        let ended = traces.into_iter().flatten().flatten().find(|entry| {
            let text = std::fs::read_to_string(entry.path().join("events.jsonl"));
            text.is_ok_and(|text| text.contains("\"verification_run_completed\""))
        });
        if let Some(entry) = ended {
            break entry.file_name().into_string().unwrap();
        }
        std::thread::yield_now();
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let traces = std::fs::read_dir(place.path().join(".countersign/traces")).unwrap();
    let names: Vec<String> =
        traces.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let trace = names.iter().find(|name| **name != session).unwrap();
    let resumed = place.run(&["flow", "resume", trace]);
    let over = resumed.stderr.contains("has ended: completed");
    assert!(resumed.code == 0 || over, "{resumed}");
    assert_eq!(std::fs::read_to_string(place.path().join("out.txt")).unwrap(), "x\n");
}

#[test]
fn ctrl_c_ends_the_agents_and_leaves_a_flow_that_can_be_resumed_or_aborted() {
    let place = workspace();
    script(&place, "go", "[ -f go ] || sleep 60\ncat answers/go.json\n");
    super::write(&place, "answers/go.json", &writes(&[]).to_string());
    flow(&place, "[[steps]]\nid = \"go\"\nagent = \"a\"\naction = \"go\"\n");
    let mut child = start(&place);
    let trace = begun(&place);
    wait_for(&place, &trace, "step_dispatched", 1);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let open = place.run(&["verify", &trace, "--no-write"]);
    assert_eq!(open.code, 4, "{open}");
    assert!(!events(&place, &trace).iter().any(|it| it["event_type"] == "step_answered"));
    let aborted = place.run(&["trace", "abort", &trace, "--reason", "enough"]);
    assert_eq!(aborted.code, 0, "{aborted}");
    let last = events(&place, &trace).pop().unwrap();
    assert_eq!(last["payload"], json!({ "outcome": "aborted", "summary": "enough" }));
    assert_eq!(place.run(&["verify", &trace, "--no-write"]).code, 0);
}

#[test]
fn killed_at_any_event_a_flow_is_resumed_to_the_same_files() {
    let place = workspace();
    let steps = "[limits]\nparallel = 3\n\
         [[steps]]\nid = \"w\"\nagent = \"a\"\naction = \"w\"\nwrites = [\"out/w.md\"]\n\
         max_iterations = 2\n\
         [[steps]]\nid = \"x\"\nagent = \"a\"\naction = \"x\"\nwrites = [\"out/x/**\"]\n\
         [[steps]]\nid = \"v\"\nagent = \"a\"\naction = \"v\"\nneeds = [\"w\", \"x\"]\n\
         on_retry = \"w\"\n\
         [[steps]]\nid = \"all\"\nagent = \"join\"\naction = \"join\"\nneeds = [\"v\"]\n";
    let lay = |place: &Place| {
        says(place, "w", &writes(&[("out/w.md", "first\n")]));
        says(place, "w-2", &writes(&[("out/w.md", "second\n")]));
        says(place, "x", &writes(&[("out/x/a.md", "a\n"), ("out/x/b.md", "b\n")]));
        says(place, "v", &super::recommends(true, "retry", &["again"]));
        says(place, "v-2", &super::recommends(true, "proceed", &[]));
        flow(place, steps);
    };
    lay(&place);
    let whole = super::run(&place);
    assert_eq!(whole.outcome(), "completed", "{}", whole.screen);
    let expected = files(&place);
    let mut resumed = 0;
    for kill_at in 1..whole.events.len() {
        let place = workspace();
        lay(&place);
        let mut child = start(&place);
        let trace = begun(&place);
        loop {
            let path = place.path().join(".countersign/traces").join(&trace).join("events.jsonl");
            let lines = std::fs::read_to_string(path).unwrap_or_default().lines().count();
            if lines >= kill_at {
                break;
            }
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let screen = place.run(&["flow", "resume", &trace]);
        // It may have been over before the kill.
        resumed += usize::from(screen.code == 0);
        let ended = screen.code == 0 || screen.stderr.contains("has ended: completed");
        assert!(ended, "{kill_at}: {screen}");
        assert_eq!(files(&place), expected, "{kill_at}");
        assert_eq!(place.run(&["doctor", "--repair"]).code, 0, "{kill_at}");
        assert_eq!(place.run(&["verify", &trace, "--no-write"]).code, 0);
        assert_eq!(place.run(&["flow", "replay", &trace]).code, 0);
        let answers = events(&place, &trace);
        let answers = answers.iter().filter(|it| it["event_type"] == "step_answered").count();
        assert_eq!(answers, whole.of("step_answered").len(), "{kill_at}");
    }
    println!("{resumed} of {} kills left something to resume", whole.events.len() - 1);
    assert!(resumed > whole.events.len() / 3, "{resumed}");
}
