//! What a call of somebody else's tool would do, as far as its arguments tell.
//!
//! Paths, commands and contents are found by what their members are called, at any depth, and every
//! member counts, one that is there twice as well. What a server says of its tools may not make a call
//! look milder than this.

use std::borrow::Cow;
use std::fmt;

use countersign_gate::{COMMAND_BYTES_MAX, PATHS_MAX, TEXT_BYTES_MAX};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Bytes of a text that can be a path.
const PATH_BYTES_MAX: usize = 4_096;

/// What stands in the arguments of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Files that are named.
    pub(super) paths: Vec<String>,
    /// What would be run, as shell text.
    pub(super) command: String,
    /// What would be written.
    pub(super) content: String,
    /// Why not all of it could be looked at.
    pub(super) murk: Option<String>,
    /// Arguments whose program stands beside them, while they are gathered.
    words: String,
}

impl Facts {
    /// Those in these arguments, which are JSON.
    pub(super) fn of(arguments: &str) -> Self {
        let mut facts = Self::default();
        let mut reader = serde_json::Deserializer::from_str(arguments);
        let gather = Gather { facts: &mut facts, role: Role::Other };
        if let Err(error) = gather.deserialize(&mut reader) {
            facts.murk = Some(format!("its arguments cannot be looked at: {error}"));
        }
        facts.words.clear();
        facts
    }

    /// What sort of action a call of this tool is, in words that the gate knows.
    pub(super) fn action_type(&self, tool: &str) -> &'static str {
        let tool = tool.to_ascii_lowercase();
        let deletes = ["delete", "remove", "unlink", "rmdir"].iter().any(|it| tool.contains(it));
        match (self.command.is_empty(), self.paths.is_empty()) {
            (false, _) => "shell_exec",
            (true, false) if deletes => "file_delete",
            (true, false) if !self.content.is_empty() => "file_write",
            _ => "tool_call",
        }
    }

    fn see(&mut self, role: Role, text: &str) {
        match role {
            _ if text.starts_with("file:") => self.path(&local(text)),
            Role::Path => self.path(text),
            Role::Command => add(&mut self.command, text, COMMAND_BYTES_MAX),
            Role::Content => add(&mut self.content, text, TEXT_BYTES_MAX),
            Role::Arguments => add(&mut self.words, text, COMMAND_BYTES_MAX),
            Role::Other => {}
        }
    }

    /// Takes what was found elsewhere.
    fn join(&mut self, found: Self) {
        self.paths.extend(found.paths);
        for (to, text, max) in [
            (&mut self.command, found.command, COMMAND_BYTES_MAX),
            (&mut self.content, found.content, TEXT_BYTES_MAX),
        ] {
            if !text.is_empty() {
                add(to, &text, max);
            }
        }
    }

    fn path(&mut self, text: &str) {
        // What has several lines is no path, whatever it is called.
        let is_path = text.len() <= PATH_BYTES_MAX && !text.contains(['\n', '\0']);
        if is_path && !text.trim().is_empty() && self.paths.len() <= PATHS_MAX {
            self.paths.push(text.to_owned());
        }
    }
}

/// Adds a line, up to just beyond what the gate looks at: then it says itself that it is too much.
fn add(to: &mut String, text: &str, max: usize) {
    if to.len() <= max {
        if !to.is_empty() {
            to.push('\n');
        }
        to.extend(text.chars().take(max.saturating_add(1).saturating_sub(to.len())));
    }
}

/// The path in a `file:` address.
fn local(address: &str) -> String {
    let rest = address.strip_prefix("file:").unwrap_or(address);
    let rest = match rest.strip_prefix("//") {
        // The name of a machine stands before the path.
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest),
        None => rest,
    };
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.as_bytes();
    while let Some((&byte, rest)) = left.split_first() {
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(meant)) => {
                bytes.push(meant);
                left = rest.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                left = rest;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a member holds, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Path,
    Command,
    /// The rest of a command whose program stands beside it.
    Arguments,
    Content,
    Other,
}

impl Role {
    fn of(name: &str) -> Self {
        let plain: String = name
            .chars()
            .filter(|letter| !matches!(letter, '_' | '-' | ' '))
            .flat_map(char::to_lowercase)
            .collect();
        match &*plain {
            "command" | "cmd" | "commands" | "commandline" | "script" | "shell" | "bash" => {
                Self::Command
            }
            "args" | "argv" | "arguments" => Self::Arguments,
            "content" | "contents" | "text" | "newtext" | "newstr" | "newstring" | "newcontent"
            | "filetext" | "filecontent" | "data" | "body" | "patch" | "diff" => Self::Content,
            "source" | "sources" | "destination" | "src" | "dst" | "dest" | "target" | "root"
            | "cwd" | "uri" | "folder" | "directories" | "folders" | "repo" | "notebook" => {
                Self::Path
            }
            name => {
                let ends =
                    ["path", "paths", "file", "files", "filename", "filenames", "dir", "directory"];
                if ends.iter().any(|end| name.ends_with(end)) { Self::Path } else { Self::Other }
            }
        }
    }
}

/// Takes the facts of one value.
struct Gather<'f> {
    facts: &'f mut Facts,
    role: Role,
}

impl<'de> DeserializeSeed<'de> for Gather<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Gather<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.facts.see(self.role, text);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        if !matches!(self.role, Role::Command | Role::Arguments) {
            let Self { facts, role } = self;
            while sequence.next_element_seed(Gather { facts: &mut *facts, role })?.is_some() {}
            return Ok(());
        }
        // A list is one command: its words, in a form that the shell would take them from.
        let mut words = Facts::default();
        let mut line = String::new();
        while sequence
            .next_element_seed(Gather { facts: &mut words, role: Role::Arguments })?
            .is_some()
        {
            let word = std::mem::take(&mut words.words);
            if line.len() <= COMMAND_BYTES_MAX {
                let space = if line.is_empty() { "" } else { " " };
                line = format!("{line}{space}{}", quoted(&word));
            }
        }
        let to = match self.role {
            Role::Command => &mut self.facts.command,
            _ => &mut self.facts.words,
        };
        add(to, &line, COMMAND_BYTES_MAX);
        self.facts.join(words);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // A program and its arguments may stand beside each other, in any order.
        let (mut programs, mut arguments) = (Facts::default(), Facts::default());
        while let Some(name) = map.next_key::<String>()? {
            match Role::of(&name) {
                role @ Role::Command => {
                    map.next_value_seed(Gather { facts: &mut programs, role })?;
                }
                role @ Role::Arguments => {
                    map.next_value_seed(Gather { facts: &mut arguments, role })?;
                }
                // What lies in a file is content, whatever the members of it are called.
                Role::Other if self.role == Role::Content => {
                    map.next_value_seed(Gather { facts: &mut *self.facts, role: Role::Content })?;
                }
                role => map.next_value_seed(Gather { facts: &mut *self.facts, role })?,
            }
        }
        if !programs.command.is_empty() && !arguments.words.is_empty() {
            programs.command = format!("{} {}", programs.command, arguments.words);
        }
        self.facts.join(programs);
        self.facts.join(arguments);
        Ok(())
    }
}

/// A word as the shell takes it for this word.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn facts(arguments: &Value) -> Facts {
        Facts::of(&arguments.to_string())
    }

    #[test]
    fn paths_are_found_by_the_names_of_their_members_at_any_depth() {
        for (arguments, expected) in [
            (json!({ "path": "a" }), vec!["a"]),
            (json!({ "paths": ["a", "b"], "n": 1 }), vec!["a", "b"]),
            (json!({ "source": "a", "destination": "b" }), vec!["a", "b"]),
            (
                json!({ "edits": [{ "file_path": "a" }, { "deep": { "filePath": "b" } }] }),
                vec!["a", "b"],
            ),
            (json!({ "repo_path": "/r", "outputFile": "o" }), vec!["/r", "o"]),
            (json!({ "uri": "file:///etc/pass%77d" }), vec!["/etc/passwd"]),
            (json!({ "anything": "file://host/a%20b" }), vec!["/a b"]),
            (json!({ "message": "/not/named/a/path", "path": "two\nlines" }), vec![]),
        ] {
            assert_eq!(facts(&arguments).paths, expected, "{arguments}");
        }
    }

    #[test]
    fn a_member_that_is_there_twice_counts_twice() {
        let found = Facts::of(r#"{"path":"ok.txt","path":"/etc/passwd","p\u0061th":"c"}"#);
        assert_eq!(found.paths, ["ok.txt", "/etc/passwd", "c"]);
    }

    #[test]
    fn commands_come_as_shell_text() {
        for (arguments, expected) in [
            (json!({ "command": "ls -l" }), "ls -l"),
            (json!({ "cmd": ["rm", "-rf", "a b", "it's"] }), r"rm -rf 'a b' 'it'\''s'"),
            (json!({ "args": ["push", "--force"], "command": "git" }), "git push --force"),
            (json!({ "steps": [{ "command": "a" }, { "script": "b" }] }), "a\nb"),
            (json!({ "args": ["x"] }), ""),
            (json!({ "tool": "run", "arguments": { "command": "rm x" } }), "rm x"),
        ] {
            assert_eq!(facts(&arguments).command, expected, "{arguments}");
        }
    }

    #[test]
    fn what_a_call_is_taken_for_is_never_milder_than_a_tool_call() {
        for (tool, arguments, expected) in [
            ("read_file", json!({ "path": "a" }), "tool_call"),
            ("write_file", json!({ "path": "a", "content": "b" }), "file_write"),
            ("edit_file", json!({ "path": "a", "edits": [{ "newText": "b" }] }), "file_write"),
            ("Delete", json!({ "path": "a" }), "file_delete"),
            ("run", json!({ "command": "ls" }), "shell_exec"),
            ("echo", json!({ "text": "hello" }), "tool_call"),
        ] {
            assert_eq!(facts(&arguments).action_type(tool), expected, "{tool} {arguments}");
        }
    }

    #[test]
    fn what_is_too_deep_or_too_much_is_said_to_be() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        assert!(Facts::of(&deep).murk.is_some());
        let long = facts(&json!({ "command": "x".repeat(COMMAND_BYTES_MAX * 2) }));
        assert_eq!(long.command.len(), COMMAND_BYTES_MAX + 1);
        assert_eq!(facts(&json!({ "a": [1, true, null, 1.5, -1] })), Facts::default());
    }
}
