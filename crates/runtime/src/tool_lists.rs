//! What a server's tools looked like when somebody last agreed to them.
//!
//! The first list that a server ever shows is taken as it is. A tool that later looks different, or is
//! new, is held: its calls wait for a person. What a tool does, whatever it looks like, is not seen
//! here. One file for each server, `tools/<name>.json` in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use countersign_format::hash::Hash;
use countersign_format::json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::disk::{Access, DiskFile, Durability, read_full, replace_file};
use crate::store::StoreError;
use crate::workspace::{Workspace, WorkspaceError};

/// The version of the file's shape.
const SCHEMA: &str = "1.0.0";
/// Bytes of one such file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Tools of one server that are kept; whatever comes after them counts as never listed.
const TOOLS_MAX: usize = 10_000;
/// Bytes of a tool's name.
const NAME_BYTES_MAX: usize = 1_024;
/// Characters of a server's name that go into the name of its file.
const FILE_NAME_MAX: usize = 80;
/// Characters of a description that are kept, to be shown when it changes.
const DESCRIPTION_MAX: usize = 500;
/// The one member of a listed tool that is no part of its shape.
const NAME: &str = "name";

/// A tool as a server lists it: the hash of each of its members but its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolShape(BTreeMap<String, Hash>);

impl ToolShape {
    /// The shape of one element of a list.
    #[must_use]
    pub fn of(tool: &Value) -> Self {
        let members = tool.as_object().into_iter().flatten().filter(|(name, _)| *name != NAME);
        Self(members.map(|(name, value)| (name.clone(), hash(value))).collect())
    }

    /// The members in which two shapes differ.
    fn differences<'s>(&'s self, other: &'s Self) -> Vec<&'s str> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let differ = |name: &&String| self.0.get(*name) != other.0.get(*name);
        names.into_iter().filter(differ).map(String::as_str).collect()
    }

    /// One hash for all of it.
    #[must_use]
    pub fn fingerprint(&self) -> Hash {
        hash(&serde_json::to_value(&self.0).unwrap_or_default())
    }
}

fn hash(value: &Value) -> Hash {
    Hash::of(&json::to_bytes(value))
}

/// What a page of a list says of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTool {
    /// Its name.
    pub name: String,
    /// What it looks like.
    pub shape: ToolShape,
    /// How it describes itself, without secrets.
    pub description: String,
}

/// Which page of a list it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListPage {
    /// The first one, or the only one, that a client asked for.
    First,
    /// The same, if nobody asked for it but us: the client does not see it, so it frees no tool.
    Own,
    /// One that goes on with a list.
    Next {
        /// Whether the server named it in the first list that was ever seen, and it comes once.
        trusted: bool,
    },
}

/// A tool that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldTool {
    /// What it looks like now; none if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<ToolShape>,
    /// Why it waits.
    because: String,
    /// How it describes itself now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
}

/// Why calls of a tool wait for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldReason {
    /// In words.
    pub why: String,
    /// What the tool looks like that is waited for; none where there is nothing to agree to.
    pub shape: Option<Hash>,
}

/// The tools of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolList {
    schema_version: String,
    server: String,
    /// Those that were agreed to.
    approved: BTreeMap<String, ToolShape>,
    /// How those described themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    descriptions: BTreeMap<String, String>,
    /// Those that wait.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    held: BTreeMap<String, HeldTool>,
}

impl ToolList {
    /// The list of a server that has shown none.
    #[must_use]
    pub fn new(server: &str) -> Self {
        Self {
            schema_version: SCHEMA.to_owned(),
            server: server.to_owned(),
            approved: BTreeMap::new(),
            descriptions: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// Takes a page in; gives the names of the tools that are not as they were agreed to. `trusting`
    /// says that the page belongs to the first list that was ever seen: new tools are agreed to.
    fn take(&mut self, page: &[ListedTool], which: ListPage, trusting: bool) -> Vec<String> {
        let mut changed = Vec::new();
        let mut seen = BTreeSet::new();
        for tool in page {
            let twice = !seen.insert(tool.name.as_str());
            if tool.name.len() > NAME_BYTES_MAX || self.is_full() && !self.knows(&tool.name) {
                continue;
            }
            let because = match self.approved.get(&tool.name) {
                _ if twice => Some("it is listed twice".to_owned()),
                Some(old) if tool.shape == *old => None,
                Some(old) => {
                    let parts = tool.shape.differences(old).join(", ");
                    Some(format!("it has another {}", cut(&parts)))
                }
                None if trusting => None,
                None => Some("it is new".to_owned()),
            };
            let description = cut(&tool.description);
            match because {
                Some(because) => {
                    changed.push(tool.name.clone());
                    let shape = (!twice).then(|| tool.shape.clone());
                    let held = HeldTool { shape, because, description };
                    self.held.insert(tool.name.clone(), held);
                }
                // A page that follows may say the opposite of the one before, and what we asked for
                // ourselves nobody else has seen: neither frees a tool.
                None if which == ListPage::First || !self.held.contains_key(&tool.name) => {
                    self.held.remove(&tool.name);
                    self.approve(&tool.name, tool.shape.clone(), description);
                }
                None => changed.push(tool.name.clone()),
            }
        }
        changed
    }

    fn approve(&mut self, tool: &str, shape: ToolShape, description: String) {
        self.approved.insert(tool.to_owned(), shape);
        self.descriptions.insert(tool.to_owned(), description);
    }

    fn is_full(&self) -> bool {
        self.approved.len() + self.held.len() >= TOOLS_MAX
    }

    fn knows(&self, tool: &str) -> bool {
        self.approved.contains_key(tool) || self.held.contains_key(tool)
    }

    /// Why calls of this tool wait for a person, if they do.
    #[must_use]
    pub fn why_held(&self, tool: &str) -> Option<HoldReason> {
        let server = &self.server;
        let Some(held) = self.held.get(tool) else {
            let why = format!("the tool `{tool}` of `{server}` was never listed here");
            return (!self.approved.contains_key(tool)).then_some(HoldReason { why, shape: None });
        };
        let mut why = match self.approved.contains_key(tool) {
            true => format!("the tool `{tool}` of `{server}` changed since it was agreed to: "),
            false => format!("the tool `{tool}` of `{server}` was not agreed to yet: "),
        };
        why.push_str(&held.because);
        match self.descriptions.get(tool) {
            Some(old) if *old != held.description => {
                why += &format!("; it was described as: {old}; it is now: {}", held.description);
            }
            Some(_) => {}
            None => why += &format!("; it is described as: {}", held.description),
        }
        let shape = held.shape.as_ref().map(ToolShape::fingerprint);
        if let Some(shape) = shape {
            // Who agrees agrees to this shape: a question about another one is another question.
            why += &format!("; listed as {}", shape.to_hex().get(..16).unwrap_or_default());
        }
        Some(HoldReason { why, shape })
    }

    /// The tools that wait, each with the reason.
    pub fn held(&self) -> impl Iterator<Item = (&str, &str)> {
        self.held.iter().map(|(name, held)| (name.as_str(), held.because.as_str()))
    }

    /// Agrees to a tool as it was last listed. One that looks different to different readers stays
    /// held: there is no one thing to agree to.
    fn accept(&mut self, tool: &str) {
        if let Some(HeldTool { shape: Some(shape), description, .. }) = self.held.get(tool).cloned()
        {
            self.approve(tool, shape, description);
            self.held.remove(tool);
        }
    }

    /// Agrees to a tool in this shape; says whether it has that shape.
    fn accept_shape(&mut self, tool: &str, shape: Hash) -> bool {
        let held = self.held.get(tool).map(|held| &held.shape);
        match (held, self.approved.get(tool)) {
            (Some(Some(held)), _) if held.fingerprint() == shape => self.accept(tool),
            (None, Some(approved)) if approved.fingerprint() == shape => {}
            _ => return false,
        }
        true
    }
}

/// The beginning of a text, on one line.
fn cut(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let short: String = text.chars().take(DESCRIPTION_MAX).map(plain).collect();
    if text.chars().nth(DESCRIPTION_MAX).is_some() { short + "…" } else { short }
}

/// The lists of a workspace.
#[derive(Debug, Clone)]
pub struct ToolLists {
    workspace: Workspace,
}

impl ToolLists {
    /// Those of this workspace.
    #[must_use]
    pub const fn of(workspace: Workspace) -> Self {
        Self { workspace }
    }

    /// The list of a server, if it ever showed one.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn get(&self, server: &str) -> Result<Option<ToolList>, WorkspaceError> {
        let disk = &**self.workspace.store().disk();
        let file = match disk.open(&self.path(server), Access::Read) {
            Ok(file) => file,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(StoreError::from(error).into()),
        };
        let length = file.stat().map_err(StoreError::from)?.len;
        if length > FILE_BYTES_MAX {
            return Err(unreadable(format!("it has {length} bytes")));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let read = read_full(&*file, 0, &mut bytes).map_err(StoreError::from)?;
        bytes.truncate(read);
        let list: ToolList =
            serde_json::from_slice(&bytes).map_err(|it| unreadable(it.to_string()))?;
        if list.schema_version != SCHEMA {
            return Err(unreadable(format!("it has schema version `{}`", list.schema_version)));
        }
        Ok(Some(list))
    }

    /// Takes a page of a server's list in. `record` is told the names of the tools that are not as they
    /// were agreed to; only what it has recorded is kept. Says whether the page was trusted.
    ///
    /// # Errors
    /// The list could not be read, recorded or kept.
    pub fn take(
        &self,
        server: &str,
        page: &[ListedTool],
        which: ListPage,
        record: impl FnOnce(&[String]) -> Result<(), WorkspaceError>,
    ) -> Result<bool, WorkspaceError> {
        let mut trusting = false;
        self.change(server, |known| {
            trusting = match which {
                ListPage::First | ListPage::Own => known.is_none(),
                ListPage::Next { trusted } => trusted,
            };
            let mut list = known.unwrap_or_else(|| ToolList::new(server));
            let changed = list.take(page, which, trusting);
            record(&changed)?;
            Ok(list)
        })?;
        Ok(trusting)
    }

    /// Agrees to one tool in this shape; says whether it still has it. In any other it stays as it is.
    ///
    /// # Errors
    /// The list could not be read or kept.
    pub fn accept(&self, server: &str, tool: &str, shape: Hash) -> Result<bool, WorkspaceError> {
        let mut accepted = false;
        self.change(server, |known| {
            let mut list = known.unwrap_or_else(|| ToolList::new(server));
            accepted = list.accept_shape(tool, shape);
            Ok(list)
        })?;
        Ok(accepted)
    }

    /// Agrees to all tools of a server as they were last listed; gives their names.
    ///
    /// # Errors
    /// The list could not be read or kept.
    pub fn accept_all(&self, server: &str) -> Result<Vec<String>, WorkspaceError> {
        let mut accepted = Vec::new();
        if self.get(server)?.is_none() {
            return Ok(accepted);
        }
        self.change(server, |known| {
            let mut list = known.unwrap_or_else(|| ToolList::new(server));
            let names: Vec<String> = list.held.keys().cloned().collect();
            for name in names {
                list.accept(&name);
                if !list.held.contains_key(&name) {
                    accepted.push(name);
                }
            }
            Ok(list)
        })?;
        Ok(accepted)
    }

    /// Changes a list, alone. When it returns, the list survives power loss.
    fn change(
        &self,
        server: &str,
        change: impl FnOnce(Option<ToolList>) -> Result<ToolList, WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let _turn = self.turn()?;
        let before = self.get(server)?;
        let list = change(before.clone())?;
        if before.as_ref() != Some(&list) {
            let bytes = json::to_bytes(&serde_json::to_value(&list).unwrap_or_default());
            if bytes.len() as u64 > FILE_BYTES_MAX {
                // What could not be read again would keep every call from running.
                return Err(unreadable(format!("it would have {} bytes", bytes.len())));
            }
            let disk = &**self.workspace.store().disk();
            replace_file(disk, &self.path(server), &bytes, Durability::Synced)
                .map_err(StoreError::from)?;
        }
        Ok(())
    }

    fn turn(&self) -> Result<Box<dyn DiskFile>, WorkspaceError> {
        let dir = self.dir();
        self.workspace.store().ensure_dir(&dir)?;
        let lock = self.workspace.store().disk().open(&dir.join("lock"), Access::Create);
        let lock = lock.map_err(StoreError::from)?;
        lock.lock_exclusive().map_err(StoreError::from)?;
        Ok(lock)
    }

    fn dir(&self) -> PathBuf {
        self.workspace.home().join("tools")
    }

    fn path(&self, server: &str) -> PathBuf {
        self.dir().join(file_name(server))
    }
}

/// A server's name as the name of a file: no two servers have the same.
fn file_name(server: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    if !server.is_empty() && server.len() <= FILE_NAME_MAX && server.chars().all(plain) {
        return format!("{server}.json");
    }
    let short: String = server.chars().filter(|it| plain(*it)).take(FILE_NAME_MAX).collect();
    let hash = Hash::of(server.as_bytes()).to_hex();
    format!("{short}.{}.json", hash.get(..16).unwrap_or_default())
}

fn unreadable(what: String) -> WorkspaceError {
    WorkspaceError::Io {
        doing: "read the list of a server's tools",
        source: io::Error::new(io::ErrorKind::InvalidData, what),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> ListedTool {
        let listed = json!({ "name": name, "description": description, "inputSchema": {} });
        let (name, description) = (name.to_owned(), description.to_owned());
        ListedTool { name, shape: ToolShape::of(&listed), description }
    }

    const NEXT: ListPage = ListPage::Next { trusted: false };

    fn none() -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn the_first_list_is_taken_as_it_is_and_later_changes_are_held() {
        let mut list = ToolList::new("s");
        assert_eq!(list.take(&[tool("a", "1"), tool("b", "1")], ListPage::First, true), none());
        assert_eq!(list.why_held("a"), None);
        let later = [tool("a", "2"), tool("b", "1"), tool("c", "1")];
        assert_eq!(list.take(&later, ListPage::First, false), ["a", "c"]);
        let why = |tool: &str| list.why_held(tool).unwrap().why;
        let begins = "the tool `a` of `s` changed since it was agreed to: it has another description; \
                      it was described as: 1; it is now: 2; listed as ";
        assert!(why("a").starts_with(begins), "{}", why("a"));
        let begins =
            "the tool `c` of `s` was not agreed to yet: it is new; it is described as: 1; ";
        assert!(why("c").starts_with(begins), "{}", why("c"));
        assert_eq!(why("d"), "the tool `d` of `s` was never listed here");
        assert_eq!(list.why_held("b"), None);
    }

    #[test]
    fn a_tool_is_free_again_when_it_is_accepted_or_looks_as_before() {
        let mut list = ToolList::new("s");
        list.take(&[tool("a", "1"), tool("b", "1")], ListPage::First, true);
        list.take(&[tool("a", "2"), tool("b", "2")], ListPage::First, false);
        list.accept("a");
        assert_eq!(list.why_held("a"), None);
        let before = [tool("a", "2"), tool("b", "1")];
        for unseen in [NEXT, ListPage::Own] {
            assert_eq!(list.take(&before, unseen, false), ["b"], "{unseen:?}");
        }
        assert_eq!(list.take(&before, ListPage::First, false), none());
        assert_eq!(list.held().count(), 0);
    }

    #[test]
    fn what_is_agreed_to_is_one_shape_and_no_other() {
        let mut list = ToolList::new("s");
        list.take(&[tool("a", "1")], ListPage::First, true);
        list.take(&[tool("a", "2")], ListPage::First, false);
        let shown = list.why_held("a").unwrap().shape.unwrap();
        list.take(&[tool("a", "3")], ListPage::First, false);
        assert!(!list.accept_shape("a", shown));
        assert!(list.why_held("a").unwrap().why.contains("it is now: 3"));
        let shown = list.why_held("a").unwrap().shape.unwrap();
        assert!(list.accept_shape("a", shown) && list.accept_shape("a", shown));
        assert_eq!(list.why_held("a"), None);
    }

    #[test]
    fn what_is_listed_twice_cannot_be_accepted() {
        let mut list = ToolList::new("s");
        assert_eq!(list.take(&[tool("b", "1"), tool("b", "2")], ListPage::First, true), ["b"]);
        list.accept("b");
        assert_eq!(list.held().collect::<Vec<_>>(), [("b", "it is listed twice")]);
    }

    #[test]
    fn every_member_that_changed_is_named_and_order_is_no_change() {
        let shape = |value: Value| ToolShape::of(&value);
        let old =
            shape(json!({ "name": "a", "description": "d", "inputSchema": { "a": 1, "b": 2 } }));
        let same = shape(json!({ "inputSchema": { "b": 2, "a": 1 }, "description": "d" }));
        assert_eq!(old, same);
        let new = shape(json!({ "inputSchema": {}, "_meta": {}, "description": "d" }));
        assert_eq!(new.differences(&old), ["_meta", "inputSchema"]);
    }

    #[test]
    fn names_of_servers_become_names_of_files_that_stay_apart() {
        assert_eq!(file_name("git-1_x"), "git-1_x.json");
        let odd = ["a/b", "a.b", "../ab", "", ".", "ab\n"].map(file_name);
        for (at, name) in odd.iter().enumerate() {
            assert!(!name.contains('/') && !name.starts_with("..") && name.len() < 128, "{name}");
            assert!(!odd.iter().skip(at + 1).any(|other| other == name), "{name}");
        }
    }
}
