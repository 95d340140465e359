//! The strict reader.

use super::{
    DEPTH_MAX, ELEMENTS_MAX, JsonError, JsonFault, LINE_BYTES_MAX, Map, PARSER_PRIVATE_PREFIX,
    Value, number, string,
};

/// Reads one JSON document of at most [`LINE_BYTES_MAX`] bytes.
///
/// Refuses everything that two readers might take differently: duplicate keys, numbers that a
/// double cannot hold, lone surrogates, invalid UTF-8, a byte order mark, text after the value.
pub fn read(bytes: &[u8]) -> Result<Value, JsonError> {
    read_up_to(bytes, LINE_BYTES_MAX)
}

/// As [`read`], for documents with a limit of their own.
pub fn read_up_to(bytes: &[u8], max: usize) -> Result<Value, JsonError> {
    read_within(bytes, max, ELEMENTS_MAX)
}

/// As [`read_up_to`], with a number of elements of its own instead of [`ELEMENTS_MAX`].
pub fn read_within(bytes: &[u8], max: usize, elements: usize) -> Result<Value, JsonError> {
    let fail = |(offset, fault)| JsonError::at(bytes, offset, fault);
    if bytes.len() > max {
        return Err(fail((0, JsonFault::TooLong { bytes: bytes.len(), max })));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| fail((error.valid_up_to(), JsonFault::InvalidUtf8)))?;
    if text.starts_with('\u{feff}') {
        return Err(fail((0, JsonFault::ByteOrderMark)));
    }
    let mut reader =
        Reader { text, at: 0, depth: 0, elements: 0, elements_max: elements, trail: Vec::new() };
    let outcome = reader.document().map_err(fail);
    outcome.map_err(|error| JsonError { pointer: pointer(&reader.trail), ..error })
}

/// The JSON pointer of a trail, which leads from the fault up to the document.
fn pointer(trail: &[String]) -> String {
    let escape = |step: &String| format!("/{}", step.replace('~', "~0").replace('/', "~1"));
    trail.iter().rev().map(escape).collect()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    elements: usize,
    elements_max: usize,
    /// Filled while a fault travels up: the steps that lead to it, innermost first.
    trail: Vec<String>,
}

type Step<T> = Result<T, (usize, JsonFault)>;

impl Reader<'_> {
    fn document(&mut self) -> Step<Value> {
        self.space();
        let value = self.value()?;
        self.space();
        if self.at == self.text.len() { Ok(value) } else { Err((self.at, JsonFault::TrailingText)) }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expected(&self, what: &'static str) -> (usize, JsonFault) {
        match self.peek() {
            Some(_) => (self.at, JsonFault::Expected(what)),
            None => (self.at, JsonFault::UnexpectedEnd(what)),
        }
    }

    fn value(&mut self) -> Step<Value> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.expected("a value")),
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Step<Value> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.expected("a value"))
        }
    }

    fn number(&mut self) -> Step<Value> {
        let (end, fractional) = number::token(self.text.as_bytes(), self.at)?;
        let token = self.text.get(self.at..end).unwrap_or_default();
        let value = number::value(token, fractional).map_err(|fault| (self.at, fault))?;
        self.at = end;
        Ok(Value::Number(value))
    }

    fn string(&mut self) -> Step<String> {
        let (text, after) = string::read(self.text, self.at)?;
        self.at = after;
        Ok(text)
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Step<Value>) -> Step<Value> {
        if self.depth == DEPTH_MAX {
            return Err((self.at, JsonFault::TooDeep));
        }
        self.depth += 1;
        self.at += 1;
        self.space();
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
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
        self.space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.space();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn array(&mut self) -> Step<Value> {
        let mut elements = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(elements));
        }
        loop {
            self.count_element()?;
            let element = self.value();
            if element.is_err() {
                self.trail.push(elements.len().to_string());
            }
            elements.push(element?);
            if !self.another(b']', "`,` or `]`")? {
                return Ok(Value::Array(elements));
            }
        }
    }

    fn object(&mut self) -> Step<Value> {
        let mut members = Map::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.count_element()?;
            if self.peek() != Some(b'"') {
                return Err(self.expected("`\"`"));
            }
            let key_at = self.at;
            let key = self.string()?;
            if key.starts_with(PARSER_PRIVATE_PREFIX) {
                return Err((key_at, JsonFault::ReservedKey(key)));
            }
            if members.contains_key(&key) {
                return Err((key_at, JsonFault::DuplicateKey(key)));
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.at += 1;
            self.space();
            let value = self.value();
            if value.is_err() {
                self.trail.push(key.clone());
            }
            members.insert(key, value?);
            if !self.another(b'}', "`,` or `}`")? {
                return Ok(Value::Object(members));
            }
        }
    }
}
