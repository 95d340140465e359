//! Words that must not be left lying about: unfinished work, and paths of somebody's machine.

use super::Finding;
use super::tree::{Tree, extension};

/// Marks of unfinished work, spelt in pieces so that this file passes its own rule.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Rust that stands for unfinished work.
const STAND_INS: &[&str] = &[concat!("#[ig", "nore"), concat!("to", "do!(")];
/// Where machines keep what is theirs, in pieces for the same reason.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/tm", "p/wt")];
/// Data of others, and what a fuzzer made of it, kept as it came.
const KEPT: &[&str] = &["tests/cases/", "fuzz/corpus/"];

/// A bug gets a test and a feature an entry in the changelog; a mark in the source gets neither.
pub(super) fn left_overs(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.sources() {
        for (number, line) in (1..).zip(text.lines()) {
            let mut complain = |mark: &str| {
                found.push(Finding::line(path, number, format!("`{mark}` left in the source")));
            };
            MARKS.iter().filter(|mark| has_word(line, mark)).for_each(|mark| complain(mark));
            if extension(path) == "rs" {
                STAND_INS.iter().filter(|mark| line.contains(**mark)).for_each(|m| complain(m));
            }
        }
    }
    found
}

/// What works on one machine only does not work.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let kept = |path: &str| KEPT.iter().any(|directory| path.starts_with(directory));
    for (path, text) in tree.files().filter(|(path, _)| !kept(path)) {
        for (number, line) in (1..).zip(text.lines()) {
            for prefix in MACHINE_PATHS.iter().filter(|prefix| has_path(line, prefix)) {
                let message = format!("path of one machine: `{prefix}…`");
                found.push(Finding::line(path, number, message));
            }
        }
    }
    found
}

fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

/// Whether `line` holds an absolute path that starts with `prefix`: `evidence/` may come before
/// it, and a placeholder after it, where it is part of a relative path or of a route.
fn has_path(line: &str, prefix: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || "_-.~}>)…*".contains(c);
    line.match_indices(prefix).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + prefix.len()..).and_then(|text| text.chars().next());
        let names_something = after.is_some_and(|c| c.is_alphanumeric() || c == '.' || c == '_');
        !before.is_some_and(joins) && (names_something || prefix.ends_with("wt"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::says;
    use super::*;

    #[test]
    fn unfinished_work_is_found_in_any_source() {
        for mark in MARKS {
            let text = format!("fn a() {{}}\n// {mark}: later\n");
            let expected = |path| [format!("{path}:2: `{mark}` left in the source")];
            for path in ["crates/format/src/id.rs", "crates/serve/web/trace.js", ".ci/run"] {
                assert_eq!(says(left_overs, &[(path, &text)]), expected(path));
            }
        }
        for mark in STAND_INS {
            let text = format!("{mark}]\n");
            assert_eq!(says(left_overs, &[("crates/format/src/id.rs", &text)]).len(), 1);
        }
    }

    #[test]
    fn longer_words_and_prose_are_no_marks() {
        let word = format!("mktemp {0}{0}\nlet method = to_dos!();\n", MARKS[2]);
        assert!(says(left_overs, &[("crates/format/src/id.rs", &word)]).is_empty());
        let prose = format!("{} is what others write\n", MARKS[0]);
        assert!(says(left_overs, &[("docs/glossary.md", &prose)]).is_empty());
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_any_text() {
        for prefix in MACHINE_PATHS {
            let text = format!("see `{prefix}ana/notes`\n");
            let expected = format!("README.md:1: path of one machine: `{prefix}…`");
            assert_eq!(says(machine_paths, &[("README.md", &text)]), [expected]);
            assert_eq!(says(machine_paths, &[("crates/cli/src/main.rs", &text)]).len(), 1);
        }
    }

    #[test]
    fn relative_paths_routes_and_kept_data_are_no_machine_paths() {
        let prefix = MACHINE_PATHS[0];
        let relative = format!("evidence{prefix}W-00042 {prefix}{{id}} api{prefix}W-1\n");
        assert!(says(machine_paths, &[("docs/formats/exit.md", &relative)]).is_empty());
        let data = format!("\"{prefix}repo\"\n");
        assert!(says(machine_paths, &[("tests/cases/exit-cases.jsonl", &data)]).is_empty());
        assert!(says(machine_paths, &[("fuzz/corpus/paths/one", &data)]).is_empty());
    }
}
