//! Making up for writers that died: what the log was not told, and what redaction left.

use std::collections::BTreeMap;

use countersign_format::event::{Event, EventType, TraceKind};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::Refusal;
use countersign_protocol::log::{Extent, LogCommand};
use countersign_protocol::recording::RecordingCommand;
use countersign_protocol::session::SessionCommand;
use serde_json::Value;

use crate::inspect::{LogEntry, each_event};
use crate::store::{Blobs as _, LedgerId, Ledgers as _};
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::WriteError;

/// Something that the log was told late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconciled {
    /// That a trace was opened.
    Opened(Ulid),
    /// That a trace was closed.
    Closed(Ulid),
    /// A trace that cannot be opened any more: keys changed before the log was told of it, and
    /// nobody was ever told that it exists.
    Stillborn(Ulid),
}

/// A record that the bytes of an artifact were removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactionRecord {
    /// The trace that has it.
    pub trace: Ulid,
    /// The event that says so.
    pub event_id: String,
    /// Who recorded it.
    pub agent_id: String,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

fn redacts(event: &Event, artifact: &Hash) -> bool {
    event.event_type == EventType::ArtifactRedacted
        && event.payload.get("artifact_hash").and_then(Value::as_str)
            == Some(artifact.to_hex().as_str())
}

/// What is known of a trace that the log may have to be told of.
struct Facts {
    first: Hash,
    keys_head: Hash,
    kind: TraceKind,
    ended: Option<TraceStatus>,
    extent: Extent,
}

/// Whether the log says that a trace was opened, and not only how long it is.
fn is_opened(entry: Option<&LogEntry>) -> bool {
    entry.is_some_and(|entry| entry.kind.is_some())
}

impl Workspace {
    /// Tells the log of every trace that it should know and does not.
    ///
    /// # Errors
    /// Something could not be read or recorded.
    pub fn reconcile_all(&self) -> Result<Vec<Reconciled>, WorkspaceError> {
        self.shared.log.settle()?;
        let entries = self.log_entries()?;
        let mut done = Vec::new();
        for id in self.trace_ids()? {
            let entry = entries.get(&id.to_string());
            if entry.is_none_or(|entry| !entry.closed) {
                done.extend(self.reconcile(id, is_opened(entry))?);
            }
        }
        Ok(done)
    }

    fn reconcile(&self, id: Ulid, opened: bool) -> Result<Vec<Reconciled>, WorkspaceError> {
        let mut done = Vec::new();
        // Nobody writes to it or tells the log of it meanwhile, and what is told is durable.
        let mut batch = self.store().begin(LedgerId::Trace(id))?;
        batch.sync()?;
        let Some(facts) = self.facts(id)? else { return Ok(done) };
        if opened && facts.ended.is_none() {
            return Ok(done);
        }
        // The log's state forgets closed traces, and would let this one be opened a second time if
        // its writer has come to its end since the log was read.
        let entries = self.log_entries()?;
        let entry = entries.get(&id.to_string());
        if entry.is_some_and(|entry| entry.closed) {
            return Ok(done);
        }
        if !is_opened(entry) {
            let open = LogCommand::OpenTrace {
                trace_id: id.to_string(),
                kind: facts.kind,
                first_event_hash: facts.first,
                keys_head: facts.keys_head,
            };
            match self.log(open) {
                Ok(_) => done.push(Reconciled::Opened(id)),
                Err(WriteError::Refused(Refusal::KeysChanged { .. })) => {
                    return Ok(vec![Reconciled::Stillborn(id)]);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(status) = facts.ended {
            match self.log(LogCommand::CloseTrace(facts.extent, status)) {
                Ok(_) => done.push(Reconciled::Closed(id)),
                // It was cut, which is for the verifier to report and must not keep a key alive.
                Err(WriteError::Refused(Refusal::NotLonger { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn facts(&self, id: Ulid) -> Result<Option<Facts>, WorkspaceError> {
        let mut facts: Option<Facts> = None;
        let mut tree = countersign_format::merkle::Frontier::new();
        let outcome = each_event(&self.trace_file(id), LedgerId::Trace(id), |event| {
            tree.push(&event.event_hash);
            let facts = facts.get_or_insert_with(|| {
                let keys_head = event.payload.pointer("/log/keys_head").and_then(Value::as_str);
                Facts {
                    first: event.event_hash,
                    keys_head: keys_head
                        .and_then(|hash| hash.parse().ok())
                        .unwrap_or(Hash::GENESIS),
                    kind: countersign_protocol::kind_of(&event).unwrap_or(TraceKind::Session),
                    ended: None,
                    extent: Extent {
                        trace_id: id.to_string(),
                        size: 0,
                        head: Hash::GENESIS,
                        merkle_root: Hash::GENESIS,
                        last_event_at: event.created_at,
                    },
                }
            });
            facts.ended = facts.ended.or_else(|| countersign_protocol::ending(facts.kind, &event));
            facts.extent.size += 1;
            facts.extent.head = event.event_hash;
            facts.extent.last_event_at = facts.extent.last_event_at.max(event.created_at);
        });
        let doing = "read a trace";
        match outcome.map_err(|source| WorkspaceError::Io { doing, source })? {
            Ok(_) => {
                if let Some(facts) = &mut facts {
                    facts.extent.merkle_root = tree.root();
                }
                Ok(facts)
            }
            // A damaged trace is for the verifier to report; the log is told nothing about it.
            Err(_) => Ok(None),
        }
    }

    /// Removes the bytes of an artifact, after every trace that refers to it says so. Returns the
    /// traces. Done again, it finishes what an interrupted run began.
    ///
    /// # Errors
    /// No trace refers to it, or something could not be recorded; then the bytes stay.
    pub fn redact(&self, artifact: Hash, reason: &str) -> Result<Vec<Ulid>, WorkspaceError> {
        let mut referring: BTreeMap<Ulid, bool> = BTreeMap::new();
        for id in self.trace_ids()? {
            let doing = "read a trace";
            each_event(&self.trace_file(id), LedgerId::Trace(id), |event| {
                let named = event.artifacts.iter().any(|it| it.artifact_hash == artifact);
                let redacted = redacts(&event, &artifact);
                if named || redacted {
                    *referring.entry(id).or_default() |= redacted;
                }
            })
            .map_err(|source| WorkspaceError::Io { doing, source })?
            .map_err(|bad| WriteError::GivenUp {
                reason: format!("trace {id} cannot be read at event {}: {}", bad.index, bad.what),
            })?;
        }
        if referring.is_empty() {
            return Err(crate::store::StoreError::Missing { hash: artifact }.into());
        }
        for (id, redacted) in &referring {
            if !redacted {
                self.record_redaction(*id, artifact, reason)?;
            }
        }
        // If we die here, the records stand and the bytes are still there; the next run removes them.
        self.store().remove(&artifact)?;
        Ok(referring.into_keys().collect())
    }

    /// What traces say of the redaction of an artifact, the oldest trace first. One that cannot be read is
    /// heard as far as it can.
    ///
    /// # Errors
    /// The traces cannot be listed, or one not be opened.
    pub fn redactions(&self, artifact: &Hash) -> Result<Vec<RedactionRecord>, WorkspaceError> {
        let mut found = Vec::new();
        for id in self.trace_ids()? {
            let doing = "read a trace";
            let heard = each_event(&self.trace_file(id), LedgerId::Trace(id), |event| {
                if !redacts(&event, artifact) {
                    return;
                }
                let reason = event.payload.get("reason").and_then(Value::as_str);
                let reason = reason.unwrap_or_default().to_owned();
                let (event_id, agent_id) = (event.event_id, event.actor.agent_id);
                let at = event.created_at;
                found.push(RedactionRecord { trace: id, event_id, agent_id, at, reason });
            });
            let _ = heard.map_err(|source| WorkspaceError::Io { doing, source })?;
        }
        Ok(found)
    }

    fn record_redaction(
        &self,
        id: Ulid,
        artifact_hash: Hash,
        reason: &str,
    ) -> Result<(), WorkspaceError> {
        let reason = countersign_format::text::to_nfc(reason);
        match self.kind_of(id)? {
            TraceKind::Session => {
                self.session(id)?.submit(SessionCommand::Redact { artifact_hash, reason })?;
            }
            _ => {
                self.recording(id)?.submit(RecordingCommand::Redact { artifact_hash, reason })?;
            }
        }
        Ok(())
    }
}
