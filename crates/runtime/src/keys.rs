//! Changing keys: every open trace is held and checkpointed first.
//!
//! A retired key's events count only below the size that the log had for their trace at that
//! moment. So what it signed before must be in the log, and nothing may be signed with it while the
//! change is recorded.

use std::collections::BTreeSet;

use countersign_format::id::Ulid;
use countersign_format::key::{AgentIdentity, KeyStatus};
use countersign_format::time::Timestamp;
use countersign_protocol::Refusal;
use countersign_protocol::chain::Chain;
use countersign_protocol::log::{Extent, Held, LogCommand};

use crate::keyring::{KeyringError, Protection};
use crate::replica::{self, Damage};
use crate::snapshot;
use crate::store::{Batch, Head, LedgerId, Ledgers as _};
use crate::workspace::{AGENTS, KeyHolder, Workspace, WorkspaceError};
use crate::writer::WriteError;

/// How often holding all open traces is tried while others open more.
const HOLD_TRIES: u32 = 16;
const READ_BYTES: usize = 1 << 20;

fn built_in(agent_id: &str) -> Option<&'static KeyHolder> {
    AGENTS.iter().find(|agent| agent.agent_id == agent_id)
}

fn agent_of(key: &AgentIdentity) -> Result<&'static KeyHolder, WriteError> {
    built_in(&key.agent_id).ok_or_else(|| WriteError::NoKey { who: key.agent_id.clone() })
}

impl Workspace {
    /// All keys that the log names, the root first, then by agent.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn keys(&self) -> Result<Vec<AgentIdentity>, WorkspaceError> {
        self.log_state(|log| {
            let mut keys: Vec<AgentIdentity> =
                log.keys.values().map(|key| key.identity.clone()).collect();
            let root = &log.root_key_id;
            keys.sort_by(|a, b| {
                let place = |key: &AgentIdentity| {
                    (key.key_id != *root, key.agent_id.clone(), key.created_at)
                };
                place(a).cmp(&place(b))
            });
            keys
        })
    }

    /// The active key of an agent, or the key of this id.
    ///
    /// # Errors
    /// The agent has no active key, which is a refusal; or there is neither such an agent nor such
    /// a key.
    pub fn find_key(&self, name: &str) -> Result<AgentIdentity, WorkspaceError> {
        let keys = self.keys()?;
        let of_agent = || keys.iter().filter(|key| key.agent_id == name);
        let found = keys
            .iter()
            .find(|key| key.key_id == name)
            .or_else(|| of_agent().find(|key| key.status == KeyStatus::Active));
        match found {
            Some(key) => Ok(key.clone()),
            None if of_agent().next().is_some() || built_in(name).is_some() => {
                Err(WriteError::Refused(Refusal::NoActiveKey { key_id: name.to_owned() }).into())
            }
            None => Err(WriteError::NoKey { who: name.to_owned() }.into()),
        }
    }

    /// As [`Self::find_key`], for somebody who is about to replace or end the key.
    ///
    /// # Errors
    /// There is none, it is not active, or it is the root.
    pub fn find_changeable_key(&self, name: &str) -> Result<AgentIdentity, WorkspaceError> {
        let found = self.find_key(name)?;
        let refused = |refusal: Refusal| Err(WriteError::Refused(refusal).into());
        if found.key_id == self.log_state(|log| log.root_key_id.clone())? {
            return refused(Refusal::RootIsFixed { root: found.key_id });
        }
        if found.status != KeyStatus::Active {
            return refused(Refusal::NoActiveKey { key_id: found.key_id });
        }
        Ok(found)
    }

    /// The agents of the workspace that can sign nothing, because no key of theirs is active.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn keyless_agents(&self) -> Result<Vec<&'static str>, WorkspaceError> {
        self.log_state(|log| {
            let keyless = AGENTS.iter().filter(|agent| log.active_key(agent.role).is_none());
            keyless.map(|agent| agent.agent_id).collect()
        })
    }

    /// Gives a new key to an agent that has no active one, and returns its record.
    ///
    /// # Errors
    /// The agent has an active key or is none of the workspace's, or something could not be
    /// recorded.
    pub fn add_key(&self, agent_id: &str) -> Result<AgentIdentity, WorkspaceError> {
        let agent =
            built_in(agent_id).ok_or_else(|| WriteError::NoKey { who: agent_id.to_owned() })?;
        let active = self.log_state(|log| log.active_key(agent.role).cloned())?;
        if let Some(AgentIdentity { key_id, .. }) = active {
            return Err(WriteError::Refused(Refusal::KeyKnown { key_id }).into());
        }
        // If we die after this, an unused key file lies in the keyring; it can sign nothing.
        let identity = self.new_key(agent)?;
        self.log(LogCommand::AddKey(Box::new(identity.clone())))?;
        Ok(identity)
    }

    /// Replaces a key by a new one of the same agent, and returns the new one's record.
    ///
    /// # Errors
    /// The key is not active or is the root, it is protected by a passphrase, or something could
    /// not be recorded.
    pub fn rotate_key(&self, key_id: &str) -> Result<AgentIdentity, WorkspaceError> {
        let old = self.find_changeable_key(key_id)?;
        match old.key_id.parse().map(|id| (id, self.keyring().entry(id))) {
            Ok((key_id, Ok(entry))) if entry.protection == Protection::Passphrase => {
                return Err(KeyringError::Protected { key_id }.into());
            }
            // It may well be protected, and a wrong mode must not be a way to get rid of that.
            Ok((_, Err(error @ KeyringError::File(_)))) => return Err(error.into()),
            // A private half that is lost or damaged is a reason to rotate.
            _ => {}
        }
        let new = self.new_key(agent_of(&old)?)?;
        self.replace_key(&old, new)
    }

    /// As [`Self::rotate_key`], for a key that is protected by `passphrase`; so is the new one.
    ///
    /// # Errors
    /// As there, or the passphrase is wrong, or the key has none. Then nothing has changed.
    pub fn rotate_protected_key(
        &self,
        key_id: &str,
        passphrase: &str,
    ) -> Result<AgentIdentity, WorkspaceError> {
        let old = self.find_changeable_key(key_id)?;
        let no_key = |_| WriteError::NoKey { who: old.agent_id.clone() };
        self.keyring().load_protected(old.key_id.parse().map_err(no_key)?, passphrase)?;
        let new = self.new_key(agent_of(&old)?)?;
        let entropy = &self.shared.environment.entropy;
        let new_id = new.key_id.parse().map_err(no_key)?;
        self.keyring().protect(new_id, passphrase, &mut |bytes| entropy.fill(bytes))?;
        self.replace_key(&old, new)
    }

    /// If we die before this is done, the new key lies unused in the keyring; it can sign nothing.
    fn replace_key(
        &self,
        old: &AgentIdentity,
        new: AgentIdentity,
    ) -> Result<AgentIdentity, WorkspaceError> {
        self.with_traces_held(|held| LogCommand::RotateKey {
            key_id: old.key_id.clone(),
            identity: Box::new(new.clone()),
            held,
        })?;
        self.retire(old)?;
        Ok(new)
    }

    /// Ends a key.
    ///
    /// # Errors
    /// The key is not active or is the root, or something could not be recorded.
    pub fn revoke_key(&self, key_id: &str, reason: &str) -> Result<(), WorkspaceError> {
        let old = self.find_changeable_key(key_id)?;
        self.with_traces_held(|held| LogCommand::RevokeKey {
            key_id: old.key_id.clone(),
            reason: countersign_format::text::to_nfc(reason),
            held,
        })?;
        self.retire(&old)
    }

    /// Has nothing built upon what a key signed that has just ended.
    fn retire(&self, old: &AgentIdentity) -> Result<(), WorkspaceError> {
        let key_id = old.key_id.parse();
        let key_id = key_id.map_err(|_| WriteError::NoKey { who: old.agent_id.clone() })?;
        Ok(self.keyring().retire(key_id)?)
    }

    fn with_traces_held(&self, command: impl Fn(Held) -> LogCommand) -> Result<(), WorkspaceError> {
        self.reconcile_all()?;
        let mut tries = 0;
        loop {
            tries += 1;
            let open: BTreeSet<Ulid> =
                self.open_traces()?.keys().filter_map(|id| id.parse().ok()).collect();
            // In the order of their ids, as everybody who holds several does.
            let mut batches = Vec::with_capacity(open.len());
            let mut last = Timestamp::EPOCH;
            for id in &open {
                // A trace that was taken away cannot be written to, and must not come back empty.
                if self.store().head(LedgerId::Trace(*id))? == Head::EMPTY {
                    continue;
                }
                let mut batch = self.store().begin(LedgerId::Trace(*id))?;
                last = last.max(self.checkpoint_held(*id, &mut *batch)?);
                batches.push(batch);
            }
            let trace_ids = open.iter().map(Ulid::to_string).collect();
            match self.log(command(Held { trace_ids, after: last.plus_millis(1) })) {
                Err(WriteError::Refused(Refusal::TraceNotHeld { .. })) if tries < HOLD_TRIES => {}
                outcome => return outcome.map(|_| ()).map_err(WorkspaceError::from),
            }
        }
    }

    /// Tells the log all of a trace that is held; gives the time of its last event.
    fn checkpoint_held(
        &self,
        id: Ulid,
        batch: &mut dyn Batch,
    ) -> Result<Timestamp, WorkspaceError> {
        // Lines of a writer that died before its sync count as well, once they are durable.
        batch.sync()?;
        let chain = match self.chain_of(LedgerId::Trace(id), batch) {
            Ok(chain) => chain,
            // Whoever damages a trace must not be able to keep a key alive by it. What the log knows
            // of the trace stands; the rest is for the verifier to report.
            Err(WorkspaceError::Write(WriteError::Damaged(_))) => return Ok(Timestamp::EPOCH),
            Err(error) => return Err(error),
        };
        let extent = Extent {
            trace_id: id.to_string(),
            size: chain.events,
            head: chain.head,
            merkle_root: chain.tree.root(),
            last_event_at: chain.last_at,
        };
        match self.log(LogCommand::CheckpointTrace(extent)) {
            Ok(_) | Err(WriteError::Refused(Refusal::NotLonger { .. })) => Ok(chain.last_at),
            Err(error) => Err(error.into()),
        }
    }

    fn chain_of(&self, ledger: LedgerId, batch: &dyn Batch) -> Result<Chain, WorkspaceError> {
        let recorder = |key_id: &str| {
            self.log_state(|log| self.shared.signers.active_recorder_public(log, key_id)).ok()?
        };
        let (mut chain, mut head) = (Chain::default(), Head::EMPTY);
        if let Some((known, at, last_line)) = snapshot::load_chain(self.store(), ledger, recorder)
            && replica::ends_at(batch, last_line, at, known.head)?
        {
            (chain, head) = (known, at);
        }
        while head < batch.head() {
            let lines = batch.read(head, READ_BYTES)?;
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                let body = line.strip_suffix(b"\n").unwrap_or(line);
                let index = chain.events;
                let damage = |what: String| {
                    WriteError::Damaged(std::sync::Arc::new(Damage { ledger, index, what }))
                };
                let event = replica::read(body)
                    .and_then(|event| replica::belongs(ledger, &event).map(|()| event))
                    .map_err(damage)?;
                chain.follows(&event).map_err(|gap| damage(gap.to_string()))?;
                chain.push(&event);
                head = Head::at(head.bytes + line.len() as u64);
            }
        }
        Ok(chain)
    }
}
