//! Whether records follow each other.
//!
//! Only the four steps of the specification: `parent_action_id`, times and the uniqueness of ids
//! are not looked at, and a chain that was cut at its end is still a chain.

use super::Record;
use crate::hash::Hash;
use crate::python::PyString;
use crate::text;

/// The first place at which records are not a chain. Indices count from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// A record says one thing and hashed another.
    #[error(
        "record {index} gives `{field}` as {}, its `canonical_fields` as {}",
        text::escape(own),
        text::escape(canonical)
    )]
    FieldsDiffer {
        /// The record.
        index: usize,
        /// The field.
        field: &'static str,
        /// Its JSON text in the record.
        own: String,
        /// Its JSON text in `canonical_fields`.
        canonical: String,
    },
    /// The stored hash is not that of the stored fields.
    #[error("record {index} has `receipt_hash` {stored}, computed {computed}")]
    HashMismatch {
        /// The record.
        index: usize,
        /// What it says.
        stored: Hash,
        /// What its `canonical_fields` give.
        computed: Hash,
    },
    /// The first record claims to follow another.
    #[error("record 0 has `parent_receipt_hash` {}, expected null", text::escape(&found.to_lossy()))]
    FirstHasParent {
        /// What it claims to follow.
        found: PyString,
    },
    /// A record does not follow the one before it.
    #[error(
        "record {index} does not follow record {}: expected `parent_receipt_hash` {expected}, found {}",
        index.saturating_sub(1),
        text::escape(&shown(found.as_ref()))
    )]
    WrongParent {
        /// The record.
        index: usize,
        /// The receipt hash of the record before it.
        expected: Hash,
        /// What it claims to follow; null is `None`.
        found: Option<PyString>,
    },
}

fn shown(parent: Option<&PyString>) -> String {
    parent.map_or_else(|| "null".to_owned(), PyString::to_lossy)
}

/// Checks that every record agrees with itself and follows the one before it. No record at all is
/// a chain.
pub fn verify_chain<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<(), ChainFault> {
    let mut previous: Option<Hash> = None;
    for (index, record) in records.into_iter().enumerate() {
        if let Some((field, own, canonical)) = record.disagreement() {
            return Err(ChainFault::FieldsDiffer { index, field, own, canonical });
        }
        let computed = record.computed_hash();
        if computed != record.receipt_hash {
            let stored = record.receipt_hash;
            return Err(ChainFault::HashMismatch { index, stored, computed });
        }
        let found = record.action.parent_receipt_hash.clone();
        match (previous, found) {
            (None, Some(found)) => return Err(ChainFault::FirstHasParent { found }),
            (Some(expected), found)
                if found.as_ref().is_none_or(|found| *found != *expected.to_hex()) =>
            {
                return Err(ChainFault::WrongParent { index, expected, found });
            }
            _ => {}
        }
        previous = Some(computed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::{AgentAction, ReceiptForm};

    fn action() -> AgentAction {
        let hash = Hash::of(b"").to_hex();
        AgentAction::from_json(&serde_json::json!({
            "action_id": "act_0000", "action_type": "tool_call", "instruction_hash": hash,
            "input_hash": hash, "output_hash": hash, "success": true, "duration_ms": 45,
            "timestamp": "2024-01-15T10:30:00Z",
        }))
        .unwrap()
    }

    fn chain(form: ReceiptForm, length: usize) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        for index in 0..length {
            let mut action =
                AgentAction { action_id: format!("act_{index:04}").into(), ..action() };
            if let Some(parent) = records.last() {
                action.parent_action_id = Some(parent.action.action_id.clone());
                action.parent_receipt_hash = Some(parent.receipt_hash.to_hex().into());
            }
            records.push(Record::new(action, form));
        }
        records
    }

    #[test]
    fn honest_chains_of_both_forms_verify() {
        verify_chain([]).unwrap();
        for form in [ReceiptForm::Twelve, ReceiptForm::Thirteen] {
            for length in 1..5 {
                verify_chain(&chain(form, length)).unwrap();
            }
        }
    }

    #[test]
    fn a_chain_is_refused_at_its_first_fault() {
        type Damage = fn(&mut Vec<Record>);
        let cases: [(Damage, &str); 9] = [
            (
                |records| records[2].action.success = false,
                "record 2 gives `success` as false, its `canonical_fields` as true",
            ),
            (
                |records| records[2].action.timestamp = "\u{1b}[2J".into(),
                "record 2 gives `timestamp` as \"\\u001b[2J\", its `canonical_fields` as \"2024-01-15T10:30:00Z\"",
            ),
            (
                |records| records[1].receipt_hash = Hash::GENESIS,
                "record 1 has `receipt_hash` ZERO, computed H1",
            ),
            (
                |records| drop(records.remove(0)),
                "record 0 has `parent_receipt_hash` H0, expected null",
            ),
            (
                |records| drop(records.remove(1)),
                "record 1 does not follow record 0: expected `parent_receipt_hash` H0, found H1",
            ),
            (
                |records| records.swap(2, 3),
                "record 2 does not follow record 1: expected `parent_receipt_hash` H1, found H2",
            ),
            (
                |records| records.push(records[0].clone()),
                "record 4 does not follow record 3: expected `parent_receipt_hash` H3, found null",
            ),
            (
                |records| {
                    let action = AgentAction {
                        parent_receipt_hash: Some("\u{1b}c".into()),
                        ..records[3].action.clone()
                    };
                    records[3] = Record::new(action, ReceiptForm::Thirteen);
                },
                "record 3 does not follow record 2: expected `parent_receipt_hash` H2, found \\u{1b}c",
            ),
            (
                |records| {
                    let action = AgentAction { success: false, ..records[1].action.clone() };
                    records[1] = Record::new(action, ReceiptForm::Thirteen);
                },
                "record 2 does not follow record 1: expected `parent_receipt_hash` NEW, found H1",
            ),
        ];
        for (damage, expected) in cases {
            let honest = chain(ReceiptForm::Thirteen, 4);
            let mut records = honest.clone();
            damage(&mut records);
            let mut found = verify_chain(&records).unwrap_err().to_string();
            for (index, record) in honest.iter().enumerate() {
                found = found.replace(&record.receipt_hash.to_hex(), &format!("H{index}"));
            }
            found = found.replace(&Hash::GENESIS.to_hex(), "ZERO");
            found = found.replace(&records[1].receipt_hash.to_hex(), "NEW");
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_chain_fault_carries_both_values() {
        let mut records = chain(ReceiptForm::Twelve, 2);
        records[1] = Record::new(action(), ReceiptForm::Twelve);
        let expected = records[0].receipt_hash;
        assert_eq!(
            verify_chain(&records),
            Err(ChainFault::WrongParent { index: 1, expected, found: None })
        );
        records.remove(1);
        let action = AgentAction { parent_receipt_hash: Some("x".into()), ..action() };
        records[0] = Record::new(action, ReceiptForm::Twelve);
        let found = PyString::from("x");
        assert_eq!(verify_chain(&records), Err(ChainFault::FirstHasParent { found }));
    }

    #[test]
    fn a_chain_cut_at_its_end_is_still_a_chain() {
        let records = chain(ReceiptForm::Thirteen, 4);
        verify_chain(&records[..2]).unwrap();
    }
}
