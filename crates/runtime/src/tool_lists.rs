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
/// The members of a listed tool that make up what a model and a person see of it.
const PARTS: [&str; 5] = ["title", "description", "inputSchema", "outputSchema", "annotations"];

/// A tool as a server lists it: the hash of each part that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolShape(BTreeMap<String, Hash>);

impl ToolShape {
    /// The shape of one element of a list.
    #[must_use]
    pub fn of(tool: &Value) -> Self {
        let parts = PARTS.iter().filter_map(|part| Some((*part, tool.get(part)?)));
        Self(parts.map(|(part, value)| (part.to_owned(), hash(value))).collect())
    }

    /// The parts in which two shapes differ.
    fn differences(&self, other: &Self) -> Vec<&'static str> {
        PARTS.into_iter().filter(|part| self.0.get(*part) != other.0.get(*part)).collect()
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
    /// What it looks like; none where two readers could see different things.
    pub shape: Option<ToolShape>,
}

/// Which page of a list it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListPage {
    /// The first one, or the only one.
    First,
    /// One that goes on with a list that began in this run.
    Next,
}

/// A tool that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldTool {
    /// What it looks like now; none if that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<ToolShape>,
    /// Why it waits.
    because: String,
}

/// The tools of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolList {
    schema_version: String,
    server: String,
    /// Those that were agreed to.
    approved: BTreeMap<String, ToolShape>,
    /// Those that wait.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    held: BTreeMap<String, HeldTool>,
}

impl ToolList {
    fn new(server: &str) -> Self {
        Self {
            schema_version: SCHEMA.to_owned(),
            server: server.to_owned(),
            approved: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    /// Takes a page in; gives the names of the tools that are not as they were agreed to. `trusting`
    /// says that the page belongs to the first list that was ever seen: new tools are agreed to.
    fn take(&mut self, page: &[ListedTool], trusting: bool) -> Vec<String> {
        let mut changed = Vec::new();
        let mut seen = BTreeSet::new();
        for tool in page {
            let twice = !seen.insert(tool.name.as_str());
            if tool.name.len() > NAME_BYTES_MAX || self.is_full() && !self.knows(&tool.name) {
                continue;
            }
            let old = self.approved.get(&tool.name);
            let because = match (&tool.shape, old) {
                _ if twice => Some("it is listed twice".to_owned()),
                (None, _) => Some("its listing can be read in two ways".to_owned()),
                (Some(new), Some(old)) if new == old => None,
                (Some(new), Some(old)) => {
                    Some(format!("it has another {}", new.differences(old).join(", ")))
                }
                (Some(_), None) if trusting => None,
                (Some(_), None) => Some("it is new".to_owned()),
            };
            match (because, &tool.shape) {
                (Some(because), shape) => {
                    changed.push(tool.name.clone());
                    let held = HeldTool { shape: shape.clone().filter(|_| !twice), because };
                    self.held.insert(tool.name.clone(), held);
                }
                (None, Some(shape)) => {
                    self.held.remove(&tool.name);
                    self.approved.insert(tool.name.clone(), shape.clone());
                }
                (None, None) => {}
            }
        }
        changed
    }

    fn is_full(&self) -> bool {
        self.approved.len() + self.held.len() >= TOOLS_MAX
    }

    fn knows(&self, tool: &str) -> bool {
        self.approved.contains_key(tool) || self.held.contains_key(tool)
    }

    /// Why calls of this tool wait for a person, if they do.
    #[must_use]
    pub fn why_held(&self, tool: &str) -> Option<String> {
        let server = &self.server;
        match (self.held.get(tool), self.approved.contains_key(tool)) {
            (Some(held), true) => Some(format!(
                "the tool `{tool}` of `{server}` changed since it was agreed to: {}",
                held.because
            )),
            (Some(held), false) => Some(format!(
                "the tool `{tool}` of `{server}` was not agreed to yet: {}",
                held.because
            )),
            (None, true) => None,
            (None, false) => Some(format!("the tool `{tool}` of `{server}` was never listed here")),
        }
    }

    /// The tools that wait, each with the reason.
    pub fn held(&self) -> impl Iterator<Item = (&str, &str)> {
        self.held.iter().map(|(name, held)| (name.as_str(), held.because.as_str()))
    }

    /// Agrees to a tool as it was last listed. One that looks different to different readers stays
    /// held: there is no one thing to agree to.
    fn accept(&mut self, tool: &str) {
        if let Some(HeldTool { shape: Some(shape), .. }) = self.held.get(tool) {
            self.approved.insert(tool.to_owned(), shape.clone());
            self.held.remove(tool);
        }
    }
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

    /// Takes a page of a server's list in; gives the list, and the names of the tools that are not as
    /// they were agreed to.
    ///
    /// # Errors
    /// The list could not be read or kept.
    pub fn take(
        &self,
        server: &str,
        page: &[ListedTool],
        which: ListPage,
        first_ever: &mut bool,
    ) -> Result<(ToolList, Vec<String>), WorkspaceError> {
        let mut changed = Vec::new();
        let list = self.change(server, |known| {
            // A list in several pages is one list. But a server whose first list never ended must not
            // be able to add to it in a later run.
            *first_ever = match which {
                ListPage::First => known.is_none(),
                ListPage::Next => *first_ever,
            };
            let mut list = known.unwrap_or_else(|| ToolList::new(server));
            changed = list.take(page, *first_ever);
            list
        })?;
        Ok((list, changed))
    }

    /// Agrees to one tool as it was last listed.
    ///
    /// # Errors
    /// The list could not be read or kept.
    pub fn accept(&self, server: &str, tool: &str) -> Result<(), WorkspaceError> {
        let accepted = self.change(server, |known| {
            let mut list = known.unwrap_or_else(|| ToolList::new(server));
            list.accept(tool);
            list
        });
        accepted.map(drop)
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
            list
        })?;
        Ok(accepted)
    }

    /// Changes a list, alone. When it returns, the list survives power loss.
    fn change(
        &self,
        server: &str,
        change: impl FnOnce(Option<ToolList>) -> ToolList,
    ) -> Result<ToolList, WorkspaceError> {
        let _turn = self.turn()?;
        let before = self.get(server)?;
        let list = change(before.clone());
        if before.as_ref() != Some(&list) {
            let bytes = json::to_bytes(&serde_json::to_value(&list).unwrap_or_default());
            let disk = &**self.workspace.store().disk();
            replace_file(disk, &self.path(server), &bytes, Durability::Synced)
                .map_err(StoreError::from)?;
        }
        Ok(list)
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
        ListedTool { name: name.to_owned(), shape: Some(ToolShape::of(&listed)) }
    }

    #[test]
    fn the_first_list_is_taken_as_it_is_and_later_changes_are_held() {
        let mut list = ToolList::new("s");
        assert_eq!(list.take(&[tool("a", "1"), tool("b", "1")], true), Vec::<String>::new());
        assert_eq!(list.why_held("a"), None);
        let later = [tool("a", "2"), tool("b", "1"), tool("c", "1")];
        assert_eq!(list.take(&later, false), ["a", "c"]);
        let why = |tool: &str| list.why_held(tool).unwrap();
        assert_eq!(
            why("a"),
            "the tool `a` of `s` changed since it was agreed to: it has another description"
        );
        assert_eq!(why("c"), "the tool `c` of `s` was not agreed to yet: it is new");
        assert_eq!(why("d"), "the tool `d` of `s` was never listed here");
        assert_eq!(list.why_held("b"), None);
    }

    #[test]
    fn a_tool_is_free_again_when_it_is_accepted_or_looks_as_before() {
        let mut list = ToolList::new("s");
        list.take(&[tool("a", "1"), tool("b", "1")], true);
        list.take(&[tool("a", "2"), tool("b", "2")], false);
        list.accept("a");
        assert_eq!(list.why_held("a"), None);
        assert_eq!(list.take(&[tool("a", "2"), tool("b", "1")], false), Vec::<String>::new());
        assert_eq!(list.held().count(), 0);
    }

    #[test]
    fn what_two_readers_see_differently_cannot_be_accepted() {
        let mut list = ToolList::new("s");
        let murky = ListedTool { name: "a".to_owned(), shape: None };
        assert_eq!(list.take(&[murky], true), ["a"]);
        assert_eq!(list.take(&[tool("b", "1"), tool("b", "2")], true), ["b"]);
        list.accept("a");
        list.accept("b");
        assert_eq!(
            list.held().collect::<Vec<_>>(),
            [("a", "its listing can be read in two ways"), ("b", "it is listed twice")]
        );
    }

    #[test]
    fn every_part_that_changed_is_named_and_order_is_no_change() {
        let shape = |value: Value| ToolShape::of(&value);
        let old =
            shape(json!({ "description": "d", "inputSchema": { "a": 1, "b": 2 }, "icons": 1 }));
        let same = shape(json!({ "inputSchema": { "b": 2, "a": 1 }, "description": "d" }));
        assert_eq!(old, same);
        let new = shape(json!({ "inputSchema": {}, "annotations": {}, "description": "d" }));
        assert_eq!(new.differences(&old), ["inputSchema", "annotations"]);
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
