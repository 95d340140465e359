//! The keys of this workspace, loaded when they are first needed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use countersign_format::event::Actor;
use countersign_format::key::{AgentIdentity, KeyId, PublicKey};
use countersign_format::role::Role;
use countersign_protocol::By;
use countersign_protocol::log::LogState;
use serde_json::Map;

use crate::keyring::{Keyring, Purpose, SigningKey};
use crate::writer::{Party, WriteError, lock};

/// The agent that holds the root key.
pub(crate) const ROOT_AGENT: &str = "root";

#[derive(Debug)]
pub(crate) struct Signers {
    keyring: Keyring,
    loaded: Mutex<BTreeMap<(KeyId, Role), Arc<Party>>>,
    /// Recorder keys whose files were seen: a file's contents are bound to its name.
    recorders: Mutex<BTreeMap<KeyId, PublicKey>>,
}

impl Signers {
    pub(crate) fn new(keyring: Keyring) -> Self {
        Self { keyring, loaded: Mutex::default(), recorders: Mutex::default() }
    }

    pub(crate) const fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Who signs for `by`, as the log has it.
    pub(crate) fn party(&self, by: By, log: &LogState) -> Result<Arc<Party>, WriteError> {
        match by {
            By::Root => self.root(),
            By::Role(role) => match log.active_key(role) {
                Some(identity) => self.agent(identity, role),
                None => Err(WriteError::NoKey { who: role.as_str().to_owned() }),
            },
        }
    }

    fn root(&self) -> Result<Arc<Party>, WriteError> {
        // A key id is the beginning of the fingerprint.
        let fingerprint = self.keyring.root().to_hex();
        let key_id = fingerprint.get(..32).unwrap_or_default();
        self.load(key_id, ROOT_AGENT, Role::Recorder)
    }

    fn agent(&self, identity: &AgentIdentity, role: Role) -> Result<Arc<Party>, WriteError> {
        self.load(&identity.key_id, &identity.agent_id, role)
    }

    fn load(&self, key_id: &str, agent_id: &str, role: Role) -> Result<Arc<Party>, WriteError> {
        let who = || agent_id.to_owned();
        let id: KeyId = key_id.parse().map_err(|_| WriteError::NoKey { who: who() })?;
        let mut loaded = lock(&self.loaded);
        if let Some(party) = loaded.get(&(id, role)) {
            return Ok(Arc::clone(party));
        }
        let secret = self
            .keyring
            .load(id)
            .map_err(|error| WriteError::Key { who: who(), source: Arc::new(error) })?;
        let actor = Actor { agent_id: who(), key_id: key_id.to_owned(), role, unknown: Map::new() };
        let party = Arc::new(Party { actor, secret });
        loaded.insert((id, role), Arc::clone(&party));
        Ok(party)
    }

    /// Takes a key that is under a passphrase into use, for as long as this process lives.
    pub(crate) fn unlock(
        &self,
        identity: &AgentIdentity,
        role: Role,
        passphrase: &str,
    ) -> Result<(), WriteError> {
        let who = || identity.agent_id.clone();
        let id: KeyId = identity.key_id.parse().map_err(|_| WriteError::NoKey { who: who() })?;
        let secret = self
            .keyring
            .load_protected(id, passphrase)
            .map_err(|error| WriteError::Key { who: who(), source: Arc::new(error) })?;
        let key_id = identity.key_id.clone();
        let actor = Actor { agent_id: who(), key_id, role, unknown: Map::new() };
        lock(&self.loaded).insert((id, role), Arc::new(Party { actor, secret }));
        Ok(())
    }

    /// The public half of a recorder key of this workspace, unless it was retired: it may be in other
    /// hands since then, and what it signed is not built upon.
    pub(crate) fn recorder_public(&self, key_id: &str) -> Option<PublicKey> {
        let id: KeyId = key_id.parse().ok()?;
        if self.keyring.is_retired(id).ok()? {
            return None;
        }
        let mut recorders = lock(&self.recorders);
        if let Some(public) = recorders.get(&id) {
            return Some(*public);
        }
        let entry = self.keyring.entry(id).ok()?;
        if entry.purpose != Purpose::Recorder {
            return None;
        }
        recorders.insert(id, entry.public_key);
        Some(entry.public_key)
    }

    /// As [`Self::recorder_public`], if the log says that it is the one that is active.
    pub(crate) fn active_recorder_public(&self, log: &LogState, key_id: &str) -> Option<PublicKey> {
        let active = log.active_key(Role::Recorder)?;
        (active.key_id == key_id).then(|| self.recorder_public(key_id))?
    }

    /// The recorder's own key.
    pub(crate) fn recorder<T>(
        &self,
        log: &LogState,
        with: impl FnOnce(&SigningKey) -> T,
    ) -> Result<T, WriteError> {
        self.party(By::Role(Role::Recorder), log).map(|party| with(&party.secret))
    }
}
