//! Order, loops, conditions, budgets, joins, other kinds of agents.

use serde_json::json;

use super::{HEAD, files, flow, recommends, run, says, script, workspace, write, writes};

#[test]
fn a_validator_sends_the_writer_back_and_its_notes_arrive() {
    let place = workspace();
    says(&place, "write", &writes(&[("specs/005/spec.md", "one\n")]));
    let mut again = writes(&[("specs/005/spec.md", "two\n")]);
    again["notes"] = json!(["fixed it"]);
    says(&place, "write-2", &again);
    says(&place, "validate", &recommends(true, "retry", &["line 1 is wrong"]));
    says(&place, "validate-2", &recommends(true, "proceed", &["all is well"]));
    says(&place, "publish", &recommends(true, "proceed", &[]));
    flow(
        &place,
        "[[steps]]\nid = \"write\"\nagent = \"a\"\naction = \"write\"\n\
         writes = [\"specs/{feature_id}/**\"]\nmax_iterations = 3\n\
         [[steps]]\nid = \"validate\"\nagent = \"a\"\naction = \"validate\"\nneeds = [\"write\"]\n\
         on_retry = \"write\"\npaths = { spec = \"specs/{feature_id}/spec.md\" }\n\
         [[steps]]\nid = \"publish\"\nagent = \"a\"\naction = \"publish\"\nneeds = [\"validate\"]\n\
         params = { where = \"here\" }\n",
    );
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    let called = ["write#1", "validate#1", "write#2", "validate#2", "publish#1"];
    assert_eq!(ran.called(), called);
    assert_eq!(files(&place), [("specs/005/spec.md".to_owned(), "two\n".to_owned())].into());
    assert_eq!(
        ran.input(&place, 2),
        json!({
            "context": {
                "feature_id": "005", "workflow": "specify", "iteration": 2, "max_iterations": 3,
            },
            "paths": {},
            "task": { "action": "write", "params": {} },
            "prior_context": ["I say retry", "line 1 is wrong"],
        })
    );
    assert_eq!(ran.input(&place, 3)["prior_context"], json!(["fixed it"]));
    assert_eq!(ran.input(&place, 3)["paths"], json!({ "spec": "specs/005/spec.md" }));
    assert_eq!(ran.input(&place, 4)["task"]["params"], json!({ "where": "here" }));
    ran.holds(&place, 0);
    // Sealed into one file it is still whole.
    let sealed = place.run(&["seal", &ran.trace, "-o", "flow.cap"]);
    assert_eq!(sealed.code, 0, "{sealed}");
    let verified = place.run(&["verify", "flow.cap", "--no-write"]);
    assert_eq!(verified.code, 0, "{verified}");
}

#[test]
fn facts_of_files_decide_which_branch_runs_and_a_join_hands_on_all_notes() {
    let place = workspace();
    says(&place, "test", &writes(&[("out/report.json", "{\"failed\": 2}")]));
    says(&place, "fix", &recommends(true, "proceed", &["fixed two"]));
    says(&place, "praise", &recommends(true, "proceed", &["never said"]));
    says(&place, "last", &recommends(true, "proceed", &[]));
    let step = |id: &str, when: &str| {
        format!(
            "[[steps]]\nid = \"{id}\"\nagent = \"a\"\naction = \"{id}\"\nneeds = [\"test\"]\n\
             when = {{ file = \"out/report.json\", pointer = \"/failed\", {when} }}\n"
        )
    };
    flow(
        &place,
        &format!(
            "[[steps]]\nid = \"test\"\nagent = \"a\"\naction = \"test\"\nwrites = [\"out/*.json\"]\n\
             {}{}\
             [[steps]]\nid = \"all\"\nagent = \"join\"\naction = \"join\"\nneeds = [\"fix\", \"praise\"]\n\
             [[steps]]\nid = \"last\"\nagent = \"a\"\naction = \"last\"\nneeds = [\"all\"]\n\
             when = [{{ step = \"praise\", skipped = true }}, {{ step = \"fix\", success = true }}]\n",
            step("fix", "at_least = 1"),
            step("praise", "equals = 0"),
        ),
    );
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    assert_eq!(ran.called(), ["test#1", "fix#1", "all#1", "last#1"]);
    let fact = json!([
        { "path": "out/report.json", "pointer": "/failed", "exists": true, "value": 2 },
    ]);
    assert_eq!(ran.of("step_skipped"), [&json!({ "step": "praise", "facts": fact })]);
    assert_eq!(ran.input(&place, 3)["prior_context"], json!(["fixed two"]));
    ran.holds(&place, 0);
}

#[test]
fn a_loop_that_never_ends_is_exhausted_and_never_completed() {
    let place = workspace();
    says(&place, "write", &recommends(true, "proceed", &[]));
    says(&place, "validate", &recommends(true, "retry", &[]));
    flow(
        &place,
        "[[steps]]\nid = \"write\"\nagent = \"a\"\naction = \"write\"\nmax_iterations = 2\n\
         [[steps]]\nid = \"validate\"\nagent = \"a\"\naction = \"validate\"\nneeds = [\"write\"]\n\
         on_retry = \"write\"\n\
         [[steps]]\nid = \"after\"\nagent = \"a\"\naction = \"after\"\nneeds = [\"validate\"]\n",
    );
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (3, "exhausted"), "{}", ran.screen);
    assert_eq!(ran.called(), ["write#1", "validate#1", "write#2", "validate#2"]);
    let summary = ran.of("flow_finished")[0]["summary"].clone();
    assert_eq!(summary, json!("step `validate`: `write` ran 2 times, which is its bound"));
    ran.holds(&place, 0);
}

#[test]
fn parallel_branches_stay_within_the_budget_of_calls() {
    let place = workspace();
    says(&place, "go", &recommends(true, "proceed", &[]));
    let mut steps = "[budget]\ncalls = 5\n[limits]\nparallel = 8\n".to_owned();
    for at in 0..5 {
        steps += &format!("[[steps]]\nid = \"s{at}\"\nagent = \"a\"\naction = \"go\"\n");
        steps += &format!(
            "[[steps]]\nid = \"t{at}\"\nagent = \"a\"\naction = \"go\"\nneeds = [\"s{at}\"]\n\
             when = {{ step = \"s{at}\", success = true }}\n"
        );
    }
    flow(&place, &steps);
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (3, "exhausted"), "{}", ran.screen);
    assert_eq!(ran.of("step_dispatched").len(), 5);
    ran.holds(&place, 0);
}

#[test]
fn a_step_that_gives_the_feature_its_id_names_the_paths_after_it() {
    let place = workspace();
    let mut made = writes(&[("specs/006-new/a.md", "a")]);
    made["feature_id"] = json!("006-new");
    says(&place, "scaffold", &made);
    says(&place, "read", &recommends(true, "proceed", &[]));
    let text = HEAD.replace("feature_id = \"005\"\n", "");
    write(
        &place,
        "flow.toml",
        &format!(
            "{text}[[steps]]\nid = \"scaffold\"\nagent = \"a\"\naction = \"scaffold\"\n\
             scaffold = true\nwrites = [\"specs/{{feature_id}}/**\"]\n\
             [[steps]]\nid = \"read\"\nagent = \"a\"\naction = \"read\"\nneeds = [\"scaffold\"]\n\
             paths = {{ a = \"specs/{{feature_id}}/a.md\" }}\n"
        ),
    );
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    let [first, second] = [0, 1].map(|call| ran.input(&place, call));
    assert_eq!(first["context"]["feature_id"], json!(null));
    assert_eq!(second["context"]["feature_id"], json!("006-new"));
    assert_eq!(second["paths"], json!({ "a": "specs/006-new/a.md" }));
    ran.holds(&place, 0);
}

#[test]
fn a_coding_agent_is_prompted_and_its_envelope_is_found_among_its_talk() {
    let place = workspace();
    let envelope = recommends(true, "proceed", &["noted"]);
    let talk = format!("cat >/dev/null\necho 'Let me see: {{x}}'\necho '{envelope}'\necho bye\n");
    write(&place, "talk.sh", &talk);
    flow(
        &place,
        "[agents.coder]\nkind = \"prompt\"\ncommand = [\"sh\", \"talk.sh\"]\n\
         [[steps]]\nid = \"code\"\nagent = \"coder\"\naction = \"code\"\n\
         [[steps]]\nid = \"after\"\nagent = \"join\"\naction = \"join\"\nneeds = [\"code\"]\n",
    );
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    assert_eq!(ran.input(&place, 1)["prior_context"], json!(["noted"]));
    ran.holds(&place, 0);
}

#[test]
fn a_step_can_be_a_whole_session_and_the_two_traces_name_each_other() {
    let place = workspace();
    write(
        &place,
        "task.toml",
        "task_id = \"touch\"\nobjective = \"leave a file\"\n\
         [[steps]]\nid = \"touch\"\nobjective = \"leave a file\"\n\
         [[steps.actions]]\ntool = \"exec\"\nargv = [\"sh\", \"-c\", \"mkdir -p out && echo x > out/made.txt\"]\n",
    );
    let steps = "[limits]\nquestion_seconds = 1\n[agents.s]\nkind = \"session\"\ntask = \"task.toml\"\n\
         [[steps]]\nid = \"build\"\nagent = \"s\"\naction = \"run\"\nwrites = [\"out/**\"]\n";
    flow(&place, steps);
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (0, "completed"), "{}", ran.screen);
    let session = ran.of("step_answered")[0]["links"]["session"]["trace_id"].clone();
    let session = session.as_str().unwrap();
    let first = super::events(&place, session)[0]["payload"]["links"].clone();
    let here = json!({ "flow": { "trace_id": ran.trace, "step": "build", "iteration": 1 } });
    assert_eq!(first, here);
    assert_eq!(place.run(&["verify", session, "--no-write"]).code, 0);
    ran.holds(&place, 0);
    // What its tools change where the step may not write is a violation.
    std::fs::remove_dir_all(place.path().join("out")).unwrap();
    flow(&place, &steps.replace("out/**", "elsewhere/**"));
    let ran = run(&place);
    assert_eq!((ran.screen.code, ran.outcome()), (3, "failed"), "{}", ran.screen);
    assert_eq!(ran.of("step_answered")[0]["undeclared_changes"], json!(["out/made.txt"]));
    ran.holds(&place, 0);
}

#[test]
fn what_agents_print_is_escaped_and_secrets_do_not_reach_the_store() {
    let place = workspace();
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let secret = secret.as_str();
    let mut envelope = recommends(true, "proceed", &[secret]);
    envelope["summary"] = json!("\u{1b}[31mred");
    says(&place, "go", &envelope);
    flow(&place, "[[steps]]\nid = \"go\"\nagent = \"a\"\naction = \"go\"\n");
    let screen = place.run(&["flow", "run", "flow.toml"]);
    assert_eq!(screen.code, 0, "{screen}");
    assert!(!screen.stderr.contains('\u{1b}') && screen.stderr.contains("\\u{1b}[31mred"));
    let store = place.path().join(".countersign");
    let found = std::process::Command::new("grep").args(["-rl", secret]).arg(store).output();
    assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), "");
    // A file with a secret in it is refused: what is stored would not be what is written.
    says(&place, "go", &writes(&[("out/key", secret)]));
    flow(
        &place,
        "[limits]\nquestion_seconds = 1\n[[steps]]\nid = \"go\"\nagent = \"a\"\naction = \"go\"\n\
         attempts = 1\nwrites = [\"out/**\"]\n",
    );
    let ran = run(&place);
    let reason = ran.of("step_answered")[0]["files_refused"].as_str().unwrap();
    assert!(reason.starts_with("`out/key`: it holds a secret"), "{reason}");
    assert!(!place.path().join("out/key").exists());
}

#[test]
fn an_agent_that_hangs_dies_or_prints_nonsense_is_tried_again_and_then_a_person_is_asked() {
    let place = workspace();
    let table = [
        ("exit 7", "it did not answer: ended with status 7"),
        ("kill -9 $$", "it did not answer: ended by signal 9"),
        ("sleep 60", "it did not answer: no end within 1 s"),
        (":", "it printed nothing"),
        ("echo '{\"success\": true'", "it printed no output envelope: invalid JSON"),
        ("echo '```json'", "it printed no output envelope: invalid JSON"),
        ("echo '{\"success\":true}'", "it printed no output envelope: /summary: missing"),
    ];
    for (shell, reason) in table {
        script(&place, "go", shell);
        flow(
            &place,
            "[limits]\nquestion_seconds = 1\n\
             [[steps]]\nid = \"go\"\nagent = \"a\"\naction = \"go\"\ntime_seconds = 1\n",
        );
        let ran = run(&place);
        assert_eq!((ran.screen.code, ran.outcome()), (3, "failed"), "{}", ran.screen);
        let errors: Vec<&str> = ran
            .of("step_answered")
            .iter()
            .map(|it| it["protocol_error"].as_str().unwrap())
            .collect();
        assert!(errors.len() == 2 && errors.iter().all(|it| it.starts_with(reason)), "{errors:?}");
        assert_eq!(ran.of("step_escalated").len(), 1);
        ran.holds(&place, 0);
    }
}

#[test]
fn a_phase_of_a_work_item_can_be_a_flow() {
    let place = workspace();
    says(&place, "draft", &writes(&[("out/draft.md", "hello\n")]));
    flow(
        &place,
        "[[steps]]\nid = \"draft\"\nagent = \"a\"\naction = \"draft\"\nwrites = [\"out/**\"]\n",
    );
    write(&place, "countersign.toml", "[work.agents.DRAFT]\nflow = \"flow.toml\"\n");
    let item = place.run(&["work", "open", "say hello"]).stdout().trim_end().to_owned();
    let mut command = place.command(&["work", "dispatch"]);
    command.env("AGENT_EXIT_PROTOCOL_ENABLED", "true");
    let dispatched = crate::binary::run_with(command, b"");
    let moved = super::events(&place, &item);
    let moved = moved.iter().find(|it| it["event_type"] == "agent_session_completed");
    let moved = &moved.unwrap_or_else(|| panic!("{dispatched}"))["payload"];
    assert_eq!(
        (&moved["phase_completed"], &moved["next_phase"], &moved["channel"]),
        (&json!("DRAFT"), &json!("IMPLEMENTATION"), &json!("descriptor")),
        "{dispatched}"
    );
    assert_eq!(std::fs::read_to_string(place.path().join("out/draft.md")).unwrap(), "hello\n");
    let listed = place.run(&["trace", "list", "--json"]);
    let flows: Vec<serde_json::Value> = listed
        .stdout()
        .lines()
        .flat_map(|line| match serde_json::from_str(line).unwrap() {
            serde_json::Value::Array(all) => all,
            one => vec![one],
        })
        .filter(|it: &serde_json::Value| it["kind"] == "flow")
        .collect();
    assert_eq!(flows.len(), 1, "{listed}");
    let trace = flows[0]["trace_id"].as_str().unwrap();
    let links = super::events(&place, trace)[0]["payload"]["links"].clone();
    assert_eq!(links, json!({ "work": { "trace_id": item, "phase": "DRAFT" } }));
}
