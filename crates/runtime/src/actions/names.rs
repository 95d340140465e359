//! What agents call things, and what these are called here.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use countersign_format::receipt::ActionType;
use countersign_format::text::to_nfc;
use countersign_gate::{PATHS_BYTES_MAX, PATHS_MAX, relative_to, tidied};

/// Links on the way to one file; a system follows no more than this.
const LINKS_MAX: usize = 40;

/// The sort of action that an agent means. What is not known is `unknown`; the agent's own word
/// should then be kept as the name of the tool.
#[must_use]
pub fn action_type(name: &str) -> ActionType {
    let name = name.trim().to_ascii_lowercase();
    match &*name {
        "edit" | "edit_file" | "refactor" => ActionType::CodeEdit,
        "run_command" | "execute_command" | "install_package" => ActionType::Command,
        "read_file" => ActionType::FileRead,
        "create_file" | "write_file" => ActionType::FileWrite,
        "delete_file" => ActionType::FileDelete,
        name => ActionType::from_name(name).unwrap_or(ActionType::Unknown),
    }
}

/// Paths in one spelling: relative to the workspace where they lie in it, `/` between components,
/// without `.`, each once. Behind a path that a link leads elsewhere stands where it leads to: a
/// name in the workspace that is a link out of it stands for both.
#[must_use]
pub fn plain_paths<'p>(root: &Path, paths: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let paths: Vec<String> = paths.into_iter().map(to_nfc).collect();
    let text = root.to_string_lossy();
    // The gate does not look at more, so that there is no need to find out where it all leads.
    let few =
        paths.len() <= PATHS_MAX && paths.iter().map(String::len).sum::<usize>() <= PATHS_BYTES_MAX;
    // Asked for only where it matters: it takes a look at every directory on the way.
    let real = LazyCell::new(|| few.then(|| fs::canonicalize(root).ok()).flatten());
    let (mut met, mut plain) = (BTreeSet::new(), Vec::new());
    let mut put = |path: String| {
        if !path.is_empty() && met.insert(path.clone()) {
            plain.push(path);
        }
    };
    for path in &paths {
        let relative = relative_to(&text, path.trim());
        let named = tidied(relative);
        if few && named == relative && leads_to_itself(root, relative) {
            put(named);
            continue;
        }
        let led = real.as_deref().and_then(|real| where_it_leads(real, relative));
        let outside = named.starts_with('/') || named.split('/').next() == Some("..");
        match led {
            // A whole path into the workspace, by whatever way, is as good as a relative one.
            Some(led) if outside => put(if led.starts_with('/') { named } else { led }),
            Some(led) if !named.is_empty() => {
                put(named);
                put(led);
            }
            _ => put(named),
        }
    }
    plain
}

/// Whether a path below `root` is met by no link and goes nowhere but down.
fn leads_to_itself(root: &Path, path: &str) -> bool {
    let mut at = root.to_owned();
    let mut missing = false;
    Path::new(path).components().all(|step| {
        let Component::Normal(name) = step else { return false };
        // Below what is not there, there is nothing either.
        if missing {
            return true;
        }
        at.push(name);
        match fs::symlink_metadata(&at) {
            Ok(data) => !data.is_symlink(),
            Err(error) => {
                missing = error.kind() == ErrorKind::NotFound;
                true
            }
        }
    })
}

/// Where the file system would take `path` from the directory `real`: relative to it if that lies
/// below it, else absolute. Nothing where that cannot be told. What is not there leads to itself.
fn where_it_leads(real: &Path, path: &str) -> Option<String> {
    let mut at = if path.starts_with('/') { PathBuf::from("/") } else { real.to_owned() };
    let mut steps: Vec<PathBuf> = backwards(Path::new(path));
    let mut links = 0;
    while let Some(step) = steps.pop() {
        match step.components().next() {
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::Normal(name)) => {
                at.push(name);
                if !fs::symlink_metadata(&at).is_ok_and(|data| data.is_symlink()) {
                    continue;
                }
                links += 1;
                let target = fs::read_link(&at).ok().filter(|_| links <= LINKS_MAX)?;
                at.pop();
                steps.extend(backwards(&target));
            }
            _ => {}
        }
    }
    let led = to_nfc(&at.strip_prefix(real).unwrap_or(&at).to_string_lossy());
    Some(if led.is_empty() { ".".to_owned() } else { led })
}

/// The components of a path, the first one last.
fn backwards(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|step| PathBuf::from(step.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_call_an_action_is_one_of_the_fifteen() {
        let table = [
            ("edit", ActionType::CodeEdit),
            ("Refactor", ActionType::CodeEdit),
            ("install_package", ActionType::Command),
            ("read_file", ActionType::FileRead),
            ("shell_exec", ActionType::ShellExec),
            ("dance", ActionType::Unknown),
        ];
        for (name, expected) in table {
            assert_eq!(action_type(name), expected, "{name}");
        }
    }

    #[test]
    fn one_file_has_one_spelling() {
        let paths = ["./src//a.rs", "src/a.rs", "src/b/../a.rs", ".env", "../x", "/etc/passwd", ""];
        assert_eq!(
            plain_paths(Path::new("/w"), paths),
            ["src/a.rs", ".env", "../x", "/etc/passwd"]
        );
        assert_eq!(plain_paths(Path::new("/w"), ["/w/src/a.rs"]), ["src/a.rs"]);
    }

    #[test]
    fn many_paths_are_read_once_each() {
        let start = std::time::Instant::now();
        let many: Vec<String> = (0..100_000).map(|number| format!("src/{number}.rs")).collect();
        assert_eq!(plain_paths(Path::new("/w"), many.iter().map(String::as_str)).len(), 100_000);
        assert!(start.elapsed() < std::time::Duration::from_secs(2));
    }

    /// The name says `h/pre-commit`, the file that would be written is a hook.
    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_both_names_are_told() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap().join("w");
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::create_dir_all(root.join("src")).unwrap();
        for (target, link) in [
            (".git/hooks", "h"),
            ("/etc", "e"),
            ("../other", "o"),
            ("loop", "loop"),
            (".git/hooks/new", "src/dangling"),
            ("h", "src/../again"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        symlink(&root, root.join("self")).unwrap();
        let other = root.join("../other").join("x");
        let other = tidied(other.to_str().unwrap());
        let absolute = root.join("self/src/b");
        let table: [(&str, &[&str]); 11] = [
            ("h/pre-commit", &["h/pre-commit", ".git/hooks/pre-commit"]),
            ("again/x", &["again/x", ".git/hooks/x"]),
            ("src/dangling", &["src/dangling", "src/.git/hooks/new"]),
            ("h/../config", &["config", ".git/config"]),
            ("e/hosts", &["e/hosts", "/etc/hosts"]),
            ("o/x", &["o/x", &other]),
            ("self/src/a", &["self/src/a", "src/a"]),
            ("loop/x", &["loop/x"]),
            ("src/a.rs", &["src/a.rs"]),
            ("new/dir/a", &["new/dir/a"]),
            (absolute.to_str().unwrap(), &["self/src/b", "src/b"]),
        ];
        for (path, expected) in table {
            assert_eq!(plain_paths(&root, [path]), expected, "{path}");
        }
        // By another way to the same place.
        let way = place.path().join("way");
        symlink(&root, &way).unwrap();
        assert_eq!(plain_paths(&root, [way.join("src/c").to_str().unwrap()]), ["src/c"]);
        assert_eq!(plain_paths(&way, ["src/c"]), ["src/c"]);
    }
}
