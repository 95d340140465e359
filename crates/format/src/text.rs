//! Text of others: what may stand in an event, and how it is shown.
//!
//! Stored text is never changed here. [`escape`] is the one way in which anything that came from
//! an agent, a tool or a file reaches a terminal.

use std::fmt;

use serde_json::Value;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// The Unicode version whose tables decide what is NFC.
pub const UNICODE_VERSION: (u8, u8, u8) = unicode_normalization::UNICODE_VERSION;

/// Why a text may not stand in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextFault {
    /// The text changes under normalisation form C.
    #[error("text is not in Unicode normalisation form C")]
    NotNfc,
    /// A code point that Unicode will never assign.
    #[error("noncharacter U+{0:04X}")]
    Noncharacter(u32),
}

/// Checks that `text` may stand in an event.
pub fn check(text: &str) -> Result<(), TextFault> {
    if text.is_ascii() {
        return Ok(());
    }
    if let Some(character) = text.chars().find(|&character| is_noncharacter(character)) {
        return Err(TextFault::Noncharacter(character.into()));
    }
    if is_nfc(text) { Ok(()) } else { Err(TextFault::NotNfc) }
}

/// Whether `text` is in normalisation form C.
#[must_use]
pub fn is_nfc(text: &str) -> bool {
    match is_nfc_quick(text.chars()) {
        IsNormalized::Yes => true,
        IsNormalized::No => false,
        IsNormalized::Maybe => text.nfc().eq(text.chars()),
    }
}

/// `text` in normalisation form C. Applied once, where text enters.
#[must_use]
pub fn to_nfc(text: &str) -> String {
    if text.is_ascii() { text.to_owned() } else { text.nfc().collect() }
}

/// `text` as it may stand in an event: in normalisation form C, and with the replacement character for
/// what Unicode will never assign.
#[must_use]
pub fn admissible(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let replaced = |character| match is_noncharacter(character) {
        true => char::REPLACEMENT_CHARACTER,
        false => character,
    };
    text.chars().map(replaced).nfc().collect()
}

/// Puts every text in `value`, keys included, into normalisation form C. Of two keys that become
/// equal the later one stays; text that differs only so is the same text.
pub fn normalise(value: &mut Value) {
    match value {
        Value::String(text) if !is_plain(text) => *text = to_nfc(text),
        Value::Array(elements) => elements.iter_mut().for_each(normalise),
        Value::Object(members) => {
            if !members.keys().all(|key| is_plain(key)) {
                let taken = std::mem::take(members);
                *members = taken.into_iter().map(|(key, value)| (to_nfc(&key), value)).collect();
            }
            members.values_mut().for_each(normalise);
        }
        _ => {}
    }
}

/// Whether nothing needs to be done about `text`.
fn is_plain(text: &str) -> bool {
    text.is_ascii() || is_nfc(text)
}

fn is_noncharacter(character: char) -> bool {
    let code = u32::from(character);
    (0xFDD0..=0xFDEF).contains(&code) || code & 0xFFFE == 0xFFFE
}

/// Shows `text` with everything that a terminal could obey, or that a reader could not see,
/// replaced by `\u{…}`. Line breaks and tabs are replaced as well.
#[must_use]
pub fn escape(text: &str) -> Escaped<'_> {
    Escaped { text, keep_lines: false }
}

/// As [`escape`], but line breaks and tabs stay: for text that is shown as a block of its own.
#[must_use]
pub fn escape_block(text: &str) -> Escaped<'_> {
    Escaped { text, keep_lines: true }
}

/// Text that is safe to print; see [`escape`].
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a> {
    text: &'a str,
    keep_lines: bool,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.text.chars() {
            match character {
                '\n' | '\t' if self.keep_lines => fmt::Write::write_char(f, character)?,
                _ if is_hidden(character) => write!(f, "\\u{{{:x}}}", u32::from(character))?,
                _ => fmt::Write::write_char(f, character)?,
            }
        }
        Ok(())
    }
}

/// Whether `text` holds anything that [`escape`] would replace.
#[must_use]
pub fn has_unseen(text: &str) -> bool {
    text.chars().any(is_hidden)
}

/// Control, format and other characters that are obeyed or invisible rather than seen.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || is_noncharacter(character)
        || matches!(u32::from(character),
            0x00A0 | 0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x1680 | 0x17B4..=0x17B5
            | 0x180B..=0x180F | 0x2000..=0x200F | 0x2028..=0x202F | 0x205F..=0x206F | 0x2800
            | 0x3000 | 0x3164 | 0xE000..=0xF8FF | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0
            | 0xFFF0..=0xFFFB | 0x110BD | 0x110CD | 0x13430..=0x1345F | 0x1BCA0..=0x1BCA3
            | 0x1D173..=0x1D17A | 0xE0000..=0x10_FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_and_bidi_controls_become_visible() {
        let hostile = "\u{1b}[2J\u{9b}2J\r\u{8}\u{202e}x\u{200b}\u{e0041}\u{feff}";
        assert_eq!(
            escape(hostile).to_string(),
            "\\u{1b}[2J\\u{9b}2J\\u{d}\\u{8}\\u{202e}x\\u{200b}\\u{e0041}\\u{feff}"
        );
    }

    #[test]
    fn ordinary_text_is_shown_as_it_is() {
        assert_eq!(escape("café 中文 🚀 a\\b").to_string(), "café 中文 🚀 a\\b");
        assert_eq!(escape_block("a\n\tb").to_string(), "a\n\tb");
        assert_eq!(escape("a\n\tb").to_string(), "a\\u{a}\\u{9}b");
    }

    #[test]
    fn normalising_reaches_keys_and_nested_text() {
        let mut value =
            serde_json::json!({ "cafe\u{301}": ["\u{212b}", { "k": "e\u{301}" }], "n": 1 });
        normalise(&mut value);
        assert_eq!(
            value,
            serde_json::json!({ "caf\u{e9}": ["\u{c5}", { "k": "\u{e9}" }], "n": 1 })
        );
    }

    #[test]
    fn text_that_is_not_nfc_or_not_a_character_is_refused() {
        assert_eq!(check("café"), Ok(()));
        assert_eq!(check("cafe\u{301}"), Err(TextFault::NotNfc));
        assert_eq!(check("\u{212b}"), Err(TextFault::NotNfc));
        assert_eq!(check("\u{fffe}"), Err(TextFault::Noncharacter(0xfffe)));
        assert_eq!(check("\u{1ffff}"), Err(TextFault::Noncharacter(0x1ffff)));
        let odd = "e\u{301} \u{fffe}\u{1ffff} \u{fdd0}";
        assert_eq!(admissible(odd), "\u{e9} \u{fffd}\u{fffd} \u{fffd}");
        assert_eq!(check(&admissible(odd)), Ok(()));
        assert_eq!(to_nfc("cafe\u{301}"), "café");
    }
}
