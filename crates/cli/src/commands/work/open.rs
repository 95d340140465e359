//! `countersign work open`.

use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_format::text;
use countersign_runtime::work::NewWork;
use serde_json::json;

use super::item::explain_work;
use crate::questions::without_secrets;
use crate::{Caller, CommandError, Exit, Format};

/// Open a work item; prints its id
#[derive(Debug, clap::Args)]
pub(super) struct OpenArgs {
    /// What is to be done
    title: String,
    /// What people call it, such as `W-00042`; it also names the directory of its evidence
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// The phase that it begins in
    #[arg(long, value_name = "PHASE", default_value = "DRAFT", value_parser = WorkPhase::parse)]
    phase: WorkPhase,
    /// Whoever implements it may review it as well
    #[arg(long)]
    author_may_review: bool,
}

/// Whether a label can name a directory, and is not taken for an id.
fn is_label(label: &str) -> bool {
    let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    label.len() <= LABEL_BYTES_MAX
        && label.starts_with(|c: char| c.is_ascii_alphanumeric())
        && label.chars().all(usual)
        && label.parse::<Ulid>().is_err()
}

/// Bytes of a title.
const TITLE_BYTES_MAX: usize = 4 << 10;
/// Bytes of a label.
const LABEL_BYTES_MAX: usize = 100;

pub(super) fn run(args: &OpenArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let title = usable("title", &args.title, TITLE_BYTES_MAX)?;
    let label = args.label.as_deref().map(|label| usable("label", label, LABEL_BYTES_MAX));
    let label = label.transpose()?;
    if let Some(label) = label.as_deref().filter(|label| !is_label(label)) {
        return Err(CommandError::usage(format!(
            "the label `{label}` cannot be used: letters, digits, `-`, `_` and `.`, at most 100 of them, \
             beginning with a letter or digit, and not like an id"
        )));
    }
    let workspace = caller.workspace()?;
    let item = workspace
        .open_work(&NewWork {
            title,
            label: label.clone(),
            phase: args.phase,
            author_may_review: args.author_may_review,
            links: None,
        })
        .map_err(explain_work)?;
    match caller.output.format() {
        Format::Json => caller.output.json(&json!({
            "item": item.id().to_string(), "label": label, "phase": args.phase,
        }))?,
        Format::Text => caller.output.line(item.id())?,
    }
    Ok(Exit::Done)
}

/// A text that an event can hold, without secrets.
fn usable(what: &str, text: &str, max: usize) -> Result<String, CommandError> {
    let text = without_secrets(text.trim());
    if text.is_empty() {
        return Err(CommandError::usage(format!("the {what} must not be empty")));
    }
    if text.len() > max {
        let length = text.len();
        return Err(CommandError::usage(format!("the {what} has {length} bytes of at most {max}")));
    }
    let text = text::to_nfc(&text);
    match text::check(&text) {
        Ok(()) => Ok(text),
        Err(fault) => Err(CommandError::usage(format!("the {what} must not hold the {fault}"))),
    }
}
