//! Secrets are nowhere, and what runs is still what was approved.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::stage::Stage;

const CANARIES: [&str; 5] = [
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "AKIAIOSFODNN7EXAMPLE",
    "correct-horse-battery-staple",
    "hunter2-hunter2-hunter2",
    "tangerine-99-tangerine",
];

/// Every file below `dir` that holds one of the canaries.
fn holding(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holding(&path, found);
        } else if let Ok(bytes) = fs::read(&path) {
            for canary in CANARIES {
                if bytes.windows(canary.len()).any(|window| window == canary.as_bytes()) {
                    found.push(format!("{canary} in {}", path.display()));
                }
            }
        }
    }
}

#[test]
fn canaries_in_environment_arguments_and_output_are_nowhere_in_the_home_or_on_the_screen() {
    let stage = Stage::new();
    let [token, aws, password, other, plain] = CANARIES;
    stage.write("leak.py", "import os, sys\nprint('got', os.environ['DEPLOY_PASSWORD'], os.environ['API_TOKEN'], sys.argv[1], sys.argv[3])\nprint('AKIAIOSFODNN7' + 'EXAMPLE', file=sys.stderr)\nopen('arguments', 'w').write(sys.argv[1])\n");
    stage.write(
        "task.toml",
        &format!(
            r#"
            task_id = "leaky"
            objective = "Deploy with {token}"
            sandbox = {{ pass_env = ["DEPLOY_PASSWORD"] }}
            [[steps]]
            id = "deploy"
            objective = "Deploy with {aws}"
            actions = [{{ tool = "exec", argv = ["python3", "leak.py", "{token}", "--password", "{plain}"], env = {{ API_TOKEN = "{other}" }}, justification = "uses {token}" }}]
            claims = [{{ text = "Deployed with {token}" }}]
            "#
        ),
    );
    let mut command = stage.command(&["run", "task.toml"]);
    command.env("DEPLOY_PASSWORD", password);
    let output = command.output().unwrap();
    let screen = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(0), "{screen}");
    // The tool itself was given what was meant.
    assert_eq!(fs::read_to_string(stage.path("arguments")).unwrap(), token);
    for canary in CANARIES {
        assert!(!screen.contains(canary), "{canary} on the screen:\n{screen}");
    }
    let mut found = Vec::new();
    holding(&stage.path(".countersign"), &mut found);
    assert_eq!(found, Vec::<String>::new());
    let intent = &stage.payloads("tool_intent_signed")[0];
    assert!(intent["input_binding"].is_string(), "{intent}");
    assert!(intent["redactions"].as_array().is_some_and(|rules| !rules.is_empty()), "{intent}");
    let ended = &stage.payloads("tool_execution_completed")[0];
    let printed = stage.text(&ended["stdout"]);
    assert!(printed.starts_with("got [redacted:"), "{printed}");
    assert_eq!(stage.verify().code, 0);
}

#[test]
fn a_tool_cannot_read_keys_write_outside_or_reach_the_network_and_the_trace_shows_that_it_tried() {
    let stage = Stage::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("written");
    // In a file of their own: what stands on the command line the critic would not let pass.
    let attempts = [
        (
            "keys",
            format!(
                "import glob; print(open(glob.glob({:?} + '/keys/*/*')[0]).read())",
                stage.path("config")
            ),
        ),
        ("store", "open('.countersign/log/events.jsonl', 'a').write('x\\n')".to_owned()),
        ("outside", format!("open({target:?}, 'w').write('x')")),
        ("network", format!("import socket; socket.create_connection(('127.0.0.1', {port}), 2)")),
    ];
    let steps: String = attempts
        .iter()
        .map(|(id, program)| {
            stage.write(&format!("{id}.py"), program);
            format!("[[steps]]\nid = \"{id}\"\nobjective = \"Try it\"\nactions = [{{ tool = \"exec\", argv = [\"python3\", \"{id}.py\"] }}]\n")
        })
        .collect();
    let screen = stage.run_task(&format!(
        "task_id = \"escape\"\nobjective = \"Get out\"\nlimits = {{ parallel = 1 }}\nsandbox = {{ require = \"files\" }}\n{steps}"
    ));
    assert_eq!(screen.code, 3, "{screen}");
    assert!(!target.exists());
    let log = fs::read_to_string(stage.path(".countersign/log/events.jsonl")).unwrap();
    assert!(!log.contains("\nx\n"), "the store was written");
    let failed = stage.payloads("tool_execution_failed");
    assert_eq!(failed.len(), 4, "{screen}");
    for execution in &failed {
        assert!(execution["exit_status"].as_i64().unwrap() > 0, "{execution}");
        assert_ne!(stage.text(&execution["stderr"]), "", "{execution}");
        assert_eq!(stage.text(&execution["stdout"]), "");
    }
    let started = &stage.payloads("tool_execution_started")[0];
    assert_eq!(started["isolation"]["keys"], json!("hidden"), "{started}");
    assert_eq!(stage.verify().code, 0);
}
