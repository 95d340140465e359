//! Event lines: the short way says nothing that the long way does not say, and both what is written.

use countersign_format::event::{
    Event, Reading, SignatureFaults, WholeLine, check_event, check_event_bytes,
};
use countersign_format::hash::Hash;
use countersign_format::json::{self, Value};
use countersign_format::key::Signature;

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "event",
    holds: |data| holds(data, WholeLine::of),
    twin: |data| holds(data, |line| WholeLine::of(line.trim_ascii())),
    tries: 12_000,
    words: "{·}·,·:·\"·\\u0061· ·null·0·1·-1·1.5·1e3·\"1.0.0\"·\"1.1.0\"·\"payload\":·\"seq\":·\
        \"event_hash\":·\"raw_clock\":·\"operator\"·\"signature\":null·\"zz\":1·event_type·\
        trace_opened·T25:00:00.000Z·é·e\u{301}",
};

fn holds(line: &[u8], short: fn(&[u8]) -> Option<WholeLine>) {
    let long = Reading::of(line);
    if let Ok(long) = &long {
        hashes_are_those_of_the_written_form(long);
        faults_have_places(&long.value, &check_event(&long.value, SignatureFaults::Listed));
    }
    assert_eq!(long.is_err(), !json::read(line).is_ok_and(|value| value.is_object()));
    let Some(whole) = short(line) else { return };
    let long = long.expect("the short way took it");
    assert_eq!(long.fault, None, "the long way finds a fault");
    assert_eq!(check_event(&long.value, SignatureFaults::LeftOut), [], "the long way finds faults");
    assert_eq!(long.event_hash, whole.event_hash);
    assert_eq!(long.payload_hash, Some(whole.payload_hash));
    assert_eq!(long.signed_bytes, whole.signed_bytes);
    let mut event: Event = long.event().expect("an event");
    let signature = std::mem::take(&mut event.signature);
    assert_eq!(event, whole.event);
    match whole.signature {
        None => assert_eq!(signature, Value::Null),
        Some(found) => {
            assert_eq!(check_event_bytes(line), [], "the signature has a fault");
            let member = |name: &str| signature.get(name).and_then(Value::as_str);
            let stated: Option<Signature> = member("signature_b64").and_then(|it| it.parse().ok());
            assert_eq!(stated, Some(found.signature));
            assert_eq!(member("signed_bytes_hash"), Some(&*found.signed_bytes_hash.to_hex()));
        }
    }
}

/// Cutting a line gives the bytes that serialising gives.
fn hashes_are_those_of_the_written_form(long: &Reading) {
    let without = |names: &[&str]| {
        let mut members = long.value.as_object().cloned().unwrap_or_default();
        names.iter().for_each(|name| drop(members.remove(*name)));
        members
    };
    let event = json::to_bytes(&Value::Object(without(&["event_hash"])));
    assert_eq!(long.event_hash, Hash::of(&event), "the event's hash");
    let payload = long.value.get("payload").filter(|payload| !payload.is_null());
    let payload = payload.map(|payload| Hash::of(&json::to_bytes(payload)));
    assert_eq!(long.payload_hash, payload, "the payload's hash");
    let mut signed = without(&["event_hash", "payload", "signature"]);
    let stated = signed.get("payload_hash").and_then(Value::as_str);
    if let (Some(payload), Some(true)) = (payload, stated.map(|it| it.parse::<Hash>().is_ok())) {
        signed.insert("payload_hash".to_owned(), Value::String(payload.to_hex()));
    }
    assert_eq!(long.signed_bytes, json::to_bytes(&Value::Object(signed)), "the signed bytes");
}

/// A fault stands at a value of the document, or at a member that one of them lacks.
fn faults_have_places(value: &Value, faults: &[countersign_format::shape::Fault]) {
    for fault in faults {
        let parent = fault.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
        assert!(value.pointer(parent).is_some(), "`{}` leads nowhere", fault.pointer);
        assert!(!fault.message.is_empty());
    }
}
