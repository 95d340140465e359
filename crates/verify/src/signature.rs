//! Whether the signature of one event counts: whose key it is, and whether that could sign then.

use countersign_format::event::EventType;
use countersign_format::report::FailureCode;

use crate::examine::{Signed, Step};
use crate::findings::{CheckId, Findings, Place};
use crate::keys::KeyBook;
use crate::profile::Profile;

/// What became of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It verifies, and counts.
    Counts,
    /// There is none where there need not be one.
    Absent,
    /// There is none where there must be one, or it does not count.
    Failed,
}

/// Whether somebody answers for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vouched {
    /// Its signature counts; or nothing is known of keys, and the report says so.
    Yes,
    /// Nobody does: it may stand there, but it ends, permits and excuses nothing.
    No,
}

/// Checks the signature of a line against `book`.
pub(crate) fn check(
    step: &Step,
    index: u64,
    book: &KeyBook,
    profile: &Profile,
    findings: &mut Findings,
) -> Outcome {
    let invalid = |message: String, findings: &mut Findings| {
        let place = step.place(index);
        findings.fail_signature(FailureCode::SigInvalid, &place, message);
        Outcome::Failed
    };
    let given = match &step.signed {
        Signed::Missing => return missing(step, &step.place(index), profile, findings),
        Signed::Misshapen(why) => return invalid(why.clone(), findings),
        Signed::Given(given) => given,
    };
    let key_id = step.key_id().unwrap_or_default();
    let Some(key) = book.get(key_id) else {
        return invalid(format!("no key `{key_id}` is known"), findings);
    };
    if step.agent_id() != Some(key.agent_id.as_str()) {
        let message = format!("key {key_id} belongs to `{}`, not to the actor", key.agent_id);
        return invalid(message, findings);
    }
    if !given.verifies(&key.public_key) {
        return invalid(format!("the signature of key {key_id} does not verify"), findings);
    }
    if !given.hash_fits {
        return invalid("`signed_bytes_hash` is not that of the signed bytes".to_owned(), findings);
    }
    // Without a time the schema check has failed already.
    let Some(created_at) = step.created_at else { return Outcome::Failed };
    if let Err(why) = key.could_sign(index, created_at) {
        let message = format!("key {key_id} could not sign this: {why}");
        let place = step.place(index);
        findings.fail(CheckId::KeyStatus, FailureCode::SigInvalid, &place, message);
        return Outcome::Failed;
    }
    if key.is_compromised() && !compromised(key_id, &step.place(index), profile, findings) {
        return Outcome::Failed;
    }
    if !key.roles.iter().any(|role| Some(role.as_str()) == step.role()) {
        let role = step.role().unwrap_or_default();
        let message = format!("key {key_id} of `{}` has no role `{role}`", key.agent_id);
        let rule = (CheckId::RolePolicy, FailureCode::RolePolicyViolation);
        findings.broken_rule(rule, profile, &step.place(index), message);
    }
    Outcome::Counts
}

/// A key that somebody else may have had: what it signed before its end is in doubt, which is said
/// once for each key. True if the signature counts all the same.
fn compromised(key_id: &str, place: &Place, profile: &Profile, findings: &mut Findings) -> bool {
    let message = format!(
        "key {key_id} was revoked because it was compromised: what it signed before is in doubt"
    );
    match (findings.is_first_of_key(key_id), profile.compromise_counts_back) {
        (false, _) => {}
        (true, true) => findings.fail(CheckId::KeyStatus, FailureCode::SigInvalid, place, message),
        (true, false) => findings.warn(CheckId::KeyStatus, "KEY_COMPROMISED", place, message),
    }
    !profile.compromise_counts_back
}

fn missing(step: &Step, place: &Place, profile: &Profile, findings: &mut Findings) -> Outcome {
    let mandatory = step.event_type().is_none_or(EventType::signature_is_mandatory);
    let message = "the event is not signed".to_owned();
    if mandatory || profile.every_event_signed {
        findings.fail_signature(FailureCode::SigMissing, place, message);
        Outcome::Failed
    } else {
        findings.warn(CheckId::Signature, "SIG_ABSENT", place, message);
        Outcome::Absent
    }
}
