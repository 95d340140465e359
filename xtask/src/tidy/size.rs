//! How long a file may be. Functions are clippy's, through `too-many-lines-threshold`.

use super::Finding;
use super::tree::{Tree, extension};

/// Lines of a file of code.
const LINES_MAX: usize = 600;
/// Lines of a file of tests: tables of cases are long without being hard to read.
const TEST_LINES_MAX: usize = 900;

/// Mass collects in a few files that everything passes through, so the longest file is what is
/// capped, not the average.
pub(super) fn file_cap(tree: &Tree) -> Vec<Finding> {
    let code =
        tree.files().filter(|(path, _)| matches!(extension(path), "rs" | "js" | "mjs" | "py"));
    code.filter_map(|(path, text)| {
        let max = if is_test(path) { TEST_LINES_MAX } else { LINES_MAX };
        let lines = text.lines().count();
        (lines > max)
            .then(|| Finding::file(path, format!("{lines} lines, the cap is {max}: split by noun")))
    })
    .collect()
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

#[cfg(test)]
mod tests {
    use super::super::says;
    use super::*;

    #[test]
    fn a_file_over_the_cap_is_to_be_split() {
        let long = "x\n".repeat(601);
        let found = says(file_cap, &[("crates/format/src/json.rs", &long)]);
        assert_eq!(found, ["crates/format/src/json.rs: 601 lines, the cap is 600: split by noun"]);
        for path in ["crates/serve/web/trace.js", "web/verifier/verify.mjs"] {
            assert_eq!(says(file_cap, &[(path, &long)]).len(), 1);
        }
    }

    #[test]
    fn tests_may_be_longer_and_data_as_long_as_it_likes() {
        let long = "x\n".repeat(900);
        let files = [
            ("crates/cli/tests/verify.rs", long.as_str()),
            ("crates/format/src/json/tests.rs", long.as_str()),
            ("tests/cases/hostile-json.jsonl", long.as_str()),
            ("docs/formats/json.md", long.as_str()),
        ];
        assert!(says(file_cap, &files).is_empty());
        let longer = "x\n".repeat(901);
        assert_eq!(says(file_cap, &[("crates/cli/tests/verify.rs", &longer)]).len(), 1);
    }
}
