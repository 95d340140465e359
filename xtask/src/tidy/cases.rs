//! Shared test cases: a file that no test reads proves nothing.

use super::Finding;
use super::tree::{Tree, extension};

const CASES: &str = "tests/cases/";

/// Cases whose subject is not built yet. A file leaves the list with the first test that reads it.
const AWAITED: &[&str] = &[];

/// Every file of cases is named by some test, or awaited, and not both.
pub(super) fn cases_are_used(tree: &Tree) -> Vec<Finding> {
    unused(tree, AWAITED)
}

fn unused(tree: &Tree, awaited: &[&str]) -> Vec<Finding> {
    let cases = tree.files().filter_map(|(path, _)| Some((path, path.strip_prefix(CASES)?)));
    cases
        .filter_map(|(path, name)| match (is_read(tree, name), awaited.contains(&name)) {
            (false, false) => Some(Finding::file(path, "no test reads these cases")),
            (true, true) => {
                Some(Finding::file(path, "cases are read now: take them off the awaited list"))
            }
            _ => None,
        })
        .collect()
}

fn is_read(tree: &Tree, name: &str) -> bool {
    tree.files().any(|(path, text)| {
        let code = matches!(extension(path), "rs" | "py" | "js");
        code && !path.starts_with("xtask/")
            && !path.starts_with("crates/rigs/")
            && text.contains(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &[(&str, &str)] = &[
        ("tests/cases/read.json", ""),
        ("tests/cases/forgotten.json", ""),
        ("crates/format/tests/cases.rs", "include_str!(\"../../../tests/cases/read.json\")"),
        ("docs/testing.md", "forgotten.json"),
    ];

    fn says(awaited: &[&str]) -> Vec<String> {
        unused(&Tree::of(TREE), awaited).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn cases_that_no_test_reads_are_found() {
        assert_eq!(says(&[]), ["tests/cases/forgotten.json: no test reads these cases"]);
    }

    #[test]
    fn the_awaited_list_only_shrinks() {
        assert!(says(&["forgotten.json"]).is_empty());
        let expected =
            ["tests/cases/read.json: cases are read now: take them off the awaited list"];
        assert_eq!(says(&["forgotten.json", "read.json"]), expected);
    }
}
