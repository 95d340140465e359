//! The text that `json.dumps` gives.

use std::fmt::Write as _;

use super::{PyObject, PyString, PyValue};

/// As `json.dumps(value, sort_keys=True, separators=(",", ":"))`. The text is ASCII.
#[must_use]
pub fn dumps(value: &PyValue) -> String {
    let mut out = String::with_capacity(512);
    write(value, &COMPACT, &mut out);
    out
}

/// As `json.dumps(value, sort_keys=True)`: a blank after each comma and colon.
#[must_use]
pub fn dumps_spaced(value: &PyValue) -> String {
    let mut out = String::with_capacity(512);
    write(value, &SPACED, &mut out);
    out
}

struct Separators {
    item: &'static str,
    key: &'static str,
}

const COMPACT: Separators = Separators { item: ",", key: ":" };
const SPACED: Separators = Separators { item: ", ", key: ": " };

fn write(value: &PyValue, separators: &Separators, out: &mut String) {
    match value {
        PyValue::Null => out.push_str("null"),
        PyValue::Bool(true) => out.push_str("true"),
        PyValue::Bool(false) => out.push_str("false"),
        PyValue::Integer(integer) => out.push_str(&integer.to_string()),
        PyValue::Float(float) => write_float(*float, out),
        PyValue::String(text) => write_string(text, out),
        PyValue::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push_str(separators.item);
                }
                write(element, separators, out);
            }
            out.push(']');
        }
        PyValue::Object(members) => write_object(members, separators, out),
    }
}

fn write_object(members: &PyObject, separators: &Separators, out: &mut String) {
    out.push('{');
    for (index, (key, member)) in members.iter().enumerate() {
        if index > 0 {
            out.push_str(separators.item);
        }
        write_string(key, out);
        out.push_str(separators.key);
        write(member, separators, out);
    }
    out.push('}');
}

pub(super) fn write_string(text: &PyString, out: &mut String) {
    out.push('"');
    for code in text.code_points() {
        match char::from_u32(code) {
            Some(character) => write_character(character, out),
            None => write_unit(code, out),
        }
    }
    out.push('"');
}

/// The same for text without lone surrogates.
pub(crate) fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        out.push_str(text);
    } else {
        text.chars().for_each(|character| write_character(character, out));
    }
    out.push('"');
}

fn write_character(character: char, out: &mut String) {
    match character {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        plain @ ' '..='~' => out.push(plain),
        character => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                write_unit((*unit).into(), out);
            }
        }
    }
}

fn write_unit(unit: u32, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\u{unit:04x}");
}

/// Decimal exponents from here up to [`FIXED_BELOW`] are written without one.
const FIXED_FROM: i32 = -4;
const FIXED_BELOW: i32 = 16;

/// As `float.__repr__`: the shortest digits that give the same double again.
pub(crate) fn write_float(float: f64, out: &mut String) {
    if float.is_nan() {
        return out.push_str("NaN");
    }
    if float.is_sign_negative() {
        out.push('-');
    }
    if float.is_infinite() {
        return out.push_str("Infinity");
    }
    let (digits, exponent) = shortest(float.abs());
    let (first, fraction) = digits.split_at_checked(1).unwrap_or(("0", ""));
    if !(FIXED_FROM..FIXED_BELOW).contains(&exponent) {
        let point = if fraction.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{first}{point}{fraction}e{sign}{:02}", exponent.unsigned_abs());
        return;
    }
    let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(0);
    if exponent < 0 {
        let _ = write!(out, "0.{}{digits}", "0".repeat(places.saturating_sub(1)));
    } else if let Some((whole, rest)) = fraction.split_at_checked(places) {
        let rest = if rest.is_empty() { "0" } else { rest };
        let _ = write!(out, "{first}{whole}.{rest}");
    } else {
        let _ = write!(out, "{first}{fraction:0<places$}.0");
    }
}

/// The digits without zeros around them, and the decimal exponent of the first one.
///
/// Where two shortest texts are equally near, Python takes the even one. So does Ryu; Rust's own
/// `{:e}` does not: it gives 105477729698202.63 for 105477729698202.625.
fn shortest(float: f64) -> (String, i32) {
    let mut buffer = ryu_js::Buffer::new();
    let text = buffer.format_finite(float);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let padded = format!("{whole}{fraction}");
    let digits = padded.trim_start_matches('0');
    if digits.is_empty() {
        return ("0".to_owned(), 0);
    }
    let zeros = padded.len() - digits.len();
    let places = |count: usize| i32::try_from(count).unwrap_or(0);
    let first_at = exponent + places(whole.len()) - places(zeros) - 1;
    (digits.trim_end_matches('0').to_owned(), first_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_does() {
        for (float, text) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.0001, "0.0001"),
            (0.000_123_4, "0.0001234"),
            (1e-5, "1e-05"),
            (-1.5e-7, "-1.5e-07"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123.456, "123.456"),
            (843_821_837_585_621.0 / 8.0, "105477729698202.62"),
            (4_786_297_534_224_897.0 / 4.0, "1196574383556224.2"),
            (4_786_297_534_224_899.0 / 4.0, "1196574383556224.8"),
            (1200.0, "1200.0"),
            (1e15, "1000000000000000.0"),
            (9_007_199_254_740_992.0, "9007199254740992.0"),
            (1e16, "1e+16"),
            (1.234_567_890_123_456_8e17, "1.2345678901234568e+17"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(dumps(&PyValue::Float(float)), text);
        }
    }

    #[test]
    fn spaced_text_differs_in_blanks_only() {
        let object = PyObject::from([
            ("b".into(), PyValue::Array(vec![PyValue::Null, PyValue::Bool(true)])),
            ("a".into(), PyValue::String("x, y: z".into())),
        ]);
        let value = PyValue::Object(object);
        assert_eq!(dumps_spaced(&value), r#"{"a": "x, y: z", "b": [null, true]}"#);
        assert_eq!(dumps(&value), r#"{"a":"x, y: z","b":[null,true]}"#);
    }
}
