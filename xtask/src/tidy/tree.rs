//! The files that the rules look at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Directories that no rule looks into where git cannot say which files are ours.
const NOT_OURS: &[&str] = &[".git", "target", ".countersign", ".test-env"];

/// Files by their path from the root, with `/` between its parts. Files that are not UTF-8 are
/// there without a text.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the files below `root` that git tracks, or would if they were added.
    pub(super) fn load(root: &Path) -> Result<Self, String> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walk(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            match fs::read(root.join(&path)) {
                Ok(bytes) => {
                    files.insert(path, String::from_utf8(bytes).unwrap_or_default());
                }
                // Deleted but not yet committed, or a link to a directory.
                Err(_) if !root.join(&path).is_file() => {}
                Err(error) => return Err(format!("cannot read `{path}`: {error}")),
            }
        }
        Ok(Self { files })
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let owned = files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned()));
        Self { files: owned.collect() }
    }

    /// All files, in the order of their paths.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files that hold code.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| is_source(path))
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether there is a file or a directory at `path`.
    pub(super) fn holds(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&inside))
    }

    /// The manifests of the workspace's crates, with the name of the crate's directory.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.files().filter_map(|(path, text)| {
            let directory = path.strip_suffix("/Cargo.toml")?;
            let name = directory.strip_prefix("crates/").unwrap_or(directory);
            (name == "xtask" || directory != name && !name.contains('/'))
                .then_some((name, path, text))
        })
    }
}

/// How the name of a file ends, after its last point.
pub(super) fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_source(path: &str) -> bool {
    matches!(extension(path), "rs" | "js" | "mjs" | "py" | "sh" | "html" | "css")
        || path == ".ci/run"
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    let listing = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> =
        listing.split('\0').filter(|path| !path.is_empty()).map(ToOwned::to_owned).collect();
    // A repository around an unpacked copy lists nothing inside it: then we look ourselves.
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut waiting = vec![String::new()];
    while let Some(directory) = waiting.pop() {
        let fail = |error| format!("cannot list `{directory}`: {error}");
        for entry in fs::read_dir(root.join(&directory)).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(fail)?;
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_a_walk_find_the_same_manifests() {
        let root = crate::place::root();
        let manifests = |paths: Vec<String>| {
            let mut found: Vec<_> = paths
                .into_iter()
                .filter(|path| path.ends_with("/Cargo.toml") && path.starts_with("crates/"))
                .collect();
            found.sort();
            found
        };
        let walked = manifests(walk(&root).unwrap());
        assert!(walked.contains(&"crates/format/Cargo.toml".to_owned()), "{walked:?}");
        if let Some(listed) = listed_by_git(&root) {
            assert_eq!(manifests(listed), walked);
        }
    }

    #[test]
    fn a_directory_is_held_through_its_files() {
        let tree = Tree::of(&[("docs/formats/json.md", "")]);
        assert!(tree.holds("docs/formats"));
        assert!(tree.holds("docs/formats/json.md"));
        assert!(!tree.holds("docs/form"));
    }

    #[test]
    fn manifests_are_those_of_crates_and_of_the_chores() {
        let tree = Tree::of(&[
            ("Cargo.toml", ""),
            ("crates/format/Cargo.toml", ""),
            ("crates/format/tests/project/Cargo.toml", ""),
            ("examples/x/Cargo.toml", ""),
            ("xtask/Cargo.toml", ""),
        ]);
        let names: Vec<_> = tree.manifests().map(|(name, ..)| name).collect();
        assert_eq!(names, ["format", "xtask"]);
    }
}
