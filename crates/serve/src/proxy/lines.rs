//! Lines of a stream, none of them longer than a limit.
//!
//! A line that is too long is passed over without being kept; of it is told whose answer it was, where
//! that can be told.

use std::io::{self, BufRead};

use super::head::Id;

/// Bytes of a member at the outermost level of a line that are kept while it is passed over.
const MEMBER_BYTES_MAX: usize = 256;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineRead {
    /// A line, with its line break.
    Line(Vec<u8>),
    /// One that was too long, and the id in it.
    TooLong(Option<Id>),
    /// The stream has ended. A line that its end cuts off is none.
    End,
}

/// Reads the next line.
pub(super) fn next(reader: &mut impl BufRead, max: usize) -> LineRead {
    let mut line = Vec::new();
    let mut passed_over: Option<IdFinder> = None;
    loop {
        let buffer = match reader.fill_buf() {
            Ok([]) => return LineRead::End,
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return LineRead::End,
        };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        let (piece, _) = buffer.split_at(used);
        if passed_over.is_none() && line.len() + piece.len() > max {
            let mut finder = IdFinder::default();
            finder.see(&line);
            line = Vec::new();
            passed_over = Some(finder);
        }
        match &mut passed_over {
            Some(finder) => finder.see(piece),
            None => line.extend_from_slice(piece),
        }
        reader.consume(used);
        if end.is_some() {
            return match passed_over {
                Some(finder) => LineRead::TooLong(finder.id()),
                None => LineRead::Line(line),
            };
        }
    }
}

/// The id in a line that cannot be read otherwise.
pub(super) fn id_in(line: &[u8]) -> Option<Id> {
    let mut finder = IdFinder::default();
    finder.see(line);
    finder.id()
}

/// Finds the member `id` of an object that goes by.
#[derive(Debug, Default)]
struct IdFinder {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// What came of the current member of the outermost object.
    member: Vec<u8>,
    id: Option<Id>,
}

impl IdFinder {
    fn see(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.in_text {
                self.in_text = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                self.keep(byte);
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == 1 {
                        continue;
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.member_ends();
                    }
                }
                // A bracket too many may have ended the object before its time.
                b',' if self.depth <= 1 => {
                    self.depth = 1;
                    self.member_ends();
                    continue;
                }
                _ => {}
            }
            self.keep(byte);
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.member.len() < MEMBER_BYTES_MAX {
            self.member.push(byte);
        }
    }

    fn member_ends(&mut self) {
        let member = std::mem::take(&mut self.member);
        let object = [b"{", &*member, b",\"error\":{}}"].concat();
        if let Ok(super::head::Line::One(super::head::Head::Response { id, .. })) =
            super::head::read(&object)
        {
            self.id.get_or_insert(id);
        }
    }

    fn id(self) -> Option<Id> {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_with_their_breaks_and_one_that_is_cut_off_does_not_come() {
        let mut input = &b"one\r\n\ntwo\nthr"[..];
        let mut lines = || next(&mut input, 10);
        assert_eq!(lines(), LineRead::Line(b"one\r\n".to_vec()));
        assert_eq!(lines(), LineRead::Line(b"\n".to_vec()));
        assert_eq!(lines(), LineRead::Line(b"two\n".to_vec()));
        assert_eq!(lines(), LineRead::End);
    }

    #[test]
    fn the_id_of_a_line_that_is_no_json_is_told_where_it_can_be() {
        for (line, id) in [
            (&b"{\"id\":7,\"result\":{\"a\":\"\xff\"}}"[..], Some("7")),
            (br#"{"result":{"a":[}]},"id":7}"#, Some("7")),
            (br#"{"id":7,"result":{"a":1"#, Some("7")),
            (b"{\"id\":7,\r\"result\":{}}", Some("7")),
            (br#"{"result":{"id":7}"#, None),
            (b"[7]", None),
        ] {
            let found = id_in(line).map(|id| id.to_string());
            assert_eq!(found.as_deref(), id, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_its_id_is_told() {
        let long = "x".repeat(1_000);
        for (line, id) in [
            (format!(r#"{{"id":7,"result":{{"id":8,"a":"{long}"}}}}"#), Some("7")),
            (format!(r#"{{"result":{{"a":["{long}\"}}"]}},"id":"seven"}}"#), Some("seven")),
            (format!(r#"{{"result":{{"id":8,"a":"{long}"}}}}"#), None),
            (long.clone(), None),
        ] {
            let text = format!("{line}\nshort\n");
            let mut input = io::BufReader::with_capacity(64, text.as_bytes());
            let LineRead::TooLong(found) = next(&mut input, 100) else { panic!("{line}") };
            assert_eq!(found.map(|id| id.to_string()).as_deref(), id, "{line}");
            assert_eq!(next(&mut input, 100), LineRead::Line(b"short\n".to_vec()));
        }
    }
}
