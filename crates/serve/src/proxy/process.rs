//! A server that is a process of ours, on its standard streams.
//!
//! It has a process group of its own, which is ended as a whole: many servers are started by a program
//! that starts another one.

use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// How long a server may take to end by itself once its input has ended, and once it was asked to: less
/// in all than clients wait before they end us.
const PATIENCE: Duration = Duration::from_millis(700);
/// How often is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The process.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    /// Since when a message is being written to it.
    writing: Mutex<Option<Instant>>,
}

impl ServerProcess {
    /// Starts it. What it says on standard error goes where ours goes.
    pub(super) fn start(command: &[String]) -> io::Result<(Self, ChildStdout)> {
        let missing = || io::Error::new(io::ErrorKind::InvalidInput, "no command was given");
        let (program, arguments) = command.split_first().ok_or_else(missing)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(missing)?;
        let (child, input) = (Mutex::new(child), Mutex::new(input));
        Ok((Self { child, input, writing: Mutex::default() }, output))
    }

    /// Sends one line.
    pub(super) fn send(&self, line: &[u8]) -> io::Result<()> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let input = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        self.note_writing(Some(Instant::now()));
        let sent = input.write_all(line).and_then(|()| input.flush());
        self.note_writing(None);
        sent
    }

    fn note_writing(&self, since: Option<Instant>) {
        *self.writing.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Whether it has not taken a message for this long.
    pub(super) fn is_stuck(&self, patience: Duration) -> bool {
        let since = *self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| since.elapsed() >= patience)
    }

    /// Ends it: its input first, then by asking, then by force. Gives how it ended.
    pub(super) fn end(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // A server that reads nothing blocks whoever writes to it; then its input is not closed here,
        // and it is ended all the same.
        if let Ok(mut input) = self.input.try_lock() {
            *input = None;
        }
        for signal in [Signal::TERM, Signal::KILL] {
            if has_ended(group, PATIENCE) {
                break;
            }
            if let Some(group) = group {
                let _ = kill_process_group(group, signal);
            }
        }
        // While its leader is not reaped, the group's number belongs to nobody else.
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        child.wait().ok()
    }
}

/// Waits for the end of the group's leader, which is not reaped by that.
fn has_ended(leader: Option<Pid>, patience: Duration) -> bool {
    let Some(leader) = leader else { return true };
    let until = Instant::now() + patience;
    loop {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(leader), how) {
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
            Ok(None) => return false,
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

/// How a process ended, in words.
pub(super) fn told(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("the server has ended with exit code {code}"),
        Some((_, Some(signal))) => format!("the server was ended by signal {signal}"),
        _ => "the server has ended".to_owned(),
    }
}
