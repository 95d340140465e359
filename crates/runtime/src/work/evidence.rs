//! The evidence of a phase: a file where people look for it, and its bytes in the store.
//!
//! An agent that names a bundle of its own brings it along; otherwise one is written that says which
//! session did the phase and what it left. The file is for people, the stored bytes are the evidence.

use std::path::Path;

use countersign_format::event::{ArtifactDescriptor, SCHEMA_VERSION};
use countersign_format::exit::{ExitSignal, WorkPhase};
use countersign_protocol::work::{Lease, WorkState};

use crate::secrets::Redactor;
use crate::tools::read_beneath;
use crate::workspace::{Workspace, WorkspaceError};

/// Bytes of a bundle that an agent names.
const BUNDLE_BYTES_MAX: u64 = 4 << 20;

/// Where evidence lies, below the workspace root.
const DIRECTORY: &str = "evidence/";

/// A bundle in the store.
#[derive(Debug)]
pub(super) struct StoredEvidence {
    pub(super) stored: ArtifactDescriptor,
    /// Where it lies for people.
    pub(super) place: Option<String>,
    /// What is still to be written there.
    pub(super) file: Option<(String, Vec<u8>)>,
}

/// What a bundle is about.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) item: &'a str,
    pub(super) phase: &'a HeldPhase<'a>,
    pub(super) signal: &'a ExitSignal,
    pub(super) commit: Option<&'a str>,
}

/// A phase, before it is left.
#[derive(Debug)]
pub(super) struct HeldPhase<'a> {
    pub(super) state: &'a WorkState,
    pub(super) lease: &'a Lease,
    /// What the session left, by name.
    pub(super) left: &'a [(&'static str, ArtifactDescriptor)],
}

impl Evidence<'_> {
    /// Stores the bundle and says where it lies for people.
    pub(super) fn store(
        &self,
        workspace: &Workspace,
        root: &Path,
        redactor: &Redactor,
    ) -> Result<Option<StoredEvidence>, WorkspaceError> {
        let bytes_of = |path: &str| read_beneath(root, path, BUNDLE_BYTES_MAX).ok();
        let place = self.place();
        let named = self.signal.evidence_bundle_ref.as_deref();
        if let Some(named) = named.filter(|named| *named != place) {
            // Only evidence is taken along, not whatever else an agent names. What is not there is
            // not made up; its reference stands alone.
            let Some(bytes) = Some(named).filter(|it| it.starts_with(DIRECTORY)).and_then(bytes_of)
            else {
                return Ok(None);
            };
            let bytes = redactor.redact(&bytes).bytes.into_owned();
            let stored = workspace.put_artifact(&bytes, "application/yaml")?;
            return Ok(Some(StoredEvidence { stored, place: Some(named.to_owned()), file: None }));
        }
        let (bytes, written) = match named.and_then(bytes_of) {
            Some(own) => (redactor.redact(&own).bytes.into_owned(), true),
            None => (redactor.redact(self.text().as_bytes()).bytes.into_owned(), false),
        };
        let stored = workspace.put_artifact(&bytes, "application/yaml")?;
        let file = (!written).then(|| (place.clone(), bytes));
        Ok(Some(StoredEvidence { stored, place: Some(place), file }))
    }

    /// Where bundles lie.
    fn place(&self) -> String {
        let name = match self.phase.state.label.as_deref() {
            Some(label) if is_file_name(label) => label,
            _ => self.item,
        };
        let file = match self.phase.lease.phase {
            WorkPhase::Review => "review.yaml".to_owned(),
            phase => format!("phase_{}.yaml", phase.as_str().to_lowercase()),
        };
        format!("evidence/work/{name}/{file}")
    }

    /// A bundle in YAML. JSON's strings are YAML's as well.
    fn text(&self) -> String {
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let HeldPhase { state, lease, left } = self.phase;
        let mut lines = vec![format!("schema_version: {}", quoted(SCHEMA_VERSION))];
        let mut add = |name: &str, value: Option<&str>| {
            lines.extend(value.map(|value| format!("{name}: {}", quoted(value))));
        };
        add("work_item", Some(self.item));
        add("label", state.label.as_deref());
        add("title", Some(&state.title));
        add("phase", Some(lease.phase.as_str()));
        add("exit_reason", Some(self.signal.exit_reason.as_str()));
        add("holder", Some(&lease.holder));
        add("session", Some(&lease.session_id));
        add("commit", self.commit);
        add("pr_url", self.signal.pr_url.as_deref());
        add("notes", self.signal.notes.as_deref());
        lines.push(format!("lease: {}", lease.epoch));
        if left.is_empty() {
            lines.push("artifacts: []".to_owned());
        } else {
            lines.push("artifacts:".to_owned());
        }
        for (name, artifact) in *left {
            lines.push(format!("  - name: {}", quoted(name)));
            lines.push(format!("    sha256: {}", quoted(&artifact.artifact_hash.to_hex())));
            lines.push(format!("    bytes: {}", artifact.byte_size));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// Whether a label can be the name of a directory.
fn is_file_name(label: &str) -> bool {
    let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    label.len() <= 100 && label.chars().all(usual) && !label.starts_with('.')
}
