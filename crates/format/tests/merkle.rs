//! The tree against the recursive definition of RFC 6962, and every proof against its mutants.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test may fail loudly")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use countersign_format::hash::Hash;
use countersign_format::merkle::{
    BadFrontier, Frontier, ProofError, TREE_SIZE_MAX, consistency_proof, empty_root,
    inclusion_proof, root, verify_consistency, verify_inclusion,
};

const SIZES: usize = 130;

fn leaves() -> Vec<Hash> {
    (0..SIZES).map(|index| Hash::of(format!("event {index}").as_bytes())).collect()
}

/// The recursive definitions of RFC 6962, section 2.1, over the leaves `from..to`.
struct Naive {
    leaves: Vec<Hash>,
    /// Roots that were asked for before; the definition itself would compute them again.
    roots: RefCell<BTreeMap<(usize, usize), Hash>>,
}

impl Naive {
    fn new() -> Self {
        Self { leaves: leaves(), roots: RefCell::default() }
    }

    /// MTH.
    fn root(&self, from: usize, to: usize) -> Hash {
        if let Some(root) = self.roots.borrow().get(&(from, to)) {
            return *root;
        }
        let root = match to - from {
            0 => Hash::of(b""),
            1 => Hash::of_pieces(&[&[0], self.leaves[from].as_bytes()]),
            size => {
                let middle = from + largest_power_below(size);
                let (left, right) = (self.root(from, middle), self.root(middle, to));
                Hash::of_pieces(&[&[1], left.as_bytes(), right.as_bytes()])
            }
        };
        self.roots.borrow_mut().insert((from, to), root);
        root
    }

    /// PATH.
    fn path(&self, index: usize, from: usize, to: usize) -> Vec<Hash> {
        if to - from == 1 {
            return Vec::new();
        }
        let middle = from + largest_power_below(to - from);
        let (mut path, sibling) = if index < middle {
            (self.path(index, from, middle), self.root(middle, to))
        } else {
            (self.path(index, middle, to), self.root(from, middle))
        };
        path.push(sibling);
        path
    }

    /// SUBPROOF, for the old tree that ends at `old`.
    fn subproof(&self, old: usize, from: usize, to: usize) -> Vec<Hash> {
        if old == to {
            return if from == 0 { Vec::new() } else { vec![self.root(from, to)] };
        }
        let middle = from + largest_power_below(to - from);
        let (mut proof, sibling) = if old <= middle {
            (self.subproof(old, from, middle), self.root(middle, to))
        } else {
            (self.subproof(old, middle, to), self.root(from, middle))
        };
        proof.push(sibling);
        proof
    }

    fn roots(&self) -> Vec<Hash> {
        (0..=SIZES).map(|size| self.root(0, size)).collect()
    }
}

fn largest_power_below(size: usize) -> usize {
    let mut power = 1;
    while power * 2 < size {
        power *= 2;
    }
    power
}

/// On which side the sibling lies, from the leaf up: what a path without its nodes is.
fn shape(index: usize, size: usize) -> Vec<bool> {
    if size == 1 {
        return Vec::new();
    }
    let k = largest_power_below(size);
    let mut sides = if index < k { shape(index, k) } else { shape(index - k, size - k) };
    sides.push(index < k);
    sides
}

fn flipped(proof: &[Hash], node: usize, bit: usize) -> Vec<Hash> {
    let mut proof = proof.to_vec();
    let mut bytes = *proof[node].as_bytes();
    bytes[bit / 8] ^= 1 << (bit % 8);
    proof[node] = Hash::from_bytes(bytes);
    proof
}

/// Every proof with one node altered, dropped or added, and in reverse.
fn mutants(proof: &[Hash], salt: usize) -> Vec<Vec<Hash>> {
    let mut mutants = Vec::new();
    for place in 0..=proof.len() {
        let mut longer = proof.to_vec();
        longer.insert(place, Hash::GENESIS);
        mutants.push(longer);
    }
    for place in 0..proof.len() {
        mutants.push(flipped(proof, place, (salt * 7 + place * 31) % 256));
        let mut shorter = proof.to_vec();
        shorter.remove(place);
        mutants.push(shorter);
    }
    if proof.len() > 1 {
        let mut reversed = proof.to_vec();
        reversed.reverse();
        mutants.push(reversed);
    }
    mutants
}

fn long(number: usize) -> u64 {
    u64::try_from(number).unwrap()
}

#[test]
fn the_frontier_agrees_with_the_recursive_definition() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    let mut frontier = Frontier::new();
    for size in 0..=SIZES {
        assert_eq!(frontier.size(), long(size));
        assert_eq!(frontier.root(), naive.root(0, size), "size {size}");
        assert_eq!(root(&leaves[..size]), frontier.root());
        if let Some(leaf) = leaves.get(size) {
            frontier.push(leaf);
        }
    }
}

#[test]
fn every_inclusion_proof_is_the_defined_one_and_holds() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    for size in 1..=SIZES {
        let root = naive.root(0, size);
        for index in 0..size {
            let proof = inclusion_proof(leaves, long(index), long(size)).unwrap();
            assert_eq!(proof, naive.path(index, 0, size), "{index} of {size}");
            verify_inclusion(&leaves[index], long(index), long(size), &proof, &root).unwrap();
        }
    }
}

#[test]
fn an_altered_inclusion_proof_never_holds() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    for size in 1..=SIZES {
        let root = naive.root(0, size);
        for index in 0..size {
            let (at, of) = (long(index), long(size));
            let proof = naive.path(index, 0, size);
            for mutant in mutants(&proof, size * SIZES + index) {
                assert!(verify_inclusion(&leaves[index], at, of, &mutant, &root).is_err());
            }
            let next = &leaves[(index + 1) % SIZES];
            assert!(verify_inclusion(next, at, of, &proof, &root).is_err());
            assert!(verify_inclusion(&leaves[index], at, of, &proof, &empty_root()).is_err());
        }
    }
}

#[test]
fn every_single_bit_of_a_proof_counts() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    let root = naive.root(0, 100);
    let proof = naive.path(77, 0, 100);
    let old = naive.root(0, 77);
    let growth = naive.subproof(77, 0, 100);
    for bit in 0..256 {
        for node in 0..proof.len() {
            let mutant = flipped(&proof, node, bit);
            assert!(verify_inclusion(&leaves[77], 77, 100, &mutant, &root).is_err());
        }
        for node in 0..growth.len() {
            let mutant = flipped(&growth, node, bit);
            assert!(verify_consistency(77, &old, 100, &root, &mutant).is_err());
        }
    }
}

#[test]
fn an_inclusion_proof_holds_for_no_other_index() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    for size in 1..=SIZES {
        let root = naive.root(0, size);
        for (index, leaf) in leaves[..size].iter().enumerate() {
            let proof = naive.path(index, 0, size);
            let reach = if size <= 33 { size } else { 4 };
            let near = index.saturating_sub(reach)..(index + reach).min(size + 2);
            for other in near.filter(|&other| other != index) {
                let result = verify_inclusion(leaf, long(other), long(size), &proof, &root);
                assert!(result.is_err(), "{index} as {other} of {size}");
            }
        }
    }
}

/// A path is a list of hashes and of sides, and the sides do not always tell two sizes apart. That
/// is why sizes and roots are signed together: with the root of the wrong size no proof holds.
#[test]
fn an_inclusion_proof_for_another_size_holds_only_where_the_path_has_the_same_sides() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    let roots = naive.roots();
    for size in 1..=SIZES {
        for index in (0..size).step_by(3) {
            let proof = naive.path(index, 0, size);
            for other in (0..=SIZES).filter(|&other| other != size) {
                let check = |root: &Hash| {
                    verify_inclusion(&leaves[index], long(index), long(other), &proof, root)
                };
                assert!(check(&roots[other]).is_err(), "{index} of {size} as {other}");
                let same_sides = index < other && shape(index, other) == shape(index, size);
                assert_eq!(check(&roots[size]).is_ok(), same_sides);
            }
        }
    }
}

#[test]
fn every_consistency_proof_is_the_defined_one_and_holds() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    let roots = naive.roots();
    for new in 0..=SIZES {
        for old in 0..=new {
            let proof = consistency_proof(leaves, long(old), long(new)).unwrap();
            if old > 0 {
                assert_eq!(proof, naive.subproof(old, 0, new), "{old} to {new}");
            }
            verify_consistency(long(old), &roots[old], long(new), &roots[new], &proof).unwrap();
        }
    }
}

#[test]
fn an_altered_consistency_proof_never_holds() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    let roots = naive.roots();
    let other = Hash::of(b"other");
    for new in 0..=SIZES {
        for old in 0..=new {
            let (from, to) = (long(old), long(new));
            let proof = consistency_proof(leaves, from, to).unwrap();
            for mutant in mutants(&proof, old * SIZES + new) {
                let result = verify_consistency(from, &roots[old], to, &roots[new], &mutant);
                assert!(result.is_err(), "{old} to {new}");
            }
            assert!(verify_consistency(from, &other, to, &roots[new], &proof).is_err());
            // Everything grows from nothing, so the empty tree says nothing about what follows.
            let unknown = verify_consistency(from, &roots[old], to, &other, &proof);
            assert_eq!(unknown.is_ok(), old == 0 && new > 0);
        }
    }
}

#[test]
fn a_consistency_proof_holds_for_no_other_sizes_with_their_roots() {
    let naive = Naive::new();
    let roots = naive.roots();
    for new in 1..=20 {
        for old in 1..new {
            let proof = naive.subproof(old, 0, new);
            for wrong in (1..=35).filter(|&wrong| wrong != old && wrong != new) {
                let (low, high) = (old.min(wrong), old.max(wrong));
                for (a, b) in [(wrong, new), (old, wrong), (low, high)] {
                    let expected = a <= b && naive.subproof(a, 0, b) == proof;
                    let result = verify_consistency(long(a), &roots[a], long(b), &roots[b], &proof);
                    assert_eq!(result.is_ok(), expected, "{old} to {new} as {a} to {b}");
                }
            }
        }
    }
}

#[test]
fn requests_outside_of_the_tree_are_refused() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    let genesis = Hash::GENESIS;
    assert_eq!(inclusion_proof(leaves, 5, 5), Err(ProofError::NoSuchLeaf { index: 5, size: 5 }));
    assert_eq!(
        inclusion_proof(leaves, 5, 131),
        Err(ProofError::LeavesMissing { size: 131, found: 130 })
    );
    assert_eq!(consistency_proof(leaves, 5, 4), Err(ProofError::SizesReversed { old: 5, new: 4 }));
    assert_eq!(
        consistency_proof(leaves, 5, u64::MAX),
        Err(ProofError::LeavesMissing { size: u64::MAX, found: 130 })
    );
    for (index, size) in [(0, 0), (u64::MAX, u64::MAX), (7, 7), (u64::MAX, 1)] {
        let result = verify_inclusion(&genesis, index, size, &[], &genesis);
        assert_eq!(result, Err(ProofError::NoSuchLeaf { index, size }));
    }
}

#[test]
fn the_largest_sizes_neither_overflow_nor_loop() {
    let path = vec![Hash::GENESIS; 70];
    for nodes in 0..=70 {
        let proof = &path[..nodes];
        for size in [u64::MAX, u64::MAX - 1, 1 << 63] {
            for index in [0, 1, size / 2, size - 1] {
                assert!(verify_inclusion(&path[0], index, size, proof, &path[0]).is_err());
                let old = index.max(1);
                assert!(verify_consistency(old, &path[0], size, &path[0], proof).is_err());
            }
        }
    }
}

#[test]
fn a_leaf_cannot_be_passed_off_as_a_node() {
    let naive = Naive::new();
    let root = naive.root(0, 2);
    assert!(verify_inclusion(&root, 0, 1, &[], &root).is_err());
}

#[test]
fn a_stored_frontier_continues_where_it_stopped() {
    let naive = Naive::new();
    let leaves = &naive.leaves;
    for size in 0..SIZES {
        let mut frontier = Frontier::new();
        leaves[..size].iter().for_each(|leaf| frontier.push(leaf));
        let stored = serde_json::to_string(&frontier).unwrap();
        let mut loaded: Frontier = serde_json::from_str(&stored).unwrap();
        assert_eq!(loaded, frontier);
        loaded.push(&leaves[size]);
        assert_eq!(loaded.root(), naive.root(0, size + 1));
    }
}

#[test]
fn a_stored_frontier_that_cannot_be_is_refused() {
    let peak = Hash::GENESIS.to_hex();
    let two = BadFrontier::Peaks { size: 2, expected: 1, found: 0 };
    for (stored, message) in [
        (r#"{"size":2,"peaks":[]}"#.to_owned(), two.to_string()),
        (format!(r#"{{"size":0,"peaks":["{peak}"]}}"#), "has 0 subtrees, found 1".to_owned()),
        (format!(r#"{{"size":3,"peaks":["{peak}"]}}"#), "has 2 subtrees, found 1".to_owned()),
        (
            format!(r#"{{"size":9007199254740992,"peaks":["{peak}"]}}"#),
            format!("at most {TREE_SIZE_MAX} leaves"),
        ),
        (r#"{"size":0,"peaks":[],"root":""}"#.to_owned(), "unknown field".to_owned()),
    ] {
        let error = serde_json::from_str::<Frontier>(&stored).unwrap_err().to_string();
        assert!(error.contains(&message), "{error}");
    }
}
