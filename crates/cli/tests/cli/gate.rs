//! `countersign gate`, from the question to the explanation.

use std::fs;
use std::process::Stdio;

use countersign_format::hash::Hash;
use countersign_gate::Policy;
use countersign_runtime::actions::{ActionReport, ActionRequest, AgentRuntime, RuntimeOptions};
use countersign_runtime::secrets::Redactor;
use countersign_testkit::TestHome;
use insta::assert_snapshot;
use serde_json::json;

use crate::cap::archive::{member, members, replace};
use crate::cap::packed_anew;
use crate::place::Place;

/// A workspace in which an agent asked for two edits and made the first one.
fn used() -> (TestHome, String) {
    let home = TestHome::new();
    let runtime = AgentRuntime::new(
        home.workspace.clone(),
        Redactor::default(),
        RuntimeOptions { agent: Some("claude".into()), ..RuntimeOptions::default() },
    );
    let ask = |file: &str| {
        home.clock.advance(1_000);
        let asked = ActionRequest {
            action_type: "code_edit".into(),
            description: "tidy up".into(),
            files: vec![file.into()],
            ..ActionRequest::default()
        };
        runtime.gate(&asked).unwrap()
    };
    let allowed = ask("src/a.rs");
    let report = ActionReport {
        action_type: "code_edit".into(),
        description: "tidy up".into(),
        tool_name: "edit".into(),
        success: true,
        files: vec!["src/a.rs".into()],
        gate_token: Some(allowed.token),
        ..ActionReport::default()
    };
    runtime.record(&report).unwrap();
    ask(".claude/settings.json");
    let id = allowed.trace_id.to_string();
    (home, id)
}

#[test]
fn an_action_that_may_run_exits_with_0_and_says_why() {
    let place = Place::empty();
    let action = json!({ "action_type": "edit", "files_affected": ["src/a.rs"] }).to_string();
    assert_snapshot!(place.run_with(&["gate", "check"], action.as_bytes()), @r"
    exit 0
    --- stdout
    allow
      allow by `editing`: changes files of the workspace
      allow by `learned-risk`: nothing has been learned yet, so its risk class decides: standard
      allow by `guards`: no guard objects

    --- stderr
    no workspace here: the built-in policy decides
    ");
}

#[test]
fn an_action_that_may_not_run_exits_with_3_and_one_to_be_asked_about_with_4() {
    let place = Place::empty();
    let check = |action: serde_json::Value| {
        let screen = place.run_with(&["gate", "check", "-"], action.to_string().as_bytes());
        (screen.code, screen.stdout().lines().next().unwrap().to_owned())
    };
    let denied = check(json!({ "action_type": "file_write", "paths": [".git/hooks/pre-commit"] }));
    assert_eq!(denied, (3, "deny".to_owned()));
    let asked = check(json!({ "action_type": "shell_exec", "command": "terraform apply" }));
    assert_eq!(asked, (4, "ask".to_owned()));
}

#[test]
fn a_whole_path_into_the_workspace_is_not_outside() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let directory = std::fs::canonicalize(home.path()).unwrap().parent().unwrap().to_owned();
    let check = |action: serde_json::Value| {
        place.run_with(&["gate", "check"], action.to_string().as_bytes()).code
    };
    let inside = directory.join("src/a.rs");
    assert_eq!(check(json!({ "action_type": "edit", "paths": [inside] })), 0);
    let command = format!("cat {}", inside.display());
    assert_eq!(check(json!({ "action_type": "shell_exec", "command": command })), 0);
    let outside = directory.parent().unwrap().join("a.rs");
    assert_eq!(check(json!({ "action_type": "edit", "paths": [outside] })), 3);
    let command = format!("cat {}", outside.display());
    assert_eq!(check(json!({ "action_type": "shell_exec", "command": command })), 4);
}

#[cfg(unix)]
#[test]
fn a_link_into_git_is_judged_by_where_it_leads() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let directory = home.path().parent().unwrap().to_owned();
    fs::create_dir_all(directory.join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(".git/hooks", directory.join("h")).unwrap();
    let action = json!({ "action_type": "edit", "paths": ["h/pre-commit"] }).to_string();
    let screen = place.run_with(&["gate", "check"], action.as_bytes());
    assert_eq!(screen.code, 3, "{screen}");
    assert!(screen.stdout().contains("deny by `git-internals`"), "{screen}");
}

#[test]
fn what_means_nothing_is_said_and_what_is_no_action_is_refused() {
    let place = Place::empty();
    let action = json!({ "action_type": "edit", "pathes": ["a"] }).to_string();
    let screen = place.run_with(&["gate", "check"], action.as_bytes());
    assert!(screen.stderr.contains("warning: these members mean nothing: pathes"), "{screen}");
    assert_snapshot!(place.run_with(&["gate", "check"], b"[]"), @r"
    exit 1
    --- stdout

    --- stderr
    error: standard input holds no action
      an action is a JSON object
    ");
}

#[test]
fn the_answer_as_json_has_features_and_estimate() {
    let place = Place::empty();
    let action = json!({ "action_type": "edit", "paths": ["a.rs"], "diff": "+if x\n" }).to_string();
    let screen = place.run_with(&["gate", "check", "--json"], action.as_bytes());
    let answer: serde_json::Value = serde_json::from_slice(&screen.stdout).unwrap();
    assert_eq!(answer["decision"], "allow");
    assert_eq!(answer["features"]["levels"], json!([0, 0, 0, 0, 0]));
    assert_eq!(answer["features"]["cyclomatic_complexity"], 1);
    assert_eq!((&answer["estimate"], &answer["cell"]), (&json!(null), &json!(0)));
    assert_eq!(answer["label"], "simple + single-file + behavioral + untested");
}

#[test]
fn decisions_of_a_trace_are_explained_and_made_again() {
    let (home, id) = used();
    let place = Place::stranger_to(&home);
    let shown = place.run(&[
        "gate",
        "explain",
        &home.path().join("traces").join(&id).display().to_string(),
    ]);
    assert_snapshot!(shown, @r"
    exit 0
    --- stdout
    event 2: allow (enforced)
      claude asked for code_edit: src/a.rs
      allow by `editing`: changes files of the workspace
      allow by `learned-risk`: nothing has been learned yet, so its risk class decides: standard
      allow by `guards`: no guard objects
      decided again: the same, for the same reasons
    event 6: deny (enforced)
      claude asked for code_edit: .claude/settings.json
      deny by `recorder-and-agent-settings`: decides what is recorded, or what agents may do: changed by people, not by agents
      ask by `critical-risk`: may destroy something that cannot be brought back
      ask by `learned-risk`: nothing has been learned yet, so its risk class decides: critical
      deny by `agent-files`: decides what agents may do, or what is recorded of them: .claude/settings.json
      decided again: the same, for the same reasons

    --- stderr
    ");
    let one = place.run(&[
        "gate",
        "explain",
        &home.workspace.trace_file(id.parse().unwrap()).display().to_string(),
        "1",
    ]);
    assert_eq!((one.code, one.stdout().lines().count()), (0, 6), "{one}");
}

#[test]
fn a_policy_changed_by_one_byte_is_noticed() {
    let (home, id) = used();
    let hash = Hash::of(Policy::built_in().as_bytes()).to_string();
    let stored =
        home.path().join(format!("artifacts/sha256/{}/{}/{hash}", &hash[..2], &hash[2..4]));
    let changed = Policy::built_in().replacen("changes files of", "changes piles of", 1);
    let found = Hash::of(changed.as_bytes()).to_string();
    let _ = fs::remove_file(&stored);
    fs::write(&stored, changed).unwrap();
    let screen = Place::owner_of(&home).run(&["gate", "explain", &id, "2"]);
    let screen = screen.to_string().replace(&hash, "$RECORDED").replace(&found, "$FOUND");
    assert_snapshot!(screen, @r"
    exit 3
    --- stdout
    event 2: allow (enforced)
      claude asked for code_edit: src/a.rs
      allow by `editing`: changes files of the workspace
      allow by `learned-risk`: nothing has been learned yet, so its risk class decides: standard
      allow by `guards`: no guard objects
      decided again: not the same
        the policy was changed: recorded $RECORDED, found $FOUND
        a reason is gone: allow by `editing`: changes files of the workspace
        a reason is new: allow by `editing`: changes piles of the workspace

    --- stderr
    ");
}

/// The sealed file of a workspace that was used, its bytes, and a stranger who has nothing else.
fn sealed() -> (TestHome, Place, String) {
    let (home, id) = used();
    let id = id.parse().unwrap();
    home.workspace.recording(id).unwrap().conclude("done").unwrap();
    let stranger = Place::empty();
    let file = stranger.path().join("it.cap");
    home.workspace.seal(id, &file).unwrap();
    (home, stranger, file.display().to_string())
}

#[test]
fn decisions_are_made_again_from_a_sealed_file_alone() {
    let (_home, stranger, file) = sealed();
    let screen = stranger.run(&["gate", "explain", &file, "--json"]);
    let answer = screen.answer();
    assert_eq!((screen.code, &answer["same"]), (0, &json!(true)), "{screen}");
    let said: Vec<_> = answer["decisions"].as_array().unwrap().iter().collect();
    assert_eq!(said.len(), 2);
    for decision in said {
        assert_eq!(decision["recorded"]["reasons"], decision["now"]["reasons"]);
        assert_eq!(decision["deviations"], json!([]));
    }
}

#[test]
fn a_policy_changed_by_one_byte_in_a_sealed_file_is_noticed() {
    let (_home, stranger, file) = sealed();
    let mut all = members(&fs::read(&file).unwrap());
    let name = format!("artifacts/sha256/{}", Hash::of(Policy::built_in().as_bytes()));
    replace(member(&mut all, &name), "changes files of", "changes piles of");
    fs::write(&file, packed_anew(&all)).unwrap();
    let screen = stranger.run(&["gate", "explain", &file, "2"]);
    assert_eq!(screen.code, 3, "{screen}");
    for words in [
        "it.cap` does not verify",
        "  decided again: not the same",
        "    the policy was changed: recorded ",
        "    a reason is new: allow by `editing`: changes piles of the workspace",
    ] {
        assert!(screen.stdout().contains(words), "{words}: {screen}");
    }
    let answer = stranger.run(&["gate", "explain", &file, "--json"]).answer();
    assert_eq!((&answer["same"], answer["failures"].as_array().unwrap().len()), (&json!(false), 1));
}

/// A decision is about the request that its intent speaks of, not about any request for which the gate
/// would have said the same.
#[test]
fn a_swapped_request_or_review_is_not_the_same() {
    let (_home, stranger, file) = sealed();
    let all = members(&fs::read(&file).unwrap());
    let asked: Vec<(String, Vec<u8>)> =
        all.iter().filter(|(_, data)| data.starts_with(b"{\"action_type\":")).cloned().collect();
    let of = |path: &str| {
        let found = asked.iter().find(|(_, data)| String::from_utf8_lossy(data).contains(path));
        let (name, data) = found.unwrap().clone();
        (name.rsplit('/').next().unwrap().to_owned(), String::from_utf8(data).unwrap())
    };
    let (allowed, request) = of("src/a.rs");
    let other = request.replace("src/a.rs", "src/b.rs");
    let swapped = Hash::of(other.as_bytes()).to_string();
    let explain = |from: &str, to: &str| {
        let mut all = all.clone();
        all.push((format!("artifacts/sha256/{swapped}"), other.clone().into_bytes()));
        replace(member(&mut all, "trace/events.jsonl"), from, to);
        fs::write(&file, packed_anew(&all)).unwrap();
        let screen = stranger.run(&["gate", "explain", &file, "2"]);
        assert_eq!(screen.code, 3, "{screen}");
        screen.stdout().to_owned()
    };
    let from = format!("\"request\":\"{allowed}\"");
    let said = explain(&from, &format!("\"request\":\"{swapped}\""));
    for words in [
        "the request contradicts what the gate was asked or said: none of its artifacts, there ",
        "the paths contradicts what the gate was asked or said: src/a.rs, there src/b.rs",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let said = explain("\"decision\":\"approved\"", "\"decision\":\"blocked\"");
    let words = "the review contradicts what the gate was asked or said: blocked, there approved";
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_decision_is_found_by_the_id_of_its_question() {
    let (home, id) = used();
    let place = Place::owner_of(&home);
    let answer = place.run(&["gate", "explain", &id, "--json"]).answer();
    let intent = answer["decisions"][1]["recorded"]["intent_id"].as_str().unwrap().to_owned();
    let shown = place.run(&["gate", "explain", &id, &intent]);
    assert_eq!(shown.code, 0, "{shown}");
    assert!(shown.stdout().starts_with("event 6: deny (enforced)\n"), "{shown}");
    assert_eq!(shown.stdout().matches("event ").count(), 1, "{shown}");
}

#[test]
fn another_file_is_called_what_it_is() {
    let place = Place::empty();
    for text in ["", "hello\n", "{}\n", "no line break"] {
        fs::write(place.path().join("x"), text).unwrap();
        let screen = place.run(&["gate", "explain", "x"]);
        let expected = "error: `x` is not a sealed file or trace\n\
                        hint: run `countersign verify x` to see what is wrong\n";
        assert_eq!((screen.code, &*screen.stderr), (1, expected), "{text:?}");
    }
}

#[test]
fn an_event_that_is_no_decision_is_named() {
    let (home, id) = used();
    let screen = Place::owner_of(&home).run(&["gate", "explain", &id, "0"]);
    assert_snapshot!(screen, @r"
    exit 1
    --- stdout

    --- stderr
    error: event `0` is no decision of the gate
    hint: decisions stand at: 2, 6
    ");
}

#[test]
fn learning_is_told_and_shows_in_the_statistics() {
    let (home, _) = used();
    let place = Place::owner_of(&home);
    assert_snapshot!(place.run(&["gate", "learn"]), @r"
    exit 0
    --- stdout
    learned from 0 traces: 0 outcomes that the recorder saw (0 failed), 0 that agents reported (0 failed)
    left out: 1 outcomes, reported by the agent itself (`--self-reported` takes them in)

    --- stderr
    ");
    assert_snapshot!(place.run(&["gate", "learn", "--self-reported", "--dry-run"]), @r"
    exit 0
    --- stdout
    would learn from 1 traces: 0 outcomes that the recorder saw (0 failed), 1 that agents reported (0 failed)

    --- stderr
    ");
    assert_eq!(place.run(&["gate", "learn", "--self-reported"]).code, 0);
    assert_snapshot!(place.run(&["gate", "stats"]), @r"
    exit 0
    --- stdout
    0 outcomes that the recorder saw, 1 that agents reported, 0 commits
    cell 0      0 of 1     failed  q 0.333  confidence 0.17  ask    up to 10 lines, up to 2 branches, one file, no findings, no tests

    --- stderr
    ");
    let answer = place.run(&["gate", "stats", "--json"]).answer();
    assert_eq!(answer["cells"][0]["decision"], "ask");
    assert_eq!(answer["reported"], json!({ "failed": 0, "succeeded": 1 }));
}

#[test]
fn nothing_learned_is_said_with_what_can_be_done() {
    let home = TestHome::new();
    assert_snapshot!(Place::owner_of(&home).run(&["gate", "stats"]), @r"
    exit 0
    --- stdout
    0 outcomes that the recorder saw, 0 that agents reported, 0 commits

    --- stderr
    hint: `countersign gate learn --git` learns from the history of this repository
    ");
}

#[test]
fn a_policy_is_checked_with_its_examples() {
    let place = Place::empty();
    let good = place.path().join("good.cedar");
    fs::write(&good, Policy::built_in()).unwrap();
    assert_snapshot!(place.run(&["gate", "policy", "--check", "good.cedar"]), @r"
    exit 0
    --- stdout

    --- stderr
    `good.cedar`: 14 rules hold to their examples
    ");
    let bad = "@id(\"x\") @justification(\"j\") @match(\"file_read a\") @no_match(\"file_read b\")\n\
               permit (principal, action, resource);\n";
    assert_snapshot!(place.run_with(&["gate", "policy", "--check", "-"], bad.as_bytes()), @r"
    exit 3
    --- stdout

    --- stderr
    error: standard input cannot be used
      line 1: rule `x` must not match `file_read b`, but does
    ");
}

#[test]
fn the_policy_in_force_is_printed_as_it_is() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let screen = place.run(&["gate", "policy"]);
    assert_eq!((screen.code, screen.stdout()), (0, Policy::built_in()));
    fs::create_dir_all(home.path().join("gate")).unwrap();
    fs::write(home.path().join("gate/policy.cedar"), "permit all;").unwrap();
    assert_eq!(place.run(&["gate", "policy"]).code, 3);
    let action = json!({ "action_type": "file_read", "paths": ["a"] }).to_string();
    let asked = place.run_with(&["gate", "check"], action.as_bytes());
    assert_eq!(asked.code, 4, "{asked}");
    assert!(asked.stdout().contains("ask because `policy` failed: line 1: "), "{asked}");
}

/// A file that a shell has emptied to put the policy there is not one that holds no rules.
#[test]
fn an_empty_policy_is_none_for_everybody_who_asks() {
    let place = Place::empty();
    assert_eq!(place.run(&["init"]).code, 0);
    let file = place.path().join(".countersign/gate/policy.cedar");
    let mut printing = place.command(&["gate", "policy"]);
    let into = fs::File::create(&file).unwrap();
    assert!(printing.stdout(into).stderr(Stdio::null()).status().unwrap().success());
    assert_eq!(fs::read(&file).unwrap(), countersign_gate::Policy::built_in().as_bytes());
    assert!(place.run(&["doctor"]).stdout().contains("ok       policy  "));

    fs::write(&file, "").unwrap();
    let printed = place.run(&["gate", "policy"]);
    assert_eq!(printed.code, 3, "{printed}");
    assert!(printed.stderr.contains("cannot be used"), "{printed}");
    let checked =
        place.run_with(&["gate", "check"], br#"{"action_type":"command","command":"ls"}"#);
    assert!(checked.stdout().contains("`policy` failed: the policy has no rules"), "{checked}");
    let visit = place.run(&["doctor"]);
    assert_eq!(visit.code, 3, "{visit}");
    assert!(visit.stdout().contains("WRONG    policy  "), "{visit}");
}
