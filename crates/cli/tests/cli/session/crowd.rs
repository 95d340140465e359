//! Many sessions in one workspace.

use std::fmt::Write as _;

use super::stage::Stage;

/// What the audits that failed said, word for word.
fn failed_audits(stage: &Stage) -> String {
    let mut said = String::new();
    for trace in stage.traces() {
        for event in stage.events_of(&trace) {
            if event["payload"]["verification_status"] == "fail" {
                for artifact in event["artifacts"].as_array().unwrap() {
                    let report = stage.text(&artifact["artifact_hash"]);
                    writeln!(said, "--- audit of {trace}\n{report}").unwrap();
                }
            }
        }
    }
    said
}

#[test]
fn thirty_two_sessions_at_once_all_complete_and_all_verify() {
    let stage = Stage::new();
    stage.write(
        "task.toml",
        r#"
        task_id = "one-of-many"
        objective = "Take part"
        [[steps]]
        id = "write"
        objective = "Write and read"
        actions = [
            { tool = "exec", argv = ["echo", "hello"] },
            { tool = "file_read", path = "task.toml" },
        ]
        claims = [{ text = "It was said" }]
        "#,
    );
    let children: Vec<_> = (0..32).map(|_| stage.spawn(&["run", "task.toml"])).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}{shown}{}", failed_audits(&stage));
    }
    let traces = stage.traces();
    assert_eq!(traces.len(), 32);
    for trace in traces {
        let screen = stage.place.run(&["verify", &trace, "--no-write"]);
        assert_eq!(screen.code, 0, "{screen}");
    }
    let screen = stage.place.run(&["doctor"]);
    assert_eq!(screen.code, 0, "{screen}");
}
