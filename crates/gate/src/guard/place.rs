//! What a path means to a guard: told from its text alone, links and mounts are not seen.

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// `/`.
    Root,
    /// A directory of the system, or below one.
    System,
    /// A directory of the system in which everybody may write.
    Shared,
    /// A device that can be harmed.
    Device,
    /// A home directory itself.
    Home,
    /// Below a home directory.
    BelowHome,
    /// The workspace itself.
    Workspace,
    /// A directory that holds the workspace.
    Above,
    /// Some other place outside of the workspace.
    Outside,
    /// Below the workspace.
    Inside,
}

/// Directories that belong to the system.
const SYSTEM: &[&str] = &[
    "Applications",
    "Library",
    "System",
    "Users",
    "bin",
    "boot",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "opt",
    "proc",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
];
/// Directories of the system in which everybody may write.
const SHARED: &[&[&str]] = &[&["tmp"], &["var", "tmp"], &["dev", "shm"]];
/// Devices that take anything.
const HARMLESS: &[&str] = &[
    "null", "zero", "full", "stdin", "stdout", "stderr", "tty", "fd", "pts", "random", "urandom",
    "tcp", "udp",
];

/// Where `path` leads from the workspace root.
pub(super) fn place(path: &str) -> Place {
    let path = without_everything(path);
    if let Some(below) = path.strip_prefix('~') {
        let inside = below.split_once('/').map_or("", |(_, inside)| inside);
        return match parts(inside) {
            (0, parts) if parts.is_empty() => Place::Home,
            (0, _) => Place::BelowHome,
            _ => Place::System,
        };
    }
    if path.starts_with('/') {
        return absolute(&parts(path).1);
    }
    match parts(path) {
        (0, parts) if parts.is_empty() => Place::Workspace,
        (0, _) => Place::Inside,
        (_, parts) if parts.is_empty() => Place::Above,
        _ => Place::Outside,
    }
}

fn absolute(parts: &[&str]) -> Place {
    let parts = parts.strip_prefix(&["private"]).filter(|rest| rest.len() > 1).unwrap_or(parts);
    if let Some(shared) = SHARED.iter().find(|shared| parts.starts_with(shared)) {
        return if parts.len() > shared.len() { Place::Outside } else { Place::Shared };
    }
    match parts {
        [] => Place::Root,
        ["root"] | ["home" | "Users", _] => Place::Home,
        ["root", ..] | ["home" | "Users", _, _, ..] => Place::BelowHome,
        ["dev", device, ..] if HARMLESS.contains(device) => Place::Outside,
        ["dev", ..] => Place::Device,
        ["srv", _, ..] => Place::Outside,
        [first, ..] if SYSTEM.contains(first) => Place::System,
        [_] => Place::System,
        _ => Place::Outside,
    }
}

/// `path` without an end that means everything in it: `/*`, `/.*`, `/.`.
fn without_everything(path: &str) -> &str {
    let end = path.trim_end_matches('/');
    match end.rsplit_once('/') {
        Some((before, "*" | ".*" | "**" | "{*,.*}" | "." | "{,.}*")) => {
            if before.is_empty() {
                "/"
            } else {
                without_everything(before)
            }
        }
        None if matches!(end, "*" | "**" | "{*,.*}" | "{,.}*") => ".",
        None if end == ".*" => "..",
        _ if end.is_empty() && !path.is_empty() => "/",
        _ => end,
    }
}

/// How many levels a path goes up, and the parts that are left then.
fn parts(path: &str) -> (usize, Vec<&str>) {
    let (mut up, mut parts) = (0, Vec::new());
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => up += 1,
            ".." => {}
            part => parts.push(part),
        }
    }
    (up, parts)
}

/// How many levels a relative path goes up from where it begins.
pub(super) fn levels_up(path: &str) -> usize {
    parts(path).0
}

/// The parts of a path that a rule compares names with, lowercase where a file system might be.
pub(super) fn components(path: &str) -> Vec<String> {
    let (_, parts) = parts(path);
    parts.into_iter().map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_placed_by_its_text() {
        let table = [
            ("/", Place::Root),
            ("//", Place::Root),
            ("/*", Place::Root),
            ("/./..", Place::Root),
            ("/etc", Place::System),
            ("/usr/local/bin", Place::System),
            ("/data", Place::System),
            ("/data/set", Place::Outside),
            ("/tmp", Place::Shared),
            ("/tmp/build", Place::Outside),
            ("/tmp/../etc/passwd", Place::System),
            ("/var/tmp/x", Place::Outside),
            ("/private/etc/hosts", Place::System),
            ("/private/tmp/x", Place::Outside),
            ("/dev/sda", Place::Device),
            ("/dev/null", Place::Outside),
            ("/dev/shm/", Place::Shared),
            ("/dev/tcp/host/80", Place::Outside),
            ("/dev/fd/3", Place::Outside),
            ("~", Place::Home),
            ("~/", Place::Home),
            ("~/*", Place::Home),
            ("~ana", Place::Home),
            ("~/x/..", Place::Home),
            ("~/..", Place::System),
            ("~/notes", Place::BelowHome),
            ("/Users/ana", Place::Home),
            ("/Users/ana/x", Place::BelowHome),
            (".", Place::Workspace),
            ("./", Place::Workspace),
            ("*", Place::Workspace),
            ("./*", Place::Workspace),
            ("src/..", Place::Workspace),
            ("..", Place::Above),
            ("../..", Place::Above),
            (".*", Place::Above),
            ("../other", Place::Outside),
            ("target", Place::Inside),
            ("src/*", Place::Inside),
            ("./src/../target", Place::Inside),
        ];
        for (path, expected) in table {
            assert_eq!(place(path), expected, "{path}");
        }
    }
}
