//! Where there is no sandbox: a program runs in a process group of its own, with limits.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};

use super::line::Line;
use super::order::{Enter, Order, Report, Start};
use super::stage;

/// A process whose parent ended becomes a child of the system's.
pub(super) const ADOPTS_ORPHANS: bool = false;

/// There is nothing to enter, so this process is also the one inside.
pub(super) fn enter(enter: &Enter, line: &mut Line) -> Result<(), String> {
    if enter.plan.namespaces.is_some() {
        return Err("there are no namespaces on this system".to_owned());
    }
    let _ = rustix::process::setsid();
    let said = |error: io::Error| error.to_string();
    line.send(&Report::Entered).map_err(said)?;
    match line.wait().map_err(said)? {
        Some(Order::Start(start)) => stage::inside(&start, line).map_err(said)?,
        _ => Ok(()),
    }
}

/// Nothing can be given up.
pub(super) fn confine(start: &Start) -> Result<i32, String> {
    match start.plan.landlock {
        Some(0) => Ok(0),
        _ => Err("there is no Landlock on this system".to_owned()),
    }
}

/// There are no user namespaces.
pub(super) fn map_users(_process: u32) -> bool {
    false
}

/// The end of a process is not told; it is looked for.
pub(super) fn descriptor_of(_process: Pid) -> Option<OwnedFd> {
    None
}

/// Sends `signal` to the group of the program.
pub(super) fn signal_all(program: Pid, signal: Signal) {
    let _ = kill_process_group(program, signal);
}

/// The environment of other processes is not shown.
pub(super) fn end_survivors(_marker: &str) -> io::Result<usize> {
    Ok(0)
}

/// A standard input that gives `text`, by way of a thread that waits until it is read.
pub(super) fn stdin_of(text: &str) -> io::Result<Stdio> {
    let (read, mut write) = io::pipe()?;
    let text = text.to_owned();
    // A program that does not want it closes the pipe.
    std::thread::Builder::new().spawn(move || drop(write.write_all(text.as_bytes())))?;
    Ok(read.into())
}
