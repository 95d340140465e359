//! Faults of a task file, and where in its text they stand.

use std::cell::{Cell, RefCell};
use std::fmt;

use countersign_format::text::escape;

use super::TASK_BYTES_MAX;

/// Faults that are listed of one task file; one that has more is wrong all the same.
pub const TASK_FAULTS_MAX: usize = 100;
/// Faults that are held while a file is read, before those that come last are let go.
const HELD_MAX: usize = 2 * TASK_FAULTS_MAX;
/// Characters of the file that a fault repeats: a key may be as long as the file.
const SHOWN_CHARS_MAX: usize = 60;

/// A place in a task file and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFault {
    /// The line, from 1.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
    /// What it is about, such as `steps[1].actions[0].argv`; empty for the text itself.
    pub path: String,
    /// What was found and what is wanted.
    pub message: String,
}

impl TaskFault {
    /// The fault of a file that has more bytes than a task file may have.
    #[must_use]
    pub fn too_long(bytes: usize) -> Self {
        let message = format!("file of {bytes} bytes, the limit is {TASK_BYTES_MAX}");
        Self { line: 1, column: 1, path: String::new(), message }
    }
}

impl fmt::Display for TaskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", escape(&self.path))?;
        }
        write!(f, "{}", escape(&self.message))
    }
}

/// Collects faults while a file is read, in whatever order they are met.
#[derive(Debug)]
pub(crate) struct FaultList<'t> {
    text: &'t str,
    noted: RefCell<Vec<Noted>>,
    count: Cell<usize>,
}

/// A fault at a byte of the text.
#[derive(Debug)]
struct Noted {
    at: usize,
    path: String,
    message: String,
}

impl<'t> FaultList<'t> {
    pub(crate) const fn new(text: &'t str) -> Self {
        Self { text, noted: RefCell::new(Vec::new()), count: Cell::new(0) }
    }

    /// Notes a fault at the byte `at`.
    pub(crate) fn note(&self, at: usize, path: &str, message: impl Into<String>) {
        self.count.set(self.count.get() + 1);
        let mut noted = self.noted.borrow_mut();
        noted.push(Noted { at, path: path.to_owned(), message: message.into() });
        if noted.len() >= HELD_MAX {
            keep_first(&mut noted);
        }
    }

    /// How many were noted so far.
    pub(crate) fn count(&self) -> usize {
        self.count.get()
    }

    /// The first faults, in the order of the text.
    pub(crate) fn into_faults(self) -> Vec<TaskFault> {
        let mut noted = self.noted.into_inner();
        keep_first(&mut noted);
        let placed = |Noted { at, path, message }| {
            let (line, column) = position(self.text, at);
            TaskFault { line, column, path, message }
        };
        noted.into_iter().map(placed).collect()
    }
}

fn keep_first(noted: &mut Vec<Noted>) {
    noted.sort_by_key(|fault| fault.at);
    noted.truncate(TASK_FAULTS_MAX);
}

/// The line and the character of the byte `at`, both from 1.
pub(crate) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..text.floor_char_boundary(at)).unwrap_or(text);
    let line = before.bytes().filter(|&byte| byte == b'\n').count();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line + 1, before.get(start..).unwrap_or_default().chars().count() + 1)
}

/// `text` as a fault repeats it: cut where it is long.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_a_carriage_return_belongs_to_the_line_before() {
        let text = "é\t=1\r\n中文x";
        assert_eq!(position(text, 0), (1, 1));
        assert_eq!(position(text, 2), (1, 2));
        assert_eq!(position(text, 3), (1, 3));
        assert_eq!(position(text, 7), (2, 1));
        assert_eq!(position(text, 13), (2, 3));
        assert_eq!(position(text, 9999), (2, 4));
        assert_eq!(position("", 0), (1, 1));
    }

    #[test]
    fn the_first_hundred_are_kept_in_the_order_of_the_text() {
        let text = "\n".repeat(1000);
        let faults = FaultList::new(&text);
        for at in (0..1000).rev() {
            faults.note(at, "a", "b");
        }
        assert_eq!(faults.count(), 1000);
        let lines: Vec<_> = faults.into_faults().into_iter().map(|fault| fault.line).collect();
        assert_eq!(lines, (1..=100).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        let (path, message) = ("a\u{1b}".to_owned(), "b\n".to_owned());
        let fault = TaskFault { line: 12, column: 5, path, message };
        assert_eq!(fault.to_string(), "line 12, column 5: a\\u{1b}: b\\u{a}");
    }
}
