//! `countersign watch`.

mod columns;
mod frame;
mod line;
mod snapshot;
mod terminal;

use std::io::{IsTerminal, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use countersign_runtime::Workspace;
use countersign_runtime::index::IndexError;
use countersign_runtime::sight::{Lookout, Overview};
use countersign_runtime::store::Ledgers as _;

use self::frame::Frame;
use self::terminal::Terminal;
use super::run::watch_signals;
use crate::{Caller, CommandError, Exit, Format};

/// How often the clocks on the screen go on.
const TICK: Duration = Duration::from_secs(1);
/// For how long the store is waited for before keys and signals are looked at.
const WAIT: Duration = Duration::from_millis(100);
/// The shortest time between two looks: a trace that grows without pause must not be all that is
/// done here.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The workspace live: what runs, what waits for a person, decisions, work, last events
///
/// Drawn anew whenever something is recorded; `q` or Ctrl-C ends it. Without a terminal, with
/// `--once` or `--json`, it is printed once. Only the index and the ends of traces are read.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// One line, for a shell's prompt or the status bar of a coding agent; it tells of the last
    /// denial for a day
    #[arg(long, conflicts_with = "once")]
    line: bool,
    /// Print it once and end
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(args: &WatchArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let mut lookout = Lookout::open(&workspace).map_err(unreadable)?;
    let json = caller.output.format() == Format::Json;
    let live = stdin().is_terminal() && stdout().is_terminal();
    if live && !args.line && !args.once && !json {
        return live_screen(&workspace, &mut lookout);
    }
    let seen = lookout.look().map_err(unreadable)?;
    let now = workspace.now();
    match (args.line, json) {
        (true, true) => caller.output.json(&line::Standing::of(&seen, now))?,
        (true, false) => caller.output.line(line::Standing::of(&seen, now))?,
        (false, true) => caller.output.json(&snapshot::document(&seen, now))?,
        (false, false) => {
            for line in snapshot::lines(&seen, now) {
                caller.output.line(line)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn unreadable(error: IndexError) -> CommandError {
    CommandError::failed(error).with_hint("run `countersign doctor` to see what is wrong")
}

/// Draws until somebody has seen enough.
fn live_screen(workspace: &Workspace, lookout: &mut Lookout) -> Result<Exit, CommandError> {
    let stop = watch_signals()?;
    let resized = flag(signal_hook::consts::SIGWINCH)?;
    let suspended = flag(signal_hook::consts::SIGTSTP)?;
    let terminal = Terminal::begin()?;
    let store = workspace.store();
    let home = workspace.home().display().to_string();
    let mut change = store.wait(0, Duration::ZERO);
    let mut seen = look(lookout)?;
    let (mut looked, mut drawn) = (Instant::now(), None);
    let mut stale = false;
    while !stop.load(Ordering::Relaxed) && !terminal.wants_to_end()? {
        if stale && looked.elapsed() >= LOOK_EVERY {
            seen = look(lookout)?;
            (looked, stale, drawn) = (Instant::now(), false, None);
        }
        if suspended.swap(false, Ordering::Relaxed) {
            terminal.suspend()?;
            drawn = None;
        }
        let resize = resized.swap(false, Ordering::Relaxed);
        if resize || drawn.is_none_or(|drawn: Instant| drawn.elapsed() >= TICK) {
            let frame = Frame { seen: &seen, now: workspace.now(), home: &home };
            terminal.draw(&frame.lines(terminal.size()))?;
            drawn = Some(Instant::now());
        }
        let news = store.wait(change, WAIT);
        stale |= news != change;
        change = news;
        // News can be lost: a file system shared with another machine tells of none.
        stale |= looked.elapsed() >= TICK * 2;
    }
    Ok(Exit::Done)
}

/// Raised by a signal.
fn flag(signal: i32) -> Result<Arc<AtomicBool>, CommandError> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, Arc::clone(&flag))
        .map_err(|error| CommandError::failed_doing("cannot watch for signals", error))?;
    Ok(flag)
}

fn look(lookout: &mut Lookout) -> Result<Overview, CommandError> {
    lookout.look().map_err(unreadable)
}
