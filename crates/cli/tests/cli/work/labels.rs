//! Labels in place of ids, in every command that takes a trace.

use std::fs;

use super::{answer, copy, done, open, run, workspace};

#[test]
fn a_label_names_the_trace_of_its_item_wherever_a_trace_is_named() {
    let place = workspace();
    let item = done(&place, &["work", "open", "say hello", "--label", "W-00042"]);
    open(&place, "say something else");
    for arguments in [
        &["verify", "LABEL", "--no-write", "--json"][..],
        &["trace", "show", "LABEL"],
        &["trace", "diff", "LABEL", "LABEL"],
        &["trace", "abort", "LABEL"],
        &["seal", "LABEL"],
        &["prove", "LABEL", "0"],
        &["work", "show", "LABEL"],
    ] {
        let with = |name: &str| {
            let named: Vec<&str> =
                arguments.iter().map(|it| if *it == "LABEL" { name } else { it }).collect();
            let screen = run(&place, &named);
            assert!(!screen.stderr.contains("no trace"), "{named:?}: {screen}");
            screen
        };
        let (by_label, by_id) = (with("W-00042"), with(&item));
        assert_eq!(by_label.code, by_id.code, "{by_label}{by_id}");
        if arguments[0] == "verify" {
            assert_eq!(by_label.answer()["trace_id"], item.as_str());
        } else if arguments[0] == "trace" || arguments[0] == "prove" {
            assert_eq!(by_label.stdout(), by_id.stdout());
        }
    }
    let none = run(&place, &["trace", "show", "W-00043"]);
    assert_eq!(none.code, 1, "{none}");
    assert!(none.stderr.contains("no trace `W-00043`"), "{none}");
}

/// The item of another workspace can be put into this one, label and all.
#[test]
fn a_label_that_two_items_have_is_refused_with_both() {
    let (place, other) = (workspace(), workspace());
    let item = done(&place, &["work", "open", "say hello", "--label", "W-1"]);
    let foreign = done(&other, &["work", "open", "say goodbye", "--label", "W-1"]);
    let traces = |place: &crate::place::Place| place.path().join(".countersign/traces");
    copy(&traces(&other).join(&foreign), &traces(&place).join(&foreign));
    for arguments in [&["verify", "W-1"][..], &["trace", "show", "W-1"], &["work", "show", "W-1"]] {
        let refused = run(&place, arguments);
        assert_eq!(refused.code, 1, "{refused}");
        for words in ["`W-1` ", &item, &foreign, "hint: name one of them by its id"] {
            assert!(refused.stderr.contains(words), "{words}: {refused}");
        }
    }
    fs::remove_dir_all(traces(&place).join(&foreign)).unwrap();
    assert_eq!(answer(&place, &["work", "show", "W-1"])["item"], item.as_str());
}

#[test]
fn an_item_that_is_open_cannot_be_sealed_and_the_way_on_is_one_that_works() {
    let place = workspace();
    let item = open(&place, "say hello");
    let refused = run(&place, &["seal", &item]);
    assert_eq!(refused.code, 3, "{refused}");
    let expected = format!(
        "error: work item {item} is in phase DRAFT; it ends with COMPLETED\n\
         hint: run `countersign work show {item}` to see who has it\n"
    );
    assert_eq!(refused.stderr, expected);
    done(&place, &["work", "show", &item]);
    let refused = run(&place, &["trace", "abort", &item]);
    assert_eq!(refused.code, 3, "{refused}");
    assert!(refused.stderr.contains("is not aborted: it ends when it is completed"), "{refused}");

    done(&place, &["work", "claim", &item]);
    let said = super::signal("DRAFT", "blocked");
    super::run_with(&place, &["work", "exit", &item, "--lease", "1"], said.as_bytes());
    let refused = run(&place, &["seal", &item]);
    let hint = format!("hint: run `countersign work unblock {item} --reason …` when it can go on");
    assert!(refused.stderr.contains(&hint), "{refused}");
    done(&place, &["work", "unblock", &item, "--reason", "it can"]);
}
