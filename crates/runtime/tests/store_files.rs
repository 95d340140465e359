//! The file backend on a real file system: what links, pipes and other processes do to it.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_format::hash::Hash;
use countersign_runtime::disk::{Access, Disk as _, Durability, OsDisk, replace_file};
use countersign_runtime::store::{Blobs as _, FileStore, Head, LedgerId, Ledgers as _, StoreError};

fn store_in(dir: &Path) -> FileStore {
    FileStore::new(Arc::new(OsDisk), dir.join("home"))
}

fn place_of(home: &Path, hash: &Hash) -> PathBuf {
    let name = hash.to_hex();
    home.join("artifacts").join("sha256").join(&name[..2]).join(&name[2..4]).join(name)
}

fn make_pipe(path: &Path) -> rustix::io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
}

#[test]
fn links_pipes_and_directories_are_refused_and_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    std::fs::write(&target, b"some bytes").unwrap();
    let planted = ["link", "dangling", "pipe", "directory"].map(|name| dir.path().join(name));
    let [link, dangling, pipe, directory] = &planted;
    symlink(&target, link).unwrap();
    symlink(dir.path().join("nowhere"), dangling).unwrap();
    make_pipe(pipe).unwrap();
    std::fs::create_dir(directory).unwrap();
    for path in &planted {
        for access in [Access::Read, Access::Write, Access::Create, Access::Append] {
            let refused = OsDisk.open(path, access).unwrap_err();
            assert!(refused.is_not_a_file(), "{access:?} of {}: {refused:?}", path.display());
        }
        assert!(OsDisk.open(path, Access::CreateNew).unwrap_err().is_taken());
    }
    assert_eq!(std::fs::read(&target).unwrap(), b"some bytes");
    assert!(!dir.path().join("nowhere").exists());
}

#[test]
fn a_link_in_the_place_of_an_artifact_is_an_error_even_if_its_bytes_fit() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    let hash = store.put(b"some bytes").unwrap();
    let place = place_of(store.home(), &hash);
    let elsewhere = dir.path().join("elsewhere");
    std::fs::rename(&place, &elsewhere).unwrap();
    symlink(&elsewhere, &place).unwrap();
    for refused in [
        store.put(b"some bytes").map(drop),
        store.get(&hash, 100).map(drop),
        store.stat(&hash).map(drop),
        store.put_reader(&mut b"some bytes".as_slice(), 100).map(drop),
    ] {
        assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
    }
    assert!(place.is_symlink());
}

#[test]
fn a_link_in_the_place_of_a_ledger_or_its_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(store.home()).unwrap();
    symlink(&outside, store.home().join("log")).unwrap();
    assert!(store.begin(LedgerId::Log).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    std::fs::remove_file(store.home().join("log")).unwrap();
    std::fs::create_dir(store.home().join("log")).unwrap();
    make_pipe(&store.home().join("log").join("events.jsonl")).unwrap();
    assert!(store_in(dir.path()).begin(LedgerId::Log).is_err());
    assert!(store.read(LedgerId::Log, Head::EMPTY, 100).is_err());
}

#[test]
fn everything_is_made_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    store.begin(LedgerId::Log).unwrap().append(b"{}\n").unwrap();
    let hash = store.put(b"some bytes").unwrap();
    let mut checked = 0;
    let mut left = vec![store.home().to_owned()];
    while let Some(path) = left.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        let mode = found.permissions().mode() & 0o777;
        if found.is_dir() {
            assert_eq!(mode, 0o700, "{}", path.display());
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            assert_eq!(mode, 0o600, "{}", path.display());
            checked += 1;
        }
    }
    assert_eq!(checked, 4, "ledger, artifact under two names, changes");
    assert_eq!(std::fs::metadata(place_of(store.home(), &hash)).unwrap().nlink(), 2);
    assert_eq!(store.settle_places().unwrap(), 1);
    assert_eq!(std::fs::metadata(place_of(store.home(), &hash)).unwrap().nlink(), 1);
    assert_eq!(store.get(&hash, 100).unwrap(), b"some bytes");
}

#[cfg(target_os = "linux")]
#[test]
fn a_follower_is_woken_by_another_handle_long_before_it_would_look_again() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (store_in(dir.path()), store_in(dir.path()));
    let mut head = theirs.begin(LedgerId::Log).unwrap().append(b"{\"n\":0}\n").unwrap();
    let mut follower = ours.follow(LedgerId::Log, head).unwrap();
    assert_eq!(follower.next(Duration::ZERO).unwrap(), None);
    // Once it is listening nothing but a wake-up makes it faster than two seconds, ten times over.
    let began = Instant::now();
    for number in 0..10 {
        let line = format!("{{\"n\":{number}}}\n").into_bytes();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| follower.next(Duration::from_secs(30)).unwrap().unwrap());
            head = theirs.begin(LedgerId::Log).unwrap().append(&line).unwrap();
            assert_eq!(reader.join().unwrap(), line);
        });
    }
    assert_eq!(follower.head(), head);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Under load more came than were taken to their places, and the names of all of them were kept in
/// memory at once, ever more.
#[test]
fn new_artifacts_get_to_their_places_a_portion_at_a_time_whatever_lies_among_them() {
    // Nothing here is about durability.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let store = store_in(dir.path());
    store.put(b"the first one makes the directories").unwrap();
    assert_eq!(store.settle_places().unwrap(), 1);
    let new = store.home().join("artifacts/new");
    let whole: Vec<_> = (0..2_500_u32).map(|number| number.to_be_bytes()).collect();
    for bytes in &whole {
        std::fs::write(new.join(Hash::of(bytes).to_hex()), bytes).unwrap();
    }
    let torn: Vec<_> = (0..1_500_u32).map(|number| Hash::of(&number.to_le_bytes()[..3])).collect();
    for hash in &torn {
        std::fs::write(new.join(hash.to_hex()), b"half of").unwrap();
    }
    std::fs::write(new.join("not an artifact"), b"").unwrap();
    assert_eq!(store.settle_places().unwrap(), 2_500);
    for bytes in &whole {
        assert_eq!(std::fs::read(place_of(store.home(), &Hash::of(bytes))).unwrap(), bytes);
    }
    assert_eq!(std::fs::read_dir(&new).unwrap().count(), 1_501, "only those are left");
}

/// Artifacts whose hashes begin with a zero byte have the places of all new ones made durable, under a
/// lock. Under load these came faster than that was done: threads and open files grew without end.
#[test]
fn of_those_who_make_places_durable_one_waits_for_the_lock_and_the_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    store.put(b"the first one makes the directories").unwrap();
    let lock = store.home().join("artifacts/lock");
    let held = OsDisk.open(&lock, Access::Create).unwrap();
    held.lock_exclusive().unwrap();
    let settling = (0u32..).map(|number| number.to_string().into_bytes());
    let settling = settling.filter(|bytes| Hash::of(bytes).as_bytes()[0] == 0);
    let settling: Vec<_> = settling.take(4).collect();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        for bytes in &settling {
            let (store, tell) = (&store, tell.clone());
            scope.spawn(move || tell.send(store.put(bytes).unwrap()).unwrap());
        }
        for _ in 1..settling.len() {
            told.recv_timeout(Duration::from_secs(30)).expect("all but one go on");
        }
        held.unlock().unwrap();
        told.recv_timeout(Duration::from_secs(30)).expect("the last one has the lock");
    });
    assert_eq!(std::fs::read_dir(store.home().join("artifacts/new")).unwrap().count(), 0);
    for bytes in &settling {
        let place = place_of(store.home(), &Hash::of(bytes));
        assert_eq!(std::fs::read(place).unwrap(), *bytes);
    }
}

#[test]
fn a_home_that_was_removed_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path());
    store.begin(LedgerId::Log).unwrap().append(b"{}\n").unwrap();
    let hash = store.put(b"some bytes").unwrap();
    std::fs::remove_dir_all(store.home()).unwrap();
    assert_eq!(store.begin(LedgerId::Log).unwrap().append(b"{}\n").unwrap(), Head::at(3));
    assert_eq!(store.put(b"some bytes").unwrap(), hash);
    assert_eq!(store.get(&hash, 100).unwrap(), b"some bytes");
}

#[test]
fn a_small_file_is_replaced_whole_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    for durability in [Durability::Synced, Durability::Cached] {
        for bytes in [b"old".as_slice(), b"newer"] {
            replace_file(&OsDisk, &path, bytes, durability).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }
    assert!(
        replace_file(&OsDisk, &dir.path().join("no").join("x"), b"", Durability::Cached).is_err()
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
