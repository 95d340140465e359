//! Every byte of a proof counts. The file is canonical, every line is under its hash, every hash under
//! a root, the roots under signatures that have one form, and the paths have one length: nothing is
//! left over that could be changed without a meaning.

use countersign_format::proof::{InclusionStatus, PortableProof};

use countersign_verify::{refuse_proof, verify_equivocation};

use crate::forge::{Forge, RECORDER, judge, options};

/// Whether somebody could take these bytes for the proof of an event.
fn is_taken(bytes: &[u8]) -> bool {
    match PortableProof::read(bytes) {
        Ok(PortableProof::Event(proof)) => {
            judge(&proof).inclusion_status == InclusionStatus::Included
        }
        Ok(PortableProof::Equivocation(proof)) => {
            verify_equivocation(&proof, &options()).failures.is_empty()
        }
        Err(fault) => {
            assert_eq!(refuse_proof(&fault, &options()).inclusion_status, InclusionStatus::Fail);
            false
        }
    }
}

#[test]
fn no_flipped_bit_deleted_byte_or_cut_is_taken_for_the_proof() {
    let bytes = Forge::closed(2).proof(1, RECORDER).to_bytes();
    assert!(is_taken(&bytes));
    let length = bytes.len() - 1;
    // The one exception: readers take every patch of a schema.
    let patch = bytes.windows(7).position(|it| it == b"\"1.1.0\"}").map(|at| at + 5);
    for at in (0..length).filter(|&at| Some(at) != patch) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 6);
        assert!(!is_taken(&flipped), "a bit of byte {at}");
        if at % 4 == 0 {
            let mut without = bytes.clone();
            without.remove(at);
            assert!(!is_taken(&without), "without byte {at}");
            assert!(!is_taken(&bytes[..at]), "cut at {at}");
        }
    }
}

#[test]
fn no_text_or_number_of_a_proof_can_be_that_of_another() {
    let one = serde_json::to_value(Forge::closed(3).proof(1, RECORDER)).unwrap();
    let other = serde_json::to_value(Forge::closed(5).proof(2, RECORDER)).unwrap();
    let mut places = Vec::new();
    leaves(&one, String::new(), &mut places);
    let mut changed = 0;
    for place in places {
        let Some(foreign) = other.pointer(&place) else { continue };
        let mut mixed = one.clone();
        let there = mixed.pointer_mut(&place).unwrap();
        if there == foreign {
            continue;
        }
        *there = foreign.clone();
        changed += 1;
        let bytes = countersign_format::json::to_bytes(&mixed);
        assert!(!is_taken(&bytes), "{place}");
    }
    assert!(changed > 10, "{changed}");
}

fn leaves(value: &serde_json::Value, at: String, out: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(members) => {
            members.iter().for_each(|(key, inner)| leaves(inner, format!("{at}/{key}"), out));
        }
        serde_json::Value::Array(elements) => {
            let elements = elements.iter().enumerate();
            elements.for_each(|(place, inner)| leaves(inner, format!("{at}/{place}"), out));
        }
        _ => out.push(at),
    }
}
