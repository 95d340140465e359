//! What is on the simulated disk: nodes with contents or names, each as seen and as durable.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};

use countersign_runtime::disk::{Kind, Op, Stat};

use super::{DiskFault, Script};

/// A change of contents that is not durable yet.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { at: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Change {
    pub(super) fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => {
                let end = at + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to.get_mut(*at..end).unwrap().copy_from_slice(bytes);
            }
            Self::SetLen(len) => to.resize(*len, 0),
        }
    }
}

/// A change of names that is not durable yet.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Set(OsString, usize),
    Unset(OsString),
    Move(OsString, OsString, usize),
}

pub(super) type Names = BTreeMap<OsString, usize>;

impl NameChange {
    pub(super) fn apply(&self, to: &mut Names) {
        match self {
            Self::Set(name, node) => {
                to.insert(name.clone(), *node);
            }
            Self::Unset(name) => {
                to.remove(name);
            }
            Self::Move(from, name, node) => {
                to.remove(from);
                to.insert(name.clone(), *node);
            }
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    File { now: Vec<u8>, durable: Vec<u8>, pending: Vec<Change>, locked_by: Option<u64> },
    Dir { now: Names, durable: Names, pending: Vec<NameChange> },
    Other,
}

impl Node {
    pub(super) const fn file() -> Self {
        Self::File { now: Vec::new(), durable: Vec::new(), pending: Vec::new(), locked_by: None }
    }

    pub(super) const fn dir() -> Self {
        Self::Dir { now: Names::new(), durable: Names::new(), pending: Vec::new() }
    }
}

/// The root directory.
const ROOT: usize = 0;

pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    pub(super) capacity: Option<u64>,
    pub(super) operations: u64,
    pub(super) script: Option<Script>,
    pub(super) dead: bool,
    handles: u64,
}

impl Default for World {
    fn default() -> Self {
        Self::with(vec![Node::dir()], None)
    }
}

impl World {
    pub(super) fn with(nodes: Vec<Node>, capacity: Option<u64>) -> Self {
        Self { nodes, capacity, operations: 0, script: None, dead: false, handles: 0 }
    }

    pub(super) fn restarted(&self) -> Self {
        let mut nodes = self.nodes.clone();
        for node in &mut nodes {
            if let Node::File { locked_by, .. } = node {
                *locked_by = None;
            }
        }
        Self::with(nodes, self.capacity)
    }

    /// Counts an operation and asks the script about it. An error if the process is dead.
    pub(super) fn decide(&mut self, op: Op, path: &Path) -> io::Result<DiskFault> {
        if self.dead {
            return Err(dead());
        }
        self.operations += 1;
        let count = self.operations;
        let fault = self.script.as_mut().map_or(DiskFault::None, |script| script(op, path, count));
        if fault == DiskFault::Die {
            self.dead = true;
            return Err(dead());
        }
        Ok(fault)
    }

    pub(super) fn new_handle(&mut self) -> u64 {
        self.handles += 1;
        self.handles
    }

    pub(super) fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The directory that holds the last part of a path, and that part.
    pub(super) fn place(&self, path: &Path) -> io::Result<(usize, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let dir = self.find_dir(path.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
        Ok((dir, name.to_owned()))
    }

    pub(super) fn find_dir(&self, path: &Path) -> io::Result<usize> {
        let mut at = ROOT;
        for part in path.components() {
            if let Component::Normal(name) = part {
                at = self.entry(at, name).ok_or(io::ErrorKind::NotFound)?;
            }
            if !matches!(self.nodes.get(at), Some(Node::Dir { .. })) {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        Ok(at)
    }

    pub(super) fn entry(&self, dir: usize, name: &OsStr) -> Option<usize> {
        match self.nodes.get(dir) {
            Some(Node::Dir { now, .. }) => now.get(name).copied(),
            _ => None,
        }
    }

    pub(super) fn names(&self, dir: usize) -> Vec<OsString> {
        match self.nodes.get(dir) {
            Some(Node::Dir { now, .. }) => now.keys().cloned().collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn is_file(&self, node: usize) -> bool {
        matches!(self.nodes.get(node), Some(Node::File { .. }))
    }

    pub(super) fn change(&mut self, dir: usize, change: NameChange) {
        if let Some(Node::Dir { now, pending, .. }) = self.nodes.get_mut(dir) {
            change.apply(now);
            pending.push(change);
        }
    }

    pub(super) fn sync_names(&mut self, dir: usize) {
        if let Some(Node::Dir { now, durable, pending }) = self.nodes.get_mut(dir) {
            durable.clone_from(now);
            pending.clear();
        }
    }

    pub(super) fn stat(&self, node: usize) -> Stat {
        let linked = self.nodes.iter().any(|holder| match holder {
            Node::Dir { now, .. } => now.values().any(|&held| held == node),
            _ => false,
        });
        let (len, kind) = match self.nodes.get(node) {
            Some(Node::File { now, .. }) => (now.len() as u64, Kind::File),
            Some(Node::Dir { .. }) => (0, Kind::Dir),
            _ => (0, Kind::Other),
        };
        Stat { len, kind, linked }
    }

    /// How many bytes there is still room for.
    pub(super) fn room(&self) -> u64 {
        let used: usize = self
            .nodes
            .iter()
            .map(|node| if let Node::File { now, .. } = node { now.len() } else { 0 })
            .sum();
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(used as u64))
    }

    fn find(&self, path: &Path) -> Option<usize> {
        let (dir, name) = self.place(path).ok()?;
        self.entry(dir, &name)
    }

    pub(super) fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        match self.nodes.get(self.find(path)?)? {
            Node::File { now, .. } => Some(now.clone()),
            _ => None,
        }
    }

    pub(super) fn damage(&mut self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let node = self.find(path).unwrap();
        if let Some(Node::File { now, durable, pending, .. }) = self.nodes.get_mut(node) {
            change(now);
            durable.clone_from(now);
            pending.clear();
        }
    }

    pub(super) fn plant_other(&mut self, path: &Path) {
        let (dir, name) = self.place(path).unwrap();
        let node = self.add(Node::Other);
        self.change(dir, NameChange::Set(name, node));
        self.sync_names(dir);
    }
}

pub(super) fn dead() -> io::Error {
    io::Error::other("the process is dead")
}
