//! Items moved by hand: opened, claimed, renewed, released, left, unblocked.

use std::fs;

use serde_json::json;

use super::{answer, done, events, open, run, run_with, signal, types, verify, workspace};

#[test]
fn an_item_is_opened_claimed_left_and_claimed_by_the_next() {
    let place = workspace();
    let item = answer(&place, &["work", "open", "say hello", "--label", "W-00042"]);
    assert_eq!(item["phase"], json!("DRAFT"));
    let lease = answer(&place, &["work", "claim", "W-00042", "--as", "drafter", "--for", "5m"]);
    assert_eq!((&lease["holder"], &lease["epoch"]), (&json!("drafter"), &json!(1)));

    let held = run(&place, &["work", "claim", "W-00042", "--as", "other"]);
    assert_eq!(held.code, 3, "{held}");
    assert!(held.stderr.contains("it is held by `drafter` with lease 1 until"), "{held}");

    let said = signal("DRAFT", "completed");
    let leave = ["work", "exit", "W-00042", "--lease", "1", "--as", "drafter"];
    let left = run_with(&place, &leave, said.as_bytes());
    assert_eq!((left.code, left.stdout().trim_end()), (0, "IMPLEMENTATION"), "{left}");
    let again = run_with(&place, &[&leave[..], &["--json"]].concat(), said.as_bytes());
    let again: serde_json::Value = serde_json::from_str(again.stdout()).unwrap();
    assert_eq!(
        (&again["next_phase"], &again["repeated"]),
        (&json!("IMPLEMENTATION"), &json!(true))
    );

    assert_eq!(done(&place, &["work", "claim", "W-00042"]), "2");
    let trace = item["item"].as_str().unwrap();
    assert_eq!(
        types(&events(&place, trace)),
        ["work_opened", "lease_granted", "agent_session_completed", "lease_granted"]
    );
    verify(&place, trace, 4);
}

#[test]
fn a_refused_exit_is_recorded_and_changes_nothing() {
    let place = workspace();
    let item = open(&place, "say hello");
    done(&place, &["work", "claim", &item]);
    let table = [
        (
            signal("REVIEW", "completed"),
            "1",
            "phase mismatch: exit signal claims 'REVIEW' but session is in 'DRAFT'",
        ),
        (signal("DRAFT", "completed"), "7", "lease 7 is stale: lease 1 holds now"),
        (
            signal("DRAFT", "completed").replace("1.0.0", "2.0.0"),
            "1",
            "unsupported version: expected '1.x', got '2.0.0'",
        ),
        ("so long".to_owned(), "1", "invalid JSON: "),
    ];
    for (said, lease, reason) in &table {
        let left = run_with(&place, &["work", "exit", &item, "--lease", lease], said.as_bytes());
        assert_eq!(left.code, 3, "{left}");
        assert!(left.stderr.contains(reason), "{left}");
    }
    let recorded = events(&place, &item);
    let refused: Vec<&str> = recorded
        .iter()
        .filter(|(event_type, _)| event_type == "exit_refused")
        .map(|(_, payload)| payload["reason"].as_str().unwrap())
        .collect();
    assert_eq!(refused.len(), table.len());
    for (reason, (_, _, expected)) in refused.iter().zip(&table) {
        assert!(reason.starts_with(expected), "{reason}");
    }
    assert_eq!(answer(&place, &["work", "show", &item])["state"]["phase"], json!("DRAFT"));
    verify(&place, &item, 4);
}

#[test]
fn who_only_knows_the_number_of_a_lease_neither_renews_nor_leaves() {
    let place = workspace();
    let item = open(&place, "say hello");
    let lease = answer(&place, &["work", "claim", &item, "--as", "drafter"]);
    let said = signal("DRAFT", "completed");
    let strangers = |left: &str| {
        for who in [vec![], vec!["--as", "other"], vec!["--session", "another"]] {
            for what in ["renew", "exit"] {
                let arguments = [&["work", what, &item, "--lease", "1"], &who[..]].concat();
                let refused = run_with(&place, &arguments, said.as_bytes());
                assert_eq!(refused.code, 3, "{left}: {refused}");
                let belongs = refused.stderr.contains("lease 1 belongs to ");
                assert!(belongs || (what == "renew" && left == "left"), "{left}: {refused}");
            }
        }
    };
    strangers("held");
    let refused = ["exit_refused"; 3];
    let expected = [&["work_opened", "lease_granted"][..], &refused].concat();
    assert_eq!(types(&events(&place, &item)), expected);
    let session = lease["session_id"].as_str().unwrap();
    done(&place, &["work", "renew", &item, "--lease", "1", "--session", session, "--for", "20m"]);
    done(&place, &["work", "renew", &item, "--lease", "1", "--as", "drafter", "--for", "30m"]);

    // What was said once is repeated to its holder, and to nobody else.
    let leave = ["work", "exit", &item, "--lease", "1", "--as", "drafter"];
    for _ in 0..2 {
        let left = run_with(&place, &leave, said.as_bytes());
        assert_eq!(left.stdout().trim_end(), "IMPLEMENTATION", "{left}");
    }
    strangers("left");
    let renewed = ["lease_renewed", "lease_renewed", "agent_session_completed"];
    assert_eq!(types(&events(&place, &item)), [&expected[..], &renewed, &refused].concat());
    verify(&place, &item, 4);
}

#[test]
fn a_claim_names_a_session_or_recording_of_this_workspace_or_none() {
    let place = workspace();
    let (item, other) = (open(&place, "say hello"), open(&place, "say goodbye"));
    for (session, code, words) in [
        ("whatever", 1, "no trace `whatever`"),
        ("01arz3ndektsv4rrffq69g5fav", 1, "no trace `01arz3ndektsv4rrffq69g5fav`"),
        (&other, 3, "is no session or recording: it is work"),
    ] {
        let refused = run(&place, &["work", "claim", &item, "--session", session]);
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.stderr.contains(words), "{refused}");
    }
    assert_eq!(types(&events(&place, &item)), ["work_opened"]);
    let ran = run(&place, &["run", "--json", "--", "true"]);
    assert_eq!(ran.code, 0, "{ran}");
    let traces = answer(&place, &["trace", "list"]);
    let session = traces.as_array().unwrap().iter().find(|it| it["kind"] == "session");
    let session = session.unwrap()["trace_id"].as_str().unwrap();
    let lease = answer(&place, &["work", "claim", &item, "--session", session]);
    assert_eq!(lease["session_id"], json!(session));
    let shown = done(&place, &["work", "show", &item]);
    assert!(shown.contains(&format!("  {session}  session, did its work: ")), "{shown}");
    verify(&place, &item, 4);
}

#[test]
fn a_phase_that_was_left_by_a_command_has_its_evidence_too() {
    let place = workspace();
    let item = done(&place, &["work", "open", "say hello", "--label", "W-7", "--phase", "REVIEW"]);
    done(&place, &["work", "claim", &item]);
    let said = signal("REVIEW", "completed").replace('}', ",\"notes\":\"well done\"}");
    let left = run_with(&place, &["work", "exit", &item, "--lease", "1"], said.as_bytes());
    assert_eq!(left.code, 0, "{left}");
    let recorded = events(&place, &item);
    let (_, last) = recorded.last().unwrap();
    assert_eq!(last["evidence_bundle_ref"], json!("evidence/work/W-7/review.yaml"), "{last}");
    let bundle = fs::read_to_string(place.path().join("evidence/work/W-7/review.yaml")).unwrap();
    assert!(bundle.contains("holder: \"somebody\"\n"), "{bundle}");
    assert!(bundle.contains("notes: \"well done\"\n"), "{bundle}");
    verify(&place, &item, 4);

    // A bundle of the holder's own is taken along as it is.
    done(&place, &["work", "claim", &item, "--as", "merger"]);
    fs::write(place.path().join("evidence/work/W-7/own.yaml"), "merged: true\n").unwrap();
    let named = ",\"evidence_bundle_ref\":\"evidence/work/W-7/own.yaml\"}";
    let said = signal("READY_FOR_MERGE", "completed").replace('}', named);
    let leave = ["work", "exit", &item, "--lease", "2", "--as", "merger"];
    let left = run_with(&place, &leave, said.as_bytes());
    assert_eq!(left.stdout().trim_end(), "COMPLETED", "{left}");
    let hash = countersign_format::hash::Hash::of(b"merged: true\n").to_hex();
    let shown = done(&place, &["artifact", "show", &hash]);
    assert_eq!(shown, "merged: true");
    verify(&place, &item, 0);
}

#[test]
fn with_the_flag_off_nothing_that_needs_signals_begins() {
    let place = workspace();
    let item = open(&place, "say hello");
    for arguments in [
        vec!["work", "exit", &item, "--lease", "1"],
        vec!["work", "run", &item, "--", "true"],
        vec!["work", "dispatch"],
    ] {
        let refused = place.run(&arguments);
        assert_eq!(refused.code, 3, "{refused}");
        let text = "exit signal validation is disabled (AGENT_EXIT_PROTOCOL_ENABLED=false)";
        assert!(refused.stderr.contains(text), "{refused}");
    }
    assert_eq!(types(&events(&place, &item)), ["work_opened"]);
}

#[test]
fn a_lease_is_renewed_released_and_taken_away() {
    let place = workspace();
    let item = open(&place, "say hello");
    done(&place, &["work", "claim", &item, "--for", "1m"]);
    done(&place, &["work", "renew", &item, "--lease", "1", "--for", "10m"]);
    let other = run(&place, &["work", "release", &item, "--lease", "1", "--as", "other"]);
    assert_eq!(other.code, 3, "{other}");
    assert!(other.stderr.contains("lease 1 belongs to `somebody`, not to `other`"), "{other}");
    done(&place, &["work", "release", &item, "--lease", "1", "--reason", "lunch"]);
    done(&place, &["work", "claim", &item, "--for", "1m"]);
    let needs = run(&place, &["work", "release", &item]);
    assert_eq!(needs.code, 2, "{needs}");
    done(&place, &["work", "release", &item, "--force", "--reason", "it hangs"]);
    let recorded = events(&place, &item);
    assert_eq!(
        types(&recorded),
        [
            "work_opened",
            "lease_granted",
            "lease_renewed",
            "lease_released",
            "lease_granted",
            "lease_released"
        ]
    );
    let (_, last) = recorded.last().unwrap();
    assert_eq!(*last, json!({ "epoch": 2, "reason": "it hangs", "released_by": "operator" }));
}

#[test]
fn a_blocked_item_is_a_question_and_the_answer_unblocks_it() {
    let place = workspace();
    let item = open(&place, "say hello");
    done(&place, &["work", "claim", &item]);
    let said = signal("DRAFT", "blocked").replace('}', ",\"notes\":\"who is greeted?\"}");
    let left = run_with(&place, &["work", "exit", &item, "--lease", "1"], said.as_bytes());
    assert_eq!(left.stdout().trim_end(), "BLOCKED", "{left}");
    let listed = done(&place, &["approve"]);
    assert!(listed.contains("who is greeted?"), "{listed}");
    let questions = answer(&place, &["approve"]);
    let id = questions[0]["id"].as_str().unwrap();
    done(&place, &["approve", id, "--yes", "--reason", "everybody"]);
    let recorded = events(&place, &item);
    let (event_type, payload) = recorded.last().unwrap();
    assert_eq!(
        (event_type.as_str(), payload.clone()),
        (
            "work_unblocked",
            json!({ "phase": "DRAFT", "reason": "everybody", "channel": "unprotected-key" })
        )
    );
    assert_eq!(crate::verify::approvals(&place, &item)["unprotected_key"], json!(1));
    let not = run(&place, &["work", "unblock", &item, "--reason", "again"]);
    assert_eq!(not.code, 3, "{not}");
    assert!(not.stderr.contains("it is not blocked: it is in phase 'DRAFT'"), "{not}");
}

#[test]
fn the_board_shows_phases_holders_and_what_is_free() {
    let place = workspace();
    for (title, label) in [("one", "W-1"), ("two", "W-2"), ("three \u{1b}[31m", "W-3")] {
        done(&place, &["work", "open", title, "--label", label]);
    }
    done(&place, &["work", "claim", "W-2", "--as", "drafter", "--for", "90s"]);
    let board = done(&place, &["work", "list"]);
    let lines: Vec<&str> = board.lines().collect();
    assert_eq!(lines.first(), Some(&"DRAFT (3)"));
    assert!(lines.iter().any(|line| line.contains("held by drafter, 1 min left")), "{board}");
    assert!(board.contains("three \\u{1b}[31m"), "{board}");
    let taken = run(&place, &["work", "open", "four", "--label", "W-1"]);
    assert_eq!(taken.code, 3, "{taken}");
    let rows = answer(&place, &["work", "list", "--phase", "REVIEW"]);
    assert_eq!(rows, json!([]));
    // The index is a cache: what it shows is the same without it.
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let _ = fs::remove_file(place.path().join(".countersign").join(name));
    }
    assert_eq!(answer(&place, &["work", "list"]).as_array().unwrap().len(), 3);
}

#[test]
fn of_many_who_open_with_one_label_at_once_one_gets_it() {
    let place = workspace();
    let openers: Vec<_> = (0..8)
        .map(|_| super::command(&place, &["work", "open", "x", "--label", "W-1"]).spawn().unwrap())
        .collect();
    let mut codes: Vec<i32> =
        openers.into_iter().map(|mut it| it.wait().unwrap().code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 3, 3, 3, 3, 3, 3, 3]);
    assert_eq!(answer(&place, &["work", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn what_is_no_item_is_told() {
    let place = workspace();
    let nothing = run(&place, &["work", "open", "x", "--phase", "COMPLETED"]);
    assert_eq!(nothing.code, 3, "{nothing}");
    let all = run(&place, &["verify", "--all"]);
    assert_eq!(all.code, 0, "a refused item leaves nothing behind: {all}");
    let missing = run(&place, &["work", "claim", "W-9"]);
    assert_eq!(missing.code, 1, "{missing}");
    assert!(missing.stderr.contains("no work item `W-9`"), "{missing}");
    for arguments in [
        vec!["work", "open", ""],
        vec!["work", "open", "x", "--phase", "DONE"],
        vec!["work", "open", "x", "--label", "../x"],
        vec!["work", "claim", "W-9", "--for", "5 minutes"],
        vec!["work", "claim", "W-9", "--as", "Some Body"],
    ] {
        let refused = run(&place, &arguments);
        assert_eq!(refused.code, 2, "{refused}");
    }
}
