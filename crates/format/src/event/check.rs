//! Does a document have the members of an event? Every fault, each with its place.

use serde_json::{Map, Value, json};

use super::artifact::ARTIFACT_DESCRIPTOR;
use super::{EventType, Since, payload};
use crate::json::{self, INTEGER_MAX};
use crate::role::Role;
use crate::shape::{
    Checker, Dialect, FAULTS_MAX, Fault, Faults, Fields, Need, Shape, Unknown, document_schema,
    is_semver, object_schema, opt, req, req_1_1,
};
use crate::time::Timestamp;

/// The members of an actor.
static ACTOR: Fields = Fields {
    name: "Actor",
    doc: "Who did something, in which role, with which key.",
    fields: &[
        req("agent_id", Shape::Name),
        req("key_id", Shape::Name),
        req("role", Shape::OneOf(&Role::NAMES)),
    ],
    unknown: Unknown::Kept,
};

/// The members of a signature.
pub static SIGNATURE: Fields = Fields {
    name: "Signature",
    doc: "An Ed25519 signature over the signed bytes of an event.",
    fields: &[
        req("algorithm", Shape::OneOf(&["ed25519"])),
        req("signature_b64", Shape::Base64(64)),
        req("signed_bytes_hash", Shape::Hash),
    ],
    unknown: Unknown::Kept,
};

/// The members of every event. What the payload holds depends on the type.
pub static PROTOCOL_EVENT: Fields = Fields {
    name: "ProtocolEvent",
    doc: "One signed, chained line of a trace.",
    fields: &[
        req("actor", Shape::Object(&ACTOR)),
        req("artifacts", Shape::List(&Shape::Object(&ARTIFACT_DESCRIPTOR))),
        req("claims", Shape::List(&Shape::ClaimId)),
        req("created_at", Shape::Time),
        req("event_hash", Shape::Hash),
        req("event_id", Shape::Ulid),
        req("event_type", Shape::OneOf(EventType::NAMES)),
        req("payload", Shape::Any),
        req("payload_hash", Shape::Hash),
        req("payload_type", Shape::Name),
        req("prev_event_hash", Shape::Hash),
        opt("raw_clock", Shape::Time),
        req("schema_version", Shape::Version),
        req_1_1("seq", Shape::Integer(0, INTEGER_MAX)),
        opt("signature", Shape::Nullable(&Shape::Object(&SIGNATURE))),
        req("trace_id", Shape::Ulid),
    ],
    unknown: Unknown::Kept,
};

/// Whether the shape of the signature is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignatureFaults {
    /// A missing or misshapen signature is a fault like any other.
    Listed,
    /// The verifier reports it under a code of its own.
    LeftOut,
}

/// Every way in which `bytes` are not an event: as JSON, or as [`check_event`] says.
#[must_use]
pub fn check_event_bytes(bytes: &[u8]) -> Vec<Fault> {
    match json::read(bytes) {
        Ok(event) => check_event(&event, SignatureFaults::Listed),
        Err(error) => vec![error.into()],
    }
}

/// The rules under which a document is read: 1.0 for versions that begin with `1.0.`, else 1.1.
#[must_use]
pub fn dialect_of(event: &Value) -> Dialect {
    match event.get("schema_version").and_then(Value::as_str) {
        Some(version) if version.starts_with("1.0.") => Dialect::V1_0,
        _ => Dialect::V1_1,
    }
}

/// Every way in which `event` differs from the schema that it names, as [`Faults::into_vec`] lists it.
#[must_use]
pub fn check_event(event: &Value, signature: SignatureFaults) -> Vec<Fault> {
    event_faults(event, signature, FAULTS_MAX).into_vec()
}

/// As [`check_event`], for somebody who wants no more than the first `most` faults and their number.
///
/// What an event must have comes first, so that no number of unknown members can hide its faults.
#[must_use]
pub fn event_faults(event: &Value, signature: SignatureFaults, most: usize) -> Faults {
    let dialect = dialect_of(event);
    let mut checker = Checker::listing(dialect, most);
    let Some(members) = event.as_object() else {
        checker.check(&Shape::Object(&PROTOCOL_EVENT), event);
        return checker.found();
    };
    for field in PROTOCOL_EVENT.fields {
        match field.name {
            "signature" | "payload" => {}
            name => match members.get(name) {
                Some(member) => checker.below(name, |below| below.check(&field.shape, member)),
                None if checker.needs(field) => {
                    checker.below(name, |below| below.fault("missing"));
                }
                None => {}
            },
        }
    }
    check_version(event, &mut checker);
    check_agreement(event, dialect, &mut checker);
    check_payload(event, dialect, &mut checker);
    if signature == SignatureFaults::Listed {
        checker.below("signature", |below| match event.get("signature") {
            None => below.fault("missing"),
            Some(signature) => below.check(&Shape::Object(&SIGNATURE), signature),
        });
    }
    if let Some(payload) = event.get("payload") {
        checker.below("payload", |below| unknown_of_payload(event, payload, below));
    }
    checker.unknown_members(&PROTOCOL_EVENT, members);
    checker.found()
}

fn check_version(event: &Value, checker: &mut Checker) {
    let Some(version) = event.get("schema_version").and_then(Value::as_str) else { return };
    let supported = version.starts_with("1.0.") || version.starts_with("1.1.");
    if is_semver(version) && !supported {
        checker.below("schema_version", |below| {
            below.fault("this reader knows schema 1.0 and 1.1");
        });
    }
}

/// Members that must fit to each other.
fn check_agreement(event: &Value, dialect: Dialect, checker: &mut Checker) {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    let known = text("/event_type").filter(|name| EventType::parse(name).is_some());
    if dialect == Dialect::V1_1 && known.is_some() && text("/payload_type") != known {
        checker.below("payload_type", |below| below.fault("must be the type of the event"));
    }
    if dialect == Dialect::V1_0 && matches!(text("/actor/role"), Some("operator" | "recorder")) {
        checker.below("actor", |actor| {
            actor.below("role", |role| role.fault("schema 1.0 does not know this role"));
        });
    }
    let time = |pointer: &str| text(pointer).and_then(|text| text.parse::<Timestamp>().ok());
    if let (Some(raw), Some(created)) = (time("/raw_clock"), time("/created_at"))
        && raw >= created
    {
        checker.below("raw_clock", |below| below.fault("must lie before `created_at`"));
    }
}

/// The type that an event states, if it is one.
fn type_of(event: &Value) -> Option<EventType> {
    event.get("event_type").and_then(Value::as_str).and_then(EventType::parse)
}

/// The members of the payload that the table of its type lists.
fn check_payload(event: &Value, dialect: Dialect, checker: &mut Checker) {
    let Some(payload) = event.get("payload") else {
        return checker.below("payload", |below| below.fault("missing"));
    };
    let Some(event_type) = type_of(event) else { return };
    if dialect == Dialect::V1_0 && event_type.since() == Since::V1_1 {
        checker.below("event_type", |below| below.fault("schema 1.0 does not know this type"));
    }
    // In schema 1.0 a payload may lie in the store; then the event names it by its hash alone.
    if dialect == Dialect::V1_0 && payload.is_null() && !payload::must_be_inline(event_type) {
        return;
    }
    let fields = payload::fields(event_type);
    checker.below("payload", |below| match (dialect, payload.as_object()) {
        (_, None) => below.object(fields, payload),
        (Dialect::V1_0, Some(members)) => payload_of_1_0(fields, members, below),
        (Dialect::V1_1, Some(members)) => below.known_members(fields, members),
    });
}

/// The members of the payload that no table lists: of an unknown type all.
fn unknown_of_payload(event: &Value, payload: &Value, checker: &mut Checker) {
    match (type_of(event), payload.as_object()) {
        (Some(event_type), Some(members)) => {
            checker.unknown_members(payload::fields(event_type), members);
        }
        (Some(_), None) => {}
        (None, _) => checker.check(&Shape::Any, payload),
    }
}

/// Of schema 1.0 only what it asks for has a form. Whatever else stands there is unknown to it, even
/// where schema 1.1 has a member of that name.
fn payload_of_1_0(fields: &Fields, members: &Map<String, Value>, checker: &mut Checker) {
    for field in fields.fields {
        let asked_for = field.need == Need::Required;
        match members.get(field.name) {
            Some(member) if asked_for => {
                checker.below(field.name, |below| below.check(&field.shape, member));
            }
            Some(member) => checker.below(field.name, |below| below.check(&Shape::Any, member)),
            None if asked_for => checker.below(field.name, |below| below.fault("missing")),
            None => {}
        }
    }
}

/// The JSON Schema of events of schema 1.1, with the payload of each type.
#[must_use]
pub fn event_schema() -> Value {
    let mut schema = document_schema(&PROTOCOL_EVENT, "event");
    let payloads: Vec<Value> = EventType::ALL
        .iter()
        .map(|event_type| {
            json!({
                "if": { "properties": { "event_type": { "const": event_type.as_str() } } },
                "then": { "properties": {
                    "payload": object_schema(payload::fields(*event_type)),
                    "payload_type": { "const": event_type.as_str() },
                } },
            })
        })
        .collect();
    if let Some(members) = schema.as_object_mut() {
        members.insert("allOf".into(), Value::Array(payloads));
    }
    schema
}
