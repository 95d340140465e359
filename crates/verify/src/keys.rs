//! Which key could sign what, as the workspace log tells it.

use std::collections::BTreeMap;

use countersign_format::key::{AgentIdentity, KeyStatus, PublicKey};
use countersign_format::role::Role;
use countersign_format::time::Timestamp;

use crate::examine::Ring;

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
    compromised: bool,
}

/// The end of a key.
#[derive(Debug, Clone)]
pub(crate) struct KeyEnd {
    pub(crate) key_id: String,
    /// From when it no longer counts.
    pub(crate) at: Timestamp,
    pub(crate) how: &'static str,
    /// Whether somebody else may have had it: then what it signed before is in doubt as well.
    pub(crate) compromised: bool,
}

/// Whether a reason for revoking a key says that somebody else may have had it.
pub(crate) fn tells_of_compromise(reason: &str) -> bool {
    reason.trim_start().to_ascii_lowercase().starts_with("compromise")
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
            let (at, how) = match identity.status {
                KeyStatus::Active => continue,
                KeyStatus::Rotated => (identity.rotated_at, "rotated"),
                KeyStatus::Revoked => (identity.revoked_at, "revoked"),
            };
            let reason = identity.revoked_reason.as_deref().unwrap_or_default();
            let end = KeyEnd {
                key_id: identity.key_id.clone(),
                at: at.unwrap_or(identity.updated_at),
                how,
                compromised: identity.status == KeyStatus::Revoked && tells_of_compromise(reason),
            };
            book.retire(&end, None);
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
    pub(crate) fn retire(&mut self, end: &KeyEnd, size: Option<u64>) {
        if let Some(key) = self.keys.get_mut(&end.key_id) {
            let KeyEnd { at, how, compromised, .. } = *end;
            key.retired = Some(Retired { at, size, how, compromised });
        }
    }

    /// The keys alone, to try signatures with.
    pub(crate) fn ring(&self) -> Ring {
        let mut ring = Ring::default();
        for (key_id, key) in &self.keys {
            ring.insert(key_id, key.public_key);
        }
        ring
    }

    pub(crate) fn get(&self, key_id: &str) -> Option<&Key> {
        self.keys.get(key_id)
    }
}

impl Key {
    /// Whether it was revoked because somebody else may have had it.
    pub(crate) fn is_compromised(&self) -> bool {
        self.retired.as_ref().is_some_and(|retired| retired.compromised)
    }

    /// Whether it could sign the event at `index`, made at `created_at`; if not, why.
    pub(crate) fn could_sign(&self, index: u64, created_at: Timestamp) -> Result<(), String> {
        if created_at < self.since {
            return Err(format!(
                "the key exists since {}, the event says {created_at}",
                self.since
            ));
        }
        let Some(Retired { at, size, how, .. }) = &self.retired else { return Ok(()) };
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
