//! Keys that were revoked because somebody else had them: what they signed counts as the reader says.

use countersign_format::proof::{EventProof, InclusionReport};
use countersign_verify::{Options, Profile, verify_proof};

use crate::forge::{
    EXECUTOR, Forge, Holder, Kept, NEXT_RECORDER, PLANNER, RECORDER, findings, options,
};

fn judged(proof: &EventProof, kept: &Kept, profile: Profile) -> InclusionReport {
    verify_proof(proof, kept, &Options { profile, ..options() }).unwrap()
}

fn in_doubt(holder: Holder) -> String {
    let key_id = holder.key_id();
    format!(
        "key {key_id} was revoked because it was compromised: what it signed before is in doubt"
    )
}

fn warnings(report: &InclusionReport) -> Vec<String> {
    report.warnings.iter().map(|it| format!("{}: {}", it.warning_code, it.message)).collect()
}

#[track_caller]
fn is_doubted(proof: &EventProof, kept: &Kept, holder: Holder) {
    for profile in [Profile::DEFAULT, Profile::LENIENT] {
        let report = judged(proof, kept, profile);
        assert_eq!(findings(&report), Vec::<String>::new());
        assert_eq!(warnings(&report), [format!("KEY_COMPROMISED: {}", in_doubt(holder))]);
    }
    let report = judged(proof, kept, Profile::STRICT);
    assert_eq!(findings(&report), [format!("SIG_INVALID: {}", in_doubt(holder))]);
}

#[test]
fn an_event_of_a_compromised_key_is_doubted_and_fails_a_strict_reader() {
    // The event, and the first of its trace.
    for holder in [EXECUTOR, PLANNER] {
        let mut forge = Forge::closed(2);
        forge.revoke_for(holder, "compromised laptop");
        is_doubted(&forge.proof(1, RECORDER), &Kept::default(), holder);
    }
}

#[test]
fn what_a_log_kept_elsewhere_says_of_a_compromise_counts_too() {
    let mut forge = Forge::closed(2);
    let proof = forge.proof(1, RECORDER);
    forge.revoke_for(EXECUTOR, "Compromise");
    let kept = Kept { log: Some(forge.log.bytes()), ..Kept::default() };
    is_doubted(&proof, &kept, EXECUTOR);
}

#[test]
fn a_key_that_was_lost_or_that_signed_log_entries_only_is_not_doubted() {
    let mut lost = Forge::closed(2);
    lost.revoke(EXECUTOR);
    let mut elsewhere = Forge::closed(2);
    elsewhere.add_key(NEXT_RECORDER);
    elsewhere.revoke_for(RECORDER, "compromised");
    for proof in [lost.proof(1, RECORDER), elsewhere.proof(1, NEXT_RECORDER)] {
        let report = judged(&proof, &Kept::default(), Profile::STRICT);
        assert_eq!((findings(&report), warnings(&report)), (Vec::new(), Vec::new()));
    }
}
