//! Cutting a ledger into lines, in bounded memory.

use std::io::{self, BufRead};

use countersign_format::json::LINE_BYTES_MAX;

/// One line of a ledger.
#[derive(Debug, PartialEq, Eq)]
pub enum RawLine<'a> {
    /// Complete, without its line break.
    Complete(&'a [u8]),
    /// The last bytes of the file, which no line break follows.
    Unterminated(&'a [u8]),
    /// Longer than a line may be; its bytes were skipped.
    TooLong,
    /// So long that its end was not looked for. Nothing after it is read.
    Endless,
}

/// Bytes behind the limit of a line in which its end is looked for. What a crash leaves is shorter.
const SKIPPED_MAX: usize = 64 << 20;

/// Reads lines. Splits at 0x0A alone: other line separators are text.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    given_up: bool,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `reader`.
    pub const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), given_up: false }
    }

    /// The next line, if there is one. Never holds more than one line of the permitted length.
    pub fn next_line(&mut self) -> io::Result<Option<RawLine<'_>>> {
        self.buffer.clear();
        if self.given_up {
            return Ok(None);
        }
        let mut too_long = false;
        let mut length = 0;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                return Ok(match (too_long, self.buffer.is_empty()) {
                    // Zeros that a crash left can be longer than a line.
                    (true, _) => Some(RawLine::Unterminated(&[])),
                    (false, true) => None,
                    (false, false) => Some(RawLine::Unterminated(&self.buffer)),
                });
            }
            let end = memchr::memchr(b'\n', available);
            let taken = end.unwrap_or(available.len());
            length += taken;
            if length > LINE_BYTES_MAX {
                too_long = true;
                self.buffer.clear();
            } else {
                self.buffer.extend_from_slice(available.get(..taken).unwrap_or_default());
            }
            if length > LINE_BYTES_MAX + SKIPPED_MAX {
                self.given_up = true;
                return Ok(Some(RawLine::Endless));
            }
            self.reader.consume(end.map_or(taken, |end| end + 1));
            if end.is_some() {
                return Ok(Some(match too_long {
                    true => RawLine::TooLong,
                    false => RawLine::Complete(&self.buffer),
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn all(text: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(io::BufReader::with_capacity(7, text));
        let mut out = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            out.push(match line {
                RawLine::Complete(line) => format!("c:{}", String::from_utf8_lossy(line)),
                RawLine::Unterminated(line) => format!("u:{}", String::from_utf8_lossy(line)),
                RawLine::TooLong => "long".to_owned(),
                RawLine::Endless => "endless".to_owned(),
            });
        }
        out
    }

    #[test]
    fn lines_end_at_line_feeds_and_nowhere_else() {
        assert_eq!(
            all("one\ntwo\u{2028}still two\r\n\nthree".as_bytes()),
            ["c:one", "c:two\u{2028}still two\r", "c:", "u:three"]
        );
        assert!(all(b"").is_empty());
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_named() {
        let mut text = vec![b'x'; LINE_BYTES_MAX + 1];
        text.extend_from_slice(b"\nok\n");
        assert_eq!(all(&text), ["long", "c:ok"]);
        assert_eq!(all(&vec![b'x'; LINE_BYTES_MAX * 2]), ["u:"]);
        assert_eq!(all(&vec![b'x'; LINE_BYTES_MAX]).len(), 1);
    }

    #[test]
    fn a_line_that_does_not_end_is_given_up() {
        let text = io::repeat(b'x').take(u64::MAX);
        let mut lines = Lines::new(io::BufReader::with_capacity(1 << 20, text));
        assert_eq!(lines.next_line().unwrap(), Some(RawLine::Endless));
        assert_eq!(lines.next_line().unwrap(), None);
    }

    /// Where a line is given up does not depend on how its bytes come.
    #[test]
    fn the_longest_line_that_is_skipped_has_one_length() {
        for (more, wanted) in [(0, ["long", "c:ok"].as_slice()), (1, &["endless"])] {
            let mut text = vec![b'x'; LINE_BYTES_MAX + SKIPPED_MAX + more];
            text.extend_from_slice(b"\nok\n");
            assert_eq!(all(&text), wanted, "{more}");
        }
    }
}
