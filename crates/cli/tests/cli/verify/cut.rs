//! A trace that ends early is never taken for a whole one, and one that was signed anew by somebody
//! else never for that of a root that is trusted.

use std::fs;

use countersign_testkit::SessionStory;

use super::Files;
use crate::place::Place;

/// The ledger's first `count` lines.
fn first_lines(ledger: &[u8], count: usize) -> Vec<u8> {
    ledger.split_inclusive(|&byte| byte == b'\n').take(count).flatten().copied().collect()
}

#[test]
fn a_trace_cut_at_any_event_is_never_good_with_or_without_its_log() {
    let files = Files::closed();
    assert_eq!(files.verify(&files.trace, &[]).code, 0, "the whole one is good");
    let whole = fs::read(files.ledger()).unwrap();
    let events = whole.split_inclusive(|&byte| byte == b'\n').count();
    assert!(events >= 10, "{events}");
    let log = fs::read(files.home().join("log/events.jsonl")).unwrap();
    for count in 0..events {
        fs::write(files.ledger(), first_lines(&whole, count)).unwrap();
        for more in [&[][..], &["--allow-open"], &["--profile", "lenient"]] {
            let with_log = files.verify(&files.trace, more);
            assert_eq!(with_log.code, 3, "{count} events, {more:?}: {with_log}");
        }
        fs::remove_file(files.home().join("log/events.jsonl")).unwrap();
        for more in [&[][..], &["--allow-open"]] {
            let without = files.verify(&files.trace, more);
            assert!(matches!(without.code, 3 | 4), "{count} events, {more:?}: {without}");
        }
        fs::write(files.home().join("log/events.jsonl"), &log).unwrap();
    }
}

/// The log cut as well, so that it knows no more than the trace: only what was kept elsewhere tells.
#[test]
fn a_trace_and_a_log_that_were_both_cut_are_open_and_what_was_kept_elsewhere_shows_it() {
    let files = Files::closed();
    let log_file = files.home().join("log/events.jsonl");
    let (whole, log) = (fs::read(files.ledger()).unwrap(), fs::read(&log_file).unwrap());
    let kept = files.place.path().join("kept.jsonl");
    fs::write(&kept, &log).unwrap();
    let head = {
        let last = whole.split(|&byte| byte == b'\n').rfind(|line| !line.is_empty()).unwrap();
        let event: serde_json::Value = serde_json::from_slice(last).unwrap();
        event["event_hash"].as_str().unwrap().to_owned()
    };
    let entries = log.split_inclusive(|&byte| byte == b'\n').count();
    fs::write(&log_file, first_lines(&log, entries - 1)).unwrap();
    for count in 1..whole.split_inclusive(|&byte| byte == b'\n').count() {
        fs::write(files.ledger(), first_lines(&whole, count)).unwrap();
        assert_eq!(files.verify(&files.trace, &[]).code, 4, "{count} events");
        for more in
            [["--log", kept.to_str().unwrap()], ["--expect-head", &head], ["--expect-count", "99"]]
        {
            assert_eq!(files.verify(&files.trace, &more).code, 3, "{count} events, {more:?}");
        }
    }
}

/// Everything is consistent, and by somebody else.
#[test]
fn a_session_signed_anew_with_other_keys_is_never_pinned() {
    let files = Files::closed();
    let forged = SessionStory::signed_by_others();
    let place = Place::empty();
    forged.write_to(&place.path());
    let target = place.path().join("traces").join(forged.id().to_string());
    let target = target.display().to_string();
    let screen = place.run(&["verify", &target, "--no-write", "--trust", &files.root, "--json"]);
    assert_eq!(screen.code, 4, "{screen}");
    let report: serde_json::Value = serde_json::from_slice(&screen.stdout).unwrap();
    assert_eq!(
        (&report["verification_status"], &report["signer"]),
        (&"pass".into(), &"unpinned".into())
    );
    // Put into the place of the real one, it does not even fit.
    fs::copy(std::path::Path::new(&target).join("events.jsonl"), files.ledger()).unwrap();
    assert_eq!(files.verify(&files.trace, &[]).code, 3);
}

/// The log alone, cut together with its checkpoint: a copy that was kept shows it.
#[test]
fn a_log_that_is_shorter_than_the_copy_that_was_kept_is_not_intact() {
    let files = Files::closed();
    let log_file = files.home().join("log/events.jsonl");
    let log = fs::read(&log_file).unwrap();
    let kept = files.place.path().join("kept.jsonl");
    fs::write(&kept, &log).unwrap();
    let home = files.home().display().to_string();
    let verify = |arguments: &[&str]| {
        let more = ["--home", &home, "--no-write", "--allow-open", "--trust", &files.root];
        files.place.run(&[&["verify"], arguments, &more].concat())
    };
    let copy = kept.to_str().unwrap();
    assert_eq!(verify(&["log", "--log", copy]).code, 0);
    assert_eq!(verify(&["--all", "--log", copy]).code, 0);
    let entries = log.split_inclusive(|&byte| byte == b'\n').count();
    for count in 1..entries {
        fs::write(&log_file, first_lines(&log, count)).unwrap();
        assert_eq!(verify(&["log"]).code, 0, "{count} entries are a log");
        for asked in [["log", "--log", copy], ["--all", "--log", copy]] {
            let screen = verify(&asked);
            assert_eq!(screen.code, 3, "{count} entries, {asked:?}: {screen}");
            assert!(screen.stdout().contains("kept elsewhere has more"), "{screen}");
        }
    }
    fs::remove_file(&log_file).unwrap();
    assert_eq!(verify(&["--all", "--log", copy]).code, 3);
}
