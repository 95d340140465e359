//! What is no trace, or wants to take the reader along: a clear answer, at once.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Files;

/// How long an answer may take. A debug build on a busy machine is slower than what is promised,
/// which is a second.
const AT_ONCE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Verifies, and gives exit status and everything that was said.
fn answer(files: &Files, target: &Path) -> (i32, String) {
    let started = Instant::now();
    let screen = files.verify(target, &[]);
    let taken = started.elapsed();
    let said = format!("{}{}", screen.stdout(), screen.stderr);
    assert!(taken < AT_ONCE, "{taken:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    (screen.code, said)
}

#[test]
fn a_line_of_two_gibibytes_is_not_read_to_its_end() {
    let files = Files::closed();
    let whole = fs::read(files.ledger()).unwrap();
    for ends in [true, false] {
        let mut file = File::create(files.ledger()).unwrap();
        file.write_all(&whole).unwrap();
        file.write_all(b"{\"a\":\"").unwrap();
        // Zeros that take no room on the disk.
        file.seek(SeekFrom::Start((2 << 30) + 7)).unwrap();
        file.write_all(if ends { b"\"}\n" } else { b"\"}" }).unwrap();
        drop(file);
        let (code, said) = answer(&files, &files.trace);
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("longer than an event may be"), "{said}");
    }
}

#[test]
fn nesting_without_end_is_refused_at_its_place() {
    let files = Files::closed();
    let deep = "[".repeat(1_000_000);
    for line in [format!("{deep}\n"), format!("{{\"payload\":{deep}\n"), "{\"a\":".repeat(200_000)]
    {
        fs::write(files.ledger(), line + "\n").unwrap();
        let (code, said) = answer(&files, &files.trace);
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("SCHEMA_INVALID at event 0"), "{said}");
    }
}

#[test]
fn a_link_in_place_of_an_artifact_is_not_followed() {
    let files = Files::closed();
    let artifacts = super::contents(&files.home().join("artifacts"));
    for (path, bytes) in &artifacts {
        let elsewhere = files.place.path().join("elsewhere");
        fs::write(&elsewhere, bytes).unwrap();
        fs::remove_file(path).unwrap();
        symlink(&elsewhere, path).unwrap();
        let (code, said) = answer(&files, &files.trace);
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("ARTIFACT_MISSING"), "{said}");
        assert!(said.contains("is no regular file in the store"), "{said}");
        fs::remove_file(path).unwrap();
        fs::write(path, bytes).unwrap();
    }
    assert!(artifacts.len() >= 2);
}

#[test]
fn a_pipe_is_not_waited_for_wherever_it_lies() {
    let files = Files::closed();
    let artifact = super::contents(&files.home().join("artifacts")).remove(0).0;
    let log = files.home().join("log/events.jsonl");
    let checkpoint = files.home().join("log/checkpoint");
    for (place, code) in [(files.ledger(), 1), (artifact, 3), (log, 1), (checkpoint, 1)] {
        let before = fs::read(&place).ok();
        let _ = fs::remove_file(&place);
        pipe(&place);
        let (found, said) = answer(&files, &files.trace);
        assert_eq!(found, code, "{}: {said}", place.display());
        assert!(said.contains("regular file"), "{said}");
        fs::remove_file(&place).unwrap();
        if let Some(bytes) = before {
            fs::write(&place, bytes).unwrap();
        }
    }
    assert_eq!(files.verify(&files.trace, &[]).code, 0);
}

#[test]
fn what_is_no_trace_gets_a_clear_answer() {
    let files = Files::closed();
    let at = |name: &str| files.place.path().join(name);
    fs::write(at("empty"), b"").unwrap();
    fs::write(at("noise"), [0xff, 0x00, 0x1b, b'[', b'2', b'J', b'\n']).unwrap();
    fs::write(at("text"), "dear diary\n").unwrap();
    fs::create_dir(at("directory")).unwrap();
    pipe(&at("pipe"));
    for (target, code, words) in [
        (at("empty"), 3, "the trace holds no events"),
        (at("noise"), 3, "not a JSON object"),
        (at("text"), 3, "not a JSON object"),
        (at("directory"), 1, "there is no `events.jsonl` in it"),
        (at("pipe"), 1, "not a regular file"),
        ("/dev/zero".into(), 1, "not a regular file"),
        (at("nowhere"), 1, "no file or directory"),
        (files.home(), 2, "is a workspace, not a trace"),
    ] {
        let (found, said) = answer(&files, &target);
        assert_eq!(found, code, "{}: {said}", target.display());
        assert!(said.contains(words), "{}: {said}", target.display());
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
}

#[test]
fn a_pipe_or_a_device_is_not_waited_for_in_any_option() {
    let files = Files::closed();
    let fifo = files.place.path().join("fifo");
    pipe(&fifo);
    let (fifo, trace) = (fifo.display().to_string(), files.trace.display().to_string());
    let home = files.home().display().to_string();
    for nothing in [fifo.as_str(), "/dev/zero"] {
        for arguments in [
            ["verify", &trace, "--no-write", "--keys", nothing],
            ["verify", &trace, "--no-write", "--log", nothing],
            ["verify", &trace, "--no-write", "--trust", nothing],
            ["compare", &home, nothing, "--log", &home],
            ["compare", &home, &home, "--log", nothing],
        ] {
            let started = Instant::now();
            let screen = files.place.run(&arguments);
            assert!(started.elapsed() < AT_ONCE, "{arguments:?}: {:?}", started.elapsed());
            assert_eq!(screen.code, 1, "{arguments:?}: {screen}");
            assert!(screen.stderr.contains("not a regular file"), "{arguments:?}: {screen}");
        }
    }
}

/// A ledger and its log without the evidence: nothing is wrong, and nobody looked.
#[test]
fn evidence_that_was_not_looked_at_is_no_evidence() {
    let files = Files::closed();
    let alone = files.place.path().join("alone.jsonl");
    fs::copy(files.ledger(), &alone).unwrap();
    let log = files.home().join("log/events.jsonl").display().to_string();
    let screen = files.verify(&alone, &["--log", &log, "--json"]);
    assert_eq!(screen.code, 4, "{screen}");
    let report: serde_json::Value = serde_json::from_slice(&screen.stdout).unwrap();
    assert_eq!(report["verification_status"], "pass-with-warnings");
    assert_eq!(report["warnings"][0]["warning_code"], "ARTIFACTS_UNREAD");
    let status = |id: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|it| it["check_id"] == id).unwrap()["status"].clone()
    };
    for check in [
        "CHK_ARTIFACT_EXISTENCE",
        "CHK_ARTIFACT_HASH_MATCH",
        "CHK_CLAIM_EVIDENCE_SUFFICIENCY",
        "CHK_FINALIZATION_INTEGRITY",
    ] {
        assert_eq!(status(check), "not-checked", "{check}");
    }
    let home = files.home().display().to_string();
    assert_eq!(files.verify(&alone, &["--log", &log, "--artifacts", &home]).code, 0);
}
