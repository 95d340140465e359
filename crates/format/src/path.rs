//! Paths below a workspace: which ones an agent may name.
//!
//! Decides by text alone, the same on every system: a path that another file system would read as
//! a different file is refused. Whether the path exists, or crosses a link, is for the writer to
//! see; whether an ordinary but sensitive file (`.env`) may be written is for the gate.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::text::{self, TextFault};

/// Bytes of a whole path.
pub const PATH_BYTES_MAX: usize = 4096;
/// Bytes of one component of a path.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Names that no agent may write under, at any depth: each of them decides what runs next.
pub const PROTECTED: &[&str] =
    &[".git", ".countersign", ".capseal", ".claude", ".codex", ".cursor", ".mcp.json"];

/// Why a text is not a path below the workspace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// Nothing at all.
    #[error("path is empty")]
    Empty,
    /// More than [`PATH_BYTES_MAX`].
    #[error("path is {0} bytes long, the limit is {PATH_BYTES_MAX}")]
    TooLong(usize),
    /// Starts with `/`.
    #[error("path is absolute, it must be relative to the workspace root")]
    Absolute,
    /// Starts with `~`, which shells take for a home directory.
    #[error("path starts with `~`, it must be relative to the workspace root")]
    Home,
    /// Starts with a drive letter and `:`.
    #[error("path names a drive, it must be relative to the workspace root")]
    Drive,
    /// Has a scheme.
    #[error("path is a URL, it must be relative to the workspace root")]
    Url,
    /// A `:`, which names a stream of a file on NTFS.
    #[error("path contains `:`")]
    Colon,
    /// A backslash, which separates components on Windows.
    #[error("path contains a backslash, components are separated by `/`")]
    Backslash,
    /// A control, format or otherwise invisible character.
    #[error("path contains the invisible character U+{0:04X}")]
    Invisible(u32),
    /// Not in normalisation form C, or not text at all.
    #[error(transparent)]
    Text(#[from] TextFault),
    /// Two slashes in a row.
    #[error("path has an empty component")]
    EmptyComponent,
    /// `.` or `..`.
    #[error("path has a `{0}` component")]
    DotComponent(&'static str),
    /// Ends in `/`.
    #[error("path ends in `/`, it must name a file")]
    TrailingSlash,
    /// A component of more than [`COMPONENT_BYTES_MAX`].
    #[error("path has a component of {0} bytes, the limit is {COMPONENT_BYTES_MAX}")]
    ComponentTooLong(usize),
    /// A component that Windows would shorten.
    #[error("path has a component that ends in a space or a point")]
    TrailingSpaceOrDot,
    /// A name that means a device on Windows.
    #[error("path contains the Windows device name `{0}`")]
    Device(String),
    /// A name of [`PROTECTED`], or one that some file system takes for it.
    #[error("path leads into `{0}`, which agents may not write")]
    Protected(&'static str),
    /// A slash where a single component is wanted.
    #[error("must be a single path component, found `/`")]
    NotOneComponent,
}

/// A path of a file below the workspace root that means the same file everywhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct WorkspacePath(String);

impl WorkspacePath {
    /// Takes `path` if every rule for a file that an agent may write holds.
    pub fn parse(path: &str) -> Result<Self, PathFault> {
        if path.len() > 1 && path.ends_with('/') && !path.starts_with('/') {
            return Err(PathFault::TrailingSlash);
        }
        check(path, Reach::Write)?;
        Ok(Self(path.to_owned()))
    }

    /// The path as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its components, from the workspace root down.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// A key that is equal for paths that name one file where case does not count. Keys sort so
    /// that everything inside a directory follows it directly.
    #[must_use]
    pub fn collision_key(&self) -> String {
        // What has no capital of its own comes back in two pieces, or in another order.
        text::to_nfc(&fold(&self.0)).replace('/', "\0")
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for WorkspacePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkspacePath {
    type Err = PathFault;

    fn from_str(path: &str) -> Result<Self, PathFault> {
        Self::parse(path)
    }
}

impl<'de> Deserialize<'de> for WorkspacePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let path = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&path).map_err(de::Error::custom)
    }
}

/// Checks a path that an agent is given to read: as [`WorkspacePath::parse`], but it may name a
/// directory with a slash at the end, the root as `.`, and what agents may not write.
pub fn check_readable(path: &str) -> Result<(), PathFault> {
    match path {
        "." | "./" => Ok(()),
        "/" => Err(PathFault::Absolute),
        _ => check(path.strip_suffix('/').unwrap_or(path), Reach::Read),
    }
}

/// Checks a text that is used as one component of paths, such as a feature's id.
pub fn check_component(name: &str) -> Result<(), PathFault> {
    if name.contains('/') {
        return Err(PathFault::NotOneComponent);
    }
    check(name, Reach::Write)
}

/// What a path is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Read,
    Write,
}

fn check(path: &str, reach: Reach) -> Result<(), PathFault> {
    if path.is_empty() {
        return Err(PathFault::Empty);
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(PathFault::TooLong(path.len()));
    }
    if path.starts_with('/') {
        return Err(PathFault::Absolute);
    }
    if path.starts_with('~') {
        return Err(PathFault::Home);
    }
    if path.contains("://") {
        return Err(PathFault::Url);
    }
    let mut start = path.bytes();
    if start.next().is_some_and(|byte| byte.is_ascii_alphabetic()) && start.next() == Some(b':') {
        return Err(PathFault::Drive);
    }
    if path.contains('\\') {
        return Err(PathFault::Backslash);
    }
    if path.contains(':') {
        return Err(PathFault::Colon);
    }
    if let Some(character) = path.chars().find(|&character| is_invisible(character)) {
        return Err(PathFault::Invisible(character.into()));
    }
    text::check(path)?;
    path.split('/').try_for_each(|component| check_part(component, reach))
}

fn check_part(component: &str, reach: Reach) -> Result<(), PathFault> {
    match component {
        "" => return Err(PathFault::EmptyComponent),
        "." => return Err(PathFault::DotComponent(".")),
        ".." => return Err(PathFault::DotComponent("..")),
        _ => {}
    }
    if component.len() > COMPONENT_BYTES_MAX {
        return Err(PathFault::ComponentTooLong(component.len()));
    }
    if component.ends_with([' ', '.']) {
        return Err(PathFault::TrailingSpaceOrDot);
    }
    if is_device(component) {
        return Err(PathFault::Device(component.to_owned()));
    }
    match protected(component) {
        Some(name) if reach == Reach::Write => Err(PathFault::Protected(name)),
        _ => Ok(()),
    }
}

/// Whether `character` is obeyed or not seen. The ASCII space is seen.
pub(crate) fn is_invisible(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    let mut buffer = [0; 4];
    let shown: &str = character.encode_utf8(&mut buffer);
    text::escape(shown).to_string() != shown
}

/// `text` with differences of case removed. Upper case joins letters such as the long s, which some
/// file systems take for an ordinary one; the capital sharp s has to be a small one before.
fn fold(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Windows opens a device for these names, with any extension and with spaces before it.
fn is_device(component: &str) -> bool {
    let base = component.split('.').next().unwrap_or(component).trim_end_matches(' ');
    let base = base.to_ascii_lowercase();
    if matches!(base.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$" | "clock$") {
        return true;
    }
    let number = base.strip_prefix("com").or_else(|| base.strip_prefix("lpt")).unwrap_or_default();
    let mut digits = number.chars();
    // Windows also takes the superscripts one to three for the digits.
    matches!(digits.next(), Some('0'..='9' | '¹' | '²' | '³')) && digits.next().is_none()
}

/// The name of [`PROTECTED`] for which some file system would take `component`.
fn protected(component: &str) -> Option<&'static str> {
    // HFS+ ignores invisible characters in names, so they are gone before names are compared.
    let visible: String = component.chars().filter(|&c| !is_invisible(c)).collect();
    let folded = fold(&visible);
    let name = folded.trim_end_matches([' ', '.']);
    PROTECTED.iter().copied().find(|wanted| name == *wanted || is_short_name(name, wanted))
}

/// Whether `name` is a short name that NTFS may have given to `wanted`: the first letters, `~` and
/// a number; or two letters, four hexadecimal digits of a hash, `~` and a number.
fn is_short_name(name: &str, wanted: &str) -> bool {
    let parts = |text: &str| {
        let (stem, extension) = text.split_once('.').unwrap_or((text, ""));
        (stem.to_owned(), extension.get(..3).unwrap_or(extension).to_owned())
    };
    let (stem, extension) = parts(name);
    let (wanted_stem, wanted_extension) = parts(wanted.trim_start_matches('.'));
    let Some((letters, number)) = stem.rsplit_once('~') else {
        return false;
    };
    if extension != wanted_extension
        || !(1..=6).contains(&number.len())
        || !number.bytes().all(|byte| byte.is_ascii_digit())
    {
        return false;
    }
    let room = wanted_stem.len().min(7 - number.len());
    let hashed = wanted_stem.get(..2).is_some_and(|two| {
        letters.strip_prefix(two).is_some_and(|hash| {
            hash.len() == 4 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    });
    Some(letters) == wanted_stem.get(..room) || hashed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(path: &str) -> PathFault {
        WorkspacePath::parse(path).expect_err(path)
    }

    #[test]
    fn ordinary_paths_pass() {
        for path in [
            "a",
            "src/main.rs",
            ".env",
            ".github/workflows/x.yml",
            "proc/self/environ",
            "docs/my file.md",
            "specs/v1..2/a...md",
            "specs/005-user-auth/.workflow/index.md",
            "café/中文.md",
            "git/config",
            ".gitignore",
            ".gitattributes",
            "com10.txt",
            "console",
            "null.md",
            "lpt",
            "aux-data",
            "a~1",
            "x/~y",
            "%2e%2e/x",
            "$HOME/x",
            "-rf",
            " a",
            "COM/1",
            "git~1.md",
            "communication~1",
            ".claude.md",
            "mcp~1",
            "mcp~1.js",
            "...a",
        ] {
            assert!(WorkspacePath::parse(path).is_ok(), "{path}: {:?}", WorkspacePath::parse(path));
        }
    }

    #[test]
    fn paths_that_leave_the_workspace_are_refused() {
        assert_eq!(fault(""), PathFault::Empty);
        for path in ["/", "/a", "//server/share/x", "///a"] {
            assert_eq!(fault(path), PathFault::Absolute, "{path}");
        }
        for path in ["..", "../x", "a/../b", "a/.."] {
            assert_eq!(fault(path), PathFault::DotComponent(".."), "{path}");
        }
        for path in [".", "./a", "a/./b", "a/."] {
            assert_eq!(fault(path), PathFault::DotComponent("."), "{path}");
        }
        for path in ["C:\\x", "c:/x", "C:", "z:x"] {
            assert_eq!(fault(path), PathFault::Drive, "{path}");
        }
        for path in ["~", "~/x", "~root/x"] {
            assert_eq!(fault(path), PathFault::Home, "{path}");
        }
        for path in ["a\\b", "..\\..\\x", "\\\\server\\x", "a/b\\"] {
            assert_eq!(fault(path), PathFault::Backslash, "{path}");
        }
        assert_eq!(fault("file:///etc/passwd"), PathFault::Url);
        assert_eq!(fault("data:x"), PathFault::Colon);
    }

    #[test]
    fn paths_with_a_second_spelling_are_refused() {
        assert_eq!(fault("a//b"), PathFault::EmptyComponent);
        assert_eq!(fault("a/"), PathFault::TrailingSlash);
        assert_eq!(fault("a.md:stream"), PathFault::Colon);
        assert_eq!(fault(".git::$INDEX_ALLOCATION/config"), PathFault::Colon);
        for path in ["a ", "a.", "a /b", "a./b", "..."] {
            assert_eq!(fault(path), PathFault::TrailingSpaceOrDot, "{path}");
        }
        assert_eq!(fault("cafe\u{301}"), PathFault::Text(TextFault::NotNfc));
        for character in [
            '\0',
            '\n',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{a0}',
            '\u{ad}',
            '\u{200c}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
            '\u{fffe}',
        ] {
            let path = format!("a{character}b");
            assert_eq!(fault(&path), PathFault::Invisible(character.into()), "{path:?}");
        }
    }

    #[test]
    fn limits_are_inclusive() {
        assert!(WorkspacePath::parse(&"a".repeat(255)).is_ok());
        assert_eq!(fault(&"a".repeat(256)), PathFault::ComponentTooLong(256));
        assert_eq!(fault(&"é".repeat(128)), PathFault::ComponentTooLong(256));
        let longest = format!("{}a/b", "a/".repeat(2046));
        assert_eq!(longest.len(), PATH_BYTES_MAX - 1);
        assert!(WorkspacePath::parse(&format!("{longest}b")).is_ok());
        assert_eq!(fault(&format!("{longest}bb")), PathFault::TooLong(4097));
    }

    #[test]
    fn every_windows_device_is_refused_in_any_case_and_with_any_extension() {
        let numbered = ["com", "lpt"].iter().flat_map(|base| {
            ('0'..='9').chain(['¹', '²', '³']).map(move |digit| format!("{base}{digit}"))
        });
        let plain = ["con", "prn", "aux", "nul", "conin$", "conout$", "clock$"].map(str::to_owned);
        for name in plain.into_iter().chain(numbered) {
            for path in [
                name.clone(),
                name.to_uppercase(),
                format!("{name}.txt"),
                format!("a/{name}.tar.gz"),
                format!("{name}/b"),
                format!("{name} .txt"),
            ] {
                assert!(matches!(fault(&path), PathFault::Device(_)), "{path}");
            }
        }
    }

    #[test]
    fn protected_names_are_refused_however_a_file_system_may_spell_them() {
        for name in PROTECTED {
            for path in [
                (*name).to_owned(),
                format!("{name}/x"),
                format!("a/{name}/x"),
                name.to_uppercase(),
                format!("a/b/{name}"),
            ] {
                assert_eq!(fault(&path), PathFault::Protected(name), "{path}");
            }
            assert_eq!(protected(&format!("{}\u{200c}{}", &name[..2], &name[2..])), Some(*name));
        }
        for path in [
            "GIT~1/hooks/x",
            "git~2",
            "GIT~10/x",
            "CLAUDE~1/settings.json",
            "COUNTE~1",
            "COUNT~12",
            "CAPSEA~1",
            "codex~1",
            "CURSOR~1",
            "MCP~1.JSO",
            "MCP~1.JSON",
            "mcp~2.json",
            "MC0A1B~1.JSONL",
            "gi7eba~1",
            ".gıt/config",
            ".curſor/x",
        ] {
            assert!(matches!(fault(path), PathFault::Protected(_)), "{path}: {}", fault(path));
        }
    }

    #[test]
    fn what_is_only_read_may_be_a_directory_or_a_protected_file() {
        for path in ["specs/005-user-auth/", ".claude/skills/x.md", ".", "./", "a", ".git/HEAD"] {
            assert_eq!(check_readable(path), Ok(()), "{path}");
        }
        for path in
            ["", "/", "/etc/passwd", "..", "../", "a/../b", "a//", "C:/x", "a\\b", "https://x/y"]
        {
            assert!(check_readable(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_component_stands_alone() {
        assert_eq!(check_component("005-user-auth"), Ok(()));
        assert_eq!(check_component("a/b"), Err(PathFault::NotOneComponent));
        for name in ["", ".", "..", "/", "a\\b", "a:b", "~", ".git", "CON", "a ", "\0"] {
            assert!(check_component(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn keys_join_case_and_sort_directories_before_their_contents() {
        let key = |path: &str| WorkspacePath::parse(path).expect("path").collision_key();
        assert_eq!(key("specs/A.md"), key("SPECS/a.md"));
        let mut keys = [key("a-b"), key("a/b"), key("a")];
        keys.sort();
        assert_eq!(keys, [key("a"), key("a/b"), key("a-b")]);
    }

    /// Found by fuzzing: one of these letters has no capital of its own, and came back in two pieces.
    #[test]
    fn keys_join_case_under_any_marks() {
        let key = |path: &str| WorkspacePath::parse(path).expect("path").collision_key();
        assert_eq!(key("H\u{321}\u{331}"), key("\u{1e96}\u{321}"));
        assert_eq!(key("i\u{307}"), key("\u{130}"));
    }

    #[test]
    fn reading_from_json_applies_the_rules() {
        assert!(serde_json::from_str::<WorkspacePath>("\"a/b\"").is_ok());
        assert!(serde_json::from_str::<WorkspacePath>("\"../b\"").is_err());
    }
}
