//! Secrets that stand in the environment, and the forms in which they turn up in texts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::finder::Finder;
use super::form::{inside_ours, is_hash, is_ours};
use super::name::{is_plainly_secret, is_secret_variable};
use super::pattern::password_in_url;
use super::region::Region;

/// The name under which they are counted.
pub(super) const ENVIRONMENT: &str = "environment";

/// Shorter values would be found everywhere.
const VALUE_BYTES_MIN: usize = 6;
/// Longer values are documents; their lines are looked for one by one.
const VALUE_BYTES_MAX: usize = 16 * 1024;
/// Lines of a value that are looked for on their own.
const LINE_BYTES_MIN: usize = 16;
/// Numbers of fewer digits are ports, counts and dates.
const DIGITS_MIN: usize = 8;
/// Characters of base64 that a value must fill to be found inside another text's base64.
const BASE64_CORE_MIN: usize = 7;

/// Values that say nothing.
const COMMON: &[&str] = &[
    "always",
    "changeme",
    "default",
    "development",
    "disabled",
    "enabled",
    "example",
    "localhost",
    "missing",
    "optional",
    "password",
    "production",
    "required",
    "secret",
    "staging",
    "testing",
    "undefined",
    "unknown",
];

/// The values to look for, in all their forms.
#[derive(Debug)]
pub(super) struct Values {
    finder: Finder,
    lengths: Vec<usize>,
}

impl Values {
    /// The secrets among these variables.
    pub(super) fn of(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut forms = BTreeSet::new();
        for (name, value) in environment {
            let name = name.to_string_lossy();
            let value = value.as_encoded_bytes().trim_ascii();
            if is_secret_variable(&name) && is_worth_hiding(&name, value) {
                add_value(value, &mut forms);
            }
            // Whatever the variable is called, a password in an address is one.
            let text = String::from_utf8_lossy(value);
            let places = text.match_indices("://");
            for password in places.filter_map(|(at, _)| password_in_url(text.as_bytes(), at + 3)) {
                let password = text.as_bytes().get(password.0..password.1).unwrap_or_default();
                if is_worth_hiding(&name, password) {
                    add_value(password, &mut forms);
                }
            }
        }
        let lengths = forms.iter().map(Vec::len).collect();
        Self { finder: Finder::new(forms.iter().map(Vec::as_slice)), lengths }
    }

    /// Finds the values in a text; at its very end also the beginning of one.
    pub(super) fn find(&self, text: &[u8], at_end: bool, regions: &mut Vec<Region>) {
        if self.lengths.is_empty() {
            return;
        }
        let mut add = |start: usize, end: usize| {
            if !inside_ours(text, start, end) {
                regions.push(Region { start, end, rule: ENVIRONMENT });
            }
        };
        let begun = self.finder.each(text.iter().copied(), |end, form| {
            let length = self.lengths.get(form).copied().unwrap_or(0);
            add(end.saturating_sub(length), end);
        });
        if at_end && begun >= VALUE_BYTES_MIN {
            add(text.len() - begun, text.len());
        }
    }
}

/// Whether finding this value again would tell anything.
fn is_worth_hiding(name: &str, value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    let number = value.len() < DIGITS_MIN && value.iter().all(u8::is_ascii_digit);
    let same = value.iter().all(|byte| Some(byte) == value.first());
    let ours = is_ours(value) && !(is_hash(value) && is_plainly_secret(name));
    value.len() >= VALUE_BYTES_MIN
        && !number
        && !same
        && !ours
        && !COMMON.iter().any(|common| common.as_bytes() == lower)
        && !is_path(value)
}

/// Whether a value names a file that is there: a secret that begins with `/` does not.
fn is_path(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    text.starts_with('/') && !text.contains('\n') && Path::new(text).exists()
}

fn add_value(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    if value.len() <= VALUE_BYTES_MAX {
        add_forms(value, forms);
    }
    let lines = value.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let telling = lines.filter(|line| {
        line.len() >= LINE_BYTES_MIN && line.len() <= VALUE_BYTES_MAX && !line.starts_with(b"-----")
    });
    if value.contains(&b'\n') {
        telling.for_each(|line| add_forms(line, forms));
    }
}

/// The value as it stands, and as it looks once it went through an encoder.
fn add_forms(value: &[u8], forms: &mut BTreeSet<Vec<u8>>) {
    forms.insert(value.to_vec());
    for encoded in [
        STANDARD.encode(value),
        STANDARD_NO_PAD.encode(value),
        URL_SAFE.encode(value),
        URL_SAFE_NO_PAD.encode(value),
    ] {
        forms.insert(encoded.into_bytes());
    }
    for shift in 0..3 {
        forms.extend(base64_core(value, shift).filter(|core| core.len() >= BASE64_CORE_MIN));
    }
    let lower = countersign_format::hash::hex(value).into_bytes();
    forms.insert(lower.to_ascii_uppercase());
    forms.insert(lower);
    for escape in [
        percent(value, b"", b"0123456789ABCDEF"),
        percent(value, b"", b"0123456789abcdef"),
        percent(value, b"/:", b"0123456789ABCDEF"),
        plus(value),
    ] {
        forms.insert(escape);
    }
    if let Ok(text) = std::str::from_utf8(value) {
        let escaped = serde_json::to_string(text).unwrap_or_default();
        let escaped = escaped.trim_start_matches('"');
        let escaped = escaped.strip_suffix('"').unwrap_or(escaped);
        forms.insert(escaped.as_bytes().to_vec());
        forms.insert(ascii_escaped(escaped).into_bytes());
        forms.insert(escaped.replace('/', "\\/").into_bytes());
    }
    forms.remove(&Vec::new());
}

/// Those characters of base64 that are the same whatever follows the value, where `shift` bytes
/// stand before it, in both alphabets.
fn base64_core(value: &[u8], shift: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut shifted = vec![0; shift];
    shifted.extend_from_slice(value);
    // A character holds six bits: those that share bits with other bytes are not known.
    let (first, end) = ((shift * 8).div_ceil(6), shifted.len() * 8 / 6);
    [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)]
        .into_iter()
        .map(move |text| text.as_bytes().get(first..end).unwrap_or_default().to_vec())
}

/// Percent-encoding of everything but unreserved characters and those `kept`.
fn percent(value: &[u8], kept: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() * 3);
    for &byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            out.push(byte);
        } else {
            let digit = |nibble: u8| digits.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// As forms send it: a space is `+`.
fn plus(value: &[u8]) -> Vec<u8> {
    let spaced = percent(value, b" ", b"0123456789ABCDEF");
    spaced.into_iter().map(|byte| if byte == b' ' { b'+' } else { byte }).collect()
}

/// JSON with every other character than ASCII as `\u` and four digits.
fn ascii_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units = [0; 2];
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}
