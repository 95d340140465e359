//! Names that differ in case alone, for every character there is.

#![cfg(test)]

use std::collections::BTreeMap;
use std::process::Command;

use countersign_format::path::WorkspacePath;
use countersign_format::text::to_nfc;

/// By what the names of one file are told apart where case counts; nothing for what is no name.
fn key(name: &str) -> Option<String> {
    WorkspacePath::parse(&to_nfc(name)).ok().map(|path| path.collision_key())
}

/// The full case folding of all characters that it changes, as Python knows it.
#[expect(clippy::disallowed_methods, reason = "the test asks another implementation")]
fn folding() -> BTreeMap<char, String> {
    const SCRIPT: &str = "import sys
for code in range(0x110000):
    if not 0xd800 <= code < 0xe000 and chr(code).casefold() != chr(code):
        sys.stdout.buffer.write(f'{chr(code)}{chr(code).casefold()}\\0'.encode())";
    let python = std::env::var_os("COUNTERSIGN_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let ran =
        Command::new(python).args(["-c", SCRIPT]).output().expect("this test needs `python3`");
    let text = String::from_utf8(ran.stdout).unwrap();
    let entry = |entry: &str| {
        let first = entry.chars().next()?;
        Some((first, entry[first.len_utf8()..].to_owned()))
    };
    text.split('\0').filter_map(entry).collect()
}

/// Two names of one character each that some mapping of case makes equal are one name, and so is what
/// the mapping makes of them.
#[test]
fn every_mapping_of_case_leaves_a_name_the_same() {
    let folding = folding();
    assert!(folding.len() > 1_400, "{}", folding.len());
    let full = |it: char| folding.get(&it).cloned().unwrap_or_else(|| it.to_string());
    let mut names = 0;
    for character in '\0'..=char::MAX {
        let lower = character.to_lowercase().to_string();
        let upper = character.to_uppercase().to_string();
        let mapped = [lower, upper, full(character)];
        if mapped.iter().all(|other| other.chars().eq([character])) {
            continue;
        }
        let Some(own) = key(&character.to_string()) else { continue };
        names += 1;
        for other in mapped.iter().chain([&own]) {
            assert_eq!(key(other).as_ref(), Some(&own), "{character:?} and {other:?}");
        }
    }
    assert!(names > 2_700, "{names}");
}

#[test]
fn a_sharp_s_is_one_name_in_either_case() {
    for name in ["ẞ", "ss", "SS", "sS", "ſs"] {
        assert_eq!(key(name), key("ß"), "{name}");
    }
    assert_ne!(key("s"), key("ß"));
    assert_eq!(key("straße/a"), key("STRAẞE/A"));
}
