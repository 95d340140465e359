//! What a request asks: the steps of its path and its query, read strictly.
//!
//! A parameter that is not known, given twice where once is meant, or not of its form is refused: a
//! filter that is silently ignored would show more than was asked for.

use std::fmt::Display;
use std::str::FromStr;

use axum::http::HeaderMap;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;

use super::answer::ApiFailure;

/// Parameters of one query.
const PARAMETERS_MAX: usize = 64;
/// Bytes of one value.
const VALUE_BYTES_MAX: usize = 1024;
/// The place in a list at most: what no ledger has.
const OFFSET_MAX: u64 = 1 << 53;

/// A request, as its handler sees it.
#[derive(Debug)]
pub(super) struct Asked {
    steps: Vec<(String, String)>,
    query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
}

impl Asked {
    /// Reads a request; `known` are the names that its query may have.
    pub(super) fn read(
        steps: Vec<(String, String)>,
        query: Option<&str>,
        known: &[&str],
        headers: HeaderMap,
    ) -> Result<Self, ApiFailure> {
        let query = pairs(query.unwrap_or_default())?;
        for (name, _) in &query {
            if !known.contains(&name.as_str()) {
                let known = match known {
                    [] => "there are none here".to_owned(),
                    known => format!("there are: {}", known.join(", ")),
                };
                return Err(ApiFailure::bad(format!("no parameter `{name}`; {known}")));
            }
        }
        Ok(Self { steps, query, headers })
    }

    /// The trace, work item or question that the path names.
    pub(super) fn id(&self) -> Result<Ulid, ApiFailure> {
        self.step("id", "an id has 26 characters, such as 01kg9ys7g00000000000000001")
    }

    /// The hash that the path names.
    pub(super) fn hash(&self) -> Result<Hash, ApiFailure> {
        self.step("hash", "a hash has 64 lowercase hexadecimal digits")
    }

    /// A step of the path, as what it stands for. Anything else is nowhere.
    pub(super) fn step<T: FromStr>(&self, name: &str, form: &str) -> Result<T, ApiFailure> {
        let text = self.steps.iter().find(|(it, _)| it == name).map(|(_, text)| text.as_str());
        text.unwrap_or_default().parse().map_err(|_| ApiFailure::missing(form))
    }

    /// All values of a parameter.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that may be there once. An empty one asks for nothing.
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, ApiFailure> {
        let mut values = self.all(name);
        let value = values.next();
        if values.next().is_some() {
            return Err(ApiFailure::bad(format!("`{name}` is given more than once")));
        }
        // The iterator borrows the name as long as the values: what is found is the request's own.
        let found = value.and_then(|_| self.query.iter().find(|(it, _)| it == name));
        Ok(found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty()))
    }

    /// The same, as what it stands for.
    pub(super) fn parsed<T: FromStr<Err: Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, ApiFailure> {
        let wrong = |error| ApiFailure::bad(format!("`{name}`: {error}"));
        self.one(name)?.map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// A time, or the beginning of a day.
    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>, ApiFailure> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let whole =
            if text.len() == 10 { format!("{text}T00:00:00.000Z") } else { text.to_owned() };
        let wrong = |_| {
            ApiFailure::bad(format!(
                "`{name}` must be a day such as 2026-01-31 or a time such as \
                 2026-01-31T23:59:59.123Z"
            ))
        };
        whole.parse().map(Some).map_err(wrong)
    }

    /// Each value of a parameter as one of `names`.
    pub(super) fn named<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ApiFailure> {
        let wrong = |value| ApiFailure::bad(format!("`{name}`: there is no `{value}`"));
        self.all(name).map(|value| parse(value).ok_or_else(|| wrong(value))).collect()
    }

    /// Which page of a list is wanted: how many are left out first, and how many follow.
    pub(super) fn page(&self, most: u64) -> Result<(u64, u64), ApiFailure> {
        let offset = self.within("offset", 0, OFFSET_MAX)?.unwrap_or(0);
        Ok((offset, self.within("limit", 1, most)?.unwrap_or(100)))
    }

    fn within(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, ApiFailure> {
        match self.one(name)?.map(str::parse::<u64>) {
            None if self.all(name).next().is_none() => Ok(None),
            Some(Ok(number)) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(ApiFailure::bad(format!("`{name}` is a number from {least} to {most}"))),
        }
    }
}

/// The names and values of a query, decoded.
fn pairs(query: &str) -> Result<Vec<(String, String)>, ApiFailure> {
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        if pairs.len() == PARAMETERS_MAX {
            let message = format!("a query has at most {PARAMETERS_MAX} parameters");
            return Err(ApiFailure::bad(message));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if value.len() > VALUE_BYTES_MAX {
            let message = format!("the value of `{name}` has more than {VALUE_BYTES_MAX} bytes");
            return Err(ApiFailure::bad(message));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn decoded(text: &str) -> Result<String, ApiFailure> {
    let wrong = || ApiFailure::bad("the query is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
                rest = after;
                let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                let valid = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let byte = u8::from_str_radix(digits, 16).ok().filter(|_| valid);
                byte.ok_or_else(wrong)?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Result<Asked, String> {
        let known = ["kind", "text", "limit", "offset", "from"];
        Asked::read(Vec::new(), Some(query), &known, HeaderMap::new())
            .map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_query_is_decoded_and_what_is_not_known_is_refused() {
        let read = asked("kind=work&text=a%20b+c%C3%A9&kind=flow").unwrap();
        assert_eq!(read.one("text").unwrap(), Some("a b cé"));
        assert_eq!(read.all("kind").collect::<Vec<_>>(), ["work", "flow"]);
        assert!(read.one("kind").is_err(), "once is meant");
        for bad in ["page=2", "text=%zz", "text=%f", "text=%ff", "text=%+1"] {
            assert!(asked(bad).is_err(), "{bad}");
        }
        assert!(asked(&format!("text={}", "a".repeat(VALUE_BYTES_MAX + 1))).is_err());
        assert!(asked(&"kind=a&".repeat(PARAMETERS_MAX + 1)).is_err());
    }

    #[test]
    fn a_page_has_bounds() {
        assert_eq!(asked("").unwrap().page(500).unwrap(), (0, 100));
        assert_eq!(asked("limit=500&offset=7").unwrap().page(500).unwrap(), (7, 500));
        for bad in
            ["limit=501", "limit=0", "limit=", "limit=-1", "offset=1e3", "offset=9007199254740993"]
        {
            assert!(asked(bad).unwrap().page(500).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_day_is_its_beginning() {
        let time = |query| asked(query).unwrap().time("from").map_err(drop);
        let midnight = "2026-01-31T00:00:00.000Z".parse().unwrap();
        assert_eq!(time("from=2026-01-31"), Ok(Some(midnight)));
        assert_eq!(time("from=2026-01-31T00:00:00.000Z"), Ok(Some(midnight)));
        assert_eq!(time("from=2026-02-30"), Err(()));
        assert_eq!(time(""), Ok(None));
    }
}
