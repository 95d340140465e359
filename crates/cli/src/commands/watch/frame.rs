//! What fits on a screen of a given size, and how it is coloured.

use countersign_format::time::Timestamp;
use countersign_runtime::sight::Overview;

use super::columns::{fit, width_of};
use super::snapshot::{Section, Told, Tone, sections};

/// Columns and rows of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Bold,
    Dim,
    Red,
    Yellow,
}

/// A line of the screen: escaped, and no wider than it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) ink: Ink,
    pub(super) text: String,
}

/// What is to be drawn.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) seen: &'a Overview,
    pub(super) now: Timestamp,
    pub(super) home: &'a str,
}

/// The line of a section's name, and lines of each that come before any section gets more.
const NAME_ROWS: usize = 1;
const FIRST_ROWS: usize = 2;

impl Frame<'_> {
    /// The lines of a screen of this size, at most as many as it has.
    pub(super) fn lines(&self, size: Size) -> Vec<Drawn> {
        let mut drawn = vec![self.header(size.columns)];
        let sections = sections(self.seen, self.now);
        let room = size.rows.saturating_sub(1 + sections.len() * NAME_ROWS);
        let wanted: Vec<usize> = sections.iter().map(|section| section.lines.len()).collect();
        for (section, rows) in sections.iter().zip(shares(&wanted, room)) {
            drawn.push(name(section, rows, size.columns));
            let lines = section.lines.iter().take(rows);
            drawn.extend(lines.map(|line| draw(line, size.columns)));
        }
        drawn.truncate(size.rows);
        drawn
    }

    fn header(&self, columns: usize) -> Drawn {
        let time: String = self.now.to_string().chars().skip(11).take(8).collect();
        let clock = format!("{time} UTC  q ends");
        let left =
            fit(&format!("countersign  {}", self.home), columns.saturating_sub(clock.len() + 1));
        let between = columns.saturating_sub(width_of(&left) + clock.len());
        let text = format!("{left}{}{clock}", " ".repeat(between));
        Drawn { ink: Ink::Bold, text: fit(&text, columns) }
    }
}

fn name(section: &Section, rows: usize, columns: usize) -> Drawn {
    let hidden = section.lines.len().saturating_sub(rows);
    let text = match (section.total, hidden) {
        (0, _) => format!("{} none", section.name),
        (total, 0) => format!("{} {total}", section.name),
        (total, _) => format!("{} {total}, not all shown", section.name),
    };
    let ink = if section.total == 0 { Ink::Dim } else { Ink::Bold };
    Drawn { ink, text: fit(&text, columns) }
}

fn draw(line: &Told, columns: usize) -> Drawn {
    let (indent, ink) = match line.tone {
        Tone::Plain => ("  ", Ink::Plain),
        Tone::Urgent => ("  ", Ink::Yellow),
        Tone::Bad => ("  ", Ink::Red),
        Tone::Below => ("    ", Ink::Dim),
    };
    let text = format!("{indent}{}", fit(&line.text, columns.saturating_sub(indent.len())));
    Drawn { ink, text: fit(&text, columns) }
}

/// How many rows each gets of `room`: first a few for all, then in turns for those that want more.
fn shares(wanted: &[usize], room: usize) -> Vec<usize> {
    let mut given = vec![0; wanted.len()];
    let mut left = room;
    for most in [FIRST_ROWS, usize::MAX] {
        loop {
            let before = left;
            for (given, &wanted) in given.iter_mut().zip(wanted) {
                if left > 0 && *given < wanted.min(most) {
                    *given += 1;
                    left -= 1;
                }
            }
            if left == before {
                break;
            }
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_gets_a_little_before_anyone_gets_much() {
        assert_eq!(shares(&[0, 9, 1, 9], 20), [0, 9, 1, 9]);
        assert_eq!(shares(&[0, 9, 1, 9], 11), [0, 5, 1, 5]);
        assert_eq!(shares(&[5, 5, 5], 4), [2, 1, 1]);
        assert_eq!(shares(&[5, 5], 0), [0, 0]);
    }

    #[test]
    fn a_frame_fits_every_size() {
        let hostile = "\u{1b}[2J\u{202e}中文".repeat(30);
        let unreadable = (0..50).map(|at| (format!("t{at}"), hostile.clone())).collect();
        let seen = Overview { unreadable, ..Overview::default() };
        let now = Timestamp::EPOCH;
        for (columns, rows) in [(80, 24), (200, 60), (20, 5), (1, 1), (0, 0)] {
            let lines = Frame { seen: &seen, now, home: &hostile }.lines(Size { columns, rows });
            assert!(lines.len() <= rows, "{columns}×{rows}");
            for line in lines {
                assert!(width_of(&line.text) <= columns, "{columns}×{rows}: {}", line.text);
                assert!(!line.text.contains(['\u{1b}', '\u{202e}']), "{}", line.text);
            }
        }
    }
}
