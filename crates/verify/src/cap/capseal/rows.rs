//! The rows and the tree that CapSeal keeps beside its actions.
//!
//! They prove nothing by themselves; they are copies of what the actions say, and must agree.

use countersign_format::hash::Hash;
use sha2::{Digest as _, Sha256};

use super::split::Met;

/// The field of the rows.
const MODULUS: u64 = 0xffff_ffff_0000_0001;
/// Numbers of a row.
const COLUMNS: usize = 14;

/// The two halves of a hash that a row keeps.
pub(super) fn halves(hash: &Hash) -> [u64; 2] {
    let mut words = hash.as_bytes().as_chunks::<8>().0.iter();
    let mut word = || words.next().map_or(0, |word| u64::from_le_bytes(*word) % MODULUS);
    [word(), word()]
}

/// The leaf of a row: its place, and every number in sixteen bytes.
pub(super) fn leaf(index: u64, row: &[u64]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(index.to_be_bytes());
    for number in row {
        hasher.update(u128::from(*number).to_be_bytes());
    }
    Hash::from_bytes(hasher.finalize().into())
}

fn node(left: &Hash, right: &Hash) -> Hash {
    Hash::of_pieces(&[left.as_bytes(), right.as_bytes()])
}

/// The root of a tree whose last node is doubled where a level has an odd number of them.
#[derive(Debug, Default, Clone)]
pub(super) struct OddTree {
    /// On each level, the node that waits for its right neighbour.
    waiting: Vec<Option<Hash>>,
    pub(super) count: u64,
}

impl OddTree {
    pub(super) fn push(&mut self, leaf: Hash) {
        self.count += 1;
        let mut carried = leaf;
        for slot in &mut self.waiting {
            match slot.take() {
                Some(left) => carried = node(&left, &carried),
                None => {
                    *slot = Some(carried);
                    return;
                }
            }
        }
        self.waiting.push(Some(carried));
    }

    pub(super) fn root(&self) -> Option<Hash> {
        let mut carried: Option<Hash> = None;
        for (level, slot) in self.waiting.iter().enumerate() {
            let above = self.waiting.iter().skip(level + 1).any(Option::is_some);
            carried = match (*slot, carried) {
                (Some(left), Some(right)) => Some(node(&left, &right)),
                (Some(last), None) | (None, Some(last)) if above => Some(node(&last, &last)),
                (Some(last), None) => Some(last),
                (None, last) => last,
            };
        }
        carried
    }
}

/// Reads `rows.json`.
#[derive(Debug, Default)]
pub(super) struct Rows {
    row: Vec<u64>,
    pub(super) tree: OddTree,
}

impl Rows {
    pub(super) fn meet(&mut self, met: Met<'_>) -> Result<(), String> {
        match met {
            Met::Item(item) => {
                let number = std::str::from_utf8(item).ok().and_then(|text| text.parse().ok());
                let number = number.filter(|_| self.row.len() < COLUMNS);
                self.row.push(number.ok_or("one of its rows is none")?);
            }
            Met::End => {
                if self.row.len() != COLUMNS {
                    return Err("one of its rows is none".to_owned());
                }
                self.tree.push(leaf(self.tree.count, &self.row));
                self.row.clear();
            }
        }
        Ok(())
    }
}

/// Reads `merkle_levels.json`: every level must follow from the one below.
#[derive(Debug, Default)]
pub(super) struct Levels {
    below: Vec<Hash>,
    level: Vec<Hash>,
    pub(super) leaves: Option<u64>,
    /// The one node of the last level.
    pub(super) root: Option<Hash>,
}

impl Levels {
    pub(super) fn meet(&mut self, met: Met<'_>, leaves_max: u64) -> Result<(), String> {
        match met {
            Met::Item(item) => {
                let hash = std::str::from_utf8(item).ok().and_then(|text| text.parse().ok());
                self.level.push(hash.ok_or("one of its nodes is no hash")?);
                if self.level.len() as u64 > leaves_max {
                    return Err(format!("it has more than {leaves_max} leaves"));
                }
                Ok(())
            }
            Met::End => self.end_level(),
        }
    }

    fn end_level(&mut self) -> Result<(), String> {
        if self.root.is_some() || self.level.is_empty() {
            return Err("its levels are not those of a tree".to_owned());
        }
        if self.leaves.is_none() {
            self.leaves = Some(self.level.len() as u64);
        } else {
            let computed = self.below.chunks(2).map(|pair| match pair {
                [left, right] => node(left, right),
                [last] => node(last, last),
                _ => Hash::GENESIS,
            });
            if !computed.eq(self.level.iter().copied()) {
                return Err("one of its levels does not follow from the one below".to_owned());
            }
        }
        self.below = std::mem::take(&mut self.level);
        self.root = match self.below.as_slice() {
            [root] => Some(*root),
            _ => None,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_grown_leaf_by_leaf_has_the_root_of_its_levels() {
        for count in 1..70u64 {
            let (mut tree, mut levels) = (OddTree::default(), Levels::default());
            let mut level: Vec<Hash> =
                (0..count).map(|index| leaf(index, &[index; COLUMNS])).collect();
            level.iter().for_each(|leaf| tree.push(*leaf));
            loop {
                for hash in &level {
                    levels.meet(Met::Item(hash.to_hex().as_bytes()), 100).unwrap();
                }
                levels.meet(Met::End, 100).unwrap();
                if level.len() == 1 {
                    break;
                }
                level = level.chunks(2).map(|pair| node(&pair[0], pair.last().unwrap())).collect();
            }
            assert_eq!(tree.root(), Some(level[0]), "{count}");
            assert_eq!((levels.root, levels.leaves), (tree.root(), Some(count)));
        }
        assert_eq!(OddTree::default().root(), None);
    }
}
