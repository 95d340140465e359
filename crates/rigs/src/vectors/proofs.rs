//! Vectors of the Merkle tree, its proofs, and the checkpoint in a signed note.

use countersign_format::hash::{Hash, hex};
use countersign_format::key::SecretKey;
use countersign_format::merkle::{
    consistency_proof, inclusion_proof, root, verify_consistency, verify_inclusion,
};
use countersign_format::note::{Checkpoint, NoteKey, SignedNote, origin};
use serde_json::{Value, json};

use super::cannot;

const LEAVES: u64 = 11;

fn leaves() -> Vec<Hash> {
    (0..LEAVES).map(|index| Hash::of(format!("event {index}").as_bytes())).collect()
}

fn root_of(leaves: &[Hash], size: u64) -> Hash {
    root(leaves.get(..usize::try_from(size).unwrap_or(0)).unwrap_or_default())
}

/// The file `merkle.json`.
pub(super) fn merkle() -> Result<Value, String> {
    let leaves = leaves();
    let roots: Vec<Hash> = (0..=LEAVES).map(|size| root_of(&leaves, size)).collect();
    let mut inclusion = Vec::new();
    for (index, size) in [(0, 1), (0, 2), (1, 2), (2, 3), (0, 7), (6, 7), (3, 8), (8, 9), (10, 11)]
    {
        let proof = inclusion_proof(&leaves, index, size);
        let proof = proof.map_err(|error| cannot("prove inclusion", error))?;
        inclusion.push(json!({ "index": index, "size": size, "proof": proof }));
    }
    let mut consistency = Vec::new();
    for (old, new) in [(0, 5), (1, 2), (1, 11), (2, 3), (3, 7), (4, 8), (6, 11), (7, 7), (8, 9)] {
        let proof = consistency_proof(&leaves, old, new);
        let proof = proof.map_err(|error| cannot("prove consistency", error))?;
        consistency.push(json!({ "old_size": old, "new_size": new, "proof": proof }));
    }
    Ok(json!({
        "leaves": leaves,
        "roots": roots,
        "inclusion": inclusion,
        "consistency": consistency,
        "bad_inclusion": bad_inclusion(&leaves)?,
        "bad_consistency": bad_consistency(&leaves)?,
    }))
}

fn bad_inclusion(leaves: &[Hash]) -> Result<Vec<Value>, String> {
    let (index, size) = (3, 7);
    let proof = inclusion_proof(leaves, index, size);
    let proof = proof.map_err(|error| cannot("prove inclusion", error))?;
    let leaf = leaves.get(3).copied().unwrap_or(Hash::GENESIS);
    let other = Hash::of(b"other");
    let root = root_of(leaves, size);
    let mut swapped = proof.clone();
    swapped.reverse();
    let cases = [
        ("another leaf", other, index, size, proof.clone(), root),
        ("another place", leaf, 2, size, proof.clone(), root),
        ("another size", leaf, index, 20, proof.clone(), root),
        ("another root", leaf, index, size, proof.clone(), other),
        ("outside of the tree", leaf, 7, size, proof.clone(), root),
        ("empty tree", leaf, 0, 0, Vec::new(), root),
        ("no nodes", leaf, index, size, Vec::new(), root),
        ("a node too few", leaf, index, size, proof.iter().skip(1).copied().collect(), root),
        ("a node too many", leaf, index, size, [&proof[..], &[other]].concat(), root),
        ("nodes in another order", leaf, index, size, swapped, root),
    ];
    let mut bad = Vec::new();
    for (name, leaf, index, size, proof, root) in cases {
        if verify_inclusion(&leaf, index, size, &proof, &root).is_ok() {
            return Err(format!("the inclusion proof `{name}` holds"));
        }
        bad.push(json!({
            "name": name, "leaf": leaf, "index": index, "size": size, "proof": proof, "root": root,
        }));
    }
    Ok(bad)
}

fn bad_consistency(leaves: &[Hash]) -> Result<Vec<Value>, String> {
    let (old, new) = (3, 7);
    let proof = consistency_proof(leaves, old, new);
    let proof = proof.map_err(|error| cannot("prove consistency", error))?;
    let (old_root, new_root, other) =
        (root_of(leaves, old), root_of(leaves, new), Hash::of(b"other"));
    let longer = [&proof[..], &[other]].concat();
    let cases = [
        ("another old root", old, other, new, new_root, proof.clone()),
        ("another new root", old, old_root, new, other, proof.clone()),
        ("sizes reversed", new, new_root, old, old_root, proof.clone()),
        ("no nodes", old, old_root, new, new_root, Vec::new()),
        ("a node too few", old, old_root, new, new_root, proof.iter().skip(1).copied().collect()),
        ("a node too many", old, old_root, new, new_root, longer),
        ("equal sizes, other roots", new, old_root, new, new_root, Vec::new()),
        ("equal sizes with a node", new, new_root, new, new_root, vec![other]),
        ("empty tree with another root", 0, other, new, new_root, Vec::new()),
        ("empty tree with a node", 0, root_of(leaves, 0), new, new_root, vec![other]),
    ];
    let mut bad = Vec::new();
    for (name, old, old_root, new, new_root, proof) in cases {
        if verify_consistency(old, &old_root, new, &new_root, &proof).is_ok() {
            return Err(format!("the consistency proof `{name}` holds"));
        }
        bad.push(json!({
            "name": name, "old_size": old, "old_root": old_root, "new_size": new,
            "new_root": new_root, "proof": proof,
        }));
    }
    Ok(bad)
}

fn signed() -> Result<(Checkpoint, NoteKey, SignedNote), String> {
    let fail = |error| cannot("sign a checkpoint", error);
    let origin = origin(&SecretKey::from_seed(&[1; 32]).public_key().fingerprint());
    let recorder = SecretKey::from_seed(&[2; 32]);
    let checkpoint = Checkpoint { origin, size: 7, root: root_of(&leaves(), 7) };
    let key = NoteKey::new(&checkpoint.origin, recorder.public_key()).map_err(fail)?;
    let note = checkpoint.sign(&recorder).map_err(fail)?;
    Ok((checkpoint, key, note))
}

/// The file `checkpoint.txt`.
pub(super) fn note() -> Result<String, String> {
    Ok(signed()?.2.to_string())
}

/// The file `checkpoint.json`: what `checkpoint.txt` was made of, and notes that must be refused.
pub(super) fn checkpoint() -> Result<Value, String> {
    let (checkpoint, key, note) = signed()?;
    let note = note.to_string();
    let witness = SignedNote::sign(
        &checkpoint.to_string(),
        "witness.example/w1",
        &SecretKey::from_seed(&[9; 32]),
    )
    .map_err(|error| cannot("sign a note", error))?;
    let their_line = witness.to_string().lines().last().unwrap_or_default().to_owned();
    let witnessed = format!("{note}{their_line}\n");
    let size = |text: &str| note.replacen("\n7\n", &format!("\n{text}\n"), 1);
    let refused = [
        ("another size", size("8")),
        ("size with a leading zero", size("07")),
        ("size with a sign", size("+7")),
        ("another origin", note.replacen("countersign/", "countersign/x", 1)),
        ("no final line break", note.trim_end().to_owned()),
        ("no empty line", note.replacen("\n\n", "\n", 1)),
        ("a line break of another system", note.replace('\n', "\r\n")),
        ("a hyphen for the dash", note.replace('\u{2014}', "-")),
        ("unpadded signature", format!("{}\n", note.trim_end().trim_end_matches('='))),
        ("unpadded root", note.replacen("=\n\n", "\n\n", 1)),
        ("only a witness", format!("{checkpoint}\n{their_line}\n")),
        ("no signature", format!("{checkpoint}\n")),
        ("a fourth, empty line", note.replacen("\n\n", "\n\n\n", 1)),
    ];
    let mut cases = Vec::new();
    for (name, text) in refused {
        let opened = SignedNote::parse(text.as_bytes())
            .and_then(|note| Checkpoint::open(&note, std::slice::from_ref(&key)));
        if opened.is_ok() {
            return Err(format!("the note `{name}` is accepted"));
        }
        cases.push(json!({ "name": name, "note": text }));
    }
    Ok(json!({
        "root_seed_hex": hex(&[1; 32]),
        "recorder_seed_hex": hex(&[2; 32]),
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root": checkpoint.root,
        "signed_text": checkpoint.to_string(),
        "key_hash_hex": hex(&key.hash()),
        "verifier_key": key.to_string(),
        "note": note,
        "with_a_witness": witnessed,
        "refused": cases,
    }))
}
