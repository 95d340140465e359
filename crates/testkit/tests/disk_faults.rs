//! The file backend on a disk that fails at every operation in turn.
//!
//! Whatever fails, and whenever power is lost, all that was acknowledged is found afterwards with
//! the code that always runs, and the next writer goes on. The same test must find fault with a disk
//! that only claims to sync.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_format::hash::Hash;
use countersign_runtime::disk::Op;
use countersign_runtime::store::{
    Batch, Blobs as _, FileStore, Head, LedgerId, Ledgers as _, StoreError,
};
use countersign_testkit::conformance::trace;
use countersign_testkit::disk::{DiskFault, EDQUOT, EINTR, EIO, ENOSPC, EPERM, SimDisk, sim_home};

/// How many ways to lose power are tried after each fault.
const SEEDS: u64 = 5;

fn store_on(disk: &SimDisk) -> FileStore {
    FileStore::new(Arc::new(disk.clone()), sim_home())
}

/// Three lines of several sectors, each with its number and a sum that shows whether it is whole.
fn lines(number: usize) -> Vec<u8> {
    let line = |part: usize| {
        let number = number * 10 + part;
        let filler = Hash::of(&number.to_be_bytes()).to_hex().repeat(5);
        let body = format!("{{\"n\":{number},\"filler\":\"{filler}\"");
        format!("{body},\"sum\":\"{}\"}}\n", Hash::of(body.as_bytes()))
    };
    [line(0), line(1), line(2)].concat().into_bytes()
}

/// The number of a line, if it is whole.
fn number_of(line: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(line).ok()?;
    let (body, sum) = text.split_once(",\"sum\":\"")?;
    if sum != format!("{}\"}}\n", Hash::of(body.as_bytes())) {
        return None;
    }
    body.strip_prefix("{\"n\":")?.split_once(',')?.0.parse().ok()
}

fn artifact(number: usize) -> Vec<u8> {
    format!("artifact {number} ").repeat(200).into_bytes()
}

/// One thing that a writer does.
#[derive(Debug, Clone, Copy)]
enum Step {
    Append(LedgerId),
    Put,
}

fn steps() -> [Step; 3] {
    [Step::Append(LedgerId::Log), Step::Append(trace(1)), Step::Put]
}

/// What a writer was told: the only thing that it may count on.
#[derive(Default, Clone)]
struct Told {
    lines: Vec<(LedgerId, usize)>,
    heads: Vec<(LedgerId, Head)>,
    artifacts: Vec<usize>,
    tried: usize,
}

impl Told {
    fn head(&self, id: LedgerId) -> Head {
        let heads = self.heads.iter().filter(|(ledger, _)| *ledger == id);
        heads.map(|(_, head)| *head).max().unwrap_or(Head::EMPTY)
    }

    /// Tries to take each of the steps `count` times, whatever fails.
    fn write(&mut self, store: &FileStore, steps: &[Step], count: usize) -> Result<(), String> {
        for _ in 0..count {
            self.tried += 1;
            for step in steps {
                match *step {
                    Step::Put => {
                        if store.put(&artifact(self.tried)).is_ok() {
                            self.artifacts.push(self.tried);
                        }
                    }
                    Step::Append(id) => {
                        if let Ok(mut batch) = store.begin(id)
                            && self.recover(id, &mut *batch)?
                            && let Ok(head) = batch.append(&lines(self.tried))
                        {
                            self.heads.push((id, head));
                            self.lines.extend((0..3).map(|part| (id, self.tried * 10 + part)));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Does what a recorder does before it writes: sets aside what is torn, if nothing of it was
    /// acknowledged. Whether the ledger can be written to now.
    fn recover(&self, id: LedgerId, batch: &mut dyn Batch) -> Result<bool, String> {
        let Ok(all) = batch.read(Head::EMPTY, usize::MAX) else { return Ok(false) };
        let whole = all
            .split_inclusive(|&byte| byte == b'\n')
            .map_while(|line| number_of(line).map(|_| line.len() as u64));
        let sound = Head::at(whole.sum());
        if sound < self.head(id) {
            return Err(format!("{id} is sound up to {sound}, told {}", self.head(id)));
        }
        Ok((batch.torn_tail().is_none() && sound == batch.head())
            || batch.repair_tail(sound).is_ok())
    }

    /// Opens the disk as it was found, and compares it with what was told.
    fn check(&self, disk: &SimDisk) -> Result<(), String> {
        let store = store_on(disk);
        for id in [LedgerId::Log, trace(1)] {
            let mut batch = store.begin(id).map_err(|error| format!("begin: {error:?}"))?;
            if !self.recover(id, &mut *batch)? {
                return Err(format!("{id} could not be repaired"));
            }
            let all = batch.read(Head::EMPTY, usize::MAX).map_err(|error| error.to_string())?;
            let numbers = all.split_inclusive(|&byte| byte == b'\n').map(number_of);
            let found: Vec<_> = numbers.collect::<Option<_>>().ok_or("a line is not whole")?;
            if !found.is_sorted_by(|one, next| one < next) {
                return Err(format!("{id} has lines out of order: {found:?}"));
            }
            let told = self.lines.iter().filter(|(ledger, _)| *ledger == id);
            for (_, number) in told {
                if !found.contains(number) {
                    return Err(format!("{id} has lost line {number}, has {found:?}"));
                }
            }
        }
        for number in 1..=self.tried {
            let bytes = artifact(number);
            match store.get(&Hash::of(&bytes), u64::MAX) {
                Ok(_) => {}
                Err(StoreError::Missing { .. }) if !self.artifacts.contains(&number) => {}
                Err(error) => return Err(format!("artifact {number}: {error}")),
            }
        }
        Ok(())
    }

    /// Checks the disk as it is found after power loss, lets a new writer go on, and checks again.
    fn check_power_loss(&self, disk: &SimDisk) -> Result<(), String> {
        for seed in 0..SEEDS {
            let found = disk.lose_power(seed);
            let failed = |error: String| format!("seed {seed}: {error}");
            self.check(&found.restart()).map_err(failed)?;
            let mut next = self.clone();
            next.write(&store_on(&found), &steps(), 1).map_err(failed)?;
            if next.lines.len() != self.lines.len() + 6 {
                return Err(failed("the next writer cannot go on".into()));
            }
            next.check(&found.lose_power(seed)).map_err(failed)?;
        }
        Ok(())
    }
}

/// Writes on a disk with this script, and loses power.
fn run(mut script: impl FnMut(Op, u64) -> DiskFault + Send + 'static) -> Result<Run, String> {
    let disk = SimDisk::new();
    disk.script(move |op, _, count| script(op, count));
    let mut told = Told::default();
    told.write(&store_on(&disk), &steps(), 3)?;
    let operations = disk.operations();
    told.check(&disk.restart())?;
    told.check_power_loss(&disk)?;
    Ok(Run { disk, told, operations })
}

struct Run {
    disk: SimDisk,
    told: Told,
    operations: u64,
}

impl Run {
    /// Lets another process go on with what the first one left, and loses power then.
    fn go_on(mut self) -> Result<(), String> {
        let disk = self.disk.restart();
        self.told.write(&store_on(&disk), &steps(), 2)?;
        self.told.check_power_loss(&disk).map_err(|error| format!("after a restart: {error}"))
    }
}

#[test]
fn whatever_fails_nothing_acknowledged_is_lost() {
    let operations = run(|_, _| DiskFault::None).unwrap().operations;
    assert!(operations > 80, "the sweep covers only {operations} operations");
    for fault in [
        DiskFault::Fail(EIO),
        DiskFault::Fail(ENOSPC),
        DiskFault::Fail(EDQUOT),
        DiskFault::Fail(EINTR),
        DiskFault::FailAfter(EIO),
        DiskFault::FailAfter(EINTR),
        DiskFault::ShortWrite(1, ENOSPC),
        DiskFault::ShortWrite(1, EDQUOT),
        DiskFault::ShortWrite(900, ENOSPC),
        DiskFault::Die,
    ] {
        for at in 1..=operations {
            run(move |_, count| if count == at { fault } else { DiskFault::None })
                .and_then(Run::go_on)
                .unwrap_or_else(|error| panic!("{fault:?} at operation {at}: {error}"));
        }
    }
}

#[test]
fn a_disk_that_fails_for_good_loses_nothing_acknowledged() {
    let operations = run(|_, _| DiskFault::None).unwrap().operations;
    for at in 1..=operations {
        run(move |_, count| if count >= at { DiskFault::Fail(EIO) } else { DiskFault::None })
            .unwrap_or_else(|error| panic!("from operation {at} on: {error}"));
    }
}

#[test]
fn the_sweep_catches_a_disk_that_does_not_sync() {
    for unsynced in [Op::SyncData, Op::SyncDir] {
        let caught =
            run(move |op, _| if op == unsynced { DiskFault::Lie } else { DiskFault::None });
        assert!(caught.is_err(), "{unsynced:?} could be left out, and nobody would notice");
    }
}

#[test]
fn no_sync_can_be_left_out() {
    for step in steps() {
        let mut left_out = 0;
        while let Some((op, path, told, disk)) = without_sync(step, left_out) {
            let caught = told.check_power_loss(&disk).is_err();
            assert!(caught, "{step:?} does not need {op:?} of {}", path.display());
            left_out += 1;
        }
        assert!(left_out >= 4, "{step:?} has only {left_out} syncs");
    }
}

/// Takes one step on an empty disk that leaves out one sync; `None` if there are not so many.
fn without_sync(step: Step, left_out: u32) -> Option<(Op, PathBuf, Told, SimDisk)> {
    let disk = SimDisk::new();
    let (tell, place) = std::sync::mpsc::channel();
    let mut seen = 0;
    disk.script(move |op, path, _| {
        if !matches!(op, Op::SyncData | Op::SyncDir) {
            return DiskFault::None;
        }
        seen += 1;
        if seen <= left_out || seen > left_out + 1 {
            return DiskFault::None;
        }
        let _ = tell.send((op, path.to_owned()));
        DiskFault::Lie
    });
    let mut told = Told::default();
    told.write(&store_on(&disk), &[step], 1).ok()?;
    let (op, path) = place.try_recv().ok()?;
    Some((op, path, told, disk))
}

/// An empty directory says nothing about its own name: whoever made it may have died before the sync.
#[test]
fn directories_of_a_dead_writer_are_not_taken_for_durable() {
    let texts = || (0..).map(|number: u32| format!("artifact {number}").into_bytes());
    let first = texts().next().unwrap();
    let dir = |bytes: &[u8]| Hash::of(bytes).to_hex()[..2].to_owned();
    // One more in the same directory, in which it has a directory of its own.
    let beside = texts().skip(1).find(|bytes| dir(bytes) == dir(&first)).unwrap();
    for at in 1.. {
        let disk = SimDisk::new();
        disk.script(move |_, _, count| if count == at { DiskFault::Die } else { DiskFault::None });
        let ended = store_on(&disk).put(&first).is_ok();
        for bytes in [&first, &beside] {
            let next = disk.restart();
            let hash = store_on(&next).put(bytes).unwrap();
            for seed in 0..SEEDS {
                let found = store_on(&next.lose_power(seed)).get(&hash, u64::MAX);
                assert!(found.is_ok(), "died at operation {at}, seed {seed}: {found:?}");
            }
        }
        if ended {
            assert!(at > 12, "only {at} operations");
            break;
        }
    }
}

#[test]
fn several_artifacts_at_once_share_what_they_need() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let all: Vec<Vec<u8>> = (1..=3).map(artifact).collect();
    let given: Vec<&[u8]> = all.iter().chain([&all[0]]).map(Vec::as_slice).collect();
    let (tell, told) = std::sync::mpsc::channel();
    disk.script(move |op, path, _| {
        if matches!(op, Op::SyncData | Op::SyncDir) {
            tell.send((op, path.to_owned())).unwrap();
        }
        DiskFault::None
    });
    let hashes = store.put_all(&given).unwrap();
    assert_eq!(hashes, given.iter().map(|bytes| Hash::of(bytes)).collect::<Vec<_>>());
    let syncs: Vec<_> = told.try_iter().collect();
    let distinct: std::collections::HashSet<_> = syncs.iter().collect();
    assert_eq!(distinct.len(), syncs.len(), "{syncs:?}");
    let named = syncs.iter().filter(|(op, path)| *op == Op::SyncDir && path.ends_with("new"));
    let contents = syncs.iter().filter(|(op, _)| *op == Op::SyncData);
    assert_eq!((contents.count(), named.count()), (3, 1), "{syncs:?}");
    for seed in 0..SEEDS {
        let found = store_on(&disk.lose_power(seed));
        assert!(hashes.iter().all(|hash| found.get(hash, u64::MAX).is_ok()), "seed {seed}");
    }
}

/// Settles the places of three artifacts on a disk with this script, and loses power. Gives how many
/// operations that took.
fn settle(script: impl Fn(Op, u64) -> DiskFault + Send + 'static) -> Result<u64, String> {
    let disk = SimDisk::new();
    let all: Vec<Vec<u8>> = (1..=3).map(artifact).collect();
    let hashes = store_on(&disk).put_all(&all.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let hashes = hashes.map_err(|error| error.to_string())?;
    let disk = disk.restart();
    disk.script(move |op, _, count| script(op, count));
    let _ = store_on(&disk).settle_places();
    let operations = disk.operations();
    for seed in 0..SEEDS * 4 {
        let lost = disk.lose_power(seed);
        for hash in &hashes {
            let found = store_on(&lost).get(hash, u64::MAX);
            found.map_err(|error| format!("seed {seed}: {error}"))?;
            // Whoever settles next finds all of them, and all of it holds again.
            let next = lost.restart();
            store_on(&next).settle_places().map_err(|error| format!("seed {seed}: {error}"))?;
            let found = store_on(&next.lose_power(seed)).get(hash, u64::MAX);
            found.map_err(|error| format!("seed {seed}, settled again: {error}"))?;
        }
    }
    Ok(operations)
}

#[test]
fn an_artifact_is_found_whenever_its_way_to_its_place_is_cut_short() {
    let operations = settle(|_, _| DiskFault::None).unwrap();
    assert!(operations > 30, "only {operations} operations");
    for fault in [DiskFault::Fail(EIO), DiskFault::FailAfter(EIO), DiskFault::Die] {
        for at in 1..=operations {
            settle(move |_, count| if count == at { fault } else { DiskFault::None })
                .unwrap_or_else(|error| panic!("{fault:?} at operation {at}: {error}"));
        }
    }
    let lies = |op, _| if op == Op::SyncDir { DiskFault::Lie } else { DiskFault::None };
    assert!(settle(lies).is_err(), "names need not be synced, and nobody would notice");
}

#[test]
fn what_somebody_else_is_still_writing_is_not_taken_for_stored() {
    let disk = SimDisk::new();
    let (bytes, hash) = (artifact(1), Hash::of(&artifact(1)));
    // One that died before its first sync: whole to look at, and lost with the power.
    disk.script(|op, _, _| match op {
        Op::SyncData => DiskFault::Die,
        _ => DiskFault::None,
    });
    assert!(store_on(&disk).put(&bytes).is_err());
    let next = disk.restart();
    assert_eq!(store_on(&next).get(&hash, u64::MAX).unwrap(), bytes);
    store_on(&next).put(&bytes).unwrap();
    for seed in 0..SEEDS {
        assert_eq!(store_on(&next.lose_power(seed)).get(&hash, u64::MAX).unwrap(), bytes);
    }
    // One that died half-way: its bytes are replaced.
    let disk = SimDisk::new();
    disk.script(|op, _, _| match op {
        Op::Write => DiskFault::Die,
        _ => DiskFault::None,
    });
    assert!(store_on(&disk).put(&bytes).is_err());
    let next = disk.restart();
    // What is torn may be what somebody writes at this moment.
    assert_eq!(store_on(&next.restart()).remove_leftovers().unwrap(), 0);
    store_on(&next).put(&bytes).unwrap();
    for seed in 0..SEEDS {
        assert_eq!(store_on(&next.lose_power(seed)).get(&hash, u64::MAX).unwrap(), bytes);
    }
}

#[test]
fn what_a_dead_writer_left_and_a_dead_helper_placed_is_not_taken_for_durable() {
    let (bytes, hash) = (artifact(1), Hash::of(&artifact(1)));
    let mut tried = 0;
    for at in 1.. {
        let disk = SimDisk::new();
        disk.script(|op, _, _| if op == Op::SyncData { DiskFault::Die } else { DiskFault::None });
        assert!(store_on(&disk).put(&bytes).is_err());
        let disk = disk.restart();
        disk.script(move |_, _, count| if count == at { DiskFault::Die } else { DiskFault::None });
        let settled = store_on(&disk).settle_places();
        let disk = disk.restart();
        store_on(&disk).put(&bytes).unwrap();
        for seed in 0..SEEDS {
            let found = store_on(&disk.lose_power(seed)).get(&hash, u64::MAX);
            assert_eq!(found.unwrap(), bytes, "the helper died at {at}, seed {seed}");
        }
        tried += 1;
        if settled.is_ok() {
            break;
        }
    }
    assert!(tried > 8, "only {tried} operations");
}

#[test]
fn after_a_failed_sync_of_an_artifact_whoever_tries_again_writes_it_anew() {
    let disk = SimDisk::new();
    let (bytes, hash) = (artifact(1), Hash::of(&artifact(1)));
    disk.script(|op, _, _| if op == Op::SyncData { DiskFault::Fail(EIO) } else { DiskFault::None });
    assert!(store_on(&disk).put(&bytes).is_err());
    disk.script(|_, _, _| DiskFault::None);
    assert!(matches!(store_on(&disk).get(&hash, u64::MAX), Err(StoreError::Missing { .. })));
    store_on(&disk).put(&bytes).unwrap();
    for seed in 0..SEEDS {
        assert_eq!(store_on(&disk.lose_power(seed)).get(&hash, u64::MAX).unwrap(), bytes);
    }
}

#[test]
fn what_was_redacted_does_not_come_back_with_the_power() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let hash = store.put(&artifact(1)).unwrap();
    assert_eq!(store.settle_places().unwrap(), 1);
    assert!(store.remove(&hash).unwrap());
    for seed in 0..SEEDS * 4 {
        let lost = disk.lose_power(seed);
        let found = store_on(&lost).get(&hash, u64::MAX);
        assert!(matches!(found, Err(StoreError::Missing { .. })), "seed {seed}: {found:?}");
    }
}

#[test]
fn where_files_cannot_have_two_names_artifacts_are_copied_to_their_places() {
    let disk = SimDisk::new();
    disk.script(|op, _, _| if op == Op::Link { DiskFault::Fail(EPERM) } else { DiskFault::None });
    let store = store_on(&disk);
    let all: Vec<Vec<u8>> = (1..=3).map(artifact).collect();
    let hashes = store.put_all(&all.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    assert_eq!(store.settle_places().unwrap(), 3);
    assert_eq!(store.settle_places().unwrap(), 0, "nothing is left among the new ones");
    for seed in 0..SEEDS {
        let found = store_on(&disk.lose_power(seed));
        for (hash, bytes) in hashes.iter().zip(&all) {
            assert_eq!(found.get(hash, u64::MAX).unwrap(), *bytes, "seed {seed}");
        }
    }
}

#[test]
fn a_damaged_place_is_replaced_before_the_artifact_is_acknowledged() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let hash = store.put(b"some bytes").unwrap();
    store.settle_places().unwrap();
    let name = hash.to_hex();
    let dir = sim_home().join("artifacts").join("sha256").join(&name[..2]).join(&name[2..4]);
    disk.damage(&dir.join(&name), |bytes| bytes[0] ^= 1);
    let patient = store_on(&disk);
    patient.place_when_told();
    patient.put(b"some bytes").unwrap();
    assert_eq!(store_on(&disk).get(&hash, u64::MAX).unwrap(), b"some bytes");
}

#[test]
fn a_failed_sync_poisons_the_handle_and_not_the_ledger() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let first = store.begin(trace(1)).unwrap().append(b"{\"n\":1}\n").unwrap();
    let reader = store_on(&disk);
    let mut failed = false;
    disk.script(move |op, _, _| match op {
        Op::SyncData if !std::mem::replace(&mut failed, true) => DiskFault::Fail(EIO),
        _ => DiskFault::None,
    });
    let mut batch = store.begin(trace(1)).unwrap();
    assert!(matches!(batch.append(b"{\"n\":2}\n"), Err(StoreError::Backend(_))));
    assert!(matches!(batch.append(b"{\"n\":2}\n"), Err(StoreError::Poisoned { .. })));
    drop(batch);
    assert!(matches!(store.begin(trace(1)), Err(StoreError::Poisoned { .. })));
    assert_eq!(store.read(trace(1), Head::EMPTY, 100).unwrap(), b"{\"n\":1}\n", "cut back");
    assert_eq!(reader.begin(trace(1)).unwrap().append(b"{\"n\":3}\n").unwrap().bytes, 16);
    assert_eq!(first.bytes, 8);
}

#[test]
fn a_full_disk_takes_nothing_and_can_be_used_again_once_there_is_room() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let head = store.begin(trace(1)).unwrap().append(&lines(1)).unwrap();
    disk.limit(head.bytes + 1000);
    let refused = store.begin(trace(1)).unwrap().append(&lines(2));
    assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
    assert!(matches!(store.put(&[7; 5000]), Err(StoreError::Full(_))));
    assert_eq!(store.begin(trace(1)).unwrap().head(), head);
    assert_eq!(store.read(trace(1), Head::EMPTY, usize::MAX).unwrap(), lines(1));
    disk.limit(1 << 20);
    assert_eq!(store.begin(trace(1)).unwrap().append(&lines(2)).unwrap().bytes, head.bytes * 2);
    assert_eq!(store.remove_leftovers().unwrap(), 0, "nothing is left in `tmp`");
}

#[test]
fn torn_bytes_are_kept_aside_and_readers_never_see_them() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let head = store.begin(trace(1)).unwrap().append(b"{\"n\":1}\n").unwrap();
    disk.script(|op, _, _| match op {
        Op::Write => DiskFault::ShortWrite(5, EIO),
        Op::SetLen => DiskFault::Fail(EIO),
        _ => DiskFault::None,
    });
    assert!(store.begin(trace(1)).unwrap().append(b"{\"n\":2}\n").is_err());
    disk.script(|_, _, _| DiskFault::None);
    assert!(matches!(store.begin(trace(1)), Err(StoreError::Poisoned { .. })));

    let store = store_on(&disk);
    assert_eq!(store.read(trace(1), Head::EMPTY, 100).unwrap(), b"{\"n\":1}\n");
    assert_eq!(store.head(trace(1)).unwrap(), head);
    assert!(matches!(store.append(trace(1), head, b"{}\n"), Err(StoreError::Torn { .. })));
    let mut batch = store.begin(trace(1)).unwrap();
    let tail = batch.torn_tail().unwrap();
    assert_eq!((tail.at, tail.bytes), (head, 5));
    assert!(batch.repair_tail(Head::at(3)).is_err(), "only whole lines can be cut off");
    let repaired = batch.repair_tail(head).unwrap().unwrap();
    assert_eq!((repaired.tail, repaired.hash), (tail, Hash::of(b"{\"n\":")));
    assert_eq!(batch.append(b"{\"n\":2}\n").unwrap().bytes, 16);
    drop(batch);
    let kept = sim_home().join("traces").join(trace(1).to_string()).join("torn").join("8-0");
    assert_eq!(disk.lose_power(0).contents(&kept).unwrap(), b"{\"n\":");
}

#[test]
fn a_hole_in_the_last_append_is_a_tear_and_old_damage_is_not() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let first = store.begin(LedgerId::Log).unwrap().append(&lines(1)).unwrap();
    store.begin(LedgerId::Log).unwrap().append(&lines(2)).unwrap();
    let path = sim_home().join("log").join("events.jsonl");
    let hole = usize::try_from(first.bytes).unwrap() + 3;
    disk.damage(&path, |bytes| bytes[hole..hole + 20].fill(0));
    let torn = store_on(&disk).begin(LedgerId::Log).unwrap().torn_tail().unwrap();
    assert_eq!((torn.at, torn.bytes), (first, first.bytes));

    // Far from the end it cannot come from a writer that died: cutting there would destroy what
    // was acknowledged since.
    let long = [vec![b'x'; 1 << 20], b"\n".to_vec()].concat();
    for _ in 0..5 {
        store.begin(trace(1)).unwrap().append(&long).unwrap();
    }
    let path = sim_home().join("traces").join(trace(1).to_string()).join("events.jsonl");
    disk.damage(&path, |bytes| bytes[7] = 0);
    assert_eq!(store_on(&disk).begin(trace(1)).unwrap().torn_tail(), None);
}

#[test]
fn a_follower_notices_that_lines_were_taken_back() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    store.begin(trace(1)).unwrap().append(b"{\"n\":1}\n").unwrap();
    let path = sim_home().join("traces").join(trace(1).to_string()).join("events.jsonl");
    let now = std::time::Duration::ZERO;
    for replaced in [b"{\"n\":1}\n{\"n\":3}\n{\"n\":4}\n".as_slice(), b"{\"n\":1}\n"] {
        disk.damage(&path, |bytes| *bytes = b"{\"n\":1}\n{\"n\":2}\n".to_vec());
        let mut follower = store.follow(trace(1), Head::EMPTY).unwrap();
        assert_eq!(follower.next(now).unwrap().unwrap(), b"{\"n\":1}\n{\"n\":2}\n");
        disk.damage(&path, |bytes| *bytes = replaced.to_vec());
        assert!(matches!(follower.next(now), Err(StoreError::CutBack { .. })));
    }
}

#[test]
fn a_damaged_artifact_is_found_and_replaced_by_good_bytes() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let hash = store.put(b"some bytes").unwrap();
    assert_eq!(store.settle_places().unwrap(), 1);
    let name = hash.to_hex();
    let dir = sim_home().join("artifacts").join("sha256").join(&name[..2]).join(&name[2..4]);
    disk.damage(&dir.join(&name), |bytes| bytes[0] ^= 1);
    let found = Hash::of(b"rome bytes");
    match store.get(&hash, 100) {
        Err(StoreError::Corrupt { found: other, .. }) => assert_eq!(other, found),
        other => panic!("{other:?}"),
    }
    let before = disk.operations();
    assert_eq!(store.put(b"some bytes").unwrap(), hash);
    assert!(disk.operations() > before);
    assert_eq!(disk.lose_power(3).contents(&dir.join(&name)).unwrap(), b"some bytes");

    let other = Hash::of(b"other bytes").to_hex();
    let dir = sim_home().join("artifacts").join("sha256").join(&other[..2]).join(&other[2..4]);
    store.ensure_dir(&dir).unwrap();
    disk.plant_other(&dir.join(&other));
    assert!(matches!(store.put(b"other bytes"), Err(StoreError::Backend(_))));
    assert!(matches!(store.get(&Hash::of(b"other bytes"), 100), Err(StoreError::Backend(_))));
}

#[test]
fn putting_the_same_bytes_again_writes_nothing() {
    let disk = SimDisk::new();
    store_on(&disk).put(b"some bytes").unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    disk.script(move |op, _, _| {
        tell.send(op).unwrap();
        DiskFault::None
    });
    let store = store_on(&disk);
    store.put(b"some bytes").unwrap();
    let first: Vec<Op> = told.try_iter().collect();
    assert_eq!(first, [Op::Open, Op::Read, Op::Read], "what is in its place is durable");
    store.put(b"some bytes").unwrap();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [Op::Open, Op::Read, Op::Read]);
}

#[test]
fn an_append_to_an_open_ledger_costs_one_sync_and_a_handful_of_calls() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    store.begin(trace(1)).unwrap().append(b"{}\n").unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    disk.script(move |op, path, _| {
        tell.send((op, path.ends_with("changes"))).unwrap();
        DiskFault::None
    });
    store.begin(trace(1)).unwrap().append(b"{}\n").unwrap();
    let calls: Vec<_> = told.try_iter().collect();
    let ledger = |op| (op, false);
    assert_eq!(
        calls,
        [
            ledger(Op::Lock),
            ledger(Op::Stat),
            ledger(Op::Write),
            ledger(Op::SyncData),
            (Op::Stat, true),
            (Op::Write, true),
            ledger(Op::Unlock),
        ]
    );
}

#[test]
fn the_file_that_wakes_followers_is_emptied_when_it_grows_and_made_again_when_deleted() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let changes = sim_home().join("changes");
    let append = || store.begin(LedgerId::Log).unwrap().append(b"{}\n").unwrap();
    append();
    assert_eq!(disk.contents(&changes).unwrap(), b"log 3\n");
    disk.damage(&changes, |bytes| bytes.resize((1 << 20) + 1, b'x'));
    append();
    assert_eq!(disk.contents(&changes).unwrap(), b"log 6\n");
    countersign_runtime::disk::Disk::remove(&disk, &changes).unwrap();
    append();
    assert_eq!(disk.contents(&changes).unwrap(), b"log 9\n");
}

#[test]
fn a_ledger_that_was_removed_is_not_written_to() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    store.begin(LedgerId::Log).unwrap().append(b"{\"old\":1}\n").unwrap();
    let path = sim_home().join("log").join("events.jsonl");
    countersign_runtime::disk::Disk::remove(&disk, &path).unwrap();
    let mut batch = store.begin(LedgerId::Log).unwrap();
    assert_eq!(batch.head(), Head::EMPTY);
    batch.append(b"{\"new\":1}\n").unwrap();
    assert_eq!(disk.contents(&path).unwrap(), b"{\"new\":1}\n");
}
