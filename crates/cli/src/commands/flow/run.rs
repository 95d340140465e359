//! `countersign flow run` and `countersign flow resume`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use countersign_format::event::Event;
use countersign_protocol::flow::{FlowOutcome, OpenQuestion};
use countersign_runtime::flow::{
    FlowEnd, FlowError, FlowNews, FlowObserver, FlowSetting, RunningFlow,
};
use countersign_runtime::tools::Stop;
use countersign_runtime::{Workspace, WorkspaceError};

use super::FlowText;
use super::screen::FlowScreen;
use super::signal::{self, ForWork};
use crate::commands::run::{root_of, watch_signals, workspace};
use crate::place::explain;
use crate::prompt::Prompt;
use crate::{Caller, CommandError, Exit, Format};

/// Run a flow to its end
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunFlowArgs {
    /// The flow, a TOML file; `-` for standard input
    file: PathBuf,
    /// The feature, in place of the file's `feature_id`
    #[arg(long, value_name = "ID", value_parser = super::feature)]
    feature: Option<String>,
    /// Do a phase of a work item: take up the flow that was begun for it, and signal at the end
    #[arg(long, hide = true)]
    for_work: bool,
}

/// Take up a flow that was interrupted; agents whose answers are recorded are not asked again
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeFlowArgs {
    /// The trace of the flow, or the beginning of its id
    #[arg(value_name = "TRACE")]
    trace: String,
}

const EXAMPLES: &str = "Examples:
  countersign flow check examples/flows/specify.toml    what is wrong with it, before it runs
  countersign flow run examples/flows/specify.toml
  countersign flow resume 01j…                          after a crash, or Ctrl-C

A flow's paths are relative to the workspace root, the directory that holds `.countersign`. Ctrl-C
ends the agents that run; the flow stays open.";

/// How often the screen is looked after while nothing happens.
const TICK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &RunFlowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    // A flow that cannot be run is no reason to make a workspace.
    let read_here = match caller.home() {
        Err(_) if !args.for_work => Some(read_here(args)?),
        _ => None,
    };
    let workspace = workspace(caller)?;
    let root = root_of(&workspace)?;
    let for_work = if args.for_work { Some(ForWork::from_environment()?) } else { None };
    if let Some(work) = &for_work
        && let Some(open) = work.flow_begun(&workspace)
    {
        if let Some(end) = work.flow_ended(&workspace, open) {
            return signal::send(work, &end, caller);
        }
        let end = conduct(&workspace, caller, (work.links(), true), |setting| {
            RunningFlow::resume(&workspace, open, setting)
        })?;
        return signal::send(work, &end, caller);
    }
    let flow = match read_here {
        Some(flow) => flow,
        None => super::read(&args.file, args.feature.as_deref(), &root)?,
    };
    let links = for_work.as_ref().and_then(ForWork::links);
    let end = conduct(&workspace, caller, (links, false), |setting| {
        RunningFlow::begin(&workspace, flow.file, &flow.bytes, setting)
    })?;
    match &for_work {
        Some(work) => signal::send(work, &end, caller),
        None => Ok(exit_of(&end)),
    }
}

/// The flow, where a workspace would be made in the current directory.
fn read_here(args: &RunFlowArgs) -> Result<FlowText, CommandError> {
    let here = std::env::current_dir()
        .map_err(|error| CommandError::failed_doing("cannot tell the current directory", error))?;
    super::read(&args.file, args.feature.as_deref(), &here)
}

pub(crate) fn resume(args: &ResumeFlowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let id = super::find_flow(&workspace, &args.trace)?;
    let end = conduct(&workspace, caller, (None, true), |setting| {
        RunningFlow::resume(&workspace, id, setting)
    })?;
    Ok(exit_of(&end))
}

const fn exit_of(end: &FlowEnd) -> Exit {
    match end.outcome {
        Some(FlowOutcome::Completed) => Exit::Done,
        _ => Exit::No,
    }
}

/// Runs a flow before the eyes of whoever called.
fn conduct(
    workspace: &Workspace,
    caller: &mut Caller,
    (links, resumed): (Option<serde_json::Value>, bool),
    begin: impl FnOnce(FlowSetting) -> Result<RunningFlow, FlowError>,
) -> Result<FlowEnd, CommandError> {
    let stop = Stop::default();
    let interrupted = watch_signals()?;
    let (sender, news) = channel();
    let flow = begin(FlowSetting {
        root: root_of(workspace)?,
        environment: std::env::vars_os().collect(),
        helper: std::env::current_exe()
            .map_err(|error| CommandError::failed_doing("cannot find this program", error))?,
        observer: Arc::new(Reporter { sender }),
        stop: stop.clone(),
        links,
    })
    .map_err(told)?;
    let id = flow.id();
    let earlier = if resumed { flow.size().map_err(told)? } else { 0 };
    let runner = std::thread::spawn(move || flow.run());
    let mut screen = FlowScreen::new(Prompt::new(workspace.clone()), earlier);
    let shown = show(&news, &mut screen, caller, &interrupted, &stop);
    // If nobody can be shown anything any more, the flow goes on to its end all the same.
    drop(news);
    let ended = runner.join().map_err(|_| CommandError::failed("the run broke off"))?;
    shown?;
    caller.output.clear_status();
    let end = ended.map_err(|error| {
        told(error).with_hint(format!("run `countersign flow resume {id}` to go on"))
    })?;
    if let Some(lag) = &end.log_lag {
        caller.output.warning(format_args!("the workspace log was not told everything: {lag}"));
        caller.output.hint("run `countersign doctor --repair` to tell it");
    }
    if caller.output.format() == Format::Text {
        screen.summary(&end, &id.to_string(), caller)?;
    }
    if end.outcome.is_none() {
        caller.output.hint(format_args!("run `countersign flow resume {id}` to go on"));
    }
    Ok(end)
}

/// Shows what happens until nothing more comes.
fn show(
    news: &Receiver<News>,
    screen: &mut FlowScreen,
    caller: &mut Caller,
    interrupted: &AtomicBool,
    stop: &Stop,
) -> Result<(), CommandError> {
    let mut told = false;
    loop {
        if interrupted.load(Ordering::Relaxed) && !told {
            told = true;
            stop.set();
            caller.output.clear_status();
            caller.output.note("interrupted: ending the agents that run");
        }
        match news.recv_timeout(TICK) {
            Ok(News::Recorded(event)) => screen.event(&event, caller)?,
            Ok(News::Reminder(question)) => screen.remind(&question, caller),
            Ok(News::SessionAsks(session)) => screen.session_asks(&session, caller),
            Err(RecvTimeoutError::Timeout) => screen.tick(caller)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

enum News {
    Recorded(Box<Event>),
    Reminder(Box<OpenQuestion>),
    SessionAsks(String),
}

struct Reporter {
    sender: Sender<News>,
}

impl FlowObserver for Reporter {
    fn told(&self, news: FlowNews<'_>) {
        let news = match news {
            FlowNews::Recorded(event) => News::Recorded(Box::new(event.clone())),
            FlowNews::Reminder(question) => News::Reminder(Box::new(question.clone())),
            FlowNews::SessionAsks { trace_id } => News::SessionAsks(trace_id.to_owned()),
        };
        // Nobody listens any more once the screen is gone; the run goes on without it.
        let _ = self.sender.send(news);
    }
}

fn told(error: FlowError) -> CommandError {
    match error {
        FlowError::Workspace(WorkspaceError::SessionRuns { id }) => {
            CommandError::no(format!("flow {id} is being run by another process"))
                .with_hint(format!("run `countersign trace follow {id}` to watch it"))
        }
        FlowError::Workspace(error) => explain(error),
        FlowError::Ended { ref id, .. } => {
            let hint = format!("run `countersign trace show {id}` to see what happened");
            CommandError::no(error).with_hint(hint)
        }
        error @ FlowError::Secret { .. } => CommandError::no(error)
            .with_hint("give it to the agent by a variable: name that in the agent's `pass_env`"),
        error => CommandError::failed(error),
    }
}
