//! The Merkle tree of RFC 6962 over event hashes, and proofs about it.
//!
//! A leaf is the 32 raw bytes of an `event_hash`. Verifying is strict: a proof with a node too many
//! or too few is refused. A path does not bind the size of the tree, so a size and a root must come
//! from one checkpoint; signing those is left to [`crate::note`].

mod tree;

use serde::{Deserialize, Serialize};

use crate::hash::Hash;
use crate::json::INTEGER_MAX;
pub use tree::Tree;

/// Leaves that a stored frontier may claim: an integer that every JSON reader agrees about.
pub const TREE_SIZE_MAX: u64 = INTEGER_MAX.unsigned_abs();

/// The root of the tree without leaves.
#[must_use]
pub fn empty_root() -> Hash {
    Hash::of(b"")
}

/// The hash of a leaf that holds `data`.
fn leaf_hash(data: &[u8]) -> Hash {
    Hash::of_pieces(&[&[0], data])
}

fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Hash::of_pieces(&[&[1], left.as_bytes(), right.as_bytes()])
}

/// The root of the tree over all of `leaves`.
#[must_use]
pub fn root(leaves: &[Hash]) -> Hash {
    let mut frontier = Frontier::new();
    for leaf in leaves {
        frontier.push(leaf);
    }
    frontier.root()
}

/// What must be kept of a tree to append to it: the roots of its perfect subtrees, largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredFrontier")]
pub struct Frontier {
    size: u64,
    peaks: Vec<Hash>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFrontier {
    size: u64,
    peaks: Vec<Hash>,
}

/// A stored frontier that no sequence of appends could have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFrontier {
    /// The number of subtrees is not the number of ones in the binary size.
    #[error("a tree of {size} leaves has {expected} subtrees, found {found}")]
    Peaks {
        /// Leaves that the frontier claims.
        size: u64,
        /// Subtrees that such a tree has.
        expected: u32,
        /// Subtrees that the frontier holds.
        found: usize,
    },
    /// More leaves than [`TREE_SIZE_MAX`].
    #[error("a tree has at most {TREE_SIZE_MAX} leaves, found {size}")]
    TooLarge {
        /// Leaves that the frontier claims.
        size: u64,
    },
}

impl TryFrom<StoredFrontier> for Frontier {
    type Error = BadFrontier;

    fn try_from(StoredFrontier { size, peaks }: StoredFrontier) -> Result<Self, BadFrontier> {
        if size > TREE_SIZE_MAX {
            return Err(BadFrontier::TooLarge { size });
        }
        let (expected, found) = (size.count_ones(), peaks.len());
        if u32::try_from(found) != Ok(expected) {
            return Err(BadFrontier::Peaks { size, expected, found });
        }
        Ok(Self { size, peaks })
    }
}

impl Frontier {
    /// The frontier of the tree without leaves.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// Appends a leaf.
    pub fn push(&mut self, leaf: &Hash) {
        self.push_leaf_hash(leaf_hash(leaf.as_bytes()));
    }

    fn push_leaf_hash(&mut self, leaf: Hash) {
        let mut node = leaf;
        // Each trailing one of the size is a subtree that is as high as what we carry.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.peaks.push(node);
        self.size = self.size.saturating_add(1);
    }

    /// How many leaves were appended.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The root of the tree over them.
    #[must_use]
    pub fn root(&self) -> Hash {
        let joined =
            self.peaks.iter().rev().copied().reduce(|right, left| node_hash(&left, &right));
        joined.unwrap_or_else(empty_root)
    }
}

/// Why a proof cannot be made, or does not prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The leaf lies outside of the tree.
    #[error("leaf {index} is not in a tree of {size} leaves")]
    NoSuchLeaf {
        /// The leaf, from 0.
        index: u64,
        /// Leaves in the tree.
        size: u64,
    },
    /// The older tree is the larger one.
    #[error("a tree of {old} leaves cannot come before one of {new}")]
    SizesReversed {
        /// Leaves in the older tree.
        old: u64,
        /// Leaves in the newer tree.
        new: u64,
    },
    /// Fewer leaves are at hand than the tree has.
    #[error("a proof for {size} leaves needs all of them, found {found}")]
    LeavesMissing {
        /// Leaves in the tree.
        size: u64,
        /// Leaves at hand.
        found: usize,
    },
    /// The path has a node too many or too few.
    #[error("a path of {nodes} nodes does not fit a tree of {size} leaves")]
    Length {
        /// Nodes in the path.
        nodes: usize,
        /// Leaves in the tree.
        size: u64,
    },
    /// The path leads to another root.
    #[error("the proof leads to root `{found}`, expected `{expected}`")]
    Root {
        /// The root that was given.
        expected: Hash,
        /// The root that the proof leads to.
        found: Hash,
    },
}

fn first_leaves(leaves: &[Hash], size: u64) -> Result<&[Hash], ProofError> {
    usize::try_from(size)
        .ok()
        .and_then(|count| leaves.get(..count))
        .ok_or(ProofError::LeavesMissing { size, found: leaves.len() })
}

/// Splits two or more leaves after the largest power of two below their number.
fn split(leaves: &[Hash]) -> (&[Hash], &[Hash]) {
    leaves.split_at_checked(leaves.len().div_ceil(2).next_power_of_two()).unwrap_or((leaves, &[]))
}

/// The path that proves that leaf `index` is in the tree over the first `size` of `leaves`.
///
/// # Errors
/// If the leaf is not in that tree, or `leaves` does not hold all of it.
pub fn inclusion_proof(leaves: &[Hash], index: u64, size: u64) -> Result<Vec<Hash>, ProofError> {
    let outside = ProofError::NoSuchLeaf { index, size };
    if index >= size {
        return Err(outside);
    }
    let mut tree = first_leaves(leaves, size)?;
    let mut index = usize::try_from(index).map_err(|_| outside)?;
    let mut path = Vec::new();
    while tree.len() > 1 {
        let (left, right) = split(tree);
        if index < left.len() {
            path.push(root(right));
            tree = left;
        } else {
            path.push(root(left));
            index -= left.len();
            tree = right;
        }
    }
    path.reverse();
    Ok(path)
}

/// Checks that `leaf` is leaf `index` of the tree with `size` leaves and this `root`.
///
/// # Errors
/// If the leaf cannot be in that tree, the path does not fit it, or leads to another root.
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    proof: &[Hash],
    root: &Hash,
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::NoSuchLeaf { index, size });
    }
    let length = ProofError::Length { nodes: proof.len(), size };
    let (mut at, mut last) = (index, size - 1);
    let mut found = leaf_hash(leaf.as_bytes());
    for node in proof {
        if last == 0 {
            return Err(length);
        }
        if is_right_or_last(at, last) {
            found = node_hash(node, &found);
            skip_to_right(&mut at, &mut last);
        } else {
            found = node_hash(&found, node);
        }
        at >>= 1;
        last >>= 1;
    }
    if last != 0 {
        return Err(length);
    }
    same_root(root, found)
}

const fn is_right_or_last(at: u64, last: u64) -> bool {
    at & 1 == 1 || at == last
}

/// Goes up past the levels on which the last node has no sibling and is carried up as it is.
const fn skip_to_right(at: &mut u64, last: &mut u64) {
    while *at & 1 == 0 && *at != 0 {
        *at >>= 1;
        *last >>= 1;
    }
}

fn same_root(expected: &Hash, found: Hash) -> Result<(), ProofError> {
    if *expected == found { Ok(()) } else { Err(ProofError::Root { expected: *expected, found }) }
}

/// The path that proves that the tree over the first `old` of `leaves` is a prefix of the tree over
/// the first `new`. Nothing needs to be shown for equal sizes, nor for an empty old tree.
///
/// # Errors
/// If `old` is above `new`, or `leaves` does not hold all of the newer tree.
pub fn consistency_proof(leaves: &[Hash], old: u64, new: u64) -> Result<Vec<Hash>, ProofError> {
    let reversed = ProofError::SizesReversed { old, new };
    if old > new {
        return Err(reversed);
    }
    let mut tree = first_leaves(leaves, new)?;
    let mut old = usize::try_from(old).map_err(|_| reversed)?;
    let mut path = Vec::new();
    if old == 0 {
        return Ok(path);
    }
    // The verifier knows the old root; its subtree is named only once the walk has left it.
    let mut is_old_root = true;
    while old != tree.len() {
        let (left, right) = split(tree);
        if old <= left.len() {
            path.push(root(right));
            tree = left;
        } else {
            path.push(root(left));
            old -= left.len();
            tree = right;
            is_old_root = false;
        }
    }
    if !is_old_root {
        path.push(root(tree));
    }
    path.reverse();
    Ok(path)
}

/// Checks that the tree with `old_size` leaves and `old_root` is a prefix of the newer one.
///
/// Trees of equal size must have equal roots, the empty tree is a prefix of every tree; both take
/// an empty proof only.
///
/// # Errors
/// If the sizes are reversed, the path does not fit them, or leads to another root.
pub fn verify_consistency(
    old_size: u64,
    old_root: &Hash,
    new_size: u64,
    new_root: &Hash,
    proof: &[Hash],
) -> Result<(), ProofError> {
    if old_size > new_size {
        return Err(ProofError::SizesReversed { old: old_size, new: new_size });
    }
    let length = ProofError::Length { nodes: proof.len(), size: new_size };
    if old_size == 0 || old_size == new_size {
        if !proof.is_empty() {
            return Err(length);
        }
        let known = if old_size == 0 { empty_root() } else { *new_root };
        same_root(old_root, known)?;
        return if new_size == 0 { same_root(new_root, known) } else { Ok(()) };
    }
    // An old tree that is one perfect subtree starts the path itself.
    let (start, rest) = if old_size.is_power_of_two() {
        (old_root, proof)
    } else {
        proof.split_first().ok_or(length)?
    };
    let shift = (old_size - 1).trailing_ones();
    let (mut at, mut last) = ((old_size - 1) >> shift, (new_size - 1) >> shift);
    let (mut found_old, mut found_new) = (*start, *start);
    for node in rest {
        if last == 0 {
            return Err(length);
        }
        if is_right_or_last(at, last) {
            found_old = node_hash(node, &found_old);
            found_new = node_hash(node, &found_new);
            skip_to_right(&mut at, &mut last);
        } else {
            found_new = node_hash(&found_new, node);
        }
        at >>= 1;
        last >>= 1;
    }
    if last != 0 {
        return Err(length);
    }
    same_root(old_root, found_old)?;
    same_root(new_root, found_new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::unhex;

    /// Leaves and roots of the tree that the Certificate Transparency implementations share.
    #[test]
    fn roots_of_the_shared_reference_tree_are_reproduced() {
        let leaves = [
            "",
            "00",
            "10",
            "2021",
            "3031",
            "40414243",
            "5051525354555657",
            "606162636465666768696a6b6c6d6e6f",
        ];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut frontier = Frontier::new();
        assert_eq!(
            frontier.root().to_hex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        for (leaf, root) in leaves.iter().zip(roots) {
            frontier.push_leaf_hash(leaf_hash(&unhex(leaf).unwrap()));
            assert_eq!(frontier.root().to_hex(), root);
        }
    }
}
