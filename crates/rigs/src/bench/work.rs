//! Work items by the thousand: showing the board, claiming one, handing one on.
//!
//! The board and the hand-over are timed on a workspace with ten thousand items; opening and
//! claiming are compared with one where there are ten.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign_format::event::EventType;
use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_protocol::work::{Bearer, Claimant, Releaser};
use countersign_runtime::inspect::each_event;
use countersign_runtime::store::LedgerId;
use countersign_runtime::work::NewWork;
use countersign_runtime::{Environment, Workspace};

use super::clock::{Clock, median_of_both, milliseconds, time};
use super::home::{Home, told};
use super::{Measured, Target};
use crate::product;

const ITEMS: usize = 10_000;
const FEW: usize = 10;
/// Threads that open them.
const THREADS: usize = 32;
const ROUNDS: u32 = 40;
const LIST_MILLISECONDS_MAX: f64 = 100.0;
const HANDOFF_MILLISECONDS_MAX: f64 = 50.0;
/// Items that are handed on, through five agents each.
const HANDED: usize = 8;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let few = Board::with("work-few", FEW)?;
    let many = Board::with("work-many", ITEMS)?;
    let list = many.list()?;
    let (here, there) = (many.any()?, few.any()?);
    let inside = median_of_both(ROUNDS, || many.claim(here), || few.claim(there))?;
    let outside =
        median_of_both(ROUNDS, || many.claim_from_outside(here), || few.claim_from_outside(there))?;
    let opened = median_of_both(ROUNDS, || many.open_from_outside(), || few.open_from_outside())?;
    let handoff = many.handoff()?;
    Ok(vec![
        Measured {
            name: "work-list",
            value: milliseconds(list),
            unit: "ms",
            bound: LIST_MILLISECONDS_MAX,
            target: Target::AtMost(1.0),
        },
        compared("work-claim", inside),
        compared("work-claim-cli", outside),
        compared("work-open-cli", opened),
        handed_on("work-handoff", handoff.median),
        handed_on("work-handoff-longest", handoff.longest),
    ])
}

/// How long handing on took, in milliseconds.
struct Handoff {
    median: i64,
    longest: i64,
}

fn handed_on(name: &'static str, value: i64) -> Measured {
    Measured {
        name,
        value: value as f64,
        unit: "ms",
        bound: HANDOFF_MILLISECONDS_MAX,
        target: Target::AtMost(1.0),
    }
}

fn compared(name: &'static str, (many, few): (Duration, Duration)) -> Measured {
    Measured {
        name,
        value: milliseconds(many),
        unit: "ms",
        bound: milliseconds(few),
        target: Target::AtMost(1.5),
    }
}

/// A workspace with work items.
pub(super) struct Board {
    home: Home,
    workspace: Workspace,
}

impl Board {
    /// Where it lies, and its settings.
    pub(super) fn store(&self) -> PathBuf {
        self.home.below("home")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.home.below("config")
    }

    pub(super) fn with(name: &str, items: usize) -> Result<Self, String> {
        let home = Home::new(name)?;
        let workspace = home.init(Environment::system())?;
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..THREADS.min(items))
                .map(|_| {
                    scope.spawn(|| {
                        while next.fetch_add(1, Ordering::Relaxed) < items {
                            open(&workspace, WorkPhase::Review)?;
                        }
                        Ok::<(), String>(())
                    })
                })
                .collect();
            opened.into_iter().try_for_each(|thread| {
                thread.join().map_err(|_| "a thread broke off".to_owned())?
            })
        })?;
        Ok(Self { home, workspace })
    }

    /// Some item.
    fn any(&self) -> Result<Ulid, String> {
        let ids = self.workspace.trace_ids().map_err(|error| told(&error))?;
        ids.get(ids.len() / 2).copied().ok_or_else(|| "there are no items".to_owned())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(product::binary());
        command.arg("--home").arg(self.home.below("home")).args(arguments);
        // Evidence is written to where it runs.
        command.current_dir(self.home.below("."));
        command.env("COUNTERSIGN_CONFIG", self.home.below("config"));
        command.env("AGENT_EXIT_PROTOCOL_ENABLED", "true");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        let ended = self.command(arguments).output().map_err(|error| error.to_string())?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        Err(format!("{arguments:?} ended with {}: {said}", ended.status))
    }

    /// How long the board takes, start of the process included.
    fn list(&self) -> Result<Duration, String> {
        self.run(&["work", "list"])?;
        let list = || time(Clock::Wall, || self.run(&["work", "list"]));
        Ok(median_of_both(ROUNDS, list, list)?.0)
    }

    /// A claim by somebody who has the workspace open, and its release.
    fn claim(&self, id: Ulid) -> Result<Duration, String> {
        let item = self.workspace.work(id).map_err(|error| told(&error))?;
        time(Clock::Wall, || {
            let claimed = item.claim("somebody", None, 60_000, Claimant::Agent);
            let lease = claimed.map_err(|error| told(&error))?.lease;
            item.release(lease.epoch, Releaser::Bearer(Bearer::Holder(lease.holder)), "measured")
                .map_err(|error| told(&error))
        })
    }

    /// The same by processes of their own.
    fn claim_from_outside(&self, id: Ulid) -> Result<Duration, String> {
        let id = id.to_string();
        let took = time(Clock::Wall, || self.run(&["work", "claim", &id]));
        self.run(&["work", "release", &id, "--force", "--reason", "measured"])?;
        took
    }

    /// Opening an item by a process of its own.
    fn open_from_outside(&self) -> Result<Duration, String> {
        time(Clock::Wall, || self.run(&["work", "open", "say hello", "--phase", "REVIEW"]))
    }

    /// From an exit that is durable to the next agent at work.
    fn handoff(&self) -> Result<Handoff, String> {
        let ids: Vec<Ulid> = (0..HANDED)
            .map(|_| open(&self.workspace, WorkPhase::Draft))
            .collect::<Result<_, _>>()?;
        let starts = self.home.below("starts");
        let settings = self.home.below("countersign.toml");
        fs::write(&settings, agents(&starts.display().to_string()))
            .map_err(|error| error.to_string())?;
        let settings = settings.display().to_string();
        self.run(&["work", "dispatch", "--parallel", "1", "--settings", &settings])?;
        let starts = fs::read_to_string(&starts).map_err(|error| error.to_string())?;
        let starts: Vec<(&str, i64)> = starts
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(item, at)| Some((item, at.parse().ok()?)))
            .collect();
        let mut took = Vec::new();
        for id in ids {
            let mut exits = Vec::new();
            let file = self.workspace.trace_file(id);
            let read = each_event(&file, LedgerId::Trace(id), |event| {
                if event.event_type == EventType::AgentSessionCompleted {
                    exits.push(event.created_at.as_millis());
                }
            });
            let _ = read.map_err(|error| error.to_string())?;
            let id = id.to_string();
            let began: Vec<i64> =
                starts.iter().filter(|(item, _)| *item == id).map(|(_, at)| *at).collect();
            // The first agent follows no exit, and no agent follows the last one.
            took.extend(began.iter().skip(1).zip(&exits).map(|(began, left)| began - left));
        }
        took.sort_unstable();
        let nothing = "nothing was handed on";
        let median = *took.get(took.len() / 2).ok_or(nothing)?;
        let longest = *took.last().ok_or(nothing)?;
        Ok(Handoff { median, longest })
    }
}

fn open(workspace: &Workspace, phase: WorkPhase) -> Result<Ulid, String> {
    let new = NewWork {
        title: "say hello".to_owned(),
        label: None,
        phase,
        author_may_review: false,
        links: None,
    };
    Ok(workspace.open_work(&new).map_err(|error| told(&error))?.id())
}

/// Agents that note when they start and leave at once; none for the phase of the other items.
fn agents(starts: &str) -> String {
    let mut text = "[work]\nlease_seconds = 60\n".to_owned();
    for phase in ["DRAFT", "IMPLEMENTATION", "READY_FOR_REVIEW"] {
        let signal = format!(
            "{{\"protocol\":\"apm2_agent_exit\",\"version\":\"1.0.0\",\
             \"phase_completed\":\"{phase}\",\"exit_reason\":\"completed\"}}"
        );
        let script = format!(
            "echo \"$COUNTERSIGN_WORK_ITEM $(date +%s%3N)\" >> '{starts}'; \
             printf '%s %s\\n' \"$COUNTERSIGN_EXIT_NONCE\" '{signal}' >&\"$COUNTERSIGN_EXIT_FD\""
        );
        text += &format!(
            "[work.agents.{phase}]\nname = \"{}\"\ncommand = [\"sh\", \"-c\", {}]\n",
            phase.to_lowercase(),
            serde_json::Value::from(script)
        );
    }
    let script = format!("echo \"$COUNTERSIGN_WORK_ITEM $(date +%s%3N)\" >> '{starts}'");
    text + &format!("[work.ci]\ncommand = [\"sh\", \"-c\", {}]\n", serde_json::Value::from(script))
}
