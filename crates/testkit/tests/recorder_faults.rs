//! A recorder on a disk that fails at every operation in turn.
//!
//! Whatever fails, and whenever power is lost: the verifier finds no fault with what is left,
//! everything acknowledged is there, and the code that always runs goes on from it. The same test
//! must find fault with a disk that only claims to sync.
#![cfg(test)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::{Closed, VerificationReport};
use countersign_format::time::Timestamp;
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::clock::Clock;
use countersign_runtime::disk::Op;
use countersign_runtime::store::Blobs as _;
use countersign_runtime::{Environment, Recording, Workspace};
use countersign_testkit::clock::{FakeClock, SeededEntropy};
use countersign_testkit::disk::{DiskFault, EDQUOT, EINTR, EIO, ENOSPC, SimDisk};
use countersign_testkit::note;
use countersign_testkit::sim::SimHome;

/// How the checks below tell of something that was acknowledged and is gone.
const SIGNS_OF_LOSS: [&str; 4] =
    ["was acknowledged", "was stored", "ArtifactMissing", "ArtifactHashMismatch"];

/// So many that some are signed while others are on their way to the disk, and so often that leaders
/// take turns.
const CALLERS: usize = 72;
const ROUNDS: usize = 6;
/// Threads where each speaks for several callers.
const ENVOYS: usize = 6;
/// How many callers write at once.
type Crowd = fn(&Workspace) -> Told;
/// Each on a thread, or through envoys, or these with a crew at hand.
const CROWDS: [Crowd; 3] = [Told::write_together, Told::write_with_envoys, Told::write_with_crew];

/// What a writer was told: the only thing that it may count on.
#[derive(Default, Clone)]
struct Told {
    recording: Option<Ulid>,
    events: Vec<String>,
    artifacts: Vec<Hash>,
    concluded: bool,
}

impl Told {
    /// Begins a recording, writes to it and concludes it, whatever fails.
    fn write(workspace: &Workspace) -> Self {
        let mut told = Self::default();
        let begun = workspace.begin_recording(Some("agent"), None);
        // Somebody who is refused tries again.
        let Ok(recording) = begun.or_else(|_| workspace.begin_recording(Some("agent"), None))
        else {
            return told;
        };
        told.recording = Some(recording.id());
        for round in 0..3 {
            told.submit(&recording, note(&round.to_string()));
        }
        if let Ok(artifact) = recording.put_artifact(&[b'a'; 1_500], "text/plain") {
            told.artifacts.push(artifact.artifact_hash);
            let purpose = "evidence".to_owned();
            let artifacts = vec![artifact];
            told.submit(&recording, RecordingCommand::RecordArtifact { purpose, artifacts });
        }
        told.concluded = recording.conclude("done").is_ok();
        told
    }

    /// The same with many callers at once: while some of their events are on their way to the disk,
    /// others are signed on top of them.
    fn write_together(workspace: &Workspace) -> Self {
        Self::write_with(workspace, CALLERS, Self::submit_each, |caller| caller.join().unwrap())
    }

    /// The same where some threads speak for all callers.
    fn write_with_envoys(workspace: &Workspace) -> Self {
        Self::write_with(workspace, ENVOYS, Self::send_all, |envoy| envoy.join().unwrap())
    }

    /// The same where threads that have no callers sign, and go to the disk.
    fn write_with_crew(workspace: &Workspace) -> Self {
        let write = |recording: &Recording| {
            recording.with_crew(|| {
                Self::record_with(recording, ENVOYS, Self::send_all, |envoy| envoy.join().unwrap())
            })
        };
        Self::write_by(workspace, write)
    }

    /// The same where threads may panic; of those nobody knows what they were told.
    fn write_panicking(workspace: &Workspace) -> Self {
        let joined = |caller: ScopedJoinHandle<'_, _>| caller.join().unwrap_or_default();
        Self::write_with(workspace, CALLERS, Self::submit_each, joined)
    }

    fn send_panicking(workspace: &Workspace) -> Self {
        let joined = |envoy: ScopedJoinHandle<'_, _>| envoy.join().unwrap_or_default();
        Self::write_with(workspace, ENVOYS, Self::send_all, joined)
    }

    /// With a crew, whose threads may panic too.
    fn send_to_panicking_crew(workspace: &Workspace) -> Self {
        let joined = |envoy: ScopedJoinHandle<'_, _>| envoy.join().unwrap_or_default();
        let write = |recording: &Recording| {
            let record = || Self::record_with(recording, ENVOYS, Self::send_all, joined);
            recording.with_crew(record)
        };
        Self::write_by(workspace, write)
    }

    fn write_with(
        workspace: &Workspace,
        threads: usize,
        write: fn(&Recording, usize) -> Self,
        joined: impl Fn(ScopedJoinHandle<'_, Vec<String>>) -> Vec<String>,
    ) -> Self {
        Self::write_by(workspace, |recording| Self::record_with(recording, threads, write, joined))
    }

    fn write_by(workspace: &Workspace, write: impl FnOnce(&Recording) -> Vec<String>) -> Self {
        let mut told = Self::default();
        let Ok(recording) = workspace.begin_recording(Some("agent"), None) else { return told };
        told.recording = Some(recording.id());
        told.events = write(&recording);
        told.concluded = recording.conclude("done").is_ok();
        told
    }

    fn record_with(
        recording: &Recording,
        threads: usize,
        write: fn(&Recording, usize) -> Self,
        joined: impl Fn(ScopedJoinHandle<'_, Vec<String>>) -> Vec<String>,
    ) -> Vec<String> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || write(recording, thread).events))
                .collect();
            threads.into_iter().flat_map(joined).collect()
        })
    }

    fn submit_each(recording: &Recording, caller: usize) -> Self {
        let mut own = Self::default();
        for round in 0..ROUNDS {
            own.submit(recording, note(&format!("{caller} {round}")));
        }
        own
    }

    /// Each caller sends its next command once it was told what became of its last one.
    fn send_all(recording: &Recording, thread: usize) -> Self {
        let mut own = Self::default();
        let mut envoy = recording.envoy();
        let mut rounds = BTreeMap::new();
        for caller in 0..CALLERS / ENVOYS {
            let command = note(&format!("{thread} {caller} 0"));
            rounds.insert(envoy.send(command).unwrap(), (caller, 0));
        }
        while let Some((ticket, answer)) = envoy.hear() {
            let (caller, round) = rounds.remove(&ticket).expect("nobody asked that");
            own.events.extend(answer.into_iter().flat_map(|it| it.events).map(|it| it.event_id));
            let round = round + 1;
            if round < ROUNDS {
                let command = note(&format!("{thread} {caller} {round}"));
                rounds.insert(envoy.send(command).unwrap(), (caller, round));
            }
        }
        assert!(rounds.is_empty(), "callers that were not answered: {rounds:?}");
        own
    }

    fn submit(&mut self, recording: &Recording, command: RecordingCommand) {
        if let Ok(recorded) = recording.submit(command) {
            self.events.extend(recorded.events.into_iter().map(|event| event.event_id));
        }
    }

    /// Whether everything that was told is on the disk that was opened last.
    fn check(&self, home: &SimHome, workspace: &Workspace) -> Result<(), String> {
        let Some(id) = self.recording else { return Ok(()) };
        let found = home.event_ids(id);
        for event in &self.events {
            if found.iter().filter(|id| *id == event).count() != 1 {
                return Err(format!("event {event} was acknowledged, there are {found:?}"));
            }
        }
        for artifact in &self.artifacts {
            let stored = workspace.store().get(artifact, u64::MAX);
            stored.map_err(|error| format!("an artifact that was stored: {error}"))?;
        }
        Ok(())
    }
}

fn is_ledger_of_trace(path: &Path) -> bool {
    path.ends_with("events.jsonl") && !path.ends_with("log/events.jsonl")
}

/// Whether there are bytes that never reached the disk.
fn has_hole(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.contains(&0))
}

/// What a report may say without anything being wrong.
fn sound(report: &VerificationReport, warnings: &[&str]) -> Result<(), String> {
    let bad = report.warnings.iter().any(|it| !warnings.contains(&it.warning_code.as_str()));
    if report.failures.is_empty() && !bad {
        return Ok(());
    }
    Err(format!("{:#?} {:#?}", report.failures, report.warnings))
}

/// Reads the disk as a stranger, lets another process go on with it, and reads it again.
fn check(home: &SimHome, disk: &SimDisk, told: &Told) -> Result<(), String> {
    let workspace = home.open(disk, 99).map_err(|error| format!("open: {error:?}"))?;
    let left = ["TORN_TAIL", "LOG_ENTRY_MISSING", "CHECKPOINT_UNREADABLE"];
    // A hole in the last append is damage to a reader, until a writer sets it aside.
    let log_is_whole = !has_hole(&home.path().join("log/events.jsonl"));
    if log_is_whole {
        sound(&home.verify_log(), &left)?;
    }
    for id in home.traces() {
        if log_is_whole && !has_hole(&home.trace_file(id)) {
            sound(&home.verify(id), &left).map_err(|error| format!("as found, {id}: {error}"))?;
        }
    }
    told.check(home, &workspace)?;

    workspace.reconcile_all().map_err(|error| format!("reconcile: {error:?}"))?;
    for id in home.traces().into_iter().filter(|id| !has_hole(&home.trace_file(*id))) {
        let told = sound(&home.verify(id), &["TORN_TAIL", "CHECKPOINT_UNREADABLE"]);
        told.map_err(|error| format!("after repair, {id}: {error}"))?;
    }
    // Of a trace whose first event never reached the disk nobody was told; there is nothing to go on
    // with, and no writer will come and set its bytes aside.
    let alive = |id: &Ulid| !home.event_ids(*id).is_empty();
    for id in home.traces().into_iter().filter(alive) {
        go_on(&workspace, id).map_err(|error| format!("going on with {id}: {error}"))?;
    }
    let next = Told::write(&workspace);
    if !next.concluded {
        return Err("the next recording cannot be written".into());
    }
    for id in home.traces().into_iter().filter(alive) {
        let report = home.verify(id);
        sound(&report, &[]).map_err(|error| format!("in the end, {id}: {error}"))?;
        if report.closed != Closed::Yes {
            return Err(format!("{id} is not closed: {report:#?}"));
        }
    }
    sound(&home.verify_log(), &[])?;
    told.check(home, &workspace)?;
    next.check(home, &workspace)
}

/// Finishes a recording that may have got anywhere, or redacts something if it is finished.
fn go_on(workspace: &Workspace, id: Ulid) -> Result<(), String> {
    let recording = workspace.recording(id).map_err(|error| format!("{error:?}"))?;
    let artifact_hash = Hash::of(b"whatever");
    let redact = RecordingCommand::Redact { artifact_hash, reason: "test".to_owned() };
    recording.submit(redact).map_err(|error| format!("{error:?}"))?;
    let report = recording.conclude("done");
    match report {
        Ok(_) => Ok(()),
        Err(error) if error.to_string().contains("has ended") => Ok(()),
        Err(error) => Err(format!("{error:?}")),
    }
}

/// Writes on a disk with this script, and checks it once the process is gone, and once power was
/// lost in the ways that these seeds give.
fn run(
    home: &SimHome,
    seeds: Range<u64>,
    script: impl FnMut(Op, u64) -> DiskFault + Send + 'static,
) -> Result<u64, String> {
    run_writing(home, Told::write, seeds, script)
}

fn run_writing(
    home: &SimHome,
    write: fn(&Workspace) -> Told,
    seeds: Range<u64>,
    mut script: impl FnMut(Op, u64) -> DiskFault + Send + 'static,
) -> Result<u64, String> {
    let disk = home.disk();
    let workspace = home.open(&disk, 5).map_err(|error| error.to_string())?;
    disk.script(move |op, _, count| script(op, count));
    let told = write(&workspace);
    drop(workspace);
    let operations = disk.operations();
    check(home, &disk.restart(), &told).map_err(|error| format!("restarted: {error}"))?;
    for seed in seeds {
        check(home, &disk.lose_power(seed), &told)
            .map_err(|error| format!("power lost, seed {seed}: {error}"))?;
    }
    Ok(operations)
}

/// Runs once for every operation, with `script` given its number and that of the one to fail at.
fn sweep(script: fn(u64, u64) -> DiskFault) {
    let home = SimHome::new();
    let operations = run(&home, 0..20, |_, _| DiskFault::None).unwrap();
    assert!(operations > 100, "the sweep covers only {operations} operations");
    for at in 1..=operations {
        run(&home, at * 2..at * 2 + 2, move |_, count| script(count, at))
            .unwrap_or_else(|error| panic!("{:?} at operation {at}: {error}", script(at, at)));
    }
}

/// What the crowds do before and after.
fn begin_and_conclude(workspace: &Workspace) -> Told {
    Told::write_with(workspace, 0, Told::submit_each, |caller| caller.join().unwrap())
}

fn once(count: u64, at: u64, fault: DiskFault) -> DiskFault {
    if count == at { fault } else { DiskFault::None }
}

#[test]
fn an_operation_that_fails_takes_nothing_acknowledged_with_it() {
    sweep(|count, at| once(count, at, DiskFault::Fail(EIO)));
}

/// Each of these errors at every operation would take three times as long, and differ in nothing but
/// the words of the error; each operation gets one of them.
#[test]
fn a_full_disk_a_used_up_quota_and_an_interruption_take_nothing_acknowledged_with_them() {
    sweep(|count, at| {
        let errors = [ENOSPC, EDQUOT, EINTR];
        once(count, at, DiskFault::Fail(errors[usize::try_from(at % 3).unwrap()]))
    });
}

#[test]
fn an_operation_that_succeeds_and_is_reported_as_failed_leaves_a_sound_trace() {
    sweep(|count, at| once(count, at, DiskFault::FailAfter(EIO)));
}

#[test]
fn a_write_that_stops_half_way_leaves_a_sound_trace() {
    sweep(|count, at| once(count, at, DiskFault::ShortWrite(7, ENOSPC)));
}

#[test]
fn a_disk_that_fails_for_good_loses_nothing_acknowledged() {
    sweep(|count, at| if count >= at { DiskFault::Fail(EIO) } else { DiskFault::None });
}

#[test]
fn a_recorder_that_dies_anywhere_is_continued_by_the_next() {
    sweep(|count, at| once(count, at, DiskFault::Die));
}

/// Which operation fails varies with the threads; that it is one of many appends does not.
#[test]
fn of_many_callers_at_once_none_is_told_of_what_a_failing_disk_lost() {
    let faults: [fn(u64, u64) -> DiskFault; 4] = [
        |count, at| once(count, at, DiskFault::Fail(EIO)),
        |count, at| once(count, at, DiskFault::FailAfter(EIO)),
        |count, at| if count >= at { DiskFault::Fail(ENOSPC) } else { DiskFault::None },
        |count, at| once(count, at, DiskFault::Die),
    ];
    for crowd in CROWDS {
        let home = SimHome::new();
        let begun = run_writing(&home, begin_and_conclude, 0..1, |_, _| DiskFault::None).unwrap();
        let operations = run_writing(&home, crowd, 0..8, |_, _| DiskFault::None).unwrap();
        // At least a write and a sync for each round.
        assert!(operations > begun + 2 * ROUNDS as u64, "{operations} operations, {begun} around");
        for at in (begun / 2..=operations).step_by(11) {
            for (which, fault) in faults.into_iter().enumerate() {
                run_writing(&home, crowd, at..at + 1, move |_, count| fault(count, at))
                    .unwrap_or_else(|error| panic!("fault {which} at operation {at}: {error}"));
            }
        }
    }
}

/// Whoever leads, or takes to the disk what others wait for, may panic over it. Nobody waits for ever,
/// nobody is told of what is not there, and the next one goes on.
#[test]
fn callers_are_answered_though_one_of_them_panics_over_the_disk() {
    let home = SimHome::new();
    let ops = [Op::Write, Op::SyncData];
    let cases = ops.into_iter().flat_map(|op| [2, 3, 5, 8].map(|at| (op, at)));
    let crowds: [Crowd; 3] =
        [Told::write_panicking, Told::send_panicking, Told::send_to_panicking_crew];
    for ((panics, at), write) in cases.flat_map(|case| crowds.map(|it| (case, it))) {
        let disk = home.disk();
        let workspace = home.open(&disk, 5).unwrap();
        let (mut done, mut again) = (0, false);
        disk.script(move |op, path, _| {
            // The first one is the recording's beginning.
            if op == panics && is_ledger_of_trace(path) {
                done += 1;
                assert!(done != at, "the driver of the disk is broken");
            }
            // And whoever leads next, as it looks for what is known of the ledger.
            if done >= at && !again && path.ends_with("snapshot") {
                again = true;
                panic!("the driver of the disk is still broken");
            }
            DiskFault::None
        });
        let told = write(&workspace);
        assert!(told.events.len() < CALLERS * ROUNDS, "nobody panicked");
        drop(workspace);
        check(&home, &disk.restart(), &told)
            .unwrap_or_else(|error| panic!("{panics:?} {at}: {error}"));
        check(&home, &disk.lose_power(at), &told)
            .unwrap_or_else(|error| panic!("{panics:?} {at}: {error}"));
    }
}

/// Whoever has no crew goes to the disk by itself.
#[test]
fn a_crew_goes_to_the_disk_for_a_caller() {
    let home = SimHome::new();
    let disk = home.disk();
    let workspace = home.open(&disk, 5).unwrap();
    let recording = workspace.begin_recording(Some("agent"), None).unwrap();
    let (caller, others) = (std::thread::current().id(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&others);
    disk.script(move |op, path, _| {
        let other = std::thread::current().id() != caller;
        if op == Op::SyncData && is_ledger_of_trace(path) && other {
            count.fetch_add(1, Ordering::SeqCst);
        }
        DiskFault::None
    });
    let submit = || drop(recording.submit(note("one more")).unwrap());
    (0..50).for_each(|_| submit());
    assert_eq!(others.load(Ordering::SeqCst), 0, "somebody else was there");
    recording.with_crew(|| {
        // Its threads may take a while to come.
        for _ in 0..100_000 {
            submit();
            if others.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
        panic!("the caller always did it by itself");
    });
    let before = others.load(Ordering::SeqCst);
    (0..50).for_each(|_| submit());
    assert_eq!(others.load(Ordering::SeqCst), before, "a crew that was dismissed is still there");
}

/// What was decided while the leader's own command had filled a batch was left behind, and the state
/// was ahead of the chain from then on; or the leader looked for somebody to make room for ever.
#[test]
fn commands_that_fill_a_batch_each_and_come_at_once_are_all_recorded() {
    let home = SimHome::new();
    for (callers, kibibytes) in [(24, 40), (12, 150), (8, 600)] {
        let disk = home.disk();
        let workspace = home.open(&disk, 5).unwrap();
        let recording = workspace.begin_recording(Some("agent"), None).unwrap();
        let text = "x".repeat(kibibytes * 1024);
        let events = std::thread::scope(|scope| {
            let write = |_| {
                let mut own = Vec::new();
                for _ in 0..ROUNDS {
                    own.extend(recording.submit(note(&text)).unwrap().events);
                }
                own
            };
            let callers: Vec<_> =
                (0..callers).map(|caller| scope.spawn(move || write(caller))).collect();
            callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(events.len(), callers * ROUNDS);
        let told = Told {
            recording: Some(recording.id()),
            events: events.into_iter().map(|event| event.event_id).collect(),
            concluded: recording.conclude("done").is_ok(),
            ..Told::default()
        };
        assert!(told.concluded);
        drop((recording, workspace));
        check(&home, &disk.restart(), &told)
            .unwrap_or_else(|error| panic!("{kibibytes} KiB: {error}"));
    }
}

/// A clock that is broken once, the `at`th time that it is asked.
#[derive(Debug)]
struct BrokenOnce {
    asked: AtomicU64,
    at: u64,
}

impl Clock for BrokenOnce {
    fn now(&self) -> Timestamp {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(asked != self.at, "the driver of the clock is broken");
        FakeClock::new().now()
    }
}

/// A command may be decided by who leads or by its own caller; either may panic over it.
#[test]
fn callers_are_answered_though_one_of_them_panics_over_a_decision() {
    let home = SimHome::new();
    // Of a thread that panics nobody knows what its callers were told.
    let crowds: [(Crowd, usize); 3] = [
        (Told::write_panicking, 1),
        (Told::send_panicking, CALLERS / ENVOYS),
        (Told::send_to_panicking_crew, CALLERS / ENVOYS),
    ];
    let cases = [5, 20, 60, 100, 150, 200, 250, 300].map(|at| crowds.map(|crowd| (at, crowd)));
    for (at, (write, callers_of_one)) in cases.into_iter().flatten() {
        let disk = home.disk();
        let clock = Arc::new(BrokenOnce { asked: AtomicU64::new(0), at });
        let environment = Environment {
            disk: Arc::new(home.mirrored(&disk)),
            clock: Arc::clone(&clock) as Arc<_>,
            entropy: Arc::new(SeededEntropy::new(5)),
        };
        let workspace = home.open_in(environment).unwrap();
        let told = write(&workspace);
        assert!(clock.asked.load(Ordering::SeqCst) > at, "nobody panicked");
        assert!(told.concluded, "at {at}: nobody could go on");
        assert!(told.events.len() < CALLERS * ROUNDS, "nobody missed anything");
        // Whoever was in one batch with it is told so, the others are not concerned.
        let least = (CALLERS - callers_of_one) * (ROUNDS - 2);
        assert!(told.events.len() >= least, "{} events", told.events.len());
        drop(workspace);
        check(&home, &disk.restart(), &told).unwrap_or_else(|error| panic!("at {at}: {error}"));
        check(&home, &disk.lose_power(at), &told)
            .unwrap_or_else(|error| panic!("at {at}: {error}"));
    }
}

#[test]
fn events_of_many_callers_that_were_not_synced_are_missed() {
    let home = SimHome::new();
    let lie = |op, _| if op == Op::SyncData { DiskFault::Lie } else { DiskFault::None };
    for crowd in CROWDS {
        let caught = run_writing(&home, crowd, 0..8, lie);
        let error = caught.expect_err("a sync could be left out, and nobody would notice");
        assert!(SIGNS_OF_LOSS.iter().any(|sign| error.contains(sign)), "{error}");
    }
}

#[test]
fn the_sweep_catches_a_disk_that_does_not_sync() {
    for unsynced in [Op::SyncData, Op::SyncDir] {
        let home = SimHome::new();
        let caught =
            run(
                &home,
                0..8,
                move |op, _| if op == unsynced { DiskFault::Lie } else { DiskFault::None },
            );
        let error = caught.expect_err("a sync could be left out, and nobody would notice");
        assert!(SIGNS_OF_LOSS.iter().any(|sign| error.contains(sign)), "{unsynced:?}: {error}");
    }
}

/// The first event of a trace names how far the log had come. It named an entry that another
/// process had written, but died before it could sync: power loss took the entry, and left a trace
/// that contradicts the log for good.
#[test]
fn a_trace_never_names_a_log_entry_that_power_loss_can_take() {
    let home = SimHome::new();
    let first = home.disk();
    dies_at_the_log(&home, &first, 5, Op::SyncData);
    let second = first.restart();
    dies_at_the_log(&home, &second, 6, Op::Write);
    for seed in 0..20 {
        check(&home, &second.lose_power(seed), &Told::default())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// A process that begins a recording and dies at an operation on the log.
fn dies_at_the_log(home: &SimHome, disk: &SimDisk, seed: u64, fatal: Op) {
    let workspace = home.open(disk, seed).unwrap();
    disk.script(move |op, path, _| {
        let here = op == fatal && path.ends_with("log/events.jsonl");
        if here { DiskFault::Die } else { DiskFault::None }
    });
    workspace.begin_recording(None, None).unwrap_err();
}
