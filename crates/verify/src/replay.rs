//! The rules by which a trace was written, run over it again.
//!
//! Which check a broken rule belongs to is decided here; what the rules are, by the protocol.

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::report::FailureCode;
use countersign_format::shape::Dialect;
use countersign_protocol::flow::FlowState;
use countersign_protocol::receipts::IntendedAction;
use countersign_protocol::recording::RecordingState;
use countersign_protocol::session::SessionState;
use countersign_protocol::unlinked::UnlinkedSession;
use countersign_protocol::work::WorkState;
use countersign_protocol::{Refusal, State as _, roles};

use crate::findings::{CheckId, Findings, Place};
use crate::profile::Profile;

/// What the events of a trace come to, as far as its rules are known.
pub(crate) enum Replay {
    Recording(Box<RecordingState>),
    Session(Box<SessionState>),
    Work(Box<WorkState>),
    Flow(Box<FlowState>),
    /// A session of schema 1.0.
    Unlinked(Box<UnlinkedSession>),
    /// Of such traces this version knows the roles only.
    Roles(TraceKind),
}

impl Replay {
    pub(crate) fn new(kind: TraceKind, dialect: Dialect) -> Self {
        match (kind, dialect) {
            (TraceKind::Recording, _) => Self::Recording(Box::default()),
            (TraceKind::Work, _) => Self::Work(Box::default()),
            (TraceKind::Flow, _) => Self::Flow(Box::default()),
            (TraceKind::Session, Dialect::V1_1) => Self::Session(Box::default()),
            (TraceKind::Session, Dialect::V1_0) => Self::Unlinked(Box::default()),
            _ => Self::Roles(kind),
        }
    }

    /// Whether what comes next depends on everything before it.
    pub(crate) const fn has_state(&self) -> bool {
        !matches!(self, Self::Roles(_))
    }

    /// What the intent says whose execution began at place `seq` and has not ended.
    pub(crate) fn under_way(&self, seq: u64) -> Option<&IntendedAction> {
        match self {
            Self::Recording(state) => state.executions.get(&seq).map(|open| &open.action),
            Self::Session(state) => state.executions.get(&seq).and_then(|it| it.action.as_ref()),
            Self::Work(_) | Self::Flow(_) | Self::Unlinked(_) | Self::Roles(_) => None,
        }
    }

    /// What the intent at place `seq` says, which has not started.
    pub(crate) fn intended(&self, seq: u64) -> Option<&IntendedAction> {
        match self {
            Self::Recording(state) => state.intents.get(&seq).map(|open| &open.action),
            Self::Session(state) => state.intents.get(&seq).map(|intent| &intent.action),
            Self::Work(_) | Self::Flow(_) | Self::Unlinked(_) | Self::Roles(_) => None,
        }
    }

    /// Says what was not allowed, and takes the event in all the same.
    pub(crate) fn step(
        &mut self,
        event: &Event,
        index: u64,
        profile: &Profile,
        findings: &mut Findings,
    ) {
        let admitted = match self {
            Self::Recording(state) => state.admit(event),
            Self::Session(state) => state.admit(event),
            Self::Work(state) => state.admit(event),
            Self::Flow(state) => state.admit(event),
            Self::Roles(kind) => roles::admit(*kind, event),
            Self::Unlinked(state) => {
                for refusal in state.objections(event) {
                    tell_unlinked(&refusal, &Place::of(event, index), profile, findings);
                }
                Ok(())
            }
        };
        match self {
            Self::Recording(state) => state.apply(event),
            Self::Session(state) => state.apply(event),
            Self::Work(state) => state.apply(event),
            Self::Flow(state) => state.apply(event),
            Self::Unlinked(state) => state.apply(event),
            Self::Roles(_) => {}
        }
        match admitted {
            Err(refusal) => {
                let rule = rule(&refusal);
                if findings.is_news(event, rule) {
                    let place = Place::of(event, index);
                    findings.broken_rule(rule, profile, &place, refusal.to_string());
                }
            }
            Ok(()) if event.event_type == EventType::FinalStatementSigned => {
                self.disputes(&Place::of(event, index), profile, findings);
            }
            Ok(()) => {}
        }
    }

    /// Claims that stand although the critic's doubt was not answered by anything new.
    fn disputes(&self, place: &Place, profile: &Profile, findings: &mut Findings) {
        let disputed = match self {
            Self::Session(state) => &state.disputed,
            Self::Unlinked(state) => state.disputed(),
            Self::Recording(_) | Self::Work(_) | Self::Flow(_) | Self::Roles(_) => return,
        };
        for claim_id in disputed {
            let message =
                format!("the claim {claim_id} was challenged and upheld with nothing new since");
            let check = CheckId::ClaimEvidence;
            if profile.disputes_settled {
                findings.fail_each(check, FailureCode::ClaimUnproven, place, message);
            } else {
                findings.warn(check, "CLAIM_DISPUTED", place, message);
            }
        }
    }
}

/// What schema 1.0 asks for and is not there breaks the schema rather than a rule.
fn tell_unlinked(refusal: &Refusal, place: &Place, profile: &Profile, findings: &mut Findings) {
    let message = refusal.to_string();
    match refusal {
        Refusal::TooFewRoles { .. }
        | Refusal::ExecutionWithoutArtifact { .. }
        | Refusal::ClaimUnnamed => {
            findings.fail(CheckId::Schema, FailureCode::SchemaInvalid, place, message);
        }
        Refusal::NoFinalStatement => {
            let rule = (CheckId::Finalization, FailureCode::SchemaInvalid);
            findings.broken_rule(rule, profile, place, message);
        }
        _ => findings.broken_rule(rule(refusal), profile, place, message),
    }
}

/// The check that a refusal belongs to, and its code.
const fn rule(refusal: &Refusal) -> (CheckId, FailureCode) {
    match refusal {
        Refusal::EvidenceTooThin { .. }
        | Refusal::EvidenceUnmet { .. }
        | Refusal::ArtifactUnlisted { event: EventType::ClaimIssued, .. } => {
            (CheckId::ClaimEvidence, FailureCode::ClaimUnproven)
        }
        // What must be there and is not is a fault of the schema; what is out of order is not.
        Refusal::NoFinalStatement => (CheckId::Finalization, FailureCode::SchemaInvalid),
        Refusal::NoAuditUnderWay
        | Refusal::AuditUnderWay
        | Refusal::NoSuchReference { event: EventType::VerificationRunCompleted, .. }
        | Refusal::NoClaims
        | Refusal::ExecutionsOpen { .. }
        | Refusal::ChallengeOpen { .. }
        | Refusal::ResolutionUnfit { .. }
        | Refusal::OtherClaims { .. } => (CheckId::Finalization, FailureCode::RolePolicyViolation),
        _ => (CheckId::RolePolicy, FailureCode::RolePolicyViolation),
    }
}
