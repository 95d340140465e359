//! Which key could sign what, as the workspace log tells it.

use std::collections::BTreeMap;

use countersign_format::key::{AgentIdentity, KeyStatus, PublicKey};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;

/// A key and the limits within which its signatures count.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) agent_id: String,
    pub(crate) roles: Vec<Role>,
    pub(crate) public_key: PublicKey,
    /// From when it counts.
    since: Timestamp,
    /// Until when, if it was retired: the time, and the size that the trace had in the log then.
    retired: Option<Retired>,
}

#[derive(Debug, Clone)]
struct Retired {
    at: Timestamp,
    size: Option<u64>,
    how: &'static str,
}

/// All keys that a log names, for one trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyBook {
    keys: BTreeMap<String, Key>,
}

impl KeyBook {
    /// The keys of a trace that has no log. Their records carry their own end.
    pub(crate) fn from_identities(identities: &[AgentIdentity]) -> Self {
        let mut book = Self::default();
        for identity in identities {
            book.add(identity);
            let end = match identity.status {
                KeyStatus::Active => None,
                KeyStatus::Rotated => Some((identity.rotated_at, "rotated")),
                KeyStatus::Revoked => Some((identity.revoked_at, "revoked")),
            };
            if let Some((at, how)) = end {
                book.retire(&identity.key_id, at.unwrap_or(identity.updated_at), None, how);
            }
        }
        book
    }

    pub(crate) fn add(&mut self, identity: &AgentIdentity) {
        let key = Key {
            agent_id: identity.agent_id.clone(),
            roles: identity.role_capabilities.clone(),
            public_key: identity.public_key,
            since: identity.created_at,
            retired: None,
        };
        self.keys.insert(identity.key_id.clone(), key);
    }

    /// Ends a key. Of the trace in question, only events below `size` count from now on.
    pub(crate) fn retire(
        &mut self,
        key_id: &str,
        at: Timestamp,
        size: Option<u64>,
        how: &'static str,
    ) {
        if let Some(key) = self.keys.get_mut(key_id) {
            key.retired = Some(Retired { at, size, how });
        }
    }

    pub(crate) fn get(&self, key_id: &str) -> Option<&Key> {
        self.keys.get(key_id)
    }
}

impl Key {
    /// Whether it could sign the event at `index`, made at `created_at`; if not, why.
    pub(crate) fn could_sign(&self, index: u64, created_at: Timestamp) -> Result<(), String> {
        if created_at < self.since {
            return Err(format!(
                "the key exists since {}, the event says {created_at}",
                self.since
            ));
        }
        let Some(Retired { at, size, how }) = &self.retired else { return Ok(()) };
        if created_at >= *at {
            return Err(format!("the key was {how} at {at}, the event says {created_at}"));
        }
        match size {
            Some(size) if index >= *size => Err(format!(
                "the key was {how} when the log had {size} events of this trace; this is number {}",
                index + 1
            )),
            _ => Ok(()),
        }
    }
}
