//! Proofs that hold, and what is said of them.

use countersign_format::proof::{InclusionStatus, PortableProof};
use countersign_format::report::Signer;
use countersign_testkit::{TestHome, note};
use countersign_verify::{
    EventName, FileSource, Options, Unprovable, inclusion_exit_status, prove, verify_proof,
};

use crate::forge::{
    EXECUTOR, Forge, Kept, NEXT_RECORDER, PLANNER, RECORDER, findings, judge, judge_with, options,
};

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn every_event_of_a_closed_trace_can_be_shown() {
    for events in 1..8 {
        let forge = Forge::closed(events);
        for seq in 0..events as u64 {
            let report = judge(&forge.proof(seq, RECORDER));
            assert_eq!(findings(&report), none(), "{seq} of {events}");
            assert_eq!((report.signer, inclusion_exit_status(&report)), (Signer::Pinned, 0));
            assert_eq!(report.event.unwrap().event_hash, forge.trace.hashes()[seq as usize]);
            assert_eq!(report.keys_as_of, forge.log.events.len() as u64);
        }
    }
}

#[test]
fn what_the_maker_makes_is_what_the_page_says() {
    let home = TestHome::new();
    let recording = home.recording();
    for purpose in ["one", "two", "three"] {
        let _ = recording.submit(note(purpose)).unwrap();
    }
    let other = home.recording();
    recording.conclude("done").unwrap();
    let source = FileSource::in_home(&home.path(), home.workspace.trace_file(recording.id()));
    let options = Options { trusted_roots: [home.workspace.root()].into(), ..options() };
    for seq in 0..home.events(recording.id()).len() as u64 {
        let proof = prove(&source, &EventName::Seq(seq), &options).unwrap();
        let bytes = proof.to_bytes();
        assert_eq!(PortableProof::read(&bytes), Ok(PortableProof::Event(Box::new(proof.clone()))));
        let report = verify_proof(&proof, &Kept::default(), &options).unwrap();
        assert_eq!((findings(&report), report.warnings.as_slice()), (none(), &[][..]), "{seq}");
        assert_eq!(inclusion_exit_status(&report), 0);
        // By its id it is the same.
        let id = home.events(recording.id())[seq as usize].event_id.clone();
        assert_eq!(prove(&source, &EventName::Id(id), &options).unwrap(), proof);
        // The log that it came from says the same.
        let with_log = verify_proof(&proof, &source, &options).unwrap();
        assert_eq!(findings(&with_log), none(), "{seq}");
    }
    // Of a trace that goes on, only its first event is known.
    let _ = other.submit(note("four")).unwrap();
    let source = FileSource::in_home(&home.path(), home.workspace.trace_file(other.id()));
    let refused = prove(&source, &EventName::Seq(1), &options).unwrap_err();
    assert_eq!(refused.to_string(), "the log knows 1 of this trace's events, this is number 2");
}

#[test]
fn what_cannot_be_shown_is_refused_with_its_reason() {
    let home = TestHome::new();
    let recording = home.recording();
    recording.conclude("done").unwrap();
    let files = FileSource::in_home(&home.path(), home.workspace.trace_file(recording.id()));
    let refusal = |source: &FileSource, name: &str| {
        prove(source, &EventName::parse(name), &options()).unwrap_err().to_string()
    };
    assert_eq!(refusal(&files, "4"), "the trace has no event `4`; it has 4 events");
    assert_eq!(refusal(&files, "01"), "`01` begins the ids of 4 events");
    assert_eq!(refusal(&files, "zz"), "the trace has no event `zz`; it has 4 events");
    let without_log = FileSource { log: None, ..files.clone() };
    let refused = prove(&without_log, &EventName::Seq(0), &options()).unwrap_err();
    assert!(matches!(refused, Unprovable::NoLog));
    let without_checkpoint = FileSource { checkpoints: Vec::new(), ..files.clone() };
    assert_eq!(
        refusal(&without_checkpoint, "0"),
        "the log's checkpoint is missing or cannot be read"
    );
    // The checkpoint stays behind while keys change.
    let old = home.path().join("old-checkpoint");
    std::fs::copy(home.path().join("log/checkpoint"), &old).unwrap();
    home.workspace.rotate_key(&home.workspace.find_key("critic").unwrap().key_id).unwrap();
    let stale = FileSource { checkpoints: vec![old], ..files.clone() };
    let size = home.verify_log().metrics.events - 1;
    assert_eq!(
        refusal(&stale, "0"),
        format!("the log's checkpoint is of {size} entries, and entry {size} must be shown")
    );
    let mut bytes = std::fs::read(&files.events).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&files.events, bytes).unwrap();
    assert!(refusal(&files, "0").starts_with("the trace does not verify: "));
}

#[test]
fn events_of_keys_that_were_retired_later_stay_shown() {
    let mut forge = Forge::new();
    forge.begin();
    forge.event(EXECUTOR);
    forge.checkpoint(RECORDER);
    forge.revoke(EXECUTOR);
    forge.rotate_recorder();
    forge.event(PLANNER);
    forge.close(NEXT_RECORDER);
    let report = judge(&forge.proof(1, NEXT_RECORDER));
    assert_eq!(findings(&report), none());
    // What the log had before the revocation is shown as well as what it has in the end.
    assert_eq!(forge.proof(1, NEXT_RECORDER).extents.len(), 2);
}

#[test]
fn a_log_that_was_kept_is_compared_and_its_keys_count() {
    let forge = Forge::closed(4);
    let proof = forge.proof(2, RECORDER);
    let early = Kept { log: Some(forge.log.bytes()), ..Kept::default() };
    let report = judge_with(&proof, &early);
    assert_eq!((findings(&report), report.keys_as_of), (none(), 6));
    // The log went on, and retired the key: what it had signed before counts still.
    let mut later = forge.clone();
    later.revoke(EXECUTOR);
    let kept = Kept { log: Some(later.log.bytes()), ..Kept::default() };
    let report = judge_with(&proof, &kept);
    assert_eq!((findings(&report), report.keys_as_of), (none(), 7));
    let shorter = Kept { log: Some(Forge::new().log.bytes()), ..Kept::default() };
    let report = judge_with(&proof, &shorter);
    assert_eq!(report.inclusion_status, InclusionStatus::Included);
}
