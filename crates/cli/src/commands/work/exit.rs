//! `countersign work exit`.

use std::path::PathBuf;

use countersign_format::exit::{ExitSignal, ExitSignalError, INPUT_BYTES_MAX};
use countersign_protocol::work::WorkExit;
use countersign_runtime::secrets::Redactor;
use countersign_runtime::work::{ExitAnswer, UnusableSignal};
use serde_json::json;

use super::claim::{PresentedLease, channel_of_command};
use super::item::{explain_work, find};
use super::require_exit_protocol;
use crate::commands::run::root_of;
use crate::{Caller, CommandError, DocumentSource, Exit, Format};

/// Leave the phase that you hold, with an exit signal; prints the phase that follows
///
/// A signal that does not fit, or comes from somebody else than the holder, changes nothing, and the
/// refusal is recorded. The same signal again gets the same answer.
#[derive(Debug, clap::Args)]
pub(super) struct ExitArgs {
    /// The item: its id, the beginning of it, or its label
    item: String,
    /// The signal, a JSON file; standard input if none is named, or for `-`
    signal: Option<PathBuf>,
    #[command(flatten)]
    presented: PresentedLease,
}

pub(super) fn run(args: &ExitArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    require_exit_protocol()?;
    let workspace = caller.workspace()?;
    let item = find(&workspace, &args.item)?;
    let document = DocumentSource::from_argument(args.signal.as_ref()).read(INPUT_BYTES_MAX)?;
    let epoch = args.presented.epoch()?;
    let by = args.presented.bearer();
    let channel = channel_of_command();
    let text = String::from_utf8_lossy(&document.bytes);
    let redactor = Redactor::new(std::env::vars_os());
    let (text, _) = redactor.redact_text(&text);
    let stored = workspace.put_artifact(text.as_bytes(), "application/json");
    let stored = stored.map_err(explain_work)?;
    let read = match document.length > INPUT_BYTES_MAX {
        true => {
            Err(ExitSignalError::InputTooLarge { actual: document.length, max: INPUT_BYTES_MAX })
        }
        false => ExitSignal::from_json(&text),
    };
    let signal = match read {
        Ok(signal) => signal,
        Err(error) => {
            let session_id = item.look(|state| state.session_of(epoch, &by));
            item.refuse_exit(UnusableSignal {
                reason: error.to_string(),
                epoch: Some(epoch),
                session_id: session_id.map_err(|error| explain_work(error.into()))?,
                channel: Some(channel),
                stored: Some(stored),
            })
            .map_err(explain_work)?;
            return Err(CommandError::no(error));
        }
    };
    let exit = WorkExit {
        epoch,
        by,
        signal,
        channel,
        stored: Some(stored),
        evidence: None,
        commit: None,
        ci: None,
        links: None,
    };
    let answer = item.exit_by_command(exit, &root_of(&workspace)?, &redactor);
    match answer.map_err(explain_work)? {
        ExitAnswer::Refused { reason } => Err(CommandError::no(reason).with_hint(format!(
            "run `countersign work show {}` to see where it stands",
            item.id()
        ))),
        ExitAnswer::Moved { event, next_phase, repeated } => {
            match caller.output.format() {
                Format::Json => caller.output.json(&json!({
                    "next_phase": next_phase, "event": event, "repeated": repeated,
                }))?,
                Format::Text => caller.output.line(next_phase)?,
            }
            Ok(Exit::Done)
        }
    }
}
