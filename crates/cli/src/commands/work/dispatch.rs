//! `countersign work dispatch`.

use std::path::{Path, PathBuf};

use countersign_format::exit::WorkPhase;
use countersign_runtime::task::{TASK_BYTES_MAX, TaskFault};
use countersign_runtime::work::{Dispatcher, SETTINGS_NAME, WorkSettings};
use serde_json::json;

use super::item::unreadable;
use super::require_exit_protocol;
use super::run::{setting, show};
use crate::commands::run::{root_of, watch_signals};
use crate::{Caller, CommandError, DocumentSource, Exit, Format};

/// Run the agents of countersign.toml on whatever can be claimed, until nothing is left
///
/// Blocked items and phases that have no agent are left alone. Exits with 3 if something is blocked or
/// could not be run.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct DispatchArgs {
    /// Go on for ever: wait for new items
    #[arg(long)]
    follow: bool,
    /// How many agents run at a time, instead of what the settings say
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=256))]
    parallel: Option<u64>,
    /// The settings, instead of countersign.toml in the workspace root
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

const EXAMPLE: &str = "countersign.toml:
  [work]
  lease_seconds = 60       # a crashed dispatcher's items are free after that
  attempts = 3             # then the item is blocked
  parallel = 2

  [work.agents.IMPLEMENTATION]
  command = [\"python3\", \"agents/implement.py\"]
  name = \"implementer\"
  timeout_seconds = 3600
  signals = \"descriptor\"   # or \"any\": a printed signal counts too

  [work.ci]
  command = [\"make\", \"test\"]";

pub(super) fn run(args: &DispatchArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    require_exit_protocol()?;
    let workspace = caller.workspace()?;
    let path = match &args.settings {
        Some(path) => path.clone(),
        None => root_of(&workspace)?.join(SETTINGS_NAME),
    };
    let settings = read(&path)?;
    if settings.agents.is_empty() {
        return Err(CommandError::no(format!("`{}` names no agents", path.display()))
            .with_hint("run `countersign work dispatch --help` to see what it looks like"));
    }
    let parallel = args.parallel.and_then(|it| usize::try_from(it).ok());
    let (setting, news) = setting(&workspace, settings.lease, settings.attempts)?;
    let interrupted = watch_signals()?;
    let (stop, parallel) = (setting.stop.clone(), parallel.unwrap_or(settings.parallel));
    let phases: Vec<WorkPhase> = settings.agents.keys().copied().collect();
    let dispatcher =
        Dispatcher::new(workspace.clone(), settings.agents, parallel, args.follow, setting);
    let done = std::thread::scope(|scope| {
        let runner = scope.spawn(move || dispatcher.run());
        let stop = || {
            stop.set();
            workspace.store().wake();
        };
        let shown = show(&news, &interrupted, stop, caller);
        let done = runner.join().map_err(|_| CommandError::failed("the dispatcher broke off"))?;
        shown.and(done.map_err(unreadable))
    })?;
    let rows = workspace.index().and_then(|mut index| index.work_items()).map_err(unreadable)?;
    let blocked = rows.iter().filter(|row| row.phase == WorkPhase::Blocked).count();
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({
            "news": "done", "moved": done.moved, "failed": done.failed,
            "completed": done.completed, "blocked": done.blocked, "blocked_now": blocked,
            "errors": done.errors,
        }))?;
    } else {
        caller.output.note(format_args!(
            "phases done: {}, come to nothing: {}; items completed: {}, blocked now: {blocked}",
            done.moved, done.failed, done.completed
        ));
        for phase in WorkPhase::ALL {
            let left = matches!(phase, WorkPhase::Blocked | WorkPhase::Completed);
            let waiting = rows.iter().filter(|row| row.phase == phase).count();
            if waiting > 0 && !left && !phases.contains(&phase) {
                caller.output.note(format_args!(
                    "waiting in {phase}: {waiting}; the settings have nothing that does this phase"
                ));
            }
        }
        if blocked > 0 {
            caller
                .output
                .hint("run `countersign work list --phase BLOCKED` to see what is blocked");
        }
    }
    match blocked == 0 && done.errors.is_empty() {
        true => Ok(Exit::Done),
        false => Ok(Exit::No),
    }
}

fn read(path: &Path) -> Result<WorkSettings, CommandError> {
    let source = DocumentSource::File(path.to_owned());
    if !path.exists() {
        return Err(CommandError::failed(format!("there are no settings at `{}`", path.display()))
            .with_hint("run `countersign work dispatch --help` to see what they look like"));
    }
    let document = source.read(TASK_BYTES_MAX)?;
    let not_settings = |details: Vec<String>| {
        CommandError::no(format!("`{}` cannot be used", path.display())).with_details(details)
    };
    if document.length > TASK_BYTES_MAX {
        return Err(not_settings(vec![TaskFault::too_long(document.length).to_string()]));
    }
    let text = std::str::from_utf8(&document.bytes)
        .map_err(|error| not_settings(vec![format!("it is not UTF-8: {error}")]))?;
    WorkSettings::parse(text)
        .map_err(|faults| not_settings(faults.iter().map(ToString::to_string).collect()))
}
