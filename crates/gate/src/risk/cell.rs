//! The grid of the learned risk: five features in four levels each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many features make up a cell.
pub(super) const FEATURES: usize = 5;
/// How many levels each of them has.
const LEVELS: u16 = 4;
/// How many cells there are.
pub const CELLS: u16 = 1024;

/// A place in the grid: all changes that look alike to the model.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u64", into = "u64")]
pub struct Cell(u16);

/// A number that no cell has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no cell {0}, the last one is 1023")]
pub struct NoSuchCell(pub u64);

impl Cell {
    /// The cell of these levels, of which anything above three is three: the sum of level times
    /// four to the power of its place.
    #[must_use]
    pub fn of_levels(levels: [u8; FEATURES]) -> Self {
        let level = |level: u8| u16::from(level).min(LEVELS - 1);
        Self(levels.iter().rev().fold(0, |index, &it| index * LEVELS + level(it)))
    }

    /// The cell of this number.
    ///
    /// # Errors
    /// There is none.
    pub fn new(index: u64) -> Result<Self, NoSuchCell> {
        u16::try_from(index).ok().filter(|&it| it < CELLS).map(Self).ok_or(NoSuchCell(index))
    }

    /// Its number, from 0 to 1023.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0
    }

    /// The levels of its features: lines, complexity, files, severity, tests.
    #[must_use]
    pub fn levels(self) -> [u8; FEATURES] {
        let mut rest = self.0;
        std::array::from_fn(|_| {
            let level = u8::try_from(rest % LEVELS).unwrap_or_default();
            rest /= LEVELS;
            level
        })
    }

    /// What changes in this cell have in common, for people.
    #[must_use]
    pub fn in_words(self) -> String {
        const WORDS: [[&str; 4]; FEATURES] = [
            ["up to 10 lines", "11 to 50 lines", "51 to 200 lines", "over 200 lines"],
            ["up to 2 branches", "3 to 5 branches", "6 to 10 branches", "over 10 branches"],
            ["one file", "2 or 3 files", "4 to 8 files", "over 8 files"],
            ["no findings", "low findings", "medium findings", "high findings"],
            ["no tests", "1 test file", "2 to 5 test files", "over 5 test files"],
        ];
        let chosen = WORDS
            .iter()
            .zip(self.levels())
            .filter_map(|(words, level)| words.get(usize::from(level)).copied());
        chosen.collect::<Vec<_>>().join(", ")
    }
}

impl TryFrom<u64> for Cell {
    type Error = NoSuchCell;

    fn try_from(index: u64) -> Result<Self, NoSuchCell> {
        Self::new(index)
    }
}

impl From<Cell> for u64 {
    fn from(cell: Cell) -> Self {
        Self::from(cell.0)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_the_sum_of_levels_times_powers_of_four() {
        let table = [
            ([0, 0, 0, 0, 0], 0),
            ([1, 0, 0, 0, 0], 1),
            ([0, 1, 0, 0, 0], 4),
            ([0, 0, 1, 0, 0], 16),
            ([0, 0, 0, 1, 0], 64),
            ([0, 0, 0, 0, 1], 256),
            ([0, 3, 0, 1, 0], 76),
            ([3, 3, 3, 3, 3], 1023),
            ([9, 0, 0, 0, 0], 3),
        ];
        for (levels, index) in table {
            assert_eq!(Cell::of_levels(levels).index(), index, "{levels:?}");
        }
    }

    #[test]
    fn levels_come_back_from_every_index() {
        for index in 0..u64::from(CELLS) {
            let cell = Cell::new(index).unwrap();
            assert_eq!(Cell::of_levels(cell.levels()), cell);
        }
        assert_eq!(Cell::new(1024), Err(NoSuchCell(1024)));
        assert_eq!(NoSuchCell(1024).to_string(), "there is no cell 1024, the last one is 1023");
    }

    #[test]
    fn a_cell_can_be_told_in_words() {
        let words = "up to 10 lines, over 10 branches, one file, low findings, no tests";
        assert_eq!(Cell::new(76).unwrap().in_words(), words);
    }
}
