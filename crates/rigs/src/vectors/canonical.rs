//! Vectors of the strict reader and the canonical writer.

use countersign_format::hash::Hash;
use countersign_format::json::{self, JsonFault};
use serde_json::{Value, json};

use super::{cannot, set};

const ACCEPTED: &[(&str, &str)] = &[
    ("null", "null"),
    ("space-around-every-token", " { \"b\" : [ 1 , 2 ] ,\r\n\t\"a\" : true } "),
    ("key-order-ascii", r#"{"b":1,"a":2,"B":3,"10":4,"9":5,"":6}"#),
    ("key-order-utf16", "{\"\u{fb33}\":1,\"\u{1f600}\":2,\"\u{f6}\":3,\"\\r\":4,\"1\":5}"),
    ("nested-order", r#"{"z":{"y":1,"x":{"w":[{"v":1,"u":2}]}},"a":[]}"#),
    ("keys-that-differ-in-case", r#"{"a":1,"A":2}"#),
    ("keys-that-differ-in-form", "{\"\u{e9}\":1,\"e\u{301}\":2}"),
    ("escapes", r#""\u0000\u0008\u0009\u000a\u000b\u000c\u000d\u001f\u0020\u0022\u005c\/\u007f""#),
    ("short-escapes", r#""\b\t\n\f\r\"\\\/""#),
    ("escaped-letters", r#""\u0041\u00e9\u20AC\ud83d\uDE00""#),
    ("surrogate-pair", r#""\ud834\udd1e""#),
    ("line-separators", "\"\u{2028}\u{2029}\u{feff}\""),
    ("not-nfc-is-kept", "\"e\u{301}\""),
    ("noncharacter-is-kept", "\"\u{ffff}\""),
    ("delete-character", "\"\u{7f}\""),
    ("integers", "[0,-1,9007199254740991,-9007199254740991]"),
    ("negative-zeros", "[-0,-0.0,-0e5,0.000]"),
    ("integral-floats", "[1.0,1e2,10E-1,1.50e1,9007199254740991.0]"),
    ("floats", "[0.1,1.5,-2.25,0.30000000000000004,333333333.33333329,1e-7,0.000001]"),
    ("large-floats", "[1e21,1.5e300,123456789012345678901e1,1.7976931348623157e308]"),
    ("small-floats", "[1e-6,1e-7,5e-324,2.2250738585072014e-308,4.9406564584124654e-324]"),
    ("rounding", "[4.35,0.1e-6,1.0000000000000002,2.2204460492503131e-16,9.5e-1]"),
    ("empty-containers", "[{},[],\"\"]"),
    ("white-space-in-strings", "\" \\t\u{a0}\u{3000}\""),
    (
        "nested-member-names",
        r#"{"payload":{"event_hash":"x","payload":{"signature":1}},"event_hash":"y"}"#,
    ),
];

const REFUSED: &[(&str, &str)] = &[
    ("empty", ""),
    ("only-space", " \n"),
    ("two-values", "{}{}"),
    ("text-after-the-value", "{} x"),
    ("nul-after-the-value", "{}\u{0}"),
    ("byte-order-mark", "\u{feff}{}"),
    ("duplicate-key", r#"{"a":1,"a":1}"#),
    ("duplicate-key-escaped", r#"{"a":1,"\u0061":2}"#),
    ("duplicate-key-nested", r#"[{"x":{"k":1,"k":2}}]"#),
    ("duplicate-key-surrogates", "{\"\u{1f600}\":1,\"\\ud83d\\ude00\":2}"),
    ("reserved-key", r#"{"$serde_json::private::Number":"1"}"#),
    ("reserved-key-escaped", r#"{"\u0024serde_json::private::RawValue":"1"}"#),
    ("lone-high-surrogate", r#""\ud800""#),
    ("lone-low-surrogate", r#""\udc00""#),
    ("high-surrogate-and-letter", r#""\ud800\u0041""#),
    ("high-surrogate-twice", r#""\ud800\ud800""#),
    ("integer-above", "9007199254740992"),
    ("integer-below", "-9007199254740992"),
    ("integer-of-many-digits", "123456789012345678901234567890"),
    ("integral-float-above", "9007199254740992.0"),
    ("integral-exponent-above", "1e20"),
    ("fraction-that-rounds-to-an-integer-above", "9007199254740992.5"),
    ("overflow", "1e309"),
    ("negative-overflow", "-1.8e308"),
    ("underflow", "1e-400"),
    ("underflow-by-rounding", "2.4e-324"),
    ("not-a-number", "NaN"),
    ("infinity", "-Infinity"),
    ("leading-zero", "01"),
    ("leading-plus", "+1"),
    ("leading-point", ".5"),
    ("trailing-point", "1."),
    ("empty-exponent", "1e+"),
    ("hexadecimal", "0x1F"),
    ("minus-alone", "-"),
    ("single-quotes", "{'a':1}"),
    ("bare-key", "{a:1}"),
    ("trailing-comma", "[1,]"),
    ("trailing-comma-in-object", r#"{"a":1,}"#),
    ("missing-comma", "[1 2]"),
    ("missing-colon", r#"{"a" 1}"#),
    ("comment", "[1]//x"),
    ("capital-word", "True"),
    ("open-string", "\"abc"),
    ("open-array", "[1"),
    ("open-object", r#"{"a":1"#),
    ("raw-line-break", "\"a\nb\""),
    ("raw-tab", "\"a\tb\""),
    ("raw-nul", "\"a\u{0}b\""),
    ("unknown-escape", r#""\x41""#),
    ("short-unicode-escape", r#""\u12""#),
    ("foreign-space", "[\u{a0}1]"),
];

const NOT_UTF8: &[(&str, &[u8])] = &[
    ("utf8-stray-byte", b"\"\xff\""),
    ("utf8-overlong", b"\"\xc0\xaf\""),
    ("utf8-surrogate", b"\"\xed\xa0\x80\""),
    ("utf8-above-the-last-character", b"\"\xf4\x90\x80\x80\""),
    ("utf8-cut-off", b"\"\xe2\x82"),
    ("utf16", b"\xff\xfe{\x00}\x00"),
];

/// Pieces of text and how often each is repeated.
type Parts = &'static [(&'static str, usize)];

const BUILT: &[(&str, Parts)] = &[
    ("depth-64", &[("[", 64), ("]", 64)]),
    ("depth-65", &[("[", 65), ("]", 65)]),
    ("depth-64-mixed", &[("{\"a\":[", 32), ("]}", 32)]),
    ("depth-65-mixed", &[("{\"a\":[", 32), ("1", 0), ("{}", 1), ("]}", 32)]),
    ("depth-100000", &[("[", 100_000)]),
    ("elements-100000", &[("[0", 1), (",0", 99_999), ("]", 1)]),
    ("elements-100001", &[("[0", 1), (",0", 100_000), ("]", 1)]),
    (
        "elements-100000-in-two",
        &[("[[0", 1), (",0", 49_998), ("],[0", 1), (",0", 49_998), ("]]", 1)],
    ),
    (
        "elements-100001-in-two",
        &[("[[0", 1), (",0", 49_998), ("],[0", 1), (",0", 49_999), ("]]", 1)],
    ),
    ("bytes-1048576", &[("\"", 1), ("a", 1_048_574), ("\"", 1)]),
    ("bytes-1048577", &[("\"", 1), ("a", 1_048_575), ("\"", 1)]),
];

const NOT_CANONICAL: &[(&str, &str)] = &[
    ("space", r#"{"a": 1}"#),
    ("line-break", "{\"a\":1}\n"),
    ("key-order", r#"{"b":1,"a":2}"#),
    ("key-order-nested", r#"{"a":{"c":1,"b":2}}"#),
    ("key-order-by-code-point", "{\"\u{fb33}\":1,\"\u{1f600}\":2}"),
    ("number-form-fraction", r#"{"a":1.0}"#),
    ("number-form-exponent", r#"{"a":1E21}"#),
    ("number-form-zero", r#"{"a":-0}"#),
    ("number-form-digits", r#"{"a":0.10}"#),
    ("escaped-letter", r#"{"a":"\u0041"}"#),
    ("escaped-slash", r#"{"a":"\/"}"#),
    ("long-escape", r#"{"a":"\u000a"}"#),
    ("capital-hexadecimal", r#"{"a":"\u001F"}"#),
    ("escaped-key", r#"{"\u0061":1}"#),
    ("not-an-object", "[1]"),
];

/// The whole file.
pub(super) fn vectors() -> Result<Value, String> {
    let mut accepted = Vec::new();
    let mut refused = Vec::new();
    for (name, input) in ACCEPTED.iter().chain(REFUSED) {
        sort(name, input.as_bytes(), &json!({ "input": input }), &mut accepted, &mut refused);
    }
    for (name, input) in NOT_UTF8 {
        let shown = json!({ "input_hex": countersign_format::hash::hex(input) });
        sort(name, input, &shown, &mut accepted, &mut refused);
    }
    for (name, parts) in BUILT {
        let input: String = parts.iter().map(|(piece, times)| piece.repeat(*times)).collect();
        let shown = json!({ "input_parts": parts });
        sort(name, input.as_bytes(), &shown, &mut accepted, &mut refused);
    }
    if (accepted.len(), refused.len()) != (ACCEPTED.len() + 5, REFUSED.len() + NOT_UTF8.len() + 6) {
        return Err("a case of canonical.json is read otherwise than it is listed".to_owned());
    }
    let not_canonical: Vec<Value> = NOT_CANONICAL
        .iter()
        .map(|(name, line)| {
            let canonical = json::read(line.as_bytes()).map(|value| json::to_bytes(&value));
            let canonical = canonical.map_err(|error| cannot("read a line", error))?;
            if json::line::scan(line.as_bytes()).is_ok() {
                return Err(format!("the line `{name}` is canonical"));
            }
            Ok(json!({ "name": name, "line": line, "canonical": text(canonical) }))
        })
        .collect::<Result<_, String>>()?;
    Ok(json!({ "accepted": accepted, "refused": refused, "not_canonical_lines": not_canonical }))
}

fn sort(
    name: &str,
    input: &[u8],
    shown: &Value,
    accepted: &mut Vec<Value>,
    refused: &mut Vec<Value>,
) {
    let mut case = shown.clone();
    set(&mut case, "name", json!(name));
    match json::read(input) {
        Ok(value) => {
            let canonical = json::to_bytes(&value);
            set(&mut case, "sha256", json!(Hash::of(&canonical)));
            if shown.get("input").is_some() {
                set(&mut case, "canonical", json!(text(canonical)));
            }
            accepted.push(case);
        }
        Err(error) => {
            set(&mut case, "reason", json!(reason(&error.fault)));
            refused.push(case);
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// A name for a fault that does not depend on how we word it.
const fn reason(fault: &JsonFault) -> &'static str {
    match fault {
        JsonFault::TooLong { .. } => "too-long",
        JsonFault::InvalidUtf8 => "invalid-utf8",
        JsonFault::ByteOrderMark => "byte-order-mark",
        JsonFault::Expected(_) | JsonFault::UnexpectedEnd(_) => "syntax",
        JsonFault::TrailingText => "text-after-value",
        JsonFault::RawControl(_) => "raw-control-character",
        JsonFault::UnknownEscape => "unknown-escape",
        JsonFault::LoneSurrogate(_) => "lone-surrogate",
        JsonFault::DuplicateKey(_) => "duplicate-key",
        JsonFault::ReservedKey(_) => "reserved-key",
        JsonFault::IntegerRange => "integer-range",
        JsonFault::Overflow => "overflow",
        JsonFault::Underflow => "underflow",
        JsonFault::TooDeep => "too-deep",
        JsonFault::TooManyElements => "too-many-elements",
        JsonFault::NotCanonical(_) => "not-canonical",
    }
}
