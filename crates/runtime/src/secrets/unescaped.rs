//! Bytes as a reader of JSON sees them: characters that are written as escapes, put in their places.
//!
//! Only what is plain ASCII is put there, and neither quotes nor backslashes, so that texts still end
//! where they end. A text within a text has more backslashes, and is read all the same.

/// Bytes without escapes, and where each of them was.
pub(super) struct Unescaped {
    pub(super) bytes: Vec<u8>,
    /// Places here and there, one pair behind each escape.
    shifts: Vec<(usize, usize)>,
}

impl Unescaped {
    /// None where nothing is written as an escape.
    pub(super) fn of(text: &[u8]) -> Option<Self> {
        let first = text.windows(2).position(|pair| matches!(pair, br"\u" | br"\/"))?;
        let mut view = Self { bytes: Vec::new(), shifts: Vec::new() };
        view.bytes.extend_from_slice(text.get(..first)?);
        let mut at = first;
        while let Some(&byte) = text.get(at) {
            match escape(text, at) {
                Some((meant, end)) => {
                    view.bytes.push(meant);
                    view.shifts.push((view.bytes.len(), end));
                    at = end;
                }
                None => {
                    view.bytes.push(byte);
                    at += 1;
                }
            }
        }
        (!view.shifts.is_empty()).then_some(view)
    }

    /// Where a place of these bytes lies in the text.
    pub(super) fn place(&self, at: usize) -> usize {
        let behind = self.shifts.partition_point(|(here, _)| *here <= at);
        let shift = behind.checked_sub(1).and_then(|last| self.shifts.get(last));
        shift.map_or(at, |(here, there)| there + (at - here))
    }
}

/// The character that is written as an escape at `at`, and where the escape ends.
fn escape(text: &[u8], at: usize) -> Option<(u8, usize)> {
    // More would make this slow, and nobody nests texts that deeply.
    const BACKSLASHES_MAX: usize = 16;
    let rest = text.get(at..)?;
    let slashes = rest.iter().take(BACKSLASHES_MAX).take_while(|byte| **byte == b'\\').count();
    if slashes == 0 {
        return None;
    }
    let end = at + slashes + 1;
    match rest.get(slashes)? {
        b'/' => Some((b'/', end)),
        b'u' => {
            let digits = std::str::from_utf8(text.get(end..end + 4)?).ok()?;
            let code = u8::from_str_radix(digits.strip_prefix("00")?, 16).ok()?;
            let plain = code.is_ascii_graphic() && !matches!(code, b'"' | b'\\');
            plain.then_some((code, end + 4))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_places_are_found_again() {
        let text = br#"a\u0067b\\u0068\/c\u0022\u00e9\n"#;
        let view = Unescaped::of(text).unwrap();
        assert_eq!(view.bytes, br#"agbh/c\u0022\u00e9\n"#);
        for (here, there) in [(0, 0), (1, 1), (2, 7), (3, 8), (4, 15), (5, 17), (6, 18)] {
            assert_eq!(view.place(here), there, "{here}");
        }
        assert_eq!(view.place(view.bytes.len()), text.len());
        for plain in [&b"abc"[..], br"\n\t", br"\u", br"\u00", br"\u0022", b""] {
            assert!(Unescaped::of(plain).is_none());
        }
    }
}
