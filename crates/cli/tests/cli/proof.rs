//! `countersign prove` and `compare`, and `verify` of what they write.

use std::fs;
use std::path::Path;

use countersign_format::hash::Hash;
use countersign_runtime::Recording;
use countersign_testkit::{TestHome, note};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::binary::Screen;
use crate::place::Place;

/// A recording of five events that has ended.
fn ended(home: &TestHome) -> Recording {
    let recording = home.recording();
    let _ = recording.submit(note("a note\u{202e}")).unwrap();
    recording.conclude("done").unwrap();
    recording
}

#[test]
fn one_event_is_shown_to_somebody_who_has_nothing_else() {
    let home = TestHome::new();
    let owner = Place::owner_of(&home);
    let id = ended(&home).id().to_string();
    assert_snapshot!(owner.run(&["prove", &id, "1", "-o", "one.json"]), @r#"
    exit 0
    --- stdout

    --- stderr
    proof of 17552 bytes in `one.json`
    hint: `countersign verify one.json` checks it
    "#);
    let printed = owner.run(&["prove", &id, "1"]);
    assert_eq!(printed.stdout, fs::read(owner.path().join("one.json")).unwrap());
    let stranger = Place::empty();
    fs::copy(owner.path().join("one.json"), stranger.path().join("one.json")).unwrap();
    assert_snapshot!(stranger.run(&["verify", "one.json"]), @r#"
    exit 4
    --- stdout
    trace    01kggtstag494h28jgxgpqnqc9, recording
    event    1, 01kggtstagrbx82cy5hbrkvzz7
    type     artifact_recorded
    actor    recorder, recorder, key 74b2e759f10cbb5e749af1a968ed8b8e
    time     2026-02-03T04:05:06.000Z
    root     ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd, which you do not trust
    keys     as of log entry 9

      ok    CHK_SCHEMA_CONFORMANCE         every line is a valid event in its canonical bytes
      ok    CHK_EVENT_HASH_INTEGRITY       every hash is that of the bytes
      ok    CHK_SIGNATURE_VALIDITY         the event and the first of its trace are signed
      ok    CHK_KEY_STATUS                 their keys could sign when they did
      ok    CHK_LOG                        the log has the event, and no key event is left out (keys as of log entry 9)
      ok    CHK_ROLE_POLICY_CONFORMANCE    the role may record such an event, and the key has it

    this does not prove:
      - what came before or after it, or that nothing did
      - that the rest of the trace, or of the log, is intact
      - that it was allowed when it was recorded, beyond its role
      - that the artifacts that it names are there and whole
      - that what it says is true
      - which model acted, or that roles were separate people or processes
      - that its keys were not retired after the log entry given above
      - when it happened, beyond the signer's word and a checkpoint kept elsewhere
      - anything against someone who holds the keys and the disk, since that checkpoint

    event 1 of trace 01kggtstag494h28jgxgpqnqc9 is included: artifact_recorded by `recorder`
    verdict: included, signer: unpinned

    --- stderr
    "#);
    let root = home.workspace.root().to_hex();
    let pinned = stranger.run(&["verify", "one.json", "--trust", &root, "--json"]);
    let answer = pinned.answer();
    assert_eq!((pinned.code, &answer["inclusion_status"]), (0, &json!("included")));
    assert_eq!(answer["event"]["event_type"], "artifact_recorded");
    // What was kept of the log is compared.
    let checkpoint = home.path().join("log/checkpoint").display().to_string();
    let log = home.path().join("log/events.jsonl").display().to_string();
    for kept in [checkpoint, log] {
        let screen = stranger.run(&["verify", "one.json", "--trust", &root, "--log", &kept]);
        assert_eq!(screen.code, 0, "{screen}");
    }
}

#[test]
fn a_proof_that_was_cut_or_edited_is_a_no() {
    let home = TestHome::new();
    let id = ended(&home).id().to_string();
    let root = home.workspace.root().to_hex();
    let text = Place::owner_of(&home).run(&["prove", &id, "1"]).stdout().to_owned();
    let stranger = Place::empty();
    fs::write(stranger.path().join("cut.json"), &text[..text.len() / 2]).unwrap();
    assert_snapshot!(stranger.run(&["verify", "cut.json"]), @r#"
    exit 3
    --- stdout
    root     unknown
    keys     as of log entry 0

      FAIL  CHK_SCHEMA_CONFORMANCE         every line is a valid event in its canonical bytes
      --    CHK_EVENT_HASH_INTEGRITY       every hash is that of the bytes (the proof cannot be read)
      --    CHK_SIGNATURE_VALIDITY         the event and the first of its trace are signed (the proof cannot be read)
      --    CHK_KEY_STATUS                 their keys could sign when they did (the proof cannot be read)
      --    CHK_LOG                        the log has the event, and no key event is left out (the proof cannot be read)
      --    CHK_ROLE_POLICY_CONFORMANCE    the role may record such an event, and the key has it (the proof cannot be read)

    SCHEMA_INVALID
      not a proof: unexpected end of input, expected `"` at line 1 column 8777
      hint: look at the line itself: it is not what a recorder writes

    this does not prove:
      - what came before or after it, or that nothing did
      - that the rest of the trace, or of the log, is intact
      - that it was allowed when it was recorded, beyond its role
      - that the artifacts that it names are there and whole
      - that what it says is true
      - which model acted, or that roles were separate people or processes
      - that its keys were not retired after the log entry given above
      - when it happened, beyond the signer's word and a checkpoint kept elsewhere
      - anything against someone who holds the keys and the disk, since that checkpoint

    not included: 1 failure
    verdict: fail, signer: unpinned

    --- stderr
    "#);
    let forged = text.replacen("a note", "another", 1);
    fs::write(stranger.path().join("forged.json"), forged).unwrap();
    assert_snapshot!(stranger.run(&["verify", "forged.json", "--trust", &root]), @r#"
    exit 3
    --- stdout
    root     ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd, which you trust
    keys     as of log entry 9

      ok    CHK_SCHEMA_CONFORMANCE         every line is a valid event in its canonical bytes
      FAIL  CHK_EVENT_HASH_INTEGRITY       every hash is that of the bytes
      --    CHK_SIGNATURE_VALIDITY         the event and the first of its trace are signed (what comes before it does not hold)
      --    CHK_KEY_STATUS                 their keys could sign when they did (what comes before it does not hold)
      --    CHK_LOG                        the log has the event, and no key event is left out (there is no event to look for)
      --    CHK_ROLE_POLICY_CONFORMANCE    the role may record such an event, and the key has it (what comes before it does not hold)

    HASH_MISMATCH
      the payload hashes to 2105c7dd8a97829a1351d9c4ce84c2a8619110ef92528ed0f9089969edb01550, the event states b9a728a648038fe1a5d4b6b708c7a371aa12f0bf46e25a7ddf6f92df8ab55da7
      hint: compare this event with another copy: it was changed

    this does not prove:
      - what came before or after it, or that nothing did
      - that the rest of the trace, or of the log, is intact
      - that it was allowed when it was recorded, beyond its role
      - that the artifacts that it names are there and whole
      - that what it says is true
      - which model acted, or that roles were separate people or processes
      - that its keys were not retired after the log entry given above
      - when it happened, beyond the signer's word and a checkpoint kept elsewhere
      - anything against someone who holds the keys and the disk, since that checkpoint

    not included: 1 failure
    verdict: fail, signer: pinned

    --- stderr
    "#);
}

#[test]
fn what_cannot_be_proven_is_refused_with_a_way_on() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let _ = recording.submit(note("a note")).unwrap();
    let id = recording.id().to_string();
    assert_snapshot!(place.run(&["prove", &id, "1"]), @r#"
    exit 1
    --- stdout

    --- stderr
    error: the log knows 1 of this trace's events, this is number 2
    hint: the log is told when the trace ends, when a key changes, and every 1,024 events
    "#);
    recording.conclude("done").unwrap();
    assert_snapshot!(place.run(&["prove", &id, "9"]), @r#"
    exit 1
    --- stdout

    --- stderr
    error: the trace has no event `9`; it has 5 events
    hint: run `countersign trace show 01kggtstag494h28jgxgpqnqc9` to see its events
    "#);
    assert_snapshot!(place.run(&["prove", "log", "1"]), @r#"
    exit 2
    --- stdout

    --- stderr
    error: a log is proven by its checkpoint, not event by event
    hint: `countersign compare` says whether a checkpoint and a log fit together
    "#);
    let trace = home.workspace.trace_file(recording.id());
    fs::copy(&trace, place.path().join("events.jsonl")).unwrap();
    assert_snapshot!(place.run(&["prove", "events.jsonl", "1"]), @r#"
    exit 1
    --- stdout

    --- stderr
    error: there is no workspace log, and without it nothing can be proven
    hint: name a trace that lies in a workspace
    "#);
    fs::remove_file(home.path().join("log/checkpoint")).unwrap();
    assert_snapshot!(place.run(&["prove", &id, "1"]), @r#"
    exit 1
    --- stdout

    --- stderr
    error: the log's checkpoint is missing or cannot be read
    hint: the next entry of the log writes its checkpoint anew; `countersign doctor --repair` tells the log what it was not told
    "#);
    let text = fs::read_to_string(&trace).unwrap();
    fs::write(&trace, text.replacen("a note", "another", 1)).unwrap();
    assert_snapshot!(place.run(&["prove", &id, "1"]), @r#"
    exit 3
    --- stdout

    --- stderr
    error: the trace does not verify, so that nothing in it is proven
      HASH_MISMATCH: the payload hashes to c7192fb0ca22934346576331a3cad3fb2c8dffa5c57c7f57ba4ecdaecaa96a47, the event states a5d1ec11425f51785d0764d0f18fa803f1a1f47c4c70998812ead2c8b5e023a1
      SIG_INVALID: the signature of key 74b2e759f10cbb5e749af1a968ed8b8e does not verify
    hint: run `countersign verify 01kggtstag494h28jgxgpqnqc9` to see what is wrong
    "#);
}

/// A workspace whose owner takes the log back and goes on another way.
struct Fork {
    home: TestHome,
    place: Place,
    root: String,
}

/// Files in its place: `early.txt`, `one.txt` and `two.txt` are checkpoints, `one.jsonl` and
/// `two.jsonl` the logs; `one` and `two` are of the same size and differ.
fn fork() -> Fork {
    let home = TestHome::new();
    let place = Place::empty();
    let log = home.path().join("log/events.jsonl");
    let note_file = home.path().join("log/checkpoint");
    let keep = |name: &str| {
        fs::copy(&note_file, place.path().join(format!("{name}.txt"))).unwrap();
        fs::copy(&log, place.path().join(format!("{name}.jsonl"))).unwrap();
    };
    let early = fs::read(&log).unwrap();
    keep("early");
    ended(&home);
    keep("one");
    fs::write(&log, early).unwrap();
    for name in ["checkpoint", "snapshot"] {
        let _ = fs::remove_file(home.path().join("log").join(name));
    }
    home.clock.advance(1_000);
    let workspace = home.reopen();
    let recording = workspace.begin_recording(Some("test-agent"), None).unwrap();
    recording.conclude("done").unwrap();
    keep("two");
    let root = home.workspace.root().to_hex();
    Fork { home, place, root }
}

#[test]
fn what_grew_can_be_true_with_what_it_was() {
    let Fork { home, place, .. } = fork();
    assert_snapshot!(place.run(&["compare", "early.txt", "one.jsonl"]), @r#"
    exit 0
    --- stdout
    a        checkpoint of 7 entries
    b        log of 9 entries
    root     ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd

    agrees   the first 7 entries of `one.jsonl` are those of `early.txt`

    answer: consistent

    --- stderr
    "#);
    assert_snapshot!(place.run(&["compare", "early.txt", "one.txt"]), @r#"
    exit 4
    --- stdout
    a        checkpoint of 7 entries
    b        checkpoint of 9 entries

    unknown  the checkpoint in `early.txt` is of 7 entries: a copy of the log with at least so many would settle it
    unknown  the checkpoint in `one.txt` is of 9 entries: a copy of the log with at least so many would settle it
    unknown  signatures were not checked: no log or proof is at hand that names keys

    answer: incomparable

    --- stderr
    "#);
    let settled = place.run(&["compare", "early.txt", "one.txt", "--log", "one.jsonl"]);
    assert_eq!(settled.code, 0, "{settled}");
    let home = home.path().display().to_string();
    let screen = place.run(&["compare", &home, "two.jsonl", "--json"]);
    assert_eq!((screen.code, &screen.answer()["answer"]), (0, &json!("consistent")));
    let foreign = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/vectors/homes/good");
    let screen = place.run(&["compare", foreign, "two.jsonl", "--json"]);
    assert_eq!((screen.code, &screen.answer()["answer"]), (4, &json!("incomparable")));
}

#[test]
fn a_contradiction_can_be_handed_to_others() {
    let Fork { place, root, .. } = fork();
    let unchecked = place.run(&["compare", "one.txt", "two.txt"]);
    assert_eq!(unchecked.code, 4, "{unchecked}");
    let two = ["compare", "one.txt", "two.txt", "--log", "one.jsonl", "-o", "notes.json"];
    let screen = place.run(&two);
    assert_eq!(screen.code, 3, "{screen}");
    assert!(screen.stdout().ends_with("answer: contradiction\n"), "{screen}");
    let stranger = Place::empty();
    let take = |name: &str| {
        fs::copy(place.path().join(name), stranger.path().join(name)).unwrap();
    };
    take("notes.json");
    let proven = stranger.run(&["verify", "notes.json", "--trust", &root]);
    assert_eq!(proven.code, 0, "{proven}");
    assert!(proven.stdout().ends_with("verdict: equivocation proven, signer: pinned\n"));
    assert_eq!(stranger.run(&["verify", "notes.json"]).code, 4);
    let logs = ["compare", "one.jsonl", "two.jsonl", "-o", "entries.json"];
    let screen = place.run(&logs);
    assert_eq!(screen.code, 3, "{screen}");
    take("entries.json");
    let proven = stranger.run(&["verify", "entries.json", "--trust", &root, "--json"]);
    assert_eq!((proven.code, &proven.answer()["equivocation_status"]), (0, &json!("proven")));
    let text = fs::read_to_string(place.path().join("notes.json")).unwrap();
    let forged = text.replacen("\"checkpoints\"", "\"events\"", 1);
    fs::write(stranger.path().join("forged.json"), forged).unwrap();
    assert_snapshot!(stranger.run(&["verify", "forged.json", "--trust", &root]), @r#"
    exit 3
    --- stdout
    root     ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd, which you trust

    SCHEMA_INVALID
      the first event: not a JSON object: expected a value at line 1 column 1
      hint: look at the log by itself first: run `countersign verify log`

    this does not prove:
      - which of the two is true
      - who held the keys: a stolen key signs as well
      - for two events, that it was meant: after power loss a writer may give a number again

    no equivocation is shown
    verdict: fail, signer: pinned

    --- stderr
    "#);
}

/// Takes the second way of the fork on: `three.txt` and `three.jsonl`, and both as the store `store`.
fn three(fork: &Fork) {
    fork.home.clock.advance(1_000);
    let recording = fork.home.reopen().begin_recording(Some("test-agent"), None).unwrap();
    recording.conclude("done").unwrap();
    let store = fork.place.path().join("store/log");
    fs::create_dir_all(&store).unwrap();
    for (name, kept) in [("checkpoint", "three.txt"), ("events.jsonl", "three.jsonl")] {
        let file = fork.home.path().join("log").join(name);
        fs::copy(&file, fork.place.path().join(kept)).unwrap();
        fs::copy(&file, store.join(name)).unwrap();
    }
}

fn root_of_nine(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap();
    let events = text.lines().take(9).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let hashes: Vec<Hash> =
        events.map(|event| event["event_hash"].as_str().unwrap().parse().unwrap()).collect();
    countersign_format::merkle::root(&hashes).to_hex()
}

#[test]
fn a_checkpoint_that_a_longer_log_does_not_begin_with_can_be_handed_to_others() {
    let fork = fork();
    three(&fork);
    let Fork { place, root, .. } = fork;
    // The ids of the second way are drawn anew each time.
    let parted = root_of_nine(&place.path().join("three.jsonl"));
    let shown = |screen: Screen| screen.to_string().replace(&parted, "(parted)");
    assert_snapshot!(shown(place.run(&["compare", "one.txt", "store", "-o", "prefix.json"])), @r#"
    exit 3
    --- stdout
    a        checkpoint of 9 entries
    b        log of 11 entries
    root     ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd

    agrees   the first 11 entries of `store` are those of `store`
    differs  the first 9 entries of `store` have the root (parted), the checkpoint in `one.txt` has 7e24c480e144e8d8dd8cc81e23bafda9e8549ec8e4c33c14d0f073df2da7b373
    differs  the 11 entries of the checkpoint in `store` do not begin with the 9 of that in `one.txt`; both are signed

    answer: contradiction

    --- stderr
    proof of equivocation in `prefix.json`
    hint: `countersign verify prefix.json` checks it
    "#);
    let stranger = Place::empty();
    fs::copy(place.path().join("prefix.json"), stranger.path().join("prefix.json")).unwrap();
    assert_snapshot!(shown(stranger.run(&["verify", "prefix.json", "--trust", &root])), @r#"
    exit 0
    --- stdout
    root     ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd, which you trust
    key      74b2e759f10cbb5e749af1a968ed8b8e

    this does not prove:
      - which of the two is true
      - who held the keys: a stolen key signs as well
      - for two events, that it was meant: after power loss a writer may give a number again

    a checkpoint of 9 entries with the root 7e24c480e144e8d8dd8cc81e23bafda9e8549ec8e4c33c14d0f073df2da7b373, and one of 11 entries, of which the first 9 have the root (parted)
    verdict: equivocation proven, signer: pinned

    --- stderr
    "#);
    // A ledger has no checkpoint beside it, but one may be given.
    assert_snapshot!(shown(place.run(&["compare", "one.txt", "three.jsonl", "-o", "none.json"])), @r#"
    exit 3
    --- stdout
    a        checkpoint of 9 entries
    b        log of 11 entries
    root     ce936d56edf2b82497abbfaa599ce74654cb4897746aaea03de0d5182cd4b5cd

    differs  the first 9 entries of `three.jsonl` have the root (parted), the checkpoint in `one.txt` has 7e24c480e144e8d8dd8cc81e23bafda9e8549ec8e4c33c14d0f073df2da7b373

    answer: contradiction

    --- stderr
    warning: nothing was written to `none.json`
    hint: to show it to others takes a signed checkpoint of `three.jsonl` itself, of at least 9 entries, which `--log` may name
    "#);
    assert!(!place.path().join("none.json").exists());
    for two in [["three.jsonl", "three.txt"], ["three.txt", "three.jsonl"]] {
        let [other, log] = two;
        let file = format!("{other}.json");
        let screen = place.run(&["compare", "one.txt", other, "--log", log, "-o", &file]);
        assert_eq!(screen.code, 3, "{screen}");
        let proven = place.run(&["verify", &file, "--trust", &root]);
        assert_eq!(proven.code, 0, "{proven}");
    }
    let grown = place.run(&["compare", "two.txt", "three.txt", "--log", "three.jsonl"]);
    assert_eq!(grown.code, 0, "{grown}");
}

#[test]
fn a_file_that_is_there_is_replaced_only_by_force_whatever_writes_it() {
    let home = TestHome::new();
    let owner = Place::owner_of(&home);
    let id = ended(&home).id().to_string();
    let kept = owner.path().join("kept");
    let log = home.path().join("log/events.jsonl").display().to_string();
    for command in [
        vec!["prove", &id, "1", "-o", "kept"],
        vec!["compare", &log, &log, "-o", "kept"],
        vec!["seal", &id, "-o", "kept"],
        vec!["report", "-o", "kept"],
    ] {
        fs::write(&kept, "mine").unwrap();
        let refused = owner.run(&command);
        assert_eq!(refused.code, 1, "{refused}");
        assert!(refused.stderr.starts_with("error: `kept` is there already\n"), "{refused}");
        let hint = "hint: name another file with `-o`, or replace it with `--force`\n";
        assert!(refused.stderr.ends_with(hint), "{refused}");
        assert_eq!(fs::read(&kept).unwrap(), b"mine");
        let forced: Vec<_> = command.iter().copied().chain(["--force"]).collect();
        let forced = owner.run(&forced);
        assert_ne!(forced.code, 1, "{forced}");
        // Two accounts that agree leave nothing to be written.
        assert_eq!(fs::read(&kept).unwrap() == b"mine", command[0] == "compare", "{forced}");
    }
}

#[test]
fn a_place_where_no_file_can_go_is_named() {
    let home = TestHome::new();
    let owner = Place::owner_of(&home);
    let id = ended(&home).id().to_string();
    for command in [["prove", &id, "1"].as_slice(), &["seal", &id], &["report"]] {
        let into: Vec<_> = command.iter().copied().chain(["-o", "config", "--force"]).collect();
        fs::create_dir_all(owner.path().join("config")).unwrap();
        let refused = owner.run(&into);
        assert_eq!(refused.code, 1, "{refused}");
        assert!(refused.stderr.contains("error: `config` is a directory\n"), "{refused}");
        assert!(!refused.stderr.contains("--force"), "{refused}");
    }
    let nowhere = owner.run(&["seal", &id, "-o", "no/such/place.cap"]);
    assert_eq!(nowhere.code, 1, "{nowhere}");
    assert!(nowhere.stderr.contains("no/such/place.cap"), "{nowhere}");
}

#[test]
fn a_checkpoint_agrees_with_itself() {
    let home = TestHome::new();
    let owner = Place::owner_of(&home);
    let _ = ended(&home);
    let checkpoint = home.path().join("log/checkpoint").display().to_string();
    let compared = owner.run(&["compare", &checkpoint, &checkpoint]);
    assert_eq!(compared.code, 0, "{compared}");
    assert!(compared.stdout().contains("answer: consistent"), "{compared}");
}
