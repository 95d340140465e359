//! What is wrong with a JSON text, and where.

use std::fmt;

use crate::text;

/// Characters of a key that a fault repeats: it may be as long as the document.
const KEY_CHARS_MAX: usize = 200;

/// A reason to refuse a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// The text is longer than a document may be.
    #[error("document of {bytes} bytes, the limit is {max}")]
    TooLong {
        /// Length of the text.
        bytes: usize,
        /// What is allowed.
        max: usize,
    },
    /// Not UTF-8: surrogates, overlong forms, truncated sequences, another encoding.
    #[error("invalid UTF-8")]
    InvalidUtf8,
    /// The text starts with U+FEFF.
    #[error("byte order mark before the value")]
    ByteOrderMark,
    /// Something else was needed here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The text ends in the middle of a value.
    #[error("unexpected end of input, expected {0}")]
    UnexpectedEnd(&'static str),
    /// Text after the value.
    #[error("text after the value")]
    TrailingText,
    /// A raw control character inside a string.
    #[error("control character U+{0:04X} in a string must be escaped")]
    RawControl(u32),
    /// A backslash followed by something that JSON does not define.
    #[error("unknown escape sequence")]
    UnknownEscape,
    /// Half of a surrogate pair.
    #[error("lone surrogate U+{0:04X}")]
    LoneSurrogate(u16),
    /// The same member twice in one object, compared after unescaping.
    #[error("duplicate key `{}`", shown(.0))]
    DuplicateKey(String),
    /// A key that a JSON library reserves for itself.
    #[error("reserved key `{}`", shown(.0))]
    ReservedKey(String),
    /// An integer, or a number whose canonical form is one, outside ±(2^53 - 1).
    #[error("integer beyond ±9007199254740991")]
    IntegerRange,
    /// A number too large for a double.
    #[error("number overflows")]
    Overflow,
    /// A number other than zero that a double can only hold as zero.
    #[error("number underflows to zero")]
    Underflow,
    /// Nested too deep.
    #[error("nesting deeper than {}", super::DEPTH_MAX)]
    TooDeep,
    /// Too many elements and members.
    #[error("more than {} elements", super::ELEMENTS_MAX)]
    TooManyElements,
    /// The text means the same as its canonical form but is not that form.
    #[error("not canonical: {0}")]
    NotCanonical(&'static str),
}

/// A fault and the byte at which it was noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// What is wrong.
    pub fault: JsonFault,
    /// Byte offset into the text.
    pub offset: usize,
    /// Line of that byte, from 1.
    pub line: usize,
    /// Byte column in that line, from 1.
    pub column: usize,
    /// JSON pointer to the value that holds the byte, as far as the reader got.
    pub pointer: String,
}

impl JsonError {
    pub(super) fn at(text: &[u8], offset: usize, fault: JsonFault) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        let column = 1 + before.iter().rev().take_while(|&&byte| byte != b'\n').count();
        Self { fault, offset, line, column, pointer: String::new() }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.fault, self.line, self.column)
    }
}

impl std::error::Error for JsonError {}

/// A key as a fault repeats it: cut where it is long, and escaped.
fn shown(key: &str) -> String {
    match key.char_indices().nth(KEY_CHARS_MAX) {
        Some((end, _)) => format!("{}...", text::escape(key.get(..end).unwrap_or_default())),
        None => text::escape(key).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_cut() {
        let said = |key: &str| JsonFault::DuplicateKey(key.to_owned()).to_string();
        assert_eq!(said(&"é".repeat(200)), format!("duplicate key `{}`", "é".repeat(200)));
        assert_eq!(said(&"é".repeat(4 << 20)), format!("duplicate key `{}...`", "é".repeat(200)));
        assert_eq!(said("a\n"), "duplicate key `a\\u{a}`");
        let reserved = JsonFault::ReservedKey("x".repeat(300)).to_string();
        assert_eq!(reserved, format!("reserved key `{}...`", "x".repeat(200)));
    }
}
