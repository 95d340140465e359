//! A small workspace, the files of an answer, and people who edit meanwhile.

mod crash;
mod edits;
mod links;
mod planning;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use countersign_format::envelope::Operation;
use countersign_format::hash::Hash;
use countersign_format::path::WorkspacePath;
use rustix::io::Errno;

use super::apply::{ApplyFailed, apply_watched};
use super::moves::Change;
use super::plan::{FileWish, FilesRefused, PlannedFile, plan};
use super::root::FileRoot;
use super::seen::{Reach, Seen};

/// A directory in memory where there is one: the tests crash thousands of times.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("directory")
}

/// Long after everything that was written so far.
fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600)
}

/// A workspace root.
struct Ground {
    held: tempfile::TempDir,
    root: FileRoot,
}

/// Every file below a directory with its bytes, links with their targets, empty directories as
/// such.
type Tree = BTreeMap<String, String>;

impl Ground {
    fn new(files: &[(&str, &str)]) -> Self {
        let held = directory();
        let root = FileRoot::open(held.path()).expect("root");
        let ground = Self { held, root };
        for (path, text) in files {
            ground.write(path, text);
        }
        ground
    }

    fn path(&self, path: &str) -> PathBuf {
        self.held.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let whole = self.path(path);
        fs::create_dir_all(whole.parent().expect("parent")).expect("directories");
        fs::write(whole, text).expect("write");
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        collect(self.held.path(), "", &mut tree);
        tree
    }

    fn seen(&self) -> Seen {
        Seen::look(&self.root, &|_| Reach::Within, later()).expect("look")
    }
}

fn collect(directory: &Path, above: &str, tree: &mut Tree) {
    for entry in fs::read_dir(directory).expect("list") {
        let entry = entry.expect("entry");
        let path = format!("{above}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().expect("kind");
        if kind.is_symlink() {
            let target = fs::read_link(entry.path()).expect("link");
            tree.insert(path, format!("-> {}", target.display()));
        } else if kind.is_dir() {
            let before = tree.len();
            collect(&entry.path(), &format!("{path}/"), tree);
            if tree.len() == before {
                tree.insert(format!("{path}/"), String::new());
            }
        } else {
            let bytes = fs::read(entry.path()).expect("read");
            tree.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect()
}

/// A file of an answer.
#[derive(Debug, Clone)]
struct Wanted {
    path: WorkspacePath,
    operation: Operation,
    text: String,
}

impl Wanted {
    fn as_wish(&self) -> FileWish<'_> {
        FileWish { path: &self.path, operation: self.operation, content: self.text.as_bytes() }
    }
}

fn wanted(operation: Operation, path: &str, text: &str) -> Wanted {
    let path = WorkspacePath::parse(path).expect("path");
    Wanted { path, operation, text: text.to_owned() }
}

fn create(path: &str, text: &str) -> Wanted {
    wanted(Operation::Create, path, text)
}

fn update(path: &str, text: &str) -> Wanted {
    wanted(Operation::Update, path, text)
}

fn wishes(wanted: &[Wanted]) -> Vec<FileWish<'_>> {
    wanted.iter().map(Wanted::as_wish).collect()
}

fn plan_all(
    ground: &Ground,
    wanted: &[Wanted],
    seen: &Seen,
) -> Result<Vec<PlannedFile>, FilesRefused> {
    plan(&ground.root, &wishes(wanted), &|_| true, seen, &|_| None)
}

/// What the file system can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Able {
    /// Everything.
    Whole,
    /// It cannot exchange two names.
    NoExchange,
    /// Nor rename without replacing.
    NoFlags,
}

const ABILITIES: [Able; 3] = [Able::Whole, Able::NoExchange, Able::NoFlags];

impl Able {
    fn answer(self, change: Change) -> io::Result<()> {
        let refused = match change {
            Change::Exchange => self != Self::Whole,
            Change::Stage
            | Change::Place
            | Change::SetAside
            | Change::Return
            | Change::Withdraw => self == Self::NoFlags,
            _ => false,
        };
        if refused { Err(Errno::INVAL.into()) } else { Ok(()) }
    }
}

/// What happens before a change, by the number of the change.
enum Event {
    Nothing,
    Crash,
    Fail,
}

/// Unwinds like a killed process leaves: nothing more is done.
struct Killed;

/// An answer that is applied, again and again with the same plan.
struct Run<'a> {
    ground: &'a Ground,
    wanted: &'a [Wanted],
    planned: Vec<PlannedFile>,
    able: Able,
    kept: RefCell<Vec<(String, String)>>,
}

impl<'a> Run<'a> {
    fn new(ground: &'a Ground, wanted: &'a [Wanted], able: Able) -> Self {
        let planned = plan_all(ground, wanted, &ground.seen()).expect("plan");
        Self { ground, wanted, planned, able, kept: RefCell::default() }
    }

    /// Applies with something happening before each change. `None` means that it was killed.
    fn apply_with(
        &self,
        mut happens: impl FnMut(usize, Change, &str) -> Event,
    ) -> Option<Result<(), ApplyFailed>> {
        let mut number = 0;
        let mut watcher = |change: Change, path: &str| {
            let event = happens(number, change, path);
            number += 1;
            match event {
                Event::Nothing => self.able.answer(change),
                Event::Crash => std::panic::resume_unwind(Box::new(Killed)),
                Event::Fail => Err(Errno::IO.into()),
            }
        };
        let content = |index: usize| Some(self.wanted.get(index)?.text.clone().into_bytes());
        let mut keep = |path: &str, bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.kept.borrow_mut().push((path.to_owned(), text));
            Ok(())
        };
        let apply = std::panic::AssertUnwindSafe(|| {
            let root = &self.ground.root;
            apply_watched(root, "t1", &self.planned, &content, &mut keep, &mut watcher)
        });
        match std::panic::catch_unwind(apply) {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Killed>() => None,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    }

    fn apply(&self) -> Result<(), ApplyFailed> {
        self.apply_with(|_, _, _| Event::Nothing).expect("not killed")
    }

    /// The changes that applying makes.
    fn changes(&self) -> Vec<(Change, String)> {
        let mut changes = Vec::new();
        let result = self.apply_with(|_, change, path| {
            changes.push((change, path.to_owned()));
            Event::Nothing
        });
        result.expect("not killed").expect("applied");
        changes
    }
}

fn hash(text: &str) -> Hash {
    Hash::of(text.as_bytes())
}
