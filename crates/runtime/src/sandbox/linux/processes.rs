//! Finding processes and ending them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, wait,
};

use crate::sandbox::MARKER;
use crate::sandbox::supervise::has_no_child;

/// How long one survivor may take to be gone.
const GOING: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// How often survivors are looked for before it is said that they do not end.
const LOOKS_MAX: usize = 5;

/// What becomes readable when the process ends; None on kernels that do not have it.
pub(in crate::sandbox) fn descriptor_of(process: Pid) -> Option<OwnedFd> {
    pidfd_open(process, PidfdFlags::empty()).ok()
}

/// Sends `signal` to everything that this process started, directly or not.
pub(in crate::sandbox) fn signal_all(_program: Pid, signal: Signal) {
    if getpid() == Pid::INIT {
        // The first process of a namespace means all others by this, and they cannot be more.
        let _ = kill_process_group(Pid::INIT, signal);
        return;
    }
    if signal == Signal::KILL {
        // One after the other: a shell whose child is killed must not get to its next command.
        signal_descendants(Signal::STOP);
    }
    signal_descendants(signal);
}

fn signal_descendants(signal: Signal) {
    for process in descendants() {
        let _ = kill_process(process, signal);
    }
}

/// Kills all descendants, and waits until none is left.
pub(super) fn end_descendants() {
    while !has_no_child() {
        signal_descendants(Signal::STOP);
        signal_descendants(Signal::KILL);
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Everything that descends from this process. Since it adopts orphans, a new session or a dead
/// parent does not hide one.
fn descendants() -> HashSet<Pid> {
    let parents: Vec<(Pid, Pid)> = processes()
        .into_iter()
        .filter_map(|process| Some((process, parent_of(&stat_of(process)?)?)))
        .collect();
    let mut found = HashSet::new();
    let mut wave = HashSet::from([getpid()]);
    while !wave.is_empty() {
        let children = parents.iter().filter(|(_, parent)| wave.contains(parent));
        wave = children.map(|(child, _)| *child).filter(|child| !found.contains(child)).collect();
        found.extend(&wave);
    }
    found
}

fn stat_of(process: Pid) -> Option<String> {
    let bytes = fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The fourth field of a process's `stat`. The second is its name in parentheses, which may hold
/// anything.
fn parent_of(stat: &str) -> Option<Pid> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().and_then(Pid::from_raw)
}

fn processes() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .collect()
}

pub(in crate::sandbox) fn end_survivors(marker: &str) -> io::Result<usize> {
    // An error here would look as if there were none.
    fs::read_dir("/proc")?;
    let mut ended = 0;
    for _ in 0..LOOKS_MAX {
        let mut found = 0;
        for process in processes() {
            if process != getpid() && end_marked(process, marker)? {
                found += 1;
            }
        }
        // One that was being started while we looked shows at the next look.
        if found == 0 {
            return Ok(ended);
        }
        ended += found;
    }
    let message = format!("processes marked `{marker}` do not end");
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

/// Ends a process if it carries the marker. It is held by its descriptor, so that a number that is
/// used again cannot make us end somebody else.
fn end_marked(process: Pid, marker: &str) -> io::Result<bool> {
    let held = descriptor_of(process);
    if !carries(process, marker) {
        return Ok(false);
    }
    match &held {
        Some(held) => {
            if let Err(error) = pidfd_send_signal(held, Signal::KILL)
                && error != rustix::io::Errno::SRCH
            {
                return Err(error.into());
            }
            let mut waiting = [PollFd::new(held, PollFlags::IN)];
            while let Err(rustix::io::Errno::INTR) = poll(&mut waiting, Some(&GOING)) {}
        }
        None => kill_process(process, Signal::KILL)?,
    }
    Ok(true)
}

/// Whether a process was started with the marker. One that ended has no environment any more.
fn carries(process: Pid, marker: &str) -> bool {
    let wanted = format!("{MARKER}={marker}");
    fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).is_ok_and(|environment| {
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_found_whatever_the_name_of_the_process() {
        assert_eq!(parent_of("12 (sh) S 7 12 12 0"), Pid::from_raw(7));
        assert_eq!(parent_of("12 (a) S 1 (b) R 9 12 12"), Pid::from_raw(9));
        assert_eq!(parent_of("12 (sh"), None);
    }
}
