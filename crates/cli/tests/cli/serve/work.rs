//! Work items over the API: the board in pages, an item with what its history rests on, and a person's word.

use std::path::Path;

use serde_json::{Value, json};

use super::viewer::Viewer;
use crate::work::{answer, copy, done, open, run, workspace};

/// The ids of a page of the board.
fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|it| it["item"].as_str().unwrap()).collect()
}

/// How many stand in a phase, and how many of them are held.
fn counted(page: &Value, phase: &str) -> (u64, u64) {
    let phases = page["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 8, "{page}");
    let found = phases.iter().find(|it| it["phase"] == phase).unwrap();
    (found["items"].as_u64().unwrap(), found["held"].as_u64().unwrap())
}

#[test]
fn the_board_comes_in_pages_and_its_counts_are_of_all_items() {
    let place = workspace();
    let drafts: Vec<String> = (0..5).map(|at| open(&place, &format!("Draft {at}"))).collect();
    let review = done(&place, &["work", "open", "Read It", "--label", "W-9", "--phase", "REVIEW"]);
    done(&place, &["work", "claim", &drafts[1], "--as", "ana", "--for", "1h"]);
    let viewer = Viewer::start(&place);

    let page = viewer.ask("/work?phase=DRAFT&limit=2&offset=1");
    assert_eq!(ids(&page), [&drafts[1], &drafts[2]], "in the order in which they were opened");
    assert_eq!(
        (&page["matched"], &page["total"], &page["offset"]),
        (&json!(5), &json!(6), &json!(1))
    );
    assert_eq!((counted(&page, "DRAFT"), counted(&page, "REVIEW")), ((5, 1), (1, 0)));
    assert_eq!(counted(&page, "BLOCKED"), (0, 0));

    let newest = viewer.ask("/work?order=newest&limit=1");
    assert_eq!(ids(&newest), [&review]);
    let found = viewer.ask("/work?text=read%20IT");
    assert_eq!(ids(&found), [&review]);
    assert_eq!((counted(&found, "DRAFT"), &found["total"]), ((0, 0), &json!(6)));
    assert_eq!(ids(&viewer.ask("/work?text=ana")), [&drafts[1]], "by who holds it");
    assert_eq!(ids(&viewer.ask("/work?text=w-9&phase=DRAFT")), Vec::<&str>::new());
    let both = viewer.ask("/work?phase=REVIEW&phase=DRAFT");
    assert_eq!(both["matched"], 6);
    assert_eq!(viewer.ask("/work?offset=100")["items"], json!([]));
    for bad in ["?phase=draft", "?phase=", "?limit=501", "?order=up", "?page=1"] {
        let code = (400, "bad_request".to_owned());
        assert_eq!(viewer.get(&format!("/work{bad}")).code(), code, "{bad}");
    }
}

fn commit(place: &Path) -> String {
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(arguments);
        let output = git.current_dir(place).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    git(&["init", "-q"]);
    git(&["add", "agents"]);
    git(&["commit", "-q", "-m", "one"]);
    git(&["rev-parse", "HEAD"])
}

#[test]
fn the_history_of_an_item_has_evidence_commits_and_the_word_that_unblocked_it() {
    let place = workspace();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/work");
    copy(&example, &place.path());
    let commit = commit(&place.path());
    let item = done(&place, &["work", "open", "say hello", "--label", "W-00042"]);
    assert_eq!(run(&place, &["work", "dispatch"]).code, 3, "the review waits for a person");
    std::fs::write(place.path().join("build/audience.txt"), "everybody\n").unwrap();
    done(&place, &["work", "unblock", "W-00042", "--reason", "everybody is greeted"]);
    done(&place, &["work", "dispatch"]);
    let viewer = Viewer::start(&place);

    let whole = viewer.ask(&format!("/work/{item}"));
    let events = answer(&place, &["work", "show", &item])["events"].as_array().unwrap().len();
    assert_eq!((&whole["total"], &whole["item"]["phase"]), (&json!(events), &json!("COMPLETED")));
    let all = whole["transitions"].as_array().unwrap();
    let of = |phase: &str| {
        let found = all.iter().find(|it| {
            it["phase_before"] == phase
                && !it["exit_reason"].is_null()
                && it["exit_reason"] != "blocked"
        });
        found.unwrap_or_else(|| panic!("nobody left {phase}: {whole}"))
    };
    let ci = of("CI_PENDING");
    let verdict = json!({
        "exit_status": 0, "reason": null, "commit": commit, "uncommitted_changes": false,
    });
    assert_eq!((&ci["ci"], &ci["channel"]), (&verdict, &json!("runner")));
    let written = of("IMPLEMENTATION");
    assert_eq!(written["pr_url"], "https://github.com/example/hello/pull/1");
    assert_eq!((&written["commit"], &written["channel"]), (&json!(commit), &json!("descriptor")));
    assert_eq!(written["evidence_bundle_ref"], "evidence/work/W-00042/phase_implementation.yaml");
    let evidence = written["evidence_artifact"].as_str().unwrap();
    let bundle = viewer.get(&format!("/artifacts/{evidence}"));
    assert!(String::from_utf8(bundle.body).unwrap().contains(&commit));
    assert_eq!(written["ci"], Value::Null);

    let sessions = whole["sessions"].as_array().unwrap();
    let first = &sessions[1];
    assert_eq!(
        (&first["status"], &first["outcome"]),
        (&json!("succeeded"), &json!("not-achieved"))
    );

    let part = viewer.ask(&format!("/work/{item}?offset=2&limit=3"));
    assert_eq!(part["transitions"], json!(all[2..5]));
    assert_eq!((&part["total"], &part["sessions"]), (&whole["total"], &whole["sessions"]));

    let decisions = viewer.ask(&format!("/traces/{item}/decisions"));
    let decided = &decisions["items"][0];
    assert_eq!(decisions["matched"], 1);
    assert_eq!((&decided["decision"], &decided["role"]), (&json!("unblocked"), &json!("operator")));
    assert_eq!(decided["channel"], "unprotected-key");
    assert_eq!(decided["reasons"], json!(["everybody is greeted"]));
}
