//! A change in a few words, for people. Guesses from names and words; no decision rests on them.

use serde::Serialize;

use super::diff::Counts;
use super::features::Features;
use crate::path::PlainPath;

/// What sort of change something is said to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeType {
    /// Looks only.
    Formatting,
    /// The same, otherwise put.
    Refactor,
    /// Something that was wrong.
    Fix,
    /// Anything else.
    #[default]
    Behavioral,
}

impl ChangeType {
    /// Guesses it from the description, and from the diff if that only moves white space.
    pub(super) fn of(description: &str, counts: &Counts<'_>) -> Self {
        let words: Vec<String> = words(description).collect();
        let any = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        let blank = !counts.added.is_empty() && counts.added.iter().all(|it| it.trim().is_empty());
        if blank || any(&["format", "formatting", "whitespace", "lint", "style", "indent"]) {
            Self::Formatting
        } else if any(&["fix", "fixes", "fixed", "bug", "bugfix", "hotfix", "patch", "repair"]) {
            Self::Fix
        } else if any(&["refactor", "rename", "extract", "move", "cleanup", "simplify", "tidy"]) {
            Self::Refactor
        } else {
            Self::Behavioral
        }
    }

    const fn in_label(self) -> &'static str {
        match self {
            Self::Formatting => "formatting",
            Self::Refactor => "refactor",
            Self::Fix => "bugfix",
            Self::Behavioral => "behavioral",
        }
    }
}

const SECURITY_WORDS: [&str; 18] = [
    "auth",
    "authentication",
    "credential",
    "credentials",
    "crypto",
    "cve",
    "injection",
    "jwt",
    "login",
    "password",
    "permission",
    "permissions",
    "secret",
    "secrets",
    "security",
    "token",
    "vulnerability",
    "xss",
];
const SECURITY_IMPORTS: [&str; 14] = [
    "bcrypt",
    "crypto",
    "cryptography",
    "hashlib",
    "hmac",
    "jwt",
    "oauth",
    "openssl",
    "os",
    "paramiko",
    "pickle",
    "secrets",
    "ssl",
    "subprocess",
];

/// How much a change looks like a matter of security: three words are as much as it gets.
pub(super) fn looks_like_security<'p>(
    description: &str,
    paths: impl Iterator<Item = &'p PlainPath>,
) -> f64 {
    let in_paths = paths.flat_map(|path| path.parts.iter().flat_map(|part| words(part)));
    let found = words(description)
        .chain(in_paths)
        .filter(|word| SECURITY_WORDS.contains(&word.as_str()))
        .take(3)
        .count();
    match found {
        0 => 0.0,
        1 => 0.3333,
        2 => 0.6667,
        _ => 1.0,
    }
}

/// Whether an added line brings in something that handles keys, processes or the network.
pub(super) fn security_imports(line: &str) -> bool {
    let line = line.trim_start();
    let imports = ["import ", "from ", "use ", "require", "const ", "#include"];
    imports.iter().any(|it| line.starts_with(it))
        && (line.contains("import") || line.contains("require") || !line.starts_with("const "))
        && words(line).any(|word| SECURITY_IMPORTS.contains(&word.as_str()))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty()).map(str::to_lowercase)
}

/// The change in a few words, joined by ` + `.
pub(crate) fn label(features: &Features) -> String {
    let [lines, complexity, files, ..] = features.levels;
    let size = match lines.max(complexity) {
        0 => "simple",
        1 => "moderate",
        _ => "complex",
    };
    let spread = match files {
        0 => "single-file",
        1 => "multi-file",
        _ => "cross-cutting",
    };
    let modules = match features.modules_crossed {
        0 => None,
        1 => Some("adjacent-module"),
        _ => Some("cross-module"),
    };
    let security = (features.security > 0.0).then_some("security-sensitive");
    let untested = (features.test_coverage_delta == 0).then_some("untested");
    let change = Some(features.change_type.in_label());
    let words = [Some(size), Some(spread), security, modules, change, untested];
    words.into_iter().flatten().collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_reads_like_the_reference() {
        let diff = "--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-subprocess.call(x, shell=True)\n\
                    +subprocess.run(x)\n";
        let features = Features::of_diff(diff, "Fix shell injection");
        let expected = "simple + single-file + security-sensitive + bugfix + untested";
        assert_eq!(label(&features), expected);
        assert_eq!(features.change_type, ChangeType::Fix);
    }

    #[test]
    fn sizes_spreads_and_modules_have_their_words() {
        let of = |levels, modules_crossed, test_coverage_delta| {
            let features =
                Features { levels, modules_crossed, test_coverage_delta, ..Features::default() };
            label(&features)
        };
        assert_eq!(
            of([1, 0, 1, 0, 0], 1, 0),
            "moderate + multi-file + adjacent-module + behavioral + untested"
        );
        assert_eq!(
            of([0, 3, 2, 0, 1], 4, 1),
            "complex + cross-cutting + cross-module + behavioral"
        );
    }

    #[test]
    fn imports_of_what_handles_secrets_are_noticed() {
        for line in [
            "import subprocess",
            "from cryptography import x",
            "use openssl::ssl;",
            "const crypto = require('crypto')",
        ] {
            assert!(security_imports(line), "{line}");
        }
        for line in ["import numpy", "const os = 1", "subprocess.run(x)"] {
            assert!(!security_imports(line), "{line}");
        }
    }
}
