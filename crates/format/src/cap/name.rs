//! Which names members may have.

use super::NAME_BYTES_MAX;
use crate::hash::Hash;
use crate::text;

/// What is wrong with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// Nothing.
    #[error("is empty")]
    Empty,
    /// Too much.
    #[error("has more than 255 bytes")]
    TooLong,
    /// No text.
    #[error("is not UTF-8")]
    NotUtf8,
    /// Begins at the root.
    #[error("is absolute")]
    Absolute,
    /// Leads out of the directory.
    #[error("leads upwards with `..`")]
    Upwards,
    /// `.` or nothing between slashes.
    #[error("has an empty step or a `.`")]
    EmptyStep,
    /// A separator elsewhere.
    #[error("holds a backslash")]
    Backslash,
    /// Something that a terminal obeys or a reader cannot see.
    #[error("holds a control character or one that cannot be seen")]
    Unseen,
}

/// Whether a member may have this name.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), NameFault> {
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameFault::TooLong);
    }
    if name.starts_with('/') {
        return Err(NameFault::Absolute);
    }
    if name.contains('\\') {
        return Err(NameFault::Backslash);
    }
    for step in name.split('/') {
        match step {
            "" | "." => return Err(NameFault::EmptyStep),
            ".." => return Err(NameFault::Upwards),
            _ => {}
        }
    }
    if text::has_unseen(name) {
        return Err(NameFault::Unseen);
    }
    Ok(())
}

/// Equal for names that some file system takes for the same. Sixteen bytes of a hash are kept of
/// each, so that long names cost no more than short ones.
pub(super) fn folded(name: &str) -> u128 {
    if name.is_ascii() {
        return short(name.to_ascii_lowercase().as_bytes());
    }
    // Upper case first: some letters have several lower cases, of which this leaves one.
    let upper: String = text::to_nfc(name).chars().flat_map(char::to_uppercase).collect();
    let lower: String = upper.chars().flat_map(char::to_lowercase).collect();
    short(text::to_nfc(&lower).as_bytes())
}

/// Equal for equal names only.
pub(super) fn exact(name: &str) -> u128 {
    short(name.as_bytes())
}

fn short(bytes: &[u8]) -> u128 {
    let mut first = [0; 16];
    for (to, from) in first.iter_mut().zip(Hash::of(bytes).as_bytes()) {
        *to = *from;
    }
    u128::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_or_hide_are_refused() {
        for (name, fault) in [
            ("", NameFault::Empty),
            ("/etc/passwd", NameFault::Absolute),
            ("../x", NameFault::Upwards),
            ("a/../../x", NameFault::Upwards),
            ("./x", NameFault::EmptyStep),
            ("a//b", NameFault::EmptyStep),
            ("a/", NameFault::EmptyStep),
            ("..\\x", NameFault::Backslash),
            ("a\nb", NameFault::Unseen),
            ("a\u{202e}b", NameFault::Unseen),
        ] {
            assert_eq!(check_name(name), Err(fault), "{name:?}");
        }
        assert_eq!(check_name(&"x".repeat(256)), Err(NameFault::TooLong));
        for name in ["manifest.json", "row_archive/rows.json", "a..b", ".x", "...", "caf\u{e9}"] {
            assert_eq!(check_name(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn names_fold_by_case_and_composition() {
        for (one, other) in [
            ("Manifest.JSON", "manifest.json"),
            ("CAF\u{c9}", "cafe\u{301}"),
            ("\u{3a3}", "\u{3c2}"),
            ("STRASSE", "stra\u{df}e"),
        ] {
            assert_eq!(folded(one), folded(other), "{one} {other}");
            assert_ne!(exact(one), exact(other));
        }
        assert_ne!(folded("a"), folded("b"));
    }
}
