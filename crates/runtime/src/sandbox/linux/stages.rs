//! The two processes on the way into a sandbox, in the order in which they do things.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::mount::MountFlags;
use rustix::process::{DumpableBehavior, Pid, Signal};

use super::{hidden, loopback, mounts, namespaces, privileges, processes, ruleset};
use crate::sandbox::line::Line;
use crate::sandbox::order::{Enter, Report, Start};
use crate::sandbox::supervise::let_go_of_outputs;
use crate::sandbox::{STAGE_COMMAND, SandboxStage};

/// Whether a process whose parent ended becomes a child of the process inside.
pub(in crate::sandbox) const ADOPTS_ORPHANS: bool = true;

/// How long the process inside may take to end all, once the recorder is gone or said so.
const ENDING: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The first process: enters namespaces, starts the second in them, and sees that all of it ends.
pub(in crate::sandbox) fn enter(enter: &Enter, line: &mut Line) -> Result<(), String> {
    close_inherited(line).map_err(|error| format!("cannot close descriptors: {error}"))?;
    // Signals of a terminal are for the recorder, and no tool gets at its terminal.
    let _ = rustix::process::setsid();
    adopt_orphans().map_err(|error| format!("cannot adopt orphans: {error}"))?;
    if let Some(wanted) = enter.plan.namespaces {
        let services = mounts::services();
        namespaces::enter(wanted, enter.bounds.network, line)?;
        if !enter.bounds.network {
            loopback::bring_up().map_err(|error| format!("cannot use loopback: {error}"))?;
        }
        mounts::arrange(&enter.bounds, &services)?;
        if wanted.proc {
            privileges::hand_on_mounting().map_err(|error| format!("capabilities: {error}"))?;
        }
    }
    line.send(&Report::Entered).map_err(|error| error.to_string())?;
    let mut inside = Command::new("/proc/self/exe")
        .arg0(env!("CARGO_PKG_NAME"))
        .args([STAGE_COMMAND, SandboxStage::Start.as_str()])
        .spawn()
        .map_err(|error| format!("cannot start the process inside: {error}"))?;
    let_go_of_outputs();
    let ended = wait_for(&mut inside, line);
    // In a namespace of processes nothing is left; without one, orphans were left to us.
    processes::end_descendants();
    if let Some(scratch) = &enter.bounds.scratch {
        // The recorder does it too, but may be gone.
        let _ = std::fs::remove_dir_all(scratch);
    }
    if let Some(signal) = ended.ok().and_then(|status| status.signal()) {
        // The recorder may be gone too.
        let _ = line.send(&Report::Lost(signal));
    }
    Ok(())
}

/// Waits for the process inside, and ends it if it goes on although the line is closed.
fn wait_for(inside: &mut Child, line: &Line) -> io::Result<ExitStatus> {
    let pid = i32::try_from(inside.id()).ok().and_then(Pid::from_raw);
    if let Some(ends) = pid.and_then(processes::descriptor_of) {
        let mut waiting = [
            PollFd::new(&ends, PollFlags::IN),
            PollFd::from_borrowed_fd(line.descriptor(), PollFlags::RDHUP),
        ];
        while let Err(rustix::io::Errno::INTR) = poll(&mut waiting, None) {}
        let mut waiting = [PollFd::new(&ends, PollFlags::IN)];
        if let Ok(0) = poll(&mut waiting, Some(&ENDING)) {
            inside.kill()?;
        }
    }
    inside.wait()
}

/// The second process: gives up all that the program must not have. Returns the version of Landlock
/// that is enforced.
pub(in crate::sandbox) fn confine(start: &Start) -> Result<i32, String> {
    let _ = rustix::process::setsid();
    adopt_orphans().map_err(|error| format!("cannot adopt orphans: {error}"))?;
    let namespaces = start.plan.namespaces;
    if namespaces.is_some_and(|namespaces| namespaces.proc) {
        let flags =
            MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("proc", "/proc", "proc", flags, None)
            .map_err(|error| format!("cannot mount `/proc`: {error}"))?;
    }
    let mut landlock = 0;
    if namespaces.is_some() || start.plan.landlock != Some(0) {
        privileges::give_up().map_err(|error| format!("cannot give up capabilities: {error}"))?;
        rustix::thread::set_no_new_privs(true)
            .map_err(|error| format!("cannot renounce new privileges: {error}"))?;
        let samples = hidden::samples(&start.bounds);
        landlock = ruleset::enforce(&start.plan, &start.bounds)?;
        hidden::check(&samples, start)?;
    }
    // The program could otherwise speak through this process, or read its orders.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // If the first process dies before this, the recorder closes the line.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot tie processes together: {error}"))?;
    Ok(landlock)
}

/// Whatever loses its parent becomes a child of this process.
fn adopt_orphans() -> rustix::io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// Closes what the recorder's own parent may have left open without being closed on exec.
fn close_inherited(line: &Line) -> io::Result<()> {
    let ours = line.descriptor().as_raw_fd();
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for descriptor in open.into_iter().filter(|&descriptor| descriptor > 2 && descriptor != ours) {
        // One of them was the listing itself, and is closed already.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// A standard input that gives `text`. It is a file in memory, so nobody has to wait until it is
/// read.
pub(in crate::sandbox) fn stdin_of(text: &str) -> io::Result<Stdio> {
    let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}
