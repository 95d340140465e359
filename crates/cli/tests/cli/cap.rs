//! `countersign seal`, `cap show`, and `verify` of sealed files.

#[path = "../../../verify/tests/cap/archive.rs"]
#[expect(dead_code, reason = "the verifier's own tests use the rest")]
pub(crate) mod archive;
#[path = "../../../verify/tests/cap/table.rs"]
mod table;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use countersign_format::cap::{CapManifest, CapMember};
use countersign_format::hash::Hash;
use countersign_testkit::{TestHome, note};
use serde_json::Value;

use self::archive::{Members, member, members, sealed};
use crate::binary::{Screen, run_with};
use crate::place::Place;

const INTEROP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/interop");

#[test]
fn a_recording_is_sealed_and_handed_to_a_stranger() {
    let home = TestHome::new();
    let owner = Place::owner_of(&home);
    let recording = home.recording();
    let _ = recording.submit(note("a note")).unwrap();
    let id = recording.id().to_string();
    // It is open: it is concluded first, and that is said.
    let sealed = owner.run(&["seal", &id, "-o", "one.cap"]);
    assert_eq!(sealed.code, 0, "{sealed}");
    assert!(sealed.stderr.contains("is still open: it is concluded first"), "{sealed}");
    let file = owner.path().join("one.cap");
    let bytes = fs::read(&file).unwrap();
    // Again: the same bytes, and nothing is replaced.
    let again = owner.run(&["seal", &id, "-o", "one.cap"]);
    assert_eq!(again.code, 0, "{again}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
    fs::write(&file, b"something else").unwrap();
    let refused = owner.run(&["seal", &id, "-o", "one.cap"]);
    assert_eq!(refused.code, 1, "{refused}");
    assert_eq!(fs::read(&file).unwrap(), b"something else");
    let forced = owner.run(&["seal", &id, "-o", "one.cap", "--force", "--json"]);
    assert_eq!(forced.code, 0, "{forced}");
    let answer: Value = serde_json::from_slice(&forced.stdout).unwrap();
    assert_eq!(answer["bytes"], bytes.len());
    assert_eq!(fs::read(&file).unwrap(), bytes);

    let stranger = Place::empty();
    fs::write(stranger.path().join("one.cap"), &bytes).unwrap();
    fs::write(stranger.path().join("nameless"), &bytes).unwrap();
    let root = home.workspace.root().to_hex();
    for name in ["one.cap", "nameless"] {
        assert_eq!(stranger.run(&["verify", name]).code, 4);
        let trusted = stranger.run(&["verify", name, "--trust", &root]);
        assert_eq!(trusted.code, 0, "{trusted}");
        assert!(trusted.stdout().starts_with("file     sealed by Countersign"), "{trusted}");
    }
    let wrong = stranger.run(&["verify", "one.cap", "--trust", &root, "--expect-count", "99"]);
    assert_eq!(wrong.code, 3, "{wrong}");
    let shown = stranger.run(&["cap", "show", "one.cap"]);
    assert_eq!(shown.code, 0, "{shown}");
    for words in ["sealed by  countersign", &format!("trace      {id}"), "trace/events.jsonl"] {
        assert!(shown.stdout().contains(words), "{shown}");
    }
}

#[test]
fn files_of_capseal_are_told_apart() {
    let place = Place::empty();
    let good = format!("{INTEROP}/gated.cap");
    let verified = place.run(&["verify", &good]);
    assert_eq!(verified.code, 4, "{verified}");
    assert!(verified.stdout().contains("anyone could have written them"), "{verified}");
    let shown = place.run(&["cap", "show", &good, "--json"]);
    let answer: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(answer["actions_count"], 10);
    assert_eq!(answer["actions"][1]["gate_decision"], "skip");
    let mut attacks = 0;
    for entry in fs::read_dir(format!("{INTEROP}/attacks")).unwrap() {
        let path = entry.unwrap().path();
        let refused = place.run(&["verify", path.to_str().unwrap(), "--json"]);
        assert_eq!(refused.code, 3, "{refused}");
        let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
        assert_eq!(report["verification_status"], "fail");
        attacks += 1;
    }
    assert_eq!(attacks, 9);
    let usage = place.run(&["verify", &good, "--expect-count", "10"]);
    assert_eq!(usage.code, 2, "{usage}");
}

#[test]
fn names_of_members_are_escaped() {
    let place = Place::empty();
    fs::write(place.path().join("x.cap"), b"no archive").unwrap();
    let refused = place.run(&["cap", "show", "x.cap"]);
    assert_eq!(refused.code, 3, "{refused}");
    assert!(refused.stderr.contains("not a gzip file"), "{refused}");
    assert_eq!(place.run(&["verify", "x.cap"]).code, 3);
}

/// Memory that a refusal may take, in KiB: the pages of the program itself make up the rest of 64 MiB.
const DATA_KIB_MAX: u64 = 56 << 10;
/// What a refusal may take: a second, and more in a build that is not optimised as the product is.
const TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 8 } else { 1 });

/// Runs a command that may not have more memory than a refusal takes. It is ended if it asks for
/// more, which shows in how it ends.
fn run_small(place: &Place, arguments: &[&str]) -> (Screen, Duration) {
    let inner = place.command(arguments);
    let script = format!("ulimit -c 0; ulimit -d {DATA_KIB_MAX}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(inner.get_program()).args(inner.get_args());
    shell.current_dir(place.path()).env("COUNTERSIGN_CONFIG", place.path().join("config"));
    // The stacks of threads count, used or not; a machine may have many of them.
    shell.env("RUST_MIN_STACK", (256 << 10).to_string());
    let start = Instant::now();
    (run_with(shell, b""), start.elapsed())
}

/// Other tests may run beside this one: a refusal is slow only if it is slow again.
fn refused_soon(place: &Place, name: &str, arguments: &[&str], codes: &[i32]) -> Screen {
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        let (screen, taken) = run_small(place, arguments);
        assert!(codes.contains(&screen.code), "{name}: {screen}");
        if taken < TIME_MAX {
            return screen;
        }
        slowest = slowest.max(taken);
    }
    panic!("{name}: {slowest:?}");
}

#[test]
fn archives_built_to_attack_are_refused_soon_and_with_little_memory() {
    let place = Place::empty();
    let file = place.path().join("x.cap");
    for (name, bytes, _) in table::cases() {
        fs::write(&file, &bytes).unwrap();
        refused_soon(&place, name, &["verify", "x.cap"], &[3]);
        // What is in the members is not looked at; the container is.
        refused_soon(&place, name, &["cap", "show", "x.cap"], &[0, 3]);
    }
}

/// These members in a file of ours, whatever they hold.
pub(crate) fn packed_anew(all: &Members) -> Vec<u8> {
    let mut all = all.clone();
    relist(&mut all);
    sealed(&all)
}

/// Makes a manifest that lists what there is.
fn relist(all: &mut Members) {
    let mut manifest = CapManifest::read(&all[0].1).unwrap();
    let listed = all[1..].iter().map(|(name, data)| CapMember {
        name: name.clone(),
        sha256: Hash::of(data),
        size: data.len() as u64,
    });
    manifest.members = listed.collect();
    all[0].1 = manifest.to_bytes();
}

#[test]
fn a_file_of_ours_in_which_a_member_would_become_a_large_tree_is_refused_as_soon() {
    let home = TestHome::new();
    let owner = Place::owner_of(&home);
    let recording = home.recording();
    let _ = recording.submit(note("a note")).unwrap();
    let id = recording.id().to_string();
    assert_eq!(owner.run(&["seal", &id, "-o", "one.cap"]).code, 0);
    let good = members(&fs::read(owner.path().join("one.cap")).unwrap());
    let tree = |bytes: usize| vec![table::chain(60); bytes / 361].join(",");
    let event = format!("{{\"payload\":[{}]}}\n", tree(900 << 10));
    let small = format!("{{\"payload\":[{}]}}\n", tree(6 << 10));
    let entry = format!("{{\\\"payload\\\":[{}]}}", tree(900 << 10).replace('"', "\\\""));
    let table = [
        (
            "log/extract.json",
            format!("{{\"checkpoint\":[{}]}}\n", tree(7 << 20)),
            "`log/extract.json`",
        ),
        (
            "log/extract.json",
            format!(
                "{{\"checkpoint\":\"x\",\"entries\":[{{\"index\":0,\"line\":\"{entry}\",\"path\":[]}}]}}\n"
            ),
            "`log/extract.json`: entry 0 has more than 8192 objects and lists",
        ),
        (
            "report.json",
            format!("[{}]", tree(3 << 20)),
            "`report.json` has more than 16384 objects",
        ),
        ("trace/events.jsonl", event.repeat(60), "has more than 8192 objects and lists"),
        ("trace/events.jsonl", small.repeat(9_000), ""),
        ("trace/events.jsonl", "{}\n".repeat(1 << 20), ""),
        ("actions.jsonl", event.repeat(60), ""),
        ("agent_capsule.json", format!("[{}]", tree(60 << 10)), ""),
    ];
    let place = Place::empty();
    for (name, data, expected) in table {
        let mut all = good.clone();
        *member(&mut all, name) = data.into_bytes();
        fs::write(place.path().join("x.cap"), packed_anew(&all)).unwrap();
        let screen = refused_soon(&place, name, &["verify", "x.cap"], &[3]);
        assert!(screen.stdout().contains(expected), "{name}: {screen}");
        refused_soon(&place, name, &["cap", "show", "x.cap"], &[0, 3]);
    }
}
