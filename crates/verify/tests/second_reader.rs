//! The second reader, in JavaScript: it gives the published codes in Node and in a browser, a
//! weakened copy of it does not, and it agrees with the first one on homes that were tampered with.

#![cfg(test)]

#[path = "second_reader/mutate.rs"]
mod mutate;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_format::hash::Hash;
use countersign_format::key::SecretKey;
use countersign_protocol::recording::RecordingCommand;
use countersign_testkit::second_reader::{
    Inquiry, SecondReader, Subject, agreement, difference, first_report, node, repository,
};
use countersign_testkit::session::SEPARATE;
use countersign_testkit::{SessionStory, TestHome, note};
use countersign_verify::Profile;
use mutate::{Dice, Original};
use serde_json::{Value, json};

/// Homes that are compared for each story.
const MUTATIONS: usize = 150;
/// Small changes of one session that are compared.
const SMALL_CHANGES: usize = 1_000;

/// The codes of the published workspaces, without those that only rules give.
fn expected_homes() -> Value {
    let path = repository().join("docs/formats/vectors/homes/expected.json");
    let mut expected: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    // Neither what an audit says of its report nor when one may begin is looked at by the second
    // reader.
    for (home, code) in
        [("false-verdict", "ROLE_POLICY_VIOLATION"), ("foreign-role", "SCHEMA_INVALID")]
    {
        for ledger in expected[home].as_object_mut().unwrap().values_mut() {
            ledger["failures"].as_array_mut().unwrap().retain(|it| it != code);
        }
    }
    expected
}

/// What was found by a run of the vectors.
fn parse(output: std::process::Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The vectors, read in Node by the verifier that lies at `verifier`.
fn in_node(verifier: &Path) -> Value {
    let script = repository().join("tests/browser/node.mjs");
    let run = node().arg(script).arg(repository()).arg(verifier).output();
    parse(run.expect("this test needs `node`, version 20 or newer"))
}

fn all_agree(found: &Value) {
    assert_eq!(found.get("error"), None);
    assert_eq!(found["disagreements"], json!([]));
    let counts = found["counts"].as_object().unwrap();
    let mut groups: Vec<&str> = counts.keys().map(String::as_str).collect();
    groups.sort_unstable();
    let wanted = ["canonical", "checkpoint", "ed25519", "events", "hostile", "malformed", "merkle"];
    assert_eq!(groups, wanted);
    assert_eq!(found["homes"], expected_homes());
}

fn verifier() -> PathBuf {
    repository().join("web/verifier")
}

#[test]
fn the_second_reader_agrees_with_every_vector_in_node() {
    all_agree(&in_node(&verifier()));
}

#[test]
fn the_second_reader_agrees_with_every_vector_in_a_browser() {
    let browser: OsString =
        std::env::var_os("COUNTERSIGN_TEST_BROWSER").unwrap_or_else(|| "chromium".into());
    let profile = tempfile::tempdir().unwrap();
    let script = repository().join("tests/browser/serve.mjs");
    let run = node().arg(script).arg(repository()).arg(browser).arg(profile.path()).output();
    all_agree(&parse(run.expect("this test needs `node` and `chromium`")));
}

/// A copy of the verifier in which `old`, which stands in `file` once, is `new`.
fn weakened(file: &str, old: &str, new: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(verifier()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let text = fs::read_to_string(copy.path().join(file)).unwrap();
    assert_eq!(text.matches(old).count(), 1, "{file}: {old}");
    fs::write(copy.path().join(file), text.replace(old, new)).unwrap();
    copy
}

/// The vectors see what they are there to see: each weakness disagrees with some of them.
#[test]
fn a_weakened_copy_is_caught_by_the_vectors() {
    let weaknesses = [
        ("ed25519.mjs", "return y < P && !isSmall(y);", "return y < P;", "ed25519"),
        ("ed25519.mjs", "return y < P && !isSmall(y);", "return !isSmall(y);", "ed25519"),
        ("json.mjs", "if (value.has(key)) throw", "if (false) throw", "canonical"),
        ("json.mjs", "if (last !== null && !(last < key))", "if (false)", "canonical"),
        ("forms.mjs", "text.normalize('NFC') === text", "true", "malformed"),
        ("merkle.mjs", "return b === 0n ? [x, y] : null;", "return [x, y];", "merkle"),
        ("note.mjs", "if (!await key.verify(", "if (void (", "checkpoint"),
        ("event.mjs", ", computed)),", ")),", "events"),
        ("keys.mjs", "if (why !== null) return", "if (false) return", "homes"),
        ("verify.mjs", "if (longest > walk.index && !explained)", "if (false)", "homes"),
        ("artifacts.mjs", "if (stale) {", "if (false) {", "homes"),
        ("receipts.mjs", "if (action.get(name) !== wanted) differs", "if (false) differs", "homes"),
        ("receipts.mjs", ".padStart(2, '0')", "", "homes"),
    ];
    for (file, old, new, group) in weaknesses {
        let found = in_node(weakened(file, old, new).path());
        let caught = match group {
            "homes" => found["homes"] != expected_homes(),
            group => found["disagreements"]
                .as_array()
                .unwrap()
                .iter()
                .any(|it| it.as_str().unwrap().starts_with(group)),
        };
        assert!(caught, "{file} without `{old}` passes the vectors of {group}");
    }
}

/// Compares both readers on homes with one thing done to each. The home itself comes first.
fn agree(home: &Path, trace_id: &str, root: Hash, keys: Vec<SecretKey>) {
    let mut second = SecondReader::start();
    let inquiry = |ledger: &str, profile| {
        let (home, ledger) = (home.to_owned(), ledger.to_owned());
        Inquiry { subject: Subject::InHome { home, ledger, root }, profile, expected: None }
    };
    for ledger in [trace_id, "log"] {
        let found = difference(&mut second, &inquiry(ledger, Profile::DEFAULT));
        assert_eq!(found, None, "{ledger} as it was written");
    }
    let whole = first_report(&inquiry(trace_id, Profile::DEFAULT));
    let expected = whole.head.map(|head| (head, whole.metrics.events));
    let original = Original::read(home, trace_id, keys);
    let mut dice = Dice(4);
    let mut differences = Vec::new();
    for round in 0..MUTATIONS {
        let (how, path) = original.tamper(home, &mut dice);
        let profiles = [Profile::DEFAULT, Profile::STRICT, Profile::LENIENT];
        let ledgers =
            if path.starts_with("log") { &[trace_id, "log"][..] } else { &[trace_id][..] };
        for ledger in ledgers {
            let mut inquiry = inquiry(ledger, profiles[round % 3]);
            // What the reader expects of a trace is asked of every other copy.
            inquiry.expected = expected.filter(|_| round % 2 == 0 && *ledger != "log");
            let found = difference(&mut second, &inquiry);
            differences.extend(found.into_iter().map(|it| format!("{ledger}: {how}:\n{it}")));
        }
        original.restore(home, &path);
    }
    assert!(differences.is_empty(), "{}\n{}", differences.join("\n"), differences.len());
}

#[test]
fn both_readers_agree_on_a_recording_that_was_tampered_with() {
    let home = TestHome::new();
    let other = home.recording();
    other.submit(note("of another trace")).unwrap();
    let recording = home.recording();
    let evidence = recording.put_artifact("naïve".as_bytes(), "text/plain").unwrap();
    let artifacts = vec![evidence];
    let purpose = "evidence ✓".to_owned();
    recording.submit(RecordingCommand::RecordArtifact { purpose, artifacts }).unwrap();
    recording.submit(note("before the keys change")).unwrap();
    home.clock.advance(1_500);
    let recorder = home.workspace.find_key("recorder").unwrap();
    home.workspace.rotate_key(&recorder.key_id).unwrap();
    recording.submit(note("after the keys changed")).unwrap();
    recording.conclude("done").unwrap();
    agree(&home.path(), &recording.id().to_string(), home.workspace.root(), Vec::new());
}

#[test]
fn both_readers_agree_on_a_session_that_was_tampered_with() {
    let story = SessionStory::whole();
    let dir = tempfile::tempdir().unwrap();
    story.write_to(dir.path());
    let seeds = SEPARATE.iter().map(|(_, seed, _)| *seed).chain([1]);
    let keys = seeds.map(|seed| SecretKey::from_seed(&[seed; 32])).collect();
    agree(dir.path(), &story.id().to_string(), story.fingerprint(), keys);
}

#[test]
fn both_readers_agree_on_a_thousand_small_changes_of_a_closed_session() {
    let found = agreement(4, SMALL_CHANGES, || false);
    assert_eq!(found.tried.values().sum::<usize>(), SMALL_CHANGES);
    assert_eq!(found.disagreements, Vec::<String>::new());
}

/// What schema 1.0 asks for and is not there breaks its schema, by rules that are not replayed.
const BY_RULES_OF_1_0: [&str; 2] = ["two-roles", "nothing-stored"];

#[test]
fn both_readers_agree_on_the_published_sessions_of_schema_1_0() {
    let vectors = repository().join("docs/formats/vectors/traces-1.0");
    let expected = fs::read(vectors.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let mut second = SecondReader::start();
    for name in expected.as_object().unwrap().keys() {
        let trace = vectors.join("traces").join(name);
        let own = |name: &str| if trace.join(name).exists() { &trace } else { &vectors };
        let (keys, store) = (own("keys.json").join("keys.json"), own("artifacts").clone());
        let subject = Subject::Apart { trace: trace.clone(), keys, store };
        for profile in [Profile::DEFAULT, Profile::STRICT, Profile::LENIENT] {
            let inquiry = Inquiry { subject: subject.clone(), profile, expected: None };
            let found = difference(&mut second, &inquiry);
            let by_rules = BY_RULES_OF_1_0.contains(&name.as_str());
            assert_eq!(found.is_some(), by_rules, "{name}: {}", found.unwrap_or_default());
        }
    }
}

/// What both readers say of keys, for each profile: codes, and signatures that count.
fn said_of_keys(subject: &Subject) -> Vec<(Vec<String>, u64)> {
    let mut second = SecondReader::start();
    let mut said = Vec::new();
    for profile in [Profile::STRICT, Profile::DEFAULT, Profile::LENIENT] {
        let inquiry = Inquiry { subject: subject.clone(), profile, expected: None };
        assert_eq!(difference(&mut second, &inquiry), None, "{}", profile.name);
        let report = first_report(&inquiry);
        let failures = report.failures.iter().map(|it| it.failure_code.to_string());
        let warnings = report.warnings.iter().map(|it| it.warning_code.clone());
        said.push((failures.chain(warnings).collect(), report.metrics.signatures_verified));
    }
    said
}

fn codes(codes: &[&str]) -> Vec<String> {
    codes.iter().map(|&code| code.to_owned()).collect()
}

#[test]
fn both_readers_doubt_what_a_compromised_key_signed_before() {
    for (reason, doubted) in [
        ("compromised: seen elsewhere", true),
        ("\u{85} COMPROMISE", true),
        ("lost, not compromised", false),
        ("comprom\u{131}se", false),
    ] {
        let home = TestHome::new();
        let recording = home.recording();
        recording.submit(note("before")).unwrap();
        recording.conclude("done").unwrap();
        let recorder = home.workspace.find_key("recorder").unwrap();
        home.workspace.revoke_key(&recorder.key_id, reason).unwrap();
        let subject = Subject::InHome {
            home: home.path(),
            ledger: recording.id().to_string(),
            root: home.workspace.root(),
        };
        let whole = first_report(&Inquiry {
            subject: subject.clone(),
            profile: Profile::DEFAULT,
            expected: None,
        });
        let events = whole.metrics.events;
        let wanted = if doubted {
            let warned = (codes(&["KEY_COMPROMISED"]), events);
            vec![(codes(&["SIG_INVALID"]), 0), warned.clone(), warned]
        } else {
            vec![(Vec::new(), events); 3]
        };
        assert_eq!(said_of_keys(&subject), wanted, "{reason}");
    }
}

#[test]
fn both_readers_take_the_reason_of_a_revocation_from_a_file_of_keys() {
    let vectors = repository().join("docs/formats/vectors/traces-1.0");
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys.json");
    let mut records: Value =
        serde_json::from_slice(&fs::read(vectors.join("keys.json")).unwrap()).unwrap();
    for record in records.as_array_mut().unwrap() {
        record["status"] = json!("revoked");
        record["revoked_at"] = json!("2100-01-01T00:00:00.000Z");
    }
    records[0]["revoked_reason"] = json!(" Compromise suspected");
    let signed_by = records[0]["key_id"].clone();
    fs::write(&keys, records.to_string()).unwrap();
    let trace = vectors.join("traces/whole");
    let ledger = fs::read_to_string(trace.join("events.jsonl")).unwrap();
    let events: Vec<Value> =
        ledger.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let own = events.iter().filter(|event| event["actor"]["key_id"] == signed_by).count();
    let (all, own) = (u64::try_from(events.len()).unwrap(), u64::try_from(own).unwrap());
    assert!(own > 1);
    let subject = Subject::Apart { trace, keys, store: vectors };
    let said = said_of_keys(&subject);
    let warned = (codes(&["KEY_COMPROMISED"]), all);
    assert_eq!(said, [(codes(&["SIG_INVALID"]), all - own), warned.clone(), warned]);
}
