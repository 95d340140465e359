//! `countersign keys …`.

mod trust;

use countersign_format::key::{AgentIdentity, KeyStatus};
use countersign_format::role::Role;
use countersign_runtime::keyring::{KeyEntry, KeyringError, Protection, system_random};
use countersign_runtime::{AGENTS, Workspace, WorkspaceError, WriteError};
use serde_json::{Value, json};

use crate::passphrase;
use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

pub(crate) use trust::fingerprints;

const OPERATOR: &str = Role::Operator.as_str();
const RECORDER: &str = Role::Recorder.as_str();

/// The keys that sign: list, replace, end, protect, hand out, trust
#[derive(Debug, clap::Args)]
#[command(after_help = WHERE_KEYS_LIE)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

const WHERE_KEYS_LIE: &str = "\
Private keys and the roots that you trust lie outside of the workspace, as `keys/` and
`known_roots` in $COUNTERSIGN_CONFIG, else in $XDG_CONFIG_HOME/countersign, else in
~/.config/countersign";

#[derive(Debug, clap::Subcommand)]
enum KeysCommand {
    /// All keys that the workspace log names, with their status
    List,
    /// Replace a key by a new one of the same agent; what it signed so far stays valid
    ///
    /// An agent whose key was revoked gets a new one. For a key that is protected by a passphrase,
    /// the passphrase is asked for, and protects the new key as well.
    Rotate {
        /// The agent, or the id of its key
        key: String,
    },
    /// End a key; what it signed so far stays valid, and `keys rotate` gives the agent a new one
    Revoke {
        /// The agent, or the id of its key
        key: String,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Put the operator's key under a passphrase, so that an agent cannot sign approvals as you
    ///
    /// The passphrase is asked for on the terminal, else read from standard input: now, at each
    /// approval, and when the key is rotated.
    ///
    /// An agent that runs as the same user then cannot sign approvals with your key. But whoever
    /// can read the root key, and such an agent can unless it is kept out of the directory of keys,
    /// can still replace the operator's key by another one. That shows in the workspace log, as
    /// every change of keys does.
    Protect {
        /// Take the passphrase off again
        #[arg(long)]
        remove: bool,
    },
    /// Print the public records of all keys, for somebody who verifies without the log
    Export,
    /// Trust a root: traces that lead to it count as pinned
    ///
    /// Compare the fingerprint with the one that you got from the workspace's owner first.
    Trust {
        /// The root's fingerprint, or a file with one on each line; without it, list them
        root: Option<String>,
        /// A name for it
        #[arg(long, requires = "root", conflicts_with = "remove")]
        label: Option<String>,
        /// Trust it no longer
        #[arg(long, requires = "root")]
        remove: bool,
    },
}

pub(crate) fn run(args: &KeysArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.command {
        KeysCommand::List => list(caller),
        KeysCommand::Rotate { key } => rotate(key, caller),
        KeysCommand::Revoke { key, reason } => revoke(key, reason, caller),
        KeysCommand::Protect { remove: false } => protect(caller),
        KeysCommand::Protect { remove: true } => unprotect(caller),
        KeysCommand::Export => export(caller),
        KeysCommand::Trust { root: None, .. } => trust::list(caller),
        KeysCommand::Trust { root: Some(root), remove: true, .. } => trust::remove(root, caller),
        KeysCommand::Trust { root: Some(root), label, .. } => {
            trust::add(root, label.as_deref().unwrap_or_default(), caller)
        }
    }
}

fn list(caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let keys = workspace.keys().map_err(explain)?;
    let root = workspace.log_state(|log| log.root_key_id.clone()).map_err(explain)?;
    let output = &mut caller.output;
    if output.format() == Format::Json {
        let keys: Vec<_> = keys.iter().map(|key| listed(&workspace, key, &root)).collect();
        output.json(&keys)?;
        return Ok(Exit::Done);
    }
    output
        .line(format_args!("{:<10} {:<9} {:<8} {:<32}  since", "agent", "role", "status", "key"))?;
    for key in &keys {
        let role = match key.role_capabilities.first() {
            Some(_) if key.key_id == root => "root",
            Some(role) => role.as_str(),
            None => "",
        };
        let kept = match private_key(&workspace, key) {
            PrivateKey::Plain => "",
            PrivateKey::Passphrase => "  passphrase",
            PrivateKey::Unusable => "  private half not usable here",
        };
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

/// A key's record, and what only this place knows of it.
fn listed(workspace: &Workspace, key: &AgentIdentity, root: &str) -> Value {
    let mut record = json!(key);
    if let Some(members) = record.as_object_mut() {
        members.insert("root".to_owned(), json!(key.key_id == root));
        let private_key = private_key(workspace, key).as_str();
        members.insert("private_key".to_owned(), json!(private_key));
    }
    record
}

/// How the private half of a key is kept here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrivateKey {
    Plain,
    Passphrase,
    Unusable,
}

impl PrivateKey {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Passphrase => "passphrase",
            Self::Unusable => "unusable",
        }
    }
}

fn private_key(workspace: &Workspace, key: &AgentIdentity) -> PrivateKey {
    let entry = key.key_id.parse().ok().map(|id| workspace.keyring().entry(id));
    match entry {
        Some(Ok(entry)) if entry.protection == Protection::Passphrase => PrivateKey::Passphrase,
        Some(Ok(_)) => PrivateKey::Plain,
        _ => PrivateKey::Unusable,
    }
}

const fn status(status: KeyStatus) -> &'static str {
    match status {
        KeyStatus::Active => "active",
        KeyStatus::Rotated => "rotated",
        KeyStatus::Revoked => "revoked",
    }
}

/// What to say of a key that cannot be replaced or ended. A name that means nothing is a mistake,
/// everything else an answer.
fn not_changeable(name: &str) -> impl Fn(WorkspaceError) -> CommandError {
    move |error| match error {
        WorkspaceError::Write(WriteError::NoKey { who }) if who == name => {
            CommandError::failed(format!("no agent or key `{name}` in this workspace"))
                .with_hint("run `countersign keys list` to see which keys there are")
        }
        other => explain(other),
    }
}

fn rotate(name: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    if workspace.keyless_agents().map_err(explain)?.contains(&name) {
        return add(name, &workspace, caller);
    }
    let old = workspace.find_changeable_key(name).map_err(not_changeable(name))?;
    let before = private_key(&workspace, &old);
    let (new, after) = match workspace.rotate_key(&old.key_id) {
        Err(WorkspaceError::Keys(KeyringError::Protected { .. })) => {
            let passphrase = passphrase::ask(&format!("passphrase of `{}`", old.agent_id))?;
            let new = workspace
                .rotate_protected_key(&old.key_id, &passphrase)
                .map_err(|error| locked_out(error, &old.agent_id))?;
            (new, PrivateKey::Passphrase)
        }
        done => (done.map_err(explain)?, PrivateKey::Plain),
    };
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({
            "rotated": old.key_id,
            "identity": new,
            "private_key": after.as_str(),
        }))?,
        Format::Text => {
            let kept = match after {
                PrivateKey::Passphrase => ", under the same passphrase",
                _ => "",
            };
            output.line(format_args!(
                "{}: {} replaced by {}{kept}",
                new.agent_id, old.key_id, new.key_id
            ))?;
            if new.agent_id == OPERATOR && before == PrivateKey::Unusable {
                output.hint(PROTECT_IT);
            }
        }
    }
    Ok(Exit::Done)
}

const PROTECT_IT: &str =
    "the new key has no passphrase; run `countersign keys protect` to put it under one";

fn locked_out(error: WorkspaceError, agent_id: &str) -> CommandError {
    match error {
        WorkspaceError::Keys(error @ KeyringError::WrongPassphrase) => CommandError::failed(error)
            .with_hint(format!(
                "if the passphrase is lost, run `countersign keys revoke {agent_id} --reason …`, \
                 then `countersign keys rotate {agent_id}`"
            )),
        other => explain(other),
    }
}

/// Gives an agent without an active key a new one.
fn add(agent_id: &str, workspace: &Workspace, caller: &mut Caller) -> Result<Exit, CommandError> {
    let former = workspace.keys().map_err(explain)?;
    let new = workspace.add_key(agent_id).map_err(explain)?;
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({
            "rotated": null,
            "identity": new,
            "private_key": PrivateKey::Plain.as_str(),
        }))?,
        Format::Text => {
            output.line(format_args!("{agent_id}: had no active key, has {} now", new.key_id))?;
            let mut former = former.iter().filter(|key| key.agent_id == OPERATOR);
            let protected = |key| private_key(workspace, key) != PrivateKey::Plain;
            if agent_id == OPERATOR && former.any(protected) {
                output.hint(PROTECT_IT);
            }
        }
    }
    Ok(Exit::Done)
}

fn revoke(name: &str, reason: &str, caller: &mut Caller) -> Result<Exit, CommandError> {
    if reason.trim().is_empty() {
        return Err(CommandError::usage("`--reason` must say why"));
    }
    let workspace = caller.workspace()?;
    let old = workspace.find_changeable_key(name).map_err(|error| {
        let keyless = workspace.keyless_agents().is_ok_and(|agents| agents.contains(&name));
        let error = not_changeable(name)(error);
        if keyless { error.with_hint(gives_a_new_one(name)) } else { error }
    })?;
    workspace.revoke_key(&old.key_id, reason).map_err(explain)?;
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({ "revoked": old.key_id, "agent_id": old.agent_id }))?,
        Format::Text => {
            let agent = &old.agent_id;
            output.line(format_args!("{agent}: {} revoked", old.key_id))?;
            output.hint(if agent == RECORDER {
                "nothing can be recorded in this workspace until `countersign keys rotate recorder`"
                    .to_owned()
            } else if AGENTS.iter().any(|built_in| built_in.agent_id == agent) {
                let then = gives_a_new_one(agent);
                format!("`{agent}` has no active key now and can sign nothing here; {then}")
            } else {
                format!("`{agent}` has no active key now and can sign nothing here")
            });
        }
    }
    Ok(Exit::Done)
}

fn gives_a_new_one(agent_id: &str) -> String {
    format!("`countersign keys rotate {agent_id}` gives it a new one")
}

fn protect(caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let key = operator_key(&workspace)?;
    if key.protection == Protection::Passphrase {
        let error = format!("the operator's key {} is protected already", key.key_id);
        return Err(CommandError::no(error)
            .with_hint("run `countersign keys protect --remove` first to change the passphrase"));
    }
    let passphrase = passphrase::ask_new("new passphrase")?;
    workspace
        .keyring()
        .protect(key.key_id, &passphrase, &mut system_random)
        .map_err(CommandError::failed)?;
    let output = &mut caller.output;
    match output.format() {
        Format::Json => {
            output
                .json(&json!({ "key_id": key.key_id.to_string(), "protection": "passphrase" }))?;
        }
        Format::Text => output.line(format_args!(
            "{}: protected; the passphrase is asked for at each approval",
            key.key_id
        ))?,
    }
    Ok(Exit::Done)
}

fn unprotect(caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let key = operator_key(&workspace)?;
    if key.protection == Protection::Plain {
        return Err(CommandError::no(KeyringError::NotProtected { key_id: key.key_id })
            .with_hint("run `countersign keys protect` to put it under one"));
    }
    let passphrase = passphrase::ask("passphrase")?;
    workspace.keyring().unprotect(key.key_id, &passphrase).map_err(CommandError::failed)?;
    let output = &mut caller.output;
    match output.format() {
        Format::Json => {
            output.json(&json!({ "key_id": key.key_id.to_string(), "protection": "plain" }))?;
        }
        Format::Text => output.line(format_args!("{}: no longer protected", key.key_id))?,
    }
    Ok(Exit::Done)
}

fn operator_key(workspace: &Workspace) -> Result<KeyEntry, CommandError> {
    let key =
        workspace.log_state(|log| log.active_key(Role::Operator).cloned()).map_err(explain)?;
    let key = key.ok_or_else(|| {
        CommandError::failed("there is no active operator key")
            .with_hint("run `countersign keys rotate operator` to make one")
    })?;
    let key_id = key.key_id.parse().map_err(CommandError::failed)?;
    workspace.keyring().entry(key_id).map_err(CommandError::failed)
}

fn export(caller: &mut Caller) -> Result<Exit, CommandError> {
    let keys = caller.workspace()?.keys().map_err(explain)?;
    caller.output.json(&keys)?;
    Ok(Exit::Done)
}
