//! JSON Schemas of everything that we write, generated from the tables of shapes.
//!
//! They describe schema 1.1. A schema says less than a checker: text that is not NFC, a date that
//! does not exist and an integer written as `1.0` pass it.

use serde_json::{Value, json};

use crate::envelope::{INPUT_ENVELOPE_FIELDS, OUTPUT_ENVELOPE_FIELDS};
use crate::event::artifact::ARTIFACT_DESCRIPTOR;
use crate::event::{PROTOCOL_EVENT, SIGNATURE, event_schema};
use crate::exit::{AGENT_SESSION_COMPLETED_FIELDS, EXIT_SIGNAL_FIELDS};
use crate::key::AGENT_IDENTITY;
use crate::proof::{EQUIVOCATION, EQUIVOCATION_REPORT, EVENT_PROOF, INCLUSION_REPORT};
use crate::receipt::AGENT_ACTION;
use crate::report::VERIFICATION_REPORT;
use crate::shape::{Fields, document_schema, object_schema};
use crate::trace_session::TRACE_SESSION;

/// The members that every signed message has, whatever it carries.
pub const MESSAGE_ENVELOPE_MEMBERS: [&str; 10] = [
    "actor",
    "created_at",
    "event_hash",
    "event_id",
    "event_type",
    "payload_hash",
    "prev_event_hash",
    "schema_version",
    "signature",
    "trace_id",
];

/// The documents that are described by one table, by the name of their schema.
pub static DOCUMENTS: [(&str, &Fields); 13] = [
    ("agent-action", &AGENT_ACTION),
    ("agent-identity", &AGENT_IDENTITY),
    ("agent-session-completed", &AGENT_SESSION_COMPLETED_FIELDS),
    ("artifact-descriptor", &ARTIFACT_DESCRIPTOR),
    ("equivocation", &EQUIVOCATION),
    ("equivocation-report", &EQUIVOCATION_REPORT),
    ("event-proof", &EVENT_PROOF),
    ("exit-signal", &EXIT_SIGNAL_FIELDS),
    ("inclusion-report", &INCLUSION_REPORT),
    ("input-envelope", &INPUT_ENVELOPE_FIELDS),
    ("output-envelope", &OUTPUT_ENVELOPE_FIELDS),
    ("trace-session", &TRACE_SESSION),
    ("verification-report", &VERIFICATION_REPORT),
];

/// Every schema (draft 2020-12) with its name, in the order of the names.
#[must_use]
pub fn all() -> Vec<(&'static str, Value)> {
    let mut schemas: Vec<(&str, Value)> =
        DOCUMENTS.iter().map(|(name, fields)| (*name, document_schema(fields, name))).collect();
    schemas.push(("event", event_schema()));
    schemas.push(("message-envelope", message_envelope_schema()));
    schemas.sort_by_key(|(name, _)| *name);
    schemas
}

/// The file that a schema is kept in.
#[must_use]
pub fn file_name(name: &str) -> String {
    format!("{name}.schema.json")
}

/// The text of a schema's file: indented, keys in order, with a final line break.
#[must_use]
pub fn file_text(schema: &Value) -> String {
    // Whether the map keeps its members in order depends on what else is built.
    let mut schema = schema.clone();
    schema.sort_all_objects();
    format!("{schema:#}\n")
}

/// An event without what it says: the members of the specification's message envelope.
fn message_envelope_schema() -> Value {
    let mut schema = document_schema(&PROTOCOL_EVENT, "message-envelope");
    let Some(members) = schema.as_object_mut() else { return schema };
    members.insert("title".into(), json!("MessageEnvelope"));
    members
        .insert("description".into(), json!("What every signed message has around its payload."));
    members.insert("required".into(), json!(MESSAGE_ENVELOPE_MEMBERS));
    if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| MESSAGE_ENVELOPE_MEMBERS.contains(&name.as_str()));
        properties.insert("signature".into(), object_schema(&SIGNATURE));
    }
    schema
}
