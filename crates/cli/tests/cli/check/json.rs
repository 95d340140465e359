//! `check json` and `check ledger-line` against the hostile documents.

use crate::binary::run;
use crate::cases::{bytes, each, hostile, text};

#[test]
fn json_cases_are_taken_or_refused_with_exact_canonical_bytes() {
    let cases = hostile(&["json", "canon", "render"]);
    each(&cases, |case| {
        let (name, document) = (text(case, "name"), bytes(case, "bytes_b64"));
        let valid = match text(case, "expect") {
            "accept" => true,
            "reject" => false,
            // What text may hold is a rule for events; a number that readers differ on is not JSON.
            "policy" => name != "num-halfway",
            other => panic!("{other}"),
        };
        let screen = run(&["check", "json"], &document);
        let answer = run(&["check", "json", "--json"], &document);
        assert_eq!(answer.code, screen.code, "{name}");
        let answer = answer.answer();
        assert_eq!((&answer["valid"], &answer["kind"]), (&valid.into(), &"json".into()), "{name}");
        if valid {
            assert_eq!((screen.code, screen.stderr.as_str()), (0, ""), "{name}");
            assert_eq!(screen.stdout(), text(&answer, "canonical"), "{name}");
        } else {
            assert_eq!((screen.code, screen.stdout()), (3, ""), "{name}");
            let fault = &answer["faults"][0];
            let expected = format!(
                "error: not valid: {} at line {} column {}\n",
                text(fault, "message"),
                fault["line"],
                fault["column"]
            );
            assert_eq!(screen.stderr, expected, "{name}");
        }
        if case.get("canonical_b64").is_some() {
            assert_eq!(screen.stdout, bytes(case, "canonical_b64"), "{name}");
        }
    });
    assert!(cases.len() >= 93);
}

#[test]
fn ledger_line_cases_are_their_canonical_bytes_or_refused() {
    each(&hostile(&["ledger-line"]), |case| {
        let screen = run(&["check", "ledger-line"], bytes(case, "bytes_b64"));
        let expected = if text(case, "expect") == "accept" { 0 } else { 3 };
        assert_eq!((screen.code, screen.stdout()), (expected, ""), "{}", text(case, "name"));
    });
}

#[test]
fn the_canonical_bytes_of_an_object_are_the_only_form_that_is_a_ledger_line() {
    each(&hostile(&["json", "canon", "ledger-line"]), |case| {
        let (name, document) = (text(case, "name"), bytes(case, "bytes_b64"));
        let canonical = run(&["check", "json"], &document);
        if canonical.code != 0 || !canonical.stdout.starts_with(b"{") {
            assert_eq!(run(&["check", "ledger-line"], &document).code, 3, "{name}");
            return;
        }
        assert_eq!(run(&["check", "ledger-line"], &canonical.stdout).code, 0, "{name}");
        let without_break = document.strip_suffix(b"\n").unwrap_or(&document);
        let expected = if without_break == canonical.stdout { 0 } else { 3 };
        assert_eq!(run(&["check", "ledger-line"], &document).code, expected, "{name}");
        let again = run(&["check", "json"], &canonical.stdout);
        assert_eq!(again, canonical, "{name}");
    });
}

#[test]
fn a_ledger_line_ends_with_one_line_break_at_most() {
    for (document, code) in [
        ("{\"a\":1}", 0),
        ("{\"a\":1}\n", 0),
        ("{\"a\":1}\n\n", 3),
        ("{\"a\":1}\r\n", 3),
        ("\n{\"a\":1}", 3),
        ("{\"a\":1}\n{\"a\":2}\n", 3),
        ("{\"a\":1} \n", 3),
        ("{}", 0),
        ("[]", 3),
        ("\n", 3),
        ("", 3),
    ] {
        assert_eq!(run(&["check", "ledger-line"], document).code, code, "{document:?}");
    }
    let longest = format!("{{\"a\":\"{}\"}}", "x".repeat((1 << 20) - 8));
    assert_eq!(longest.len(), 1 << 20);
    assert_eq!(run(&["check", "ledger-line"], &longest).code, 0);
    assert_eq!(run(&["check", "ledger-line"], format!("{longest}\n")).code, 0);
    assert_eq!(run(&["check", "ledger-line"], format!("{longest}\n\n")).code, 3);
    let longer = longest.replace("\"}", "x\"}");
    assert_eq!(run(&["check", "ledger-line"], format!("{longer}\n")).code, 3);
}
