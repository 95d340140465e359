//! An older checkpoint that a newer one does not begin with, and what can be shown of it.

use std::fs;

use countersign_format::hash::Hash;
use countersign_format::merkle::{empty_root, root};
use countersign_format::note::Checkpoint;
use countersign_format::proof::{Equivocation, LeafHashes, PortableProof};
use countersign_verify::{Account, Comparison, ComparisonAnswer, compare, verify_equivocation};
use tempfile::TempDir;

use crate::forge::{EXECUTOR, Forge, NEXT_RECORDER, RECORDER, options};

/// A log of six entries, and one of seven that parts from it before the last.
fn fork() -> (Forge, Forge) {
    let mut one = Forge::new();
    one.begin();
    one.event(EXECUTOR);
    let mut other = one.clone();
    one.close(RECORDER);
    other.event(EXECUTOR);
    other.close(RECORDER);
    other.add_key(NEXT_RECORDER);
    (one, other)
}

fn note(name: &str, text: &str) -> Account {
    Account::of_checkpoint(name, text.as_bytes()).unwrap()
}

/// A workspace with this log and this checkpoint.
fn home(forge: &Forge, checkpoint: &str) -> (TempDir, Account) {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    fs::create_dir(&log).unwrap();
    fs::write(log.join("events.jsonl"), forge.log.bytes()).unwrap();
    fs::write(log.join("checkpoint"), checkpoint).unwrap();
    let account = Account::of_home("home", directory.path()).unwrap();
    (directory, account)
}

fn compared(a: &Account, b: &Account, more: Option<&Account>) -> Comparison {
    let found = compare(a, b, more).unwrap();
    assert_eq!(found.answer(), compare(b, a, more).unwrap().answer(), "whichever comes first");
    found
}

fn checkpoint(forge: &Forge, size: u64, root: Hash) -> String {
    let checkpoint = Checkpoint { origin: forge.origin(), size, root };
    checkpoint.sign(&RECORDER.secret()).unwrap().to_string()
}

/// The proof that the log of `other` does not begin with that of `one`.
fn proven(one: &Forge, other: &Forge) -> Equivocation {
    let (_kept, store) = home(other, &other.note(RECORDER));
    *compared(&note("n", &one.note(RECORDER)), &store, None).equivocation.unwrap()
}

/// What a verifier says: what is shown, or what is wrong.
fn judged(proof: &Equivocation) -> Result<String, String> {
    let report = verify_equivocation(proof, &options());
    match report.failures.first() {
        None => Ok(report.summary),
        Some(failure) => Err(format!("{}: {}", failure.failure_code, failure.message)),
    }
}

#[test]
fn a_log_between_two_checkpoints_settles_whether_one_begins_with_the_other() {
    let (one, other) = fork();
    let (_kept, log) = home(&other, "torn");
    let newer = note("newer", &other.note(RECORDER));
    let begun = note("older", &checkpoint(&other, 5, root(&other.log.hashes()[..5])));
    assert_eq!(compared(&begun, &newer, Some(&log)).answer(), ComparisonAnswer::Consistent);
    let parted = note("older", &one.note(RECORDER));
    assert_eq!(compared(&parted, &newer, None).answer(), ComparisonAnswer::Incomparable);
    let found = compared(&parted, &newer, Some(&log));
    assert_eq!(found.answer(), ComparisonAnswer::Contradiction);
    let roots = (root(&other.log.hashes()[..6]), root(&one.log.hashes()));
    let against_log = format!(
        "the first 6 entries of `home` have the root {}, the checkpoint in `older` has {}",
        roots.0, roots.1
    );
    let against_note = "the 7 entries of the checkpoint in `newer` do not begin with the 6 of that in \
                        `older`; both are signed";
    assert_eq!(found.contradictions, [against_log, against_note.to_owned()]);
    let proof = found.equivocation.unwrap();
    let read = PortableProof::read(&proof.to_bytes()).unwrap();
    assert_eq!(read, PortableProof::Equivocation(proof.clone()));
    let shown = format!(
        "a checkpoint of 6 entries with the root {}, and one of 7 entries, of which the first 6 have \
         the root {}",
        roots.1, roots.0
    );
    assert_eq!(judged(&proof), Ok(shown));
    // The log of the older one says nothing of the newer.
    let (_kept, log) = home(&one, "torn");
    let answer = compared(&parted, &newer, Some(&log)).answer();
    assert_eq!(answer, ComparisonAnswer::Incomparable);
}

#[test]
fn a_log_needs_a_checkpoint_of_its_own_that_fits_and_is_new_enough() {
    let (one, other) = fork();
    let older = note("older", &one.note(RECORDER));
    let (_kept, store) = home(&other, &other.note(RECORDER));
    let found = compared(&older, &store, None);
    assert_eq!(found.equivocation.unwrap().form.as_str(), "prefix");
    let stale = checkpoint(&other, 4, root(&other.log.hashes()[..4]));
    let unfit = checkpoint(&other, 7, Hash::of(b"another log"));
    let foreign = other.note(EXECUTOR);
    for text in ["torn".to_owned(), stale, unfit, foreign] {
        let (_kept, store) = home(&other, &text);
        let found = compared(&older, &store, None);
        assert_eq!(found.answer(), ComparisonAnswer::Contradiction);
        assert_eq!(found.equivocation, None, "{text}");
        let missing = found.missing.unwrap();
        assert!(missing.starts_with("to show it to others takes a signed checkpoint of `home`"));
    }
}

#[test]
fn a_proof_that_one_does_not_begin_with_the_other_needs_every_part_of_it() {
    let (one, other) = fork();
    let whole = proven(&one, &other);
    let fails = |change: &dyn Fn(&mut Equivocation)| {
        let mut changed = whole.clone();
        change(&mut changed);
        judged(&changed).unwrap_err()
    };
    let leaves =
        |change: &dyn Fn(&mut Vec<Hash>)| fails(&|it| change(&mut it.leaves.as_mut().unwrap().0));
    let hashes = other.log.hashes();
    let foreign = "CHAIN_BREAK: the leaves are not those of the second checkpoint";
    let order = "CHAIN_BREAK: the first checkpoint is not of fewer entries than the second";
    let both = "CHAIN_BREAK: the checkpoints can both be true";
    let second = "SIG_INVALID: the second checkpoint is not signed by a recorder key of this log";
    let cases = [
        (leaves(&|it| it[0] = Hash::of(b"wrong")), foreign),
        (leaves(&|it| it.swap(1, 2)), foreign),
        (leaves(&|it| it.truncate(6)), foreign),
        (leaves(&|it| it.push(Hash::of(b"more"))), foreign),
        (leaves(&|it| *it = one.log.hashes()), foreign),
        (fails(&|it| it.leaves = None), foreign),
        (fails(&|it| it.first = checkpoint(&other, 6, root(&hashes[..6]))), both),
        (fails(&|it| it.first = checkpoint(&other, 0, empty_root())), both),
        (fails(&|it| it.first = checkpoint(&other, 8, Hash::of(b"later"))), order),
        (fails(&|it| it.first = checkpoint(&other, 7, Hash::of(b"as long"))), order),
        (fails(&|it| std::mem::swap(&mut it.first, &mut it.second)), order),
        (fails(&|it| it.second = other.note(EXECUTOR)), second),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn no_flipped_bit_or_cut_is_taken_for_the_proof() {
    let (one, other) = fork();
    let whole = proven(&one, &other);
    let LeafHashes(leaves) = whole.leaves.clone().unwrap();
    assert_eq!(leaves, other.log.hashes());
    let bytes = whole.to_bytes();
    let taken = |bytes: &[u8]| match PortableProof::read(bytes) {
        Ok(PortableProof::Equivocation(proof)) => {
            // Readers take every patch of a schema.
            proof.schema_version == whole.schema_version && judged(&proof).is_ok()
        }
        _ => false,
    };
    assert!(taken(&bytes));
    for at in 0..bytes.len() - 1 {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 6);
        assert!(!taken(&flipped), "a bit of byte {at}");
        assert!(!taken(&bytes[..at]), "cut at {at}");
    }
}
