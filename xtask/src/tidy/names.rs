//! What types and modules may be called.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::{Tree, extension};

/// Words that say nothing about what a type is.
const EMPTY_WORDS: &[&str] = &["Manager", "Engine", "Orchestrator", "Processor"];
/// Modules that anything would fit into.
const EMPTY_MODULES: &[&str] = &["util", "utils", "helpers", "common"];

/// A type that a file declares.
struct Declaration<'a> {
    line: usize,
    public: bool,
    name: &'a str,
}

/// Two public types with one name are two answers to the same question.
pub(super) fn one_name_one_type(tree: &Tree) -> Vec<Finding> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = Vec::new();
    let libraries = tree.files().filter(|(path, _)| {
        let inside = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
        extension(path) == "rs" && inside.is_some_and(|(_, path)| path.starts_with("src/"))
    });
    for (path, text) in libraries {
        for Declaration { line, name, .. } in declarations(text).filter(|found| found.public) {
            if let Some(other) = first.get(name) {
                let message = format!("public type `{name}` is also declared in {other}");
                found.push(Finding::line(path, line, message));
            } else {
                first.insert(name, path);
            }
        }
    }
    found
}

/// A type is named for what it is, and versions live in the encoding.
pub(super) fn type_names(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| extension(path) == "rs") {
        for Declaration { line, name, .. } in declarations(text) {
            for word in words(name) {
                if EMPTY_WORDS.contains(&word) {
                    let message = format!("type `{name}`: `{word}` says nothing, name the thing");
                    found.push(Finding::line(path, line, message));
                } else if is_version(word) {
                    let message =
                        format!("type `{name}`: versions live in the encoding, not in names");
                    found.push(Finding::line(path, line, message));
                }
            }
        }
    }
    found
}

/// A module is named by a noun of the domain.
pub(super) fn module_names(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.sources() {
        let parts = path.split('/').map(|part| part.split_once('.').map_or(part, |(stem, _)| stem));
        for part in parts.filter(|part| EMPTY_MODULES.contains(part)) {
            let message = format!("a module called `{part}` takes anything: name what it holds");
            found.push(Finding::file(path, message));
        }
        for (number, line) in (1..).zip(text.lines()).filter(|_| extension(path) == "rs") {
            let body = without_visibility(line.trim_start()).1.strip_prefix("mod ");
            let inline = body.and_then(|body| body.strip_suffix(" {"));
            if let Some(name) = inline.filter(|name| EMPTY_MODULES.contains(name)) {
                let message =
                    format!("a module called `{name}` takes anything: name what it holds");
                found.push(Finding::line(path, number, message));
            }
        }
    }
    found
}

/// The structs, enums and traits that `text` declares at the start of a line.
fn declarations(text: &str) -> impl Iterator<Item = Declaration<'_>> {
    (1..).zip(text.lines()).filter_map(|(line, text)| {
        let (public, item) = without_visibility(text.trim_start());
        let keywords = ["struct ", "enum ", "trait "];
        let rest = keywords.iter().find_map(|keyword| item.strip_prefix(keyword))?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        (!name.is_empty()).then_some(Declaration { line, public, name })
    })
}

/// Whether `item` is public outside its crate, and `item` without the word that says so.
fn without_visibility(item: &str) -> (bool, &str) {
    if let Some(rest) = item.strip_prefix("pub ") {
        return (true, rest);
    }
    let restricted = item.strip_prefix("pub(").and_then(|rest| rest.split_once(") "));
    (false, restricted.map_or(item, |(_, rest)| rest))
}

/// `ToolV2Args` as `Tool`, `V2`, `Args`.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let starts: Vec<usize> =
        name.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at).collect();
    let ends = starts.iter().copied().skip(1).chain([name.len()]).collect::<Vec<_>>();
    starts.into_iter().zip(ends).filter_map(|(start, end)| name.get(start..end))
}

fn is_version(word: &str) -> bool {
    word.strip_prefix('V').is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::super::says;
    use super::*;

    #[test]
    fn a_second_public_type_of_the_same_name_is_found() {
        let files = [
            ("crates/format/src/hash.rs", "/// x\npub struct Hash([u8; 32]);\n"),
            ("crates/gate/src/lib.rs", "pub enum Hash {\n}\n"),
            ("crates/verify/src/lib.rs", "pub(crate) struct Hash;\nstruct Hash;\n"),
            ("crates/cli/tests/verify.rs", "pub struct Hash;\n"),
        ];
        let expected = ["crates/gate/src/lib.rs:1: public type `Hash` is also declared in \
              crates/format/src/hash.rs"];
        assert_eq!(says(one_name_one_type, &files), expected);
    }

    #[test]
    fn a_type_name_without_meaning_is_found() {
        let table = [
            ("pub struct LeaseManager {", "`Manager` says nothing"),
            ("pub(crate) trait PolicyEngine: Debug {", "`Engine` says nothing"),
            ("enum OrchestratorState<T> {", "`Orchestrator` says nothing"),
            ("struct LineProcessor;", "`Processor` says nothing"),
            ("pub struct ReceiptV2 {", "versions live in the encoding"),
            ("struct ToolV10Args;", "versions live in the encoding"),
        ];
        for (text, expected) in table {
            let found = says(type_names, &[("crates/runtime/src/lib.rs", text)]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn ordinary_type_names_pass() {
        let text = "pub struct Verdict;\nenum Dialect {\n    V1_0,\n}\nstruct Engineer;\n\
                    trait Via;\nuse base64::Engine;\nstruct Vec2;\n";
        assert!(says(type_names, &[("crates/runtime/src/lib.rs", text)]).is_empty());
    }

    #[test]
    fn a_module_that_takes_anything_is_found() {
        let by_path = [
            ("crates/runtime/src/util.rs", ""),
            ("crates/runtime/src/helpers/clock.rs", ""),
            ("crates/cli/tests/common/mod.rs", ""),
            ("examples/agents/utils.py", ""),
        ];
        assert_eq!(says(module_names, &by_path).len(), by_path.len());
        let inline = [("crates/runtime/src/lib.rs", "//! x\npub(crate) mod util {\n}\n")];
        let expected = ["crates/runtime/src/lib.rs:2: a module called `util` takes anything: \
                         name what it holds"];
        assert_eq!(says(module_names, &inline), expected);
        assert!(says(module_names, &[("crates/runtime/src/utility.rs", "")]).is_empty());
    }
}
