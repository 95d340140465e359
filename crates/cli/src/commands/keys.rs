//! `countersign keys …`.

use std::path::Path;

use countersign_format::hash::Hash;
use countersign_format::key::{AgentIdentity, KeyStatus};
use countersign_format::role::Role;
use countersign_runtime::Workspace;
use countersign_runtime::keyring::{Protection, system_random};
use countersign_runtime::known_roots::KnownRoots;
use serde_json::json;

use crate::passphrase;
use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// The keys that sign: list, replace, end, protect, hand out, trust
#[derive(Debug, clap::Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, clap::Subcommand)]
enum KeysCommand {
    /// All keys that the workspace log names, with their status
    List,
    /// Replace a key by a new one of the same agent; what it signed so far stays valid
    Rotate {
        /// The agent, or the id of its key
        key: String,
    },
    /// End a key for good; what it signed so far stays valid
    Revoke {
        /// The agent, or the id of its key
        key: String,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Put the operator's key under a passphrase, so that an agent cannot use it on its own
    ///
    /// The passphrase is asked for on the terminal, else read from standard input.
    Protect {
        /// Take the passphrase off again
        #[arg(long)]
        remove: bool,
    },
    /// Print the public records of all keys, for somebody who verifies without the log
    Export,
    /// Trust a root: traces that lead to it count as pinned
    Trust {
        /// The root's fingerprint, or a file with one on each line; without it, list them
        root: Option<String>,
        /// A name for it
        #[arg(long, default_value = "")]
        label: String,
        /// Trust it no longer
        #[arg(long)]
        remove: bool,
    },
}

pub(crate) fn run(args: &KeysArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.command {
        KeysCommand::List => list(caller),
        KeysCommand::Rotate { key } => rotate(key, caller),
        KeysCommand::Revoke { key, reason } => revoke(key, reason, caller),
        KeysCommand::Protect { remove } => protect(*remove, caller),
        KeysCommand::Export => export(caller),
        KeysCommand::Trust { root: None, .. } => list_roots(caller),
        KeysCommand::Trust { root: Some(root), label, remove } => {
            trust(root, label, *remove, caller)
        }
    }
}

fn list(caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let keys = workspace.keys().map_err(explain)?;
    let output = &mut caller.output;
    if output.format() == Format::Json {
        output.json(&keys)?;
        return Ok(Exit::Done);
    }
    output
        .line(format_args!("{:<10} {:<9} {:<8} {:<32}  since", "agent", "role", "status", "key"))?;
    let root = workspace.log_state(|log| log.root_key_id.clone()).map_err(explain)?;
    for key in &keys {
        let role = match key.role_capabilities.first() {
            Some(_) if key.key_id == root => "root",
            Some(role) => role.as_str(),
            None => "",
        };
        let kept = private_half(&workspace, key);
        output.line(format_args!(
            "{:<10} {:<9} {:<8} {:<32}  {}{kept}",
            key.agent_id,
            role,
            status(key.status),
            key.key_id,
            key.created_at
        ))?;
    }
    output.note(format_args!("root fingerprint: {}", workspace.root()));
    Ok(Exit::Done)
}

/// What there is to say of how the private half is kept.
fn private_half(workspace: &Workspace, key: &AgentIdentity) -> &'static str {
    let entry = key.key_id.parse().ok().map(|id| workspace.keyring().entry(id));
    match entry {
        Some(Ok(entry)) if entry.protection == Protection::Passphrase => "  passphrase",
        Some(Ok(_)) => "",
        _ => "  private half not usable here",
    }
}

const fn status(status: KeyStatus) -> &'static str {
    match status {
        KeyStatus::Active => "active",
        KeyStatus::Rotated => "rotated",
        KeyStatus::Revoked => "revoked",
    }
}

fn rotate(name: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let old = workspace.find_key(name).map_err(explain)?;
    let new = workspace.rotate_key(&old.key_id).map_err(explain)?;
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({ "rotated": old.key_id, "identity": new }))?,
        Format::Text => output
            .line(format_args!("{}: {} replaced by {}", new.agent_id, old.key_id, new.key_id))?,
    }
    Ok(Exit::Done)
}

fn revoke(name: &str, reason: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    if reason.trim().is_empty() {
        return Err(CommandError::usage("`--reason` must say why"));
    }
    let workspace = caller.workspace()?;
    let old = workspace.find_key(name).map_err(explain)?;
    workspace.revoke_key(&old.key_id, reason).map_err(explain)?;
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({ "revoked": old.key_id, "agent_id": old.agent_id }))?,
        Format::Text => {
            output.line(format_args!("{}: {} revoked", old.agent_id, old.key_id))?;
            output.hint(format_args!(
                "`{}` has no active key now and can sign nothing in this workspace",
                old.agent_id
            ));
        }
    }
    Ok(Exit::Done)
}

fn protect(remove: bool, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let key =
        workspace.log_state(|log| log.active_key(Role::Operator).cloned()).map_err(explain)?;
    let key = key.ok_or_else(|| CommandError::failed("there is no active operator key"))?;
    let key_id = key.key_id.parse().map_err(CommandError::failed)?;
    let keyring = workspace.keyring();
    let done = if remove {
        let passphrase = passphrase::ask("passphrase")?;
        keyring.unprotect(key_id, &passphrase)
    } else {
        let passphrase = passphrase::ask_twice("new passphrase")?;
        keyring.protect(key_id, &passphrase, &mut system_random)
    };
    done.map_err(CommandError::failed)?;
    let state = if remove { "plain" } else { "passphrase" };
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({ "key_id": key.key_id, "protection": state }))?,
        Format::Text if remove => {
            output.line(format_args!("{}: no longer protected", key.key_id))?;
        }
        Format::Text => output.line(format_args!(
            "{}: protected; the passphrase is asked for at each approval",
            key.key_id
        ))?,
    }
    Ok(Exit::Done)
}

fn export(caller: &mut Caller) -> Result<Exit, CommandError> {
    let keys = caller.workspace()?.keys().map_err(explain)?;
    caller.output.json(&keys)?;
    Ok(Exit::Done)
}

fn list_roots(caller: &mut Caller) -> Result<Exit, CommandError> {
    let roots = KnownRoots::new(&caller.config()?).list().map_err(CommandError::failed)?;
    let output = &mut caller.output;
    if output.format() == Format::Json {
        let roots: Vec<_> = roots
            .iter()
            .map(|root| json!({ "fingerprint": root.fingerprint, "label": root.label }))
            .collect();
        output.json(&roots)?;
        return Ok(Exit::Done);
    }
    for root in &roots {
        output.line(format_args!("{}  {}", root.fingerprint, root.label))?;
    }
    Ok(Exit::Done)
}

fn trust(root: &str, label: &str, remove: bool, caller: &mut Caller) -> Result<Exit, CommandError> {
    let known = KnownRoots::new(&caller.config()?);
    for fingerprint in fingerprints(root)? {
        if remove {
            let there = known.remove(&fingerprint).map_err(CommandError::failed)?;
            let what = if there { "no longer trusted" } else { "was not trusted" };
            caller.output.line(format_args!("{fingerprint}: {what}"))?;
        } else {
            known.add(&fingerprint, label).map_err(CommandError::failed)?;
            caller.output.line(format_args!("{fingerprint}: trusted"))?;
        }
    }
    Ok(Exit::Done)
}

/// Bytes that a file of fingerprints may have.
const FINGERPRINTS_BYTES_MAX: u64 = 1 << 20;

/// The fingerprints that `text` means: one, or the first word of each line of a file.
pub(crate) fn fingerprints(text: &str) -> Result<Vec<Hash>, CommandError> {
    if let Ok(fingerprint) = text.parse() {
        return Ok(vec![fingerprint]);
    }
    let path = Path::new(text);
    if !path.exists() {
        let error = format!("`{text}` is neither a fingerprint nor a file");
        return Err(CommandError::usage(error).with_hint(
            "a fingerprint is 64 lowercase hexadecimal digits; `countersign keys list` shows yours",
        ));
    }
    let doing = || format!("cannot read `{}`", path.display());
    let size = std::fs::metadata(path).map(|data| data.len());
    if size.map_err(|error| CommandError::failed_doing(doing(), error))? > FINGERPRINTS_BYTES_MAX {
        return Err(CommandError::failed(format!("`{}` is too large", path.display())));
    }
    let content = std::fs::read_to_string(path);
    let content = content.map_err(|error| CommandError::failed_doing(doing(), error))?;
    let lines = content.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let first = line.split_whitespace().next().unwrap_or_default();
            first.parse().map_err(|error| {
                CommandError::failed_doing(
                    format!("cannot use a line of `{}`", path.display()),
                    error,
                )
            })
        })
        .collect()
}
