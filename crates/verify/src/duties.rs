//! Whether those who act, review and audit are not the same.
//!
//! Different keys and agents are all that can be seen here: one process may hold all of the keys.

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::{Event, EventType};
use countersign_format::report::FailureCode;
use countersign_format::role::Role;
use serde_json::Value;

use crate::findings::{CheckId, Findings, Place};
use crate::profile::Profile;

/// Roles that take part in a session at least.
const ROLES_MIN: usize = 3;

/// Who had which of the separate duties first.
#[derive(Debug, Default)]
pub(crate) struct Duties {
    keys: Holders,
    agents: Holders,
}

#[derive(Debug, Default)]
struct Holders {
    first: BTreeMap<String, (Role, u64)>,
    told: BTreeSet<String>,
}

impl Duties {
    pub(crate) fn step(
        &mut self,
        event: &Event,
        index: u64,
        profile: &Profile,
        findings: &mut Findings,
    ) {
        // The rules of schema 1.0 say that themselves.
        let is_1_0 = event.schema_version.starts_with("1.0.");
        if event.event_type == EventType::SessionInitialized && !is_1_0 {
            enrolled(event, &Place::of(event, index), findings);
        }
        let actor = &event.actor;
        if !matches!(actor.role, Role::Executor | Role::Critic | Role::Auditor) {
            return;
        }
        let key = self.keys.meet(&actor.key_id, actor.role, index);
        let agent = self.agents.meet(&actor.agent_id, actor.role, index);
        // An agent that uses one key for two duties is one cause.
        let (what, id, other) = match (key, agent) {
            (Some(other), _) => ("key", &actor.key_id, other),
            (None, Some(other)) => ("agent", &actor.agent_id, other),
            (None, None) => return,
        };
        let (role, at) = other;
        let message =
            format!("the {what} `{id}` acts as {} here, and as {role} at event {at}", actor.role);
        let rule = (CheckId::Separation, FailureCode::RolePolicyViolation);
        findings.broken_rule(rule, profile, &Place::of(event, index), message);
    }
}

/// Where a session says who takes part, that is three roles at least.
fn enrolled(event: &Event, place: &Place, findings: &mut Findings) {
    let Some(participants) = event.payload.get("participants").and_then(Value::as_array) else {
        return;
    };
    let roles = participants.iter().filter_map(|it| it.get("role").and_then(Value::as_str));
    let roles: BTreeSet<&str> = roles.collect();
    if !participants.is_empty() && roles.len() < ROLES_MIN {
        let message =
            format!("{} roles take part, a session has at least {ROLES_MIN}", roles.len());
        findings.fail(CheckId::Separation, FailureCode::SchemaInvalid, place, message);
    }
}

impl Holders {
    /// Another duty that `id` had before, and where; told once.
    fn meet(&mut self, id: &str, role: Role, index: u64) -> Option<(Role, u64)> {
        match self.first.get(id) {
            None => {
                self.first.insert(id.to_owned(), (role, index));
                None
            }
            Some(&(other, _)) if other == role => None,
            Some(&found) => self.told.insert(id.to_owned()).then_some(found),
        }
    }
}
