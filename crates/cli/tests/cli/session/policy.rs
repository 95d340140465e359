//! The workspace's own policy holds in sessions too, beside the critic.

use std::io::BufReader;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::questions::asked_in;
use super::stage::Stage;

/// Refuses generated files, asks about one program, and permits the rest.
const POLICY: &str = r#"
@id("anything")
@justification("nothing else is forbidden here")
@match("file_write src/a.txt")
@no_match("file_write ../a.txt")
permit (principal, action, resource)
unless { context.outside };

@id("generated")
@justification("is written by its generator alone")
@match("file_write generated/a.txt")
@no_match("file_write src/a.txt")
forbid (principal, action in Action::"change", resource)
when { context.under.contains("generated") };

@id("stamps")
@decision("ask")
@justification("stamps are given by people")
@match("shell_exec: touch stamp")
@no_match("shell_exec: ls")
forbid (principal, action in Action::"run", resource)
when { context.programs.contains("touch") };
"#;

fn stage() -> Stage {
    let stage = Stage::new();
    stage.write(".countersign/gate/policy.cedar", POLICY);
    stage
}

fn task(action: &str) -> String {
    format!(
        r#"
        task_id = "one-action"
        objective = "Do one thing"
        policy = {{ question_seconds = 60 }}
        [[steps]]
        id = "act"
        objective = "Do it"
        actions = [{{ {action} }}]
        claims = [{{ text = "It is done" }}]
        "#
    )
}

/// What the gate decided in the only trace, told and made again.
fn explained(stage: &Stage) -> String {
    let screen = stage.place.run(&["gate", "explain", &stage.trace()]);
    assert_eq!(screen.code, 0, "{screen}");
    screen.stdout().to_owned()
}

#[test]
fn what_the_policy_refuses_does_not_run_and_the_refusal_can_be_made_again() {
    let stage = stage();
    let action = r#"tool = "file_write", path = "generated/a.txt", content = "x""#;
    let screen = stage.run_task(&task(action));
    assert_eq!(screen.code, 3, "{screen}");
    assert!(!stage.path("generated/a.txt").exists());
    assert_eq!(stage.payloads("tool_execution_started"), Vec::<Value>::new());
    let review = stage.payloads("tool_intent_reviewed").pop().unwrap();
    let refused = "deny by `generated`: is written by its generator alone";
    assert_eq!(
        [&review["decision"], &review["reasons"], &review["gate"]["decision"]],
        [&json!("blocked"), &json!([refused]), &json!("deny")]
    );
    assert_eq!(stage.verify().code, 0);
    assert_snapshot!(explained(&stage), @r"
    event 4: deny (enforced)
      executor asked for file_write: generated/a.txt
      deny by `generated`: is written by its generator alone
      allow by `learned-risk`: nothing has been learned yet, so the critic decides
      allow by `guards`: no guard objects
      decided again: the same, for the same reasons
    ");
}

#[test]
fn what_the_policy_asks_about_runs_when_a_person_says_so() {
    let stage = stage();
    stage.write("task.toml", &task(r#"tool = "exec", argv = ["touch", "stamp"]"#));
    let mut child = stage.spawn(&["run", "task.toml", "--json"]);
    let mut events = BufReader::new(child.stdout.take().unwrap());
    let question = asked_in(&mut events);
    let listed = stage.place.run(&["approve"]).stdout().to_owned();
    assert!(listed.contains("stamps are given by people"), "{listed}");
    assert_eq!(stage.place.run(&["approve", &question, "--yes"]).code, 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(stage.path("stamp").exists());
    assert_eq!(stage.verify().code, 0);
    assert!(explained(&stage).contains("ask by `stamps`"));
}

#[test]
fn a_critic_may_be_stricter_than_the_policy() {
    let stage = stage();
    stage.write("doomed", "x");
    // A strict critic leaves to a person what the gate leaves to the critic.
    let task = task(r#"tool = "file_write", path = "a", content = "", risk = "elevated""#);
    let task = task.replace(
        "policy = { question_seconds = 60 }",
        "policy_profile = \"strict\"\npolicy = { question_seconds = 1 }",
    );
    let screen = stage.run_task(&task);
    assert_eq!(screen.code, 3, "{screen}");
    let reviews = stage.payloads("tool_intent_reviewed");
    assert_eq!(reviews[0]["decision"], json!("asked"));
    assert_eq!(stage.verify().code, 0);
    explained(&stage);
}

#[test]
fn what_gate_and_critic_both_say_is_said_once() {
    let stage = stage();
    let action = r#"tool = "file_write", path = ".github/workflows/ci.yml", content = "on: push""#;
    assert_eq!(stage.run_task(&task(action).replace("60", "1")).code, 3);
    let reviews = stage.payloads("tool_intent_reviewed");
    let said = "ask by `pipeline-files`: decides what others run: in the pipeline, or on every \
                commit: .github/workflows/ci.yml";
    assert_eq!(reviews[0]["reasons"], json!([said]));
    let gate = reviews[0]["gate"]["reasons"].as_array().unwrap();
    assert!(gate.contains(&json!(said)), "{gate:?}");
}

#[test]
fn what_came_of_gated_actions_can_be_learned() {
    let stage = stage();
    let action = r#"tool = "file_write", path = "src/a.txt", content = "x""#;
    assert_eq!(stage.run_task(&task(action)).code, 0);
    let learned = stage.place.run(&["gate", "learn"]).stdout().to_owned();
    let expected = "learned from 1 traces: 1 outcomes that the recorder saw (0 failed)";
    assert!(learned.starts_with(expected), "{learned}");
    // What a program changed is not known: it teaches nothing.
    assert_eq!(stage.run_task(&task(r#"tool = "exec", argv = ["true"]"#)).code, 0);
    let learned = stage.place.run(&["gate", "learn"]).stdout().to_owned();
    assert!(learned.contains("left out: 1 outcomes, of programs"), "{learned}");
}

#[test]
fn a_broken_policy_asks_about_everything() {
    let stage = Stage::new();
    stage.write(".countersign/gate/policy.cedar", "permit everything");
    let task = task(r#"tool = "exec", argv = ["true"]"#).replace("60", "1");
    assert_eq!(stage.run_task(&task).code, 3);
    let reviews = stage.payloads("tool_intent_reviewed");
    let reason = reviews[0]["reasons"][0].as_str().unwrap();
    assert_eq!(reviews[0]["decision"], json!("asked"));
    assert!(reason.starts_with("ask because `policy` failed"), "{reason}");
    assert!(explained(&stage).contains("decided again: the same"));
}

#[test]
fn without_a_policy_of_its_own_no_gate_is_asked() {
    let stage = Stage::new();
    assert_eq!(stage.run_task(&task(r#"tool = "exec", argv = ["true"]"#)).code, 0);
    let review = stage.payloads("tool_intent_reviewed").pop().unwrap();
    assert_eq!(review.get("gate"), None);
}
