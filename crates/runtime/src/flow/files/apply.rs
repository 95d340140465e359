//! Writing the planned files, all or none.
//!
//! Called again with the same plan after a crash, it looks how far it came and goes on from there.
//! What somebody else wrote meanwhile is left in its place or put back there; bytes for which there
//! is no place any more are handed to the caller before they go.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use countersign_format::hash::Hash;
use rustix::io::Errno;

use super::moves::{Change, Hands, Spot};
use super::plan::PlannedFile;
use super::root::{
    Content, Directory, Entry, FILE_BYTES_MAX, FileRoot, TEMPORARY_PREFIX, components, is_detour,
    kept_mode, split,
};
use super::table::{self, Back, CHANGED, CREATED, Kind, REMOVED, Row, State};

/// Bytes of the tag in the names of temporary files.
const TAG_BYTES_MAX: usize = 64;

const BEHIND_LINK: &str = "lies behind a link or something else that is no directory";
const MOVED: &str = "lies in a directory that was moved";

/// Why the files were not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyFailed {
    /// Somebody else came first. What they did is in its place.
    #[error("`{path}` {what} since the files were planned; {aftermath}")]
    Conflict { path: String, what: &'static str, aftermath: Aftermath },
    /// The system failed.
    #[error("cannot {doing} `{path}`; {aftermath}")]
    Io { path: String, doing: &'static str, aftermath: Aftermath, source: io::Error },
}

/// How the files are left when they could not be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Aftermath {
    /// As they were.
    #[error("none of the files is written")]
    Undone,
    /// Some may be written: applying again goes on.
    #[error("some of the files may be written, applying them again goes on")]
    Unfinished,
    /// All are written. Applying again removes what is left beside them.
    #[error("the files are written, something may be left beside them")]
    InPlace,
}

/// Why it cannot go on.
#[derive(Debug)]
enum Halt {
    Conflict { path: String, what: &'static str },
    Io { path: String, doing: &'static str, source: io::Error },
}

/// A planned file on its way.
struct Item<'a> {
    index: usize,
    file: &'a PlannedFile,
    kind: Kind,
    /// Not while its directory is missing or cannot be reached.
    spot: Option<Spot>,
    found: Found,
    /// Whether what is in its place was put there by this transaction.
    ours: bool,
}

/// What was found of a file at the start.
#[derive(Debug, Clone, Copy)]
struct Found {
    row: Row,
    place: State,
    temporary: State,
}

struct Transaction<'a> {
    root: &'a FileRoot,
    tag: &'a str,
    content: &'a dyn Fn(usize) -> Option<Vec<u8>>,
    keep: &'a mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    hands: Hands<'a>,
    items: Vec<Item<'a>>,
    directories: BTreeMap<&'a str, Rc<Directory>>,
    made: Vec<(Rc<Directory>, String)>,
}

/// Writes the planned files. When it returns, they survive power loss.
///
/// The plan must be recorded before, with the bytes that it replaces. After a crash it is called
/// again with the same `tag`, which no other plan has. `content` gives the bytes of a file by its
/// number; `keep` takes bytes of somebody else that would be lost otherwise.
///
/// # Errors
/// Somebody else changed one of the files, or the system failed.
pub(crate) fn apply(
    root: &FileRoot,
    tag: &str,
    planned: &[PlannedFile],
    content: &dyn Fn(usize) -> Option<Vec<u8>>,
    keep: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
) -> Result<(), ApplyFailed> {
    apply_watched(root, tag, planned, content, keep, &mut |_, _| Ok(()))
}

/// As [`apply`], with a watcher that is told of every change before it is made.
pub(super) fn apply_watched(
    root: &FileRoot,
    tag: &str,
    planned: &[PlannedFile],
    content: &dyn Fn(usize) -> Option<Vec<u8>>,
    keep: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    watcher: &mut dyn FnMut(Change, &str) -> io::Result<()>,
) -> Result<(), ApplyFailed> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if tag.is_empty() || tag.len() > TAG_BYTES_MAX || !tag.bytes().all(is_plain) {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        let (path, doing) = (tag.to_owned(), "name temporary files after");
        return Err(ApplyFailed::Io { path, doing, aftermath: Aftermath::Undone, source });
    }
    let found = Found { row: Row::Begin, place: State::Absent, temporary: State::Absent };
    let item =
        |(index, file)| Item { index, file, kind: Kind::of(file), spot: None, found, ours: false };
    let mut transaction = Transaction {
        root,
        tag,
        content,
        keep,
        hands: Hands::new(watcher),
        items: planned.iter().enumerate().map(item).collect(),
        directories: BTreeMap::new(),
        made: Vec::new(),
    };
    transaction.run()
}

impl<'a> Transaction<'a> {
    fn run(&mut self) -> Result<(), ApplyFailed> {
        self.survey().map_err(|halt| halt.left(Aftermath::Unfinished))?;
        let begun = self.items.iter().any(|item| item.found.temporary != State::Absent);
        let committed = self.items.iter().any(Item::is_settled);
        for item in &mut self.items {
            item.ours = begun && item.found.row == Row::InPlace;
        }
        if let Err(halt) = self.judge(committed) {
            // Without a temporary file nothing is under way: what has our bytes was not put there
            // by a call that is still to be undone.
            return Err(if begun { self.undo(halt) } else { halt.left(self.rest()) });
        }
        if let Err(halt) = self.go_forward(committed) {
            return Err(self.undo(halt));
        }
        // If we die here, every file is in its place, and the next call only cleans up.
        self.clean().map_err(|halt| halt.left(Aftermath::InPlace))
    }

    /// Looks how far every file came.
    fn survey(&mut self) -> Result<(), Halt> {
        for item in &mut self.items {
            let (above, _) = split(&item.file.path);
            let directory = match self.directories.get(above) {
                Some(directory) => Some(Rc::clone(directory)),
                None => match self.root.walk(components(above)) {
                    Ok(directory) => directory.map(Rc::new),
                    Err(errno) if is_detour(errno) => {
                        item.found.row = Row::Conflict(BEHIND_LINK);
                        continue;
                    }
                    Err(errno) => return Err(item.halt("open the directory of", errno.into())),
                },
            };
            if let Some(directory) = directory {
                self.directories.insert(above, Rc::clone(&directory));
                let spot = item.spot_in(directory, self.tag);
                mend(&mut self.hands, self.keep, item.file, &spot)
                    .map_err(|source| item.halt("mend", source))?;
                item.spot = Some(spot);
            }
            let (place, temporary) = item.look()?;
            item.found = Found { row: table::row(item.kind, place, temporary), place, temporary };
        }
        Ok(())
    }

    /// Whether the files can go to their places.
    fn judge(&self, committed: bool) -> Result<(), Halt> {
        let rows = || self.items.iter().map(|item| item.found.row);
        let waits = rows().any(|row| matches!(row, Row::Begin | Row::Staged));
        // Every file is staged before any is placed. So if one is in its place and none waits, all
        // of them were, and what is different now was changed afterwards.
        let all_were_placed = committed || (!waits && rows().any(|row| row == Row::InPlace));
        for item in &self.items {
            match item.found.row {
                Row::Doubtful(_) if all_were_placed => {}
                // Written into the old file through a handle from before, when it was too late.
                Row::CameOut if committed && item.found.place == State::After => {}
                Row::Doubtful(what) | Row::Conflict(what) => return Err(item.conflict(what)),
                Row::CameOut => return Err(item.conflict(CHANGED)),
                Row::Begin | Row::Staged | Row::InPlace | Row::EditedSince | Row::Equal => {}
            }
        }
        Ok(())
    }

    /// Stages what is not staged and puts every file in its place.
    fn go_forward(&mut self, committed: bool) -> Result<(), Halt> {
        for at in 0..self.items.len() {
            self.stage(at)?;
        }
        let waits = |item: &&Item<'_>| matches!(item.found.row, Row::Begin | Row::Staged);
        if self.items.iter().filter(waits).count() > 1 {
            // A file in its place must mean, after power loss too, that all of them are staged.
            self.sync_directories()?;
        }
        for item in self.items.iter_mut().filter(|item| waits(&&**item)) {
            place(&mut self.hands, item)?;
        }
        // If we die here, the files are in their places and the old bytes beside them.
        for item in self.items.iter().filter(|item| item.kind == Kind::Replace && !committed) {
            // An editor may have had the old file open and written into it.
            if item.look()?.1 == State::Other {
                return Err(item.conflict(CHANGED));
            }
        }
        self.check_directories()?;
        self.sync_directories()
    }

    fn stage(&mut self, at: usize) -> Result<(), Halt> {
        let Some(item) = self.items.get(at) else { return Ok(()) };
        if item.found.row != Row::Begin {
            return Ok(());
        }
        let file = item.file;
        let directory = self.directory_for(file)?;
        let Some(item) = self.items.get_mut(at) else { return Ok(()) };
        let spot = item.spot_in(directory, self.tag);
        item.spot = Some(spot.clone());
        let halt = |source| item.halt("stage", source);
        if item.found.temporary == State::Before {
            self.hands.remove(&spot, &spot.temporary).map_err(halt)?;
        }
        let mode = match spot.directory.entry(&spot.name).map_err(|errno| halt(errno.into()))? {
            Entry::File(stat) => Some(kept_mode(&stat)),
            Entry::Absent | Entry::Directory | Entry::Link | Entry::Special => None,
        };
        let bytes = (self.content)(item.index)
            .ok_or_else(|| halt(io::Error::other("its bytes are not stored")))?;
        if Hash::of(&bytes) != item.file.after {
            return Err(halt(io::Error::other("its stored bytes are not the planned ones")));
        }
        self.hands.stage(&spot, &bytes, mode).map_err(halt)
    }

    /// The directory of a file, made where it is missing.
    fn directory_for(&mut self, file: &'a PlannedFile) -> Result<Rc<Directory>, Halt> {
        let (above, _) = split(&file.path);
        if let Some(directory) = self.directories.get(above) {
            return Ok(Rc::clone(directory));
        }
        let path = file.path.as_str();
        let halt = |source: io::Error| {
            let errno = Errno::from_io_error(&source);
            let path = path.to_owned();
            if errno.is_some_and(is_detour) {
                return Halt::Conflict { path, what: BEHIND_LINK };
            }
            Halt::Io { path, doing: "make the directory of", source }
        };
        let top = self.root.walk([]).map_err(|errno| halt(errno.into()))?;
        let Some(top) = top else { return Err(halt(Errno::NOENT.into())) };
        let mut directory = Rc::new(top);
        for name in components(above) {
            let open = |above: &Directory| above.child(name).map_err(|errno| halt(errno.into()));
            let child = match open(&directory)? {
                Some(child) => child,
                None => {
                    if self.hands.make_directory(&directory, name, path).map_err(halt)? {
                        self.made.push((Rc::clone(&directory), name.to_owned()));
                    }
                    open(&directory)?.ok_or_else(|| halt(Errno::NOENT.into()))?
                }
            };
            directory = Rc::new(child);
        }
        self.directories.insert(above, Rc::clone(&directory));
        Ok(directory)
    }

    /// Whether the paths still lead where the files were put.
    fn check_directories(&self) -> Result<(), Halt> {
        for item in &self.items {
            let Some(spot) = &item.spot else { continue };
            let (above, _) = split(&item.file.path);
            let same = match self.root.walk(components(above)) {
                Ok(Some(now)) => {
                    now.identity().and_then(|now| Ok(now == spot.directory.identity()?))
                }
                Ok(None) => Ok(false),
                Err(errno) if is_detour(errno) => Ok(false),
                Err(errno) => Err(errno),
            };
            match same {
                Ok(true) => {}
                Ok(false) => return Err(item.conflict(MOVED)),
                Err(errno) => return Err(item.halt("find the directory of", errno.into())),
            }
        }
        Ok(())
    }

    fn sync_directories(&mut self) -> Result<(), Halt> {
        let used = self.directories.iter().map(|(above, directory)| (*above, directory));
        let made = self.made.iter().map(|(above, name)| (name.as_str(), above));
        for (path, directory) in used.chain(made) {
            self.hands.sync(directory, path).map_err(|source| {
                let path = if path.is_empty() { "." } else { path };
                Halt::Io { path: path.to_owned(), doing: "sync", source }
            })?;
        }
        Ok(())
    }

    /// Removes the temporary files.
    fn clean(&mut self) -> Result<(), Halt> {
        for item in &self.items {
            let Some(spot) = &item.spot else { continue };
            discard(&mut self.hands, self.keep, item.file, spot, &spot.temporary)
                .map_err(|source| item.halt("clean up beside", source))?;
        }
        Ok(())
    }

    /// Takes back what was done, and says so.
    fn undo(&mut self, halt: Halt) -> ApplyFailed {
        let mut failed = None;
        for item in self.items.iter().rev() {
            if let Err(halt) = take_back(&mut self.hands, self.keep, item) {
                failed.get_or_insert(halt);
            }
        }
        // What could not be taken back needs its temporary file, and the next call those of all.
        let cleaned = match failed {
            Some(failed) => Err(failed),
            None => self.sync_directories().and_then(|()| self.clean()),
        };
        if let Err(failed) = cleaned {
            return failed.left(Aftermath::Unfinished);
        }
        for (above, name) in self.made.iter().rev() {
            self.hands.remove_directory(above, name);
        }
        halt.left(self.rest())
    }

    /// How the files are left when all that can be taken back was.
    fn rest(&self) -> Aftermath {
        // With its temporary file gone, a file is one that an earlier call finished, as far as can
        // be told.
        let stays =
            |item: &Item<'_>| item.found.row == Row::InPlace && (!item.ours || item.is_settled());
        if self.items.iter().any(stays) { Aftermath::Unfinished } else { Aftermath::Undone }
    }
}

impl Item<'_> {
    fn spot_in(&self, directory: Rc<Directory>, tag: &str) -> Spot {
        let temporary = format!("{TEMPORARY_PREFIX}{tag}-{}", self.index);
        Spot {
            path: self.file.path.as_str().to_owned(),
            directory,
            name: split(&self.file.path).1.to_owned(),
            part: format!("{temporary}.part"),
            aside: format!("{temporary}.aside"),
            temporary,
        }
    }

    /// What is in the place and in the temporary file.
    fn look(&self) -> Result<(State, State), Halt> {
        let Some(spot) = &self.spot else { return Ok((State::Absent, State::Absent)) };
        let state = |name: &str| {
            let content = spot.directory.read(name, FILE_BYTES_MAX);
            content.map(|content| State::of(&content, self.file))
        };
        let both = state(&spot.name).and_then(|place| Ok((place, state(&spot.temporary)?)));
        both.map_err(|source| self.halt("read", source))
    }

    /// Whether its temporary file is gone because every file was in its place.
    fn is_settled(&self) -> bool {
        let Found { row, temporary, .. } = self.found;
        self.kind == Kind::Replace && row == Row::InPlace && temporary == State::Absent
    }

    fn conflict(&self, what: &'static str) -> Halt {
        Halt::Conflict { path: self.file.path.as_str().to_owned(), what }
    }

    fn halt(&self, doing: &'static str, source: io::Error) -> Halt {
        Halt::Io { path: self.file.path.as_str().to_owned(), doing, source }
    }
}

impl Halt {
    fn left(self, aftermath: Aftermath) -> ApplyFailed {
        match self {
            Self::Conflict { path, what } => ApplyFailed::Conflict { path, what, aftermath },
            Self::Io { path, doing, source } => ApplyFailed::Io { path, doing, aftermath, source },
        }
    }
}

/// Puts a staged file in its place.
fn place(hands: &mut Hands<'_>, item: &mut Item<'_>) -> Result<(), Halt> {
    let Some(spot) = &item.spot else { return Ok(()) };
    if item.kind == Kind::New {
        let placed = hands.place(spot);
        let taken = matches!(&placed, Err(error) if error.kind() == io::ErrorKind::AlreadyExists);
        // Also when it failed: it may have come half the way.
        item.ours = !taken;
        return match placed {
            Err(_) if taken => Err(item.conflict(CREATED)),
            placed => placed.map_err(|source| item.halt("write", source)),
        };
    }
    match item.look()?.0 {
        State::Before => {}
        State::Absent => return Err(item.conflict(REMOVED)),
        State::After | State::Other => return Err(item.conflict(CHANGED)),
    }
    match hands.exchange(spot) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(item.conflict(REMOVED));
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(item.conflict(CHANGED));
        }
        Err(source) => return Err(item.halt("replace", source)),
    }
    // Between the look and the exchange somebody may have written: only what came out can tell.
    if item.look()?.1 == State::Before { Ok(()) } else { Err(item.conflict(CHANGED)) }
}

/// Brings the place of a file to what it was before, unless somebody else has changed it since.
fn take_back(
    hands: &mut Hands<'_>,
    keep: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    item: &Item<'_>,
) -> Result<(), Halt> {
    let Some(spot) = &item.spot else { return Ok(()) };
    let halt = |source| item.halt("take back", source);
    mend(hands, keep, item.file, spot).map_err(halt)?;
    let (place, temporary) = item.look()?;
    let returned = match table::way_back(item.kind, place, temporary, item.ours) {
        Back::Leave => Ok(()),
        Back::Exchange => match hands.exchange(spot) {
            // Removed since the look: then its place is free.
            Err(error) if error.kind() == io::ErrorKind::NotFound => hands.give_back(spot),
            exchanged => exchanged,
        },
        Back::Return => hands.give_back(spot),
        Back::Withdraw => {
            let withdrawn = hands.withdraw(spot);
            // Somebody may have removed it since the look, or written over it: then it is theirs.
            match (withdrawn, item.look()?.1) {
                (Ok(()), State::Other) => hands.give_back(spot),
                (Err(error), _) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }
    };
    match returned {
        // Somebody filled the place: what was to go there is kept when the temporary file goes.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            mend(hands, keep, item.file, spot).map_err(halt)
        }
        returned => returned.map_err(halt),
    }
}

/// Makes whole what an earlier call or a failed exchange left half done.
fn mend(
    hands: &mut Hands<'_>,
    keep: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    file: &PlannedFile,
    spot: &Spot,
) -> io::Result<()> {
    if hands.mend(spot)? { discard(hands, keep, file, spot, &spot.aside) } else { Ok(()) }
}

/// Removes a name beside the place. Bytes that are neither the old nor the new ones are kept first.
fn discard(
    hands: &mut Hands<'_>,
    keep: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    file: &PlannedFile,
    spot: &Spot,
    name: &str,
) -> io::Result<()> {
    let content = spot.directory.read(name, FILE_BYTES_MAX)?;
    match (State::of(&content, file), content) {
        (State::Absent, _) => return Ok(()),
        (State::Before | State::After, _) => {}
        (State::Other, Content::Bytes { bytes, .. }) => keep(&spot.path, &bytes)?,
        (State::Other, _) => {
            return Err(io::Error::other(format!(
                "what somebody else put there is left as `{name}` beside it"
            )));
        }
    }
    hands.remove(spot, name)
}
