//! Which period is meant: days in UTC, or moments.

use countersign_format::time::Timestamp;
use countersign_runtime::period::Period;

use crate::CommandError;

const DAY_MILLIS: i64 = 86_400_000;
/// Days of a period whose beginning is not named.
const DAYS: i64 = 7;

/// The period from `from` to `to`, as they were typed; the last week where they were not.
pub(super) fn period(
    from: Option<&str>,
    to: Option<&str>,
    now: Timestamp,
) -> Result<Period, CommandError> {
    // What is recorded in this very moment belongs to it.
    let to = to.map(|text| moment(text, DAY_MILLIS)).transpose()?.unwrap_or(now.plus_millis(1));
    let from = from.map(|text| moment(text, 0)).transpose()?;
    let from = from.unwrap_or_else(|| to.plus_millis(-DAYS * DAY_MILLIS));
    if from < to {
        return Ok(Period { from, to });
    }
    Err(CommandError::usage(format!("the period ends at {to}, before it begins at {from}"))
        .with_hint("the day that `--to` names is part of it, a time is not"))
}

/// A day as its beginning and `day_plus` milliseconds, or a time as it is.
fn moment(text: &str, day_plus: i64) -> Result<Timestamp, CommandError> {
    let day = format!("{text}T00:00:00.000Z").parse::<Timestamp>();
    let day = day.ok().map(|day| day.plus_millis(day_plus));
    // People leave out what is zero.
    let second = text.strip_suffix('Z').and_then(|text| format!("{text}.000Z").parse().ok());
    day.or_else(|| text.parse().ok()).or(second).ok_or_else(|| {
        CommandError::usage(format!("`{text}` is no date"))
            .with_hint("write a day as `2026-01-31`, a time as `2026-01-31T12:00:00Z`")
    })
}

/// What the page is called: its first and its last day.
pub(super) fn file_name(period: &Period) -> String {
    let last = period.to.plus_millis(-1);
    format!("countersign-report-{}-{}.html", day(period.from), day(last))
}

fn day(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(from: Option<&str>, to: Option<&str>) -> String {
        let now = "2026-02-10T08:00:00.000Z".parse().unwrap();
        match period(from, to, now) {
            Ok(period) => format!("{} {} {}", period.from, period.to, file_name(&period)),
            Err(error) => error.error.to_string(),
        }
    }

    #[test]
    fn the_last_day_is_part_of_it_and_a_time_is_not() {
        assert_eq!(
            told(Some("2026-01-31"), Some("2026-01-31")),
            "2026-01-31T00:00:00.000Z 2026-02-01T00:00:00.000Z \
             countersign-report-2026-01-31-2026-01-31.html"
        );
        assert_eq!(
            told(Some("2026-01-31T01:02:03.004Z"), Some("2026-02-01T00:00:00.000Z")),
            "2026-01-31T01:02:03.004Z 2026-02-01T00:00:00.000Z \
             countersign-report-2026-01-31-2026-01-31.html"
        );
    }

    #[test]
    fn without_dates_it_is_the_last_week() {
        assert_eq!(
            told(None, None),
            "2026-02-03T08:00:00.001Z 2026-02-10T08:00:00.001Z \
             countersign-report-2026-02-03-2026-02-10.html"
        );
        assert!(told(None, Some("2026-01-31")).starts_with("2026-01-25T00:00:00.000Z 2026-02-01T"));
    }

    #[test]
    fn what_is_no_date_or_ends_before_it_begins_is_refused() {
        for text in ["", "yesterday", "2026-02-30", "2026-1-1", "2026-01-31T12:00Z", "2026-01-31 "]
        {
            assert_eq!(told(Some(text), None), format!("`{text}` is no date"));
        }
        assert_eq!(
            told(Some("2026-02-02"), Some("2026-02-01")),
            "the period ends at 2026-02-02T00:00:00.000Z, before it begins at \
             2026-02-02T00:00:00.000Z"
        );
    }
}
