//! `countersign work run`, and what it shares with `dispatch`: telling what happens while it happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use countersign_format::time::Timestamp;
use countersign_protocol::work::Lease;
use countersign_runtime::Workspace;
use countersign_runtime::tools::Stop;
use countersign_runtime::work::{PhaseAgent, PhaseEnd, WorkNews, WorkObserver, WorkSetting};
use serde_json::json;

use super::item::{explain_work, find};
use super::told::{end, end_json};
use super::{holder, length_of_time, require_exit_protocol, usual_holder};
use crate::commands::run::{root_of, watch_signals};
use crate::{Caller, CommandError, Exit, Format};

/// Claim an item, run an agent on it, and take its exit signal
///
/// The agent gets the item as an input envelope on standard input. It signals on the descriptor that
/// `COUNTERSIGN_EXIT_FD` names, with `COUNTERSIGN_EXIT_NONCE` and a blank before the JSON, or prints the
/// signal as the last thing on standard output.
#[derive(Debug, clap::Args)]
pub(super) struct RunItemArgs {
    /// The item: its id, the beginning of it, or its label
    item: String,
    /// Who holds it; you, if nobody is named
    #[arg(long = "as", value_name = "NAME", value_parser = holder)]
    holder: Option<String>,
    /// The length of the lease, which is renewed while the agent works
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = length_of_time)]
    lease: Duration,
    /// How long the agent may take
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = length_of_time)]
    timeout: Duration,
    /// Attempts at the phase after which the item is blocked
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    attempts: u64,
    /// Take a signal on the descriptor only, none that is printed
    #[arg(long)]
    descriptor_only: bool,
    /// The command is CI: its exit status is the verdict of the phase CI_PENDING
    #[arg(long)]
    ci: bool,
    /// The agent, after `--`
    #[arg(last = true, value_name = "CMD", required = true)]
    command: Vec<String>,
}

/// How often signals of the system are looked for.
const TICK: Duration = Duration::from_millis(100);

pub(super) fn run(args: &RunItemArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    require_exit_protocol()?;
    let workspace = caller.workspace()?;
    let item = find(&workspace, &args.item)?;
    let usual = || if args.ci { "ci".to_owned() } else { usual_holder() };
    let agent = PhaseAgent {
        flow: None,
        holder: args.holder.clone().unwrap_or_else(usual),
        command: args.command.clone(),
        timeout: args.timeout,
        stdout_counts: !args.descriptor_only,
        ci: args.ci,
    };
    let (setting, news) = setting(&workspace, args.lease, args.attempts)?;
    let interrupted = watch_signals()?;
    let stop = setting.stop.clone();
    let ended = std::thread::scope(|scope| {
        let runner = scope.spawn(|| {
            let ended = item.run(&agent, &setting);
            drop(setting);
            ended
        });
        let shown = show(&news, &interrupted, || stop.set(), caller);
        let ended = runner.join().map_err(|_| CommandError::failed("the run broke off"))?;
        shown.and(ended.map_err(explain_work))
    })?;
    match ended {
        PhaseEnd::Moved { reason, .. } if reason.as_str() == "completed" => Ok(Exit::Done),
        _ => Ok(Exit::No),
    }
}

/// What happened.
pub(super) enum Told {
    /// To an item.
    News(Box<ItemNews>),
    /// Nothing: others hold what is left.
    Waiting { items: usize, until: Timestamp },
    /// An item could not be run.
    Trouble(String),
}

/// What happened to an item under a lease.
pub(super) struct ItemNews {
    item: String,
    lease: Lease,
    news: WorkNews,
}

/// Passes on what happens to whoever prints.
#[derive(Debug)]
struct Passing {
    sender: Sender<Told>,
}

impl WorkObserver for Passing {
    fn told(&self, item: &str, lease: &Lease, news: &WorkNews) {
        let (item, lease, news) = (item.to_owned(), lease.clone(), news.clone());
        // Nobody listens any more once the screen is gone; the work goes on without it.
        let _ = self.sender.send(Told::News(Box::new(ItemNews { item, lease, news })));
    }

    fn waiting(&self, items: usize, until: Timestamp) {
        let _ = self.sender.send(Told::Waiting { items, until });
    }

    fn troubled(&self, trouble: &str) {
        let _ = self.sender.send(Told::Trouble(trouble.to_owned()));
    }
}

/// What holds for all agents, and where the news comes out.
pub(super) fn setting(
    workspace: &Workspace,
    lease: Duration,
    attempts: u64,
) -> Result<(WorkSetting, Receiver<Told>), CommandError> {
    let (sender, news) = channel();
    let setting = WorkSetting {
        home: workspace.home().to_owned(),
        root: root_of(workspace)?,
        environment: std::env::vars_os().collect(),
        helper: std::env::current_exe()
            .map_err(|error| CommandError::failed_doing("cannot find this program", error))?,
        lease,
        attempts,
        observer: Arc::new(Passing { sender }),
        stop: Stop::default(),
    };
    Ok((setting, news))
}

/// Tells what happens until nothing more comes.
pub(super) fn show(
    news: &Receiver<Told>,
    interrupted: &AtomicBool,
    stop: impl Fn(),
    caller: &mut Caller,
) -> Result<(), CommandError> {
    let mut stopping = false;
    let mut shown = Ok(());
    loop {
        if interrupted.load(Ordering::Relaxed) && !stopping {
            stopping = true;
            caller.output.note("interrupted: ending what runs and freeing its items");
            stop();
        }
        match news.recv_timeout(TICK) {
            // If nobody can be shown anything any more, the work goes on to its end all the same.
            Ok(told) if shown.is_ok() => shown = tell(&told, caller),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return shown,
        }
    }
}

fn tell_waiting(items: usize, until: Timestamp, caller: &mut Caller) -> Result<(), CommandError> {
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({ "news": "waiting", "items": items, "until": until }))?;
        return caller.output.flush();
    }
    caller.output.note(format_args!(
        "waiting: others hold {items} that can be done here, the first until {until}"
    ));
    Ok(())
}

fn tell_trouble(trouble: &str, caller: &mut Caller) -> Result<(), CommandError> {
    if caller.output.format() == Format::Json {
        caller.output.json(&json!({ "news": "trouble", "error": trouble }))?;
        return caller.output.flush();
    }
    caller.output.warning(trouble);
    Ok(())
}

fn tell(told: &Told, caller: &mut Caller) -> Result<(), CommandError> {
    let ItemNews { item, lease, news } = match told {
        Told::News(news) => &**news,
        Told::Waiting { items, until } => return tell_waiting(*items, *until, caller),
        Told::Trouble(trouble) => return tell_trouble(trouble, caller),
    };
    if caller.output.format() == Format::Json {
        let mut line = json!({
            "item": item, "phase": lease.phase, "holder": lease.holder, "epoch": lease.epoch,
            "session_id": lease.session_id,
        });
        let more = match news {
            WorkNews::Claimed => json!({ "news": "claimed", "expires_at": lease.expires_at }),
            WorkNews::Started => json!({ "news": "started" }),
            WorkNews::Ended(ended) => {
                let mut more = end_json(ended);
                if let Some(members) = more.as_object_mut() {
                    members.insert("news".into(), json!("ended"));
                }
                more
            }
        };
        if let (Some(line), serde_json::Value::Object(more)) = (line.as_object_mut(), more) {
            line.extend(more);
        }
        caller.output.json(&line)?;
        return caller.output.flush();
    }
    let (phase, by) = (lease.phase, &lease.holder);
    match news {
        WorkNews::Claimed => caller
            .output
            .line(format_args!("{item}  {phase:<16}  claimed by {by}, lease {}", lease.epoch))?,
        WorkNews::Started => caller.output.line(format_args!("{item}  {phase:<16}  {by} runs"))?,
        WorkNews::Ended(ended) => {
            caller.output.line(format_args!("{item}  {phase:<16}  {}", end(ended)))?;
        }
    }
    caller.output.flush()
}
