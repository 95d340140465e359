//! Two accounts that cannot both be true, and what can be shown of it.

use std::fs;
use std::path::PathBuf;

use countersign_format::proof::{EquivocationStatus, PortableProof};
use countersign_verify::{
    Account, Comparison, ComparisonAnswer, compare, equivocation_exit_status, verify_equivocation,
};
use tempfile::TempDir;

use crate::forge::{EXECUTOR, Forge, NEXT_RECORDER, RECORDER, options};

/// Logs in files, with names.
struct Shelf(TempDir);

impl Shelf {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn log(&self, name: &str, forge: &Forge) -> Account {
        Account::of_ledger(name, &self.put(name, &forge.log.bytes())).unwrap()
    }

    fn trace(&self, name: &str, forge: &Forge) -> Account {
        Account::of_ledger(name, &self.put(name, &forge.trace.bytes())).unwrap()
    }
}

fn note(name: &str, forge: &Forge) -> Account {
    Account::of_checkpoint(name, forge.note(RECORDER).as_bytes()).unwrap()
}

fn proof(name: &str, forge: &Forge) -> Account {
    Account::of_proof(name, &forge.proof(1, RECORDER)).unwrap()
}

#[track_caller]
fn compared(a: &Account, b: &Account, more: Option<&Account>) -> (ComparisonAnswer, Comparison) {
    let one = compare(a, b, more).unwrap();
    let other = compare(b, a, more).unwrap();
    assert_eq!(one.answer(), other.answer(), "whichever comes first");
    if let Some(equivocation) = &one.equivocation {
        let bytes = equivocation.to_bytes();
        let read = PortableProof::read(&bytes).unwrap();
        assert_eq!(read, PortableProof::Equivocation(equivocation.clone()));
        let report = verify_equivocation(equivocation, &options());
        assert_eq!(report.failures, []);
        assert_eq!(equivocation_exit_status(&report), 0);
    }
    (one.answer(), one)
}

/// Two logs that begin alike and then part, of the same length.
fn fork() -> (Forge, Forge) {
    let mut one = Forge::new();
    one.begin();
    one.event(EXECUTOR);
    let mut other = one.clone();
    one.close(RECORDER);
    other.event(EXECUTOR);
    other.close(RECORDER);
    (one, other)
}

#[test]
fn what_grew_is_consistent_with_what_it_was() {
    let shelf = Shelf::new();
    let (early, mut late) = (Forge::new(), Forge::new());
    late.begin();
    late.event(EXECUTOR);
    late.close(RECORDER);
    let (log, longer) = (shelf.log("early", &early), shelf.log("late", &late));
    let consistent = ComparisonAnswer::Consistent;
    assert_eq!(compared(&log, &longer, None).0, consistent);
    assert_eq!(compared(&note("note", &early), &longer, None).0, consistent);
    assert_eq!(compared(&note("note", &late), &longer, None).0, consistent);
    assert_eq!(compared(&proof("proof", &late), &longer, None).0, consistent);
    assert_eq!(compared(&note("a", &late), &note("b", &late), None).0, consistent);
    assert_eq!(compared(&proof("a", &late), &note("b", &late), None).0, consistent);
    // Two checkpoints of different size say nothing of each other, until a log lies between them.
    let (a, b) = (note("a", &early), note("b", &late));
    let (answer, found) = compared(&a, &b, None);
    assert_eq!(answer, ComparisonAnswer::Incomparable);
    assert_eq!(found.contradictions, Vec::<String>::new());
    assert_eq!(compared(&a, &b, Some(&longer)).0, consistent);
    // A log that is shorter than a checkpoint may be an old copy.
    assert_eq!(compared(&log, &b, None).0, ComparisonAnswer::Incomparable);
}

#[test]
fn two_checkpoints_of_one_size_with_other_roots_are_proven() {
    let shelf = Shelf::new();
    let (one, other) = fork();
    let (a, b) = (note("a", &one), note("b", &other));
    // Without keys nobody knows whether they are what they seem.
    let (answer, found) = compared(&a, &b, None);
    assert_eq!((answer, &found.equivocation), (ComparisonAnswer::Incomparable, &None));
    for keys in [shelf.log("one", &one), shelf.log("other", &other), proof("proof", &one)] {
        let (answer, found) = compared(&a, &b, Some(&keys));
        assert_eq!(answer, ComparisonAnswer::Contradiction);
        assert!(found.equivocation.is_some());
    }
    // Proofs bring their keys along.
    let (answer, found) = compared(&proof("a", &one), &proof("b", &other), None);
    assert_eq!(answer, ComparisonAnswer::Contradiction);
    assert_eq!(found.equivocation.unwrap().form.as_str(), "checkpoints");
    // A note that no recorder signed says nothing.
    let foreign = Account::of_checkpoint("x", other.note(EXECUTOR).as_bytes()).unwrap();
    let (answer, _) = compared(&a, &foreign, Some(&shelf.log("one", &one)));
    assert_eq!(answer, ComparisonAnswer::Incomparable);
}

#[test]
fn two_logs_that_part_are_proven_by_the_entries_where_they_part() {
    let shelf = Shelf::new();
    let (one, mut other) = fork();
    other.rotate_recorder();
    let (a, b) = (shelf.log("a", &one), shelf.log("b", &other));
    let (answer, found) = compared(&a, &b, None);
    assert_eq!(answer, ComparisonAnswer::Contradiction);
    let parted = "entry 5 of `a` is not that of `b`; the 5 before it are the same; both are signed";
    assert_eq!(found.contradictions, [parted]);
    assert_eq!(found.equivocation.unwrap().form.as_str(), "events");
    // The checkpoint of one contradicts the log of the other, which needs no second checkpoint.
    let (answer, found) = compared(&note("n", &one), &b, None);
    assert_eq!((answer, found.equivocation), (ComparisonAnswer::Contradiction, None));
    let (answer, _) = compared(&shelf.log("a", &one), &note_by_next("n", &other), None);
    assert_eq!(answer, ComparisonAnswer::Incomparable, "longer, and signed by a key unknown here");
}

fn note_by_next(name: &str, forge: &Forge) -> Account {
    Account::of_checkpoint(name, forge.note(NEXT_RECORDER).as_bytes()).unwrap()
}

#[test]
fn two_traces_that_part_are_proven_by_their_events() {
    let shelf = Shelf::new();
    let (mut one, mut other) = fork();
    one.event(EXECUTOR);
    one.event(EXECUTOR);
    other.event(RECORDER);
    let (a, b) = (shelf.trace("a", &one), shelf.trace("b", &other));
    let (answer, found) = compared(&a, &b, None);
    assert_eq!(answer, ComparisonAnswer::Contradiction);
    assert_eq!(found.equivocation, None, "without keys nothing can be shown to others");
    let (_, found) = compared(&a, &b, Some(&shelf.log("log", &one)));
    assert_eq!(found.equivocation.unwrap().form.as_str(), "events");
    let alike = shelf.trace("c", &one);
    assert_eq!(compared(&a, &alike, None).0, ComparisonAnswer::Consistent);
    let (answer, _) = compared(&a, &shelf.log("log", &one), None);
    assert_eq!(answer, ComparisonAnswer::Incomparable);
}

#[test]
fn a_proof_of_equivocation_needs_every_part_of_it() {
    let shelf = Shelf::new();
    let (one, other) = fork();
    let keys = shelf.log("log", &one);
    let (_, found) = compared(&note("a", &one), &note("b", &other), Some(&keys));
    let whole = *found.equivocation.unwrap();
    let fails = |change: &dyn Fn(&mut countersign_format::proof::Equivocation)| {
        let mut changed = whole.clone();
        change(&mut changed);
        let report = verify_equivocation(&changed, &options());
        assert_eq!(report.equivocation_status, EquivocationStatus::Fail);
        assert_eq!(equivocation_exit_status(&report), 3);
        report.failures[0].message.clone()
    };
    let messages = [
        fails(&|it| it.second.clone_from(&it.first)),
        fails(&|it| it.second = note_text(&Forge::new())),
        fails(&|it| it.second = other.note(EXECUTOR)),
        fails(&|it| it.keys.truncate(1)),
        fails(&|it| it.keys.clear()),
        fails(&|it| drop(it.keys.remove(0))),
        fails(&|it| it.keys[1] = one.log.lines[4].clone()),
        fails(&|it| it.second = "nothing".to_owned()),
    ];
    assert_eq!(
        messages,
        [
            "the checkpoints can both be true",
            "the checkpoints can both be true",
            "the second checkpoint is not signed by a recorder key of this log",
            "the first checkpoint is not signed by a recorder key of this log",
            "no keys are given",
            "keys/0: a trace cannot begin with `key_added`",
            "keys/1: `trace_opened` names no key",
            "the checkpoint is no signed note: the text of a note ends in a line break",
        ]
    );
    let bytes = whole.to_bytes();
    for at in 0..bytes.len() - 1 {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        let Ok(PortableProof::Equivocation(proof)) = PortableProof::read(&flipped) else {
            continue;
        };
        if proof.schema_version != whole.schema_version {
            // Readers take every patch of a schema.
            continue;
        }
        let report = verify_equivocation(&proof, &options());
        assert_eq!(report.equivocation_status, EquivocationStatus::Fail, "byte {at}");
    }
}

fn note_text(forge: &Forge) -> String {
    forge.note(RECORDER)
}
