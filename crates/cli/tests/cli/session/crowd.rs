//! Many sessions in one workspace.

use super::stage::Stage;

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
        assert_eq!(output.status.code(), Some(0), "{said}");
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
