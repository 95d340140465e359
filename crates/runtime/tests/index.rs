//! The index: whatever happens to it or to the traces, it says what one made anew would say.
#![cfg(test)]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use countersign_format::event::{Draft, EventType, Sealer, TraceKind};
use countersign_format::exit::WorkPhase;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::work::LeaseClock;
use countersign_runtime::index::{INDEX_NAME, Index, IndexPlace, TraceRow, TransitionRow, WorkRow};
use countersign_runtime::inspect::summarise;
use countersign_runtime::{Environment, Recording, Workspace};
use countersign_testkit::session::Party;
use countersign_testkit::{TestHome, note};
use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Value, json};

type Everything = (Vec<TraceRow>, Vec<WorkRow>, Vec<TransitionRow>);

fn everything(index: &mut Index) -> Everything {
    (index.traces().unwrap(), index.work_items().unwrap(), index.transitions(None).unwrap())
}

/// The same traces and log under another roof, with an index of its own.
struct Mirror {
    _dir: tempfile::TempDir,
    workspace: Workspace,
}

impl Mirror {
    fn of(home: &TestHome) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["log", "traces"] {
            fs::create_dir_all(home.path().join(name)).unwrap();
            symlink(home.path().join(name), dir.path().join(name)).unwrap();
        }
        let workspace = Workspace::open(&home.config(), dir.path(), Environment::system()).unwrap();
        Self { _dir: dir, workspace }
    }

    /// What an index says that is made from the traces alone.
    fn everything(&self) -> Everything {
        everything(&mut self.workspace.rebuild_index().unwrap())
    }
}

/// The index as it is found now says what a new one would say, and is in its file.
#[track_caller]
fn check(home: &TestHome, mirror: &Mirror) -> Everything {
    let mut index = home.workspace.index().unwrap();
    let found = everything(&mut index);
    assert_eq!(found, mirror.everything());
    assert_eq!(*index.place(), IndexPlace::File);
    for row in &found.0 {
        let summary = summarise(&home.workspace.trace_file(row.id), row.id).unwrap();
        assert_eq!(row.summary(), summary);
    }
    found
}

/// A work item whose events are written by hand.
struct Work {
    party: Party,
    id: Ulid,
    path: PathBuf,
    events: u64,
    head: Hash,
    at: Timestamp,
}

impl Work {
    fn open(home: &TestHome, label: &str) -> Self {
        let id = home.workspace.new_id().unwrap();
        let path = home.workspace.trace_file(id);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let party = Party::new("recorder", 9, Role::Recorder);
        let at = home.workspace.now();
        let mut work = Self { party, id, path, events: 0, head: Hash::GENESIS, at };
        let log = json!({
            "origin": "test", "size": 1, "head": Hash::of(b"head"), "keys_head": Hash::of(b"keys"),
        });
        let payload = json!({
            "kind": "work", "title": "Do it", "label": label, "phase": "DRAFT", "log": log,
        });
        work.push(EventType::WorkOpened, payload);
        work
    }

    /// The time of the last event.
    fn last_at(&self) -> Timestamp {
        self.at.plus_millis(-1_000)
    }

    fn line(&mut self, event_type: EventType, payload: Value) -> Vec<u8> {
        let sealer = Sealer {
            trace_id: self.id,
            event_id: Ulid::from_parts(self.at, u128::from(self.events)),
            seq: self.events,
            prev: self.head,
            created_at: self.at,
            raw_clock: None,
            actor: &self.party.actor,
        };
        let sign = |bytes: &[u8]| *self.party.secret.sign(bytes).as_bytes();
        let sealed = sealer.seal(Draft::new(event_type, payload), sign).unwrap();
        self.events += 1;
        self.head = sealed.event.event_hash;
        self.at = self.at.plus_millis(1_000);
        sealed.line
    }

    fn push(&mut self, event_type: EventType, payload: Value) {
        let line = self.line(event_type, payload);
        append(&self.path, &line);
    }

    fn grant(&mut self, holder: &str, epoch: u64, phase: &str) {
        let expires_at = self.at.plus_millis(60_000);
        let payload = json!({
            "holder": holder, "session_id": format!("session-{epoch}"), "epoch": epoch,
            "phase": phase, "expires_at": expires_at,
        });
        self.push(EventType::LeaseGranted, payload);
    }

    fn exit(&mut self, epoch: u64, (from, reason, to): (&str, &str, &str), more: Value) {
        let mut payload = json!({
            "source": "agent_exit_protocol", "session_id": format!("session-{epoch}"),
            "actor_id": "ann", "epoch": epoch, "phase_completed": from, "exit_reason": reason,
            "next_phase": to, "channel": "descriptor",
        });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.push(EventType::AgentSessionCompleted, payload);
    }
}

fn append(path: &Path, bytes: &[u8]) {
    File::options().create(true).append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// As if the file had last been changed at another time than any before.
fn at_another_time(path: &Path, number: u32) {
    let file = File::options().write(true).open(path).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + u64::from(number));
    file.set_modified(time).unwrap();
}

fn seconds(from: &str, seconds: i64) -> Timestamp {
    from.parse::<Timestamp>().unwrap().plus_millis(seconds * 1_000)
}

const START: &str = "2026-02-03T04:05:06.000Z";

#[test]
fn traces_are_found_as_they_stand() {
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    assert_eq!(check(&home, &mirror), (vec![], vec![], vec![]));
    let running = home.recording();
    home.clock.advance(1_000);
    let closed = home.workspace.begin_recording(None, Some("tidy up")).unwrap();
    home.clock.advance(1_000);
    let artifact = closed.put_artifact(b"one", "text/plain").unwrap();
    for _ in 0..2 {
        let artifacts = vec![artifact.clone()];
        let command = countersign_protocol::recording::RecordingCommand::RecordArtifact {
            purpose: "evidence".into(),
            artifacts,
        };
        closed.submit(command).unwrap();
        check(&home, &mirror);
    }
    closed.conclude("done").unwrap();
    let (traces, ..) = check(&home, &mirror);
    let [first, second] = traces.as_slice() else { panic!("{traces:?}") };
    assert_eq!((first.id, second.id), (running.id(), closed.id()));
    assert_eq!(first.title.as_deref(), Some("test-agent"));
    assert_eq!(first.status, Some(TraceStatus::Running));
    assert!(!first.closed);
    assert_eq!(second.title.as_deref(), Some("tidy up"));
    assert_eq!(second.kind, Some(TraceKind::Recording));
    assert_eq!(second.status, Some(TraceStatus::Succeeded));
    assert!(second.closed);
    assert_eq!(second.events, 6);
    assert_eq!(second.bytes, fs::metadata(home.workspace.trace_file(closed.id())).unwrap().len());
    assert_eq!(second.head, Some(home.events(closed.id()).last().unwrap().event_hash));
    assert_eq!(second.first_at, Some(seconds(START, 1)));
    assert_eq!(second.last_at, Some(seconds(START, 2)));
    assert_eq!(second.unreadable, None);
    // The artifact, named twice, and the report of the audit.
    assert_eq!(second.summary().unwrap().artifact_count, 2);
}

#[test]
fn a_work_item_is_followed_from_event_to_event() {
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    let mut work = Work::open(&home, "W-1");
    let mut item = WorkRow {
        id: work.id,
        label: Some("W-1".into()),
        title: "Do it".into(),
        phase: WorkPhase::Draft,
        blocked_from: None,
        holder: None,
        session_id: None,
        epoch: 0,
        expires_at: None,
        phase_since: seconds(START, 0),
        attempts: 0,
        by_hand: false,
        opened_at: seconds(START, 0),
        pr_url: None,
        blocked_reason: None,
        clock: LeaseClock::default(),
    };
    item.clock.last = Some(work.last_at());
    assert_eq!(check(&home, &mirror).1, [item.clone()]);

    work.grant("ann", 1, "DRAFT");
    item = WorkRow {
        holder: Some("ann".into()),
        session_id: Some("session-1".into()),
        epoch: 1,
        expires_at: Some(seconds(START, 61)),
        attempts: 1,
        ..item
    };
    item.clock.last = Some(work.last_at());
    assert_eq!(check(&home, &mirror).1, [item.clone()]);

    let expires_at = seconds(START, 90);
    work.push(EventType::LeaseRenewed, json!({ "epoch": 1, "expires_at": expires_at }));
    item.expires_at = Some(expires_at);
    item.clock.last = Some(work.last_at());
    assert_eq!(check(&home, &mirror).1, [item.clone()]);

    work.push(EventType::LeaseReleased, json!({ "epoch": 1, "reason": "expired" }));
    item = WorkRow { holder: None, session_id: None, expires_at: None, ..item };
    item.clock.last = Some(work.last_at());
    assert_eq!(check(&home, &mirror).1, [item.clone()]);

    work.grant("ann", 2, "DRAFT");
    work.exit(2, ("DRAFT", "completed", "IMPLEMENTATION"), json!({ "pr_url": "https://x.test/1" }));
    item = WorkRow {
        phase: WorkPhase::Implementation,
        phase_since: seconds(START, 5),
        attempts: 0,
        epoch: 2,
        pr_url: Some("https://x.test/1".into()),
        ..item
    };
    item.clock.last = Some(work.last_at());
    assert_eq!(check(&home, &mirror).1, [item.clone()]);

    work.push(EventType::ExitRefused, json!({ "reason": "stale", "session_id": "s", "epoch": 1 }));
    item.clock.last = Some(work.last_at());
    assert_eq!(check(&home, &mirror).1, [item.clone()]);

    work.grant("ann", 3, "IMPLEMENTATION");
    work.exit(3, ("IMPLEMENTATION", "blocked", "BLOCKED"), json!({ "notes": "no access" }));
    item = WorkRow {
        phase: WorkPhase::Blocked,
        blocked_from: Some(WorkPhase::Implementation),
        phase_since: seconds(START, 8),
        epoch: 3,
        blocked_reason: Some("no access".into()),
        ..item
    };
    item.clock.last = Some(work.last_at());
    assert_eq!(check(&home, &mirror).1, [item.clone()]);

    let payload = json!({ "phase": "IMPLEMENTATION", "reason": "access given" });
    work.push(EventType::WorkUnblocked, payload);
    item = WorkRow {
        phase: WorkPhase::Implementation,
        blocked_from: None,
        phase_since: seconds(START, 9),
        blocked_reason: None,
        ..item
    };
    item.clock.last = Some(work.last_at());
    let (_, items, transitions) = check(&home, &mirror);
    assert_eq!(items, [item]);
    assert_eq!(transitions, every_transition(work.id));
}

fn every_transition(item: Ulid) -> Vec<TransitionRow> {
    use EventType as T;
    use WorkPhase::{Blocked, Draft, Implementation};
    let (draft, built) = ((Some(Draft), Draft), (Some(Implementation), Implementation));
    let rows = [
        (T::WorkOpened, (None, Draft), None, None, None, None),
        (T::LeaseGranted, draft, Some("ann"), Some(1), Some("session-1"), None),
        (T::LeaseRenewed, draft, Some("ann"), Some(1), Some("session-1"), None),
        (T::LeaseReleased, draft, Some("ann"), Some(1), Some("session-1"), Some("expired")),
        (T::LeaseGranted, draft, Some("ann"), Some(2), Some("session-2"), None),
        (
            T::AgentSessionCompleted,
            (Some(Draft), Implementation),
            Some("ann"),
            Some(2),
            Some("session-2"),
            None,
        ),
        (T::ExitRefused, built, None, Some(1), Some("s"), Some("stale")),
        (T::LeaseGranted, built, Some("ann"), Some(3), Some("session-3"), None),
        (
            T::AgentSessionCompleted,
            (Some(Implementation), Blocked),
            Some("ann"),
            Some(3),
            Some("session-3"),
            Some("no access"),
        ),
        (T::WorkUnblocked, (Some(Blocked), Implementation), None, None, None, Some("access given")),
    ];
    let rows = (0..).zip(rows).map(
        |(seq, (event_type, (phase_before, phase_after), holder, epoch, session_id, reason))| {
            TransitionRow {
                item,
                seq,
                at: seconds(START, i64::try_from(seq).unwrap()),
                event_type,
                phase_before,
                phase_after,
                holder: holder.map(str::to_owned),
                epoch,
                session_id: session_id.map(str::to_owned),
                by_hand: false,
                reason: reason.map(str::to_owned),
            }
        },
    );
    rows.collect()
}

#[test]
fn work_items_are_found_by_their_label_and_so_are_their_transitions() {
    let home = TestHome::new();
    let [one, two, other] = ["W-1", "W-1", "W-10"].map(|label| Work::open(&home, label));
    let mut index = home.workspace.index().unwrap();
    let mut both = vec![one.id, two.id];
    both.sort();
    assert_eq!(index.work_items_named("W-1").unwrap(), both);
    assert_eq!(index.work_items_named("w-1").unwrap(), []);
    assert_eq!(index.work_items_named("W-%").unwrap(), []);
    let items: Vec<_> =
        index.transitions(Some(other.id)).unwrap().iter().map(|row| row.item).collect();
    assert_eq!(items, [other.id]);
}

#[test]
fn a_work_trace_that_names_no_phase_is_a_trace_but_no_item() {
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    let work = Work::open(&home, "W-1");
    // Hashed as it stands, which no recorder would have done.
    let line = fs::read_to_string(&work.path).unwrap();
    let mut event: Value = serde_json::from_str(&line).unwrap();
    event["payload"].as_object_mut().unwrap().remove("phase");
    event.as_object_mut().unwrap().remove("event_hash");
    let hash = Hash::of(&countersign_format::json::to_bytes(&event));
    event["event_hash"] = json!(hash);
    let mut line = countersign_format::json::to_bytes(&event);
    line.push(b'\n');
    fs::write(&work.path, line).unwrap();
    let (traces, items, transitions) = check(&home, &mirror);
    assert_eq!((traces.len(), items, transitions), (1, vec![], vec![]));
    assert_eq!(traces[0].unreadable, None);
}

#[test]
fn a_trace_that_cannot_be_read_is_kept_with_the_reason_and_stops_no_other() {
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    let (damaged, lost, whole) = (home.recording(), home.recording(), home.recording());
    damaged.submit(note("one")).unwrap();
    append(&home.workspace.trace_file(damaged.id()), b"{}\n");
    fs::write(home.workspace.trace_file(lost.id()), "?\n").unwrap();
    let (mut traces, ..) = check(&home, &mirror);
    traces.sort_by_key(|row| {
        [damaged.id(), lost.id(), whole.id()].iter().position(|id| *id == row.id)
    });
    let found: Vec<_> =
        traces.iter().map(|row| (row.events, row.unreadable.as_deref(), row.kind)).collect();
    let recording = Some(TraceKind::Recording);
    assert_eq!(
        found,
        [
            (2, Some("event 2: the line is not an event"), recording),
            (0, Some("event 0: not a JSON object: expected a value at line 1 column 1"), None),
            (1, None, recording),
        ]
    );
    assert_eq!(traces[1].summary(), None);
    // It is read on once it is whole again.
    let path = home.workspace.trace_file(damaged.id());
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.strip_suffix("{}\n").unwrap()).unwrap();
    let (traces, ..) = check(&home, &mirror);
    let damaged = traces.iter().find(|row| row.id == damaged.id()).unwrap();
    assert_eq!((damaged.events, damaged.unreadable.as_deref()), (2, None));
}

#[test]
fn a_trace_that_is_no_regular_file_or_empty_or_gone_is_none() {
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    let ids = [(); 3].map(|()| home.recording().id());
    assert_eq!(check(&home, &mirror).0.len(), 3);
    let files = ids.map(|id| home.workspace.trace_file(id));
    fs::remove_file(&files[0]).unwrap();
    symlink(&files[1], &files[0]).unwrap();
    fs::write(&files[1], "").unwrap();
    fs::remove_dir_all(files[2].parent().unwrap()).unwrap();
    assert_eq!(check(&home, &mirror).0, []);
}

#[test]
fn a_trace_that_is_cut_back_and_written_anew_is_read_anew() {
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    let mut work = Work::open(&home, "W-1");
    let (before, head, at) = (fs::read(&work.path).unwrap(), work.head, work.at);
    // As long as before every time.
    for number in 0..20 {
        (work.events, work.head, work.at) = (1, head, at);
        let payload = json!({ "reason": format!("number {number:02}") });
        let line = work.line(EventType::ExitRefused, payload);
        fs::write(&work.path, [before.as_slice(), &line].concat()).unwrap();
        let (_, _, transitions) = check(&home, &mirror);
        assert_eq!(transitions[1].reason, Some(format!("number {number:02}")));
    }
    fs::write(&work.path, &before).unwrap();
    assert_eq!(check(&home, &mirror).2.len(), 1);
}

#[test]
fn a_torn_tail_is_no_event_until_it_is_whole() {
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    let mut work = Work::open(&home, "W-1");
    let line = work.line(EventType::ExitRefused, json!({ "reason": "stale" }));
    let (start, end) = line.split_at(100);
    append(&work.path, start);
    assert_eq!(check(&home, &mirror).2.len(), 1);
    append(&work.path, end);
    assert_eq!(check(&home, &mirror).2.len(), 2);
}

/// A home with something of everything, and its index, which nobody has open.
fn furnished() -> (TestHome, Mirror, Everything) {
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    for number in 0..40 {
        let recording = home.recording();
        recording.submit(note("one")).unwrap();
        Work::open(&home, &format!("W-{number}"));
    }
    let found = check(&home, &mirror);
    (home, mirror, found)
}

#[test]
fn an_index_that_is_deleted_or_damaged_is_made_anew() {
    let (home, mirror, expected) = furnished();
    let path = home.path().join(INDEX_NAME);
    let sound = fs::read(&path).unwrap();
    assert!(sound.len() > 40_000, "{}", sound.len());
    let mut blank = sound.clone();
    blank[4096..].fill(0xff);
    let half = sound[..sound.len() / 2].to_vec();
    let behind = [&sound[..100], &[0x5a; 8_000]].concat();
    for damaged in [b"not a database at all".to_vec(), vec![], blank, half, behind] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(check(&home, &mirror), expected);
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(check(&home, &mirror), expected);
    fs::write(home.path().join("index.sqlite-wal"), [0x37; 5_000]).unwrap();
    assert_eq!(check(&home, &mirror), expected);
}

#[test]
fn an_index_whose_file_is_damaged_while_it_is_open_answers_all_the_same() {
    let (home, _mirror, expected) = furnished();
    let mut index = home.workspace.index().unwrap();
    let broken = Connection::open(home.path().join(INDEX_NAME)).unwrap();
    broken.execute_batch("DROP TABLE traces; UPDATE work_items SET phase = 'LUNCH'").unwrap();
    drop(broken);
    assert_eq!(index.work_items().unwrap(), expected.1);
    assert_eq!(everything(&mut index), expected);
}

#[test]
fn an_index_of_another_workspace_or_version_is_made_anew() {
    let (home, mirror, expected) = furnished();
    let path = home.path().join(INDEX_NAME);
    let other = tempfile::tempdir().unwrap();
    let other = Workspace::init(
        &other.path().join("config"),
        &other.path().join("home"),
        Environment::system(),
    )
    .unwrap();
    other.begin_recording(None, None).unwrap();
    drop(other.index().unwrap());
    fs::copy(other.home().join(INDEX_NAME), &path).unwrap();
    assert_eq!(check(&home, &mirror), expected);
    let changes = [
        "PRAGMA user_version = 99",
        "CREATE TABLE t (x); DROP TABLE meta",
        "CREATE TRIGGER t AFTER INSERT ON traces BEGIN DELETE FROM traces; END",
        "DELETE FROM traces WHERE 1; ALTER TABLE traces RENAME COLUMN bytes TO octets",
    ];
    for change in changes {
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        assert_eq!(check(&home, &mirror), expected, "{change}");
    }
}

#[test]
fn the_file_is_for_its_owner_alone_and_leads_nowhere_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let (home, mirror, expected) = furnished();
    let path = home.path().join(INDEX_NAME);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let elsewhere = home.config().join("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert_eq!(check(&home, &mirror), expected);
    assert_eq!(fs::read(&elsewhere).unwrap(), b"");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

fn is_in_memory(index: &Index) -> bool {
    matches!(index.place(), IndexPlace::Memory { .. })
}

#[test]
fn where_the_file_cannot_be_the_index_is_in_memory_and_follows_the_traces_too() {
    let (home, mirror, expected) = furnished();
    let path = home.path().join(INDEX_NAME);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let mut index = home.workspace.index().unwrap();
    assert!(is_in_memory(&index), "{index:?}");
    assert_eq!(everything(&mut index), expected);
    let recording = home.recording();
    recording.submit(note("two")).unwrap();
    index.catch_up().unwrap();
    assert_eq!(everything(&mut index), mirror.everything());
}

#[cfg(target_os = "linux")]
#[test]
fn a_store_that_may_not_be_written_to_is_looked_up_in_memory() {
    use landlock::{ABI, AccessFs, Ruleset, RulesetAttr as _, RulesetStatus};
    let (home, mirror, expected) = furnished();
    let recording = home.recording();
    let later = mirror.everything();
    assert_ne!(later, expected);
    for delete in [false, true] {
        if delete {
            fs::remove_file(home.path().join(INDEX_NAME)).unwrap();
        }
        let workspace = home.reopen();
        // Only this thread is kept from writing.
        let thread = std::thread::spawn(move || {
            let ruleset = Ruleset::default().handle_access(AccessFs::from_write(ABI::V1)).unwrap();
            let status = ruleset.create().unwrap().restrict_self().unwrap().ruleset;
            let mut index = workspace.index().unwrap();
            assert_eq!(is_in_memory(&index), status != RulesetStatus::NotEnforced);
            everything(&mut index)
        });
        assert_eq!(thread.join().unwrap(), later);
    }
    drop(recording);
}

#[test]
fn who_is_kept_out_for_too_long_makes_an_index_in_memory() {
    let (home, mirror, _) = furnished();
    let recording = home.recording();
    let busy = Connection::open(home.path().join(INDEX_NAME)).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut index = home.workspace.index().unwrap();
    assert!(is_in_memory(&index));
    assert_eq!(everything(&mut index), mirror.everything());
    drop(busy);
    recording.submit(note("two")).unwrap();
    check(&home, &mirror);
    let turn = File::open(home.path()).unwrap();
    turn.lock().unwrap();
    let mut index = home.workspace.index().unwrap();
    assert!(is_in_memory(&index));
    assert_eq!(everything(&mut index), mirror.everything());
}

#[test]
fn many_that_write_catch_up_and_rebuild_at_once_do_not_disturb_each_other() {
    const ROUNDS: usize = 12;
    let home = TestHome::new();
    let mirror = Mirror::of(&home);
    std::thread::scope(|scope| {
        for number in 0..6 {
            let workspace = home.reopen();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let recording = workspace.begin_recording(None, None).unwrap();
                    recording.submit(note("one")).unwrap();
                    let mut index = match (number, round % 4) {
                        (0, 0) => workspace.rebuild_index(),
                        _ => workspace.index(),
                    }
                    .unwrap();
                    recording.submit(note("two")).unwrap();
                    index.catch_up().unwrap();
                    let rows = index.traces().unwrap();
                    let own = rows.iter().find(|row| row.id == recording.id()).unwrap();
                    assert_eq!((own.events, own.unreadable.as_deref()), (3, None));
                }
            });
        }
    });
    assert_eq!(check(&home, &mirror).0.len(), 6 * ROUNDS);
}

/// Something that happens to a store.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin,
    OpenWork,
    Note(usize),
    Conclude(usize),
    Lease(usize),
    Exit(usize),
    Tear(usize),
    CutBack(usize),
    Damage(usize),
    Remove(usize),
    RemoveIndex,
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..8_usize;
    prop_oneof![
        2 => Just(Step::Begin),
        2 => Just(Step::OpenWork),
        4 => which.clone().prop_map(Step::Note),
        1 => which.clone().prop_map(Step::Conclude),
        4 => which.clone().prop_map(Step::Lease),
        3 => which.clone().prop_map(Step::Exit),
        2 => which.clone().prop_map(Step::Tear),
        2 => which.clone().prop_map(Step::CutBack),
        1 => which.clone().prop_map(Step::Damage),
        1 => which.prop_map(Step::Remove),
        1 => Just(Step::RemoveIndex),
    ]
}

#[derive(Default)]
struct Store {
    recordings: Vec<Recording>,
    works: Vec<Work>,
    steps: u32,
}

impl Store {
    fn files(&self, home: &TestHome) -> Vec<PathBuf> {
        let recordings = self.recordings.iter().map(|it| home.workspace.trace_file(it.id()));
        let files = recordings.chain(self.works.iter().map(|work| work.path.clone()));
        files.filter(|path| path.exists()).collect()
    }

    fn take(&mut self, home: &TestHome, step: Step) {
        self.steps += 1;
        let files = self.files(home);
        let pick = |which: usize| files.get(which % files.len().max(1));
        let works = self.works.len().max(1);
        match step {
            Step::Begin => self.recordings.push(home.recording()),
            Step::OpenWork => self.works.push(Work::open(home, "W-1")),
            // A writer refuses what is damaged, and so it should.
            Step::Note(which) => {
                if let Some(it) = self.recordings.get(which % self.recordings.len().max(1)) {
                    let _ = it.submit(note("one"));
                }
            }
            Step::Conclude(which) => {
                if let Some(it) = self.recordings.get(which % self.recordings.len().max(1)) {
                    let _ = it.conclude("done");
                }
            }
            Step::Lease(which) => {
                if let Some(work) = self.works.get_mut(which % works).filter(|it| it.path.exists())
                {
                    work.grant("ann", work.events, "DRAFT");
                }
            }
            Step::Exit(which) => {
                if let Some(work) = self.works.get_mut(which % works).filter(|it| it.path.exists())
                {
                    let ways =
                        [("DRAFT", "completed", "IMPLEMENTATION"), ("DRAFT", "error", "BLOCKED")];
                    work.exit(work.events, ways[which % 2], json!({ "notes": "so" }));
                }
            }
            Step::Tear(which) => {
                if let Some(path) = pick(which) {
                    append(path, b"{\"half\":");
                }
            }
            Step::CutBack(which) => {
                if let Some(path) = pick(which) {
                    let text = fs::read(path).unwrap();
                    let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
                    fs::write(path, lines[..lines.len().saturating_sub(1)].concat()).unwrap();
                }
            }
            Step::Damage(which) => {
                if let Some(path) = pick(which) {
                    let mut text = fs::read(path).unwrap();
                    let middle = text.len() / 2;
                    if let Some(byte) = text.get_mut(middle) {
                        *byte ^= 1;
                    }
                    fs::write(path, text).unwrap();
                    at_another_time(path, self.steps);
                }
            }
            Step::Remove(which) => {
                if let Some(path) = pick(which) {
                    fs::remove_dir_all(path.parent().unwrap()).unwrap();
                }
            }
            Step::RemoveIndex => {
                let _ = fs::remove_file(home.path().join(INDEX_NAME));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn after_every_step_the_index_is_what_a_new_one_would_be(
        steps in proptest::collection::vec(step(), 1..30)
    ) {
        let home = TestHome::new();
        let mirror = Mirror::of(&home);
        let mut kept = home.workspace.index().unwrap();
        let mut store = Store::default();
        for step in steps {
            store.take(&home, step);
            let found = check(&home, &mirror);
            // One that stays open comes to the same.
            kept.catch_up().unwrap();
            prop_assert_eq!(everything(&mut kept), found);
        }
    }
}
