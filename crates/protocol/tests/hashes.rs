//! A state that says it reads no hashes comes out the same without them. The recorder counts on that:
//! it decides the next event before the one before it is signed.
#![cfg(test)]

use countersign_format::event::{Event, Reading};
use countersign_format::hash::Hash;
use countersign_protocol::State;
use countersign_protocol::log::LogState;
use countersign_protocol::recording::RecordingState;
use countersign_protocol::session::SessionState;

macro_rules! good_home {
    ($file:literal) => {
        include_str!(concat!("../../../docs/formats/vectors/homes/good/", $file))
    };
}

const RECORDING: &str = good_home!("traces/01kg9ysh8g0000000000000002/events.jsonl");
const SESSION: &str = good_home!("traces/01kg9ysm680000000000000003/events.jsonl");
const LOG: &str = good_home!("log/events.jsonl");

fn events(lines: &str) -> Vec<Event> {
    lines.lines().map(|line| Reading::of(line.as_bytes()).unwrap().into_event().unwrap()).collect()
}

/// Whether each event is admitted, and the state after it, as it is kept.
fn states<S: State>(events: impl IntoIterator<Item = Event>) -> Vec<(bool, String)> {
    let mut state = S::default();
    let mut states = Vec::new();
    for event in events {
        let admitted = state.admit(&event).is_ok();
        state.apply(&event);
        states.push((admitted, serde_json::to_string(&state).unwrap()));
    }
    states
}

fn depends_on_hashes<S: State>(lines: &str) -> bool {
    let with = events(lines);
    assert!(with.len() > 4, "{} events show little", with.len());
    let blank =
        |event: Event| Event { event_hash: Hash::GENESIS, prev_event_hash: Hash::GENESIS, ..event };
    let without = states::<S>(with.clone().into_iter().map(blank));
    let with = states::<S>(with);
    assert!(with.iter().all(|(admitted, _)| *admitted), "an event is refused");
    without != with
}

#[test]
fn recordings_and_sessions_do_not_depend_on_the_hashes_of_their_events() {
    assert!(!RecordingState::READS_HASHES && !depends_on_hashes::<RecordingState>(RECORDING));
    assert!(!SessionState::READS_HASHES && !depends_on_hashes::<SessionState>(SESSION));
}

#[test]
fn the_log_depends_on_them_and_says_so() {
    assert!(LogState::READS_HASHES && depends_on_hashes::<LogState>(LOG));
}
