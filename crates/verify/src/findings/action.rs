//! What to do about a finding: in words, with a command that can be run where there is one.
//!
//! `TRACE` in a command stands for the trace that the report is about.

use countersign_format::report::FailureCode;

use super::{CheckId, Place};

/// What to do about a failure of this check, with this code, at this place.
pub(super) fn action(check: CheckId, code: FailureCode, place: &Place) -> String {
    match check {
        CheckId::Log => of_log(code).to_owned(),
        CheckId::KeyStatus => {
            "find out who still signs with this key: run `countersign keys list`, \
                               and rotate it if it may have been stolen"
                .to_owned()
        }
        CheckId::ArtifactExistence | CheckId::ArtifactHash => of_artifact(code, place),
        CheckId::ReceiptChain => of_receipt(code, place),
        CheckId::Separation => {
            "let different agents with different keys act, review and audit, and run the task again"
                .to_owned()
        }
        CheckId::Finalization => {
            let words = "do not rely on the recorded verdict; audit the trace yourself";
            with_command(words, "countersign verify TRACE --profile strict")
        }
        _ => of_event(code, place),
    }
}

fn of_log(code: FailureCode) -> &'static str {
    match code {
        FailureCode::ChainBreak => {
            "trace and log do not belong together: compare with a copy that was kept elsewhere, run \
             `countersign verify TRACE --log FILE`"
        }
        _ => "look at the log by itself first: run `countersign verify log`",
    }
}

fn of_artifact(code: FailureCode, place: &Place) -> String {
    let Some(hash) = place.artifact else {
        return of_event(code, place);
    };
    let words = match code {
        FailureCode::ArtifactHashMismatch => "restore the artifact from another copy, and compare",
        _ => "ask for the artifact, or restore it from another copy of the store, and compare",
    };
    with_command(words, &format!("countersign artifact show {hash}"))
}

/// Whoever signed such a receipt signed it so: the line itself was not changed.
fn of_receipt(code: FailureCode, place: &Place) -> String {
    let words = match code {
        FailureCode::ChainBreak => "find out which action is missing or was put elsewhere",
        FailureCode::HashMismatch => "do not rely on this receipt; look at the event itself",
        _ => "compare the receipt with the events that it is about",
    };
    match place.index {
        Some(index) => with_command(words, &format!("countersign trace show TRACE --from {index}")),
        None => words.to_owned(),
    }
}

fn of_event(code: FailureCode, place: &Place) -> String {
    let words = match code {
        FailureCode::SigInvalid => "do not rely on this event; ask the signer for the original",
        FailureCode::SigMissing => "ask for the trace as it was signed",
        FailureCode::ChainBreak => {
            "rely on nothing from here on; compare with another copy or with a checkpoint kept \
             elsewhere"
        }
        FailureCode::HashMismatch => "compare this event with another copy: it was changed",
        FailureCode::ArtifactMissing => "ask for what the event names and does not bring",
        FailureCode::ArtifactHashMismatch => "restore the artifact from another copy",
        FailureCode::ClaimUnproven => "treat the claim as unsupported; look at what it rests on",
        FailureCode::RolePolicyViolation => "find out why this was recorded although it may not be",
        FailureCode::SchemaInvalid => "look at the line itself: it is not what a recorder writes",
    };
    // What cannot be read cannot be shown either.
    match place.index.filter(|_| code != FailureCode::SchemaInvalid) {
        Some(index) => {
            let from = index.saturating_sub(u64::from(code == FailureCode::ChainBreak));
            with_command(words, &format!("countersign trace show TRACE --from {from}"))
        }
        None => words.to_owned(),
    }
}

fn with_command(words: &str, command: &str) -> String {
    format!("{words}; run `{command}`")
}
