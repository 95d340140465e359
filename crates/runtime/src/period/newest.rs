//! A list that keeps its newest rows and counts all of them.

use countersign_format::time::Timestamp;
use serde::Serialize;

use super::PERIOD_ROWS_MAX;

/// The newest rows, the newest first, and how many there were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Newest<T> {
    /// All of them.
    pub total: u64,
    /// Those that are kept.
    pub rows: Vec<T>,
    #[serde(skip)]
    ages: Vec<(Timestamp, u64)>,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self { total: 0, rows: Vec::new(), ages: Vec::new() }
    }
}

impl<T> Newest<T> {
    /// Takes a row in. What comes later counts as newer at the same time.
    pub(super) fn add(&mut self, at: Timestamp, row: T) {
        self.ages.push((at, self.total));
        self.rows.push(row);
        self.total += 1;
        // Sorted now and then only: a list of any length costs little more than its rows.
        if self.rows.len() >= PERIOD_ROWS_MAX.saturating_mul(2) {
            self.settle();
        }
    }

    /// Brings the rows into their order, and leaves out what is too many.
    pub(super) fn settle(&mut self) {
        let ages = std::mem::take(&mut self.ages);
        let mut rows: Vec<_> = ages.into_iter().zip(self.rows.drain(..)).collect();
        rows.sort_by_key(|(age, _)| std::cmp::Reverse(*age));
        rows.truncate(PERIOD_ROWS_MAX);
        (self.ages, self.rows) = rows.into_iter().unzip();
    }

    /// Takes in another list, what that left out among it.
    pub(super) fn absorb(&mut self, other: Self) {
        let left_out = other.left_out();
        for ((at, _), row) in other.ages.into_iter().zip(other.rows) {
            self.add(at, row);
        }
        self.total += left_out;
    }

    /// How many rows are left out.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.rows.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_and_all_are_counted() {
        let mut list = Newest::default();
        let many = i64::try_from(PERIOD_ROWS_MAX).unwrap() * 3 + 7;
        // In an order that is not that of time.
        for turn in 0..many {
            let at = turn * 7919 % many;
            list.add(Timestamp::from_millis(at), at);
        }
        list.settle();
        let expected: Vec<i64> = (0..many).rev().take(PERIOD_ROWS_MAX).collect();
        assert_eq!(list.rows, expected);
        assert_eq!(list.total, u64::try_from(many).unwrap());
        assert_eq!(list.left_out(), list.total - PERIOD_ROWS_MAX as u64);
    }

    #[test]
    fn of_the_same_time_the_later_one_comes_first() {
        let mut list = Newest::default();
        for name in ["first", "second", "third"] {
            list.add(Timestamp::EPOCH, name);
        }
        list.settle();
        assert_eq!((list.left_out(), list.rows), (0, vec!["third", "second", "first"]));
    }
}
