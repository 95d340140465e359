//! Paths as rules see them: one spelling, told from the text alone.
//!
//! Every spelling that some file system takes for the same file becomes the same text here, so
//! that a rule cannot be walked around by upper case, `./` or a short name. Links are not seen.

use std::borrow::Cow;

use countersign_format::path::{PathFault, check_component};
use countersign_format::text::{has_unseen, to_nfc};

/// A path without `.`, `..`, empty components and differences of case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlainPath {
    /// Its components, folded.
    pub(crate) parts: Vec<String>,
    /// Whether it leads out of the workspace.
    pub(crate) outside: bool,
    /// Whether some system may take it for another file than this one does.
    pub(crate) odd: bool,
}

impl PlainPath {
    /// The path that `text` means from the workspace root.
    pub(crate) fn of(text: &str) -> Self {
        let text = match text.is_ascii() && !text.contains('\\') {
            true => Cow::Borrowed(text),
            false => Cow::Owned(to_nfc(text).replace('\\', "/")),
        };
        let (scheme, text) = without_scheme(&text);
        let (up, steps) = steps(text);
        let outside = scheme || up > 0 || text.starts_with(['/', '~']);
        let mut odd = false;
        let parts = steps.into_iter().map(|step| fold(step, &mut odd)).collect();
        Self { parts, outside, odd }
    }

    /// Its text, with `/` between components; the root itself is `.`.
    pub(crate) fn text(&self) -> String {
        if self.parts.is_empty() { ".".to_owned() } else { self.parts.join("/") }
    }
}

/// The components of a path without `.` and empty ones, a `..` with the one before it taken away;
/// and how many of these had nothing to take away.
fn steps(path: &str) -> (usize, Vec<&str>) {
    let (mut up, mut steps) = (0, Vec::new());
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." if steps.pop().is_none() => up += 1,
            ".." => {}
            step => steps.push(step),
        }
    }
    (up, steps)
}

/// Whether a path begins with a drive or with the scheme of a URL, and what follows the scheme.
fn without_scheme(path: &str) -> (bool, &str) {
    let Some((scheme, rest)) = path.split_once(':') else { return (false, path) };
    let mut bytes = scheme.bytes();
    let is_scheme = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    match (is_scheme, scheme.len()) {
        (true, 1) => (true, path),
        (true, _) if rest.starts_with('/') => (true, rest),
        _ => (false, path),
    }
}

/// `component` as the least picky file system would compare it. What is left of one with something
/// in it that only some systems see, is `odd`.
fn fold(component: &str, odd: &mut bool) -> String {
    if is_everyday(component) {
        return component.to_ascii_lowercase();
    }
    match check_component(component) {
        Ok(()) => {}
        Err(PathFault::Protected(name)) => return name.to_owned(),
        Err(_) => *odd = true,
    }
    // Behind a colon stands the name of a stream of the same file.
    let name = component.split(':').find(|name| !name.is_empty()).unwrap_or(component);
    let seen: String = match has_unseen(name) {
        true => name.chars().filter(|it| !has_unseen(it.encode_utf8(&mut [0; 4]))).collect(),
        false => name.to_owned(),
    };
    if *odd && let Err(PathFault::Protected(name)) = check_component(&seen) {
        return name.to_owned();
    }
    let trimmed = seen.trim_end_matches([' ', '.']);
    let kept = if trimmed.is_empty() { component } else { trimmed };
    if kept.is_ascii() {
        return kept.to_ascii_lowercase();
    }
    let folded: String = kept.chars().flat_map(char::to_uppercase).collect();
    folded.to_lowercase()
}

/// Whether nothing can be odd or protected about `component`: letters and digits, with `_`, `-` and
/// points between them, and not what may be a device somewhere.
fn is_everyday(component: &str) -> bool {
    let bytes = component.as_bytes();
    let [first, .., last] = bytes else { return false };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let base = bytes.split(|&byte| byte == b'.').next().unwrap_or(bytes);
    let device = matches!(base.len(), 3 | 4)
        && DEVICES.iter().any(|it| base.get(..3).is_some_and(|it3| it3.eq_ignore_ascii_case(it)));
    plain(first)
        && plain(last)
        && bytes.len() <= EVERYDAY_BYTES_MAX
        && bytes.iter().all(|byte| plain(byte) || matches!(byte, b'-' | b'.'))
        && !device
}

/// How the names of devices begin on Windows.
const DEVICES: [&[u8]; 6] = [b"con", b"prn", b"aux", b"nul", b"com", b"lpt"];
/// Bytes up to which a name is looked at here.
const EVERYDAY_BYTES_MAX: usize = 64;

/// `path` in one spelling that keeps its letters: `/` between components, no `.` and no empty ones,
/// `..` at its beginning only.
#[must_use]
pub fn tidied(path: &str) -> String {
    let path = path.trim();
    let (up, steps) = steps(path);
    if path.starts_with('/') {
        return format!("/{}", steps.join("/"));
    }
    let mut all = vec![".."; up];
    all.extend(steps);
    all.join("/")
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
            ("C:\\x", "c/x", true),
            ("file:///etc/passwd", "etc/passwd", true),
            ("FILE:///etc/hosts", "etc/hosts", true),
            ("file:/etc/hosts", "etc/hosts", true),
            ("https://example.org/x", "example.org/x", true),
        ];
        for (path, expected, outside) in table {
            let plain = PlainPath::of(path);
            assert_eq!((plain.text().as_str(), plain.outside), (expected, outside), "{path}");
        }
    }

    /// On one file system or another each of these is a protected file, or no file of this name.
    #[test]
    fn what_only_some_systems_see_in_a_name_hides_nothing() {
        let table = [
            (".g\u{200c}it/hooks/x", ".git/hooks/x"),
            (".git::$INDEX_ALLOCATION/config", ".git/config"),
            (".mcp.json::$DATA", ".mcp.json"),
            ("a\0b", "ab"),
            (".cl\u{ad}aude/x", ".claude/x"),
            ("src/con", "src/con"),
            ("src/a.rs.", "src/a.rs"),
            ("docs/x:y", "docs/x"),
        ];
        for (path, expected) in table {
            let plain = PlainPath::of(path);
            assert_eq!((plain.text().as_str(), plain.odd), (expected, true), "{path}");
        }
        assert!(!PlainPath::of("src/main.rs").odd);
    }

    /// The short way says what the long one does.
    #[test]
    fn an_everyday_name_is_none_that_is_refused() {
        let parts = [
            "a", "Z", "con", "COM1", "lpt9", "nul", "git", "claude", "mcp", "json", "_", "9", "rs",
        ];
        for (one, other) in parts.iter().flat_map(|one| parts.iter().map(move |it| (one, it))) {
            for joined in ["", ".", "-", "_", "..", "~", " "] {
                for name in [format!("{one}{joined}{other}"), format!("{one}{other}{joined}")] {
                    if is_everyday(&name) {
                        assert_eq!(check_component(&name), Ok(()), "{name}");
                        assert_eq!(name.trim_end_matches([' ', '.']), name);
                    }
                }
            }
        }
        assert!(["mod.rs", "Cargo.toml", "a_b-c.d"].iter().all(|name| is_everyday(name)));
        assert!([".git", "con", "a.", "x~1", "\u{e9}"].iter().all(|name| !is_everyday(name)));
    }

    #[test]
    fn a_long_path_is_read_once() {
        let long = "a/../".repeat(100_000);
        assert_eq!(tidied(&long), "");
        assert_eq!(PlainPath::of(&"../".repeat(100_000)).text(), ".");
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
