//! What a newcomer runs first.

use std::fs;
use std::path::Path;

use super::stage::Stage;

/// A project with a copy of the examples.
fn with_examples() -> Stage {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true if entry.file_name() == "scratch" => {}
                true => copy(&entry.path(), &target),
                false => drop(fs::copy(entry.path(), target).unwrap()),
            }
        }
    }
    let stage = Stage::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    copy(&examples, &stage.path("examples"));
    stage
}

#[test]
fn the_tests_of_a_small_project_are_run_and_claimed_to_pass_with_their_output_as_evidence() {
    let stage = with_examples();
    let screen = stage.place.run(&["run", "examples/tests.toml"]);
    assert_eq!(screen.code, 0, "{screen}");
    assert!(
        screen.stdout().ends_with("verdict   done: the objective was reached (audit: pass)\n"),
        "{screen}"
    );
    let claim = &stage.payloads("claim_issued")[0];
    assert_eq!(claim["claim_text"], "All unit tests of the calculator pass");
    let evidence = stage.text(&claim["evidence_artifacts"][0]);
    assert!(evidence.contains("Ran 4 tests") && evidence.ends_with("OK\n"), "{evidence}");
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn the_fallback_succeeds_where_the_first_tool_fails() {
    let stage = with_examples();
    let screen = stage.place.run(&["run", "examples/fallback.toml"]);
    assert_eq!(screen.code, 0, "{screen}");
    assert_eq!(stage.payloads("tool_execution_failed").len(), 1);
    assert_eq!(stage.payloads("proposal_created")[1]["proposal_id"], "plain");
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn the_critic_rejects_a_dangerous_command_and_the_planner_revises() {
    let stage = with_examples();
    let screen = stage.place.run(&["run", "examples/blocked.toml"]);
    assert_eq!(screen.code, 0, "{screen}");
    let reviews = stage.payloads("proposal_reviewed");
    let decisions: Vec<_> = reviews.iter().map(|review| review["decision"].clone()).collect();
    assert_eq!(decisions, ["rejected", "approved"]);
    assert_eq!(fs::read_to_string(stage.path("examples/scratch/greeting.txt")).unwrap(), "hello\n");
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn planner_and_critic_are_scripts_that_speak_envelopes() {
    let stage = with_examples();
    let screen = stage.place.run(&["run", "examples/envelopes/task.toml"]);
    assert_eq!(screen.code, 0, "{screen}");
    let printed: Vec<String> = stage
        .payloads("tool_execution_completed")
        .iter()
        .map(|ended| stage.text(&ended["stdout"]))
        .collect();
    assert!(
        printed.contains(&"9\n".to_owned()) && printed.contains(&"3.5\n".to_owned()),
        "{printed:?}"
    );
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn the_demo_names_the_forged_event_and_leaves_nothing_behind() {
    let place = crate::place::Place::empty();
    let temporary = place.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = place.command(&["demo"]);
    command.env("TMPDIR", &temporary);
    let screen = crate::binary::run_with(command, b"");
    assert_eq!(screen.code, 0, "{screen}");
    let text = screen.stdout();
    assert!(text.contains("     11 events, verdict: pass\n"), "{screen}");
    assert!(text.contains("event 6  is   exit_status 0"), "{screen}");
    assert!(
        text.contains("     11 events, verdict: fail\n     SIG_INVALID at event 6\n"),
        "{screen}"
    );
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}
