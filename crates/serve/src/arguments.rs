//! What a call of somebody else's tool would do, as far as its arguments tell.
//!
//! Paths, commands and contents are found by what their members are called, at any depth, and every
//! member counts, one that is there twice as well. Every other text is looked at too: what looks like
//! a path elsewhere, or like a command that a guard objects to, waits for a person.

mod looks;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use countersign_gate::{COMMAND_BYTES_MAX, PATHS_MAX, TEXT_BYTES_MAX};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use looks::{Look, decoded, is_address, local, look_at, objection};

/// Bytes of a text that can be a path.
const PATH_BYTES_MAX: usize = 4_096;
/// Bytes of texts that are looked at as commands, all of a call taken together.
const LOOKED_AT_MAX: usize = 1 << 20;

/// What stands in the arguments of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Files that are named.
    pub(crate) paths: Vec<String>,
    /// What would be run, as shell text.
    pub(crate) command: String,
    /// What would be written.
    pub(crate) content: String,
    /// Why a person should look at it, or why not all of it could be looked at.
    pub(crate) murk: Option<String>,
    /// Arguments whose program stands beside them, while they are gathered.
    words: String,
    /// Bytes that were looked at as commands.
    looked_at: usize,
}

/// Whether a path lies in the workspace.
pub(crate) type IsInside<'i> = &'i dyn Fn(&str) -> bool;

impl Facts {
    /// Those in these arguments, which are JSON.
    pub(crate) fn of(arguments: &str) -> Self {
        Self::from_within(arguments, &|_| false)
    }

    /// The same, for whoever knows which paths lie in the workspace.
    pub(crate) fn from_within(arguments: &str, inside: IsInside<'_>) -> Self {
        let mut facts = Self::default();
        let mut reader = serde_json::Deserializer::from_str(arguments);
        let gather = Gather { facts: &mut facts, role: Role::Other, inside };
        if let Err(error) = gather.deserialize(&mut reader) {
            facts.murk = Some(format!("its arguments cannot be looked at: {error}"));
        }
        facts.words.clear();
        facts.looked_at = 0;
        facts
    }

    /// What sort of action a call of this tool is, in words that the gate knows.
    pub(crate) fn action_type(&self, tool: &str) -> &'static str {
        let tool = tool.to_ascii_lowercase();
        let deletes = ["delete", "remove", "unlink", "rmdir"].iter().any(|it| tool.contains(it));
        match (self.command.is_empty(), self.paths.is_empty()) {
            (false, _) => "shell_exec",
            (true, false) if deletes => "file_delete",
            (true, false) if !self.content.is_empty() => "file_write",
            _ => "tool_call",
        }
    }

    fn see(&mut self, role: Role, text: &str, inside: IsInside<'_>) {
        match role {
            Role::Path => self.see_path(text, inside),
            Role::Command => add(&mut self.command, text, COMMAND_BYTES_MAX),
            Role::Arguments => add(&mut self.words, text, COMMAND_BYTES_MAX),
            Role::Content => {
                add(&mut self.content, text, TEXT_BYTES_MAX);
                self.see_text(text, Sort::Prose, inside);
            }
            Role::Prose => self.see_text(text, Sort::Prose, inside),
            Role::Listed => {
                add(&mut self.words, text, COMMAND_BYTES_MAX);
                self.see_text(text, Sort::Anything, inside);
            }
            Role::Apart => self.see_command(text, Sort::Prose),
            Role::Other => self.see_text(text, Sort::Anything, inside),
        }
    }

    /// A text that is called a path.
    fn see_path(&mut self, text: &str, inside: IsInside<'_>) {
        let text = text.trim();
        if text.contains('\n') {
            // What has several lines is no path, but each of them may be one.
            text.lines().for_each(|line| self.see_look(line.trim(), inside));
        } else if let Some(local) = local(text) {
            self.path(&local);
        } else if !is_address(text) {
            self.path(text);
            decoded(text).iter().for_each(|meant| self.path(meant));
        }
    }

    /// A text of which nobody says what it is.
    fn see_text(&mut self, text: &str, sort: Sort, inside: IsInside<'_>) {
        let text = text.trim();
        if !text.contains('\n') && text.len() <= PATH_BYTES_MAX {
            self.see_look(text, inside);
            decoded(text).iter().for_each(|meant| self.see_look(meant, inside));
        }
        self.see_command(text, sort);
    }

    fn see_look(&mut self, text: &str, inside: IsInside<'_>) {
        match look_at(text) {
            Look::Nothing => {}
            Look::File(path) => self.path(&path),
            Look::Elsewhere if inside(text) => self.path(text),
            Look::Elsewhere => {
                let short: String = text.chars().take(200).collect();
                self.doubt(format!("something in its arguments looks like a path: {short}"));
            }
        }
    }

    /// A text that may be meant as a command.
    fn see_command(&mut self, text: &str, sort: Sort) {
        // What somebody writes in several lines is a text.
        if text.is_empty() || sort == Sort::Prose && text.contains('\n') {
            return;
        }
        self.looked_at = self.looked_at.saturating_add(text.len());
        if text.len() > COMMAND_BYTES_MAX || self.looked_at > LOOKED_AT_MAX {
            if sort == Sort::Anything {
                self.doubt("its arguments have more text than is looked at".to_owned());
            }
            return;
        }
        if let Some(why) = objection(text, sort == Sort::Anything) {
            self.doubt(format!("something in its arguments looks like a command: {why}"));
        }
    }

    fn doubt(&mut self, why: String) {
        self.murk.get_or_insert(why);
    }

    /// Nothing yet, for what is gathered by itself.
    fn apart(&self) -> Self {
        Self { looked_at: self.looked_at, ..Self::default() }
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
        self.murk = self.murk.take().or(found.murk);
        self.looked_at = self.looked_at.max(found.looked_at);
    }

    fn path(&mut self, text: &str) {
        let text = text.trim();
        if text.len() > PATH_BYTES_MAX {
            self.doubt(format!("a path in its arguments has {} bytes", text.len()));
        } else if !text.is_empty()
            && self.paths.len() <= PATHS_MAX
            && self.paths.last().is_none_or(|last| last != text)
        {
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

/// Whether a text may be meant as anything, or is one that people write and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Anything,
    Prose,
}

/// What a member holds, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Path,
    Command,
    /// The rest of a command whose program stands beside it.
    Arguments,
    /// What is written somewhere.
    Content,
    /// What is for people to read.
    Prose,
    /// What is left out of something.
    Apart,
    /// One of several of which nobody knows what they are.
    Listed,
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
            "command" | "cmd" | "commands" | "commandline" | "script" | "shell" | "bash" | "sh"
            | "zsh" | "powershell" | "program" | "executable" | "exe" | "binary" | "bin" => {
                Self::Command
            }
            "args" | "argv" | "arguments" => Self::Arguments,
            "content" | "contents" | "text" | "newtext" | "newstr" | "newstring" | "newcontent"
            | "oldtext" | "oldstr" | "oldstring" | "filetext" | "filecontent" | "data" | "body"
            | "patch" | "diff" => Self::Content,
            "message" | "description" | "comment" | "prompt" | "query" | "q" | "question"
            | "answer" | "summary" | "title" | "subject" | "note" | "notes" | "html"
            | "markdown" | "reason" | "thought" => Self::Prose,
            "source" | "sources" | "destination" | "src" | "dst" | "dest" | "target"
            | "location" | "locations" | "cwd" | "directories" | "folders" | "repo"
            | "notebook" | "workspace" => Self::Path,
            name if name.contains("exclude") || name.contains("ignore") => Self::Apart,
            name => {
                const ENDS: &[&str] = &[
                    "path",
                    "paths",
                    "file",
                    "files",
                    "filename",
                    "filenames",
                    "dir",
                    "directory",
                    "folder",
                    "root",
                    "uri",
                    "uris",
                ];
                if ENDS.iter().any(|end| name.ends_with(end)) { Self::Path } else { Self::Other }
            }
        }
    }

    /// What a member of this name is, within one of this role: what lies in a file is content, and a
    /// path may be an object that holds it.
    fn within(self, name: &str) -> Self {
        match (Self::of(name), self) {
            (Self::Other, Self::Listed) => Self::Other,
            (Self::Other, outer) => outer,
            (own, _) => own,
        }
    }
}

/// Takes the facts of one value.
struct Gather<'f, 'i> {
    facts: &'f mut Facts,
    role: Role,
    inside: IsInside<'i>,
}

impl<'de> DeserializeSeed<'de> for Gather<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Gather<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.facts.see(self.role, text, self.inside);
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
        let Self { facts, role, inside } = self;
        let each = match role {
            Role::Command | Role::Arguments => Role::Arguments,
            Role::Other | Role::Listed => Role::Listed,
            role => {
                while sequence.next_element_seed(Gather { facts, role, inside })?.is_some() {}
                return Ok(());
            }
        };
        // A list may be one command: its words, in a form that the shell would take them from.
        let mut words = facts.apart();
        let mut line = String::new();
        while sequence
            .next_element_seed(Gather { facts: &mut words, role: each, inside })?
            .is_some()
        {
            let word = std::mem::take(&mut words.words);
            if line.len() <= COMMAND_BYTES_MAX {
                let space = if line.is_empty() { "" } else { " " };
                line = format!("{line}{space}{}", quoted(&word));
            }
        }
        facts.join(words);
        match role {
            Role::Command => add(&mut facts.command, &line, COMMAND_BYTES_MAX),
            Role::Arguments => add(&mut facts.words, &line, COMMAND_BYTES_MAX),
            _ => facts.see_command(&line, Sort::Prose),
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { facts, role: outer, inside } = self;
        // A program and its arguments may stand beside each other, in any order.
        let (mut programs, mut arguments) = (facts.apart(), facts.apart());
        while let Some(name) = map.next_key::<String>()? {
            facts.see_text(&name, Sort::Prose, inside);
            // What lies under the name of a file is what is in it.
            let is_file = outer == Role::Path && name.contains(['/', '.', '\\']);
            if is_file {
                facts.see_path(&name, inside);
            }
            let role = if is_file { Role::Content } else { outer.within(&name) };
            let to = match role {
                Role::Command => &mut programs,
                Role::Arguments => &mut arguments,
                _ => &mut *facts,
            };
            map.next_value_seed(Gather { facts: to, role, inside })?;
        }
        let words = std::mem::take(&mut arguments.words);
        if programs.command.is_empty() {
            // Which program they are for, only the server knows.
            arguments.see_command(&words, Sort::Anything);
        } else if !words.is_empty() {
            programs.command = format!("{} {words}", programs.command);
        }
        facts.join(programs);
        facts.join(arguments);
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
