//! A trace that is examined in many batches on all cores: what is wrong is found at its place, once,
//! and twice the same.

#![cfg(test)]

use countersign_format::report::{FailureCode, VerificationReport};
use countersign_testkit::{TestHome, note};
use countersign_verify::Profile;

const EVENTS: usize = 1_500;

/// A closed recording of many batches, and its lines.
struct Long {
    home: TestHome,
    id: countersign_format::id::Ulid,
    lines: Vec<Vec<u8>>,
}

impl Long {
    fn new() -> Self {
        let home = TestHome::new();
        let recording = home.recording();
        for number in 0..EVENTS {
            recording.submit(note(&format!("note {number}"))).unwrap();
        }
        recording.conclude("enough").unwrap();
        let id = recording.id();
        let bytes = std::fs::read(home.workspace.trace_file(id)).unwrap();
        let lines = bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        Self { home, id, lines }
    }

    fn verify(&self, lines: &[Vec<u8>]) -> VerificationReport {
        std::fs::write(self.home.workspace.trace_file(self.id), lines.concat()).unwrap();
        self.home.verify_with(self.id, [self.home.workspace.root()], Profile::DEFAULT)
    }

    /// The codes and places of what is wrong with these lines; the same when asked again.
    fn failures(&self, lines: &[Vec<u8>]) -> Vec<(FailureCode, Option<u64>)> {
        let report = self.verify(lines);
        assert_eq!(self.verify(lines).report_digest, report.report_digest);
        report.failures.iter().map(|it| (it.failure_code, it.index)).collect()
    }
}

#[test]
fn whatever_is_wrong_in_a_long_trace_is_found_once_and_at_its_place() {
    use FailureCode::{ChainBreak, HashMismatch, SchemaInvalid, SigInvalid};
    let long = Long::new();
    assert_eq!(long.failures(&long.lines), []);
    let report = long.verify(&long.lines);
    let count = long.lines.len() as u64;
    assert!(count > EVENTS as u64);
    assert_eq!((report.metrics.events, report.metrics.signatures_verified), (count, count));

    for at in [1, 63, 64, 700, 1_023, 1_024, long.lines.len() - 1] {
        let place = Some(at as u64);
        let mut unreadable = long.lines.clone();
        unreadable[at] = b"{\"broken\n".to_vec();
        let mut expected = vec![(SchemaInvalid, place)];
        if at + 1 < long.lines.len() {
            expected.push((ChainBreak, Some(at as u64 + 1)));
        }
        assert_eq!(long.failures(&unreadable), expected, "{at}");

        if at + 1 < long.lines.len() {
            let mut cut = long.lines.clone();
            cut.remove(at);
            assert_eq!(long.failures(&cut), [(ChainBreak, place)], "{at}");
            let report = long.verify(&cut);
            assert_eq!(report.metrics.trusted_events, at as u64);
            let last = format!("; the last event in order is {}, ", at - 1);
            let told = report.failures.first().map(|failure| failure.message.clone());
            assert!(told.as_ref().is_some_and(|told| told.contains(&last)), "{told:?}");
            let mut swapped = long.lines.clone();
            swapped.swap(at, at + 1);
            assert_eq!(long.failures(&swapped), [(ChainBreak, place)], "{at}");
        }
    }

    let text = String::from_utf8(long.lines[700].clone()).unwrap();
    let mut edited = long.lines.clone();
    edited[700] = text.replace("note 699", "note 998").into_bytes();
    assert_ne!(edited[700], long.lines[700]);
    let place = Some(700);
    assert_eq!(long.failures(&edited), [(HashMismatch, place), (SigInvalid, place)]);
}
