//! `countersign cap …`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use countersign_format::cap::CapError;
use countersign_format::text::escape;
use countersign_verify::cap::{CapContents, cap_contents};
use countersign_verify::open_regular;

use crate::{Caller, CommandError, Exit, Format};

/// Sealed files: what is in one
#[derive(Debug, clap::Args)]
pub(crate) struct CapArgs {
    #[command(subcommand)]
    command: CapCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CapCommand {
    /// Show what a sealed file says of itself: nothing is verified but the container
    Show {
        /// A `.cap` file
        file: PathBuf,
    },
}

/// Actions and members that are shown to people.
const SHOWN_MAX: usize = 200;

pub(crate) fn run(args: &CapArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let CapCommand::Show { file } = &args.command;
    let contents = read(file)?;
    let output = &mut caller.output;
    match output.format() {
        Format::Json => output.json(&contents)?,
        Format::Text => {
            output.block(text(&contents))?;
            output.hint(format_args!("`countersign verify {}` checks it", file.display()));
        }
    }
    Ok(Exit::Done)
}

fn read(file: &Path) -> Result<CapContents, CommandError> {
    let doing = || format!("cannot read `{}`", file.display());
    let opened = open_regular(file);
    let opened = opened.map_err(|error| CommandError::failed_doing(doing(), error))?;
    cap_contents(opened).map_err(|error| match error {
        CapError::Io(error) => CommandError::failed_doing(doing(), error),
        CapError::Refused(fault) => {
            let why = escape(&fault.to_string()).to_string();
            CommandError::no(format!("`{}` is no sealed file", file.display())).with_details([why])
        }
    })
}

fn text(contents: &CapContents) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(contents, &mut out);
    out
}

fn write_text(contents: &CapContents, out: &mut String) -> std::fmt::Result {
    let it = &contents.identity;
    writeln!(out, "sealed by  {}", escape(&it.sealed_by))?;
    writeln!(out, "kind       {}", escape(&it.kind))?;
    writeln!(out, "trace      {}", escape(&it.trace_id))?;
    writeln!(out, "agent      {}", escape(&it.agent))?;
    if !it.session_name.is_empty() {
        writeln!(out, "about      {}", escape(&it.session_name))?;
    }
    writeln!(out, "created    {}", escape(&it.created_at))?;
    if let Some(events) = it.events {
        writeln!(out, "events     {events}")?;
    }
    if let Some(root) = &it.root {
        writeln!(out, "root       {}", escape(root))?;
    }
    writeln!(out, "\n{} actions", contents.actions_count)?;
    for action in contents.actions.iter().take(SHOWN_MAX) {
        let gate = action.gate_decision.as_deref().unwrap_or("ungated");
        let score = action.gate_score.map(|score| format!(" {score:.2}")).unwrap_or_default();
        let ended = if action.success { "ok" } else { "failed" };
        writeln!(
            out,
            "  {:<10}  {:<14}  {:<20}  {ended:<6}  {}",
            escape(&action.action_id).to_string(),
            escape(&action.action_type).to_string(),
            format!("{}{score}", escape(gate)),
            escape(&action.description)
        )?;
    }
    write_more(contents.actions_count, out)?;
    writeln!(out, "\n{} members, {} bytes", contents.members_count, contents.bytes)?;
    for member in contents.members.iter().take(SHOWN_MAX) {
        writeln!(out, "  {:>10}  {}", member.size, escape(&member.name))?;
    }
    write_more(contents.members_count, out)
}

fn write_more(count: u64, out: &mut String) -> std::fmt::Result {
    match count.checked_sub(SHOWN_MAX as u64) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "  … and {more} more"),
    }
}
