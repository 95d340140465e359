//! Which bytes of a file a request wants (RFC 9110, one range).

use axum::http::HeaderMap;
use axum::http::header::RANGE;

/// What is to be sent of something of a known length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    Whole,
    /// From the first of these bytes to before the second.
    Part(u64, u64),
    /// Nothing that is there.
    Nothing,
}

/// Reads the header. One that makes no sense, or asks for several ranges, asks for everything.
pub(super) fn wanted(headers: &HeaderMap, length: u64) -> Wanted {
    let mut values = headers.get_all(RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Wanted::Whole };
    let range = value.to_str().ok().and_then(|text| text.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return Wanted::Whole;
    };
    let number = |digits: &str| match digits.bytes().all(|digit| digit.is_ascii_digit()) {
        true => digits.parse::<u64>().ok(),
        false => None,
    };
    let (from, to) = match (first, last) {
        ("", last) => match number(last) {
            Some(count) => (length.saturating_sub(count), length),
            None => return Wanted::Whole,
        },
        (first, "") => match number(first) {
            Some(from) => (from, length),
            None => return Wanted::Whole,
        },
        (first, last) => match (number(first), number(last)) {
            (Some(from), Some(to)) if from <= to => (from, to.saturating_add(1).min(length)),
            _ => return Wanted::Whole,
        },
    };
    if from < to { Wanted::Part(from, to) } else { Wanted::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_served_and_nonsense_is_the_whole() {
        let of = |value: &str, length| {
            let headers = HeaderMap::from_iter([(RANGE, value.parse().unwrap())]);
            wanted(&headers, length)
        };
        for (value, expected) in [
            ("bytes=0-0", Wanted::Part(0, 1)),
            ("bytes=2-", Wanted::Part(2, 10)),
            ("bytes=-3", Wanted::Part(7, 10)),
            ("bytes=-30", Wanted::Part(0, 10)),
            ("bytes=5-99999999999999999999", Wanted::Whole),
            ("bytes=5-18446744073709551615", Wanted::Part(5, 10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=10-12", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=3-2", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
        ] {
            assert_eq!(of(value, 10), expected, "{value}");
        }
        assert_eq!(of("bytes=0-", 0), Wanted::Nothing);
        assert_eq!(wanted(&HeaderMap::new(), 10), Wanted::Whole);
    }
}
