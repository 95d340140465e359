//! Paths as rules see them: one spelling, told from the text alone.
//!
//! Every spelling that some file system takes for the same file becomes the same text here, so
//! that a rule cannot be walked around by upper case, `./` or a short name. Links are not seen.

use countersign_format::path::{PathFault, check_component};
use countersign_format::text::to_nfc;

/// A path without `.`, `..`, empty components and differences of case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlainPath {
    /// Its components, folded.
    pub(crate) parts: Vec<String>,
    /// Whether it leads out of the workspace.
    pub(crate) outside: bool,
}

impl PlainPath {
    /// The path that `text` means from the workspace root.
    pub(crate) fn of(text: &str) -> Self {
        let text = to_nfc(text).replace('\\', "/");
        let text = text.strip_prefix("file://").map_or(&*text, |rest| rest).to_owned();
        let mut bytes = text.bytes();
        let drive = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && bytes.next() == Some(b':');
        let mut outside = drive || text.starts_with(['/', '~']);
        let mut parts: Vec<String> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => outside |= parts.pop().is_none(),
                part => parts.push(fold(part)),
            }
        }
        Self { parts, outside }
    }

    /// Its text, with `/` between components; the root itself is `.`.
    pub(crate) fn text(&self) -> String {
        if self.parts.is_empty() { ".".to_owned() } else { self.parts.join("/") }
    }
}

/// `component` as the least picky file system would compare it.
fn fold(component: &str) -> String {
    // Plain names are nobody's alias, and there may be very many of them.
    let plain = component.is_ascii() && !component.starts_with('.') && !component.contains('~');
    if !plain && let Err(PathFault::Protected(name)) = check_component(component) {
        return name.to_owned();
    }
    let trimmed = component.trim_end_matches([' ', '.']);
    let kept = if trimmed.is_empty() { component } else { trimmed };
    if kept.is_ascii() {
        return kept.to_ascii_lowercase();
    }
    let folded: String = kept.chars().flat_map(char::to_uppercase).collect();
    folded.to_lowercase()
}

/// `path` relative to `root` if it is an absolute path below it; otherwise as it is. Agents often
/// name files by their whole path, which is as good as the relative one.
#[must_use]
pub fn relative_to<'p>(root: &str, path: &'p str) -> &'p str {
    let root = root.trim_end_matches('/');
    match path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')) {
        Some(rest) if !root.is_empty() && !rest.is_empty() => rest,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_file_becomes_one() {
        let table = [
            ("src/a.rs", "src/a.rs", false),
            ("./src//a.rs", "src/a.rs", false),
            ("src/x/../a.rs", "src/a.rs", false),
            ("SRC\\A.rs", "src/a.rs", false),
            (".GIT/config", ".git/config", false),
            ("git~1/config", ".git/config", false),
            (".git./config", ".git/config", false),
            ("a/.", "a", false),
            (".", ".", false),
            ("", ".", false),
            ("a/..", ".", false),
            ("../a", "a", true),
            ("a/../../b", "b", true),
            ("/etc/passwd", "etc/passwd", true),
            ("~/.ssh/id_rsa", "~/.ssh/id_rsa", true),
            ("C:\\x", "c:/x", true),
            ("file:///etc/passwd", "etc/passwd", true),
        ];
        for (path, expected, outside) in table {
            let plain = PlainPath::of(path);
            assert_eq!((plain.text().as_str(), plain.outside), (expected, outside), "{path}");
        }
    }

    #[test]
    fn a_whole_path_below_the_root_is_as_good_as_a_relative_one() {
        let table = [
            ("/w/src/a.rs", "src/a.rs"),
            ("/ww/a", "/ww/a"),
            ("/w", "/w"),
            ("/w/", "/w/"),
            ("src/a.rs", "src/a.rs"),
            ("/w/../etc/passwd", "../etc/passwd"),
        ];
        for (path, expected) in table {
            assert_eq!(relative_to("/w", path), expected, "{path}");
        }
        assert_eq!(relative_to("", "/etc/passwd"), "/etc/passwd");
    }
}
