//! Which files a step may write: patterns of paths, whether one fits and whether two can meet.
//!
//! `*` stands for any characters of one component, `**` as a whole component for any number of
//! components. Decides by text alone.

use std::fmt;

use countersign_format::path::{WorkspacePath, check_component};
use serde::{Deserialize, Serialize};

/// What stands for the feature in paths and patterns.
pub const FEATURE: &str = "{feature_id}";

/// Whether an id can stand for a feature: one component of a path, which no pattern takes for more
/// than itself.
pub fn check_feature(id: &str) -> Result<(), PatternFault> {
    let fault = |reason: String| Err(PatternFault { reason });
    if let Some(letter) = id.chars().find(|letter| "*{}".contains(*letter)) {
        return fault(format!("not usable as a feature's id: it holds `{letter}`"));
    }
    match check_component(id) {
        Ok(()) => Ok(()),
        Err(wrong) => fault(format!("not usable as a feature's id: {wrong}")),
    }
}

/// Paths that a step may write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WritePattern(String);

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PatternFault {
    reason: String,
}

/// How a path lies to a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PatternReach {
    /// Nothing at it or below it fits.
    Outside,
    /// Something below it can fit.
    Leads,
    /// It fits.
    Within,
}

impl WritePattern {
    /// Takes `text` if a path that fits could be written.
    pub fn parse(text: &str) -> Result<Self, PatternFault> {
        // With a letter in place of each wildcard it must be a path like any other.
        let sample = text.split('/').map(|part| match part {
            "**" => "x".to_owned(),
            part => part.replace('*', "x"),
        });
        let sample: Vec<String> = sample.collect();
        if text.split('/').any(|part| part.contains("**") && part != "**") {
            return Err(PatternFault { reason: "`**` must be a component of its own".to_owned() });
        }
        match WorkspacePath::parse(&sample.join("/")) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(fault) => Err(PatternFault { reason: fault.to_string() }),
        }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `path` fits.
    #[must_use]
    pub fn fits(&self, path: &str) -> bool {
        self.reach(path) == PatternReach::Within
    }

    /// How `path` lies to it.
    #[must_use]
    pub fn reach(&self, path: &str) -> PatternReach {
        let pattern: Vec<&str> = self.0.split('/').collect();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        reach(&pattern, &parts)
    }

    /// Whether some path fits both.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let (one, two): (Vec<&str>, Vec<&str>) =
            (self.0.split('/').collect(), other.0.split('/').collect());
        meet(&one, &two)
    }

    /// The pattern for a feature, which stands where `{feature_id}` does.
    #[must_use]
    pub fn for_feature(&self, feature_id: Option<&str>) -> Self {
        match feature_id {
            Some(feature_id) => Self(self.0.replace(FEATURE, feature_id)),
            None => self.clone(),
        }
    }

    /// The components before the first wildcard.
    pub fn fixed(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').take_while(|part| !part.contains('*'))
    }
}

impl fmt::Display for WritePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for WritePattern {
    type Error = PatternFault;

    fn try_from(text: String) -> Result<Self, PatternFault> {
        Self::parse(&text)
    }
}

impl From<WritePattern> for String {
    fn from(pattern: WritePattern) -> Self {
        pattern.0
    }
}

/// Walks a table of which rest of the pattern meets which rest of the path, so that many `**` do not
/// make it slow.
fn reach(pattern: &[&str], parts: &[&str]) -> PatternReach {
    // Positions of the pattern that the components so far can have led to.
    let mut at = vec![false; pattern.len() + 1];
    set(&mut at, 0);
    spread(pattern, &mut at);
    for part in parts {
        let mut next = vec![false; pattern.len() + 1];
        for (place, rule) in pattern.iter().enumerate() {
            if at.get(place) != Some(&true) {
                continue;
            }
            if *rule == "**" {
                set(&mut next, place);
            } else if component_fits(rule, part) {
                set(&mut next, place + 1);
            }
        }
        spread(pattern, &mut next);
        at = next;
    }
    if at.last() == Some(&true) {
        PatternReach::Within
    } else if at.contains(&true) {
        PatternReach::Leads
    } else {
        PatternReach::Outside
    }
}

/// `**` may stand for nothing.
fn spread(pattern: &[&str], at: &mut [bool]) {
    for (place, rule) in pattern.iter().enumerate() {
        if *rule == "**" && at.get(place) == Some(&true) {
            set(at, place + 1);
        }
    }
}

fn set(at: &mut [bool], place: usize) {
    if let Some(it) = at.get_mut(place) {
        *it = true;
    }
}

fn component_fits(rule: &str, part: &str) -> bool {
    let rule: Vec<char> = rule.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let mut fits = vec![false; part.len() + 1];
    set(&mut fits, 0);
    for letter in rule {
        let mut next = vec![false; part.len() + 1];
        if letter == '*' {
            let mut any = false;
            for (place, it) in next.iter_mut().enumerate() {
                any |= fits.get(place) == Some(&true);
                *it = any;
            }
        } else {
            for (place, found) in part.iter().enumerate() {
                if fits.get(place) == Some(&true) && *found == letter {
                    set(&mut next, place + 1);
                }
            }
        }
        fits = next;
    }
    fits.last() == Some(&true)
}

/// Whether some list of components fits both: the product of the two as one walk.
fn meet(one: &[&str], two: &[&str]) -> bool {
    product(one, two, |rule| *rule == "**", |a, b| components_meet(a, b))
}

fn components_meet(one: &str, two: &str) -> bool {
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    product(&one, &two, |letter| *letter == '*', |a, b| a == b)
}

/// Whether two rows with wildcards for any number of elements have a row in common.
fn product<T>(
    one: &[T],
    two: &[T],
    any: impl Fn(&T) -> bool,
    same: impl Fn(&T, &T) -> bool,
) -> bool {
    let width = two.len() + 1;
    let mut met = vec![false; (one.len() + 1) * width];
    let mut open = vec![(0, 0)];
    while let Some((a, b)) = open.pop() {
        match met.get_mut(a * width + b) {
            Some(it) if !*it => *it = true,
            _ => continue,
        }
        match (one.get(a), two.get(b)) {
            (None, None) => return true,
            (Some(first), second) if any(first) => {
                open.push((a + 1, b));
                if let Some(second) = second {
                    open.push((a, b + 1));
                    if any(second) {
                        open.push((a + 1, b + 1));
                    }
                }
            }
            (first, Some(second)) if any(second) => {
                open.push((a, b + 1));
                if first.is_some() {
                    open.push((a + 1, b));
                }
            }
            (Some(first), Some(second)) if same(first, second) => open.push((a + 1, b + 1)),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_within_a_pattern_leads_to_it_or_lies_outside() {
        use PatternReach::{Leads, Outside, Within};
        let table = [
            ("specs/x/spec.md", "specs/x/spec.md", Within),
            ("specs/x/spec.md", "specs/x", Leads),
            ("specs/x/spec.md", "specs/y", Outside),
            ("specs/**", "specs", Within),
            ("specs/**", "specs/a/b/c.md", Within),
            ("specs/**", "spec", Outside),
            ("specs/*/spec.md", "specs/a/spec.md", Within),
            ("specs/*/spec.md", "specs/a/b/spec.md", Outside),
            ("**/index.md", "index.md", Within),
            ("**/index.md", "a/b/index.md", Within),
            ("**/index.md", "a/b", Leads),
            ("a*c.md", "abbc.md", Within),
            ("a*c.md", "abb.md", Outside),
            ("a/**/b/**/c", "a/b/c", Within),
            ("a/**/b/**/c", "a/x/b/y/z/c", Within),
        ];
        for (pattern, path, expected) in table {
            assert_eq!(WritePattern::parse(pattern).unwrap().reach(path), expected, "{pattern}");
        }
    }

    #[test]
    fn two_patterns_meet_if_some_path_fits_both() {
        let table = [
            ("a/b.md", "a/b.md", true),
            ("a/b.md", "a/c.md", false),
            ("a/**", "a/b/c.md", true),
            ("a/**", "b/**", false),
            ("a/*.md", "a/x*", true),
            ("a/*.md", "a/*.txt", false),
            ("**/x.md", "a/**", true),
            ("**/x.md", "a/b/*.md", true),
            ("a/*/c", "a/b/*", true),
            ("a/*", "a/b/c", false),
            ("**", "anything/at/all", true),
        ];
        for (one, two, expected) in table {
            let (a, b) = (WritePattern::parse(one).unwrap(), WritePattern::parse(two).unwrap());
            assert_eq!((a.meets(&b), b.meets(&a)), (expected, expected), "{one} {two}");
        }
    }

    #[test]
    fn a_pattern_that_no_path_could_be_written_under_is_refused() {
        for text in ["", "/etc/**", "../x", "a//b", ".git/**", "a/**b", "a\\b", "x/.git/*", "a/"] {
            assert!(WritePattern::parse(text).is_err(), "{text}");
        }
    }
}
