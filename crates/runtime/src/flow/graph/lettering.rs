//! How wide text is, and where it is cut.
//!
//! Decides by an estimate per character, on the wide side of what systems use for their sans-serif:
//! no font is read here, and the picture is shown with whatever the reader's system has.

use countersign_format::text::escape;

/// What stands where text was cut.
const ELLIPSIS: char = '…';

/// A size of letters, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Letters {
    pub(super) size: f64,
    pub(super) bold: bool,
}

impl Letters {
    pub(super) const HEADING: Self = Self { size: 16.0, bold: true };
    pub(super) const NAME: Self = Self { size: 13.0, bold: true };
    pub(super) const LABEL: Self = Self { size: 12.0, bold: false };
    pub(super) const SMALL: Self = Self { size: 11.0, bold: false };

    /// How wide `text` is at most likely to be.
    pub(super) fn width(self, text: &str) -> f64 {
        text.chars().map(|character| self.advance(character)).sum()
    }

    /// `text`, cut so that it is no wider than `room`.
    pub(super) fn cut(self, text: &str, room: f64) -> String {
        let mut kept = String::new();
        let mut whole = 0.0;
        let mut before_ellipsis = 0;
        for character in text.chars() {
            whole += self.advance(character);
            if whole > room {
                kept.truncate(before_ellipsis);
                kept.truncate(kept.trim_end().len());
                kept.push(ELLIPSIS);
                return kept;
            }
            kept.push(character);
            if whole + self.advance(ELLIPSIS) <= room {
                before_ellipsis = kept.len();
            }
        }
        kept
    }

    fn advance(self, character: char) -> f64 {
        let weight = if self.bold { 1.1 } else { 1.0 };
        self.size * weight * em(character)
    }
}

/// `text` on one line, with nothing in it that is obeyed or invisible rather than seen.
pub(super) fn shown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    escape(&words.join(" ")).to_string()
}

/// The first `most` characters of `text`, marked where it was cut.
pub(super) fn cut_to(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(most.saturating_sub(1)).collect();
            format!("{}{ELLIPSIS}", kept.trim_end())
        }
    }
}

/// How wide a character is, as a part of the letters' size.
fn em(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 'I' | '\'' | '|' => 0.3,
        ' ' | '!' | '.' | ',' | ':' | ';' | 'f' | 't' | '(' | ')' | '[' | ']' | '/' | '\\'
        | '-' => 0.4,
        'r' | '"' => 0.46,
        'w' | '=' | '+' | '<' | '>' | '~' | '#' => 0.84,
        'm' | 'M' | 'W' | '@' | '%' | ELLIPSIS => 1.0,
        'A'..='Z' | '&' => 0.76,
        ' '..='\u{7e}' => 0.63,
        '\u{300}'..='\u{36f}' => 0.0,
        '\u{1100}'.. => 1.05,
        _ => 0.72,
    }
}
