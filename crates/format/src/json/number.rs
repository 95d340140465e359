//! JSON numbers: what may be read, and the ECMAScript form in which they are written.

use super::{INTEGER_MAX, JsonFault, Number};

/// The extent of the number token that starts at `at`, and whether it has a fraction or exponent.
pub(super) fn token(bytes: &[u8], at: usize) -> Result<(usize, bool), (usize, JsonFault)> {
    let peek = |index: usize| bytes.get(index).copied();
    let digits = |mut index: usize| {
        while peek(index).is_some_and(|byte| byte.is_ascii_digit()) {
            index += 1;
        }
        index
    };
    let mut end = at;
    if peek(end) == Some(b'-') {
        end += 1;
    }
    match peek(end) {
        Some(b'0') => end += 1,
        Some(b'1'..=b'9') => end = digits(end),
        Some(_) => return Err((end, JsonFault::Expected("a digit"))),
        None => return Err((end, JsonFault::UnexpectedEnd("a digit"))),
    }
    if peek(end).is_some_and(|byte| byte.is_ascii_digit()) {
        return Err((end, JsonFault::Expected("no digit after a leading zero")));
    }
    let mut fractional = false;
    if peek(end) == Some(b'.') {
        fractional = true;
        let after = digits(end + 1);
        if after == end + 1 {
            return Err((after, JsonFault::Expected("a digit after the point")));
        }
        end = after;
    }
    if matches!(peek(end), Some(b'e' | b'E')) {
        fractional = true;
        let mut start = end + 1;
        if matches!(peek(start), Some(b'+' | b'-')) {
            start += 1;
        }
        let after = digits(start);
        if after == start {
            return Err((after, JsonFault::Expected("a digit in the exponent")));
        }
        end = after;
    }
    Ok((end, fractional))
}

/// The value of a token found by [`token`]. A token with a fraction or exponent stays a float even
/// where it is integral, so that `1.0` does not pass for an integer in a schema.
pub(super) fn value(token: &str, fractional: bool) -> Result<Number, JsonFault> {
    if !fractional {
        // 16 digits hold every safe integer; longer tokens need not be parsed to be refused.
        let digits = token.trim_start_matches('-').len();
        let integer = if digits <= 16 { token.parse::<i64>().ok() } else { None };
        return integer
            .filter(|integer| integer.unsigned_abs() <= INTEGER_MAX.unsigned_abs())
            .map(Number::from)
            .ok_or(JsonFault::IntegerRange);
    }
    let float: f64 = token.parse().map_err(|_| JsonFault::Expected("a number"))?;
    if !float.is_finite() {
        return Err(JsonFault::Overflow);
    }
    let mantissa = token.split(['e', 'E']).next().unwrap_or(token);
    if float == 0.0 && mantissa.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0') {
        return Err(JsonFault::Underflow);
    }
    // From 1e21 on, the ECMAScript form has an exponent and no reader takes it for an integer.
    if float.fract() == 0.0 && float.abs() > INTEGER_MAX as f64 && float.abs() < 1e21 {
        return Err(JsonFault::IntegerRange);
    }
    Number::from_f64(float).ok_or(JsonFault::Overflow)
}

/// Appends the ECMAScript form of `number`.
pub(super) fn write(number: &Number, out: &mut Vec<u8>) {
    if let Some(integer) = number.as_i64() {
        out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
    } else if let Some(integer) = number.as_u64() {
        out.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes());
    } else if let Some(float) = number.as_f64() {
        write_float(float, out);
    }
}

pub(super) fn write_float(float: f64, out: &mut Vec<u8>) {
    if float == 0.0 {
        out.push(b'0');
    } else {
        out.extend_from_slice(ryu_js::Buffer::new().format(float).as_bytes());
    }
}
