//! Many real processes on one recording: none is lost, and one that is killed harms nobody.
#![cfg(test)]

use std::time::Duration;

use countersign_format::event::EventType;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::Closed;
use countersign_runtime::store::Blobs as _;
use countersign_testkit::TestHome;
use countersign_testkit::process::{Process, appender};

const APPENDER: &str = env!("CARGO_BIN_EXE_appender");

fn start(home: &TestHome, id: Ulid, name: &str, rounds: &str) -> Process {
    Process::start(&mut appender(APPENDER, home, &id.to_string(), &[name, rounds]))
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }
}

#[test]
fn sixteen_processes_with_a_thousand_appends_each_build_one_chain() {
    let home = TestHome::new();
    let id = home.recording().id();
    let writers: Vec<_> =
        (0..16).map(|number| start(&home, id, &number.to_string(), "1000")).collect();
    let mut acked = Vec::new();
    for writer in writers {
        let (status, told) = writer.finish();
        assert!(status.success() && told.errors.is_empty(), "{status}: {:?}", told.errors);
        assert_eq!(told.acked.len(), 1_000);
        acked.extend(told.acked);
    }
    home.check_acked(id, 16_001, &acked);
    let log = std::fs::read_to_string(home.path().join("log/events.jsonl")).unwrap();
    let checkpoints = log.matches("\"event_type\":\"trace_checkpointed\"").count();
    assert_eq!(checkpoints, 16_001 / 1_024, "one for every 1,024 events");
}

#[test]
fn a_hundred_writers_are_killed_and_nothing_acknowledged_is_lost() {
    let home = TestHome::new();
    let id = home.recording().id();
    let mut dice = Dice(1);
    let mut started = 0;
    let mut next = || {
        started += 1;
        start(&home, id, &started.to_string(), "1000000")
    };
    let mut writers: Vec<_> = (0..4).map(|_| next()).collect();
    let mut acked = Vec::new();
    for _ in 0..100 {
        let mut victim = writers.remove(usize::try_from(dice.below(4)).unwrap());
        victim.wait_for_acks(usize::try_from(1 + dice.below(6)).unwrap());
        victim.listen(Duration::from_micros(dice.below(4_000)));
        let told = victim.kill();
        assert!(!told.acked.is_empty() && told.errors.is_empty(), "{told:?}");
        acked.extend(told.acked);
        writers.push(next());
    }
    for writer in writers {
        acked.extend(writer.kill().acked);
    }
    // The last one continues without help.
    let (status, told) = start(&home, id, "last", "3").finish();
    assert!(status.success(), "{:?}", told.errors);
    acked.extend(told.acked);

    let events = home.events(id);
    home.check_acked(id, events.len() as u64, &acked);
    // Every record names a copy that holds what it says. A writer that is killed between setting
    // bytes aside and recording it leaves a copy without a record; twice in a hundred kills would
    // be a habit.
    let dir = home.workspace.trace_file(id).parent().unwrap().to_owned();
    let copies = std::fs::read_dir(dir.join("torn")).map_or(0, Iterator::count);
    let mut recorded = 0;
    for event in events.iter().filter(|it| it.event_type == EventType::SessionRecovered) {
        recorded += 1;
        let copy = std::fs::read(dir.join(event.payload["torn_file"].as_str().unwrap())).unwrap();
        assert_eq!(event.payload["torn_hash"], Hash::of(&copy).to_hex());
    }
    assert!(recorded <= copies && copies <= recorded + 1, "{recorded} of {copies} are recorded");
}

#[test]
fn threads_of_several_processes_share_syncs_and_none_is_lost() {
    let home = TestHome::new();
    let id = home.recording().id();
    let run = |name: &str| {
        let arguments = [name, "50", "threads=8"];
        Process::start(&mut appender(APPENDER, &home, &id.to_string(), &arguments))
    };
    let mut acked = Vec::new();
    for writer in ["a", "b", "c", "d"].map(run) {
        let (status, told) = writer.finish();
        assert!(status.success(), "{:?}", told.errors);
        acked.extend(told.acked);
    }
    assert_eq!(acked.len(), 4 * 8 * 50);
    home.check_acked(id, 4 * 8 * 50 + 1, &acked);
}

#[test]
fn writers_killed_while_they_begin_leave_nothing_that_repair_cannot_settle() {
    let home = TestHome::new();
    let mut dice = Dice(2);
    let mut begun = Vec::new();
    for number in 0..60 {
        let arguments = [&number.to_string(), "1000000"];
        let mut writer = Process::start(&mut appender(APPENDER, &home, "new", &arguments));
        writer.listen(Duration::from_micros(dice.below(50_000)));
        let told = writer.kill();
        assert_eq!(told.errors, [] as [String; 0]);
        begun.extend(told.begun.first().map(|&id| (id, told.acked)));
    }
    assert!((1..60).contains(&begun.len()), "{} of 60 came to begin", begun.len());
    home.reopen().reconcile_all().unwrap();
    for (id, acked) in begun {
        home.check_acked(id, home.events(id).len() as u64, &acked);
    }
    for id in home.workspace.trace_ids().unwrap() {
        home.check(id, home.events(id).len() as u64);
    }
}

#[test]
fn a_writer_concludes_its_recordings_in_turn_and_goes_on_where_another_concluded_one() {
    let home = TestHome::new();
    let arguments = ["first", "12", "artifacts=2", "conclude=5"];
    let (status, told) = Process::run(&mut appender(APPENDER, &home, "new", &arguments));
    assert!(status.success() && told.errors.is_empty(), "{status}: {:?}", told.errors);
    assert_eq!((told.begun.len(), told.acked.len(), told.artifacts.len()), (3, 12, 6));
    assert_eq!(told.begun, told.closed);
    for &id in &told.closed {
        let report = home.check(id, home.events(id).len() as u64);
        assert_eq!(report.closed, Closed::Yes);
    }
    let store = home.reopen();
    for (hash, round) in told.artifacts.iter().zip((0..).step_by(2)) {
        let bytes = String::from_utf8(store.store().get(hash, 1_000).unwrap()).unwrap();
        assert!(bytes.starts_with(&format!("What process first round {round} of ")), "{bytes}");
    }

    // To one that has ended nothing more comes: all of it goes to one of its own.
    let ended = told.begun[0].to_string();
    let arguments = ["second", "3", "conclude=5"];
    let (status, told) = Process::run(&mut appender(APPENDER, &home, &ended, &arguments));
    assert!(status.success() && told.errors.is_empty(), "{status}: {:?}", told.errors);
    assert_eq!((told.begun.len(), told.acked.len()), (1, 3));
    assert_eq!(told.begun, told.closed);
    home.check_acked(told.begun[0], home.events(told.begun[0]).len() as u64, &told.acked);
}
