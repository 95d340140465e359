//! The published vectors of the strict reader, the canonical writer and the line scanner.

#![cfg(test)]

use countersign_format::hash::{Hash, unhex};
use countersign_format::json::{self, JsonFault, Value, line};

#[expect(clippy::disallowed_methods, reason = "the vectors lie in a file")]
fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/vectors/canonical.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn cases<'v>(vectors: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> {
    let cases = vectors[list].as_array().unwrap();
    assert!(cases.len() > 10, "{list}");
    cases.iter()
}

fn input(case: &Value) -> Vec<u8> {
    if let Some(text) = case["input"].as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(digits) = case["input_hex"].as_str() {
        return unhex(digits).unwrap();
    }
    let parts = case["input_parts"].as_array().unwrap().iter();
    parts
        .flat_map(|part| {
            let times = usize::try_from(part[1].as_u64().unwrap()).unwrap();
            part[0].as_str().unwrap().repeat(times).into_bytes()
        })
        .collect()
}

#[test]
fn accepted_inputs_have_their_canonical_form_and_keep_it() {
    let vectors = vectors();
    for case in cases(&vectors, "accepted") {
        let canonical = json::to_bytes(&json::read(&input(case)).unwrap());
        assert_eq!(Hash::of(&canonical).to_hex(), case["sha256"], "{}", case["name"]);
        if let Some(text) = case["canonical"].as_str() {
            assert_eq!(String::from_utf8_lossy(&canonical), text, "{}", case["name"]);
        }
        assert_eq!(json::to_bytes(&json::read(&canonical).unwrap()), canonical);
    }
}

#[test]
fn canonical_objects_are_ledger_lines() {
    let vectors = vectors();
    let mut lines = 0;
    for case in cases(&vectors, "accepted") {
        let canonical = case["canonical"].as_str().unwrap_or_default();
        if canonical.starts_with('{') {
            assert!(line::scan(canonical.as_bytes()).is_ok(), "{}", case["name"]);
            lines += 1;
        }
    }
    assert!(lines > 3);
}

#[test]
fn refused_inputs_are_refused_for_their_reason() {
    let vectors = vectors();
    for case in cases(&vectors, "refused") {
        let error = json::read(&input(case)).unwrap_err();
        let fits = match case["reason"].as_str().unwrap() {
            "syntax" => {
                matches!(error.fault, JsonFault::Expected(_) | JsonFault::UnexpectedEnd(_))
            }
            "too-long" => matches!(error.fault, JsonFault::TooLong { .. }),
            "invalid-utf8" => error.fault == JsonFault::InvalidUtf8,
            "byte-order-mark" => error.fault == JsonFault::ByteOrderMark,
            "text-after-value" => error.fault == JsonFault::TrailingText,
            "raw-control-character" => matches!(error.fault, JsonFault::RawControl(_)),
            "unknown-escape" => error.fault == JsonFault::UnknownEscape,
            "lone-surrogate" => matches!(error.fault, JsonFault::LoneSurrogate(_)),
            "duplicate-key" => matches!(error.fault, JsonFault::DuplicateKey(_)),
            "reserved-key" => matches!(error.fault, JsonFault::ReservedKey(_)),
            "integer-range" => error.fault == JsonFault::IntegerRange,
            "overflow" => error.fault == JsonFault::Overflow,
            "underflow" => error.fault == JsonFault::Underflow,
            "too-deep" => error.fault == JsonFault::TooDeep,
            "too-many-elements" => error.fault == JsonFault::TooManyElements,
            other => panic!("{other}"),
        };
        assert!(fits, "{}: {error}", case["name"]);
    }
}

#[test]
fn lines_that_mean_the_same_as_canonical_ones_are_refused() {
    let vectors = vectors();
    for case in cases(&vectors, "not_canonical_lines") {
        let text = case["line"].as_str().unwrap().as_bytes();
        let canonical = case["canonical"].as_str().unwrap();
        assert!(line::scan(text).is_err(), "{}", case["name"]);
        assert_eq!(json::to_bytes(&json::read(text).unwrap()), canonical.as_bytes());
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page is a file")]
fn the_page_names_the_unicode_version_and_the_limits() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/canonical-json.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (major, minor, patch) = countersign_format::text::UNICODE_VERSION;
    assert!(page.contains(&format!("Unicode {major}.{minor}.{patch}**")));
    assert_eq!((json::DEPTH_MAX, json::ELEMENTS_MAX), (64, 100_000));
    assert_eq!((json::LINE_BYTES_MAX, json::INTEGER_MAX), (1_048_576, 9_007_199_254_740_991));
    for limit in ["more than 64 ", "more than 100,000 ", "1,048,576 bytes", "±9007199254740991"] {
        assert!(page.contains(limit), "{limit}");
    }
}
