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

use crate::replica::{self, Damage};
use crate::snapshot;
use crate::store::{Batch, Head, LedgerId, Ledgers as _};
use crate::workspace::{AGENTS, Agent, Workspace, WorkspaceError};
use crate::writer::WriteError;

/// How often holding all open traces is tried while others open more.
const HOLD_TRIES: u32 = 16;
const READ_BYTES: usize = 1 << 20;

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
    /// There is none.
    pub fn find_key(&self, name: &str) -> Result<AgentIdentity, WorkspaceError> {
        let keys = self.keys()?;
        keys.iter()
            .find(|key| key.key_id == name)
            .or_else(|| {
                keys.iter().find(|key| key.agent_id == name && key.status == KeyStatus::Active)
            })
            .cloned()
            .ok_or_else(|| {
                WriteError::Refused(Refusal::NoActiveKey { key_id: name.to_owned() }).into()
            })
    }

    /// Replaces a key by a new one of the same agent, and returns the new one's record.
    ///
    /// # Errors
    /// The key is not active or is the root, or something could not be recorded.
    pub fn rotate_key(&self, key_id: &str) -> Result<AgentIdentity, WorkspaceError> {
        let old = self.active(key_id)?;
        let agent = AGENTS.iter().find(|agent| agent.agent_id == old.agent_id);
        let Some(agent) = agent else {
            return Err(WriteError::NoKey { who: old.agent_id }.into());
        };
        // If we die after this, an unused key file lies in the keyring; it can sign nothing.
        let identity = self.new_key(&Agent { ..*agent })?;
        self.with_traces_held(|held| LogCommand::RotateKey {
            key_id: old.key_id.clone(),
            identity: Box::new(identity.clone()),
            held,
        })?;
        Ok(identity)
    }

    /// Ends a key.
    ///
    /// # Errors
    /// The key is not active or is the root, or something could not be recorded.
    pub fn revoke_key(&self, key_id: &str, reason: &str) -> Result<(), WorkspaceError> {
        let old = self.active(key_id)?;
        self.with_traces_held(|held| LogCommand::RevokeKey {
            key_id: old.key_id.clone(),
            reason: countersign_format::text::to_nfc(reason),
            held,
        })
    }

    fn active(&self, key_id: &str) -> Result<AgentIdentity, WorkspaceError> {
        let found = self.find_key(key_id)?;
        let refused = |refusal: Refusal| Err(WriteError::Refused(refusal).into());
        if found.key_id == self.log_state(|log| log.root_key_id.clone())? {
            return refused(Refusal::RootIsFixed { root: found.key_id });
        }
        if found.status != KeyStatus::Active {
            return refused(Refusal::NoActiveKey { key_id: found.key_id });
        }
        Ok(found)
    }

    fn with_traces_held(&self, command: impl Fn(Held) -> LogCommand) -> Result<(), WorkspaceError> {
        self.reconcile_all()?;
        let mut tries = 0;
        loop {
            tries += 1;
            let open: BTreeSet<Ulid> =
                self.log_state(|log| log.open.keys().filter_map(|id| id.parse().ok()).collect())?;
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
        let recorder = |key_id: &str| self.shared.signers.recorder_public(key_id);
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
                let event = replica::read(body).map_err(damage)?;
                chain.follows(&event).map_err(|gap| damage(gap.to_string()))?;
                chain.push(&event);
                head = Head::at(head.bytes + line.len() as u64);
            }
        }
        Ok(chain)
    }
}
