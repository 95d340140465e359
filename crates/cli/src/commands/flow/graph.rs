//! `countersign flow graph`.

use std::path::PathBuf;

use countersign_runtime::flow::{FlowGraph, picture};
use serde_json::json;

use crate::place::explain;
use crate::{Caller, CommandError, Exit, Format};

/// Mermaid refuses to draw more.
const MERMAID_EDGES_MAX: usize = 499;

/// Draw a flow, or how a run of it stands: Mermaid, or SVG
#[derive(Debug, clap::Args)]
pub(crate) struct GraphArgs {
    /// A flow file, or the trace of a run
    #[arg(value_name = "FILE|TRACE")]
    what: String,
    /// Draw SVG instead of Mermaid
    #[arg(long)]
    svg: bool,
    /// Write the picture to this file; one that ends in `.svg` is SVG
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The feature, in place of the file's `feature_id`
    #[arg(long, value_name = "ID", value_parser = super::feature)]
    feature: Option<String>,
}

pub(crate) fn run(args: &GraphArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let path = PathBuf::from(&args.what);
    let graph = if path.is_file() {
        let root = super::root_for_checks(caller)?;
        let flow = super::read(&path, args.feature.as_deref(), &root)?;
        picture(&flow.file, None)
    } else {
        of_run(&args.what, caller)?
    };
    let named = args.output.as_ref().and_then(|path| path.extension());
    let svg = args.svg || named.is_some_and(|extension| extension == "svg");
    if !svg && graph.edges.len() > MERMAID_EDGES_MAX {
        caller.output.warning(format_args!(
            "{} edges: Mermaid draws at most {MERMAID_EDGES_MAX}",
            graph.edges.len()
        ));
        caller.output.hint("draw it with `--svg`");
    }
    let text = if svg { graph.svg() } else { graph.mermaid() };
    match (&args.output, caller.output.format()) {
        (Some(file), _) => {
            std::fs::write(file, &text).map_err(|error| {
                let doing = format!("cannot write `{}`", file.display());
                CommandError::failed_doing(doing, error)
            })?;
            caller.output.success(format_args!("wrote {}", file.display()));
        }
        (None, Format::Json) => {
            let form = if svg { "svg" } else { "mermaid" };
            caller.output.json(&json!({ "form": form, "text": text }))?;
        }
        (None, Format::Text) => caller.output.data_bytes(text.as_bytes())?,
    }
    Ok(Exit::Done)
}

/// The picture of a run, from what its trace keeps.
fn of_run(name: &str, caller: &Caller) -> Result<FlowGraph, CommandError> {
    let workspace = caller.workspace().map_err(|error| {
        error.with_hint(format!("`{name}` is no file here; a trace needs its workspace"))
    })?;
    let id = super::find_flow(&workspace, name)?;
    let flow = workspace.flow(id).map_err(explain)?;
    let state = flow.look(Clone::clone).map_err(|error| explain(error.into()))?;
    let file = flow.file().map_err(CommandError::failed)?;
    Ok(picture(&file, Some(&state)))
}
