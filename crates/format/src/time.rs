//! Points in time, as `2026-01-31T23:59:59.123Z` and nothing else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since 1970-01-01T00:00:00Z, between the years 0000 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

const DAY_MS: i64 = 86_400_000;

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const EPOCH: Self = Self(0);
    const MIN: i64 = -62_167_219_200_000;
    const MAX: i64 = 253_402_300_799_999;

    /// The point `millis` after the epoch, clamped to the years that the format can write.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(Self::MIN, Self::MAX))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This point, `millis` later.
    #[must_use]
    pub fn plus_millis(self, millis: i64) -> Self {
        Self::from_millis(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY_MS));
        let ms = self.0.rem_euclid(DAY_MS);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        let milli = ms % 1000;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [
            (0, 4, year),
            (5, 7, month),
            (8, 10, day),
            (11, 13, hour),
            (14, 16, minute),
            (17, 19, second),
            (20, 23, milli),
        ];
        for (from, to, value) in parts {
            let mut left = value;
            for place in text.get_mut(from..to).unwrap_or_default().iter_mut().rev() {
                // One decimal digit.
                *place = b'0' + u8::try_from(left % 10).unwrap_or(0);
                left /= 10;
            }
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// A text that is not a timestamp in the one accepted form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a time is written `2026-01-31T23:59:59.123Z`: UTC, milliseconds, an existing date")]
pub struct NotATimestamp;

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        parse(text).ok_or(NotATimestamp)
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    let bytes: &[u8; 24] = text.as_bytes().try_into().ok()?;
    let separators =
        [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')];
    if separators.iter().any(|&(at, byte)| bytes.get(at) != Some(&byte)) {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        bytes.get(from..to)?.iter().try_fold(0i64, |value, byte| {
            byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let milli = number(20, 23)?;
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_from_civil(year, month, day);
    // A day that the month does not have comes out as another date.
    if civil_from_days(days) != (year, month, day) {
        return None;
    }
    Some(Timestamp(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + milli))
}

/// Days from the epoch to a date of the proleptic Gregorian calendar. Years start in March here,
/// so that the leap day is the last day of a year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_and_read_back() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_769_903_999_123, "2026-01-31T23:59:59.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (Timestamp::MIN, "0000-01-01T00:00:00.000Z"),
            (Timestamp::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(millis)));
        }
    }

    #[test]
    fn every_day_of_nine_centuries_survives_a_round_trip() {
        for day in -200_000..130_000 {
            let time = Timestamp::from_millis(day * DAY_MS + 43_200_001);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }

    #[test]
    fn other_spellings_and_impossible_dates_are_refused() {
        for text in [
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:60.000Z",
            "2026-01-01T24:00:00.000Z",
            "-026-01-01T00:00:00.000Z",
            "2026-01-01 00:00:00.000Z",
            "2026-02-29T00:00:00.000Z",
            "2026-13-01T00:00:00.000Z",
            "2026-00-10T00:00:00.000Z",
            "2026-01-00T00:00:00.000Z",
            "2026-01-01T00:00:00.000z",
            "2026-01-01T00:00:00.000+00:00",
            "2026-01-01T00:00:00.0000Z",
            "+026-01-01T00:00:00.000Z",
            "2026-1-001T00:00:00.000Z",
            "",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotATimestamp), "{text}");
        }
    }
}
