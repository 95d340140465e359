//! What agents call things, and what these are called here.

use std::path::Path;

use countersign_format::receipt::ActionType;
use countersign_format::text::to_nfc;
use countersign_gate::relative_to;

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
/// without `.`, each once. Where they lead is not looked at.
#[must_use]
pub fn plain_paths<'p>(root: &Path, paths: impl IntoIterator<Item = &'p str>) -> Vec<String> {
    let root = root.to_string_lossy();
    let mut plain: Vec<String> = Vec::new();
    for path in paths {
        let path = plain_path(relative_to(&root, &to_nfc(path)));
        if !path.is_empty() && !plain.contains(&path) {
            plain.push(path);
        }
    }
    plain
}

/// One path without empty and `.` components, and with `..` resolved where that stays inside.
fn plain_path(path: &str) -> String {
    let path = path.trim();
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
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
}
