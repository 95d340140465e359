//! What a run collects on its way: checks, failures, warnings.

use countersign_format::hash::Hash;
use countersign_format::report::{
    Check, CheckStatus, Failure, FailureCode, VerificationStatus, Warning,
};

use crate::profile::Profile;

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
    ClaimEvidence,
    RolePolicy,
    Separation,
    Finalization,
}

impl CheckId {
    const ALL: [Self; 12] = [
        Self::Schema,
        Self::EventHash,
        Self::Chain,
        Self::Signature,
        Self::KeyStatus,
        Self::Log,
        Self::ArtifactExistence,
        Self::ArtifactHash,
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
}

/// Everything that was found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    failures: Vec<Failure>,
    warnings: Vec<Warning>,
    unlisted: u64,
    failed: Vec<CheckId>,
    warned: Vec<CheckId>,
    skipped: Vec<(CheckId, String)>,
    evidence: Vec<(CheckId, String)>,
    scopes: Vec<(CheckId, String)>,
}

impl Findings {
    pub(crate) fn fail(
        &mut self,
        check: CheckId,
        failure_code: FailureCode,
        place: &Place,
        message: String,
    ) {
        self.failed.push(check);
        self.failed.dedup();
        if self.failures.len() >= LISTED_MAX {
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
            suggested_action: action(failure_code).to_owned(),
        });
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
        } else {
            self.warn(check, code.as_str(), place, message);
        }
    }

    pub(crate) fn warn(&mut self, check: CheckId, code: &str, place: &Place, message: String) {
        self.warned.push(check);
        self.warned.dedup();
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

    pub(crate) fn into_parts(self) -> (Vec<Check>, Vec<Failure>, Vec<Warning>) {
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

const fn action(code: FailureCode) -> &'static str {
    match code {
        FailureCode::SigInvalid => "do not rely on this event; ask the signer for the original",
        FailureCode::SigMissing => "ask for the trace as it was signed",
        FailureCode::ChainBreak => "compare with another copy or with a checkpoint kept elsewhere",
        FailureCode::HashMismatch => "compare this event with another copy: it was changed",
        FailureCode::ArtifactMissing => "ask for the missing artifact",
        FailureCode::ArtifactHashMismatch => "restore the artifact from another copy",
        FailureCode::ClaimUnproven => "treat the claim as unsupported",
        FailureCode::RolePolicyViolation => "find out why this was recorded although it may not be",
        FailureCode::SchemaInvalid => "look at the line itself: it is not what a recorder writes",
    }
}
