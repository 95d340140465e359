//! JSON strings: unescaping, and the one way in which RFC 8785 escapes them.

use super::JsonFault;

/// Reads the string whose opening quote is at `at`; gives its text and the offset after the
/// closing quote. `text` is valid UTF-8.
pub(super) fn read(text: &str, at: usize) -> Result<(String, usize), (usize, JsonFault)> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut run = at + 1;
    let mut index = run;
    loop {
        match bytes.get(index) {
            None => return Err((index, JsonFault::UnexpectedEnd("`\"`"))),
            Some(b'"') => {
                out.push_str(text.get(run..index).unwrap_or_default());
                return Ok((out, index + 1));
            }
            Some(b'\\') => {
                out.push_str(text.get(run..index).unwrap_or_default());
                let (character, after) = escape(bytes, index)?;
                out.push(character);
                index = after;
                run = after;
            }
            Some(&byte) if byte < 0x20 => {
                return Err((index, JsonFault::RawControl(byte.into())));
            }
            Some(_) => index += 1,
        }
    }
}

/// The character that the escape sequence at `at` stands for, and the offset after it.
fn escape(bytes: &[u8], at: usize) -> Result<(char, usize), (usize, JsonFault)> {
    let simple = match bytes.get(at + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode_escape(bytes, at),
        Some(_) => return Err((at, JsonFault::UnknownEscape)),
        None => return Err((at + 1, JsonFault::UnexpectedEnd("an escape sequence"))),
    };
    Ok((simple, at + 2))
}

fn unicode_escape(bytes: &[u8], at: usize) -> Result<(char, usize), (usize, JsonFault)> {
    let first = hex4(bytes, at + 2)?;
    if !(0xD800..0xE000).contains(&first) {
        let character = char::from_u32(first.into());
        return character.map(|c| (c, at + 6)).ok_or((at, JsonFault::UnknownEscape));
    }
    let lone = (at, JsonFault::LoneSurrogate(first));
    if first >= 0xDC00 || bytes.get(at + 6..at + 8) != Some(b"\\u") {
        return Err(lone);
    }
    let second = hex4(bytes, at + 8)?;
    char::decode_utf16([first, second])
        .next()
        .and_then(Result::ok)
        .filter(|_| (0xDC00..0xE000).contains(&second))
        .map(|character| (character, at + 12))
        .ok_or(lone)
}

fn hex4(bytes: &[u8], at: usize) -> Result<u16, (usize, JsonFault)> {
    let mut value = 0u16;
    for index in at..at + 4 {
        let digit = match bytes.get(index) {
            Some(&byte) => char::from(byte).to_digit(16),
            None => return Err((index, JsonFault::UnexpectedEnd("four hexadecimal digits"))),
        };
        let digit = digit.ok_or((index, JsonFault::Expected("four hexadecimal digits")))?;
        value = (value << 4) | u16::try_from(digit).unwrap_or(0);
    }
    Ok(value)
}

/// How many bytes at the beginning of `bytes` stand for themselves in a string: up to a quote, a
/// backslash or a control character. Strings are most of a line, so this looks at eight at a time.
pub(super) fn ordinary(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // The high bit of each byte that is below `limit`. A borrow can set it in the byte above one
    // that is, never below: the lowest is right.
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = below(word, b' ') | quote | backslash;
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let special = |&byte: &u8| byte < b' ' || byte == b'"' || byte == b'\\';
    bytes.len() - rest.len() + rest.iter().position(special).unwrap_or(rest.len())
}

/// Appends `text` as a canonical JSON string, quotes included.
pub(super) fn write(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (run, others) = rest.split_at(ordinary(rest));
        out.extend_from_slice(run);
        let Some((&byte, after)) = others.split_first() else { break };
        rest = after;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0a => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x0d => out.extend_from_slice(b"\\r"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(crate::hash::hex(&[byte]).as_bytes());
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_bytes_end_at_the_first_special_one_wherever_it_stands() {
        let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        for length in 0..20 {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    // What surrounds it differs from the special bytes by a borrow.
                    for other in [b' ', b'#', b']', 0x80, 0xff] {
                        let mut bytes = vec![other; length];
                        bytes[at] = byte;
                        let expected = if is_special(byte) { at } else { length };
                        assert_eq!(ordinary(&bytes), expected, "{byte:#x} at {at} of {length}");
                    }
                }
            }
        }
        assert_eq!(ordinary(b"a\"\\\n"), 1);
    }
}
