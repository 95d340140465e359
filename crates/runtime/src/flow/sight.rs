//! Everything in the workspace as it was at one time, to see what an agent changed behind our back.
//!
//! Looks at more than agents may name: links, odd names, and what decides what runs next. Not at the
//! store and the keys, nor at what git keeps for itself. What cannot be looked at is said to have
//! changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Names that are looked at.
const NAMES_MAX: usize = 1_000_000;
/// What of `.git` decides what runs next.
const GIT: [&str; 2] = ["hooks", "config"];

/// The names below a directory, and what each of them is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sight {
    entries: BTreeMap<String, String>,
    /// What could not be looked at.
    hidden: Vec<String>,
}

impl Sight {
    /// Looks at everything below `root` but what lies at `kept`.
    pub(super) fn look(root: &Path, kept: &[&Path]) -> Self {
        let kept: Vec<PathBuf> = kept.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let mut sight = Self::default();
        let mut waiting = vec![root.to_owned()];
        while let Some(directory) = waiting.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                sight.hidden.push(name(root, &directory));
                continue;
            };
            for entry in entries.flatten() {
                let path = entry.path();
                if kept.contains(&path) || is_gits_own(root, &path) {
                    continue;
                }
                if sight.entries.len() >= NAMES_MAX {
                    sight.hidden.push(format!("more than {NAMES_MAX} names"));
                    return sight;
                }
                let Ok(data) = fs::symlink_metadata(&path) else { continue };
                if data.is_dir() {
                    waiting.push(path);
                    continue;
                }
                // Times and inode too: bytes of the same length are other bytes.
                let what = format!(
                    "{} {} {}.{} {}.{} {:o}",
                    data.len(),
                    data.ino(),
                    data.mtime(),
                    data.mtime_nsec(),
                    data.ctime(),
                    data.ctime_nsec(),
                    data.mode()
                );
                sight.entries.insert(name(root, &path), what);
            }
        }
        sight
    }

    /// What came, went or changed between this look and another.
    pub(super) fn differences(&self, later: &Self) -> Vec<String> {
        let changed = |path: &&String| self.entries.get(*path) != later.entries.get(*path);
        let all = self.entries.keys().chain(later.entries.keys());
        let mut paths: Vec<String> = all.filter(changed).cloned().collect();
        paths.extend(later.hidden.iter().filter(|it| !self.hidden.contains(it)).cloned());
        paths.sort();
        paths.dedup();
        paths
    }
}

fn name(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// Git writes to its own directory all the time.
fn is_gits_own(root: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(root).unwrap_or(path);
    let mut parts = below.components().map(|part| part.as_os_str());
    match (parts.next(), parts.next()) {
        (Some(git), Some(part)) => git == ".git" && !GIT.iter().any(|it| part == *it),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_went_or_changed_is_seen_links_and_hooks_among_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in [".git/hooks", ".git/objects", ".countersign", "src"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for path in ["src/a", "src/b", "src/c"] {
            fs::write(root.join(path), "1").unwrap();
        }
        let home = root.join(".countersign");
        let look = || Sight::look(&root, &[&home]);
        let before = look();
        assert_eq!(before.differences(&look()), Vec::<String>::new());
        fs::write(root.join("src/a"), "2").unwrap();
        fs::remove_file(root.join("src/b")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        fs::write(root.join("odd\\name"), "x").unwrap();
        for path in [".git/hooks/pre-commit", ".git/objects/x", ".countersign/x"] {
            fs::write(root.join(path), "x").unwrap();
        }
        let changed = [".git/hooks/pre-commit", "link", "odd\\name", "src/a", "src/b"];
        assert_eq!(before.differences(&look()), changed);
    }
}
