//! The reader: what `json.loads` of Python 3.11 takes, within limits.

use super::{FLOAT_BYTES_MAX, INTEGER_DIGITS_MAX, PyInteger, PyObject, PyString, PyValue};
use crate::json::{DEPTH_MAX, ELEMENTS_MAX, JsonError, JsonFault, LINE_BYTES_MAX};

/// Reads one document as `json.loads(bytes.decode("utf-8"))` does.
///
/// Refuses, unlike Python, documents beyond [`LINE_BYTES_MAX`], [`DEPTH_MAX`], [`ELEMENTS_MAX`]
/// and [`FLOAT_BYTES_MAX`].
pub fn loads(bytes: &[u8]) -> Result<PyValue, JsonError> {
    let fail = |(offset, fault)| error_at(bytes, offset, fault);
    if bytes.len() > LINE_BYTES_MAX {
        return Err(fail((0, JsonFault::TooLong { bytes: bytes.len(), max: LINE_BYTES_MAX })));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| fail((error.valid_up_to(), JsonFault::InvalidUtf8)))?;
    if text.starts_with('\u{feff}') {
        return Err(fail((0, JsonFault::ByteOrderMark)));
    }
    let mut reader = Reader { text, at: 0, depth: 0, elements: 0 };
    reader.document().map_err(fail)
}

fn error_at(text: &[u8], offset: usize, fault: JsonFault) -> JsonError {
    let before = text.get(..offset).unwrap_or(text);
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let column = 1 + before.iter().rev().take_while(|&&byte| byte != b'\n').count();
    JsonError { fault, offset, line, column, pointer: String::new() }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    elements: usize,
}

type Step<T> = Result<T, (usize, JsonFault)>;

impl<'a> Reader<'a> {
    fn document(&mut self) -> Step<PyValue> {
        self.space();
        let value = self.value()?;
        self.space();
        if self.at == self.text.len() { Ok(value) } else { Err((self.at, JsonFault::TrailingText)) }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn peek(&self) -> Option<u8> {
        self.byte(self.at)
    }

    fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
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

    fn value(&mut self) -> Step<PyValue> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(PyValue::String),
            Some(b't') => self.word("true", PyValue::Bool(true)),
            Some(b'f') => self.word("false", PyValue::Bool(false)),
            Some(b'n') => self.word("null", PyValue::Null),
            Some(b'N') => self.word("NaN", PyValue::Float(f64::NAN)),
            Some(b'I') => self.word("Infinity", PyValue::Float(f64::INFINITY)),
            Some(b'-') if self.byte(self.at + 1) == Some(b'I') => {
                self.word("-Infinity", PyValue::Float(f64::NEG_INFINITY))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.expected("a value")),
        }
    }

    fn word(&mut self, word: &'static str, value: PyValue) -> Step<PyValue> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.expected("a value"))
        }
    }

    fn digits(&self, from: usize) -> usize {
        let rest = self.text.as_bytes().get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    fn number(&mut self) -> Step<PyValue> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let whole = self.digits(self.at);
        if whole == 0 {
            return Err(self.expected("a digit"));
        }
        if whole > 1 && self.peek() == Some(b'0') {
            return Err((self.at, JsonFault::Expected("a number without leading zeros")));
        }
        self.at += whole;
        let integer_end = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        let token = self.slice(start, self.at);
        if self.at == integer_end {
            if whole > INTEGER_DIGITS_MAX {
                return Err((start, JsonFault::Expected("an integer of at most 4300 digits")));
            }
            return Ok(PyValue::Integer(PyInteger::from_token(token)));
        }
        if token.len() > FLOAT_BYTES_MAX {
            return Err((start, JsonFault::Expected("a number of at most 16384 bytes")));
        }
        let float = token.parse().map_err(|_| (start, JsonFault::Expected("a number")))?;
        Ok(PyValue::Float(float))
    }

    fn some_digits(&mut self) -> Step<()> {
        match self.digits(self.at) {
            0 => Err(self.expected("a digit")),
            count => {
                self.at += count;
                Ok(())
            }
        }
    }

    fn string(&mut self) -> Step<PyString> {
        let mut out = PyString::default();
        self.at += 1;
        let mut run = self.at;
        loop {
            match self.peek() {
                None => return Err((self.at, JsonFault::UnexpectedEnd("`\"`"))),
                Some(b'"') => {
                    out.push_str(self.slice(run, self.at));
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(self.slice(run, self.at));
                    out.push_code_point(self.escape()?);
                    run = self.at;
                }
                Some(byte @ 0..0x20) => return Err((self.at, JsonFault::RawControl(byte.into()))),
                Some(_) => self.at += 1,
            }
        }
    }

    /// The code point that the escape sequence here stands for; moves past it.
    fn escape(&mut self) -> Step<u32> {
        let simple = match self.byte(self.at + 1) {
            Some(same @ (b'"' | b'\\' | b'/')) => same,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.unicode_escape(),
            Some(_) => return Err((self.at, JsonFault::UnknownEscape)),
            None => return Err((self.at + 1, JsonFault::UnexpectedEnd("an escape sequence"))),
        };
        self.at += 2;
        Ok(simple.into())
    }

    fn unicode_escape(&mut self) -> Step<u32> {
        let first = self.hex4(self.at + 2)?;
        self.at += 6;
        let pair_may_follow = (0xD800..0xDC00).contains(&first)
            && self.peek() == Some(b'\\')
            && self.byte(self.at + 1) == Some(b'u');
        if pair_may_follow {
            let second = self.hex4(self.at + 2)?;
            if (0xDC00..0xE000).contains(&second) {
                self.at += 6;
                return Ok(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
            }
        }
        Ok(first)
    }

    fn hex4(&self, from: usize) -> Step<u32> {
        const WANTED: &str = "four hexadecimal digits";
        (from..from + 4).try_fold(0, |value, at| {
            let byte = self.byte(at).ok_or((at, JsonFault::UnexpectedEnd(WANTED)))?;
            let digit = char::from(byte).to_digit(16).ok_or((at, JsonFault::Expected(WANTED)))?;
            Ok((value << 4) | digit)
        })
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Step<PyValue>) -> Step<PyValue> {
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
        if self.elements > ELEMENTS_MAX {
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

    fn array(&mut self) -> Step<PyValue> {
        let mut elements = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(PyValue::Array(elements));
        }
        loop {
            self.count_element()?;
            elements.push(self.value()?);
            if !self.another(b']', "`,` or `]`")? {
                return Ok(PyValue::Array(elements));
            }
        }
    }

    fn object(&mut self) -> Step<PyValue> {
        let mut members = PyObject::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(PyValue::Object(members));
        }
        loop {
            self.count_element()?;
            if self.peek() != Some(b'"') {
                return Err(self.expected("`\"`"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.expected("`:`"));
            }
            self.at += 1;
            self.space();
            let value = self.value()?;
            members.insert(key, value);
            if !self.another(b'}', "`,` or `}`")? {
                return Ok(PyValue::Object(members));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dumps;
    use super::*;

    fn round_trip(text: &str) -> String {
        dumps(&loads(text.as_bytes()).unwrap())
    }

    #[test]
    fn numbers_keep_their_kind_and_lose_their_spelling() {
        for (text, again) in [
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("1e5", "100000.0"),
            ("0.10", "0.1"),
            ("1E400", "Infinity"),
            ("-1e400", "-Infinity"),
            ("1e-400", "0.0"),
            ("9007199254740993", "9007199254740993"),
            ("-123456789012345678901234567890", "-123456789012345678901234567890"),
            ("[NaN, Infinity, -Infinity]", "[NaN,Infinity,-Infinity]"),
        ] {
            assert_eq!(round_trip(text), again);
        }
    }

    #[test]
    fn lone_surrogates_stay_and_pairs_are_joined() {
        assert_eq!(round_trip(r#""x\uD800y""#), r#""x\ud800y""#);
        assert_eq!(round_trip(r#""\ud83d\ud83d\ude80""#), "\"\\ud83d\\ud83d\\ude80\"");
        assert_eq!(round_trip(r#""\ude80\ud83d""#), r#""\ude80\ud83d""#);
        assert_eq!(round_trip("\"🚀\""), "\"\\ud83d\\ude80\"");
    }

    #[test]
    fn the_last_of_repeated_keys_counts() {
        assert_eq!(round_trip(r#"{"b":1,"a":2,"\u0062":3}"#), r#"{"a":2,"b":3}"#);
    }

    #[test]
    fn limits_hold_exactly() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(loads(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert_eq!(loads(nested(DEPTH_MAX + 1).as_bytes()).unwrap_err().fault, JsonFault::TooDeep);
        let digits = |count| format!("-{}", "7".repeat(count));
        assert!(loads(digits(INTEGER_DIGITS_MAX).as_bytes()).is_ok());
        assert_eq!(
            loads(digits(INTEGER_DIGITS_MAX + 1).as_bytes()).unwrap_err().to_string(),
            "expected an integer of at most 4300 digits at line 1 column 1"
        );
        let float = |bytes: usize| format!("{}.5", "7".repeat(bytes - 2));
        assert!(loads(float(FLOAT_BYTES_MAX).as_bytes()).is_ok());
        assert_eq!(
            loads(float(FLOAT_BYTES_MAX + 1).as_bytes()).unwrap_err().to_string(),
            "expected a number of at most 16384 bytes at line 1 column 1"
        );
        let list = |elements: usize| format!("[{}0]", "0,".repeat(elements - 1));
        assert!(loads(list(ELEMENTS_MAX).as_bytes()).is_ok());
        let error = loads(list(ELEMENTS_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(error.fault, JsonFault::TooManyElements);
        let error = loads(&vec![b' '; LINE_BYTES_MAX + 1]).unwrap_err();
        assert!(matches!(error.fault, JsonFault::TooLong { .. }));
    }
}
