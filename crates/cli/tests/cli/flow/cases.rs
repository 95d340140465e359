//! Every case of the conformance table, through the engine on a real directory.

use std::path::Path;

use countersign_format::hash::Hash;
use serde_json::{Value, json};

use super::{HEAD, run, script, workspace, write};

fn cases() -> Vec<Value> {
    let table = include_str!("../../../../../tests/cases/envelope-cases.jsonl");
    table.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Lays out what a case finds in the workspace.
fn lay_out(root: &Path, fs: &Value) {
    for dir in fs["dirs"].as_array().into_iter().flatten() {
        std::fs::create_dir_all(root.join(dir.as_str().unwrap())).unwrap();
    }
    for (path, text) in fs["files"].as_object().into_iter().flatten() {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_str().unwrap()).unwrap();
    }
    for (link, target) in fs["symlinks"].as_object().into_iter().flatten() {
        let link = root.join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target.as_str().unwrap(), link).unwrap();
    }
}

/// One step that answers with the case's document, after one that wrote what the journal says.
fn steps(case: &Value) -> String {
    let scopes = match case["fs"]["write_scope"].as_array() {
        Some(scopes) => scopes.clone(),
        None => vec![json!("**")],
    };
    format!(
        "[limits]\nquestion_seconds = 1\n\
         [[steps]]\nid = \"it\"\nagent = \"a\"\naction = \"it\"\nattempts = 1\nmax_iterations = 2\n\
         on_escalate = \"continue\"\nwrites = {}\n",
        serde_json::to_string(&scopes).unwrap()
    )
}

#[test]
fn every_output_of_the_table_is_taken_or_refused_by_a_running_flow() {
    let cases: Vec<Value> = cases().into_iter().filter(|it| it["kind"] == "output").collect();
    let (taken, refused): (Vec<&Value>, Vec<&Value>) =
        cases.iter().partition(|case| case["expect"] == "ok");
    // Those that are refused wait a second for a person who does not come.
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(case) =
                    cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    try_out(case);
                }
            });
        }
    });
    let (taken, refused) = (taken.len(), refused.len());
    println!("{taken} taken, {refused} refused");
    assert!(taken >= 10 && refused >= 30, "{taken} {refused}");
}

fn try_out(case: &Value) {
    let name = case["name"].as_str().unwrap();
    let place = workspace();
    let fs = &case["fs"];
    write(&place, "flow.toml", &format!("{HEAD}{}", steps(case)));
    std::fs::write(place.path().join("answers/it.json"), case["json"].as_str().unwrap()).unwrap();
    if let Some((path, entry)) = fs["journal"].as_object().and_then(|all| all.iter().next()) {
        // The step wrote the file itself in the iteration before, and says so again.
        let first = json!({
            "success": true, "summary": "once", "notes": [], "recommendation": "retry",
            "artifacts": [
                { "path": path, "operation": "create", "content": entry["sha256_of"] },
            ],
        });
        write(&place, "answers/first.json", &first.to_string());
        script(&place, "it", "cat answers/first.json\n");
        // By then somebody has changed it, or not.
        let now = fs["files"][path].as_str().unwrap().to_owned();
        let edit =
            format!("until [ \"$(cat {path} 2>/dev/null)\" = '{now}' ]; do sleep 0.01; done\n");
        script(&place, "it-2", &format!("{edit}cat answers/it.json\n"));
        let child = std::thread::scope(|scope| {
            let edited = scope.spawn(|| {
                let path = place.path().join(path);
                while !path.exists() {
                    std::thread::yield_now();
                }
                std::fs::write(path, &now).unwrap();
            });
            let ran = run(&place);
            edited.join().unwrap();
            ran
        });
        judge(name, case, &child, &place.path());
    } else {
        lay_out(&place.path(), fs);
        script(&place, "it", "cat answers/it.json\n");
        let ran = run(&place);
        judge(name, case, &ran, &place.path());
    }
}

fn judge(name: &str, case: &Value, ran: &super::Ran, root: &Path) {
    let answer = *ran.of("step_answered").last().unwrap();
    let no_envelope = answer.get("protocol_error").is_some();
    if case["stage"] == "parse" {
        assert_eq!(no_envelope, case["expect"] == "error", "{name}: {}", ran.screen);
        return;
    }
    assert!(!no_envelope, "{name}: {}", ran.screen);
    let applied = ran.of("files_applied");
    let refused = answer.get("files_refused").is_some()
        || applied.last().is_some_and(|it| it.get("refused").is_some());
    assert_eq!(refused, case["expect"] == "error", "{name}: {}", ran.screen);
    let envelope: Value = serde_json::from_str(case["json"].as_str().unwrap()).unwrap();
    for file in envelope["artifacts"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let now = std::fs::read(root.join(path)).ok().map(|bytes| Hash::of(&bytes));
        let wanted = Hash::of(file["content"].as_str().unwrap().as_bytes());
        assert_eq!(now == Some(wanted), case["expect"] == "ok", "{name}: `{path}`");
    }
}
