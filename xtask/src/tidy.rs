//! The house rules that a machine can check.
//!
//! Every rule is a function over a [`Tree`] of files, so that its tests can show it a small tree
//! that breaks it. What the compiler or clippy already refuses is not repeated here.

mod cases;
mod crates;
mod links;
mod names;
mod size;
mod tree;
mod words;

use std::fmt;

use tree::Tree;

use crate::place;

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: Option<usize>,
    message: String,
}

impl Finding {
    /// A breach by the file as a whole.
    fn file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    /// A breach in a line, counted from one.
    fn line(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// A rule: what in the tree breaks it.
type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    size::file_cap,
    words::left_overs,
    words::machine_paths,
    names::one_name_one_type,
    names::type_names,
    names::module_names,
    crates::arrows,
    crates::root_docs,
    crates::shared_lints,
    links::links_resolve,
    cases::cases_are_used,
];

fn findings(tree: &Tree) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

/// Checks the repository and prints what breaks a rule.
///
/// # Errors
///
/// A rule is broken, or a file cannot be read.
pub fn run() -> Result<(), String> {
    let found = findings(&Tree::load(&place::root())?);
    for finding in &found {
        eprintln!("{finding}");
    }
    match found.len() {
        0 => Ok(()),
        1 => Err("1 breach of the house rules".to_owned()),
        count => Err(format!("{count} breaches of the house rules")),
    }
}

/// Checks the repository without a word; what it costs is one of the figures of `bench`.
///
/// # Errors
///
/// A file cannot be read.
pub fn count() -> Result<usize, String> {
    Ok(findings(&Tree::load(&place::root())?).len())
}

/// What `rule` says about a tree of these files, one line a finding.
#[cfg(test)]
fn says(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    rule(&Tree::of(files)).iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_the_house_rules() {
        let tree = Tree::load(&place::root()).unwrap();
        let found: Vec<_> = findings(&tree).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }
}
