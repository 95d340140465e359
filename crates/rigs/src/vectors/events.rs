//! Sealed events with everything that is computed on the way, and lines that are no events.

use countersign_format::event::{Draft, EventType, Reading, check_event_bytes};
use countersign_format::hash::{Hash, hex};
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::role::Role;
use serde_json::{Value, json};

use super::home::{Ledger, Party, second};
use super::{cannot, set};

/// Two events of one trace, signed with the key of the seed 01…01.
fn trace() -> Result<Ledger, String> {
    let planner = Party::new(1, "planner", Role::Planner);
    let mut trace = Ledger::new(Ulid::from_parts(second(0), 1));
    let pin = json!({
        "origin": "countersign/example", "size": 1,
        "head": Hash::of(b"head"), "keys_head": Hash::of(b"keys head"),
    });
    let first = json!({ "kind": "session", "task_id": "demo", "log": pin });
    trace.push(&planner, 0, Draft::new(EventType::SessionInitialized, first))?;
    let proposal = json!({
        "objective": "naïve café ☕", "assumptions": ["\u{1f980} after \u{ff5e}"],
        "required_tools": [], "expected_evidence": [],
        "score": 0.000_000_1, "\u{1f980}": 1, "\u{ff5e}": 2,
    });
    let draft = Draft::new(EventType::ProposalCreated, proposal);
    trace.push_clocked(&planner, second(1), Some(second(-3)), draft)?;
    Ok(trace)
}

fn lines(trace: &Ledger) -> impl Iterator<Item = &[u8]> {
    trace.lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

fn read(line: &[u8]) -> Result<Reading, String> {
    Reading::of(line).map_err(|error| cannot("read an event", error))
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The file `event.json`.
pub(super) fn sealed() -> Result<Value, String> {
    let trace = trace()?;
    let key = Party::new(1, "planner", Role::Planner).secret.public_key();
    let mut events = Vec::new();
    let mut tampered = Vec::new();
    for line in lines(&trace) {
        let reading = read(line)?;
        let payload = reading.value.get("payload").cloned().unwrap_or_default();
        events.push(json!({
            "line": shown(line),
            "payload": shown(&json::to_bytes(&payload)),
            "payload_hash": reading.payload_hash,
            "signed_bytes": shown(&reading.signed_bytes),
            "signed_bytes_hex": hex(&reading.signed_bytes),
            "signed_bytes_hash": Hash::of(&reading.signed_bytes),
            "signature_b64": reading.value.pointer("/signature/signature_b64"),
            "event_hash": reading.event_hash,
        }));
        if tampered.is_empty() {
            tampered = twins(&reading.value);
        }
    }
    Ok(json!({
        "seed_hex": hex(&[1; 32]),
        "public_key": key,
        "key_id": key.key_id(),
        "fingerprint": key.fingerprint(),
        "genesis": Hash::GENESIS,
        "events": events,
        "tampered": tampered,
    }))
}

/// The first event with something changed and nothing recomputed, and what a verifier says.
fn twins(event: &Value) -> Vec<Value> {
    let other = json!(Hash::of(b"other"));
    let hash_and_signature = ["HASH_MISMATCH", "SIG_INVALID"].as_slice();
    let changes: [(&str, Value, &[&str]); 7] = [
        ("/payload/task_id", json!("other"), hash_and_signature),
        ("/payload_hash", other.clone(), &["HASH_MISMATCH"]),
        ("/created_at", json!(second(7)), hash_and_signature),
        ("/actor/agent_id", json!("critic"), hash_and_signature),
        ("/event_hash", other.clone(), &["HASH_MISMATCH"]),
        ("/signature/signed_bytes_hash", other, hash_and_signature),
        ("/signature/signature_b64", json!(format!("{}==", "A".repeat(86))), hash_and_signature),
    ];
    changes
        .into_iter()
        .map(|(pointer, value, codes)| {
            let mut twin = event.clone();
            if let Some(place) = twin.pointer_mut(pointer) {
                *place = value;
            }
            json!({ "changed": pointer, "codes": codes, "line": shown(&json::to_bytes(&twin)) })
        })
        .collect()
}

/// What is changed in a valid event, and to what; nothing stands for removal.
fn changes() -> Vec<(&'static str, &'static str, Option<Value>)> {
    let time = |text: &str| Some(json!(text));
    vec![
        ("no-actor", "/actor", None),
        ("actor-not-an-object", "/actor", Some(json!("planner"))),
        ("unknown-role", "/actor/role", Some(json!("root"))),
        ("agent-id-in-capitals", "/actor/agent_id", Some(json!("Planner"))),
        ("no-seq", "/seq", None),
        ("seq-negative", "/seq", Some(json!(-1))),
        ("seq-as-text", "/seq", Some(json!("0"))),
        ("claims-not-a-list", "/claims", Some(json!({}))),
        ("claim-without-prefix", "/claims", Some(json!(["01kga06g000000000000000001"]))),
        ("artifact-incomplete", "/artifacts", Some(json!([{ "hash_algorithm": "md5" }]))),
        ("time-without-milliseconds", "/created_at", time("2026-01-31T12:00:00Z")),
        ("time-with-offset", "/created_at", time("2026-01-31T12:00:00.000+00:00")),
        ("time-that-never-was", "/created_at", time("2026-02-29T12:00:00.000Z")),
        ("leap-second", "/raw_clock", time("2026-01-31T23:59:60.000Z")),
        ("hash-in-capitals", "/event_hash", Some(json!("AB".repeat(32)))),
        ("hash-too-short", "/prev_event_hash", Some(json!("00"))),
        ("ulid-in-capitals", "/event_id", Some(json!("01KGA06G000000000000000001"))),
        ("ulid-with-i", "/trace_id", Some(json!("01kga06g00000000000000000i"))),
        ("ulid-too-large", "/trace_id", Some(json!("81kga06g000000000000000001"))),
        ("unknown-type", "/event_type", Some(json!("tool_ran"))),
        ("version-two", "/schema_version", Some(json!("2.0.0"))),
        ("version-of-two-numbers", "/schema_version", Some(json!("1.1"))),
        ("payload-null", "/payload", Some(json!(null))),
        ("payload-a-list", "/payload", Some(json!([]))),
        ("no-pin", "/payload/log", None),
        ("pin-of-an-empty-log", "/payload/log/size", Some(json!(0))),
        ("unknown-kind", "/payload/kind", Some(json!("log"))),
        ("text-not-nfc", "/payload/objective", Some(json!("cafe\u{301}"))),
        ("noncharacter", "/payload/objective", Some(json!("\u{fffe}"))),
        ("unknown-member-not-nfc", "/of_tomorrow", Some(json!({ "a": ["e\u{301}"] }))),
        ("key-not-nfc", "/payload/links", Some(json!({ "e\u{301}": 1 }))),
        ("no-signature", "/signature", None),
        ("signature-null", "/signature", Some(json!(null))),
        ("other-algorithm", "/signature/algorithm", Some(json!("none"))),
        ("signature-unpadded", "/signature/signature_b64", Some(json!("A".repeat(86)))),
        (
            "signature-url-safe",
            "/signature/signature_b64",
            Some(json!(format!("{}==", "_".repeat(86)))),
        ),
        (
            "signature-stray-bits",
            "/signature/signature_b64",
            Some(json!(format!("{}B==", "A".repeat(85)))),
        ),
    ]
}

/// The file `malformed-events.json`: lines and the places at which they are faulty.
pub(super) fn malformed() -> Result<Value, String> {
    let trace = trace()?;
    let first = lines(&trace).next().unwrap_or_default();
    let event = read(first)?.value;
    let case = |name: &str, line: &[u8]| {
        let faults = check_event_bytes(line);
        let mut pointers: Vec<_> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        pointers.sort_unstable();
        pointers.dedup();
        json!({ "name": name, "line": shown(line), "pointers": pointers })
    };
    let mut cases = vec![case("valid", first)];
    let mut more = event.clone();
    set(&mut more, "of_tomorrow", json!({ "kept": true }));
    cases.push(case("unknown-member-is-kept", &json::to_bytes(&more)));
    let valid = cases.len();
    for (name, pointer, value) in changes() {
        let mut twin = event.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(members) = twin.pointer_mut(parent).and_then(Value::as_object_mut) {
            match value {
                Some(value) => members.insert(key.to_owned(), value),
                None => members.remove(key),
            };
        }
        cases.push(case(name, &json::to_bytes(&twin)));
    }
    for (name, line) in [
        ("not-an-object", &b"[]"[..]),
        ("empty-object", b"{}"),
        ("integer-too-large", br#"{"seq":9007199254740992}"#),
        ("duplicate-member", br#"{"actor":{"role":"critic","role":"planner"}}"#),
    ] {
        cases.push(case(name, line));
    }
    let faultless = |case: &&Value| case.get("pointers") == Some(&json!([]));
    match cases.iter().skip(valid).find(faultless) {
        Some(case) => Err(format!("a line that should be malformed has no fault: {case}")),
        None => Ok(json!({ "cases": cases })),
    }
}
