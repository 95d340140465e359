//! How the crates of the workspace stand to each other.

use super::Finding;
use super::tree::Tree;

/// Which crates a crate may be built on. `cli` is in no list: nothing depends on it.
const ARROWS: &[(&str, &[&str])] = &[
    ("format", &[]),
    ("protocol", &["format"]),
    ("gate", &["format"]),
    ("verify", &["format", "protocol"]),
    ("runtime", &["format", "protocol", "gate", "verify"]),
    ("serve", &["format", "protocol", "gate", "verify", "runtime"]),
    ("cli", &["format", "protocol", "gate", "verify", "runtime", "serve"]),
    ("testkit", &["format", "protocol", "gate", "verify", "runtime", "serve"]),
    ("rigs", &["format", "protocol", "gate", "verify", "runtime", "serve", "testkit"]),
    ("fuzzed", &["format", "protocol", "gate", "verify", "runtime", "serve"]),
    ("xtask", &[]),
];

/// What the package of the crate `cli` is called.
const BINARY: &str = "countersign";
/// What the packages of all other crates start with.
const PREFIX: &str = "countersign-";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    /// What the crate is built on.
    Needed,
    /// What its tests are built on.
    Dev,
    /// Anything else.
    Other,
}

/// An arrow that is not in the table would let a reader write, or a pure crate see a clock.
pub(super) fn arrows(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, path, text) in tree.manifests() {
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            found.push(Finding::file(path, "crate has no place in the table of arrows"));
            continue;
        };
        for (line, section, to) in dependencies(text) {
            // Tests may look from any side: a crate's tests write traces with the test kit.
            let fine = match section {
                Section::Needed => allowed.contains(&to),
                Section::Dev => to != "cli",
                Section::Other => true,
            };
            if !fine {
                let message = format!("`{name}` must not depend on `{to}`");
                found.push(Finding::line(path, line, message));
            }
        }
    }
    found
}

/// A crate says at its root what it decides and what it leaves out.
pub(super) fn root_docs(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (_, path, _) in tree.manifests() {
        let directory = path.trim_end_matches("Cargo.toml");
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| format!("{directory}{root}"));
        let mut present = 0;
        for root in &roots {
            let Some(text) = tree.text(root) else { continue };
            present += 1;
            if !text.trim_start().starts_with("//!") {
                found.push(Finding::file(root, "crate root has no module doc"));
            }
        }
        if present == 0 {
            found.push(Finding::file(path, "crate has neither src/lib.rs nor src/main.rs"));
        }
    }
    found
}

/// One list of lints holds for all crates.
pub(super) fn shared_lints(tree: &Tree) -> Vec<Finding> {
    let shares = |text: &str| {
        let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
        lines.find(|line| !line.is_empty()) == Some("workspace = true")
    };
    tree.manifests()
        .filter(|(_, _, text)| !shares(text))
        .map(|(_, path, _)| Finding::file(path, "no `[lints]` with `workspace = true`"))
        .collect()
}

/// The crates of ours that a manifest names as dependencies, by the names of their directories.
fn dependencies(manifest: &str) -> Vec<(usize, Section, &str)> {
    let mut section = Section::Other;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(manifest.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            section = match line {
                _ if line.contains("dev-dependencies") => Section::Dev,
                _ if line.contains("dependencies") => Section::Needed,
                _ => Section::Other,
            };
        }
        if section == Section::Other {
            continue;
        }
        // A renamed dependency still has to name its package, so every word of the line counts.
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
        if let Some(name) = words.find_map(crate_of) {
            found.push((number, section, name));
        }
    }
    found
}

/// The directory of one of our packages.
fn crate_of(package: &str) -> Option<&str> {
    if package == BINARY { Some("cli") } else { package.strip_prefix(PREFIX) }
}

#[cfg(test)]
mod tests {
    use super::super::says;
    use super::*;

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_found() {
        let table = [
            ("format", "[dependencies]\ncountersign-protocol.workspace = true", "protocol"),
            ("protocol", "[dependencies]\ncountersign-gate = { path = \"../gate\" }", "gate"),
            ("gate", "[build-dependencies]\ncountersign-verify.workspace = true", "verify"),
            ("verify", "[dependencies]\nw = { package = \"countersign-runtime\" }", "runtime"),
            ("runtime", "[dependencies.countersign-serve]\nworkspace = true", "serve"),
            ("serve", "[dev-dependencies]\ncountersign = { path = \"../cli\" }", "cli"),
            ("xtask", "[dependencies]\ncountersign.workspace = true", "cli"),
            ("cli", "[dependencies]\ncountersign-testkit.workspace = true", "testkit"),
            (
                "verify",
                "[target.'cfg(unix)'.dependencies]\ncountersign-gate.workspace = true",
                "gate",
            ),
        ];
        for (from, text, to) in table {
            let directory =
                if from == "xtask" { from.to_owned() } else { format!("crates/{from}") };
            let found = says(arrows, &[(&format!("{directory}/Cargo.toml"), text)]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(
                found[0].ends_with(&format!("`{from}` must not depend on `{to}`")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn arrows_of_the_table_and_the_test_kit_in_tests_pass() {
        let verify = "[package]\nname = \"countersign-verify\"\n\n[dependencies]\n\
                      countersign-format.workspace = true\ncountersign-protocol.workspace = true\n\
                      serde.workspace = true\n# countersign-runtime\n\n[dev-dependencies]\n\
                      countersign-testkit.workspace = true\n";
        assert!(says(arrows, &[("crates/verify/Cargo.toml", verify)]).is_empty());
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        let expected = ["crates/core/Cargo.toml: crate has no place in the table of arrows"];
        assert_eq!(says(arrows, &[("crates/core/Cargo.toml", "")]), expected);
    }

    #[test]
    fn a_crate_root_without_a_module_doc_is_found() {
        let files = [
            ("crates/cli/Cargo.toml", ""),
            ("crates/cli/src/main.rs", "fn main() {}\n"),
            ("crates/format/Cargo.toml", ""),
            ("crates/format/src/lib.rs", "//! Bytes.\n"),
            ("crates/gate/Cargo.toml", ""),
        ];
        let expected = [
            "crates/cli/src/main.rs: crate root has no module doc",
            "crates/gate/Cargo.toml: crate has neither src/lib.rs nor src/main.rs",
        ];
        assert_eq!(says(root_docs, &files), expected);
    }

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        let files = [
            ("crates/format/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n"),
            ("crates/gate/Cargo.toml", "[package]\n\n[lints.clippy]\npanic = \"allow\"\n"),
            ("xtask/Cargo.toml", "[package]\n"),
        ];
        let expected = [
            "crates/gate/Cargo.toml: no `[lints]` with `workspace = true`",
            "xtask/Cargo.toml: no `[lints]` with `workspace = true`",
        ];
        assert_eq!(says(shared_lints, &files), expected);
    }
}
