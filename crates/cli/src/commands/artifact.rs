//! `countersign artifact …`.

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_runtime::store::{Blobs as _, StoreError};
use countersign_runtime::{RedactionRecord, Workspace, WorkspaceError};
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// Stored evidence: show it, or remove its bytes and say so
#[derive(Debug, clap::Args)]
pub(crate) struct ArtifactArgs {
    #[command(subcommand)]
    command: ArtifactCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ArtifactCommand {
    /// Print the bytes of an artifact, after comparing them with their hash
    Show {
        /// The SHA-256 of the artifact
        hash: Hash,
    },
    /// Remove the bytes of an artifact; every trace that refers to it records that first
    Redact {
        /// The SHA-256 of the artifact
        hash: Hash,
        /// Why
        #[arg(long)]
        reason: String,
    },
}

/// Bytes that are shown at most; larger artifacts are files to be opened with something else.
const SHOWN_BYTES_MAX: u64 = 256 << 20;

pub(crate) fn run(args: &ArtifactArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.command {
        ArtifactCommand::Show { hash } => show(hash, caller),
        ArtifactCommand::Redact { hash, reason } => redact(hash, reason, caller),
    }
}

fn show(hash: &Hash, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let bytes = workspace.store().get(hash, SHOWN_BYTES_MAX).map_err(|error| match error {
        StoreError::Missing { .. } => missing(hash, error, &workspace),
        error => CommandError::failed(error),
    })?;
    if caller.output.format() == Format::Json {
        let text = std::str::from_utf8(&bytes).ok();
        caller
            .output
            .json(&json!({ "artifact_hash": hash, "byte_size": bytes.len(), "text": text }))?;
    } else {
        caller.output.data_bytes(&bytes)?;
    }
    Ok(Exit::Done)
}

fn redact(hash: &Hash, reason: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    if reason.trim().is_empty() {
        return Err(CommandError::usage("`--reason` must say why"));
    }
    let workspace = caller.workspace()?;
    let before = workspace.redactions(hash).map_err(explain)?;
    let was_there = workspace.store().stat(hash).map_err(CommandError::failed)?.is_some();
    let traces = workspace.redact(*hash, reason).map_err(|error| match error {
        WorkspaceError::Store(StoreError::Missing { .. }) => {
            CommandError::failed(format!("no trace refers to artifact {hash}"))
        }
        other => explain(other),
    })?;
    let is_new = |id: &Ulid| !before.iter().any(|it| it.trace == *id);
    let output = &mut caller.output;
    match output.format() {
        Format::Json => {
            let recorded: Vec<String> =
                traces.iter().filter(|id| is_new(id)).map(ToString::to_string).collect();
            let traces: Vec<String> = traces.iter().map(ToString::to_string).collect();
            output.json(&json!({
                "artifact_hash": hash, "traces": traces, "recorded": recorded, "removed": was_there,
            }))?;
        }
        Format::Text => {
            for redaction in &before {
                output.line(format_args!("already {}", told(redaction)))?;
            }
            for trace in traces.iter().filter(|id| is_new(id)) {
                output.line(format_args!("recorded in {trace}"))?;
            }
            match was_there {
                true => output.line(format_args!("removed {hash}"))?,
                false => output.line(format_args!("its bytes were gone already: {hash}"))?,
            }
        }
    }
    Ok(Exit::Done)
}

/// An artifact that is not there, with what is recorded of why.
fn missing(hash: &Hash, error: StoreError, workspace: &Workspace) -> CommandError {
    match workspace.redactions(hash) {
        Ok(redactions) if !redactions.is_empty() => {
            CommandError::failed(format!("artifact {hash} was redacted"))
                .with_details(redactions.iter().map(told))
        }
        // What cannot be looked up is no reason to say less.
        _ => CommandError::failed(error),
    }
}

fn told(redaction: &RedactionRecord) -> String {
    let RedactionRecord { trace, event_id, agent_id, at, reason } = redaction;
    format!("redacted by `{agent_id}` at {at}: {reason} (event {event_id} of {trace})")
}
