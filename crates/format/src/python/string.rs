//! Text that may hold lone surrogates.

use std::fmt;

/// A Python string: any sequence of code points, surrogates included.
///
/// Held as UTF-8 in which a surrogate takes three bytes like its neighbours, so that the order of
/// the bytes is the order of the code points.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PyString(Vec<u8>);

impl PyString {
    /// The text, unless it holds a lone surrogate.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text with U+FFFD for every lone surrogate: to be shown, never to be compared.
    #[must_use]
    pub fn to_lossy(&self) -> String {
        let shown = |code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.code_points().map(shown).collect()
    }

    /// The code points in order.
    pub fn code_points(&self) -> impl Iterator<Item = u32> + '_ {
        let mut rest = self.0.iter().copied();
        std::iter::from_fn(move || {
            let first = rest.next()?;
            let (bits, more) = match first {
                0..0x80 => (first, 0),
                0x80..0xE0 => (first & 0x1F, 1),
                0xE0..0xF0 => (first & 0x0F, 2),
                0xF0.. => (first & 0x07, 3),
            };
            let tail = rest.by_ref().take(more);
            Some(tail.fold(u32::from(bits), |code, byte| (code << 6) | u32::from(byte & 0x3F)))
        })
    }

    pub(super) fn push_str(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Appends one UTF-16 unit that is not followed by the other half of a pair, or a character.
    pub(super) fn push_code_point(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(character) => self.push_str(character.encode_utf8(&mut [0; 4])),
            None => {
                let low = |shift: u32| 0x80 | u8::try_from((code >> shift) & 0x3F).unwrap_or(0);
                self.0.extend_from_slice(&[0xED, low(6), low(0)]);
            }
        }
    }
}

impl From<&str> for PyString {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for PyString {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl PartialEq<str> for PyString {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Debug for PyString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        super::write::write_string(self, &mut out);
        f.write_str(&out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_come_back_as_they_went_in() {
        let codes = [
            0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x1_0000,
            0x10_FFFF,
        ];
        let mut text = PyString::default();
        codes.iter().for_each(|&code| text.push_code_point(code));
        assert_eq!(text.code_points().collect::<Vec<_>>(), codes);
        assert_eq!(text.as_str(), None);
        assert!(text.to_lossy().contains("\u{d7ff}\u{fffd}\u{fffd}\u{e000}"));
    }

    #[test]
    fn strings_sort_by_code_point_and_not_by_utf_16_unit() {
        let single = |code| {
            let mut text = PyString::default();
            text.push_code_point(code);
            text
        };
        let sorted = [0x7F, 0x80, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x1_0000].map(single);
        assert!(sorted.is_sorted());
    }
}
