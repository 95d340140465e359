//! Receipts of others: their JSON read and written as Python does, and the hash of an action.

use countersign_format::hash::Hash;
use countersign_format::json::{self, Map, Value};
use countersign_format::python::{PyValue, dumps, dumps_spaced, loads};
use countersign_format::receipt::{AgentAction, ReceiptForm, Record, check, recompute};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "receipt",
    holds: |data| holds(data, recompute),
    twin: |data| holds(data, |action| recompute(action).and(hash_of_canonical_json(action))),
    tries: 15_000,
    words: "{·}·[·]·,·:·\"·NaN·Infinity·-Infinity·1e400·-0.0·1.0·1e16·1e-5·0.1·\
        123456789012345678901234567890·\\ud800·\\udc00·\\u00e9·é·\u{10000}·\u{7f}·null·true·\
        \"gate_score\":·\"duration_ms\":·\"receipt_hash\":·\"canonical_fields\":·\
        \"success\":·\"action_type\":·\"tool_use\"·\"timestamp\":·\"metadata\":",
};

/// What somebody would write who does not know that a score is a float.
fn hash_of_canonical_json(action: &Value) -> Option<Hash> {
    let covered = |name: &String| ReceiptForm::Twelve.covers(name);
    let fields: Map<String, Value> =
        action.as_object()?.clone().into_iter().filter(|(name, _)| covered(name)).collect();
    Some(Hash::of(&json::to_bytes(&Value::Object(fields))))
}

fn holds(data: &[u8], recompute: fn(&Value) -> Option<Hash>) {
    if let Ok(value) = loads(data) {
        written_and_read(&value);
    }
    if let Ok(checked) = check(data) {
        assert_eq!(checked.hash, Hash::of(checked.canonical.as_bytes()));
        assert!(checked.canonical.is_ascii());
        assert_eq!(checked.action.canonical(checked.form), checked.canonical);
        let record = Record::new(checked.action, checked.form);
        assert_eq!(record.verify(), [], "a record made of it does not agree with itself");
        if let Ok(line) = record.to_line() {
            let again = Record::read(line.as_bytes()).map(|again| again.receipt_hash);
            assert_eq!(again, Ok(record.receipt_hash), "written, it has another hash");
        }
    }
    let Ok(value) = json::read(data) else { return };
    if let Ok(action) = AgentAction::from_json(&value) {
        let short = recompute(&value);
        assert_eq!(short, Some(action.receipt_hash(ReceiptForm::Twelve)), "the short way differs");
        if let Ok(written) = action.to_json() {
            assert_eq!(recompute(&written), short, "written, it has another hash");
        }
    }
}

fn written_and_read(value: &PyValue) {
    let text = dumps(value);
    assert!(text.is_ascii(), "not ASCII");
    let again = loads(text.as_bytes()).expect("what is written can be read");
    assert_eq!(dumps(&again), text, "written twice it differs");
    let spaced = loads(dumps_spaced(value).as_bytes()).expect("what is written can be read");
    assert_eq!(dumps(&spaced), text, "with blanks it differs");
}
