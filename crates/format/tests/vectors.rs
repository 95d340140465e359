//! The published vectors of events, signatures, trees and notes, read by us and by the independent
//! reader, which also has to find what is wrong with broken workspaces.

#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "vectors lie in files, and a script is asked")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use countersign_format::event::{Reading, check_event_bytes};
use countersign_format::hash::{Hash, hex, unhex};
use countersign_format::key::{PreparedKey, PublicKey, SecretKey, Signature};
use countersign_format::merkle;
use countersign_format::note::{Checkpoint, NoteKey, SignedNote};
use countersign_format::report::FailureCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn vectors() -> PathBuf {
    repository().join("docs/formats/vectors")
}

fn vector(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(vectors().join(name)).unwrap()).unwrap()
}

fn list<'v>(vector: &'v Value, member: &str) -> &'v Vec<Value> {
    let list = vector[member].as_array().unwrap();
    assert!(!list.is_empty());
    list
}

fn get<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn seed(value: &Value) -> SecretKey {
    SecretKey::from_seed(&unhex(value.as_str().unwrap()).unwrap().try_into().unwrap())
}

#[test]
fn events_have_the_published_hashes_and_signed_bytes() {
    let vector = vector("event.json");
    let secret = seed(&vector["seed_hex"]);
    assert_eq!(secret.public_key(), get(&vector["public_key"]));
    assert_eq!(secret.public_key().key_id().to_string(), vector["key_id"]);
    for case in list(&vector, "events") {
        let reading = Reading::of(case["line"].as_str().unwrap().as_bytes()).unwrap();
        assert!(reading.fault.is_none());
        assert_eq!(reading.event_hash.to_hex(), case["event_hash"]);
        assert_eq!(reading.payload_hash.unwrap().to_hex(), case["payload_hash"]);
        assert_eq!(hex(&reading.signed_bytes), case["signed_bytes_hex"]);
        assert_eq!(
            String::from_utf8_lossy(&reading.signed_bytes),
            get::<String>(&case["signed_bytes"])
        );
        assert_eq!(Hash::of(&reading.signed_bytes).to_hex(), case["signed_bytes_hash"]);
        assert_eq!(secret.sign(&reading.signed_bytes).to_string(), case["signature_b64"]);
        let event = reading.event().unwrap();
        assert_eq!(event.event_hash, reading.event_hash);
        assert_eq!(event.signature["signature_b64"], case["signature_b64"]);
    }
}

#[test]
fn tampered_events_get_the_published_codes() {
    let vector = vector("event.json");
    let key: PublicKey = get(&vector["public_key"]);
    for case in list(&vector, "tampered") {
        let reading = Reading::of(case["line"].as_str().unwrap().as_bytes()).unwrap();
        let stored = |name: &str| reading.value[name].as_str().unwrap().to_owned();
        let mut codes = Vec::new();
        if stored("event_hash") != reading.event_hash.to_hex()
            || stored("payload_hash") != reading.payload_hash.unwrap().to_hex()
        {
            codes.push("HASH_MISMATCH");
        }
        let signature: Signature = get(&reading.value["signature"]["signature_b64"]);
        let digest = Hash::of(&reading.signed_bytes).to_hex();
        if key.verify(&reading.signed_bytes, &signature).is_err()
            || reading.value["signature"]["signed_bytes_hash"] != digest
        {
            codes.push("SIG_INVALID");
        }
        assert_eq!(serde_json::json!(codes), case["codes"], "{}", case["changed"]);
    }
}

#[test]
fn malformed_events_are_faulty_at_the_published_places() {
    let vector = vector("malformed-events.json");
    for case in list(&vector, "cases") {
        let faults = check_event_bytes(case["line"].as_str().unwrap().as_bytes());
        let mut found: Vec<_> = faults.into_iter().map(|fault| fault.pointer).collect();
        found.sort();
        found.dedup();
        assert_eq!(found, get::<Vec<String>>(&case["pointers"]), "{}", case["name"]);
    }
}

#[test]
fn only_strict_signatures_verify() {
    let vector = vector("ed25519.json");
    for case in list(&vector, "cases") {
        let bytes = |name: &str| unhex(case[name].as_str().unwrap()).unwrap();
        let key = PublicKey::from_bytes(&bytes("public_key_hex").try_into().unwrap());
        let signature = Signature::from_bytes(bytes("signature_hex").try_into().unwrap());
        let message = bytes("message_hex");
        let valid = key.is_ok_and(|key| {
            let valid = key.verify(&message, &signature).is_ok();
            let prepared = PreparedKey::new(key).verify(&message, &signature).is_ok();
            assert_eq!(prepared, valid, "{}", case["name"]);
            valid
        });
        assert_eq!(valid, case["valid"].as_bool().unwrap(), "{}", case["name"]);
    }
}

#[test]
fn trees_and_proofs_are_the_published_ones() {
    let vector = vector("merkle.json");
    let leaves: Vec<Hash> = get(&vector["leaves"]);
    let roots: Vec<Hash> = get(&vector["roots"]);
    for (size, root) in roots.iter().enumerate() {
        assert_eq!(merkle::root(&leaves[..size]), *root);
    }
    let number = |value: &Value| value.as_u64().unwrap();
    let root = |value: &Value| roots[usize::try_from(number(value)).unwrap()];
    for case in list(&vector, "inclusion") {
        let (index, size) = (number(&case["index"]), number(&case["size"]));
        let proof: Vec<Hash> = get(&case["proof"]);
        assert_eq!(merkle::inclusion_proof(&leaves, index, size), Ok(proof.clone()));
        let leaf = leaves[usize::try_from(index).unwrap()];
        assert_eq!(
            merkle::verify_inclusion(&leaf, index, size, &proof, &root(&case["size"])),
            Ok(())
        );
    }
    for case in list(&vector, "consistency") {
        let (old, new) = (number(&case["old_size"]), number(&case["new_size"]));
        let proof: Vec<Hash> = get(&case["proof"]);
        assert_eq!(merkle::consistency_proof(&leaves, old, new), Ok(proof.clone()));
        let (old_root, new_root) = (root(&case["old_size"]), root(&case["new_size"]));
        assert_eq!(merkle::verify_consistency(old, &old_root, new, &new_root, &proof), Ok(()));
    }
    for case in list(&vector, "bad_inclusion") {
        let (index, size) = (number(&case["index"]), number(&case["size"]));
        let proof: Vec<Hash> = get(&case["proof"]);
        let (leaf, root) = (get(&case["leaf"]), get(&case["root"]));
        assert!(merkle::verify_inclusion(&leaf, index, size, &proof, &root).is_err(), "{case}");
    }
    for case in list(&vector, "bad_consistency") {
        let (old, new) = (number(&case["old_size"]), number(&case["new_size"]));
        let proof: Vec<Hash> = get(&case["proof"]);
        let (old_root, new_root) = (get(&case["old_root"]), get(&case["new_root"]));
        let outcome = merkle::verify_consistency(old, &old_root, new, &new_root, &proof);
        assert!(outcome.is_err(), "{case}");
    }
}

#[test]
fn the_published_checkpoint_opens_and_its_twins_do_not() {
    let vector = vector("checkpoint.json");
    let key: NoteKey = vector["verifier_key"].as_str().unwrap().parse().unwrap();
    let open = |note: &[u8]| {
        let note = SignedNote::parse(note)?;
        Checkpoint::open(&note, std::slice::from_ref(&key))
    };
    let note = std::fs::read(vectors().join("checkpoint.txt")).unwrap();
    assert_eq!(String::from_utf8_lossy(&note), get::<String>(&vector["note"]));
    let checkpoint = open(&note).unwrap();
    assert_eq!(checkpoint.to_string(), vector["signed_text"].as_str().unwrap());
    assert_eq!((checkpoint.size, checkpoint.root), (get(&vector["size"]), get(&vector["root"])));
    let signed = checkpoint.sign(&seed(&vector["recorder_seed_hex"])).unwrap();
    assert_eq!(signed.to_string().into_bytes(), note);
    assert_eq!(open(vector["with_a_witness"].as_str().unwrap().as_bytes()), Ok(checkpoint));
    for case in list(&vector, "refused") {
        assert!(open(case["note"].as_str().unwrap().as_bytes()).is_err(), "{}", case["name"]);
    }
}

/// Runs the independent reader.
fn reader(arguments: &[&Path]) -> Output {
    let python: OsString =
        std::env::var_os("COUNTERSIGN_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    Command::new(python)
        .arg(repository().join("tests/independent/reader.py"))
        .args(arguments)
        .output()
        .expect("this test needs `python3` with `cryptography`")
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn the_independent_reader_agrees_with_every_vector() {
    let output = reader(&[Path::new("--vectors"), &vectors()]);
    assert!(output.status.success(), "{}", says(&output));
    assert_eq!(says(&output).lines().count(), 6, "{}", says(&output));
}

fn good_home() -> PathBuf {
    vectors().join("homes/good")
}

/// The two traces of the good workspace.
const RECORDING: &str = "01kg9ysh8g0000000000000002";
const SESSION: &str = "01kg9ysm680000000000000003";

#[test]
fn the_independent_reader_names_every_ledger_with_its_size_and_head() {
    let output = reader(&[&good_home()]);
    assert!(output.status.success(), "{}", says(&output));
    let said = says(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("ok log 15 "), "{said}");
    for (line, (trace_id, events)) in lines[1..].iter().zip([(RECORDING, 8), (SESSION, 5)]) {
        let path = good_home().join(format!("traces/{trace_id}/events.jsonl"));
        let ledger = std::fs::read_to_string(path).unwrap();
        let last: Value = serde_json::from_str(ledger.lines().last().unwrap()).unwrap();
        let head = last["event_hash"].as_str().unwrap();
        assert_eq!(*line, format!("ok {trace_id} {events} {head}"));
    }
    let one = reader(&[&good_home(), Path::new(SESSION)]);
    assert_eq!(says(&one).lines().count(), 2);
}

/// A copy of the good workspace that a test may break.
struct Copy {
    home: PathBuf,
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy_all(&path, &to);
        } else {
            std::fs::copy(path, to).unwrap();
        }
    }
}

impl Copy {
    fn new(name: &str) -> Self {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("home-{name}"));
        let _ = std::fs::remove_dir_all(&home);
        copy_all(&good_home(), &home);
        Self { home }
    }

    fn edit(&self, file: &str, change: impl FnOnce(String) -> String) {
        let path = self.home.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let changed = change(text.clone());
        assert_ne!(changed, text, "{file} was not changed");
        std::fs::write(path, changed).unwrap();
    }

    fn is_bad(&self, because: &str) {
        let output = reader(&[&self.home]);
        let said = says(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap();
        assert!(last.starts_with("bad ") && last.contains(because), "{said}");
    }
}

#[test]
fn the_independent_reader_finds_what_was_done_to_a_workspace() {
    type Change = fn(String) -> String;
    let session = format!("traces/{SESSION}/events.jsonl");
    let cases: [(&str, &str, Change, &str); 8] = [
        ("payload", &session, |text| text.replacen("approved", "rejected", 1), "payload_hash"),
        ("time", &session, |text| text.replacen("12:00:15.000Z", "12:00:15.001Z", 1), "event_hash"),
        ("space", &session, |text| text.replacen(",\"claims\":", ", \"claims\":", 1), "canonical"),
        ("order", &session, swap_first_lines, "does not follow"),
        (
            "cut",
            &session,
            |text| text.lines().take(4).map(|line| format!("{line}\n")).collect(),
            "knows 5",
        ),
        (
            "log-cut",
            "log/events.jsonl",
            |text| text.lines().take(14).map(|line| format!("{line}\n")).collect(),
            "longer log",
        ),
        ("note", "log/checkpoint", |text| text.replacen("\n15\n", "\n14\n", 1), "bad signature"),
        (
            "log-time",
            "log/events.jsonl",
            |text| text.replacen("12:00:34", "12:00:35", 1),
            "event_hash",
        ),
    ];
    for (name, file, change, because) in cases {
        let copy = Copy::new(name);
        copy.edit(file, change);
        copy.is_bad(because);
    }
}

fn swap_first_lines(text: String) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(0, 1);
    lines.into_iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_independent_reader_misses_a_trace_that_the_log_knows() {
    let copy = Copy::new("missing");
    std::fs::remove_dir_all(copy.home.join("traces").join(SESSION)).unwrap();
    copy.is_bad("not there");
}

#[test]
fn the_independent_reader_takes_a_torn_tail_for_no_event() {
    let copy = Copy::new("torn");
    copy.edit(&format!("traces/{SESSION}/events.jsonl"), |text| text + "{\"actor\":{\"age");
    assert!(reader(&[&copy.home]).status.success());
    copy.edit(&format!("traces/{SESSION}/events.jsonl"), |text| text + "\n");
    copy.is_bad("event 5");
}

#[test]
fn the_independent_reader_warns_of_a_torn_checkpoint_and_goes_on() {
    let copy = Copy::new("torn-checkpoint");
    copy.edit("log/checkpoint", |text| text[..100].to_owned());
    let output = reader(&[&copy.home]);
    assert!(output.status.success(), "{}", says(&output));
    let (warnings, others): (Vec<_>, Vec<_>) =
        says(&output).lines().map(str::to_owned).partition(|line| line.starts_with("warning "));
    assert_eq!((warnings.len(), others.len()), (3, 3), "{}", says(&output));
    assert!(warnings.iter().all(|line| line.contains(" CHECKPOINT_UNREADABLE ")));
    copy.edit("log/checkpoint", |_| String::new());
    assert_eq!(says(&reader(&[&copy.home])).lines().count(), 3, "an empty file is none");
}

#[test]
fn every_ledger_of_every_workspace_has_its_codes() {
    let expected = vector("homes/expected.json");
    let directories = std::fs::read_dir(vectors().join("homes")).unwrap();
    let directories = directories.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(directories, expected.as_object().unwrap().len());
    let page = std::fs::read_to_string(repository().join("docs/formats/report.md")).unwrap();
    for (home, ledgers) in expected.as_object().unwrap() {
        let ledgers = ledgers.as_object().unwrap();
        let names: Vec<&str> = ledgers.keys().map(String::as_str).collect();
        assert_eq!(names, [RECORDING, SESSION, "log"], "{home}");
        for codes in ledgers.values() {
            for failure in get::<Vec<String>>(&codes["failures"]) {
                assert!(FailureCode::NAMES.contains(&failure.as_str()), "{home}: {failure}");
            }
            for warning in get::<Vec<String>>(&codes["warnings"]) {
                assert!(page.contains(&format!("| `{warning}` |")), "{home}: {warning}");
            }
        }
    }
}

#[test]
fn the_pages_show_the_values_of_the_vectors() {
    let page =
        |name: &str| std::fs::read_to_string(repository().join("docs/formats").join(name)).unwrap();
    let events = vector("event.json");
    let first = &list(&events, "events")[0];
    for member in ["signed_bytes", "signed_bytes_hash", "signature_b64", "event_hash"] {
        assert!(page("event.md").contains(first[member].as_str().unwrap()), "{member}");
    }
    let checkpoint = vector("checkpoint.json");
    for member in ["note", "verifier_key"] {
        let value = checkpoint[member].as_str().unwrap();
        assert!(page("log-and-checkpoint.md").contains(value), "{member}");
    }
}
