//! `check exit-signal`: the specification's texts, the flag, and the phase that a session holds.

use serde_json::{Value, json};

use crate::binary::{Screen, command, run, run_with};
use crate::cases::{bytes, each, hostile, lines_of, text};

const FLAG: &str = "AGENT_EXIT_PROTOCOL_ENABLED";
const DISABLED: &str =
    "error: exit signal validation is disabled (AGENT_EXIT_PROTOCOL_ENABLED=false)\n";

/// Cases that follow a reference which compares substrings where components are meant.
const COMPONENTS_NOT_SUBSTRINGS: [&str; 1] = ["evidence-triple-dot"];
/// Cases in which an error's cut is decided by bytes though it is made by characters.
const CUT_BY_CHARACTERS: [&str; 1] = ["pr_url-http-multibyte"];

pub(super) fn check(arguments: &[&str], flag: Option<&str>, signal: impl AsRef<[u8]>) -> Screen {
    let mut check = command(&["check", "exit-signal"]);
    check.args(arguments);
    if let Some(value) = flag {
        check.env(FLAG, value);
    }
    run_with(check, signal.as_ref())
}

fn assert_refused(screen: &Screen, contains: &str, name: &str) {
    assert_eq!((screen.code, screen.stdout()), (3, ""), "{name}: {screen}");
    let said = screen.stderr.lines().next().and_then(|line| line.strip_prefix("error: "));
    assert!(said.is_some_and(|said| said.contains(contains)), "{name}: {screen}");
}

#[test]
fn every_signal_case_has_its_outcome() {
    let cases = lines_of("exit-cases.jsonl");
    each(&cases, |case| {
        let name = text(case, "name");
        let flag = case["enabled"].as_bool().unwrap().then_some("true");
        let screen = check(&[], flag, text(case, "input"));
        if COMPONENTS_NOT_SUBSTRINGS.contains(&name) {
            assert_eq!(screen.code, 0, "{name}");
            return;
        }
        let (expect, contains) = match text(case, "recommend") {
            "reject" => ("error", ""),
            "unknown-protocol-error" => ("error", "unknown protocol: expected 'apm2_agent_exit'"),
            "unsupported-version-error" => ("error", "unsupported version: expected '1.x', got"),
            _ => (text(case, "expect"), text(case, "error_contains")),
        };
        if expect == "error" {
            let cut = CUT_BY_CHARACTERS.contains(&name);
            let contains = if cut { contains.trim_end_matches("...'") } else { contains };
            assert_refused(&screen, contains, name);
            return;
        }
        let next = text(case, "next_phase");
        assert_eq!((screen.code, screen.stderr.as_str()), (0, ""), "{name}");
        assert_eq!(screen.stdout(), format!("{next}\n"), "{name}");
        let answer = check(&["--json"], flag, text(case, "input")).answer();
        let expected = json!({ "valid": true, "kind": "exit-signal", "next_phase": next });
        assert_eq!(answer, expected, "{name}");
        if text(case, "recommend") == "reject-at-handler" {
            let signal: Value = serde_json::from_str(text(case, "input")).unwrap();
            let phase = text(&signal, "phase_completed");
            let screen = check(&["--phase", phase], flag, text(case, "input"));
            assert_refused(&screen, "", name);
        }
    });
    assert_eq!(cases.len(), 136);
}

#[test]
fn every_flag_value_has_its_meaning() {
    let signal = json!({
        "protocol": "apm2_agent_exit", "version": "1.0.0",
        "phase_completed": "IMPLEMENTATION", "exit_reason": "completed",
    });
    let signal = signal.to_string();
    each(&lines_of("exit-flag-cases.jsonl"), |case| {
        let screen = check(&[], case["env_value"].as_str(), &signal);
        if case["enabled"].as_bool().unwrap() {
            assert_eq!((screen.code, screen.stdout()), (0, "CI_PENDING\n"), "{case}");
        } else {
            assert_eq!((screen.code, screen.stdout()), (3, ""), "{case}");
            assert!(screen.stderr.starts_with(DISABLED), "{screen}");
        }
    });
    for off in ["", "on", " true"] {
        assert_eq!(check(&[], Some(off), &signal).code, 3, "{off}");
    }
}

#[test]
fn while_signals_are_off_nothing_about_the_input_shows() {
    let screen = check(&[], None, "");
    assert!(screen.stderr.starts_with(DISABLED));
    for input in ["{}".to_owned(), "\u{1b}[2J".to_owned(), "x".repeat(200_000)] {
        assert_eq!(check(&[], None, &input), screen);
    }
    assert_eq!(check(&["there-is-no-such-file"], None, ""), screen);
    assert_eq!(check(&["--phase", "REVIEW"], None, ""), screen);
    let answer = check(&["--json"], None, "").answer();
    assert_eq!(answer["valid"], false);
    assert_eq!(format!("error: {}\n", text(&answer["faults"][0], "message")), DISABLED);
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let mut not_text = command(&["check", "exit-signal"]);
        not_text.env(FLAG, std::ffi::OsStr::from_bytes(b"true\xff"));
        assert_eq!(run_with(not_text, b""), screen);
    }
}

#[test]
fn a_session_moves_only_the_phase_that_it_holds() {
    each(&lines_of("exit-handler-cases.jsonl"), |case| {
        let name = text(case, "name");
        let phase = case["active_phase"].as_str().unwrap_or("none");
        let screen = check(&["--phase", phase], Some("1"), text(case, "input"));
        if phase == "COMPLETED" {
            // The original lets a late signal re-open finished work; here nothing leaves COMPLETED.
            assert_refused(&screen, "work is in phase 'COMPLETED', which nothing leaves", name);
        } else if text(case, "expect") == "ok" {
            assert_eq!(screen.code, 0, "{name}");
            assert_eq!(screen.stdout(), format!("{}\n", text(case, "next_phase")), "{name}");
        } else {
            let expected = format!("error: {}\n", text(case, "error_contains"));
            assert_eq!((screen.code, screen.stderr), (3, expected), "{name}");
        }
    });
}

#[test]
fn every_hostile_signal_is_refused() {
    let cases = hostile(&["schema:exit"]);
    each(&cases, |case| {
        let screen = check(&[], Some("yes"), bytes(case, "bytes_b64"));
        assert_refused(&screen, "", text(case, "name"));
    });
    assert_eq!(cases.len(), 10);
}

#[test]
fn what_is_too_large_is_counted() {
    for length in [65_537, 70_000, 3_000_000] {
        let screen = check(&[], Some("1"), vec![b'x'; length]);
        let said = format!("input too large: {length} bytes > 65536 bytes maximum");
        assert_refused(&screen, &said, "large");
    }
}

#[test]
fn names_of_others_are_repeated_up_to_two_hundred_characters() {
    let key = "é".repeat(10_000);
    let cut = format!("`{}...`", "é".repeat(200));
    let screen = check(&[], Some("1"), format!("{{\"{key}\":1,\"{key}\":2}}"));
    assert_refused(
        &screen,
        &format!("invalid JSON: duplicate key {cut} at line 1 column "),
        "twice",
    );
    let signal = json!({ "protocol": "apm2_agent_exit", "version": "1.0.0", key: 1 });
    let screen = check(&[], Some("1"), signal.to_string());
    assert_refused(&screen, &format!("invalid JSON: unknown field {cut}, expected"), "unknown");
}

#[test]
fn a_phase_is_asked_of_exit_signals_only() {
    assert_eq!(check(&["--phase", "draft"], Some("1"), "").code, 2);
    assert_eq!(check(&["--phase", ""], Some("1"), "").code, 2);
    assert_eq!(run(&["check", "json", "--phase", "DRAFT"], "{}").code, 2);
}
