//! `countersign init`.

mod claude_code;
mod client;
mod client_file;
mod edited;
mod git;
mod json_text;
mod our_command;
mod settings_file;
mod wrap;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use countersign_runtime::known_roots::{KnownRoots, label_from};
use countersign_runtime::{Environment, Workspace, WorkspaceError};
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};
pub(crate) use json_text::plain as plain_json;
pub(crate) use settings_file::hooks_are_disabled;

/// Make a workspace here: its store, its keys, its log
///
/// The store goes to `.countersign` (or to `--home`), which git is told to ignore. Private keys go
/// outside of it, to the settings directory, and the new root is added to the roots that you trust.
///
/// With `--mcp`, an MCP client is told to start `countersign mcp`; with `--wrap`, all servers in its
/// configuration go through `countersign proxy`; with `--claude-code`, Claude Code is told to run
/// `countersign hook claude-code`; with `--git`, git names the traces that changed the files of a commit in
/// its message. The workspace may be there already.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Tell an MCP client of the recorder, by an entry in its configuration
    #[arg(long, group = "wiring")]
    mcp: bool,
    /// The client's configuration, instead of `.mcp.json` beside the store
    #[arg(long, value_name = "FILE")]
    client: Option<PathBuf>,
    /// Tell Claude Code to ask and record before and after each tool call, by hooks in its settings
    #[arg(long, group = "wiring")]
    claude_code: bool,
    /// Claude Code's settings, instead of `.claude/settings.json` beside the store
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Have what is wired up decide and record, but stop nothing
    #[arg(long)]
    shadow: bool,
    /// Let Claude Code ask as it would without us, also about what the gate allows
    #[arg(long)]
    keep_prompts: bool,
    /// Have git name the traces of a commit in its message, by a `commit-msg` hook
    #[arg(long, group = "wiring")]
    git: bool,
    /// Take the entry, or the hooks, out again; the workspace stays
    #[arg(long, requires = "wiring")]
    undo: bool,
    /// Put the proxy before every server in the client's configuration
    #[arg(long, conflicts_with = "wiring")]
    wrap: bool,
    /// Take it away again; every other byte stays
    #[arg(long, conflicts_with_all = ["wiring", "wrap"])]
    unwrap: bool,
}

/// Makes a workspace for a command that found none, and says so.
pub(crate) fn make(caller: &mut Caller) -> Result<Workspace, CommandError> {
    let (config, home) = (caller.config()?, caller.new_home()?);
    let workspace = Workspace::init(&config, &home, Environment::system()).map_err(explain)?;
    let label = home.canonicalize().unwrap_or(home).display().to_string();
    furnish(&config, &workspace, &label)?;
    caller.output.note(format_args!("made a workspace at {label}"));
    Ok(workspace)
}

/// Trusts the root of a workspace that was just made in the directory `home`, and makes the place where
/// people put its policy.
fn furnish(config: &Path, workspace: &Workspace, home: &str) -> Result<(), CommandError> {
    let added = KnownRoots::new(config).add(&workspace.root(), &label_from(home));
    added.map_err(CommandError::failed)?;
    let dir = workspace.gate_dir();
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|error| {
        CommandError::failed_doing(format!("cannot make `{}`", dir.display()), error)
    })
}

/// Refuses options that say nothing of what is to be done: who gives one means something by it.
fn check(args: &InitArgs) -> Result<(), CommandError> {
    let servers = args.mcp || args.wrap || args.unwrap;
    let wired = args.claude_code || args.mcp || args.wrap;
    let options = [
        ("--client", args.client.is_some(), servers, "`--mcp`, `--wrap` or `--unwrap`"),
        ("--settings", args.settings.is_some(), args.claude_code, "`--claude-code`"),
        ("--keep-prompts", args.keep_prompts, args.claude_code, "`--claude-code`"),
        ("--shadow", args.shadow, wired, "`--claude-code`, `--mcp` or `--wrap`"),
    ];
    for (option, given, has_meaning, of) in options {
        if given && !has_meaning {
            let error = CommandError::usage(format!("`{option}` is an option of {of}"));
            let is_alone = !(servers || args.claude_code || args.git);
            return Err(if is_alone { error.with_hint(format!("add {of}")) } else { error });
        }
    }
    Ok(())
}

pub(crate) fn run(args: &InitArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    check(args)?;
    if args.mcp {
        return client::run(args.client.as_deref(), args.undo, args.shadow, caller);
    }
    if args.claude_code {
        let choice =
            claude_code::HookChoice { shadow: args.shadow, keep_prompts: args.keep_prompts };
        return claude_code::run(args.settings.as_deref(), args.undo, choice, caller);
    }
    if args.git {
        return git::run(args.undo, caller);
    }
    let direction = match (args.wrap, args.unwrap, args.shadow) {
        (true, _, false) => Some(wrap::Direction::Wrap),
        (true, _, true) => Some(wrap::Direction::WrapInShadow),
        (false, true, _) => Some(wrap::Direction::Unwrap),
        (false, false, _) => None,
    };
    if let Some(direction) = direction {
        return wrap::run(args.client.as_deref(), direction, caller);
    }
    let (config, home) = (caller.config()?, caller.new_home()?);
    let workspace =
        Workspace::init(&config, &home, Environment::system()).map_err(|error| match error {
            WorkspaceError::Exists { .. } => CommandError::failed(error)
                .with_hint("run `countersign doctor` to see whether it is in order"),
            other => explain(other),
        })?;
    let root = workspace.root();
    let label = home.canonicalize().unwrap_or(home).display().to_string();
    furnish(&config, &workspace, &label)?;
    let keys = config.join("keys").join(root.to_hex());
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&json!({
            "home": label,
            "root": root,
            "origin": countersign_format::note::origin(&root),
            "keys": keys.display().to_string(),
        }))?,
        Format::Text => {
            output.line(format_args!("store  {label}"))?;
            output.line(format_args!("keys   {}", keys.display()))?;
            output.line(format_args!("root   {root}"))?;
            output.note("whoever verifies your traces pins the root:");
            output.note(format_args!("  countersign verify --trust {root} …"));
        }
    }
    Ok(Exit::Done)
}
