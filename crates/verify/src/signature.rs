//! The signature of one event.

use countersign_format::event::{EventType, Reading, SIGNATURE};
use countersign_format::hash::Hash;
use countersign_format::key::Signature;
use countersign_format::report::FailureCode;
use countersign_format::shape::{Checker, Shape};
use countersign_format::time::Timestamp;
use serde_json::Value;

use crate::findings::{CheckId, Findings, Place};
use crate::keys::KeyBook;
use crate::profile::Profile;

/// Checks the signature of a line against `book`; true if it verified and counts.
pub(crate) fn check(
    reading: &Reading,
    index: u64,
    place: &Place,
    book: &KeyBook,
    profile: &Profile,
    findings: &mut Findings,
) -> bool {
    let signature = match reading.value.get("signature") {
        None | Some(Value::Null) => {
            missing(reading, place, profile, findings);
            return false;
        }
        Some(signature) => signature,
    };
    let invalid = |message: String, findings: &mut Findings| {
        findings.fail(CheckId::Signature, FailureCode::SigInvalid, place, message);
        false
    };
    let mut checker = Checker::new(reading.dialect);
    checker.check(&Shape::Object(&SIGNATURE), signature);
    if let Some(fault) = checker.into_faults().into_iter().next() {
        return invalid(format!("the signature is misshapen: {fault}"), findings);
    }
    let member = |name: &str| signature.get(name).and_then(Value::as_str).unwrap_or_default();
    let Ok(bytes) = member("signature_b64").parse::<Signature>() else {
        return invalid("the signature is misshapen".to_owned(), findings);
    };
    let actor = |name: &str| {
        reading.value.get("actor").and_then(|actor| actor.get(name)).and_then(Value::as_str)
    };
    let key_id = actor("key_id").unwrap_or_default();
    let Some(key) = book.get(key_id) else {
        return invalid(format!("no key `{key_id}` is known"), findings);
    };
    if actor("agent_id") != Some(key.agent_id.as_str()) {
        let message = format!("key {key_id} belongs to `{}`, not to the actor", key.agent_id);
        return invalid(message, findings);
    }
    if key.public_key.verify(&reading.signed_bytes, &bytes).is_err() {
        return invalid(format!("the signature of key {key_id} does not verify"), findings);
    }
    if member("signed_bytes_hash") != Hash::of(&reading.signed_bytes).to_hex() {
        return invalid("`signed_bytes_hash` is not that of the signed bytes".to_owned(), findings);
    }
    let created_at = reading.value.get("created_at").and_then(Value::as_str);
    let Some(created_at) = created_at.and_then(|text| text.parse::<Timestamp>().ok()) else {
        // Without a time the schema check has failed already.
        return false;
    };
    if let Err(why) = key.could_sign(index, created_at) {
        let message = format!("key {key_id} could not sign this: {why}");
        findings.fail(CheckId::KeyStatus, FailureCode::SigInvalid, place, message);
        return false;
    }
    if !key.roles.iter().any(|role| Some(role.as_str()) == actor("role")) {
        let role = actor("role").unwrap_or_default();
        let message = format!("key {key_id} of `{}` has no role `{role}`", key.agent_id);
        let rule = (CheckId::RolePolicy, FailureCode::RolePolicyViolation);
        findings.broken_rule(rule, profile, place, message);
    }
    true
}

fn missing(reading: &Reading, place: &Place, profile: &Profile, findings: &mut Findings) {
    let event_type = reading.value.get("event_type").and_then(Value::as_str).unwrap_or_default();
    let mandatory = EventType::parse(event_type).is_none_or(EventType::signature_is_mandatory);
    let message = "the event is not signed".to_owned();
    if mandatory || profile.every_event_signed {
        findings.fail(CheckId::Signature, FailureCode::SigMissing, place, message);
    } else {
        findings.warn(CheckId::Signature, "SIG_ABSENT", place, message);
    }
}
