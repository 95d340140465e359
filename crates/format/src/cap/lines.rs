//! The lines of `actions.jsonl`, written straight from the action that an event carries.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use crate::hash::Hash;
use crate::python::{write_float, write_text};
use crate::receipt::PolicyVerdict;

/// The fields of an action, in the order of the specification.
const FIELDS: [&str; 14] = [
    "action_id",
    "action_type",
    "instruction_hash",
    "input_hash",
    "output_hash",
    "parent_action_id",
    "parent_receipt_hash",
    "gate_score",
    "gate_decision",
    "policy_verdict",
    "success",
    "duration_ms",
    "timestamp",
    "metadata",
];
/// Which of them are hashed, in the order in which they are.
const HASHED: [&str; 12] = [
    "action_id",
    "action_type",
    "duration_ms",
    "gate_decision",
    "gate_score",
    "input_hash",
    "instruction_hash",
    "output_hash",
    "parent_action_id",
    "parent_receipt_hash",
    "success",
    "timestamp",
];

/// The line of an action, without its line break; see [`write_record_line`].
#[must_use]
pub fn record_line(action: &Map<String, Value>, receipt: &Hash, verdict: PolicyVerdict) -> String {
    let mut line = String::new();
    write_record_line(action, receipt, Some(verdict), &mut line);
    line
}

/// Appends the line of an action that an event carries, keys in CapSeal's order, the hash over twelve
/// fields. For an action that may stand in an event this is what
/// [`Record::to_line`](crate::receipt::Record::to_line) gives, in a fraction of the time.
pub fn write_record_line(
    action: &Map<String, Value>,
    receipt: &Hash,
    verdict: Option<PolicyVerdict>,
    out: &mut String,
) {
    out.push('{');
    for name in FIELDS {
        let _ = write!(out, "\"{name}\": ");
        match (name, verdict) {
            ("policy_verdict", Some(verdict)) => write_text(verdict.as_str(), out),
            _ => write_field(name, action, out),
        }
        out.push_str(", ");
    }
    let _ = write!(out, "\"receipt_hash\": \"{receipt}\", \"canonical_fields\": {{");
    for (index, name) in HASHED.into_iter().enumerate() {
        let before = if index == 0 { "" } else { ", " };
        let _ = write!(out, "{before}\"{name}\": ");
        write_field(name, action, out);
    }
    out.push_str("}}");
}

fn write_field(name: &str, action: &Map<String, Value>, out: &mut String) {
    match action.get(name) {
        // Canonical JSON writes 1.0 as 1; a score is a float all the same.
        Some(Value::Number(number)) if name == "gate_score" => {
            write_float(number.as_f64().unwrap_or(f64::NAN), out);
        }
        Some(value) => write_value(value, out),
        None => out.push_str("null"),
    }
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_value(element, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            // A map may keep its members as they came; a record has them in order.
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            for (index, (key, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_text(key, out);
                out.push_str(": ");
                write_value(member, out);
            }
            out.push('}');
        }
    }
}

/// A number that canonical JSON writes without fraction and exponent is an integer to Python.
fn write_number(number: &Number, out: &mut String) {
    const INTEGERS: f64 = crate::json::INTEGER_MAX as f64;
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => {
            let _ = write!(out, "{integer}");
        }
        (None, Some(float)) if float.fract() == 0.0 && float.abs() <= INTEGERS => {
            let _ = write!(out, "{float:.0}");
        }
        (None, float) => write_float(float.unwrap_or(f64::NAN), out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::{AgentAction, ReceiptForm, Record};

    #[test]
    fn a_line_is_that_of_the_record_of_its_action() {
        let hash = Hash::of(b"").to_hex();
        let plain = serde_json::json!({
            "action_id": "act_0001", "action_type": "tool_call", "instruction_hash": hash,
            "input_hash": hash, "output_hash": hash, "parent_action_id": null,
            "parent_receipt_hash": null, "gate_score": null, "gate_decision": null,
            "policy_verdict": "PROOF_ONLY", "success": true, "duration_ms": 45,
            "timestamp": "2024-01-15T10:30:00Z", "metadata": null,
        });
        let mut odd = plain.clone();
        odd["gate_score"] = 1.into();
        odd["gate_decision"] = "human_approved".into();
        odd["parent_action_id"] = "a\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}\u{e9}\u{4e2d}\u{1f680}/".into();
        odd["parent_receipt_hash"] = hash.as_str().into();
        odd["metadata"] = serde_json::json!({
            "z": [1, 2.5, 1e-7, 1e21, -3, true, null, {}], "\u{ffff}": "x", "\u{10000}": {"a": []},
        });
        let mut small = plain.clone();
        small["gate_score"] = 0.083_333.into();
        for value in [plain, odd, small] {
            // As it is after a way through an event.
            let value = crate::json::read(&crate::json::to_bytes(&value)).unwrap();
            let action = AgentAction::from_json(&value).unwrap();
            let record = Record::new(action, ReceiptForm::Twelve);
            let mut line = String::new();
            let members = value.as_object().unwrap();
            write_record_line(members, &record.receipt_hash, None, &mut line);
            assert_eq!(line, record.to_line().unwrap());
            let mut enforced = record.action.clone();
            enforced.policy_verdict = Some(PolicyVerdict::FullyVerified);
            let enforced = Record::new(enforced, ReceiptForm::Twelve);
            let line = record_line(members, &record.receipt_hash, PolicyVerdict::FullyVerified);
            assert_eq!(line, enforced.to_line().unwrap());
        }
    }
}
