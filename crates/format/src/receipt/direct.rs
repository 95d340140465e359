//! The receipt hash of an action that stands in an event, straight from its members.
//!
//! Gives what [`AgentAction::from_json`](super::AgentAction::from_json) and its hash of twelve fields
//! give, without a copy of the action: a trace may hold a million of them. Takes for granted that
//! the event's schema holds, and gives nothing where a member has another type.

use std::fmt::Write as _;

use crate::hash::Hash;
use crate::json::Value;
use crate::python::{write_float, write_text};

/// Longest usual text of the twelve fields.
const CAPACITY: usize = 768;

/// The receipt hash of an action; none if it is misshapen.
#[must_use]
pub fn recompute(action: &Value) -> Option<Hash> {
    canonical(action).map(|text| Hash::of(text.as_bytes()))
}

/// The text that is hashed: the fields in the order of their names.
fn canonical(action: &Value) -> Option<String> {
    let mut out = String::with_capacity(CAPACITY);
    let member = |name: &str| action.get(name).unwrap_or(&Value::Null);
    out.push_str("{\"action_id\":");
    text(member("action_id"), &mut out)?;
    out.push_str(",\"action_type\":");
    text(member("action_type"), &mut out)?;
    out.push_str(",\"duration_ms\":");
    let _ = write!(out, "{}", member("duration_ms").as_i64()?);
    out.push_str(",\"gate_decision\":");
    nullable(member("gate_decision"), text, &mut out)?;
    out.push_str(",\"gate_score\":");
    nullable(member("gate_score"), score, &mut out)?;
    out.push_str(",\"input_hash\":");
    text(member("input_hash"), &mut out)?;
    out.push_str(",\"instruction_hash\":");
    text(member("instruction_hash"), &mut out)?;
    out.push_str(",\"output_hash\":");
    text(member("output_hash"), &mut out)?;
    out.push_str(",\"parent_action_id\":");
    nullable(member("parent_action_id"), text, &mut out)?;
    out.push_str(",\"parent_receipt_hash\":");
    nullable(member("parent_receipt_hash"), text, &mut out)?;
    out.push_str(",\"success\":");
    out.push_str(if member("success").as_bool()? { "true" } else { "false" });
    out.push_str(",\"timestamp\":");
    text(member("timestamp"), &mut out)?;
    out.push('}');
    Some(out)
}

fn text(value: &Value, out: &mut String) -> Option<()> {
    write_text(value.as_str()?, out);
    Some(())
}

/// A score is a float: canonical JSON has written `1.0` as `1`.
fn score(value: &Value, out: &mut String) -> Option<()> {
    write_float(value.as_f64()?, out);
    Some(())
}

fn nullable(
    value: &Value,
    write: fn(&Value, &mut String) -> Option<()>,
    out: &mut String,
) -> Option<()> {
    match value {
        Value::Null => {
            out.push_str("null");
            Some(())
        }
        value => write(value, out),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::receipt::{ActionType, AgentAction, GateDecision};

    fn nullable<T: std::fmt::Debug + Clone>(
        some: impl Strategy<Value = T>,
    ) -> impl Strategy<Value = Option<T>> {
        proptest::option::of(some)
    }

    fn score() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            Just(json!(0)),
            Just(json!(1)),
            (0.0..1.0_f64).prop_map(|score| json!(score)),
            any::<f64>().prop_filter("finite", |score| score.is_finite()).prop_map(|it| json!(it)),
        ]
    }

    prop_compose! {
        fn action()(
            texts in proptest::array::uniform5(any::<String>()),
            parents in (nullable(any::<String>()), nullable(any::<String>())),
            kind in proptest::sample::select(ActionType::NAMES),
            decision in nullable(proptest::sample::select(GateDecision::NAMES)),
            score in score(),
            success in any::<bool>(),
            duration in 0..=crate::json::INTEGER_MAX,
            absent in any::<bool>(),
        ) -> Value {
            let [id, instruction, input, output, time] = texts;
            let mut action = json!({
                "action_id": id, "action_type": kind, "instruction_hash": instruction,
                "input_hash": input, "output_hash": output, "gate_score": score,
                "gate_decision": decision, "success": success, "duration_ms": duration,
                "timestamp": time, "metadata": { "a": [1] },
            });
            // What is absent is null.
            if !absent || parents.0.is_some() {
                action["parent_action_id"] = json!(parents.0);
                action["parent_receipt_hash"] = json!(parents.1);
            }
            // An event holds what its canonical bytes hold.
            crate::json::read(&crate::json::to_bytes(&action)).unwrap_or_default()
        }
    }

    proptest! {
        #[test]
        fn the_text_is_that_of_the_action(action in action()) {
            let Ok(slow) = AgentAction::from_json(&action) else { return Ok(()) };
            prop_assert_eq!(canonical(&action), Some(slow.canonical_12()));
        }
    }

    #[test]
    fn a_misshapen_action_has_no_hash() {
        let whole = json!({
            "action_id": "a", "action_type": "command", "instruction_hash": "b", "input_hash": "c",
            "output_hash": "d", "success": true, "duration_ms": 1, "timestamp": "e",
        });
        assert!(recompute(&whole).is_some());
        let names: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
        for name in names {
            let mut action = whole.clone();
            action[name.as_str()] = json!([]);
            assert_eq!(recompute(&action), None, "{name}");
        }
    }
}
