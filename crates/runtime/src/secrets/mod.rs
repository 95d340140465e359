//! Keeps secrets out of what is stored.
//!
//! A [`Redactor`] replaces what looks like a secret, and the values of the environment's secrets in
//! the forms that they usually take, before anything is hashed or written. [`binding`] ties an
//! approval to an input whose secrets are gone. What nobody can recognise passes: the rules, and
//! what they miss, are described in `docs/formats/secrets.md`.

mod binding;
mod environment;
mod finder;
mod form;
mod name;
mod pattern;
mod region;
mod unescaped;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

pub use binding::binding;
use environment::{ENVIRONMENT, Values};
use pattern::ASSIGNMENT;
use region::Region;
use unescaped::Unescaped;

/// How often each rule replaced something, by the rule's name.
pub type Counts = BTreeMap<&'static str, u64>;

/// The names of all rules. Where several take the same bytes, the first in this list is named.
pub const RULES: [&str; 16] = [
    ENVIRONMENT,
    "private-key",
    "aws-access-key-id",
    "aws-secret-key",
    "github-token",
    "gitlab-token",
    "slack-token",
    "stripe-key",
    "model-key",
    "google-key",
    "npm-token",
    "pypi-token",
    "jwt",
    "authorization",
    "url-password",
    ASSIGNMENT,
];

/// What is replaced may have hidden the bounds of something else, which shows in another pass. Two
/// are enough for whatever anybody prints; the bound is for those who look for more.
const PASSES_MAX: usize = 8;

/// Replaces secrets. A copy is cheap and knows the same ones.
#[derive(Clone)]
pub struct Redactor {
    values: Arc<Values>,
}

/// Bytes without their secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'b> {
    /// The bytes; borrowed where nothing was found.
    pub bytes: Cow<'b, [u8]>,
    /// What was found.
    pub counts: Counts,
}

impl Redactor {
    /// One that also knows the secrets among these variables.
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { values: Arc::new(Values::of(environment)) }
    }

    /// One that knows how secrets look, and no value.
    #[must_use]
    pub fn none() -> Self {
        Self::new([])
    }

    /// Replaces the secrets in `bytes`, which are all there is: what is cut off at the end counts.
    #[must_use]
    pub fn redact<'b>(&self, bytes: &'b [u8]) -> Redacted<'b> {
        let mut redacted = Redacted { bytes: Cow::Borrowed(bytes), counts: Counts::new() };
        for _ in 0..PASSES_MAX {
            let regions = self.regions(&redacted.bytes);
            if regions.is_empty() {
                break;
            }
            let replaced = region::replaced(&redacted.bytes, &regions, &mut redacted.counts);
            redacted.bytes = Cow::Owned(replaced);
        }
        redacted
    }

    /// Replaces the secrets in a text.
    #[must_use]
    pub fn redact_text(&self, text: &str) -> (String, Counts) {
        let redacted = self.redact(text.as_bytes());
        let text = match redacted.bytes {
            Cow::Borrowed(_) => text.to_owned(),
            // A secret that is no text may have begun inside of a character.
            Cow::Owned(bytes) => String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        };
        (text, redacted.counts)
    }

    /// Replaces the secrets in all texts of a value, and in the names of its members. A member
    /// whose name tells a secret is replaced as a whole.
    pub fn redact_value(&self, value: &mut Value) -> Counts {
        let mut counts = Counts::new();
        self.visit(value, &mut counts);
        counts
    }

    fn visit(&self, value: &mut Value, counts: &mut Counts) {
        match value {
            Value::String(text) => self.replace_text(text, counts),
            Value::Array(values) => self.visit_list(values, counts),
            Value::Object(members) => {
                // Which of two names that become one is renamed must not depend on their order.
                let mut taken: Vec<_> = std::mem::take(members).into_iter().collect();
                taken.sort_by(|(a, _), (b, _)| a.cmp(b));
                for (name, value) in taken {
                    self.member(name, value, members, counts);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The words of a command are a list: what follows an option that tells a secret is one.
    fn visit_list(&self, values: &mut [Value], counts: &mut Counts) {
        let mut option: Option<String> = None;
        for value in values {
            match (value, option.take()) {
                (Value::String(text), Some(name)) if is_value_of(&name, text) => {
                    *text = region::marker(ASSIGNMENT);
                    *counts.entry(ASSIGNMENT).or_default() += 1;
                }
                (value, _) => {
                    let text = value.as_str().filter(|text| text.starts_with("--"));
                    option = text.map(|text| text.trim_start_matches('-').to_owned());
                    self.visit(value, counts);
                }
            }
        }
    }

    fn member(
        &self,
        mut name: String,
        mut value: Value,
        members: &mut Map<String, Value>,
        counts: &mut Counts,
    ) {
        match &mut value {
            Value::String(text) if pattern::is_secret_of(&name, text.as_bytes()) => {
                *text = region::marker(ASSIGNMENT);
                *counts.entry(ASSIGNMENT).or_default() += 1;
            }
            value => self.visit(value, counts),
        }
        self.replace_text(&mut name, counts);
        // Two names may have become one; neither member is to be lost.
        let mut free = name.clone();
        let mut number = 2;
        while members.contains_key(&free) {
            free = format!("{name} {number}");
            number += 1;
        }
        members.insert(free, value);
    }

    fn replace_text(&self, text: &mut String, counts: &mut Counts) {
        let (replaced, found) = self.redact_text(text);
        if !found.is_empty() {
            *text = replaced;
            for (rule, count) in found {
                *counts.entry(rule).or_default() += count;
            }
        }
    }

    fn regions(&self, text: &[u8]) -> Vec<Region> {
        let mut regions = self.plain_regions(text);
        // A secret may be written so that only a reader of JSON sees it.
        if let Some(view) = Unescaped::of(text) {
            let found = self.plain_regions(&view.bytes).into_iter();
            regions.extend(found.map(|Region { start, end, rule }| Region {
                start: view.place(start),
                end: view.place(end),
                rule,
            }));
        }
        region::merged(regions)
    }

    fn plain_regions(&self, text: &[u8]) -> Vec<Region> {
        let mut regions = Vec::new();
        for (from, to) in region::segments(text) {
            let segment = text.get(from..to).unwrap_or_default();
            let first = regions.len();
            self.values.find(segment, to == text.len(), &mut regions);
            pattern::find(segment, &mut regions);
            for region in regions.iter_mut().skip(first) {
                region.start += from;
                region.end += from;
            }
        }
        regions
    }
}

/// Whether a word that follows an option of this name is its secret.
fn is_value_of(option: &str, word: &str) -> bool {
    !word.starts_with('-') && pattern::is_secret_of(option, word.as_bytes())
}

impl Default for Redactor {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it knows is what nobody is to read.
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}
