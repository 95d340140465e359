//! The exit signal in what an agent prints: the weaker of the two channels.
//!
//! Decides which JSON objects of a text are signals, and whether one is the last thing printed.
//! Leaves out whether that signal is valid, and whether this channel is used at all. It keeps one
//! signal and the beginning of another at most, and reads text twice at most.

pub(super) mod grammar;
pub(super) mod tally;
mod terminal;
#[cfg(test)]
mod tests;

use self::grammar::{Grammar, Step};
use self::tally::Tally;
use self::terminal::{Shown, Terminal};
use super::INPUT_BYTES_MAX;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
/// Marks in a row that make a Markdown fence.
const FENCE_MARKS_MIN: u64 = 3;

/// What an agent's standard output says about its exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdoutSignal {
    /// There is no signal.
    Absent,
    /// The one signal, without terminal escapes, as the last thing printed. It may be invalid.
    Last(Vec<u8>),
    /// There is one signal, but more than white space and a closing fence follows it.
    NotLast {
        /// Bytes that follow the last time it was printed, white space and that fence not counted.
        bytes_after: u64,
    },
    /// There are signals that differ.
    Ambiguous {
        /// How many there are, repeated ones included.
        count: u64,
    },
    /// There is one signal, larger than any may be.
    TooLarge,
    /// There is no signal, only one that began and then broke off or was no JSON any more.
    Broken,
}

/// Looks for an exit signal in an agent's standard output, piece by piece.
#[derive(Debug, Default)]
pub struct StdoutScanner {
    terminal: Terminal,
    /// The text from where something began that may yet be read again.
    text: Vec<u8>,
    at: usize,
    line: Line,
    candidate: Option<Candidate>,
    /// Where in `text` brackets stand of which it is known that nothing closes them.
    unclosed: Vec<usize>,
    /// Bytes of text so far that are not blank.
    ink: u64,
    tally: Tally,
    latest: Option<Latest>,
    broken: Option<Size>,
    #[cfg(test)]
    steps: u64,
}

/// What the line outside of candidates holds so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Line {
    /// Nothing but blanks.
    #[default]
    Blank,
    /// Blanks and this many bytes of a byte order mark.
    Mark(usize),
    /// Blanks and a row of marks that may be a fence.
    Fence { mark: u8, count: u64 },
    /// The same and a blank after it.
    FenceEnd { count: u64 },
    /// Anything else.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Allowed,
    TooLarge,
}

/// An object or array that began a line. Arrays are never signals, but what is in them is none.
#[derive(Debug)]
struct Candidate {
    grammar: Grammar,
    start: usize,
    bytes: usize,
    ink_before: u64,
    is_line_blank: bool,
}

impl Candidate {
    const fn size(&self) -> Size {
        if self.bytes > INPUT_BYTES_MAX { Size::TooLarge } else { Size::Allowed }
    }
}

/// The signal that was printed last.
#[derive(Debug)]
struct Latest {
    /// `None` if it was too large to keep.
    text: Option<Vec<u8>>,
    /// [`StdoutScanner::ink`] at its end, or at the end of the fence that closes it.
    ink: u64,
    is_fence_closed: bool,
}

impl StdoutScanner {
    /// A scanner that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece of output. Where pieces begin and end makes no difference.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let is_in_string =
                self.candidate.as_ref().is_some_and(|open| open.grammar.is_in_string());
            let shown = self.terminal.step(byte, is_in_string);
            self.show(shown);
        }
    }

    /// What the whole output says.
    #[must_use]
    pub fn finish(mut self) -> StdoutSignal {
        let shown = std::mem::take(&mut self.terminal).finish();
        self.show(shown);
        // The end is where everything that is open fails. Each time this begins further on.
        while let Some(candidate) = self.candidate.take() {
            self.abandon(&candidate);
            self.catch_up();
        }
        self.end_line();
        if let Some(count) = self.tally.different() {
            return StdoutSignal::Ambiguous { count };
        }
        match (self.latest, self.broken) {
            (Some(Latest { text: None, .. }), _) | (None, Some(Size::TooLarge)) => {
                StdoutSignal::TooLarge
            }
            (Some(Latest { text: Some(text), ink, .. }), _) => match self.ink.saturating_sub(ink) {
                0 => StdoutSignal::Last(text),
                bytes_after => StdoutSignal::NotLast { bytes_after },
            },
            (None, Some(Size::Allowed)) => StdoutSignal::Broken,
            (None, None) => StdoutSignal::Absent,
        }
    }

    fn show(&mut self, shown: Shown) {
        match shown {
            Shown::Nothing => {}
            Shown::One(byte) => self.take(byte),
            Shown::Two(first, second) => {
                self.take(first);
                self.take(second);
            }
        }
    }

    fn take(&mut self, byte: u8) {
        self.text.push(byte);
        self.catch_up();
        // Only a candidate that may still be a signal is worth keeping.
        if self.candidate.as_ref().is_none_or(|open| open.size() == Size::TooLarge) {
            self.text.clear();
            self.unclosed.clear();
            self.at = 0;
        }
    }

    /// Reads what is in `text` and has not been read, or is to be read again.
    fn catch_up(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            #[cfg(test)]
            {
                self.steps += 1;
            }
            match self.candidate.take() {
                Some(candidate) => self.inside(candidate, byte),
                None => self.outside(byte),
            }
        }
    }

    fn inside(&mut self, mut candidate: Candidate, byte: u8) {
        let step = candidate.grammar.step(byte, self.at);
        if step == Step::Failed {
            self.abandon(&candidate);
            return;
        }
        self.at += 1;
        self.ink += u64::from(!is_blank(byte));
        candidate.bytes = candidate.bytes.saturating_add(1);
        candidate.is_line_blank = byte == b'\n' || candidate.is_line_blank && is_blank(byte);
        if step == Step::More {
            self.candidate = Some(candidate);
            return;
        }
        self.line = Line::Other;
        if !candidate.grammar.names_protocol() {
            return;
        }
        let text = match candidate.size() {
            Size::Allowed => self.text.get(candidate.start..self.at).map(<[u8]>::to_vec),
            Size::TooLarge => None,
        };
        match &text {
            Some(text) => self.tally.add(text),
            None => self.tally.add_unread(),
        }
        self.latest = Some(Latest { text, ink: self.ink, is_fence_closed: false });
    }

    /// Gives up a candidate at a byte that is not read yet.
    ///
    /// Every bracket that is still open fails at this same byte, so none of them begins another
    /// candidate. Every other one in between was closed and will be again: what is read for the
    /// second time is not read for a third.
    fn abandon(&mut self, candidate: &Candidate) {
        if candidate.grammar.names_protocol() && self.broken != Some(Size::TooLarge) {
            self.broken = Some(candidate.size());
        }
        match candidate.size() {
            Size::Allowed => {
                self.unclosed = candidate.grammar.open_at().collect();
                self.at = candidate.start;
                self.ink = candidate.ink_before;
                self.line = Line::Blank;
            }
            Size::TooLarge if candidate.is_line_blank => self.line = Line::Blank,
            Size::TooLarge => self.line = Line::Other,
        }
    }

    fn outside(&mut self, byte: u8) {
        if byte == b'\n' {
            self.end_line();
            self.at += 1;
            return;
        }
        let begins = matches!(byte, b'{' | b'[') && self.line == Line::Blank;
        if begins && !self.unclosed.contains(&self.at) {
            self.begin(byte);
            return;
        }
        self.ink += u64::from(!is_blank(byte));
        self.at += 1;
        self.line = match self.line {
            Line::Blank if is_blank(byte) => Line::Blank,
            Line::Blank if matches!(byte, b'`' | b'~') => Line::Fence { mark: byte, count: 1 },
            Line::Blank if BYTE_ORDER_MARK.first() == Some(&byte) => Line::Mark(1),
            Line::Mark(seen) if BYTE_ORDER_MARK.get(seen) == Some(&byte) => {
                let seen = seen + 1;
                if seen == BYTE_ORDER_MARK.len() {
                    self.ink = self.ink.saturating_sub(seen as u64);
                    Line::Blank
                } else {
                    Line::Mark(seen)
                }
            }
            Line::Fence { mark, count } if byte == mark => Line::Fence { mark, count: count + 1 },
            Line::Fence { count, .. } | Line::FenceEnd { count } if is_blank(byte) => {
                Line::FenceEnd { count }
            }
            _ => Line::Other,
        };
    }

    fn begin(&mut self, bracket: u8) {
        // Nothing before the newest byte is read again. Older text is on its second reading and
        // goes as a whole when that is done.
        if self.at + 1 == self.text.len() {
            self.text.clear();
            self.text.push(bracket);
            self.unclosed.clear();
            self.at = 0;
        }
        self.candidate = Some(Candidate {
            grammar: Grammar::opened_by(bracket, self.at),
            start: self.at,
            bytes: 1,
            ink_before: self.ink,
            is_line_blank: false,
        });
        self.ink += 1;
        self.at += 1;
    }

    fn end_line(&mut self) {
        if let Line::Fence { count, .. } | Line::FenceEnd { count } = self.line
            && count >= FENCE_MARKS_MIN
            && let Some(latest) = &mut self.latest
            && !latest.is_fence_closed
            && latest.ink.saturating_add(count) == self.ink
        {
            latest.ink = self.ink;
            latest.is_fence_closed = true;
        }
        self.line = Line::Blank;
    }
}

/// White space, and controls that leave nothing to see.
const fn is_blank(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}
