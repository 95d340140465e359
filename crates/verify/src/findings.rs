//! What a run collects on its way: checks, failures, warnings.

mod action;
mod blame;

use std::collections::BTreeSet;

use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::report::{
    Check, CheckStatus, Failure, FailureCode, VerificationStatus, Warning,
};

use crate::profile::Profile;
use action::action;
use blame::Blame;

/// Failures and warnings that a report lists; more are only counted.
pub(crate) const LISTED_MAX: usize = 1_000;

/// What is looked at, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CheckId {
    Schema,
    EventHash,
    Chain,
    Signature,
    KeyStatus,
    Log,
    ArtifactExistence,
    ArtifactHash,
    ReceiptChain,
    ClaimEvidence,
    RolePolicy,
    Separation,
    Finalization,
}

impl CheckId {
    pub(crate) const ALL: [Self; 13] = [
        Self::Schema,
        Self::EventHash,
        Self::Chain,
        Self::Signature,
        Self::KeyStatus,
        Self::Log,
        Self::ArtifactExistence,
        Self::ArtifactHash,
        Self::ReceiptChain,
        Self::ClaimEvidence,
        Self::RolePolicy,
        Self::Separation,
        Self::Finalization,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Schema => "CHK_SCHEMA_CONFORMANCE",
            Self::EventHash => "CHK_EVENT_HASH_INTEGRITY",
            Self::Chain => "CHK_CHAIN_CONTINUITY",
            Self::Signature => "CHK_SIGNATURE_VALIDITY",
            Self::KeyStatus => "CHK_KEY_STATUS",
            Self::Log => "CHK_LOG",
            Self::ArtifactExistence => "CHK_ARTIFACT_EXISTENCE",
            Self::ArtifactHash => "CHK_ARTIFACT_HASH_MATCH",
            Self::ReceiptChain => "CHK_RECEIPT_CHAIN",
            Self::ClaimEvidence => "CHK_CLAIM_EVIDENCE_SUFFICIENCY",
            Self::RolePolicy => "CHK_ROLE_POLICY_CONFORMANCE",
            Self::Separation => "CHK_SEPARATION_OF_DUTIES",
            Self::Finalization => "CHK_FINALIZATION_INTEGRITY",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Schema => "every line is a valid event in its canonical bytes",
            Self::EventHash => "every hash is that of the bytes",
            Self::Chain => "every event follows the one before",
            Self::Signature => "every signature verifies",
            Self::KeyStatus => "every key could sign when it did",
            Self::Log => "the workspace log knows this trace so",
            Self::ArtifactExistence => "every artifact is there",
            Self::ArtifactHash => "every artifact has the bytes that were recorded",
            Self::ReceiptChain => "every action has its receipt, and each names the one before",
            Self::ClaimEvidence => "every claim has its evidence",
            Self::RolePolicy => "every event was allowed when it was recorded",
            Self::Separation => "who acts, who reviews and who audits are not the same",
            Self::Finalization => "the final statement and the audit are in order",
        }
    }
}

/// Where something was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) index: Option<u64>,
    pub(crate) event_id: Option<String>,
    pub(crate) artifact: Option<Hash>,
}

impl Place {
    /// The event at `index`.
    pub(crate) const fn event(index: u64, event_id: Option<String>) -> Self {
        Self { index: Some(index), event_id, artifact: None }
    }

    /// This event, which stands at `index`.
    pub(crate) fn of(event: &Event, index: u64) -> Self {
        Self::event(index, Some(event.event_id.clone()))
    }
}

/// Everything that was found so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    failures: Vec<Failure>,
    warnings: Vec<Warning>,
    unlisted: u64,
    failed: Vec<CheckId>,
    warned: Vec<CheckId>,
    skipped: Vec<(CheckId, String)>,
    evidence: Vec<(CheckId, String)>,
    scopes: Vec<(CheckId, String)>,
    /// Claims of which it was said that they are unproven. One is enough.
    unproven: BTreeSet<u64>,
    blame: Blame,
    /// Keys of which it was said that they are in doubt.
    doubted: BTreeSet<String>,
    /// The last signature that failed, and those that failed right after one that was told.
    run: Option<Run>,
}

/// Events one after the other whose signatures fail: whoever changes one and makes the rest fit, or
/// signs all of them, is one cause.
#[derive(Debug, Clone)]
struct Run {
    code: FailureCode,
    /// Where the first stands among the failures, if it is listed.
    told: usize,
    last: u64,
    more: u64,
}

impl Findings {
    pub(crate) fn fail(
        &mut self,
        check: CheckId,
        failure_code: FailureCode,
        place: &Place,
        message: String,
    ) {
        if self.is_told(failure_code, place) {
            return;
        }
        self.fail_each(check, failure_code, place, message);
    }

    /// A signature that fails: told at the first of several events in a row, which are counted.
    pub(crate) fn fail_signature(&mut self, code: FailureCode, place: &Place, message: String) {
        let index = place.index.unwrap_or_default();
        if let Some(run) = &mut self.run
            && run.code == code
            && run.last + 1 == index
        {
            run.last = index;
            run.more += 1;
            return;
        }
        self.end_run();
        self.run = Some(Run { code, told: self.failures.len(), last: index, more: 0 });
        self.fail(CheckId::Signature, code, place, message);
    }

    /// Says how many signatures in a row failed, where the first of them is told.
    fn end_run(&mut self) {
        let Some(run) = self.run.take().filter(|run| run.more > 0) else { return };
        let words = format!("; and so for the next {} up to event {}", run.more, run.last);
        if let Some(told) = self.failures.get_mut(run.told) {
            told.message.push_str(&words);
        }
    }

    /// As [`Self::fail`], where several may stand at one place.
    pub(crate) fn fail_each(
        &mut self,
        check: CheckId,
        failure_code: FailureCode,
        place: &Place,
        message: String,
    ) {
        let first = !self.failed.contains(&check);
        if first {
            self.failed.push(check);
        } else if self.failures.len() >= LISTED_MAX {
            // The first of each check is always listed: no check fails without a word.
            self.unlisted += 1;
            return;
        }
        self.failures.push(Failure {
            failure_code,
            severity: failure_code.severity(),
            check_id: check.as_str().to_owned(),
            event_id: place.event_id.clone(),
            index: place.index,
            artifact_hash: place.artifact,
            message,
            suggested_action: action(check, failure_code, place),
        });
    }

    /// A claim may lack its evidence in several ways; it is unproven once.
    fn is_told(&mut self, code: FailureCode, place: &Place) -> bool {
        let claim = place.index.filter(|_| code == FailureCode::ClaimUnproven);
        claim.is_some_and(|claim| !self.unproven.insert(claim))
    }

    /// Whether nothing was said of this key yet.
    pub(crate) fn is_first_of_key(&mut self, key_id: &str) -> bool {
        self.doubted.insert(key_id.to_owned())
    }

    /// Whether an event that broke a rule is to be blamed for it, or one that it rests on was already.
    pub(crate) fn is_news(&mut self, event: &Event, rule: (CheckId, FailureCode)) -> bool {
        self.blame.is_news(event, rule)
    }

    /// Whether some event could not be taken at its word, or does not stand in its place.
    pub(crate) fn in_doubt(&self) -> bool {
        let checks = [CheckId::Schema, CheckId::EventHash, CheckId::Chain];
        checks.iter().any(|check| self.failed.contains(check))
    }

    /// Something that is no fault of the bytes: where only those count, it is worth knowing.
    pub(crate) fn broken_rule(
        &mut self,
        (check, code): (CheckId, FailureCode),
        profile: &Profile,
        place: &Place,
        message: String,
    ) {
        if profile.rules_must_hold {
            self.fail(check, code, place, message);
        } else if !self.is_told(code, place) {
            self.warn(check, code.as_str(), place, message);
        }
    }

    pub(crate) fn warn(&mut self, check: CheckId, code: &str, place: &Place, message: String) {
        if !self.warned.contains(&check) {
            self.warned.push(check);
        }
        if self.warnings.len() >= LISTED_MAX {
            self.unlisted += 1;
            return;
        }
        self.warnings.push(Warning {
            warning_code: code.to_owned(),
            event_id: place.event_id.clone(),
            message,
        });
    }

    /// Takes over what was found in the workspace log, which is one check of a trace.
    pub(crate) fn take_over_from_log(&mut self, mut own: Self) {
        own.end_run();
        for failure in own.failures {
            let place = Place { event_id: failure.event_id, ..Place::default() };
            let entry = failure.index.map(|index| format!(" entry {index}")).unwrap_or_default();
            let message = format!("workspace log{entry}: {}", failure.message);
            self.fail(CheckId::Log, failure.failure_code, &place, message);
        }
        for warning in own.warnings {
            let message = format!("workspace log: {}", warning.message);
            self.warn(CheckId::Log, &warning.warning_code, &Place::default(), message);
        }
        self.unlisted += own.unlisted;
    }

    /// Says that there was nothing to run `check` with.
    pub(crate) fn skip(&mut self, check: CheckId, why: impl Into<String>) {
        self.skipped.push((check, why.into()));
    }

    pub(crate) fn scope(&mut self, check: CheckId, scope: impl Into<String>) {
        self.scopes.push((check, scope.into()));
    }

    pub(crate) fn evidence(&mut self, check: CheckId, evidence: impl Into<String>) {
        self.evidence.push((check, evidence.into()));
    }

    pub(crate) fn status(&self) -> VerificationStatus {
        if !self.failures.is_empty() {
            VerificationStatus::Fail
        } else if !self.warnings.is_empty() {
            VerificationStatus::PassWithWarnings
        } else {
            VerificationStatus::Pass
        }
    }

    pub(crate) const fn unlisted(&self) -> u64 {
        self.unlisted
    }

    pub(crate) fn into_parts(mut self) -> (Vec<Check>, Vec<Failure>, Vec<Warning>) {
        self.end_run();
        let checks = CheckId::ALL
            .into_iter()
            .map(|check| {
                let skipped = self.skipped.iter().find(|(id, _)| *id == check);
                let scope = self.scopes.iter().find(|(id, _)| *id == check);
                let status = if self.failed.contains(&check) {
                    CheckStatus::Fail
                } else if skipped.is_some() {
                    CheckStatus::NotChecked
                } else if self.warned.contains(&check) {
                    CheckStatus::Warn
                } else {
                    CheckStatus::Pass
                };
                let evidence = self.evidence.iter().filter(|(id, _)| *id == check);
                Check {
                    check_id: check.as_str().to_owned(),
                    name: check.name().to_owned(),
                    status,
                    scope: skipped.or(scope).map(|(_, text)| text.clone()).unwrap_or_default(),
                    evidence: evidence.map(|(_, text)| text.clone()).collect(),
                }
            })
            .collect();
        (checks, self.failures, self.warnings)
    }
}
