//! The short way through a line says nothing that the long way does not say.
#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "vectors lie in files")]

use countersign_format::event::{Reading, SignatureFaults, WholeLine, check_event};
use countersign_format::key::Signature;
use serde_json::Value;

const HOMES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/vectors/homes");

/// Every line of the ledgers in the vectors.
fn lines() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut dirs = vec![std::path::PathBuf::from(HOMES)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.file_name().is_some_and(|name| name == "events.jsonl") {
                let bytes = std::fs::read(path).unwrap();
                found.extend(bytes.split(|&byte| byte == b'\n').map(<[u8]>::to_vec));
            }
        }
    }
    found.retain(|line| !line.is_empty());
    found
}

/// Compares both ways; true if the short one was taken.
fn compare(line: &[u8]) -> bool {
    let Some(whole) = WholeLine::of(line) else { return false };
    let shown = String::from_utf8_lossy(line);
    let reading = Reading::of(line).unwrap();
    assert_eq!(reading.fault, None, "{shown}");
    assert_eq!(check_event(&reading.value, SignatureFaults::LeftOut), [], "{shown}");
    assert_eq!(reading.event_hash, whole.event_hash, "{shown}");
    assert_eq!(reading.payload_hash, Some(whole.payload_hash), "{shown}");
    assert_eq!(reading.signed_bytes, whole.signed_bytes, "{shown}");
    let mut event = reading.event().unwrap();
    let signature = std::mem::take(&mut event.signature);
    assert_eq!(event, whole.event, "{shown}");
    match whole.signature {
        None => assert_eq!(signature, Value::Null, "{shown}"),
        Some(found) => {
            assert_eq!(check_event(&reading.value, SignatureFaults::Listed), [], "{shown}");
            let stated: Signature = signature["signature_b64"].as_str().unwrap().parse().unwrap();
            assert_eq!(stated, found.signature, "{shown}");
            assert_eq!(signature["signed_bytes_hash"], found.signed_bytes_hash.to_hex(), "{shown}");
        }
    }
    true
}

#[test]
fn ordinary_lines_are_taken_the_short_way_and_read_alike() {
    let lines = lines();
    let short = lines.iter().filter(|line| compare(line)).count();
    // The rest are what the vectors are about: torn, edited, of an old schema.
    assert!(lines.len() > 100 && short * 10 > lines.len() * 9, "{short} of {}", lines.len());
}

#[test]
fn no_change_of_a_byte_makes_the_short_way_say_something_else() {
    let lines = lines();
    let mut taken = 0u32;
    for line in lines.iter().step_by(7) {
        let mut changed = line.clone();
        for at in 0..line.len() {
            for with in [line[at] ^ 1, line[at] ^ 0x20, b'"', b'0', b'\\', b' ', 0xc3] {
                changed[at] = with;
                taken += u32::from(compare(&changed));
            }
            changed[at] = line[at];
        }
    }
    assert!(taken > 1_000, "{taken}");
}

#[test]
fn no_member_taken_away_or_put_in_makes_the_short_way_say_something_else() {
    for line in lines() {
        let Ok(Value::Object(members)) = serde_json::from_slice::<Value>(&line) else { continue };
        for name in members.keys() {
            for value in [None, Some(Value::Null), Some(7.into()), Some("x".into())] {
                let mut changed = members.clone();
                match value {
                    Some(value) => changed.insert(name.clone(), value),
                    None => changed.remove(name),
                };
                compare(&serde_json::to_vec(&changed).unwrap());
                changed.insert("zz".into(), Value::Bool(true));
                assert!(!compare(&serde_json::to_vec(&changed).unwrap()), "an unknown member");
            }
        }
    }
}
