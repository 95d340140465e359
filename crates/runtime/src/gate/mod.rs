//! The files of the gate: the policy in force, the model, and what is learned.
//!
//! Lie in `gate/` of the store. Without a policy file the built-in policy is in force; one that is
//! broken makes the gate ask about everything, and say why. A model is replaced as a whole, and
//! every model that ever was in force stays beside it under its hash.

mod history;
mod learn;
mod replay;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use countersign_format::event::ArtifactDescriptor;
use countersign_format::hash::Hash;
use countersign_gate::policy::POLICY_BYTES_MAX;
use countersign_gate::risk::MODEL_BYTES_MAX;
use countersign_gate::{Gate, Opinion, Policy, RiskModel};
use countersign_protocol::GateRecord;

use crate::disk::{Access, DiskFile, Durability, read_full, replace_file};
use crate::store::StoreError;
use crate::workspace::{Workspace, WorkspaceError};

pub use history::{COMMITS_MAX, HistoryError, HistoryReport};
pub use learn::{Effect, LeftOut, SelfReports, TraceReport};
pub use replay::{AskedIntent, Deviation, RecordedDecision, Replay, replay};

/// A gate, and the bytes that it was made of.
#[derive(Debug, Clone)]
pub struct LoadedGate {
    /// The gate. What is wrong with its files is part of every verdict.
    pub gate: Gate,
    /// The policy as it stands in its file.
    pub policy_bytes: Vec<u8>,
    /// The model as it stands in its file.
    pub model_bytes: Option<Vec<u8>>,
    /// Where the policy comes from; nowhere if it is the built-in one.
    pub policy_file: Option<PathBuf>,
    files: Vec<(PathBuf, Option<Stamp>)>,
}

/// By what a file is told from an earlier one of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    changed: Option<SystemTime>,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let data = fs::symlink_metadata(path).ok()?;
        Some(Self { bytes: data.len(), changed: data.modified().ok() })
    }
}

impl LoadedGate {
    /// Whether one of its files has changed, come or gone since it was loaded.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.files.iter().any(|(path, stamp)| Stamp::of(path) != *stamp)
    }
}

/// A gate whose policy and model lie in the store.
#[derive(Debug)]
pub(crate) struct StoredGate {
    pub(crate) loaded: Arc<LoadedGate>,
    pub(crate) policy: ArtifactDescriptor,
    pub(crate) model: Option<ArtifactDescriptor>,
}

impl StoredGate {
    /// What a review says of this gate's opinion of a stored request.
    pub(crate) fn record(&self, opinion: &Opinion, request: Hash, enforced: bool) -> GateRecord {
        GateRecord {
            decision: opinion.verdict.decision().to_string(),
            enforced,
            request,
            policy: self.policy.artifact_hash,
            model: self.model.as_ref().map(|model| model.artifact_hash),
            score: opinion.score().map(rounded),
            cell: Some(opinion.cell.index()),
            reasons: Vec::new(),
        }
    }

    /// What it decides by.
    pub(crate) fn basis(&self) -> impl Iterator<Item = &ArtifactDescriptor> {
        std::iter::once(&self.policy).chain(&self.model)
    }
}

/// A score as receipts carry it: six digits are more than it means.
fn rounded(score: f64) -> f64 {
    (score * 1e6).round() / 1e6
}

impl Workspace {
    /// Where the policy stands, if it is not the built-in one.
    #[must_use]
    pub fn policy_file(&self) -> PathBuf {
        self.gate_dir().join("policy.cedar")
    }

    /// Where the model stands, if there is one.
    #[must_use]
    pub fn model_file(&self) -> PathBuf {
        self.gate_dir().join("model.json")
    }

    /// The directory in which the policy lies.
    #[must_use]
    pub fn gate_dir(&self) -> PathBuf {
        self.home().join("gate")
    }

    /// The gate as its files are now.
    ///
    /// # Errors
    /// A file is there and cannot be read. One that can be read and makes no sense is no error: the
    /// gate then asks about everything.
    pub fn gate(&self) -> Result<LoadedGate, WorkspaceError> {
        let (policy_file, model_file) = (self.policy_file(), self.model_file());
        // Looked at before they are read: a change in between makes it stale at once.
        let files = [&policy_file, &model_file].map(|path| (path.clone(), Stamp::of(path)));
        let policy = self.read_gate_file(&policy_file, POLICY_BYTES_MAX)?;
        let model_bytes = self.read_gate_file(&model_file, MODEL_BYTES_MAX)?;
        let policy_file = policy.is_some().then_some(policy_file);
        let policy_bytes = policy.unwrap_or_else(|| Policy::built_in().as_bytes().to_vec());
        Ok(LoadedGate {
            gate: Gate::from_bytes(&policy_bytes, model_bytes.as_deref()),
            policy_bytes,
            model_bytes,
            policy_file,
            files: files.to_vec(),
        })
    }

    /// Keeps what a gate is made of, so that it can decide again.
    pub(crate) fn store_gate(&self, loaded: LoadedGate) -> Result<StoredGate, WorkspaceError> {
        let policy = self.put_artifact(&loaded.policy_bytes, "text/plain")?;
        let model = match &loaded.model_bytes {
            Some(bytes) => Some(self.put_artifact(bytes, "application/json")?),
            None => None,
        };
        Ok(StoredGate { loaded: Arc::new(loaded), policy, model })
    }

    /// The bytes of a file of the gate, if it is there; of one that is too long as many as show it.
    fn read_gate_file(&self, path: &Path, max: usize) -> Result<Option<Vec<u8>>, WorkspaceError> {
        let file = match self.store().disk().open(path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(StoreError::from(error).into()),
        };
        let length = file.stat().map_err(StoreError::from)?.len;
        let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(max.saturating_add(1));
        let mut bytes = vec![0; wanted];
        let read = read_full(&*file, 0, &mut bytes).map_err(StoreError::from)?;
        bytes.truncate(read);
        Ok(Some(bytes))
    }

    /// Changes the model, alone: others that learn at the same time wait. When it returns, the model
    /// survives power loss.
    fn change_model<T, E: From<WorkspaceError>>(
        &self,
        effect: Effect,
        change: impl FnOnce(&mut RiskModel) -> Result<T, E>,
    ) -> Result<T, E> {
        let _turn = match effect {
            Effect::Save => Some(self.model_turn()?),
            Effect::DryRun => None,
        };
        let before = self.read_gate_file(&self.model_file(), MODEL_BYTES_MAX)?;
        let model = before.as_deref().map(RiskModel::from_bytes).transpose();
        let mut model = model
            .map_err(|fault| WorkspaceError::Io {
                doing: "read the risk model",
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, fault),
            })?
            .unwrap_or_default();
        let answer = change(&mut model)?;
        let bytes = model.to_bytes();
        let untouched = before.is_none() && model == RiskModel::default();
        if effect == Effect::Save && before.as_deref() != Some(&*bytes) && !untouched {
            self.save_model(&bytes)?;
        }
        Ok(answer)
    }

    fn model_turn(&self) -> Result<Box<dyn DiskFile>, WorkspaceError> {
        let dir = self.gate_dir();
        self.store().ensure_dir(&dir)?;
        let lock = self.store().disk().open(&dir.join("lock"), Access::Create);
        let lock = lock.map_err(StoreError::from)?;
        lock.lock_exclusive().map_err(StoreError::from)?;
        Ok(lock)
    }

    fn save_model(&self, bytes: &[u8]) -> Result<(), WorkspaceError> {
        let snapshots = self.gate_dir().join("models");
        self.store().ensure_dir(&snapshots)?;
        let disk = &**self.store().disk();
        let snapshot = snapshots.join(format!("{}.json", Hash::of(bytes)));
        replace_file(disk, &snapshot, bytes, Durability::Synced).map_err(StoreError::from)?;
        // If we die here, there is a snapshot that no decision names; the old model is in force.
        replace_file(disk, &self.model_file(), bytes, Durability::Synced)
            .map_err(StoreError::from)?;
        Ok(())
    }
}
