//! Ledger lines: proof that the bytes are canonical, and where the members lie.
//!
//! Hashes and signed bytes of an event are its line without some members. Because a stored line is
//! canonical, they are slices of it: nothing is serialised again. Members are found by walking the
//! structure, never by searching text, since nested objects may hold the same names.

use std::ops::Range;

use super::{
    DEPTH_MAX, ELEMENTS_MAX, INTEGER_MAX, JsonError, JsonFault, LINE_BYTES_MAX,
    PARSER_PRIVATE_PREFIX, number, string,
};

/// Members that most lines have: room is made for them at once.
const MEMBERS: usize = 16;

/// A canonical JSON object and its members.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    text: &'a str,
    members: Vec<Member>,
}

#[derive(Debug, Clone)]
struct Member {
    key: Range<usize>,
    value: Range<usize>,
}

impl<'a> Line<'a> {
    /// The whole line.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// The canonical bytes of the value of the member `key`.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<&'a [u8]> {
        let member = self.members.iter().find(|member| self.key(member) == key)?;
        self.text.as_bytes().get(member.value.clone())
    }

    /// The text of the member `key` if it is a string without escapes.
    #[must_use]
    pub fn plain_string(&self, key: &str) -> Option<&'a str> {
        let value = std::str::from_utf8(self.member(key)?).ok()?;
        let inner = value.strip_prefix('"')?.strip_suffix('"')?;
        (!inner.contains('\\')).then_some(inner)
    }

    /// The slices that, one after the other, are the canonical bytes of this object without the
    /// members in `dropped`.
    #[must_use]
    pub fn without(&self, dropped: &[&str]) -> Vec<&'a [u8]> {
        let bytes = self.text.as_bytes();
        let slice = |range: Range<usize>| bytes.get(range).unwrap_or_default();
        let mut pieces: Vec<&'a [u8]> = Vec::with_capacity(dropped.len() + 2);
        let mut run: Option<Range<usize>> = None;
        for (index, member) in self.members.iter().enumerate() {
            // A kept member takes the comma before it along, and the first one the brace.
            let start = member.key.start - 2;
            if dropped.contains(&self.key(member)) {
                if let Some(run) = run.take() {
                    pieces.push(slice(run));
                }
                continue;
            }
            match &mut run {
                Some(run) => run.end = member.value.end,
                None if index > 0 && pieces.is_empty() => {
                    pieces.push(b"{");
                    run = Some(start + 1..member.value.end);
                }
                None => run = Some(start..member.value.end),
            }
        }
        match run {
            Some(run) if run.end + 1 == bytes.len() => pieces.push(slice(run.start..bytes.len())),
            Some(run) => pieces.extend([slice(run), b"}"]),
            None if pieces.is_empty() => pieces.push(b"{}"),
            None => pieces.push(b"}"),
        }
        pieces
    }

    fn key(&self, member: &Member) -> &'a str {
        self.text.get(member.key.clone()).unwrap_or_default()
    }
}

/// Proves that `bytes` are the canonical form of one JSON object, in one pass, and finds its
/// members. The line break does not belong to the line.
pub fn scan(bytes: &[u8]) -> Result<Line<'_>, JsonError> {
    scan_within(bytes, LINE_BYTES_MAX, ELEMENTS_MAX)
}

/// As [`scan`], for documents with limits of their own. No tree is built, whatever they hold.
pub fn scan_within(bytes: &[u8], max: usize, elements: usize) -> Result<Line<'_>, JsonError> {
    let fail = |(offset, fault)| JsonError::at(bytes, offset, fault);
    if bytes.len() > max {
        let fault = JsonFault::TooLong { bytes: bytes.len(), max };
        return Err(fail((0, fault)));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| fail((error.valid_up_to(), JsonFault::InvalidUtf8)))?;
    if text.starts_with('\u{feff}') {
        return Err(fail((0, JsonFault::ByteOrderMark)));
    }
    let mut scanner = Scanner {
        text,
        bytes,
        at: 0,
        depth: 0,
        elements: 0,
        elements_max: elements,
        members: Vec::with_capacity(MEMBERS),
    };
    if scanner.peek() != Some(b'{') {
        return Err(fail(scanner.expected("`{`")));
    }
    scanner.value().map_err(fail)?;
    if scanner.at != bytes.len() {
        return Err(fail((scanner.at, JsonFault::TrailingText)));
    }
    Ok(Line { text, members: scanner.members })
}

/// How many objects and arrays a JSON text opens: what its tree costs follows from them rather than
/// from its length. Of a text that is no JSON it gives some number.
#[must_use]
pub fn containers(bytes: &[u8]) -> usize {
    let (mut count, mut rest) = (0, bytes);
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'{' | b'[' => count += 1,
            b'"' => rest = behind_string(rest),
            _ => {}
        }
    }
    count
}

/// What follows the string whose first quote is just before `bytes`.
fn behind_string(mut bytes: &[u8]) -> &[u8] {
    loop {
        bytes = bytes.get(string::ordinary(bytes)..).unwrap_or_default();
        bytes = match bytes {
            [b'"', rest @ ..] => return rest,
            [b'\\', _, rest @ ..] | [_, rest @ ..] => rest,
            [] => return bytes,
        };
    }
}

/// Proves as much for a line whose other members are known to be canonical: that it is no longer
/// than a line may be, and that the one value that came from outside is canonical and not too deep
/// or too large where it stands, beside `elements` others.
pub(crate) fn check_member(
    line_bytes: usize,
    value: &[u8],
    elements: usize,
) -> Result<(), JsonError> {
    if line_bytes > LINE_BYTES_MAX {
        let fault = JsonFault::TooLong { bytes: line_bytes, max: LINE_BYTES_MAX };
        return Err(JsonError::at(value, 0, fault));
    }
    let fail = |(offset, fault)| JsonError::at(value, offset, fault);
    let text = std::str::from_utf8(value)
        .map_err(|error| fail((error.valid_up_to(), JsonFault::InvalidUtf8)))?;
    // Inside of the line, the value begins one level deep.
    let mut scanner = Scanner {
        text,
        bytes: value,
        at: 0,
        depth: 1,
        elements,
        elements_max: ELEMENTS_MAX,
        members: Vec::new(),
    };
    scanner.value().map_err(fail)?;
    if scanner.at == value.len() {
        Ok(())
    } else {
        Err(fail((scanner.at, JsonFault::TrailingText)))
    }
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    elements: usize,
    elements_max: usize,
    members: Vec<Member>,
}

type Step<T> = Result<T, (usize, JsonFault)>;

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn expected(&self, what: &'static str) -> (usize, JsonFault) {
        match self.peek() {
            Some(b' ' | b'\t' | b'\n' | b'\r') => (self.at, JsonFault::NotCanonical("white space")),
            Some(_) => (self.at, JsonFault::Expected(what)),
            None => (self.at, JsonFault::UnexpectedEnd(what)),
        }
    }

    fn value(&mut self) -> Step<()> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => Err(self.expected("a value")),
        }
    }

    fn word(&mut self, word: &'static str) -> Step<()> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.expected("a value"))
        }
    }

    fn number(&mut self) -> Step<()> {
        let (end, fractional) = number::token(self.bytes, self.at)?;
        let token = self.text.get(self.at..end).unwrap_or_default();
        let value = number::value(token, fractional).map_err(|fault| (self.at, fault))?;
        let canonical = if fractional {
            let mut form = Vec::with_capacity(24);
            number::write(&value, &mut form);
            form == token.as_bytes()
        } else {
            debug_assert!(value.as_i64().is_some_and(|n| n.abs() <= INTEGER_MAX));
            token != "-0"
        };
        if !canonical {
            return Err((self.at, JsonFault::NotCanonical("number form")));
        }
        self.at = end;
        Ok(())
    }

    /// Walks a string; true if it holds neither escapes nor anything beyond ASCII.
    fn string(&mut self) -> Step<bool> {
        let mut plain = true;
        let mut index = self.at + 1;
        loop {
            let rest = self.bytes.get(index..).unwrap_or_default();
            let run = string::ordinary(rest);
            plain &= rest.get(..run).is_some_and(<[u8]>::is_ascii);
            index += run;
            match self.bytes.get(index) {
                None => return Err((index, JsonFault::UnexpectedEnd("`\"`"))),
                Some(b'"') => {
                    self.at = index + 1;
                    return Ok(plain);
                }
                Some(b'\\') => {
                    plain = false;
                    index += self.escape(index)?;
                }
                Some(&byte) => return Err((index, JsonFault::RawControl(byte.into()))),
            }
        }
    }

    /// The length of the escape sequence at `at`, which must be the one that RFC 8785 writes.
    fn escape(&self, at: usize) -> Step<usize> {
        match self.bytes.get(at + 1) {
            Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
            Some(b'u') => match self.bytes.get(at + 2..at + 6) {
                Some([b'0', b'0', high @ (b'0' | b'1'), low]) => {
                    let has_short_form =
                        *high == b'0' && matches!(low, b'8' | b'9' | b'a' | b'c' | b'd');
                    if low.is_ascii_digit() || (b'a'..=b'f').contains(low) {
                        if has_short_form {
                            return Err((at, JsonFault::NotCanonical("escape sequence")));
                        }
                        return Ok(6);
                    }
                    Err((at, JsonFault::NotCanonical("escape sequence")))
                }
                _ => {
                    // Say what is wrong with the string if it is no JSON at all.
                    string::read(self.text, self.at)?;
                    Err((at, JsonFault::NotCanonical("escape sequence")))
                }
            },
            Some(b'/') => Err((at, JsonFault::NotCanonical("escape sequence"))),
            Some(_) => Err((at, JsonFault::UnknownEscape)),
            None => Err((at + 1, JsonFault::UnexpectedEnd("an escape sequence"))),
        }
    }

    fn nested(&mut self, scan: impl FnOnce(&mut Self) -> Step<()>) -> Step<()> {
        if self.depth == DEPTH_MAX {
            return Err((self.at, JsonFault::TooDeep));
        }
        self.depth += 1;
        self.at += 1;
        scan(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn count_element(&mut self) -> Step<()> {
        self.elements += 1;
        if self.elements > self.elements_max {
            return Err((self.at, JsonFault::TooManyElements));
        }
        Ok(())
    }

    /// After an element: true if another follows, false if the container was closed.
    fn another(&mut self, close: u8, what: &'static str) -> Step<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn array(&mut self) -> Step<()> {
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.count_element()?;
            self.value()?;
            if !self.another(b']', "`,` or `]`")? {
                return Ok(());
            }
        }
    }

    fn object(&mut self) -> Step<()> {
        let top = self.depth == 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut previous: Option<Key> = None;
        loop {
            self.count_element()?;
            let key = self.key()?;
            if let Some(previous) = &previous {
                self.follows(previous, &key)?;
            }
            if self.peek() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.at += 1;
            let start = self.at;
            self.value()?;
            if top {
                self.members.push(Member { key: key.range.clone(), value: start..self.at });
            }
            previous = Some(key);
            if !self.another(b'}', "`,` or `}`")? {
                return Ok(());
            }
        }
    }

    fn key(&mut self) -> Step<Key> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("`\"`"));
        }
        let start = self.at;
        let plain = self.string()?;
        let range = start + 1..self.at - 1;
        let unescaped = if plain { None } else { Some(string::read(self.text, start)?.0) };
        let key = Key { range, unescaped };
        if self.name(&key).starts_with(PARSER_PRIVATE_PREFIX) {
            return Err((start, JsonFault::ReservedKey(self.name(&key).to_owned())));
        }
        Ok(key)
    }

    fn name<'k>(&'k self, key: &'k Key) -> &'k str {
        match &key.unescaped {
            Some(name) => name,
            None => self.text.get(key.range.clone()).unwrap_or_default(),
        }
    }

    /// Keys rise strictly in UTF-16 order; so a duplicate shows without remembering all of them.
    fn follows(&self, previous: &Key, key: &Key) -> Step<()> {
        let (a, b) = (self.name(previous), self.name(key));
        let order = if previous.unescaped.is_none() && key.unescaped.is_none() {
            a.cmp(b)
        } else {
            a.encode_utf16().cmp(b.encode_utf16())
        };
        match order {
            std::cmp::Ordering::Less => Ok(()),
            std::cmp::Ordering::Equal => {
                Err((key.range.start, JsonFault::DuplicateKey(b.to_owned())))
            }
            std::cmp::Ordering::Greater => {
                Err((key.range.start, JsonFault::NotCanonical("key order")))
            }
        }
    }
}

struct Key {
    range: Range<usize>,
    /// The name, where its bytes in the line are not the name itself or not ASCII.
    unescaped: Option<String>,
}
