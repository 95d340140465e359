//! `countersign seal`.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_format::event::TraceKind;
use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_protocol::kind_of;
use countersign_runtime::inspect::first_event;
use countersign_runtime::{SealedFile, Unsealable, Workspace, WorkspaceError};
use countersign_verify::read_regular;
use serde_json::json;

use super::new_file::{Existing, is_there_already, refuse_existing};
use super::verify::find;
use crate::narration::plural;
use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// Write a trace that has ended into one file to hand to somebody else
///
/// The file holds the trace, what the workspace log says of it with proofs, the report of its audit,
/// its actions and its artifacts. `countersign verify FILE.cap` checks it offline. Sealed again, it
/// has the same bytes. A recording that is still open is concluded and audited first. What was
/// redacted is not in it.
#[derive(Debug, clap::Args)]
pub(crate) struct SealArgs {
    /// A trace's id or the beginning of it, a work item's label, or a trace's directory
    trace: String,
    /// Where the file goes, instead of `<trace id>.cap` here
    #[arg(short, long, value_name = "FILE.cap")]
    output: Option<PathBuf>,
    /// Replace a file that is there and has other bytes
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &SealArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let target = find(&args.trace, caller)?;
    let id = target.trace_id.and_then(|id| id.parse::<Ulid>().ok());
    let Some(id) = id else {
        return Err(CommandError::usage(format!("`{}` is no trace of a workspace", args.trace))
            .with_hint("run `countersign trace list` to see what can be sealed"));
    };
    let workspace = caller.workspace()?;
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{id}.cap")));
    // Of a file that is there it is known only later whether it has other bytes.
    refuse_existing(&path, Existing::Replace)?;
    let concluded = conclude_if_open(&workspace, id, caller)?;
    let sealed = put(&workspace, id, &path, args.force)?;
    let output = &mut caller.output;
    if output.format() == Format::Json {
        output.json(&json!({
            "trace_id": id.to_string(), "path": path, "bytes": sealed.bytes,
            "members": sealed.members, "actions": sealed.actions,
            "final_receipt": sealed.final_receipt, "concluded": concluded,
        }))?;
        return Ok(Exit::Done);
    }
    let (shown, SealedFile { bytes, members, actions, .. }) = (path.display(), sealed);
    let actions = plural(usize::try_from(actions).unwrap_or(usize::MAX), "action", "actions");
    output.success(format_args!("{bytes} bytes in `{shown}`: {members} members, {actions}"));
    output.hint(format_args!("`countersign verify {shown}` checks it"));
    Ok(Exit::Done)
}

/// An open recording is concluded, since whoever asks for the file has no more to record. Whether it
/// was.
fn conclude_if_open(
    workspace: &Workspace,
    id: Ulid,
    caller: &mut Caller,
) -> Result<bool, CommandError> {
    let summary = workspace.summary(id).map_err(explain)?;
    if summary.is_some_and(|summary| summary.ended_at.is_some()) {
        return Ok(false);
    }
    let first = first_event(&workspace.trace_file(id)).map_err(CommandError::failed)?;
    match first.as_ref().and_then(kind_of) {
        Some(TraceKind::Recording) => {
            caller.output.note(format_args!("{id} is still open: it is concluded first"));
            let recording = workspace.recording(id).map_err(explain)?;
            let _ = recording.conclude("sealed").map_err(explain)?;
            Ok(true)
        }
        Some(TraceKind::Work) => {
            let item = workspace.work(id).map_err(explain)?;
            let phase = item.look(|state| state.phase).map_err(|error| explain(error.into()))?;
            let error = format!("work item {id} is in phase {phase}; it ends with COMPLETED");
            Err(CommandError::no(error).with_hint(match phase {
                WorkPhase::Blocked => {
                    format!("run `countersign work unblock {id} --reason …` when it can go on")
                }
                _ => format!("run `countersign work show {id}` to see who has it"),
            }))
        }
        kind => {
            let resume = match kind {
                Some(TraceKind::Flow) => format!("countersign flow resume {id}"),
                _ => format!("countersign run --resume {id}"),
            };
            let kind = kind.map_or("trace", TraceKind::as_str);
            Err(CommandError::no(format!("{kind} {id} has not ended, and only it can end itself"))
                .with_hint(format!("run `{resume}` to go on with it"))
                .with_hint(format!("run `countersign trace abort {id}` to end it")))
        }
    }
}

/// Writes the file, but not over one with other bytes.
fn put(
    workspace: &Workspace,
    id: Ulid,
    path: &Path,
    force: bool,
) -> Result<SealedFile, CommandError> {
    if force || fs::symlink_metadata(path).is_err() {
        return workspace.seal(id, path).map_err(|error| unsealed(error, path));
    }
    let beside = path.with_extension(format!("cap-{}", std::process::id()));
    let sealed = workspace.seal(id, &beside).map_err(|error| unsealed(error, path))?;
    let same = read_regular(path, sealed.bytes).ok() == read_regular(&beside, sealed.bytes).ok();
    let _ = fs::remove_file(&beside);
    match same {
        true => Ok(sealed),
        false => Err(is_there_already(path)
            .with_details(["it has other bytes than this trace gives".to_owned()])),
    }
}

fn unsealed(error: WorkspaceError, path: &Path) -> CommandError {
    let WorkspaceError::Seal { id, source } = &error else { return explain(error) };
    let hint = match &**source {
        Unsealable::Broken(_) | Unsealable::BadLine { .. } => {
            let hint = format!("run `countersign verify {id}` to see what is wrong");
            return CommandError::no(error).with_hint(hint);
        }
        Unsealable::Log(_) => {
            "the next entry of the log writes its checkpoint anew; `countersign doctor --repair` \
             tells the log what it was not told"
        }
        Unsealable::Changed => "try again",
        Unsealable::Open | Unsealable::LongLog { .. } => return CommandError::failed(error),
        Unsealable::Io(_) => {
            let into = format!("the file would be `{}`", path.display());
            return CommandError::failed(error).with_details([into]);
        }
    };
    CommandError::failed(error).with_hint(hint)
}
