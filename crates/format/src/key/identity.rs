//! The record of who holds a key.
//!
//! What the record says is checked here against its own key; whether it may be believed is decided
//! by the log that carries it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{BadPublicKey, KEY_ALGORITHM, KEY_BYTES, PublicKey};
use crate::role::Role;
use crate::shape::{Checker, Dialect, Fault, Fields, Shape, Unknown, opt, req};
use crate::time::Timestamp;

/// Whether a key may still sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyStatus {
    /// It may.
    Active,
    /// Another key took its place.
    Rotated,
    /// It was withdrawn.
    Revoked,
}

/// Who holds a key and in which roles it may sign. One record per key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentIdentity {
    /// The schema that the record follows; records without one are of the first.
    #[serde(default = "first_schema")]
    pub schema_version: String,
    /// The holder.
    pub agent_id: String,
    /// How people call the holder.
    pub display_name: String,
    /// The roles in which the key may sign.
    pub role_capabilities: Vec<Role>,
    /// The name of the key, in 1.1 always derived from it.
    pub key_id: String,
    /// The key.
    pub public_key: PublicKey,
    /// Always [`KEY_ALGORITHM`].
    pub key_algorithm: String,
    /// Whether the key may still sign.
    pub status: KeyStatus,
    /// When the record was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// From when on signatures no longer count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// When another key took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotated_at: Option<Timestamp>,
    /// Why the key was withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_reason: Option<String>,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

fn first_schema() -> String {
    "1.0.0".to_owned()
}

/// The members of an [`AgentIdentity`].
pub const AGENT_IDENTITY: Fields = Fields {
    name: "AgentIdentity",
    doc: "Who holds a key and in which roles it may sign.",
    fields: &[
        req("schema_version", Shape::Version),
        req("agent_id", Shape::Name),
        req("display_name", Shape::NonEmptyText),
        req("role_capabilities", Shape::List(&Shape::OneOf(&Role::NAMES))),
        req("key_id", Shape::Name),
        req("public_key", Shape::Base64(KEY_BYTES)),
        req("key_algorithm", Shape::OneOf(&[KEY_ALGORITHM])),
        req("status", Shape::OneOf(&["active", "rotated", "revoked"])),
        req("created_at", Shape::Time),
        req("updated_at", Shape::Time),
        opt("revoked_at", Shape::Time),
        opt("rotated_at", Shape::Time),
        opt("revoked_reason", Shape::Text),
    ],
    unknown: Unknown::Kept,
};

impl AgentIdentity {
    /// Notes every way in which `value` is not an identity: its shape, a key that must not be
    /// used, and in 1.1 a name or a status that does not fit the rest of the record.
    #[must_use]
    pub fn check(value: &Value, dialect: Dialect) -> Vec<Fault> {
        let mut checker = Checker::new(dialect);
        Self::check_at(&mut checker, value, dialect);
        checker.into_faults()
    }

    /// As [`Self::check`], where the record stands inside another document.
    pub fn check_at(checker: &mut Checker, value: &Value, dialect: Dialect) {
        match (dialect, value.as_object()) {
            // The first schema lists nine members and asks for a version elsewhere.
            (Dialect::V1_0, Some(members)) if !members.contains_key("schema_version") => {
                let mut members = members.clone();
                members.insert("schema_version".to_owned(), first_schema().into());
                checker.object(&AGENT_IDENTITY, &Value::Object(members));
            }
            _ => checker.object(&AGENT_IDENTITY, value),
        }
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let Some(encoded) = text("public_key") else { return };
        match encoded.parse::<PublicKey>() {
            Err(BadPublicKey::Encoding) => {}
            Err(error) => checker.below("public_key", |below| below.fault(error.to_string())),
            Ok(key) if dialect == Dialect::V1_1 => {
                let expected = key.key_id().to_string();
                if text("key_id").is_some_and(|found| found != expected) {
                    checker.below("key_id", |below| {
                        below.fault(format!("must be `{expected}` for this public key"));
                    });
                }
            }
            Ok(_) => {}
        }
        if dialect == Dialect::V1_1 {
            check_status(checker, value);
        }
    }
}

/// A record that is dated like a revoked one but says that it is active would be read both ways.
fn check_status(checker: &mut Checker, value: &Value) {
    let Some(status) = value.get("status").and_then(Value::as_str) else { return };
    for (member, fitting) in [
        ("revoked_at", &["revoked"][..]),
        ("revoked_reason", &["revoked"][..]),
        ("rotated_at", &["rotated", "revoked"][..]),
    ] {
        if value.get(member).is_some() && !fitting.contains(&status) {
            checker.below(member, |below| {
                below.fault(format!("does not fit the status `{status}`"));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::key::SecretKey;

    fn identity() -> Value {
        let key = SecretKey::from_seed(&[7; 32]).public_key();
        json!({
            "schema_version": "1.1.0", "agent_id": "planner-1", "display_name": "Planner",
            "role_capabilities": ["planner"], "key_id": key.key_id(), "public_key": key,
            "key_algorithm": "ed25519", "status": "active",
            "created_at": "2026-01-31T23:59:59.123Z", "updated_at": "2026-01-31T23:59:59.123Z",
        })
    }

    fn with(member: &str, value: Value) -> Value {
        let mut identity = identity();
        identity[member] = value;
        identity
    }

    fn faults(value: &Value, dialect: Dialect) -> Vec<String> {
        AgentIdentity::check(value, dialect).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_whole_identity_has_no_fault_and_keeps_unknown_members() {
        let value = with("hardware", json!({ "slot": 3 }));
        assert_eq!(faults(&value, Dialect::V1_1), [""; 0]);
        let record: AgentIdentity = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(record.unknown["hardware"]["slot"], 3);
        assert_eq!(serde_json::to_value(&record).unwrap(), value);
    }

    #[test]
    fn every_required_member_is_missed() {
        for field in AGENT_IDENTITY.fields.iter().take(10) {
            let mut value = identity();
            value.as_object_mut().unwrap().remove(field.name);
            assert_eq!(faults(&value, Dialect::V1_1), [format!("/{}: missing", field.name)]);
        }
    }

    #[test]
    fn records_of_the_first_schema_need_no_version_and_no_derived_key_id() {
        let mut value = with("key_id", json!("key-1"));
        value.as_object_mut().unwrap().remove("schema_version");
        assert_eq!(faults(&value, Dialect::V1_0), [""; 0]);
        let record: AgentIdentity = serde_json::from_value(value).unwrap();
        assert_eq!(record.schema_version, "1.0.0");
    }

    #[test]
    fn a_key_id_of_another_key_is_a_fault() {
        let value = with("key_id", json!("00000000000000000000000000000000"));
        let expected = SecretKey::from_seed(&[7; 32]).public_key().key_id();
        assert_eq!(
            faults(&value, Dialect::V1_1),
            [format!("/key_id: must be `{expected}` for this public key")]
        );
    }

    #[test]
    fn a_weak_key_is_a_fault_in_both_schemas_and_cannot_be_read() {
        let value = with("public_key", json!("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="));
        for dialect in [Dialect::V1_0, Dialect::V1_1] {
            let faults = faults(&value, dialect);
            assert!(matches!(faults.as_slice(), [only] if only.contains("small order")));
        }
        assert!(serde_json::from_value::<AgentIdentity>(value).is_err());
    }

    #[test]
    fn other_roles_algorithms_and_states_are_faults() {
        for (member, wrong) in [
            ("role_capabilities", json!(["planner", "root"])),
            ("key_algorithm", json!("none")),
            ("status", json!("Active")),
            ("public_key", json!("AAAA")),
            ("agent_id", json!("Planner")),
        ] {
            assert_eq!(faults(&with(member, wrong), Dialect::V1_1).len(), 1, "{member}");
        }
    }

    #[test]
    fn dates_must_fit_the_status() {
        let at = json!("2026-02-01T00:00:00.000Z");
        let mut value = with("revoked_at", at.clone());
        assert_eq!(
            faults(&value, Dialect::V1_1),
            ["/revoked_at: does not fit the status `active`"]
        );
        value["rotated_at"] = at;
        value["revoked_reason"] = json!("lost");
        value["status"] = json!("revoked");
        assert_eq!(faults(&value, Dialect::V1_1), [""; 0]);
    }
}
