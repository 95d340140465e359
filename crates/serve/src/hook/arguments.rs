//! What can be told of a call from the names of its arguments, where nobody knows the tool.
//!
//! Tools of others call a path `path`, `file_path` or `destination`, and a command `command` or
//! `script`. Naming something else so costs a question at worst; naming it otherwise hides it from
//! rules about paths, which is why what no rule knows is asked about anyway.

use serde_json::Value;

/// Paths that are looked for in one call: one more than the gate looks at, so that it says so.
const PATHS_MAX: usize = countersign_gate::PATHS_MAX + 1;
/// How deep arguments are looked at.
const DEPTH_MAX: usize = 8;

/// Names that stand for paths, as a whole or as the last word.
const PATH_NAMES: [&str; 14] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "directory",
    "dir",
    "folder",
    "source",
    "destination",
    "target",
    "uri",
];
/// Names that stand for commands.
const COMMAND_NAMES: [&str; 4] = ["command", "cmd", "script", "shell"];

/// What the arguments of a call name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) paths: Vec<String>,
    pub(super) commands: Vec<String>,
}

impl Named {
    /// Everything that would be run, one command a line.
    pub(super) fn command(&self) -> Option<String> {
        (!self.commands.is_empty()).then(|| self.commands.join("\n"))
    }
}

/// Looks through arguments.
pub(super) fn named_in(arguments: &Value) -> Named {
    let mut named = Named::default();
    look(arguments, None, 0, &mut named);
    named
}

fn look(value: &Value, name: Option<&str>, depth: usize, named: &mut Named) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                look(value, Some(name), depth + 1, named);
            }
        }
        Value::Array(elements) => {
            if let Some(command) = name.filter(|name| is_command(name)).and(joined(elements)) {
                named.commands.push(command);
                return;
            }
            elements.iter().for_each(|element| look(element, name, depth + 1, named));
        }
        Value::String(text) => match name {
            Some(name) if is_command(name) => {
                named.commands.push(text.clone());
            }
            Some(name) if is_path(name, text) && named.paths.len() < PATHS_MAX => {
                named.paths.push(text.clone());
            }
            _ => {}
        },
        _ => {}
    }
}

/// A command that is given as a list of words.
fn joined(elements: &[Value]) -> Option<String> {
    let words: Option<Vec<&str>> = elements.iter().map(Value::as_str).collect();
    words.filter(|words| !words.is_empty()).map(|words| words.join(" "))
}

fn is_command(name: &str) -> bool {
    COMMAND_NAMES.contains(&&*name.to_ascii_lowercase())
}

fn is_path(name: &str, text: &str) -> bool {
    let last = last_word(name);
    if !PATH_NAMES.contains(&&*last) || text.is_empty() || text.contains('\n') {
        return false;
    }
    // An address on the network is no file.
    text.starts_with("file://") || !text.contains("://")
}

/// The last word of `file_path`, `filePath` or `file-path`.
fn last_word(name: &str) -> String {
    let from = name.rfind(|it: char| it.is_ascii_uppercase() || matches!(it, '_' | '-' | '.'));
    let word = from.and_then(|at| name.get(at..)).unwrap_or(name);
    word.trim_start_matches(['_', '-', '.']).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_and_commands_are_found_by_the_names_that_tools_give_them() {
        let arguments = json!({
            "path": "src/a.rs", "filePath": "b.rs", "source": "c", "destination": "d",
            "edits": [{ "file_path": "e" }], "paths": ["f", "g"], "uri": "file:///h",
            "url": "https://example.org/path", "target": "https://example.org",
            "text": "path", "profile": "p", "cmd": "rm -rf x",
        });
        let named = named_in(&arguments);
        assert_eq!(named.command().as_deref(), Some("rm -rf x"));
        let mut paths = named.paths;
        paths.sort();
        assert_eq!(paths, ["b.rs", "c", "d", "e", "f", "file:///h", "g", "src/a.rs"]);
        let words = named_in(&json!({ "command": ["rm", "-rf", "x"], "script": "ls" }));
        let mut commands = words.commands;
        commands.sort();
        assert_eq!(commands, ["ls", "rm -rf x"]);
    }

    #[test]
    fn what_is_too_deep_or_too_much_is_not_followed() {
        let mut deep = json!({ "path": "x" });
        for _ in 0..20 {
            deep = json!({ "in": deep });
        }
        assert_eq!(named_in(&deep), Named::default());
        let many = json!({ "paths": vec!["x"; PATHS_MAX + 5] });
        assert_eq!(named_in(&many).paths.len(), PATHS_MAX);
    }
}
