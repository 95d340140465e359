//! A whole tree, kept to make many proofs from: each costs as much as it is long.

use super::{ProofError, empty_root, leaf_hash, node_hash};
use crate::hash::Hash;

/// All leaves of a tree and the roots of all perfect subtrees.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Level 0 holds the leaves, each other one the parents of whole pairs of the one below.
    levels: Vec<Vec<Hash>>,
}

impl Tree {
    /// The tree over `leaves`.
    #[must_use]
    pub fn new(leaves: &[Hash]) -> Self {
        let mut levels = Vec::new();
        let mut level: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf.as_bytes())).collect();
        while !level.is_empty() {
            let pairs = level.as_chunks::<2>().0.iter();
            let above = pairs.map(|[left, right]| node_hash(left, right)).collect();
            levels.push(std::mem::replace(&mut level, above));
        }
        Self { levels }
    }

    /// How many leaves it has.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.levels.first().map_or(0, |leaves| leaves.len() as u64)
    }

    /// The root that the tree had with its first `size` leaves, if it has so many.
    #[must_use]
    pub fn root_at(&self, size: u64) -> Option<Hash> {
        if size == 0 {
            return Some(empty_root());
        }
        self.root_of(0, usize::try_from(size).ok().filter(|_| size <= self.size())?)
    }

    /// The path of leaf `index` in the tree over the first `size` leaves.
    ///
    /// # Errors
    /// If the leaf is not in that tree, or the tree is smaller than that.
    pub fn inclusion_proof(&self, index: u64, size: u64) -> Result<Vec<Hash>, ProofError> {
        let outside = ProofError::NoSuchLeaf { index, size };
        let missing = ProofError::LeavesMissing { size, found: self.leaves() };
        if index >= size {
            return Err(outside);
        }
        let index = usize::try_from(index).map_err(|_| outside)?;
        let mut length = usize::try_from(size).map_err(|_| missing)?;
        let (mut start, mut path) = (0, Vec::new());
        while length > 1 {
            let left = length.div_ceil(2).next_power_of_two();
            let sibling = if index - start < left {
                let right = self.root_of(start + left, length - left);
                length = left;
                right
            } else {
                let root = self.root_of(start, left);
                start += left;
                length -= left;
                root
            };
            path.push(sibling.ok_or(missing)?);
        }
        if start + length > self.leaves() {
            return Err(missing);
        }
        path.reverse();
        Ok(path)
    }

    fn leaves(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// The root over `length` leaves from `start` on, which is a multiple of what is to its left.
    fn root_of(&self, start: usize, length: usize) -> Option<Hash> {
        if length.is_power_of_two() {
            let height = length.trailing_zeros();
            return self.levels.get(usize::try_from(height).ok()?)?.get(start >> height).copied();
        }
        let left = length.div_ceil(2).next_power_of_two();
        let right = self.root_of(start + left, length.checked_sub(left).filter(|&it| it > 0)?)?;
        Some(node_hash(&self.root_of(start, left)?, &right))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{inclusion_proof, root};
    use super::*;

    #[test]
    fn it_gives_the_roots_and_proofs_that_the_leaves_give() {
        let leaves: Vec<Hash> = (0..20_u8).map(|n| Hash::of(&[n])).collect();
        let tree = Tree::new(&leaves);
        assert_eq!(tree.size(), 20);
        for size in 0..=20_u64 {
            let first = &leaves[..usize::try_from(size).unwrap()];
            assert_eq!(tree.root_at(size), Some(root(first)));
            for index in 0..=size {
                let expected = inclusion_proof(&leaves, index, size);
                assert_eq!(tree.inclusion_proof(index, size), expected, "{index} of {size}");
            }
        }
        assert_eq!(tree.root_at(21), None);
        let missing = ProofError::LeavesMissing { size: 21, found: 20 };
        for index in 0..21 {
            assert_eq!(tree.inclusion_proof(index, 21), Err(missing));
        }
        assert_eq!(Tree::new(&[]).root_at(0), Some(root(&[])));
    }
}
