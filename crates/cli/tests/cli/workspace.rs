//! Workspaces from the command line: made, looked at, verified, mended.

use std::fs;

use countersign_format::hash::Hash;
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::Recording;
use countersign_runtime::store::Blobs as _;
use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;

use crate::place::Place;

/// A finished recording with one artifact of this text.
fn finished(home: &TestHome, text: &str) -> Recording {
    let recording = home.recording();
    let artifact = recording.put_artifact(text.as_bytes(), "text/plain").unwrap();
    let command =
        RecordingCommand::RecordArtifact { purpose: "evidence".into(), artifacts: vec![artifact] };
    recording.submit(command).unwrap();
    home.clock.advance(1_500);
    recording.conclude("all is well").unwrap();
    recording
}

#[test]
fn init_makes_a_workspace_that_doctor_finds_nothing_wrong_with() {
    let place = Place::empty();
    let made = place.run(&["init"]);
    assert_eq!(made.code, 0, "{made}");
    let root = made.stdout().lines().last().unwrap().split_whitespace().last().unwrap().to_owned();
    assert!(root.parse::<Hash>().is_ok(), "{root}");
    assert_eq!(fs::read_to_string(place.path().join(".countersign/.gitignore")).unwrap(), "*\n");

    let visit = place.run(&["doctor"]);
    assert_snapshot!(visit.to_string().replace(&root, "$ROOT"), @r"
    exit 0
    --- stdout
    ok       store   $PLACE/.countersign
    ok       keys    7 active keys can be used
    warning  keys    `$PLACE/config` lies in the workspace, where agents can read private keys
                     hint: move it elsewhere, and let `COUNTERSIGN_CONFIG` name the new place
    ok       root    $ROOT is trusted
    ok       log     7 entries, chain and signatures hold
    ok       traces  0 traces in the store

    --- stderr
    ");
}

#[test]
fn a_second_init_changes_nothing() {
    let place = Place::empty();
    assert_eq!(place.run(&["init"]).code, 0);
    let before = fs::read(place.path().join(".countersign/log/events.jsonl")).unwrap();
    assert_snapshot!(place.run(&["init"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: there is a workspace at `$PLACE/.countersign` already
    hint: run `countersign doctor` to see whether it is in order
    ");
    assert_eq!(fs::read(place.path().join(".countersign/log/events.jsonl")).unwrap(), before);
}

#[test]
fn a_command_without_a_workspace_says_how_to_make_one() {
    assert_snapshot!(Place::empty().run(&["trace", "list"]), @r"
    exit 1
    --- stdout

    --- stderr
    error: no workspace in `$PLACE` or above
    hint: run `countersign init` to make one here
    ");
}

#[test]
fn traces_are_listed_and_shown() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = finished(&home, "the tests pass");
    let _running = home.recording();
    assert_snapshot!(place.run(&["trace", "list"]), @r"
    exit 0
    --- stdout
    trace                       kind       status     outcome        events  started                        took  task
    01kggtstag494h28jgxgpqnqc9  recording  succeeded  -                   5  2026-02-03T04:05:06.000Z    1.500 s  -
    01kggtsvsc4vywcde6ht4r3fd0  recording  running    -                   1  2026-02-03T04:05:07.500Z          -  -

    --- stderr
    ");
    let id = recording.id().to_string();
    let shown = place.run(&["trace", "show", &id[..12], "--count", "4"]);
    assert_snapshot!(shown, @r#"
    exit 0
    --- stdout
         0  2026-02-03T04:05:06.000Z  recorder   session_initialized         {"kind":"recording","on_behalf_of":{"agent_id":"test-agent"}}
         1  2026-02-03T04:05:06.000Z  recorder   artifact_recorded           {"on_behalf_of":{"agent_id":"test-agent"},"purpose":"evidence"}
         2  2026-02-03T04:05:07.500Z  recorder   final_statement_signed      {"claims":[],"consolidated_claim_ids":[],"final_verdict":"all is well"}
         3  2026-02-03T04:05:07.500Z  recorder   verification_run_started    {}

    --- stderr
    "#);
    let json = place.run(&["trace", "show", &id, "--json"]);
    let lines: Vec<serde_json::Value> =
        json.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[1]["payload"]["purpose"], "evidence");
}

#[test]
fn a_closed_trace_verifies_for_its_owner() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = finished(&home, "the tests pass");
    let trust = home.workspace.root().to_hex();
    let verified =
        place.run(&["verify", &recording.id().to_string(), "--trust", &trust, "--no-write"]);
    assert_snapshot!(verified, @r"
    exit 0
    --- stdout
    trace    01kggtstag494h28jgxgpqnqc9
    kind     recording, 5 events
    profile  default
    root     ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd, which you trust

      ok    CHK_SCHEMA_CONFORMANCE         every line is a valid event in its canonical bytes (5 events)
      ok    CHK_EVENT_HASH_INTEGRITY       every hash is that of the bytes (5 events)
      ok    CHK_CHAIN_CONTINUITY           every event follows the one before (5 events)
      ok    CHK_SIGNATURE_VALIDITY         every signature verifies (5 signatures)
      ok    CHK_KEY_STATUS                 every key could sign when it did
      ok    CHK_LOG                        the workspace log knows this trace so (keys as of log entry 9)
      ok    CHK_ARTIFACT_EXISTENCE         every artifact is there (2 artifacts)
      ok    CHK_ARTIFACT_HASH_MATCH        every artifact has the bytes that were recorded (2 artifacts)
      --    CHK_RECEIPT_CHAIN              every action has its receipt, and each names the one before (no receipts)
      --    CHK_CLAIM_EVIDENCE_SUFFICIENCY every claim has its evidence (only sessions have claims)
      ok    CHK_ROLE_POLICY_CONFORMANCE    every event was allowed when it was recorded
      --    CHK_SEPARATION_OF_DUTIES       who acts, who reviews and who audits are not the same (only sessions have duties to separate)
      ok    CHK_FINALIZATION_INTEGRITY     the final statement and the audit are in order (1 audits)

    this does not prove:
      - that a claim is true
      - that nothing happened outside the channel that was recorded
      - which model acted
      - that roles were separate people or processes
      - when something happened, beyond the signer's word and a checkpoint kept elsewhere
      - anything against someone who holds the keys and the disk, since that checkpoint

    intact; the trace ended: succeeded (a recording: what the recorder saw of an outside agent)
    verdict: pass, closed: yes, signer: pinned

    --- stderr
    ");
}

#[test]
fn a_stranger_without_the_root_sees_an_unpinned_signer() {
    let home = TestHome::new();
    let recording = finished(&home, "the tests pass");
    let id = recording.id().to_string();
    let stranger = Place::stranger_to(&home);
    let verified = stranger.run(&["verify", &id, "--no-write"]);
    assert_eq!(verified.code, 4, "{verified}");
    assert!(verified.stdout().ends_with("verdict: pass, closed: yes, signer: unpinned\n"));
    let root = home.workspace.root().to_hex();
    assert_eq!(stranger.run(&["keys", "trust", &root, "--label", "the team"]).code, 0);
    assert_eq!(stranger.run(&["verify", &id, "--no-write"]).code, 0);
}

#[test]
fn a_trace_without_its_log_can_be_checked_for_integrity_only() {
    let home = TestHome::new();
    let recording = finished(&home, "the tests pass");
    let place = Place::empty();
    let copy = place.path().join("events.jsonl");
    fs::copy(home.workspace.trace_file(recording.id()), &copy).unwrap();
    let verified = place.run(&["verify", "events.jsonl"]);
    assert_snapshot!(verified, @r"
    exit 4
    --- stdout
    trace    01kggtstag494h28jgxgpqnqc9
    kind     recording, 5 events
    profile  default
    root     unknown

      ok    CHK_SCHEMA_CONFORMANCE         every line is a valid event in its canonical bytes (5 events)
      ok    CHK_EVENT_HASH_INTEGRITY       every hash is that of the bytes (5 events)
      ok    CHK_CHAIN_CONTINUITY           every event follows the one before (5 events)
      --    CHK_SIGNATURE_VALIDITY         every signature verifies (no keys: neither a workspace log nor `--keys` was given)
      --    CHK_KEY_STATUS                 every key could sign when it did (no keys: neither a workspace log nor `--keys` was given)
      --    CHK_LOG                        the workspace log knows this trace so (no workspace log was given)
      --    CHK_ARTIFACT_EXISTENCE         every artifact is there (no store of artifacts was given)
      --    CHK_ARTIFACT_HASH_MATCH        every artifact has the bytes that were recorded (no store of artifacts was given)
      --    CHK_RECEIPT_CHAIN              every action has its receipt, and each names the one before (no receipts)
      --    CHK_CLAIM_EVIDENCE_SUFFICIENCY every claim has its evidence (only sessions have claims)
      ok    CHK_ROLE_POLICY_CONFORMANCE    every event was allowed when it was recorded
      --    CHK_SEPARATION_OF_DUTIES       who acts, who reviews and who audits are not the same (only sessions have duties to separate)
      --    CHK_FINALIZATION_INTEGRITY     the final statement and the audit are in order (no store of artifacts was given)

    warning: LOG_ABSENT: the trace names a workspace log, and none was given: whether it is whole, and who signed it, cannot be told

    warning: ARTIFACTS_UNREAD: the evidence was not looked at: no store of artifacts was given

    this does not prove:
      - that a claim is true
      - that nothing happened outside the channel that was recorded
      - which model acted
      - that roles were separate people or processes
      - when something happened, beyond the signer's word and a checkpoint kept elsewhere
      - anything against someone who holds the keys and the disk, since that checkpoint
      - that the artifacts are there and whole: they were not read

    the bytes agree with themselves, but no signature was checked (a recording: what the recorder saw of an outside agent)
    verdict: pass-with-warnings, closed: no, signer: unpinned

    --- stderr
    ");
    let keys = Place::owner_of(&home).run(&["keys", "export"]);
    fs::write(place.path().join("keys.json"), &keys.stdout).unwrap();
    let verified = place.run(&["verify", "events.jsonl", "--keys", "keys.json", "--json"]);
    assert_eq!(verified.answer()["metrics"]["signatures_verified"], 5);
    assert_eq!(verified.code, 4, "{verified}");
}

#[test]
fn an_edited_event_is_named_and_nothing_is_changed() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = finished(&home, "the tests pass");
    let path = home.workspace.trace_file(recording.id());
    let forged = fs::read_to_string(&path).unwrap().replace("all is well", "all was bad");
    fs::write(&path, &forged).unwrap();
    let id = recording.id().to_string();
    let verified = place.run(&["verify", &id, "--trust", &home.workspace.root().to_hex()]);
    assert_eq!(verified.code, 3);
    let text = verified.stdout();
    let findings = &text[text.find("\nHASH_MISMATCH").unwrap()..text.find("\nthis does").unwrap()];
    assert_snapshot!(findings, @r"
    HASH_MISMATCH at event 2 (01kggtsvsceap94r2dbgcf575j)
      the payload hashes to fe6e448fbce0061b5d4fec07e4ee2aea19ced53cd689b13f802b3013285c2924, the event states 950770602a3b53e2efef1804ae457bd9cb84cf640af4814dc71e5445d913cacc
      hint: compare this event with another copy: it was changed; run `countersign trace show 01kggtstag494h28jgxgpqnqc9 --from 2`

    SIG_INVALID at event 2 (01kggtsvsceap94r2dbgcf575j)
      the signature of key 74b2e759f10cbb5e749af1a968ed8b8e does not verify
      hint: do not rely on this event; ask the signer for the original; run `countersign trace show 01kggtstag494h28jgxgpqnqc9 --from 2`
    ");
    assert_eq!(fs::read_to_string(&path).unwrap(), forged);
    let reports: Vec<_> = fs::read_dir(path.with_file_name("reports")).unwrap().collect();
    assert_eq!(reports.len(), 2, "one as JSON, one as text");
}

#[test]
fn a_trace_directory_that_vanished_is_reported() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = finished(&home, "the tests pass");
    let dir = home.workspace.trace_file(recording.id());
    fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    let visit = place.run(&["doctor"]);
    assert_eq!(visit.code, 3);
    let id = recording.id();
    let line = format!("WRONG    traces  {id} is gone; the log knows 5 of its events\n");
    assert!(visit.stdout().contains(&line), "{visit}");
}

#[test]
fn text_of_an_agent_cannot_drive_the_terminal() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording =
        home.workspace.begin_recording(Some("\u{1b}[2Jevil\u{202e}"), Some("\u{7}")).unwrap();
    recording.submit(note("\u{9b}2J\r\nforged line")).unwrap();
    let id = recording.id().to_string();
    for arguments in [["trace", "show", &id], ["trace", "show", "--json"]] {
        let arguments: Vec<&str> = if arguments[2] == "--json" {
            vec!["trace", "show", &id, "--json"]
        } else {
            arguments.to_vec()
        };
        let shown = place.run(&arguments);
        let hidden = shown
            .stdout()
            .chars()
            .find(|c| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c));
        assert_eq!(hidden, None, "{shown}");
        assert_eq!(shown.stdout().lines().count(), 2, "{shown}");
    }
}

#[test]
fn an_artifact_is_shown_and_redacted_with_a_record_in_its_trace() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = finished(&home, "my password is hunter2");
    let hash = Hash::of(b"my password is hunter2").to_hex();
    assert_eq!(place.run(&["artifact", "show", &hash]).stdout(), "my password is hunter2");
    let redacted = place.run(&["artifact", "redact", &hash, "--reason", "a password"]);
    assert_eq!(redacted.code, 0, "{redacted}");
    assert_eq!(redacted.stdout(), format!("recorded in {}\nremoved {hash}\n", recording.id()));
    assert_eq!(home.workspace.store().stat(&hash.parse().unwrap()).unwrap(), None);
    let gone = place.run(&["artifact", "show", &hash]);
    assert_eq!(gone.code, 1, "{gone}");
    assert!(gone.stderr.starts_with(&format!("error: artifact {hash} was redacted\n")), "{gone}");
    // Once more is no second record.
    assert_eq!(place.run(&["artifact", "redact", &hash, "--reason", "again"]).code, 0);
    let report = home.verify(recording.id());
    assert_eq!((report.failures, report.metrics.events), (Vec::new(), 6));
    let warnings: Vec<_> = report.warnings.iter().map(|it| it.warning_code.as_str()).collect();
    assert_eq!(warnings, ["REDACTION_LIMITED"]);
    let unknown = place.run(&["artifact", "redact", &"0".repeat(64), "--reason", "none"]);
    assert_eq!(unknown.code, 1, "{unknown}");
}

#[test]
fn verify_log_checks_the_log_itself() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let root = home.workspace.root().to_hex();
    assert_eq!(place.run(&["verify", "log", "--trust", &root]).code, 4);
    assert_eq!(place.run(&["verify", "log", "--trust", &root, "--allow-open"]).code, 0);
    let path = home.path().join("log/events.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&path, lines[..6].concat()).unwrap();
    let cut = place.run(&["verify", "log", "--trust", &root, "--allow-open"]);
    assert_eq!(cut.code, 3, "{cut}");
    assert!(cut.stdout().contains("the checkpoint is of 7 entries, the log has 6"), "{cut}");
}

/// Whoever cuts a trace and the log and its checkpoint leaves no trace here; only what was kept
/// elsewhere shows it.
#[test]
fn a_checkpoint_or_log_kept_elsewhere_shows_that_everything_here_was_cut() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = finished(&home, "the tests pass");
    let id = recording.id().to_string();
    let root = home.workspace.root().to_hex();
    let log = home.path().join("log/events.jsonl");
    let kept = place.path().join("kept.txt");
    fs::copy(home.path().join("log/checkpoint"), &kept).unwrap();
    let kept_log = place.path().join("kept.jsonl");
    fs::copy(&log, &kept_log).unwrap();
    let verify = |extra: &[&str]| {
        let mut arguments = vec!["verify", &id, "--trust", &root, "--no-write", "--allow-open"];
        arguments.extend_from_slice(extra);
        place.run(&arguments)
    };
    assert_eq!(verify(&["--log", "kept.txt"]).code, 0);
    assert_eq!(verify(&["--log", "kept.jsonl"]).code, 0);

    let cut = |path: &std::path::Path, keep: usize| {
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, text.split_inclusive('\n').take(keep).collect::<String>()).unwrap();
    };
    cut(&home.workspace.trace_file(recording.id()), 3);
    cut(&log, 8);
    fs::remove_file(home.path().join("log/checkpoint")).unwrap();
    assert_eq!(verify(&[]).code, 0, "nothing here tells");
    let shown = verify(&["--log", "kept.txt"]);
    assert_eq!(shown.code, 3);
    assert!(shown.stdout().contains("the checkpoint is of 9 entries, the log has 8"), "{shown}");
    let shown = verify(&["--log", "kept.jsonl"]);
    assert_eq!(shown.code, 3);
    assert!(shown.stdout().contains("the log knows 5 events of this trace, here are 3"), "{shown}");

    fs::write(&log, fs::read_to_string(&log).unwrap().replacen("Recorder", "Recarder", 1)).unwrap();
    let parted = verify(&["--log", "kept.jsonl"]);
    assert_eq!(parted.code, 3);
    assert!(parted.stderr.contains("the two logs contradict each other"), "{parted}");
}

#[test]
fn a_directory_that_holds_something_else_is_left_alone() {
    let place = Place::empty();
    fs::write(place.path().join(".gitignore"), "target\n").unwrap();
    let refused = place.run(&["init", "--home", "."]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("is not empty: it holds `.gitignore`"), "{refused}");
    assert_eq!(fs::read_to_string(place.path().join(".gitignore")).unwrap(), "target\n");
    assert_eq!(place.run(&["init", "--home", "relative"]).code, 0);
}

#[test]
fn of_several_inits_at_once_one_makes_the_workspace() {
    let place = Place::empty();
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| place.run(&["init"]).code)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 1).count(), 3, "{codes:?}");
    let log = fs::read_to_string(place.path().join(".countersign/log/events.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 7);
    assert_eq!(fs::read_dir(place.path().join("config/keys")).unwrap().count(), 1);
}

#[test]
fn a_report_that_cannot_be_kept_is_given_all_the_same() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = finished(&home, "the tests pass");
    let elsewhere = place.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let reports = home.workspace.trace_file(recording.id()).with_file_name("reports");
    std::os::unix::fs::symlink(&elsewhere, &reports).unwrap();
    let root = home.workspace.root().to_hex();
    let screen = place.run(&["verify", &recording.id().to_string(), "--trust", &root]);
    assert_eq!(screen.code, 0);
    assert!(screen.stdout().ends_with("verdict: pass, closed: yes, signer: pinned\n"), "{screen}");
    assert!(screen.stderr.starts_with("warning: the report could not be kept"), "{screen}");
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[test]
fn a_workspace_below_any_path_is_made_whole_and_trusted() {
    for name in ["d".repeat(200) + "/" + &"e".repeat(200), "a\nb\u{1b}[2J".to_owned()] {
        let place = Place::empty();
        let dir = place.path().join(&name);
        fs::create_dir_all(&dir).unwrap();
        let home = dir.join(".countersign").display().to_string();
        let made = place.run(&["init", "--home", &home]);
        assert_eq!(made.code, 0, "{made}");
        let visit = place.run(&["doctor", "--home", &home]);
        assert!(visit.stdout().contains(" is trusted\n"), "{visit}");
        let roots = fs::read_to_string(place.path().join("config/known_roots")).unwrap();
        assert_eq!(roots.lines().count(), 1, "{roots}");
        assert!(roots.trim_end().ends_with("/.countersign"), "{roots}");
    }
}

#[test]
fn a_second_redaction_says_that_and_by_what_it_was_done_before() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let id = finished(&home, "a name").id().to_string();
    let hash = Hash::of(b"a name").to_hex();
    let first = place.run(&["artifact", "redact", &hash, "--reason", "personal"]);
    assert_eq!(first.stdout(), format!("recorded in {id}\nremoved {hash}\n"));
    let recorded = home.workspace.redactions(&Hash::of(b"a name")).unwrap().remove(0);
    let (who, at, event) = (recorded.agent_id, recorded.at, recorded.event_id);
    let told = format!("redacted by `{who}` at {at}: personal (event {event} of {id})");
    let second = place.run(&["artifact", "redact", &hash, "--reason", "again"]);
    assert_eq!(second.code, 0, "{second}");
    let gone = format!("its bytes were gone already: {hash}");
    assert_eq!(second.stdout(), format!("already {told}\n{gone}\n"));
    let shown = place.run(&["artifact", "show", &hash]);
    assert_eq!(shown.code, 1);
    assert_eq!(shown.stderr, format!("error: artifact {hash} was redacted\n  {told}\n"));
    let never = place.run(&["artifact", "show", &Hash::of(b"never").to_hex()]);
    assert!(never.stderr.contains("is missing"), "{never}");
}

#[test]
fn what_cannot_be_run_makes_no_workspace() {
    let place = Place::empty();
    for command in [["flow", "run", "typo.toml"].as_slice(), &["run", "typo.toml"]] {
        assert_eq!(place.run(command).code, 1);
    }
    fs::write(place.path().join("bad.toml"), "nothing = 1\n").unwrap();
    assert_eq!(place.run(&["flow", "run", "bad.toml"]).code, 3);
    assert!(!place.path().join(".countersign").exists());
    assert!(!place.path().join("config").exists());
}

#[test]
fn options_of_a_command_are_refused_for_a_task() {
    let place = Place::empty();
    fs::write(place.path().join("task.toml"), "").unwrap();
    for option in [["--network"].as_slice(), &["--write", "/tmp"], &["--require", "none"]] {
        let command: Vec<_> = ["run"].iter().chain(option).copied().chain(["task.toml"]).collect();
        let refused = place.run(&command);
        assert_eq!(refused.code, 2, "{refused}");
        let said = format!("error: `{}` is an option of `countersign run -- CMD`\n", option[0]);
        assert!(refused.stderr.starts_with(&said), "{refused}");
    }
    assert!(!place.path().join(".countersign").exists());
}

#[test]
fn hints_of_a_session_name_what_they_are_about() {
    let place = Place::empty();
    assert_eq!(place.run(&["run", "--", "true"]).code, 0);
    let listed = place.run(&["trace", "list", "--json"]);
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let id = listed[0]["trace_id"].as_str().unwrap();
    let resumed = place.run(&["run", "--resume", id]);
    assert_eq!(resumed.code, 3, "{resumed}");
    let hint = format!("hint: run `countersign trace show {id}` to see what happened\n");
    assert!(resumed.stderr.ends_with(&hint), "{resumed}");

    let _ = place.run(&["keys", "revoke", "critic", "--reason", "lost"]);
    let refused = place.run(&["run", "--", "true"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.stderr.contains("hint: run `countersign keys rotate critic`"), "{refused}");
    assert_eq!(place.run(&["keys", "rotate", "critic"]).code, 0);
    assert_eq!(place.run(&["run", "--", "true"]).code, 0);
}

#[test]
fn a_call_that_a_failed_hook_lets_pass_is_said_to_be_allowed_by_the_option() {
    let place = Place::empty();
    let allowed = place.run_with(&["hook", "generic", "--on-failure", "allow"], b"?");
    assert_eq!(allowed.code, 0, "{allowed}");
    assert!(allowed.stderr.contains("because of `--on-failure allow`"), "{allowed}");
}
