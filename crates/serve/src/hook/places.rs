//! Which file a path of an agent means.
//!
//! Agents name files from wherever they stand, and through links. A file is named as the agent named
//! it and, where a link leads elsewhere, also as the place that it leads to, so that a rule about
//! either applies. What happens to links between the question and the deed is not seen.

use std::path::{Path, PathBuf};

/// Where an agent stands.
#[derive(Debug, Clone)]
pub(super) struct Standpoint {
    /// The directory that the workspace is of, as it was named and as it really is.
    root: PathBuf,
    real_root: PathBuf,
    /// Where the agent's program stands.
    cwd: PathBuf,
}

impl Standpoint {
    /// An agent that stands in `cwd`, or in the workspace's directory, of which `home` is the store.
    pub(super) fn new(home: &Path, cwd: Option<&Path>) -> Self {
        let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
        let root = home.parent().unwrap_or(&home).to_owned();
        let real_root = root.canonicalize().unwrap_or_else(|_| root.clone());
        let cwd = cwd.filter(|cwd| cwd.is_absolute()).unwrap_or(&root).to_owned();
        Self { root, real_root, cwd }
    }

    /// The files that `paths` mean, each in all its names.
    pub(super) fn files<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> Vec<String> {
        let mut files = Vec::new();
        for path in paths.into_iter().map(str::trim).filter(|path| !path.is_empty()) {
            for name in self.names(path) {
                if !files.contains(&name) {
                    files.push(name);
                }
            }
        }
        files
    }

    /// Where the agent stands, if a command that names no path could do harm from there: outside of
    /// the workspace, or in one of the directories whose names begin with a point.
    pub(super) fn notable(&self) -> Vec<String> {
        let mut names = self.names(".");
        let hidden =
            |name: &String| name.split('/').any(|part| part.len() > 1 && part.starts_with('.'));
        names.retain(|name| name.starts_with('/') || hidden(name));
        names
    }

    /// Whether a path lies in the workspace, wherever links lead.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.names(path).iter().all(|name| !name.starts_with(['/', '~']))
    }

    fn names(&self, path: &str) -> Vec<String> {
        let path = path.strip_prefix("file://").unwrap_or(path);
        // What only a shell would understand is left to whoever judges it.
        if path.starts_with('~') {
            return vec![path.to_owned()];
        }
        let whole = normal(&self.cwd.join(path));
        let named = self.relative(&whole);
        let led_to = real(&whole).map(|real| self.relative(&real));
        match (named, led_to) {
            // The same place, reached through a link to the workspace itself.
            (Place::Outside(_), Some(Place::Inside(real))) => vec![real],
            (named, Some(real)) if named != real => vec![named.into_text(), real.into_text()],
            (named, _) => vec![named.into_text()],
        }
    }

    fn relative(&self, path: &Path) -> Place {
        let below = |root: &Path| path.strip_prefix(root).ok().map(|rest| rest.to_path_buf());
        match below(&self.root).or_else(|| below(&self.real_root)) {
            Some(rest) if rest.as_os_str().is_empty() => Place::Inside(".".to_owned()),
            Some(rest) => Place::Inside(rest.to_string_lossy().into_owned()),
            None => Place::Outside(path.to_string_lossy().into_owned()),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Inside(String),
    Outside(String),
}

impl Place {
    fn into_text(self) -> String {
        match self {
            Self::Inside(path) | Self::Outside(path) => path,
        }
    }
}

/// An absolute path without `.` and `..`, by its text alone.
fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// Where a path leads: its longest part that exists, without links, and the rest as it is. A link to
/// nothing leads where it points.
fn real(path: &Path) -> Option<PathBuf> {
    let mut rest = Vec::new();
    let mut existing = path.to_owned();
    loop {
        if let Ok(found) = existing.canonicalize() {
            return Some(rest.iter().rev().fold(found, |path, name| path.join(name)));
        }
        if let Ok(target) = existing.read_link() {
            let target = normal(&existing.parent()?.join(target));
            // One step is enough to see that it leads elsewhere; a ring of links leads nowhere.
            return Some(rest.iter().rev().fold(target, |path, name| path.join(name)));
        }
        rest.push(existing.file_name()?.to_owned());
        existing.pop();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_one_of_the_workspace_from_wherever_the_agent_stands() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("w");
        fs::create_dir_all(root.join("app/src")).unwrap();
        let from = |cwd: &str| Standpoint::new(&root.join(".countersign"), Some(&root.join(cwd)));
        let table = [
            ("", "app/src/a.rs", "app/src/a.rs"),
            ("app", "src/new.rs", "app/src/new.rs"),
            ("app", "../README", "README"),
            ("app", "./.", "app"),
            ("", ".", "."),
            ("app", "~/x", "~/x"),
            ("app", "/etc/passwd", "/etc/passwd"),
        ];
        for (cwd, path, expected) in table {
            assert_eq!(from(cwd).files([path]), [expected], "{path} from {cwd}");
        }
        let whole = root.join("app/src/b.rs");
        assert_eq!(from("app").files([whole.to_str().unwrap()]), ["app/src/b.rs"]);
        let above = root.parent().unwrap().join("x");
        assert_eq!(from("app").files(["../../x", " ", ""]), [above.to_str().unwrap()]);
    }

    #[test]
    fn where_an_agent_stands_is_told_where_it_matters() {
        let from = |cwd: &str| {
            Standpoint::new(Path::new("/w/.countersign"), Some(Path::new(cwd))).notable()
        };
        assert_eq!(from("/w"), [""; 0]);
        assert_eq!(from("/w/app"), [""; 0]);
        assert_eq!(from("/w/app/.claude/x"), ["app/.claude/x"]);
        assert_eq!(from("/other"), ["/other"]);
    }

    #[test]
    fn a_link_is_named_with_the_place_that_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("w");
        fs::create_dir_all(root.join(".claude")).unwrap();
        fs::write(root.join(".claude/settings.json"), "{}").unwrap();
        symlink(".claude/settings.json", root.join("notes.txt")).unwrap();
        symlink(".claude/missing.json", root.join("dangling")).unwrap();
        symlink(".claude", root.join("dir")).unwrap();
        symlink(&root, dir.path().join("alias")).unwrap();
        let standpoint = Standpoint::new(&root.join(".countersign"), None);
        let names = |path: &str| standpoint.files([path]);
        assert_eq!(names("notes.txt"), ["notes.txt", ".claude/settings.json"]);
        assert_eq!(names("dangling"), ["dangling", ".claude/missing.json"]);
        assert_eq!(names("dir/new.json"), ["dir/new.json", ".claude/new.json"]);
        assert_eq!(names("plain.txt"), ["plain.txt"]);
        // The workspace under another name is the workspace.
        let alias = dir.path().canonicalize().unwrap().join("alias/src/a.rs");
        assert_eq!(names(alias.to_str().unwrap()), ["src/a.rs"]);
    }
}
