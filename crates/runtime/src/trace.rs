//! One trace being written, and what the log is told of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use countersign_format::event::{
    ArtifactDescriptor, RedactionStatus, TraceKind, artifact::storage_uri,
};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::VerificationReport;
use countersign_format::role::Role;
use countersign_format::time::Timestamp;
use countersign_protocol::chain::Chain;
use countersign_protocol::log::{Extent, LogCommand, LogState};
use countersign_protocol::{By, LogPin, Refusal, State};
use countersign_verify::{FileSource, Options, Profile, Source};
use serde_json::Map;

use crate::inspect::log_entries;
use crate::log::LogWriter;
use crate::replica::Replica;
use crate::signers::Signers;
use crate::snapshot;
use crate::store::{Blobs as _, FileStore, Head, LedgerId, StoreError};
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{Commit, Envoy, Host, Party, Recorded, WriteError, Writer, lock};

/// A trace is checkpointed in the log every so many events.
const CHECKPOINT_EVERY: u64 = 1_024;
/// Events after which a new snapshot is worth its while, when a writer is done.
const SNAPSHOT_BEHIND: u64 = 32;
/// How often opening a trace is tried while keys change.
const OPEN_TRIES: u32 = 8;

/// Who signs, under which state of the keys.
#[derive(Debug, Default)]
struct Parties {
    keys_head: Option<Hash>,
    floor: Option<Timestamp>,
    /// How far the log has this trace, if it has it as open; as of this batch.
    told: Option<u64>,
    by_role: BTreeMap<Role, Arc<Party>>,
}

#[derive(Debug)]
pub(crate) struct TraceHost {
    ledger: LedgerId,
    trace_id: String,
    kind: TraceKind,
    store: FileStore,
    signers: Arc<Signers>,
    log: Arc<LogWriter>,
    parties: Mutex<Parties>,
    snapshot_at: AtomicU64,
}

impl TraceHost {
    fn new(workspace: &Workspace, id: Ulid, kind: TraceKind) -> Self {
        let shared = &workspace.shared;
        Self {
            ledger: LedgerId::Trace(id),
            trace_id: id.to_string(),
            kind,
            store: shared.store.clone(),
            signers: Arc::clone(&shared.signers),
            log: Arc::clone(&shared.log),
            parties: Mutex::default(),
            snapshot_at: AtomicU64::new(0),
        }
    }

    fn extent(&self, chain: &Chain) -> Extent {
        Extent {
            trace_id: self.trace_id.clone(),
            size: chain.events,
            head: chain.head,
            merkle_root: chain.tree.root(),
            last_event_at: chain.last_at,
        }
    }

    fn keep_snapshot<S: State>(&self, replica: &Replica<S>, behind: u64) -> Result<(), WriteError> {
        let last = self.snapshot_at.load(Ordering::Relaxed);
        if replica.chain.events < last.saturating_add(behind) {
            return Ok(());
        }
        self.snapshot_at.store(replica.chain.events, Ordering::Relaxed);
        let party = self.party_of(By::Role(Role::Recorder))?;
        snapshot::store(&self.store, self.ledger, replica, &party.secret);
        Ok(())
    }

    fn party_of(&self, by: By) -> Result<Arc<Party>, WriteError> {
        let By::Role(role) = by else {
            return Err(WriteError::NoKey { who: "root".to_owned() });
        };
        if let Some(party) = lock(&self.parties).by_role.get(&role) {
            return Ok(Arc::clone(party));
        }
        let (party, keys_head) = self.log.look(|log| {
            let party = self.signers.party(by, &log.state)?;
            Ok::<_, WriteError>((party, log.state.keys_head))
        })??;
        let mut parties = lock(&self.parties);
        // Otherwise the keys have changed since.
        if parties.keys_head == keys_head {
            parties.by_role.insert(role, Arc::clone(&party));
        }
        Ok(party)
    }

    /// How far the log has this trace, if it has it as open.
    fn told(&self, log: &LogState) -> Result<Option<u64>, WriteError> {
        let open = log.open.find(&self.trace_id).map_err(Refusal::from)?;
        Ok(open.map(|open| open.size))
    }

    /// Tells the log what it does not know of this trace yet. Asks the log rather than its own
    /// memory, so a writer also makes up for one that died in between.
    fn tell_log<S: State>(&self, commit: &Commit<'_, S>) -> Result<(), WriteError> {
        let chain = &commit.replica.chain;
        let ended = commit.replica.state.ended();
        let block = |size: u64| size / CHECKPOINT_EVERY;
        // Nobody else tells the log of this trace while its lock is held, so what was seen when the
        // batch began still holds.
        let told = lock(&self.parties).told;
        if ended.is_none() && told.is_some_and(|told| block(told) == block(chain.events)) {
            return Ok(());
        }
        let (told, keys_head) =
            self.log.look(|log| (self.told(&log.state), log.state.keys_head))?;
        let told = told?;
        let known = told.is_some();
        let opening = !known && commit.ended_before.is_none();
        if opening {
            let keys_head = match commit.before {
                0 => lock(&self.parties).keys_head.or(keys_head),
                _ => keys_head,
            };
            self.log.submit(LogCommand::OpenTrace {
                trace_id: self.trace_id.clone(),
                kind: self.kind,
                first_event_hash: commit.replica.first.unwrap_or(Hash::GENESIS),
                keys_head: keys_head.unwrap_or(Hash::GENESIS),
            })?;
        }
        let command = match ended {
            Some(status) if known || opening => LogCommand::CloseTrace(self.extent(chain), status),
            // It was closed before; a redaction or another audit made it longer.
            Some(_) => LogCommand::CheckpointTrace(self.extent(chain)),
            None if block(told.unwrap_or(1)) == block(chain.events) => return Ok(()),
            None => LogCommand::CheckpointTrace(self.extent(chain)),
        };
        match self.log.submit(command) {
            // Another writer of this trace was faster.
            Err(WriteError::Refused(Refusal::NotLonger { .. })) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl<S: State> Host<S> for TraceHost {
    fn refresh(&self) -> Result<(), WriteError> {
        self.log.look(|log| {
            let told = self.told(&log.state)?;
            let mut parties = lock(&self.parties);
            if parties.keys_head != log.state.keys_head {
                parties.keys_head = log.state.keys_head;
                parties.floor = Some(log.state.floor());
                parties.by_role.clear();
            }
            parties.told = told;
            Ok(())
        })?
    }

    fn floor(&self, _state: &S) -> Timestamp {
        lock(&self.parties).floor.unwrap_or(Timestamp::EPOCH)
    }

    fn party(&self, by: By, _state: &S) -> Result<Arc<Party>, WriteError> {
        self.party_of(by)
    }

    fn fresh(&self) -> Replica<S> {
        let recorder = |key_id: &str| {
            self.log.look(|log| self.signers.active_recorder_public(&log.state, key_id)).ok()?
        };
        let found: Option<Replica<S>> = snapshot::load(&self.store, self.ledger, recorder);
        let events = found.as_ref().map_or(0, |replica| replica.chain.events);
        self.snapshot_at.store(events, Ordering::Relaxed);
        found.unwrap_or_default()
    }

    fn acknowledged(&self) -> Result<u64, WriteError> {
        let log = self.store.ledger_dir(LedgerId::Log).join("events.jsonl");
        let (entries, _) = log_entries(&log).map_err(|error| WriteError::Store {
            ledger: LedgerId::Log,
            source: Arc::new(StoreError::Backend(error.into())),
        })?;
        Ok(entries.get(&self.trace_id).map_or(0, |entry| entry.size))
    }

    fn least(&self, events: u64) -> Result<u64, WriteError> {
        match lock(&self.parties).told {
            Some(told) => return Ok(told),
            // Nobody was told of what has not begun.
            None if events == 0 => return Ok(0),
            None => {}
        }
        // It has ended, or the log was not told of it, or somebody cut off how it ended: the log's own
        // state has traces that are open and no others.
        <Self as Host<S>>::acknowledged(self)
    }

    /// Nothing is lost if a trace is looked at that somebody cut.
    fn least_before(&self) -> Result<u64, WriteError> {
        Ok(0)
    }

    /// The log is told every so many events: a few more or less have come then.
    fn answers_early(&self) -> bool {
        true
    }

    fn committed(&self, commit: &Commit<'_, S>) -> Result<(), WriteError> {
        // What a session knows grows with it: kept ever more rarely, it costs each event the same.
        let grown = match self.kind {
            TraceKind::Session => self.snapshot_at.load(Ordering::Relaxed) / 2,
            _ => 0,
        };
        self.keep_snapshot(commit.replica, CHECKPOINT_EVERY.max(grown))?;
        let told = self.tell_log(commit);
        if commit.ended_before.is_none() && commit.replica.state.ended().is_some() {
            // What has ended is looked at by others, who may know nothing of artifacts that are new.
            // Where that fails they are no less durable. Under this lock, no more than some thousands.
            let _ = self.store.settle_some_places();
        }
        told
    }
}

/// A trace that can be written to, by many threads and processes at once.
#[derive(Debug)]
pub(crate) struct TraceWriter<S: State> {
    workspace: Workspace,
    id: Ulid,
    host: Arc<TraceHost>,
    writer: Writer<S>,
}

impl<S: State> TraceWriter<S> {
    /// Begins a trace. When it returns, its first event and its entry in the log survive power loss.
    pub(crate) fn begin(
        workspace: &Workspace,
        kind: TraceKind,
        mut open: impl FnMut(LogPin) -> S::Command,
    ) -> Result<(Self, Recorded), WorkspaceError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let trace = Self::at(workspace, workspace.new_id()?, kind);
            let mut recorded = trace.submit(open(workspace.log_pin()?))?;
            match recorded.log_lag.take() {
                None => return Ok((trace, recorded)),
                // Keys changed in between: this trace has no acknowledged event; take another.
                Some(WriteError::Refused(Refusal::KeysChanged { .. })) if tries < OPEN_TRIES => {}
                Some(error) => return Err(error.into()),
            }
        }
    }

    /// The trace of this id, which may not be there.
    pub(crate) fn at(workspace: &Workspace, id: Ulid, kind: TraceKind) -> Self {
        let host = Arc::new(TraceHost::new(workspace, id, kind));
        let shared = &workspace.shared;
        let writer = Writer::new(
            LedgerId::Trace(id),
            shared.store.clone(),
            Arc::clone(&shared.environment.clock),
            Arc::clone(&shared.environment.entropy),
            Arc::clone(&host) as Arc<dyn Host<S>>,
        );
        Self { workspace: workspace.clone(), id, host, writer }
    }

    /// A trace that was begun before.
    pub(crate) fn existing(
        workspace: &Workspace,
        id: Ulid,
        kind: TraceKind,
        begun: impl FnOnce(&S) -> bool,
    ) -> Result<Self, WorkspaceError> {
        let trace = Self::at(workspace, id, kind);
        if trace.look(begun)? {
            Ok(trace)
        } else {
            let home = workspace.store().ledger_dir(LedgerId::Trace(id));
            Err(WorkspaceError::Missing { home })
        }
    }

    pub(crate) const fn id(&self) -> Ulid {
        self.id
    }

    pub(crate) const fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Records what `command` brings. When it returns, the events survive power loss.
    pub(crate) fn submit(&self, command: S::Command) -> Result<Recorded, WriteError> {
        self.writer.submit(command)
    }

    /// Somebody who records for many callers.
    pub(crate) fn envoy(&self) -> Envoy<'_, S> {
        Envoy::new(&self.writer)
    }

    /// Does `work` with threads at hand that do what is done for all callers.
    pub(crate) fn with_crew<T>(&self, work: impl FnOnce() -> T) -> T {
        self.writer.with_crew(work)
    }

    /// What the trace comes to now.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&S) -> T) -> Result<T, WriteError> {
        self.writer.look(|replica| at(&replica.state))
    }

    /// How many events it has.
    pub(crate) fn size(&self) -> Result<u64, WriteError> {
        self.writer.look(|replica| replica.chain.events)
    }

    /// Verifies what is recorded so far, as this workspace sees it.
    pub(crate) fn audit(&self, profile: Profile) -> Result<VerificationReport, WorkspaceError> {
        self.verified(profile, countersign_verify::verify)
    }

    pub(crate) fn verified(
        &self,
        profile: Profile,
        verify: impl FnOnce(&dyn Source, &Options) -> std::io::Result<VerificationReport>,
    ) -> Result<VerificationReport, WorkspaceError> {
        let events = self.workspace.trace_file(self.id);
        let source = FileSource::in_home(self.workspace.home(), events);
        let options = Options {
            trusted_roots: [self.workspace.root()].into(),
            keys: Vec::new(),
            // Whoever records here signs everything: what is not signed is somebody else's.
            profile: Profile { every_event_signed: true, ..profile },
            expect_trace: Some(self.id.to_string()),
            expect_head: None,
            expect_count: None,
            report_id: self.workspace.new_id()?.to_string(),
            now: self.workspace.now(),
        };
        verify(&source, &options)
            .map_err(|source| WorkspaceError::Io { doing: "audit the trace", source })
    }
}

impl<S: State> Drop for TraceWriter<S> {
    fn drop(&mut self) {
        // What the next process would have to replay is kept short; failing to is no loss.
        self.writer.recall(|replica| {
            if replica.head > Head::EMPTY {
                let _ = self.host.keep_snapshot(replica, SNAPSHOT_BEHIND);
            }
        });
    }
}

impl Workspace {
    /// Stores bytes and describes them, for the next command to refer to.
    ///
    /// # Errors
    /// They could not be stored.
    pub fn put_artifact(
        &self,
        bytes: &[u8],
        media_type: &str,
    ) -> Result<ArtifactDescriptor, WorkspaceError> {
        let hash = self.store().put(bytes)?;
        Ok(self.descriptor(hash, bytes, media_type))
    }

    /// The same for several at once, which takes less time than one after the other.
    ///
    /// # Errors
    /// They could not all be stored.
    pub fn put_artifacts<const N: usize>(
        &self,
        all: [(&[u8], &str); N],
    ) -> Result<[ArtifactDescriptor; N], WorkspaceError> {
        let mut hashes = self.store().put_all(&all.map(|(bytes, _)| bytes))?.into_iter();
        // The store gives as many as it was given.
        Ok(all.map(|(bytes, media_type)| {
            let hash = hashes.next().unwrap_or_else(|| Hash::of(bytes));
            self.descriptor(hash, bytes, media_type)
        }))
    }

    fn descriptor(&self, hash: Hash, bytes: &[u8], media_type: &str) -> ArtifactDescriptor {
        ArtifactDescriptor {
            artifact_hash: hash,
            hash_algorithm: "sha256".to_owned(),
            media_type: media_type.to_owned(),
            encoding: if std::str::from_utf8(bytes).is_ok() { "utf-8" } else { "binary" }
                .to_owned(),
            byte_size: bytes.len() as u64,
            created_at: self.now(),
            producer_event_id: String::new(),
            storage_uri: storage_uri(&hash),
            redaction_status: RedactionStatus::None,
            unknown: Map::new(),
        }
    }

    /// Where the log stands now. A trace names it in its first event, so it must not be taken back.
    pub(crate) fn log_pin(&self) -> Result<LogPin, WorkspaceError> {
        Ok(self.shared.log.look_durable(|replica| LogPin {
            origin: replica.state.origin.clone(),
            size: replica.chain.events,
            head: replica.chain.head,
            keys_head: replica.state.keys_head.unwrap_or(Hash::GENESIS),
        })?)
    }

    /// The file that holds a trace.
    #[must_use]
    pub fn trace_file(&self, id: Ulid) -> std::path::PathBuf {
        self.store().ledger_dir(LedgerId::Trace(id)).join("events.jsonl")
    }
}
