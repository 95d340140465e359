//! Cutting documents out of a stream: lines, the objects of an array, the items of nested arrays.

/// Bytes of one document.
const DOCUMENT_BYTES_MAX: usize = 256 << 10;

/// Cuts a stream into lines or into the objects of one array.
#[derive(Debug)]
pub(super) struct Cutter {
    form: Form,
    held: Vec<u8>,
    at: At,
    depth: u32,
    in_string: bool,
    escaped: bool,
}

/// What is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    Objects,
}

/// Where an array of objects is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Before,
    First,
    Next,
    Within,
    Behind,
    End,
}

/// Hands on a document, or says why it cannot be.
pub(super) type Give<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), String>;

impl Cutter {
    pub(super) const fn new(form: Form) -> Self {
        let at = At::Before;
        Self { form, held: Vec::new(), at, depth: 0, in_string: false, escaped: false }
    }

    pub(super) fn push(&mut self, piece: &[u8], give: Give<'_>) -> Result<(), String> {
        match self.form {
            Form::Lines => self.lines(piece, give),
            Form::Objects => self.objects(piece, give),
        }
    }

    /// Nothing was left open.
    pub(super) fn end(&self) -> Result<(), String> {
        match self.form {
            Form::Lines if self.held.is_empty() => Ok(()),
            Form::Lines => Err("its last line has no end".to_owned()),
            Form::Objects if self.at == At::End => Ok(()),
            Form::Objects => Err("its array has no end".to_owned()),
        }
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.held.len() + bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(format!("one of its documents has more than {DOCUMENT_BYTES_MAX} bytes"));
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    fn lines(&mut self, mut piece: &[u8], give: Give<'_>) -> Result<(), String> {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, rest) = piece.split_at_checked(end).unwrap_or((piece, &[]));
            if self.held.is_empty() {
                give(line)?;
            } else {
                self.hold(line)?;
                give(&self.held)?;
                self.held.clear();
            }
            piece = rest.get(1..).unwrap_or_default();
        }
        self.hold(piece)
    }

    fn objects(&mut self, piece: &[u8], give: Give<'_>) -> Result<(), String> {
        let (mut start, mut at) = (0, 0);
        while let Some(&byte) = piece.get(at) {
            if self.at == At::Within && self.in_string {
                at += self.within_string(piece.get(at..).unwrap_or_default());
                continue;
            }
            at += 1;
            if self.at == At::Within {
                if self.within(byte) {
                    let last = piece.get(start..at).unwrap_or_default();
                    if self.held.is_empty() {
                        give(last)?;
                    } else {
                        self.hold(last)?;
                        give(&self.held)?;
                        self.held.clear();
                    }
                    self.at = At::Behind;
                }
                continue;
            }
            self.at = match (self.at, byte) {
                (at, b' ' | b'\t' | b'\n' | b'\r') => at,
                (At::Before, b'[') => At::First,
                (At::First | At::Next, b'{') => {
                    start = at - 1;
                    self.depth = 1;
                    At::Within
                }
                (At::Behind, b',') => At::Next,
                (At::First | At::Behind, b']') => At::End,
                _ => return Err("it is no array of objects".to_owned()),
            };
        }
        if self.at == At::Within {
            self.hold(piece.get(start..).unwrap_or_default())?;
        }
        Ok(())
    }

    /// How many of these bytes belong to the string, its end included.
    fn within_string(&mut self, bytes: &[u8]) -> usize {
        if self.escaped {
            self.escaped = false;
            return 1;
        }
        let Some(at) = memchr::memchr2(b'"', b'\\', bytes) else { return bytes.len() };
        match bytes.get(at) {
            Some(b'\\') => self.escaped = true,
            _ => self.in_string = false,
        }
        at + 1
    }

    /// Whether the object ends with this byte, which is in no string.
    const fn within(&mut self, byte: u8) -> bool {
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.depth == 0
    }
}

/// What is met in an array of arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met<'a> {
    /// A number or a string without escapes, quotes taken off.
    Item(&'a [u8]),
    /// An inner array is at its end.
    End,
}

/// Takes an array of arrays of numbers or plain strings apart.
#[derive(Debug, Default)]
pub(super) struct Nested {
    held: Vec<u8>,
    depth: u8,
    /// Whether an item or array must, may or must not come next.
    due: Due,
    ended: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Due {
    #[default]
    First,
    Item,
    Comma,
    Number,
    Text,
}

/// Bytes of a number or a hash.
const ITEM_BYTES_MAX: usize = 128;

impl Nested {
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        meet: &mut dyn FnMut(Met<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        for &byte in piece {
            self.byte(byte, meet)?;
        }
        Ok(())
    }

    pub(super) fn end(&self) -> Result<(), String> {
        if self.ended { Ok(()) } else { Err("its array has no end".to_owned()) }
    }

    fn byte(
        &mut self,
        byte: u8,
        meet: &mut dyn FnMut(Met<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let other = || Err("it is no array of arrays".to_owned());
        if self.due == Due::Text || (self.due == Due::Number && byte.is_ascii_digit()) {
            if self.due == Due::Text && byte == b'"' {
                self.due = Due::Comma;
                return self.give(meet);
            }
            if byte == b'\\' || self.held.len() == ITEM_BYTES_MAX {
                return other();
            }
            self.held.push(byte);
            return Ok(());
        }
        if self.due == Due::Number {
            self.due = Due::Comma;
            self.give(meet)?;
        }
        match (byte, self.due) {
            (b' ' | b'\t' | b'\n' | b'\r', _) => {}
            _ if self.ended => return other(),
            (b'[', Due::First | Due::Item) if self.depth < 2 => {
                self.depth += 1;
                self.due = Due::First;
            }
            (b']', Due::First | Due::Comma) if self.depth > 0 => {
                self.depth -= 1;
                self.ended = self.depth == 0;
                self.due = Due::Comma;
                if !self.ended {
                    meet(Met::End)?;
                }
            }
            (b',', Due::Comma) if self.depth > 0 => self.due = Due::Item,
            (b'"', Due::First | Due::Item) if self.depth == 2 => self.due = Due::Text,
            (b'0'..=b'9', Due::First | Due::Item) if self.depth == 2 => {
                self.held.push(byte);
                self.due = Due::Number;
            }
            _ => return other(),
        }
        Ok(())
    }

    fn give(&mut self, meet: &mut dyn FnMut(Met<'_>) -> Result<(), String>) -> Result<(), String> {
        let given = meet(Met::Item(&self.held));
        self.held.clear();
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(form: Form, bytes: &[u8], size: usize) -> Result<Vec<String>, String> {
        let mut cutter = Cutter::new(form);
        let mut found = Vec::new();
        for piece in bytes.chunks(size) {
            cutter.push(piece, &mut |document| {
                found.push(String::from_utf8_lossy(document).into_owned());
                Ok(())
            })?;
        }
        cutter.end().map(|()| found)
    }

    #[test]
    fn documents_are_cut_alike_however_they_come() {
        let array = br#" [ {"a": "}\"]"} ,{"b":[{}]}
]  "#;
        for size in 1..array.len() {
            let found = cut(Form::Objects, array, size).unwrap();
            assert_eq!(found, [r#"{"a": "}\"]"}"#, r#"{"b":[{}]}"#]);
            assert_eq!(cut(Form::Lines, b"one\n\nthree\n", size).unwrap(), ["one", "", "three"]);
        }
        assert_eq!(cut(Form::Objects, b"[]", 9), Ok(vec![]));
        for broken in ["", "[", "[{}", "[{},]", "[{}]x", "{}", "[1]", "[{} {}]"] {
            cut(Form::Objects, broken.as_bytes(), 3).unwrap_err();
        }
        cut(Form::Lines, b"one\ntwo", 9).unwrap_err();
    }

    #[test]
    fn nested_arrays_are_taken_apart() {
        let read = |text: &str, size: usize| {
            let (mut nested, mut out) = (Nested::default(), String::new());
            for piece in text.as_bytes().chunks(size) {
                nested.push(piece, &mut |met| {
                    match met {
                        Met::Item(item) => out.push_str(&format!("{} ", item.escape_ascii())),
                        Met::End => out.push('/'),
                    }
                    Ok(())
                })?;
            }
            nested.end().map(|()| out)
        };
        for size in 1..9 {
            assert_eq!(read("[[1, 22],[], [\"ab\" , 3]] ", size).unwrap(), "1 22 //ab 3 /");
        }
        assert_eq!(read("[]", 9).unwrap(), "");
        for broken in [
            "",
            "[",
            "[[1]",
            "[1]",
            "[[1,]]",
            "[[1 2]]",
            "[[[]]]",
            "[[]]]",
            "[[-1]]",
            "[[1.5]]",
            "[[\"\\n\"]]",
            "[[]]x",
        ] {
            read(broken, 4).unwrap_err();
        }
    }
}
