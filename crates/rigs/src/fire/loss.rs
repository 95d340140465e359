//! What a failed sync leaves to a loss of power, by the system calls that a process made.
//!
//! A sync that fails leaves what was written readable, and none of it on the disk: whoever only looks
//! finds what a loss of power would take. So the calls are read as strace wrote them down, and what a
//! failed sync did not make durable is taken away before anybody looks. What was never synced at all
//! stays, and so does a file that was replaced by another one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The files and directories below one, as they were before a process began.
pub(super) struct Before {
    home: PathBuf,
    /// Each with its length.
    all: BTreeMap<PathBuf, u64>,
}

impl Before {
    pub(super) fn of(home: &Path) -> io::Result<Self> {
        let mut before = Self { home: fs::canonicalize(home)?, all: BTreeMap::new() };
        let mut dirs = vec![before.home.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir)? {
                let (path, found) = entry.and_then(|it| Ok((it.path(), it.metadata()?)))?;
                if found.is_dir() {
                    dirs.push(path.clone());
                }
                before.all.insert(path, found.len());
            }
        }
        Ok(before)
    }

    /// Takes away what failed syncs did not make durable; how many files and names that were.
    pub(super) fn take_away(self, calls: &str) -> io::Result<usize> {
        let mut disk = Disk { before: self, files: BTreeMap::new(), dirs: BTreeMap::new() };
        each_call(calls, |call| disk.follow(call));
        disk.take_away()
    }
}

/// One call that came to its end.
struct Call<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
    result: &'a str,
}

impl<'a> Call<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (call, result) = line.rsplit_once(" = ")?;
        let (name, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
        Some(Self { name, arguments: arguments.split(", ").collect(), result })
    }

    fn failed(&self) -> bool {
        self.result.starts_with('-')
    }

    /// Whether it can be made again and makes up for it: a signal came in between.
    fn was_interrupted(&self) -> bool {
        self.result.contains("EINTR")
    }

    fn argument(&self, place: usize) -> Option<&'a str> {
        self.arguments.get(place).copied()
    }

    /// The number in the last place.
    fn last(&self) -> Option<u64> {
        self.arguments.last()?.parse().ok()
    }

    fn quoted(&self, place: usize) -> Option<PathBuf> {
        Some(self.argument(place)?.strip_prefix('"')?.strip_suffix('"')?.into())
    }
}

/// The path that strace writes behind a descriptor.
fn path_of(descriptor: &str) -> Option<PathBuf> {
    let (_, path) = descriptor.split_once('<')?;
    Some(path.rsplit_once('>')?.0.into())
}

/// Hands over each call as it ends. What other threads did meanwhile stands between its two halves.
fn each_call(text: &str, mut follow: impl FnMut(&Call<'_>)) {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim_start();
        if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            begun.insert(thread, first);
            continue;
        }
        let whole = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            Some((_, last)) => format!("{}{last}", begun.remove(thread).unwrap_or_default()),
            None => rest.to_owned(),
        };
        if let Some(call) = Call::read(&whole) {
            follow(&call);
        }
    }
}

/// What a file holds that is not on the disk.
#[derive(Debug, Default, Clone)]
struct Contents {
    end: u64,
    unsynced: Vec<Range<u64>>,
    /// A sync failed for these, and no later one is made for them: the system takes them for written.
    lost: Vec<Range<u64>>,
}

impl Contents {
    fn write(&mut self, at: u64, len: u64) {
        let end = at + len;
        self.end = self.end.max(end);
        self.lost = self.lost.iter().flat_map(|lost| without(lost, &(at..end))).collect();
        self.unsynced.push(at..end);
    }

    fn cut(&mut self, len: u64) {
        self.end = len;
        for ranges in [&mut self.unsynced, &mut self.lost] {
            ranges.retain_mut(|range| {
                range.end = range.end.min(len);
                !range.is_empty()
            });
        }
    }
}

/// What is left of a range.
fn without(range: &Range<u64>, gone: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let before = range.start..range.end.min(gone.start);
    let after = range.start.max(gone.end)..range.end;
    [before, after].into_iter().filter(|rest| !rest.is_empty())
}

/// Names in a directory that are not on the disk.
#[derive(Debug, Default)]
struct Names {
    unsynced: BTreeSet<PathBuf>,
    /// A sync failed for these. Unlike bytes, they stay to be synced: file systems with a journal stop
    /// rather than forget.
    lost: BTreeSet<PathBuf>,
}

struct Disk {
    before: Before,
    files: BTreeMap<PathBuf, Contents>,
    dirs: BTreeMap<PathBuf, Names>,
}

impl Disk {
    /// A path below the one that is looked at.
    fn ours(&self, path: Option<PathBuf>) -> Option<PathBuf> {
        path.filter(|path| path.starts_with(&self.before.home))
    }

    fn file(&mut self, path: PathBuf) -> &mut Contents {
        let end = self.before.all.get(&path).copied().unwrap_or_default();
        self.files.entry(path).or_insert_with(|| Contents { end, ..Contents::default() })
    }

    fn name_made(&mut self, path: PathBuf) {
        if !self.before.all.contains_key(&path)
            && let Some(dir) = path.parent()
        {
            self.dirs.entry(dir.to_owned()).or_default().unsynced.insert(path);
        }
    }

    fn name_gone(&mut self, path: &Path) {
        if let Some(names) = path.parent().and_then(|dir| self.dirs.get_mut(dir)) {
            names.unsynced.remove(path);
            names.lost.remove(path);
        }
    }

    fn follow(&mut self, call: &Call<'_>) {
        let is_sync = matches!(call.name, "fsync" | "fdatasync");
        let described = call.argument(0).and_then(path_of);
        if call.failed() {
            let path = self.ours(described).filter(|_| is_sync && !call.was_interrupted());
            if let Some(path) = path {
                self.sync_failed(path);
            }
            return;
        }
        match call.name {
            "fsync" | "fdatasync" => {
                if let Some(path) = self.ours(described) {
                    self.synced(&path);
                }
            }
            "write" | "pwrite64" => {
                let len = call.result.trim().parse().unwrap_or_default();
                if let Some(path) = self.ours(described) {
                    let file = self.file(path);
                    let at = if call.name == "pwrite64" { call.last() } else { None };
                    file.write(at.unwrap_or(file.end), len);
                }
            }
            "ftruncate" => {
                if let (Some(path), Some(len)) = (self.ours(described), call.last()) {
                    self.file(path).cut(len);
                }
            }
            "openat" if call.argument(2).is_some_and(|flags| flags.contains("O_CREAT")) => {
                if let Some(path) = self.ours(path_of(call.result)) {
                    self.name_made(path);
                }
            }
            "mkdir" => {
                if let Some(path) = self.ours(call.quoted(0)) {
                    self.name_made(path);
                }
            }
            "unlink" => {
                if let Some(path) = self.ours(call.quoted(0)) {
                    self.name_gone(&path);
                    self.files.remove(&path);
                }
            }
            "rename" => self.renamed(call.quoted(0), call.quoted(1)),
            "renameat2" => self.renamed(call.quoted(1), call.quoted(3)),
            "linkat" => {
                if let (Some(from), Some(to)) = (call.quoted(1), self.ours(call.quoted(3))) {
                    let contents = self.file(from).clone();
                    self.files.insert(to.clone(), contents);
                    self.name_made(to);
                }
            }
            _ => {}
        }
    }

    fn renamed(&mut self, from: Option<PathBuf>, to: Option<PathBuf>) {
        let (Some(from), Some(to)) = (self.ours(from), self.ours(to)) else { return };
        self.name_gone(&from);
        self.name_made(to.clone());
        let contents = self.file(from.clone()).clone();
        self.files.remove(&from);
        self.files.insert(to, contents);
    }

    fn synced(&mut self, path: &Path) {
        if let Some(file) = self.files.get_mut(path) {
            file.unsynced.clear();
        }
        self.dirs.remove(path);
    }

    fn sync_failed(&mut self, path: PathBuf) {
        if let Some(names) = self.dirs.get_mut(&path) {
            names.lost.extend(names.unsynced.iter().cloned());
        } else {
            let file = self.file(path);
            file.lost.append(&mut file.unsynced);
        }
    }

    fn take_away(self) -> io::Result<usize> {
        let mut taken = 0;
        for (path, contents) in self.files {
            taken += usize::from(!contents.lost.is_empty() && path.exists());
            forget(&path, contents.lost)?;
        }
        for path in self.dirs.into_values().flat_map(|names| names.lost) {
            let gone = match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
                Ok(_) => fs::remove_file(&path),
                // In a directory that has gone itself, or removed since.
                Err(_) => continue,
            };
            gone?;
            taken += 1;
        }
        Ok(taken)
    }
}

/// Leaves what is found of a file whose new bytes never came to the disk: it ends before them, or there
/// are none in their place.
fn forget(path: &Path, mut lost: Vec<Range<u64>>) -> io::Result<()> {
    if lost.is_empty() || !path.exists() {
        return Ok(());
    }
    let file = fs::File::options().write(true).open(path)?;
    lost.sort_unstable_by_key(|range| std::cmp::Reverse(range.start));
    for range in lost {
        let len = file.metadata()?.len();
        if range.end >= len {
            file.set_len(range.start.min(len))?;
        } else {
            let none = vec![0; usize::try_from(range.end - range.start).unwrap_or_default()];
            file.write_all_at(&none, range.start)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::place::Room;
    use super::*;

    /// What is found in a directory where `a` was there before, and `a`, `new/b` and `c` are there now.
    fn left(calls: &str) -> (usize, Vec<(String, String)>) {
        static ROOMS: AtomicUsize = AtomicUsize::new(0);
        let number = ROOMS.fetch_add(1, Ordering::Relaxed);
        let room = Room::in_memory(&format!("loss-{number}")).unwrap();
        let home = fs::canonicalize(room.dir()).unwrap();
        fs::write(home.join("a"), "old\n").unwrap();
        let before = Before::of(&home).unwrap();
        fs::create_dir(home.join("new")).unwrap();
        fs::write(home.join("a"), "old\nnew\nmore\n").unwrap();
        fs::write(home.join("new/b"), "bytes").unwrap();
        fs::write(home.join("c"), "bytes").unwrap();
        let taken = before.take_away(&calls.replace("DIR", &home.display().to_string())).unwrap();
        let all = Before::of(&home).unwrap().all.into_keys().filter(|path| path.is_file());
        let text = |path: PathBuf| {
            let name = path.strip_prefix(&home).unwrap().display().to_string();
            (name, fs::read_to_string(path).unwrap())
        };
        (taken, all.map(text).collect())
    }

    fn files(found: &[(&str, &str)]) -> Vec<(String, String)> {
        found.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    const ALL: [(&str, &str); 3] = [("a", "old\nnew\nmore\n"), ("c", "bytes"), ("new/b", "bytes")];

    #[test]
    fn lines_whose_sync_failed_are_taken_away_and_no_later_sync_saves_them() {
        let (taken, left) = left(
            r#"7  pwrite64(3<DIR/a>, ""..., 4, 4) = 4
7  fdatasync(3<DIR/a>) = 0
8  pwrite64(3<DIR/a>, ""..., 5, 8) = 5
8  fdatasync(3<DIR/a> <unfinished ...>
7  write(1<pipe:[5]>, ""..., 5) = 5
8  <... fdatasync resumed>) = -1 EIO (Input/output error) (INJECTED)
8  fdatasync(3<DIR/a>) = 0
"#,
        );
        assert_eq!((taken, left), (1, files(&[("a", "old\nnew\n"), ALL[1], ALL[2]])));
    }

    #[test]
    fn bytes_before_others_that_are_durable_leave_nothing_in_their_place() {
        let (taken, left) = left(
            r#"7  pwrite64(3<DIR/a>, ""..., 4, 4) = 4
7  fdatasync(3<DIR/a>) = -1 EIO (Input/output error) (INJECTED)
7  pwrite64(3<DIR/a>, ""..., 5, 8) = 5
7  fdatasync(3<DIR/a>) = 0
"#,
        );
        assert_eq!((taken, left), (1, files(&[("a", "old\n\0\0\0\0more\n"), ALL[1], ALL[2]])));
    }

    #[test]
    fn what_was_taken_back_written_again_or_only_interrupted_stays() {
        let failed = r#"7  pwrite64(3<DIR/a>, ""..., 9, 4) = 9
7  fdatasync(3<DIR/a>) = -1 EIO (Input/output error) (INJECTED)
"#;
        let back = "7  ftruncate(3<DIR/a>, 4) = 0\n";
        let again = r#"7  pwrite64(3<DIR/a>, ""..., 9, 4) = 9
7  fdatasync(3<DIR/a>) = 0
"#;
        for calls in [
            format!("{failed}{back}"),
            format!("{failed}{again}"),
            failed.replace("EIO", "EINTR") + "7  fdatasync(3<DIR/a>) = 0\n",
            // Nobody has failed to make it durable.
            again.lines().take(1).collect(),
        ] {
            assert_eq!(left(&calls), (0, files(&ALL)), "{calls}");
        }
    }

    #[test]
    fn names_whose_directory_was_not_synced_are_gone_with_all_below() {
        let made = r#"7  mkdir("DIR/new", 0700) = 0
7  openat(AT_FDCWD</>, "DIR/new/b", O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 3<DIR/new/b>
7  openat(AT_FDCWD</>, "DIR/a", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 4<DIR/a>
7  fsync(5<DIR>) = -1 EIO (Input/output error) (INJECTED)
"#;
        assert_eq!(left(made), (1, files(&[ALL[0], ALL[1]])));
        // A file system stops rather than forget names: a later sync makes up for it.
        assert_eq!(left(&format!("{made}7  fsync(5<DIR>) = 0\n")), (0, files(&ALL)));
    }

    #[test]
    fn bytes_are_lost_under_every_name_that_they_were_given() {
        let (taken, left) = left(
            r#"7  openat(AT_FDCWD</>, "DIR/t", O_RDWR|O_CREAT|O_EXCL, 0600) = 3<DIR/t>
7  pwrite64(3<DIR/t>, ""..., 5, 0) = 5
7  fdatasync(3<DIR/t>) = -1 EIO (Input/output error) (INJECTED)
7  rename("DIR/t", "DIR/c") = 0
7  linkat(AT_FDCWD</>, "DIR/c", AT_FDCWD</>, "DIR/new/b", 0) = 0
"#,
        );
        assert_eq!((taken, left), (2, files(&[ALL[0], ("c", ""), ("new/b", "")])));
    }
}
