//! `work stats`, by a clock that is set.

use countersign_format::exit::{ExitReason, ExitSignal, WorkPhase};
use countersign_protocol::work::{Bearer, Claimant, Releaser, SignalChannel, WorkExit};
use countersign_runtime::work::{ExitAnswer, NewWork, WorkItem};
use countersign_testkit::TestHome;
use insta::assert_snapshot;
use serde_json::json;

use crate::place::Place;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

fn open(home: &TestHome, phase: WorkPhase) -> WorkItem {
    let new = NewWork {
        title: "say hello".to_owned(),
        label: None,
        phase,
        author_may_review: false,
        links: None,
    };
    home.workspace.open_work(&new).unwrap()
}

/// Claims after a time, and says which lease it is.
fn claim(home: &TestHome, item: &WorkItem, after: i64, claimant: Claimant) -> u64 {
    home.clock.advance(after);
    item.claim("agent", None, 60 * MINUTE, claimant).unwrap().lease.epoch
}

fn release(home: &TestHome, item: &WorkItem, after: i64, epoch: u64) {
    home.clock.advance(after);
    let by = Releaser::Bearer(Bearer::Holder("agent".to_owned()));
    item.release(epoch, by, "it crashed").unwrap();
}

fn leave(home: &TestHome, item: &WorkItem, after: i64, epoch: u64, signal: ExitSignal) -> bool {
    home.clock.advance(after);
    let answer = item.exit(WorkExit {
        epoch,
        by: Bearer::Holder("agent".to_owned()),
        signal,
        channel: SignalChannel::Operator,
        stored: None,
        evidence: None,
        commit: None,
        ci: None,
        links: None,
    });
    matches!(answer.unwrap(), ExitAnswer::Moved { .. })
}

#[test]
fn figures_say_how_long_phases_take_what_waited_and_what_was_tried_again() {
    let home = TestHome::new();
    let place = Place::owner_of(&home);
    assert_snapshot!(place.run(&["work", "stats"]), @r"
    exit 0
    --- stdout
    0 items, 0 completed, 0 blocked; 0 exit signals refused

    --- stderr
    ");
    let completed = |phase| ExitSignal::new(phase, ExitReason::Completed);
    let (draft, implementation) = (WorkPhase::Draft, WorkPhase::Implementation);

    // Waits 2 s, crashes, is tried again by an agent: 16 s in DRAFT, one retry.
    let one = open(&home, draft);
    let epoch = claim(&home, &one, 2 * SECOND, Claimant::Agent);
    release(&home, &one, 3 * SECOND, epoch);
    let epoch = claim(&home, &one, SECOND, Claimant::Agent);
    assert!(!leave(&home, &one, 0, epoch, completed(WorkPhase::Review)));
    assert!(leave(&home, &one, 10 * SECOND, epoch, completed(draft)));
    // Waits a minute; who claims by hand is no attempt: 3 minutes in IMPLEMENTATION, no retry.
    let epoch = claim(&home, &one, MINUTE, Claimant::ByHand);
    release(&home, &one, MINUTE, epoch);
    let epoch = claim(&home, &one, 0, Claimant::Agent);
    let blocked = ExitSignal::new(implementation, ExitReason::Blocked);
    assert!(leave(&home, &one, MINUTE, epoch, blocked));
    // Blocked for an hour and a half.
    home.clock.advance(90 * MINUTE);
    one.unblock("it can go on").unwrap();
    // Two others: one is done within 500 ms, one is blocked now.
    let two = open(&home, WorkPhase::ReadyForMerge);
    let epoch = claim(&home, &two, 200, Claimant::Agent);
    assert!(leave(&home, &two, 300, epoch, completed(WorkPhase::ReadyForMerge)));
    let three = open(&home, draft);
    let epoch = claim(&home, &three, 4 * SECOND, Claimant::Agent);
    assert!(leave(&home, &three, 0, epoch, ExitSignal::new(draft, ExitReason::Error)));

    assert_snapshot!(place.run(&["work", "stats"]), @r"
    exit 0
    --- stdout
    3 items, 1 completed, 1 blocked; 1 exit signals refused
    phase               now   left  retries  blocked   in phase, median (max)    waiting, median (max)
    DRAFT                 0      2        1        1              16 s (16 s)                4 s (4 s)
    IMPLEMENTATION        1      1        0        1            3 min (3 min)            1 min (1 min)
    READY_FOR_MERGE       0      1        0        0          500 ms (500 ms)          200 ms (200 ms)
    COMPLETED             1      0        0        0                        -                        -
    BLOCKED               1      1        0        0  1 h 30 min (1 h 30 min)                        -

    --- stderr
    ");
    let figures = place.run(&["work", "stats", "--json"]).answer();
    assert_eq!(
        figures["phases"]["IMPLEMENTATION"],
        json!({
            "now": 1, "left": 1, "blocked": 1, "retries": 0,
            "median_in_phase_ms": 3 * MINUTE, "longest_in_phase_ms": 3 * MINUTE,
            "median_handoff_ms": MINUTE, "longest_handoff_ms": MINUTE,
        })
    );
    home.check(one.id(), 11);
}
