//! Waiting for the program, from inside the sandbox, and ending what it leaves behind.

use std::fs::File;
use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

use super::channel::Channel;
use super::line::Line;
use super::order::{Order, Report};
use super::platform;

/// How often orphans are looked for, where the end of the program is told.
const LOOK_TOLD: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often the program is looked at, where it is not.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What a look at the children gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Some are still there.
    Some,
    /// There are none any more.
    None,
}

/// Reports the end of `program` and stays until the recorder closes the line, or nothing can be left.
/// Then ends whatever is left.
pub(super) fn to_its_end(
    program: Pid,
    channel: Option<Channel>,
    line: &mut Line,
) -> io::Result<()> {
    let_go_of_outputs();
    let watched = watch(program, channel, line);
    end_all(program);
    watched
}

/// Has outputs end when the last process of the tool ends, not when this one does.
pub(super) fn let_go_of_outputs() {
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
        let _ = rustix::stdio::dup2_stderr(&nowhere);
    }
}

fn watch(program: Pid, mut channel: Option<Channel>, line: &mut Line) -> io::Result<()> {
    let ends = platform::descriptor_of(program);
    let mut ended = false;
    loop {
        // Where orphans are not adopted, some may be left although no child is.
        if reap(program, channel.as_mut(), line, &mut ended)? == Seen::None
            && platform::ADOPTS_ORPHANS
        {
            return Ok(());
        }
        let told = if ended { None } else { ends.as_ref() };
        let mut waiting = vec![PollFd::from_borrowed_fd(line.descriptor(), PollFlags::IN)];
        waiting.extend(told.map(|ends| PollFd::new(ends, PollFlags::IN)));
        let signals = channel.as_ref().and_then(Channel::descriptor);
        waiting.extend(signals.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let look = if ends.is_some() || ended { LOOK_TOLD } else { LOOK };
        let _ = poll(&mut waiting, Some(&look));
        let spoken = waiting.first().is_some_and(|line| !line.revents().is_empty());
        drop(waiting);
        if let Some(channel) = &mut channel {
            channel.pass_on(line)?;
        }
        if !spoken {
            continue;
        }
        match line.receive()? {
            Some(Order::Terminate) => {
                platform::signal_all(program, Signal::TERM);
                // Whatever is stopped cannot take the hint.
                platform::signal_all(program, Signal::CONT);
            }
            Some(_) => {}
            None if line.is_ended() => return Ok(()),
            None => {}
        }
    }
}

/// Takes the children that have ended, and reports the program's end.
fn reap(
    program: Pid,
    mut channel: Option<&mut Channel>,
    line: &mut Line,
    ended: &mut bool,
) -> io::Result<Seen> {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == program => {
                if let Some(report) = report_of(status) {
                    *ended = true;
                    // What it signalled comes before its end.
                    if let Some(channel) = &mut channel {
                        channel.pass_on(line)?;
                    }
                    line.send(&report)?;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Seen::Some),
            Err(Errno::INTR) => {}
            Err(_) => return Ok(Seen::None),
        }
    }
}

fn report_of(status: WaitStatus) -> Option<Report> {
    let exited = status.exit_status().map(Report::Exited);
    exited.or_else(|| status.terminating_signal().map(Report::Signalled))
}

/// Kills all that is left and waits until it is gone.
fn end_all(program: Pid) {
    // Looking for processes costs more than all the rest, and usually there are none.
    while !(platform::ADOPTS_ORPHANS && has_no_child()) {
        platform::signal_all(program, Signal::KILL);
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Whether this process has no children, not even dead ones.
pub(super) fn has_no_child() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}
