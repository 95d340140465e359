//! A small fuzzer without feedback: changes what is kept, by a seed, and looks for what does not hold.
//!
//! It finds less than libFuzzer, but runs with any toolchain, and the same seed gives the same run.

use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use crate::Target;

/// Bytes up to which inputs grow.
const INPUT_BYTES_MAX: usize = 1 << 17;
/// Changes that are made to one input.
const CHANGES_MAX: u64 = 4;
/// Bytes that readers stumble over.
const BYTES: &[u8] =
    b"\0\t\n\r \"#$&'()*+,-./019:;<=>?@[\\]^_`{|}~\x1b\x7f\x80\xbf\xc0\xe2\xed\xef\xf4\xff";

/// A source of numbers that a seed decides (SplitMix64).
#[derive(Debug, Clone)]
pub struct Luck(u64);

impl Luck {
    /// The one of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap_or_default()
    }

    fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> Option<&'t T> {
        from.get(self.below(from.len())).copied()
    }

    /// A place in a text of this length: often an end, where much is decided.
    fn place(&mut self, length: usize) -> usize {
        match self.next() % 8 {
            0 => 0,
            1 => length,
            _ => self.below(length + 1),
        }
    }

    /// A piece of a text of this length, mostly a short one.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let from = self.place(length);
        let most = if self.next().is_multiple_of(4) { length } else { 16 };
        let count = 1 + self.below(most.max(1));
        from..(from + count).min(length)
    }
}

/// An input for which something does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caught {
    /// The input.
    pub input: Vec<u8>,
    /// What was said.
    pub message: String,
    /// Which try it was; 0 for what lies in the corpus as it is.
    pub number: u32,
}

/// The kept inputs of a target, in the order of their names.
///
/// # Errors
/// They cannot be read.
pub fn corpus(root: &Path, target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let directory = root.join("fuzz/corpus").join(target.name);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        paths.push(entry?.path());
    }
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// Tries what is kept, and then changes of it, until something does not hold.
pub fn hunt(target: &Target, holds: fn(&[u8]), kept: &[Vec<u8>], seed: u64) -> Option<Caught> {
    let kept: Vec<&[u8]> = kept.iter().map(Vec::as_slice).collect();
    let found = kept.iter().find_map(|input| attempt(holds, input, 0));
    let words: Vec<&str> = target.words.split('·').collect();
    let mut dice = Luck::new(seed);
    found.or_else(|| {
        (1..=target.tries).find_map(|number| {
            let input = changed(&mut dice, &kept, &words);
            attempt(holds, &input, number)
        })
    })
}

fn attempt(holds: fn(&[u8]), input: &[u8], number: u32) -> Option<Caught> {
    let panic = panic::catch_unwind(AssertUnwindSafe(|| holds(input))).err()?;
    let message = panic.downcast_ref::<String>().cloned();
    let message = message.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    Some(Caught { input: input.to_vec(), message: message.unwrap_or_default(), number })
}

/// A kept input with some changes.
fn changed(dice: &mut Luck, kept: &[&[u8]], words: &[&str]) -> Vec<u8> {
    let mut input = dice.pick(kept).unwrap_or_default().to_vec();
    for _ in 0..=dice.next() % CHANGES_MAX {
        change(dice, &mut input, kept, words);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn change(dice: &mut Luck, input: &mut Vec<u8>, kept: &[&[u8]], words: &[&str]) {
    let length = input.len();
    let place = dice.place(length);
    match dice.next() % 10 {
        0 => flip(dice, input),
        1 => set(dice, input),
        2 => splice(input, place..place, words_of(dice, words)),
        3 => {
            let range = dice.range(length);
            splice(input, range, words_of(dice, words));
        }
        4 => splice(input, dice.range(length), &[]),
        5 => {
            let copy = input.get(dice.range(length)).unwrap_or_default().to_vec();
            splice(input, place..place, &copy);
        }
        6 => {
            let other = dice.pick(kept).unwrap_or_default();
            let piece = other.get(dice.range(other.len())).unwrap_or_default();
            splice(input, place..place, piece);
        }
        7 => {
            let other = dice.pick(kept).unwrap_or_default();
            let tail = other.get(dice.place(other.len())..).unwrap_or_default();
            splice(input, place..length, tail);
        }
        8 => input.truncate(place),
        _ => {
            let digits: Vec<usize> =
                (0..length).filter(|at| input.get(*at).is_some_and(u8::is_ascii_digit)).collect();
            let at = digits.get(dice.below(digits.len())).copied().unwrap_or(length);
            let digit = b'0' + u8::try_from(dice.below(10)).unwrap_or_default();
            input.iter_mut().skip(at).take(1).for_each(|byte| *byte = digit);
        }
    }
}

fn words_of<'w>(dice: &mut Luck, words: &[&'w str]) -> &'w [u8] {
    dice.pick(words).unwrap_or_default().as_bytes()
}

fn splice(input: &mut Vec<u8>, range: std::ops::Range<usize>, with: &[u8]) {
    let end = range.end.min(input.len());
    input.splice(range.start.min(end)..end, with.iter().copied());
}

fn flip(dice: &mut Luck, input: &mut [u8]) {
    let at = dice.below(input.len());
    let bit = 1 << (dice.next() % 8);
    input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
}

fn set(dice: &mut Luck, input: &mut [u8]) {
    let at = dice.below(input.len());
    let with = BYTES.get(dice.below(BYTES.len())).copied().unwrap_or_default();
    input.iter_mut().skip(at).take(1).for_each(|byte| *byte = with);
}

/// `data` in pieces whose lengths it decides itself.
#[must_use]
pub fn pieces(data: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut found) = (data, Vec::new());
    while let Some(first) = rest.first() {
        let (piece, behind) = rest.split_at(rest.len().min(1 + usize::from(first % 13)));
        found.push(piece);
        rest = behind;
    }
    found
}
