//! Reads a TOML document by its keys.
//!
//! Every reading method notes what is wrong and gives nothing, so that whoever reads goes on to the
//! next key. Knows places and types, not what the keys mean.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use countersign_format::shape::{Checker, Dialect, Shape};
use countersign_format::text::{self, to_nfc};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{FaultList, shown};
use super::near::nearest;

/// The greatest integer that every reader of JSON takes alike.
const INTEGER_MAX: i64 = (1 << 53) - 1;
/// Bytes of one text: every text stands in some event, and an event is one line.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// A table and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Table<'a> {
    at: usize,
    path: String,
    entries: &'a DeTable<'a>,
    faults: &'a FaultList<'a>,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Value<'a> {
    at: usize,
    path: String,
    value: &'a DeValue<'a>,
    faults: &'a FaultList<'a>,
}

impl<'a> Table<'a> {
    /// The document itself.
    pub(crate) const fn root(entries: &'a DeTable<'a>, faults: &'a FaultList<'a>) -> Self {
        Self { at: 0, path: String::new(), entries, faults }
    }

    /// Notes a fault of the table as a whole.
    pub(crate) fn fault(&self, message: impl Into<String>) {
        self.faults.note(self.at, &self.path, message);
    }

    /// Notes a fault of a member: where it stands, or of the table where it is absent.
    pub(crate) fn fault_of(&self, key: &str, message: impl Into<String>) {
        let at = self.entries.get(key).map_or(self.at, |value| value.span().start);
        self.faults.note(at, &self.path_of(key), message);
    }

    /// Where it stands among the keys.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// How many faults were noted so far, here or elsewhere.
    pub(crate) fn faults_so_far(&self) -> usize {
        self.faults.count()
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.entries.get(key).map(|value| self.value(key, value))
    }

    /// The value of a key that must be there; `wanted` is what it must be.
    pub(crate) fn required(&self, key: &str, wanted: &str) -> Option<Value<'a>> {
        let value = self.get(key);
        if value.is_none() {
            self.fault_of(key, format!("missing, must be {wanted}"));
        }
        value
    }

    /// All values with their keys, and the places of the keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a str, Place<'a>, Value<'a>)> {
        self.entries.iter().map(|(key, value)| {
            let name: &'a str = key.get_ref();
            let place =
                Place { at: key.span().start, path: self.path_of(name), faults: self.faults };
            (name, place, self.value(name, value))
        })
    }

    /// Notes every key that is not `known`.
    pub(crate) fn only(&self, known: &[&str]) {
        for (key, place, _) in self.entries().filter(|(key, ..)| !known.contains(key)) {
            place.fault(match nearest(key, known) {
                Some(near) => format!("unknown key, did you mean `{near}`?"),
                None => format!("unknown key, the keys here are: {}", known.join(", ")),
            });
        }
    }

    /// A table below this one.
    pub(crate) fn table(&self, key: &str) -> Option<Self> {
        self.get(key).and_then(|value| value.table())
    }

    /// A text that must be there.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.required(key, "a string").and_then(|value| value.text())
    }

    /// A name that must be there.
    pub(crate) fn name(&self, key: &str) -> Option<String> {
        self.required(key, "a string").and_then(|value| value.name())
    }

    /// A list of texts, empty where there is none.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        self.each(key, Value::text)
    }

    /// A list of strings in which nothing may stand twice, each read by `read`.
    pub(crate) fn set<T>(&self, key: &str, read: impl Fn(&Value<'a>) -> Option<T>) -> Vec<T> {
        let mut met = BTreeSet::new();
        self.each(key, |value| {
            let read = read(value)?;
            if let Some(text) = value.string()
                && !met.insert(text)
            {
                value.fault(format!("`{}` is listed twice", shown(text)));
            }
            Some(read)
        })
    }

    /// A list, each element read by `read`; empty where there is none.
    fn each<T>(&self, key: &str, read: impl FnMut(&Value<'a>) -> Option<T>) -> Vec<T> {
        let elements = self.get(key).and_then(|value| value.list("an array of strings"));
        elements.iter().flatten().filter_map(read).collect()
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).and_then(|value| value.flag())
    }

    /// An integer in this range.
    pub(crate) fn integer<T: TryFrom<i64>>(
        &self,
        key: &str,
        range: RangeInclusive<i64>,
    ) -> Option<T> {
        self.get(key).and_then(|value| value.integer(range))
    }

    /// One of these words.
    pub(crate) fn choice<T>(
        &self,
        key: &str,
        words: &[&str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.get(key).and_then(|value| value.choice(words, parse))
    }

    fn value(&self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Value<'a> {
        let (at, path) = (value.span().start, self.path_of(key));
        Value { at, path, value: value.get_ref(), faults: self.faults }
    }

    fn path_of(&self, key: &str) -> String {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let key = match !key.is_empty() && key.chars().all(bare) {
            true => shown(key),
            false => format!("\"{}\"", shown(key)),
        };
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }
}

/// Where a key stands.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    at: usize,
    path: String,
    faults: &'a FaultList<'a>,
}

impl Place<'_> {
    /// Notes a fault of the key.
    pub(crate) fn fault(&self, message: impl Into<String>) {
        self.faults.note(self.at, &self.path, message);
    }
}

impl<'a> Value<'a> {
    /// Notes a fault of the value.
    pub(crate) fn fault(&self, message: impl Into<String>) {
        self.faults.note(self.at, &self.path, message);
    }

    /// The string that it is, if it is one.
    pub(crate) fn string(&self) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// A table.
    pub(crate) fn table(&self) -> Option<Table<'a>> {
        match self.value {
            DeValue::Table(entries) => {
                let path = self.path.clone();
                Some(Table { at: self.at, path, entries, faults: self.faults })
            }
            _ => self.other_than("a table"),
        }
    }

    /// The elements of an array; `wanted` is what it must be.
    pub(crate) fn list(&self, wanted: &str) -> Option<Vec<Self>> {
        match self.value {
            DeValue::Array(_) => Some(self.elements()),
            _ => self.other_than(wanted),
        }
    }

    /// The elements, if it is an array; nothing is noted if it is not.
    pub(crate) fn elements(&self) -> Vec<Self> {
        let DeValue::Array(elements) = self.value else { return Vec::new() };
        let element = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| {
            let (at, path) = (value.span().start, format!("{}[{index}]", self.path));
            Self { at, path, value: value.get_ref(), faults: self.faults }
        };
        elements.iter().enumerate().map(element).collect()
    }

    /// Whether it is an array without elements.
    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(self.value, DeValue::Array(elements) if elements.is_empty())
    }

    /// A text for people and events: not empty, in normalisation form C. White space around it and
    /// the line ends of some editors are no part of it.
    pub(crate) fn text(&self) -> Option<String> {
        let text = self.passable()?.trim();
        if text.is_empty() {
            return self.refuse("must not be empty");
        }
        if text.len() > TEXT_BYTES_MAX {
            return self.refuse(format!("has {} bytes, the limit is {TEXT_BYTES_MAX}", text.len()));
        }
        let text = to_nfc(&text.replace("\r\n", "\n"));
        match text::check(&text) {
            Ok(()) => Some(text),
            Err(fault) => self.refuse(format!("must not hold the {fault}")),
        }
    }

    /// A string that a system can pass on: anything without NUL.
    pub(crate) fn passable(&self) -> Option<&'a str> {
        match self.any_string()? {
            text if text.contains('\0') => self.refuse("must not hold a NUL character"),
            text => Some(text),
        }
    }

    /// A string, whatever it holds.
    pub(crate) fn any_string(&self) -> Option<&'a str> {
        self.string().or_else(|| self.other_than("a string"))
    }

    /// A lowercase identifier.
    pub(crate) fn name(&self) -> Option<String> {
        let name = self.any_string()?;
        let mut checker = Checker::new(Dialect::V1_1);
        checker.check(&Shape::Name, &name.into());
        match checker.into_faults().pop() {
            None => Some(name.to_owned()),
            Some(fault) => self.refuse(format!("found `{}`, {}", shown(name), fault.message)),
        }
    }

    /// One of these words.
    pub(crate) fn choice<T>(&self, words: &[&str], parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let word = self.any_string()?;
        parse(word).or_else(|| {
            let near = nearest(word, words).map(|near| format!("; did you mean `{near}`?"));
            let (found, near) = (shown(word), near.unwrap_or_default());
            self.refuse(format!("must be one of: {}; found `{found}`{near}", words.join(", ")))
        })
    }

    /// An integer in this range.
    pub(crate) fn integer<T: TryFrom<i64>>(&self, range: RangeInclusive<i64>) -> Option<T> {
        let DeValue::Integer(written) = self.value else {
            return self.other_than("an integer");
        };
        let integer = i64::from_str_radix(written.as_str(), written.radix()).ok();
        let fits = integer.filter(|integer| range.contains(integer));
        fits.and_then(|integer| T::try_from(integer).ok()).or_else(|| {
            let (min, max) = (range.start(), range.end());
            let found = shown(&written.to_string());
            self.refuse(format!("must be between {min} and {max}, found {found}"))
        })
    }

    fn flag(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(flag) => Some(*flag),
            _ => self.other_than("true or false"),
        }
    }

    /// Whether it is a table.
    pub(crate) const fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    /// Whether it is an array.
    pub(crate) const fn is_list(&self) -> bool {
        matches!(self.value, DeValue::Array(_))
    }

    /// The same as JSON, in which dates are texts.
    pub(crate) fn json(&self) -> Option<serde_json::Value> {
        use serde_json::Value as Json;
        Some(match self.value {
            DeValue::String(text) => Json::String(to_nfc(text)),
            DeValue::Integer(_) => Json::from(self.integer::<i64>(-INTEGER_MAX..=INTEGER_MAX)?),
            DeValue::Float(float) => {
                let number = float.as_str().replace('_', "").parse().ok();
                match number.and_then(serde_json::Number::from_f64) {
                    Some(number) => Json::Number(number),
                    None => return self.refuse("must be a finite number"),
                }
            }
            DeValue::Boolean(flag) => Json::Bool(*flag),
            DeValue::Datetime(when) => Json::String(when.to_string()),
            DeValue::Array(_) => {
                Json::Array(self.elements().iter().filter_map(Self::json).collect())
            }
            DeValue::Table(_) => {
                let table = self.table()?;
                let members = table
                    .entries()
                    .filter_map(|(key, _, value)| value.json().map(|value| (to_nfc(key), value)));
                Json::Object(members.collect())
            }
        })
    }

    /// A number, however it is written.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.json()?.as_f64() {
            Some(number) => Some(number),
            None => self.other_than("a number"),
        }
    }

    /// Notes a fault of the value, and gives nothing.
    pub(crate) fn refuse<T>(&self, message: impl Into<String>) -> Option<T> {
        self.fault(message);
        None
    }

    fn other_than<T>(&self, wanted: &str) -> Option<T> {
        let found = match self.value {
            DeValue::String(text) => format!("the string \"{}\"", shown(text)),
            DeValue::Integer(integer) => format!("the integer {}", shown(&integer.to_string())),
            DeValue::Float(float) => format!("the float {}", shown(float.as_str())),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(_) => "a date or time".to_owned(),
            DeValue::Array(_) => "an array".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.refuse(format!("must be {wanted}, found {found}"))
    }
}
