//! `countersign gate check`.

use std::path::{Path, PathBuf};

use countersign_format::json;
use countersign_gate::{Decision, Gate, Opinion, Policy, REQUEST_BYTES_MAX};
use countersign_runtime::actions::plain_paths;
use serde_json::json;

use super::asked::{self, AskedAction};
use crate::place::explain;
use crate::{Caller, CommandError, DocumentSource, Exit, Format};

/// Decide about one action, without recording anything
///
/// The action is a JSON object with an `action_type` and, as far as they are known, `paths` (or
/// `files_affected`), `diff` (or `diff_text`), `command`, `content`, `description`, `tool` (or
/// `tool_name`), `agent`, `role` and `risk`. A request of a trace, an action record and the input of
/// an MCP client all have that form. Outside of a workspace the built-in policy decides.
///
/// Exits with 0 if the action may run, with 3 if it may not, and with 4 if a person must be asked.
#[derive(Debug, clap::Args)]
pub(super) struct CheckActionArgs {
    /// The action; without it, or with `-`, standard input is read
    #[arg(value_name = "FILE|-")]
    file: Option<PathBuf>,
}

pub(super) fn run(args: &CheckActionArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let source = DocumentSource::from_argument(args.file.as_ref());
    let document = source.read(REQUEST_BYTES_MAX)?;
    let no_action = |what: String| {
        CommandError::failed(format!("{source} holds no action")).with_details([what])
    };
    let value = json::read_up_to(&document.bytes, REQUEST_BYTES_MAX)
        .map_err(|error| no_action(error.to_string()))?;
    let AskedAction { mut request, ignored } = asked::read(&value).map_err(no_action)?;
    if !ignored.is_empty() {
        caller.output.warning(format_args!("these members mean nothing: {}", ignored.join(", ")));
    }
    let (gate, directory) = in_force(caller)?;
    request.paths = plain_paths(&directory, request.paths.iter().map(String::as_str));
    request.set_directory(&directory.to_string_lossy());
    let opinion = gate.decide(&request);
    tell(&opinion, caller)?;
    Ok(match opinion.verdict.decision() {
        Decision::Allow => Exit::Done,
        Decision::Ask => Exit::Open,
        Decision::Deny => Exit::No,
    })
}

/// The gate of the workspace, or the built-in one; and the directory from which paths are named.
fn in_force(caller: &mut Caller) -> Result<(Gate, PathBuf), CommandError> {
    let here = |error| CommandError::failed_doing("cannot tell where this is", error);
    if caller.home.is_none() && caller.home().is_err() {
        caller.output.note("no workspace here: the built-in policy decides");
        let gate = Gate::from_bytes(Policy::built_in().as_bytes(), None);
        return Ok((gate, std::env::current_dir().map_err(here)?));
    }
    let workspace = caller.workspace()?;
    let home = std::path::absolute(workspace.home()).map_err(here)?;
    let directory = home.parent().map_or(home.clone(), Path::to_owned);
    Ok((workspace.gate().map_err(explain)?.gate, directory))
}

fn tell(opinion: &Opinion, caller: &mut Caller) -> Result<(), CommandError> {
    let reasons: Vec<String> = opinion.verdict.reasons().iter().map(ToString::to_string).collect();
    match caller.output.format() {
        Format::Json => caller.output.json(&json!({
            "decision": opinion.verdict.decision(),
            "reasons": opinion.verdict.reasons(),
            "risk": opinion.risk,
            "cell": opinion.cell,
            "label": opinion.label,
            "features": opinion.features,
            "estimate": opinion.estimate,
        })),
        Format::Text => {
            caller.output.line(opinion.verdict.decision())?;
            for reason in reasons {
                caller.output.line(format_args!("  {reason}"))?;
            }
            Ok(())
        }
    }
}
