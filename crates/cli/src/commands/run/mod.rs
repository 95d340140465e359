//! `countersign run`.

mod screen;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use countersign_format::event::Event;
use countersign_format::id::Ulid;
use countersign_format::role::Role;
use countersign_format::trace_session::TraceStatus;
use countersign_runtime::conduct::{
    Conductor, Observer, OpeningError, RunSetting, SessionResult, TaskText,
};
use countersign_runtime::task::{IsolationLevel, TASK_BYTES_MAX, Task, TaskFault};
use countersign_runtime::tools::Stop;
use countersign_runtime::{Workspace, WorkspaceError};

use crate::place::{explain, find_trace};
use crate::prompt::Prompt;
use crate::{Caller, CommandError, DocumentSource, Exit, Format};

use screen::Screen;

/// Take a task through plan, review, action, claim and audit; or run one command and prove it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The task, a TOML file; `-` for standard input
    #[arg(required_unless_present_any = ["resume", "command"], conflicts_with = "command")]
    task: Option<PathBuf>,
    /// Take up a session that was interrupted
    #[arg(long, value_name = "TRACE")]
    resume: Option<String>,
    /// Let the command use the network
    #[arg(long, requires = "command")]
    network: bool,
    /// Let the command write below this directory too
    #[arg(long, value_name = "DIR", requires = "command")]
    write: Vec<PathBuf>,
    /// Give the command this environment variable too
    #[arg(long = "pass-env", value_name = "NAME", requires = "command")]
    pass_env: Vec<String>,
    /// Refuse to run with less isolation than this: none, files or full
    #[arg(long, value_name = "LEVEL", requires = "command", value_parser = level)]
    require: Option<IsolationLevel>,
    /// A command to run instead of a task, after `--`
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  countersign run examples/tests.toml      a task
  countersign run -- cargo test            proof that the tests ran, and what they printed
  countersign run --resume 01j…            after a crash

A task's paths are relative to the workspace root, the directory that holds `.countersign`; a command
runs where you are. Ctrl-C ends what runs and records that you did.";

/// How often the screen is looked after while nothing happens.
const TICK: Duration = Duration::from_millis(100);

fn level(name: &str) -> Result<IsolationLevel, String> {
    IsolationLevel::parse(name).ok_or_else(|| "must be `none`, `files` or `full`".to_owned())
}

/// Refuses options of a command where there is none: who gives one means something by it.
fn check(args: &RunArgs) -> Result<(), CommandError> {
    let options = [
        ("--network", args.network),
        ("--write", !args.write.is_empty()),
        ("--pass-env", !args.pass_env.is_empty()),
        ("--require", args.require.is_some()),
    ];
    match options.into_iter().find(|(_, given)| *given && args.command.is_empty()) {
        None => Ok(()),
        Some((option, _)) => {
            let error = format!("`{option}` is an option of `countersign run -- CMD`");
            Err(CommandError::usage(error)
                .with_hint("a task says such things itself, in its table `[sandbox]`"))
        }
    }
}

pub(crate) fn run(args: &RunArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    check(args)?;
    let given = match &args.task {
        Some(path) => Some(read_task(&DocumentSource::from_argument(Some(path)))?),
        None => None,
    };
    let workspace = match &args.resume {
        // What is to be resumed is not in a workspace that is only just made.
        Some(_) => caller.workspace()?,
        None => workspace(caller)?,
    };
    let root = root_of(&workspace)?;
    let given = match given {
        None if !args.command.is_empty() => Some(command_task(args, &root)?),
        given => given,
    };
    let begin = |setting: RunSetting| match (&args.resume, given) {
        (Some(name), task) => {
            let id = find_trace(&workspace, name)?;
            Conductor::resume(&workspace, id, task, setting).map_err(opening)
        }
        (None, Some(task)) => Conductor::begin(&workspace, task, setting).map_err(opening),
        (None, None) => Err(CommandError::usage("neither a task nor a command was given")),
    };
    let ran = conduct(&workspace, root, begin, caller)?;
    finish(&ran, caller)
}

/// A session that was run, and what was seen of it.
pub(crate) struct Ran {
    pub(crate) id: Ulid,
    pub(crate) result: SessionResult,
    screen: Screen,
}

/// Runs a session before the eyes of whoever called.
pub(crate) fn conduct(
    workspace: &Workspace,
    root: PathBuf,
    begin: impl FnOnce(RunSetting) -> Result<Conductor, CommandError>,
    caller: &mut Caller,
) -> Result<Ran, CommandError> {
    let stop = Stop::default();
    let interrupted = watch_signals()?;
    let (sender, news) = channel();
    let conductor = begin(RunSetting {
        links: None,
        root,
        environment: std::env::vars_os().collect(),
        helper: std::env::current_exe()
            .map_err(|error| CommandError::failed_doing("cannot find this program", error))?,
        observer: Arc::new(Reporter { sender }),
        stop: stop.clone(),
    })?;
    let id = conductor.session().id();
    let runner = std::thread::spawn(move || conductor.run());
    let mut screen = Screen::new(workspace.clone(), Prompt::new(workspace.clone()));
    let shown = show(&news, &mut screen, caller, &interrupted, &stop);
    // If nobody can be shown anything any more, the session goes on to its end all the same.
    drop(news);
    let ended = runner.join().map_err(|_| CommandError::failed("the run broke off"))?;
    shown?;
    screen.clear(caller);
    let result = ended.map_err(|error| {
        explain(error).with_hint(format!("run `countersign run --resume {id}` to go on"))
    })?;
    Ok(Ran { id, result, screen })
}

/// Shows what happens until nothing more comes.
fn show(
    news: &Receiver<News>,
    screen: &mut Screen,
    caller: &mut Caller,
    interrupted: &AtomicBool,
    stop: &Stop,
) -> Result<(), CommandError> {
    let mut told = false;
    loop {
        if interrupted.load(Ordering::Relaxed) && !told {
            told = true;
            stop.set();
            screen.clear(caller);
            caller.output.note("interrupted: ending what runs and recording that");
        }
        match news.recv_timeout(TICK) {
            Ok(News::Recorded(event)) => screen.event(&event, caller)?,
            Ok(News::Asking(role, action)) => screen.asking(role, &action, caller),
            Err(RecvTimeoutError::Timeout) => screen.tick(caller)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn finish(ran: &Ran, caller: &mut Caller) -> Result<Exit, CommandError> {
    let result = &ran.result;
    if let Some(lag) = &result.log_lag {
        caller.output.warning(format_args!("the workspace log was not told everything: {lag}"));
        caller.output.hint("run `countersign doctor --repair` to tell it");
    }
    let reached = result.statement.as_ref().is_some_and(|(achieved, _)| *achieved);
    let exit = match result.status {
        TraceStatus::Succeeded if reached => Exit::Done,
        _ => Exit::No,
    };
    if exit == Exit::No {
        screen::tell_why(result, caller);
    }
    if caller.output.format() == Format::Text {
        ran.screen.summary(result, caller)?;
    }
    Ok(exit)
}

/// What the run reports to the screen.
enum News {
    Recorded(Box<Event>),
    Asking(Role, String),
}

struct Reporter {
    sender: Sender<News>,
}

impl Observer for Reporter {
    fn recorded(&self, event: &Event) {
        // Nobody listens any more once the screen is gone; the run goes on without it.
        let _ = self.sender.send(News::Recorded(Box::new(event.clone())));
    }

    fn asking(&self, role: Role, action: &str) {
        let _ = self.sender.send(News::Asking(role, action.to_owned()));
    }
}

fn read_task(source: &DocumentSource) -> Result<TaskText, CommandError> {
    let document = source.read(TASK_BYTES_MAX)?;
    if document.length > TASK_BYTES_MAX {
        return Err(CommandError::no(TaskFault::too_long(document.length).to_string()));
    }
    let no_task = |faults: Vec<TaskFault>| {
        CommandError::no(format!("{source} is not a task"))
            .with_details(faults.iter().map(ToString::to_string))
            .with_hint("docs/formats/task.md says what a task looks like")
    };
    let task = Task::from_bytes(&document.bytes).map_err(no_task)?;
    let text = String::from_utf8_lossy(&document.bytes).into_owned();
    Ok(TaskText { task, text })
}

/// The task of one command.
fn command_task(args: &RunArgs, root: &Path) -> Result<TaskText, CommandError> {
    let mut task = Task::for_command(args.command.clone(), below(root));
    task.sandbox.network = args.network;
    for dir in &args.write {
        let dir = std::path::absolute(dir)
            .map_err(|error| CommandError::failed_doing("cannot use the directory", error))?;
        task.sandbox.write.push(dir.to_string_lossy().into_owned());
    }
    task.sandbox.pass_env.clone_from(&args.pass_env);
    if let Some(level) = args.require {
        task.sandbox.require = level;
    }
    let text = task.command_text();
    TaskText::parse(text).map_err(|faults| {
        CommandError::usage("the command cannot be run")
            .with_details(faults.iter().map(ToString::to_string))
    })
}

/// The workspace; one is made where there is none, so that the first session needs nothing else.
pub(crate) fn workspace(caller: &mut Caller) -> Result<Workspace, CommandError> {
    match caller.home() {
        Ok(_) => caller.workspace(),
        Err(_) => super::init::make(caller),
    }
}

/// What tools are confined to: the directory that holds the store, else the current one.
pub(crate) fn root_of(workspace: &Workspace) -> Result<PathBuf, CommandError> {
    let home = workspace.home();
    let beside = home.file_name().is_some_and(|name| name == ".countersign");
    let root = match (beside, home.parent()) {
        (true, Some(parent)) => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Path::canonicalize(&root).map_err(|error| {
        CommandError::failed_doing(format!("cannot use the directory `{}`", root.display()), error)
    })
}

/// Where we are below `root`; nothing if we are there, or elsewhere.
fn below(root: &Path) -> Option<String> {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok()?;
    let below = here.strip_prefix(root).ok()?.to_str()?;
    (!below.is_empty()).then(|| below.to_owned())
}

pub(crate) fn watch_signals() -> Result<Arc<AtomicBool>, CommandError> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| CommandError::failed_doing("cannot watch for signals", error))?;
    }
    Ok(flag)
}

fn opening(error: OpeningError) -> CommandError {
    match error {
        OpeningError::Workspace(WorkspaceError::SessionRuns { id }) => {
            let hint = format!("run `countersign trace follow {id}` to watch it");
            CommandError::no(WorkspaceError::SessionRuns { id }).with_hint(hint)
        }
        OpeningError::Workspace(error) => explain(error),
        OpeningError::Ended { ref id, .. } => {
            let hint = format!("run `countersign trace show {id}` to see what happened");
            CommandError::no(error).with_hint(hint)
        }
        error @ OpeningError::TaskNeeded { .. } => CommandError::failed(error).with_hint(
            "name it, or the command: `countersign run --resume TRACE TASK.toml`, `… -- CMD`",
        ),
        error @ OpeningError::OtherTask { .. } => CommandError::no(error),
        error => CommandError::failed(error),
    }
}
