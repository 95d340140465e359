//! `countersign flow …`.

mod check;
mod graph;
mod replay;
mod run;
mod screen;
mod signal;

pub(crate) use check::FlowSummary;

use std::path::{Path, PathBuf};

use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_runtime::Workspace;
use countersign_runtime::flow::{FlowFile, FlowReading};
use countersign_runtime::inspect::first_event;
use countersign_runtime::task::{TASK_BYTES_MAX, TaskFault};

use crate::place::find_trace;
use crate::{Caller, CommandError, DocumentSource, Exit};

/// Flows: agents composed by envelopes, in an order that a file decides
#[derive(Debug, clap::Args)]
pub(crate) struct FlowArgs {
    #[command(subcommand)]
    command: FlowCommand,
}

#[derive(Debug, clap::Subcommand)]
enum FlowCommand {
    Check(check::CheckFlowArgs),
    Run(run::RunFlowArgs),
    Resume(run::ResumeFlowArgs),
    Replay(replay::ReplayArgs),
    Graph(graph::GraphArgs),
}

pub(crate) fn run(args: &FlowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    match &args.command {
        FlowCommand::Check(args) => check::run(args, caller),
        FlowCommand::Run(args) => run::run(args, caller),
        FlowCommand::Resume(args) => run::resume(args, caller),
        FlowCommand::Replay(args) => replay::run(args, caller),
        FlowCommand::Graph(args) => graph::run(args, caller),
    }
}

/// A flow, and the bytes that it was read from.
pub(crate) struct FlowText {
    pub(crate) file: FlowFile,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a flow file; `root` is where its paths begin.
pub(crate) fn read(
    path: &PathBuf,
    feature: Option<&str>,
    root: &Path,
) -> Result<FlowText, CommandError> {
    let source = DocumentSource::from_argument(Some(path));
    let document = source.read(TASK_BYTES_MAX)?;
    if document.length > TASK_BYTES_MAX {
        return Err(CommandError::no(TaskFault::too_long(document.length).to_string()));
    }
    match parse(&document.bytes, feature, root) {
        Ok(file) => Ok(FlowText { file, bytes: document.bytes }),
        Err(faults) => Err(CommandError::no(format!("{source} is not a flow"))
            .with_details(faults.iter().map(ToString::to_string))
            .with_hint("docs/formats/flow.md says what a flow looks like")),
    }
}

/// The flow that these bytes describe, or everything that is wrong with it.
pub(crate) fn parse(
    bytes: &[u8],
    feature: Option<&str>,
    root: &Path,
) -> Result<FlowFile, Vec<TaskFault>> {
    let exists = |path: &str| std::fs::symlink_metadata(root.join(path)).is_ok();
    FlowFile::from_bytes(bytes, &FlowReading { feature_id: feature, exists: &exists })
}

/// A feature's id, which becomes a component of paths.
fn feature(text: &str) -> Result<String, String> {
    match countersign_protocol::flow::check_feature(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Says which agents' programs are not to be found. They may be where the flow runs.
fn warn_of_missing_programs(flow: &FlowFile, root: &Path, caller: &mut Caller) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    for (name, agent) in &flow.agents {
        let Some(program) = agent.command.first() else { continue };
        let found = match program.contains('/') {
            true => root.join(program).is_file(),
            false => std::env::split_paths(&path).any(|dir| dir.join(program).is_file()),
        };
        if !found {
            caller
                .output
                .warning(format_args!("agent `{name}`: there is no program `{program}` here"));
        }
    }
}

/// The trace of a flow, by its id or the beginning of it.
fn find_flow(workspace: &Workspace, name: &str) -> Result<Ulid, CommandError> {
    let id = find_trace(workspace, name)?;
    let first = first_event(&workspace.trace_file(id)).ok().flatten();
    match first.as_ref().and_then(countersign_protocol::kind_of) {
        Some(TraceKind::Flow) | None => Ok(id),
        Some(other) => {
            Err(CommandError::no(format!("trace {id} is a {}, not a flow", other.as_str()))
                .with_hint("run `countersign trace list` to see which traces there are"))
        }
    }
}

/// Where the paths of a flow begin, if there is no workspace yet: here.
fn root_for_checks(caller: &Caller) -> Result<PathBuf, CommandError> {
    match caller.home() {
        Ok(home) if home.file_name().is_some_and(|name| name == ".countersign") => {
            Ok(home.parent().map_or_else(|| PathBuf::from("."), Path::to_owned))
        }
        _ => Ok(PathBuf::from(".")),
    }
}
