//! Forgeries by somebody who has every file of a workspace and none of its keys.

use std::fs;

use countersign_format::event::{Actor, Draft, EventType, Sealer};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::key::SecretKey;
use countersign_format::role::Role;
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use countersign_testkit::{TestHome, note};
use serde_json::{Map, Value, json};

use crate::place::Place;

const THIEF: [u8; 32] = [66; 32];

fn thief_identity() -> Value {
    let key = SecretKey::from_seed(&THIEF).public_key();
    json!({
        "schema_version": "1.1.0", "agent_id": "thief", "display_name": "Recorder",
        "role_capabilities": ["recorder"], "key_id": key.key_id().to_string(),
        "public_key": key.to_string(), "key_algorithm": "ed25519", "status": "active",
        "created_at": "2026-02-03T04:05:06.000Z", "updated_at": "2026-02-03T04:05:06.000Z",
    })
}

/// The line of an event, signed by the thief or not at all.
fn line(trace_id: Ulid, id: Ulid, seq: u64, prev: Hash, actor: &Actor, draft: Draft) -> Vec<u8> {
    let secret = SecretKey::from_seed(&THIEF);
    Sealer {
        trace_id,
        event_id: id,
        seq,
        prev,
        created_at: "2026-02-03T04:05:06.000Z".parse().unwrap(),
        raw_clock: None,
        actor,
    }
    .seal(draft, |bytes| *secret.sign(bytes).as_bytes())
    .unwrap()
    .line
}

fn without_signature(line: &[u8]) -> Vec<u8> {
    let mut event: Value = serde_json::from_slice(line).unwrap();
    event.as_object_mut().unwrap().remove("signature");
    event.as_object_mut().unwrap().remove("event_hash");
    let hash = Hash::of(&json::to_bytes(&event));
    event["event_hash"] = json!(hash);
    [json::to_bytes(&event), b"\n".to_vec()].concat()
}

fn append(path: &std::path::Path, line: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes.extend_from_slice(line);
    fs::write(path, bytes).unwrap();
}

/// The log's last event: its hash, id, and the number of entries; and the log's own id.
fn head(home: &TestHome) -> (Hash, Ulid, u64, Ulid) {
    let mut last = None;
    let path = home.path().join("log/events.jsonl");
    let count = each_event(&path, LedgerId::Log, |event| last = Some(event)).unwrap().unwrap();
    let last = last.unwrap();
    (last.event_hash, last.event_id.parse().unwrap(), count, last.trace_id.parse().unwrap())
}

/// An unsigned key event was only a warning, and its key counted all the same: knowing the root's
/// public key was enough to forge a whole workspace that stayed pinned.
#[test]
fn a_key_event_that_the_root_did_not_sign_brings_no_key() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    let root = home.workspace.root().to_hex();
    let (prev, last, count, log_id) = head(&home);
    let keys_head = home.workspace.log_state(|log| log.keys_head.unwrap()).unwrap();
    let actor = Actor {
        agent_id: "root".into(),
        key_id: root[..32].into(),
        role: Role::Recorder,
        unknown: Map::new(),
    };
    let payload = json!({ "identity": thief_identity(), "prev_key_event": keys_head });
    let draft = Draft::new(EventType::KeyAdded, payload);
    let forged = line(log_id, last.next(), count, prev, &actor, draft);
    let log = home.path().join("log/events.jsonl");
    let honest = fs::read(&log).unwrap();
    for (forged, code) in [(without_signature(&forged), "SIG_MISSING"), (forged, "SIG_INVALID")] {
        fs::write(&log, &honest).unwrap();
        append(&log, &forged);
        // Something that the thief signed with the key that it gave itself.
        let path = home.workspace.trace_file(recording.id());
        let before = fs::read(&path).unwrap();
        let mut first = None;
        each_event(&path, LedgerId::Trace(recording.id()), |event| first = Some(event))
            .unwrap()
            .unwrap();
        let first = first.unwrap();
        let thief = Actor {
            agent_id: "thief".into(),
            key_id: SecretKey::from_seed(&THIEF).public_key().key_id().to_string(),
            role: Role::Recorder,
            unknown: Map::new(),
        };
        let draft = Draft::new(EventType::ArtifactRecorded, json!({ "purpose": "forged" }));
        let id = first.event_id.parse::<Ulid>().unwrap().next();
        append(&path, &line(recording.id(), id, 1, first.event_hash, &thief, draft));
        let id = recording.id().to_string();
        let screen = place.run(&["verify", &id, "--trust", &root, "--no-write", "--allow-open"]);
        assert_eq!(screen.code, 3, "{screen}");
        assert!(screen.stdout().contains(code), "{screen}");
        assert!(screen.stdout().contains("no key `"), "the thief's key is not known: {screen}");
        fs::write(&path, before).unwrap();
    }
}

/// A log that names no keys vouched for nothing, and so nothing was checked.
#[test]
fn a_log_without_keys_does_not_switch_the_signatures_off() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    recording.submit(note("one")).unwrap();
    let log = home.path().join("log/events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.split_inclusive('\n').next().unwrap()).unwrap();
    fs::remove_file(home.path().join("log/checkpoint")).unwrap();
    let path = home.workspace.trace_file(recording.id());
    let unsigned: Vec<u8> = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .flat_map(|line| without_signature(line.as_bytes()))
        .collect();
    fs::write(&path, unsigned).unwrap();
    let id = recording.id().to_string();
    let root = home.workspace.root().to_hex();
    let arguments =
        ["verify", &id, "--trust", &root, "--no-write", "--allow-open", "--profile", "strict"];
    let screen = place.run(&arguments);
    assert_eq!(screen.code, 3, "{screen}");
    assert!(screen.stdout().contains("SIG_MISSING"), "{screen}");
}

#[test]
fn another_trace_in_the_place_of_the_one_that_was_asked_for_is_refused() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let (first, second) = (home.recording(), home.recording());
    first.conclude("done").unwrap();
    let target = home.workspace.trace_file(second.id());
    fs::copy(home.workspace.trace_file(first.id()), &target).unwrap();
    let id = second.id().to_string();
    let root = home.workspace.root().to_hex();
    let screen = place.run(&["verify", &id, "--trust", &root, "--no-write"]);
    assert_eq!(screen.code, 3, "{screen}");
    assert!(screen.stdout().contains(&format!("/trace_id: this trace is {id}")), "{screen}");
    // Nobody builds on it either.
    let refused = home.reopen().recording(second.id()).unwrap_err();
    assert!(refused.to_string().contains("damaged ledger"), "{refused}");
    let repaired = place.run(&["doctor", "--repair"]);
    assert_eq!(repaired.code, 3, "{repaired}");
}

#[test]
fn a_trace_that_the_log_knows_and_that_is_gone_is_a_no() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let recording = home.recording();
    recording.conclude("done").unwrap();
    let id = recording.id().to_string();
    fs::remove_dir_all(home.workspace.trace_file(recording.id()).parent().unwrap()).unwrap();
    let screen = place.run(&["verify", &id]);
    let error = format!("error: trace {id} is gone: the workspace log knows 4 of its events\n");
    assert_eq!((screen.code, screen.stderr), (3, error));
}

/// A log that was rewritten could revoke the key that had signed what somebody kept elsewhere, and
/// the checkpoint was then not compared.
#[test]
fn revoking_its_key_does_not_silence_a_checkpoint_that_was_kept_elsewhere() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    let log = home.path().join("log/events.jsonl");
    let early = fs::read(&log).unwrap();
    let recording = home.recording();
    recording.conclude("done").unwrap();
    fs::copy(home.path().join("log/checkpoint"), place.path().join("kept.txt")).unwrap();
    // The owner takes the log back to where it was, and goes on another way.
    fs::write(&log, early).unwrap();
    for name in ["checkpoint", "snapshot"] {
        let _ = fs::remove_file(home.path().join("log").join(name));
    }
    home.clock.advance(1_000);
    let workspace = home.reopen();
    let recorder = workspace.find_key("recorder").unwrap();
    for _ in 0..3 {
        workspace.rotate_key(&workspace.find_key("critic").unwrap().key_id).unwrap();
    }
    workspace.revoke_key(&recorder.key_id, "to be rid of it").unwrap();
    let root = home.workspace.root().to_hex();
    let screen =
        place.run(&["verify", "log", "--trust", &root, "--allow-open", "--log", "kept.txt"]);
    assert_eq!(screen.code, 3, "{screen}");
    assert!(screen.stdout().contains("are not those of its checkpoint"), "{screen}");
    fs::write(place.path().join("bad.txt"), "countersign/x\r\n1\r\n").unwrap();
    let screen = place.run(&["verify", "log", "--trust", &root, "--log", "bad.txt"]);
    assert_eq!(screen.code, 1, "{screen}");
}
