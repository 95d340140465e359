//! Trees: every proof that is made holds, and nothing near it does.

use countersign_format::hash::Hash;
use countersign_format::merkle::{
    Frontier, ProofError, consistency_proof, inclusion_proof, root, verify_consistency,
    verify_inclusion,
};

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "merkle",
    holds: |data| holds(data, verify_inclusion),
    twin: |data| {
        holds(data, |leaf, index, size, proof, root| {
            let enough = (0..=proof.len()).filter_map(|count| proof.get(..count));
            let mut short = enough.map(|proof| verify_inclusion(leaf, index, size, proof, root));
            short.find(Result::is_ok).unwrap_or(Err(ProofError::NoSuchLeaf { index, size }))
        });
    },
    tries: 8_000,
    words: "\0·\u{1}·\u{7f}",
};

type Verify = fn(&Hash, u64, u64, &[Hash], &Hash) -> Result<(), ProofError>;

/// Leaves of the largest tree that is tried.
const LEAVES_MAX: usize = 70;

fn holds(data: &[u8], verify: Verify) {
    let [size, index, change, byte, rest @ ..] = data else { return };
    let count = 1 + usize::from(*size) % LEAVES_MAX;
    let leaves: Vec<Hash> =
        (0..count).map(|at| Hash::of_pieces(&[rest, &at.to_le_bytes()])).collect();
    let size = count as u64;
    let index = u64::from(*index) % size;
    let tree = root(&leaves);
    let mut frontier = Frontier::new();
    leaves.iter().for_each(|leaf| frontier.push(leaf));
    assert_eq!((frontier.root(), frontier.size()), (tree, size), "two ways to one root");
    let leaf = *leaves.get(usize::try_from(index).unwrap_or_default()).expect("a leaf");
    let proof = inclusion_proof(&leaves, index, size).expect("the leaf is there");
    assert_eq!(verify(&leaf, index, size, &proof, &tree), Ok(()), "a true proof does not hold");
    near_misses(&leaf, index, size, &proof, &tree, (*change, *byte), verify);
    let old = u64::from(*change) % (size + 1);
    let older = root(leaves.get(..usize::try_from(old).unwrap_or_default()).unwrap_or_default());
    let proof = consistency_proof(&leaves, old, size).expect("both trees are there");
    assert_eq!(verify_consistency(old, &older, size, &tree, &proof), Ok(()));
    for at in 0..proof.len() {
        let wrong = changed(&proof, at, *byte);
        assert!(verify_consistency(old, &older, size, &tree, &wrong).is_err(), "node {at}");
    }
    let longer = [proof.as_slice(), &[tree]].concat();
    assert!(verify_consistency(old, &older, size, &tree, &longer).is_err(), "a node too many");
}

/// One thing is changed.
fn near_misses(
    leaf: &Hash,
    index: u64,
    size: u64,
    proof: &[Hash],
    tree: &Hash,
    (change, byte): (u8, u8),
    verify: Verify,
) {
    for at in 0..proof.len() {
        let wrong = changed(proof, at, byte);
        assert!(verify(leaf, index, size, &wrong, tree).is_err(), "another node {at}");
    }
    let other = u64::from(change) % size;
    if other != index {
        assert!(verify(leaf, other, size, proof, tree).is_err(), "at another place");
    }
    let longer = [proof, &[*tree]].concat();
    assert!(verify(leaf, index, size, &longer, tree).is_err(), "a node too many");
    if let Some((_, shorter)) = proof.split_last() {
        assert!(verify(leaf, index, size, shorter, tree).is_err(), "a node too few");
    }
    assert!(verify(tree, index, size, proof, tree).is_err(), "another leaf");
}

fn changed(proof: &[Hash], at: usize, byte: u8) -> Vec<Hash> {
    let mut proof = proof.to_vec();
    if let Some(node) = proof.get_mut(at) {
        let mut bytes = *node.as_bytes();
        let place = bytes.get_mut(usize::from(byte) % 32);
        place.into_iter().for_each(|it| *it ^= byte | 1);
        *node = Hash::from_bytes(bytes);
    }
    proof
}
