//! The gate in a session: what the workspace's own policy says of an intent, beside the critic.
//!
//! In force where there is such a policy. The built-in one is written for agents whom nobody else
//! judges: here the critic does, and the sandbox holds. Of the gate and the critic the stricter wins.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_format::event::ArtifactDescriptor;
use countersign_format::hash::Hash;
use countersign_format::role::Role;
use countersign_format::text::admissible;
use countersign_gate::{Decision, GateRequest, guard};
use countersign_protocol::{GateRecord, ReviewDecision};

use super::{Conductor, Halt};
use crate::agents::{PlannedAction, StepBrief, proposed};
use crate::gate::{LoadedGate, StoredGate};
use crate::tools::{ToolCall, typed};
use crate::workspace::WorkspaceError;
use crate::writer::lock;

const REQUEST_MEDIA: &str = "application/json";

/// The gate of this session, as its files were when somebody last looked.
#[derive(Debug, Default)]
pub(super) struct Gating {
    found: Option<Found>,
    /// What this run has listed already of what the gate decides by.
    listed: BTreeSet<Hash>,
}

/// What the files of the gate come to.
#[derive(Debug)]
enum Found {
    /// No policy of its own.
    Nothing(Box<LoadedGate>),
    InForce(Arc<StoredGate>),
}

impl Found {
    fn is_stale(&self) -> bool {
        match self {
            Self::Nothing(loaded) => loaded.is_stale(),
            Self::InForce(stored) => stored.loaded.is_stale(),
        }
    }
}

/// What the gate says of an intent.
#[derive(Debug)]
pub(super) struct Gated {
    pub(super) decision: ReviewDecision,
    /// The reasons that decided, where it does not just allow.
    pub(super) reasons: Vec<String>,
    pub(super) record: GateRecord,
    /// What it decided by.
    pub(super) basis: Vec<ArtifactDescriptor>,
}

impl Conductor {
    /// What the gate says of an action; nothing where the workspace has no policy of its own.
    pub(super) fn gated(
        &self,
        step: &StepBrief,
        action: &PlannedAction,
    ) -> Result<Option<Gated>, Halt> {
        let Some(stored) = self.gate_in_force()? else { return Ok(None) };
        let request = self.gate_request(step, action)?;
        let opinion = stored.loaded.gate.decide(&request);
        let kept = self.session.workspace().put_artifact(&request.to_bytes(), REQUEST_MEDIA)?;
        let said = opinion.verdict.decision();
        let deciding = opinion.verdict.deciding().filter(|_| said != Decision::Allow);
        let mut record = stored.record(&opinion, kept.artifact_hash, true);
        record.reasons = opinion.verdict.reasons().iter().map(ToString::to_string).collect();
        let mut gating = lock(&self.gating);
        let new = stored.basis().filter(|it| gating.listed.insert(it.artifact_hash)).cloned();
        let basis = std::iter::once(kept).chain(new).collect();
        Ok(Some(Gated {
            decision: match said {
                Decision::Allow => ReviewDecision::Approved,
                Decision::Ask => ReviewDecision::Asked,
                Decision::Deny => ReviewDecision::Blocked,
            },
            reasons: deciding.map(ToString::to_string).collect(),
            record,
            basis,
        }))
    }

    /// The gate as its files are now, if it has a policy of its own.
    fn gate_in_force(&self) -> Result<Option<Arc<StoredGate>>, WorkspaceError> {
        let workspace = self.session.workspace();
        let mut gating = lock(&self.gating);
        if gating.found.as_ref().is_none_or(Found::is_stale) {
            let loaded = workspace.gate()?;
            gating.found = Some(match loaded.policy_file {
                Some(_) => Found::InForce(Arc::new(workspace.store_gate(loaded)?)),
                None => Found::Nothing(Box::new(loaded)),
            });
        }
        Ok(match &gating.found {
            Some(Found::InForce(stored)) => Some(Arc::clone(stored)),
            _ => None,
        })
    }

    /// An action in the words of the gate, without secrets: it decides by exactly what is stored.
    fn gate_request(
        &self,
        step: &StepBrief,
        action: &PlannedAction,
    ) -> Result<GateRequest, WorkspaceError> {
        let call = &action.call;
        let agent = self.session.workspace().log_state(|log| {
            log.active_key(Role::Executor).map(|identity| identity.agent_id.clone())
        })?;
        let (role, network) = (Role::Executor.as_str(), self.task.sandbox.network);
        let agent = agent.as_deref().unwrap_or(role);
        let clean = |text: &str| admissible(&self.redactor.redact_text(text).0);
        let mut request = GateRequest::new(agent, role, call.action_type(), call.name());
        // These three as the intent has them, so that the one can be held against the other.
        request.description = self.justification(step, action);
        request.paths = self.clean_all(&call.paths());
        request.risk = guard::risk(&proposed(action, network));
        request.network_granted = network;
        request.session = Some(self.task.policy_profile.strictness());
        match call {
            ToolCall::Exec { shell: Some(script), .. } => request.command = Some(clean(script)),
            ToolCall::Exec { argv, .. } => {
                let words: Vec<String> = argv.iter().map(|word| typed(word)).collect();
                request.command = Some(clean(&words.join(" ")));
            }
            ToolCall::FileWrite { content, .. } => request.content = Some(clean(content)),
            ToolCall::FileRead { .. } | ToolCall::FileDelete { .. } => {}
        }
        Ok(request)
    }

    /// What an action is for, as its intent says it.
    pub(super) fn justification(&self, step: &StepBrief, action: &PlannedAction) -> String {
        self.clean(match action.justification.is_empty() {
            true => &step.planned.objective,
            false => &action.justification,
        })
    }
}

/// The stricter of two decisions.
pub(super) fn stricter(one: ReviewDecision, other: ReviewDecision) -> ReviewDecision {
    let rank = |decision: ReviewDecision| match decision {
        ReviewDecision::Approved => 0,
        ReviewDecision::Asked => 1,
        ReviewDecision::Blocked => 2,
    };
    if rank(other) > rank(one) { other } else { one }
}
