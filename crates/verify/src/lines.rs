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
///
/// A ledger may grow while it is read, and of a line that is being written only the beginning may be
/// there. What was given as the last bytes is therefore the end, whatever follows by then: the other
/// half of a line, taken by itself, would look like an event that somebody broke.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Bytes of the line that was read last, or of which a part was read.
    length: usize,
    /// Whether the line that was read last is over.
    over: bool,
    /// Whether nothing more is read.
    ended: bool,
}

/// Why reading a line stopped.
enum Reached {
    LineBreak,
    /// There are no more bytes, for now.
    LastByte,
    Limit,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `reader`.
    pub const fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), length: 0, over: false, ended: false }
    }

    /// The next line, if there is one. Never holds more than one line of the permitted length.
    pub fn next_line(&mut self) -> io::Result<Option<RawLine<'_>>> {
        let reached = self.advance()?;
        self.ended |= matches!(reached, Reached::LastByte) && self.length > 0;
        Ok(match reached {
            Reached::LastByte if self.length == 0 => None,
            // Zeros that a crash left can be longer than a line, and are not kept.
            Reached::LastByte => Some(RawLine::Unterminated(&self.buffer)),
            reached => Some(self.whole(&reached)),
        })
    }

    /// The next line that has an end. One that has none yet is left to later calls, which may find
    /// more of it.
    pub(crate) fn next_whole(&mut self) -> io::Result<Option<RawLine<'_>>> {
        Ok(match self.advance()? {
            Reached::LastByte => None,
            reached => Some(self.whole(&reached)),
        })
    }

    fn whole(&self, reached: &Reached) -> RawLine<'_> {
        match reached {
            Reached::Limit => RawLine::Endless,
            _ if self.length > LINE_BYTES_MAX => RawLine::TooLong,
            _ => RawLine::Complete(&self.buffer),
        }
    }

    /// Reads the next line, or more of the one that was not over.
    fn advance(&mut self) -> io::Result<Reached> {
        if self.over || self.ended {
            self.buffer.clear();
            self.length = 0;
            self.over = false;
        }
        while !self.ended {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', available);
            let taken = end.unwrap_or(available.len());
            self.length += taken;
            if self.length > LINE_BYTES_MAX {
                self.buffer.clear();
            } else {
                self.buffer.extend_from_slice(available.get(..taken).unwrap_or_default());
            }
            if self.length > LINE_BYTES_MAX + SKIPPED_MAX {
                self.ended = true;
                return Ok(Reached::Limit);
            }
            self.reader.consume(end.map_or(taken, |end| end + 1));
            if end.is_some() {
                self.over = true;
                return Ok(Reached::LineBreak);
            }
        }
        Ok(Reached::LastByte)
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

    /// As a file that grows while it is read: an empty piece is where it ended at that moment.
    fn growing(pieces: &[&'static [u8]]) -> io::BufReader<Growing> {
        io::BufReader::new(Growing(pieces.iter().copied().collect()))
    }

    struct Growing(std::collections::VecDeque<&'static [u8]>);

    impl io::Read for Growing {
        fn read(&mut self, mut room: &mut [u8]) -> io::Result<usize> {
            io::Write::write(&mut room, self.0.pop_front().unwrap_or_default())
        }
    }

    #[test]
    fn the_other_half_of_a_line_that_was_being_written_is_no_line() {
        let mut lines = Lines::new(growing(&[b"one\ntw", b"", b"o\nthree\n"]));
        assert_eq!(lines.next_line().unwrap(), Some(RawLine::Complete(b"one")));
        assert_eq!(lines.next_line().unwrap(), Some(RawLine::Unterminated(b"tw")));
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.next_line().unwrap(), None);
    }

    #[test]
    fn a_line_that_has_no_end_yet_is_read_on_where_that_is_wanted() {
        let mut lines = Lines::new(growing(&[b"one\ntw", b"", b"", b"o\nthr", b"", b"", b"ee"]));
        assert_eq!(lines.next_whole().unwrap(), Some(RawLine::Complete(b"one")));
        assert_eq!(lines.next_whole().unwrap(), None);
        assert_eq!(lines.next_whole().unwrap(), None);
        assert_eq!(lines.next_line().unwrap(), Some(RawLine::Complete(b"two")));
        assert_eq!(lines.next_whole().unwrap(), None);
        assert_eq!(lines.next_line().unwrap(), Some(RawLine::Unterminated(b"thr")));
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
