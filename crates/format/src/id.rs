//! Identifiers: ULIDs, and the names that people and agents give.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::Timestamp;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// What a character of the alphabet counts for; of anything else a value that is none.
const fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'h' => byte - b'a' + 10,
        b'j' | b'k' => byte - b'j' + 18,
        b'm' | b'n' => byte - b'm' + 20,
        b'p'..=b't' => byte - b'p' + 22,
        b'v'..=b'z' => byte - b'v' + 27,
        _ => 255,
    }
}

/// A ULID in its lowercase form: 48 bits of time, 80 of randomness, in 26 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid(u128);

impl Ulid {
    /// A ULID from a time and random bits, of which the lowest 80 count.
    #[must_use]
    pub fn from_parts(time: Timestamp, random: u128) -> Self {
        let millis = u128::try_from(time.as_millis()).unwrap_or(0) & ((1 << 48) - 1);
        Self((millis << 80) | (random & ((1 << 80) - 1)))
    }

    /// The smallest ULID above this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Reads 26 characters in lower or upper case, but not mixed: what schema 1.0 permits.
    #[must_use]
    pub fn parse_any_case(text: &str) -> Option<Self> {
        text.parse().ok().or_else(|| {
            let upper = !text.bytes().any(|byte| byte.is_ascii_lowercase());
            if upper { text.to_ascii_lowercase().parse().ok() } else { None }
        })
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b'0'; 26];
        let mut left = self.0;
        for place in text.iter_mut().rev() {
            let digit = (left & 31) as usize;
            *place = ALPHABET.get(digit).copied().unwrap_or(b'0');
            left >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ulid({self})")
    }
}

/// A text that is not a lowercase ULID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a ULID is 26 lowercase characters of Crockford's base 32, the first at most `7`")]
pub struct NotAUlid;

impl FromStr for Ulid {
    type Err = NotAUlid;

    fn from_str(text: &str) -> Result<Self, NotAUlid> {
        if text.len() != 26 || !text.starts_with(|first: char| ('0'..='7').contains(&first)) {
            return Err(NotAUlid);
        }
        text.bytes()
            .try_fold(0u128, |value, byte| {
                let digit = digit(byte);
                (digit < 32).then(|| (value << 5) | u128::from(digit))
            })
            .map(Self)
            .ok_or(NotAUlid)
    }
}

impl Serialize for Ulid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ulid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Bytes that the name of an agent, a task or a key may have.
pub const NAME_BYTES_MAX: usize = 128;

/// Whether `text` is an identifier: lowercase ASCII letters, digits and `_ . : @ -`, starting with
/// a letter or digit.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= NAME_BYTES_MAX
        && text.bytes().next().is_some_and(first)
        && text.bytes().all(|byte| first(byte) || b"_.:@-".contains(&byte))
}

/// Whether `text` is `claim_` and a ULID.
#[must_use]
pub fn is_claim_id(text: &str) -> bool {
    text.strip_prefix("claim_").is_some_and(|ulid| ulid.parse::<Ulid>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_for_its_place_in_the_alphabet_or_for_nothing() {
        for byte in 0..=255 {
            let place = ALPHABET.iter().position(|&letter| letter == byte);
            assert_eq!(usize::from(digit(byte)), place.unwrap_or(255), "{byte}");
        }
    }

    #[test]
    fn a_ulid_is_written_in_lowercase_and_sorts_by_time() {
        let early = Ulid::from_parts(Timestamp::from_millis(1_469_918_176_385), 7);
        let late = Ulid::from_parts(Timestamp::from_millis(1_469_918_176_386), 0);
        assert_eq!(early.to_string(), "01aryz6s410000000000000007");
        assert!(early < late && early.to_string() < late.to_string());
        assert_eq!(early.to_string().parse(), Ok(early));
        assert_eq!(early.next().to_string(), "01aryz6s410000000000000008");
    }

    #[test]
    fn aliases_overflow_and_paths_are_not_ulids() {
        for text in [
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "01arz3ndektsv4rrffq69g5fal",
            "81arz3ndektsv4rrffq69g5fav",
            "../../../../../../../../et",
            "01arz3ndektsv4rrffq69g5fa",
            "01arz3ndektsv4rrffq69g5fav0",
        ] {
            assert_eq!(text.parse::<Ulid>(), Err(NotAUlid), "{text}");
        }
        assert!(Ulid::parse_any_case("01ARZ3NDEKTSV4RRFFQ69G5FAV").is_some());
        assert!(Ulid::parse_any_case("01ARZ3NDEKTSV4RRFFQ69G5FAv").is_none());
    }

    #[test]
    fn names_are_lowercase_ascii() {
        assert!(is_name("planner-agent.v2"));
        for text in ["", "A", "a b", "a\0b", "é", "-a", "a/b", &"a".repeat(129)] {
            assert!(!is_name(text), "{text}");
        }
    }
}
