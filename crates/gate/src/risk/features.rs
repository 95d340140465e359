//! What the model knows of a change: five counts in four levels, and a few words for people.
//!
//! The counts come from the diff. Without one only the list of files is known, and nothing is made
//! up: the words of a description say nothing about the change itself.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::cell::{Cell, FEATURES};
use super::diff::Counts;
use super::label::{ChangeType, looks_like_security, security_imports};
use crate::GateRequest;
use crate::path::PlainPath;

/// How bad the worst thing is that a scanner found.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// Nothing, or for information only.
    #[default]
    None,
    /// Low, or a warning.
    Low,
    /// Medium.
    Medium,
    /// High, or an error.
    High,
}

impl FindingLevel {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    const fn level(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Low => 1,
            Self::Medium => 2,
            Self::High => 3,
        }
    }
}

/// A change in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Features {
    /// Lines added and removed.
    pub lines_changed: u64,
    /// Words that branch in added lines.
    pub cyclomatic_complexity: u64,
    /// Distinct files.
    pub files_touched: u64,
    /// The worst finding, from 0 to 3.
    pub finding_severity: u8,
    /// Test files among them, each counted once.
    pub test_coverage_delta: u64,
    /// Directories beyond the first. For display.
    pub modules_crossed: u64,
    /// What sort of change it is said to be. For display.
    pub change_type: ChangeType,
    /// How much it looks like a matter of security, from 0 to 1. For display.
    pub security: f64,
    /// Whether added lines bring in what handles keys, processes or the network. For display.
    pub has_security_imports: bool,
    /// The levels of the first five.
    pub levels: [u8; FEATURES],
}

/// The bounds of the levels: up to the first is level 0, above the last is level 3.
const LINES: [u64; 3] = [10, 50, 200];
const COMPLEXITY: [u64; 3] = [2, 5, 10];
const FILES: [u64; 3] = [1, 3, 8];
const TESTS: [u64; 3] = [0, 1, 5];

impl Features {
    /// The features of what a request would do.
    #[must_use]
    pub fn of(request: &GateRequest) -> Self {
        Self::counted(request, request.diff.as_deref().map(Counts::of).as_ref())
    }

    /// As [`Features::of`], where its diff was counted already.
    pub(crate) fn counted(request: &GateRequest, diff: Option<&Counts<'_>>) -> Self {
        let none = Counts::default();
        let counts = diff.unwrap_or(&none);
        Self::count(counts, &request.paths, &request.description, request.finding_severity)
    }

    /// The features of a diff by itself, described in these words.
    #[must_use]
    pub fn of_diff(diff: &str, description: &str) -> Self {
        Self::count(&Counts::of(diff), &[], description, FindingLevel::None)
    }

    fn count(
        counts: &Counts<'_>,
        paths: &[String],
        description: &str,
        severity: FindingLevel,
    ) -> Self {
        let plain = |path: &str| PlainPath::of(path);
        let in_diff: Vec<PlainPath> = counts.files.iter().map(|path| plain(path)).collect();
        let listed: Vec<PlainPath> = paths.iter().map(|path| plain(path)).collect();
        // The same file may be spelt differently in both, so the longer list counts, not the sum.
        let larger = |of: fn(&[PlainPath]) -> u64| of(&in_diff).max(of(&listed));
        let files_touched = larger(distinct).max(counts.sections);
        let tests = larger(tests);
        let levels = [
            level(counts.lines, LINES),
            level(counts.branches, COMPLEXITY),
            level(files_touched, FILES),
            severity.level(),
            level(tests, TESTS),
        ];
        let all = in_diff.iter().chain(&listed);
        Self {
            lines_changed: counts.lines,
            cyclomatic_complexity: counts.branches,
            files_touched,
            finding_severity: severity.level(),
            test_coverage_delta: tests,
            modules_crossed: larger(modules).saturating_sub(1),
            change_type: ChangeType::of(description, counts),
            security: looks_like_security(description, all),
            has_security_imports: counts.added.iter().any(|line| security_imports(line)),
            levels,
        }
    }

    /// The cell of the grid that they fall into.
    #[must_use]
    pub fn cell(&self) -> Cell {
        Cell::of_levels(self.levels)
    }
}

fn level(count: u64, bounds: [u64; 3]) -> u8 {
    let above = bounds.iter().filter(|&&bound| count > bound).count();
    u8::try_from(above).unwrap_or(3)
}

fn distinct(paths: &[PlainPath]) -> u64 {
    paths.iter().map(|path| &path.parts).collect::<BTreeSet<_>>().len() as u64
}

fn tests(paths: &[PlainPath]) -> u64 {
    let tests = paths.iter().map(|path| &path.parts).filter(|parts| is_test(parts));
    tests.collect::<BTreeSet<_>>().len() as u64
}

fn modules(paths: &[PlainPath]) -> u64 {
    let dirs = paths.iter().map(|path| path.parts.split_last().map(|(_, dir)| dir));
    dirs.collect::<BTreeSet<_>>().len() as u64
}

/// Whether a file holds tests, by its name or the directory that it lies in.
fn is_test(parts: &[String]) -> bool {
    let Some((name, dirs)) = parts.split_last() else { return false };
    let dir = |dir: &String| {
        matches!(dir.as_str(), "test" | "tests" | "__tests__" | "spec" | "specs" | "testing")
    };
    dirs.iter().any(dir)
        || name.starts_with("test_")
        || name == "tests.rs"
        || ["_test.", ".test.", "_tests.", ".spec.", "_spec."].iter().any(|it| name.contains(it))
}

#[cfg(test)]
mod tests_of_features {
    use countersign_format::receipt::ActionType;

    use super::*;

    fn request(diff: Option<&str>, paths: &[&str]) -> GateRequest {
        GateRequest {
            diff: diff.map(str::to_owned),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            description: "if for while and or: rewrite everything with care, else match".into(),
            ..GateRequest::new("agent", "executor", ActionType::CodeEdit, "edit")
        }
    }

    #[test]
    fn a_small_change_of_one_file_is_cell_0_with_or_without_its_diff() {
        let diff = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-old\n+new\n";
        for request in [request(Some(diff), &["app.py"]), request(None, &["app.py"])] {
            let features = Features::of(&request);
            assert_eq!((features.cell().index(), features.levels), (0, [0; 5]));
        }
    }

    #[test]
    fn the_words_of_a_description_do_not_count() {
        let features = Features::of(&request(None, &["app.py"]));
        assert_eq!((features.lines_changed, features.cyclomatic_complexity), (0, 0));
    }

    #[test]
    fn every_bound_belongs_to_the_lower_level() {
        let table: [([u64; 3], [u64; 8], [u8; 8]); 4] = [
            (LINES, [0, 10, 11, 50, 51, 200, 201, 9_999], [0, 0, 1, 1, 2, 2, 3, 3]),
            (COMPLEXITY, [0, 2, 3, 5, 6, 10, 11, 99], [0, 0, 1, 1, 2, 2, 3, 3]),
            (FILES, [0, 1, 2, 3, 4, 8, 9, 99], [0, 0, 1, 1, 2, 2, 3, 3]),
            (TESTS, [0, 0, 1, 1, 2, 5, 6, 99], [0, 0, 1, 1, 2, 2, 3, 3]),
        ];
        for (bounds, counts, levels) in table {
            assert_eq!(counts.map(|count| level(count, bounds)), levels, "{bounds:?}");
        }
    }

    #[test]
    fn a_large_change_is_counted_by_hand_to_the_same_cell() {
        // 60 lines (level 2), 6 branching words (2), 4 files (2), high findings (3), 1 test (1).
        let mut diff = String::new();
        for (name, words) in
            [("a.rs", "if x"), ("b.rs", "for y"), ("c.rs", "z"), ("t/test_a.py", "")]
        {
            let lines = format!("+{words}\n").repeat(3) + &"+x\n".repeat(12);
            diff += &format!("--- a/{name}\n+++ b/{name}\n@@ -0,0 +1,15 @@\n{lines}");
        }
        let request = GateRequest {
            finding_severity: FindingLevel::High,
            ..request(Some(&diff), &["a.rs", "b.rs", "c.rs", "./t/test_a.py"])
        };
        let features = Features::of(&request);
        let counted = (
            features.lines_changed,
            features.cyclomatic_complexity,
            features.files_touched,
            features.finding_severity,
            features.test_coverage_delta,
        );
        assert_eq!(counted, (60, 6, 4, 3, 1));
        assert_eq!(features.levels, [2, 2, 2, 3, 1]);
        assert_eq!(features.cell().index(), 2 + 2 * 4 + 2 * 16 + 3 * 64 + 256);
    }

    #[test]
    fn a_test_file_counts_once() {
        let diff = "--- a/tests/x.rs\n+++ b/tests/x.rs\n@@ -1 +1 @@\n-a\n+b\n";
        let features = Features::of(&request(Some(diff), &["tests/x.rs"]));
        assert_eq!((features.test_coverage_delta, features.cell().index()), (1, 256));
    }

    #[test]
    fn tests_are_told_by_name_or_directory() {
        let found = |path: &str| is_test(&PlainPath::of(path).parts);
        for path in ["tests/a.rs", "src/test_a.py", "a_test.go", "a.spec.ts", "x/__tests__/y.js"] {
            assert!(found(path), "{path}");
        }
        for path in ["src/a.rs", "contest.py", "attest/a.rs", "latest_a.py"] {
            assert!(!found(path), "{path}");
        }
    }
}
