//! The recorder's side of a call: starts the process that enters the sandbox, gives it its orders,
//! takes what it says and what the tool prints, and sees to it that all of it ends.
//!
//! One thread waits for everything at once. Memory is bounded by the limits of output.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::channel::SIGNAL_BYTES_MAX;
use super::line::Line;
use super::order::{Enter, Order, Report, Start};
use super::output::{Drain, Stream};
use super::stop::Stop;
use super::{MARKER, STAGE_COMMAND, SandboxStage, platform};

/// How long a tool may take to end by itself when it is asked to.
const ASKED: Duration = Duration::from_secs(2);
/// How long output is waited for once the program ended: others may hold its end open for ever.
const LINGERING: Duration = Duration::from_millis(500);
/// How long the sandbox may take to end, once it was told to.
const CLOSED: Duration = Duration::from_secs(5);

/// How often a stop is looked for where it cannot be waited for.
const LOOK: Duration = Duration::from_millis(100);

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing was to be started; this is the version of Landlock that is enforced.
    Ready(i32),
    /// The sandbox cannot be had, for this reason.
    Refused(String),
    /// The program cannot be run, for this reason.
    Missing(String),
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It took too long.
    TimedOut,
    /// It was asked to.
    Stopped,
    /// It went on for too long after it had signalled.
    Lingered,
}

/// What a call left behind.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) end: End,
    pub(crate) stdout: Stream,
    pub(crate) stderr: Stream,
    /// What it wrote to the descriptor for signals.
    pub(crate) signals: Vec<u8>,
    pub(crate) elapsed: Duration,
}

/// Somebody who wants to know what a program does while it runs.
pub(crate) trait Listener: std::fmt::Debug {
    /// It is about to run.
    fn started(&self);
    /// It printed this on its standard output.
    fn printed(&self, bytes: &[u8]);
}

/// What holds for a call besides its orders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drive<'a> {
    /// The binary that enters the sandbox.
    pub(crate) helper: &'a Path,
    pub(crate) marker: &'a str,
    pub(crate) time: Duration,
    pub(crate) output_bytes: u64,
    /// Who listens meanwhile.
    pub(crate) listener: Option<&'a dyn Listener>,
    /// How long it may go on after it has signalled.
    pub(crate) grace: Duration,
}

impl Drive<'_> {
    /// Runs what `start` says to its end.
    pub(crate) fn run(&self, start: Start, stop: &Stop) -> Driven {
        let began = Instant::now();
        if stop.is_set() {
            return Driven::without_output(End::Stopped, began);
        }
        match Call::begin(self, start, stop, began) {
            Ok(call) => call.finish(),
            Err(error) => {
                let reason = format!("cannot start `{}`: {error}", self.helper.display());
                Driven::without_output(End::Refused(reason), began)
            }
        }
    }
}

impl Driven {
    fn without_output(end: End, began: Instant) -> Self {
        let (stdout, stderr) = (Stream::default(), Stream::default());
        Self { end, stdout, stderr, signals: Vec::new(), elapsed: began.elapsed() }
    }
}

/// How far a call is on the way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The sandbox is being entered, or the program runs, until its time is up.
    Running,
    /// It was asked to end.
    Asked,
    /// The program has ended; its output is waited for.
    Lingering,
    /// The sandbox was told to end with all that is in it.
    Closed,
    /// It has ended or was killed; what it printed is still read.
    Draining,
    /// Nothing more is waited for.
    Over,
}

struct Call<'a> {
    child: Child,
    line: Line,
    stdout: Drain,
    stderr: Drain,
    signals: Vec<u8>,
    listener: Option<&'a dyn Listener>,
    grace: Duration,
    stop: &'a Stop,
    /// Until the process inside is ready for it.
    start: Option<Start>,
    /// Whether the program may have run.
    starting: bool,
    /// Whether the program is known to have ended.
    gone: bool,
    /// Whether its time is short because it has signalled.
    lingers: bool,
    step: Step,
    /// When the step is over if nothing else happens; None if it never is.
    until: Option<Instant>,
    /// How it ended, and after what time.
    end: Option<(End, Duration)>,
    began: Instant,
}

impl<'a> Call<'a> {
    fn begin(drive: &Drive<'a>, start: Start, stop: &'a Stop, began: Instant) -> io::Result<Self> {
        let (mut line, theirs) = Line::pair()?;
        let enter = Enter { plan: start.plan.clone(), bounds: start.bounds.clone() };
        line.queue(&Order::Enter(enter))?;
        let mut child = Command::new(drive.helper)
            .args([STAGE_COMMAND, SandboxStage::Enter.as_str()])
            // Nothing of the tool's environment may reach a process that is not yet confined: a
            // variable can name code to be loaded.
            .env_clear()
            .env(MARKER, drive.marker)
            .current_dir("/")
            .stdin(theirs)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let drain = |pipe: Option<OwnedFd>| {
            let pipe = pipe.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Drain::new(pipe, drive.output_bytes)
        };
        let stdout = drain(child.stdout.take().map(OwnedFd::from));
        let stderr = drain(child.stderr.take().map(OwnedFd::from));
        let (stdout, stderr) = match (stdout, stderr) {
            (Ok(stdout), Ok(stderr)) => (stdout, stderr),
            (Err(error), _) | (_, Err(error)) => {
                // The line closes with `line`, so the child ends by itself.
                drop(line);
                let _ = child.wait();
                return Err(error);
            }
        };
        Ok(Self {
            child,
            line,
            stdout,
            stderr,
            signals: Vec::new(),
            listener: drive.listener,
            grace: drive.grace,
            stop,
            start: Some(start),
            starting: false,
            gone: false,
            lingers: false,
            step: Step::Running,
            until: began.checked_add(drive.time),
            end: None,
            began,
        })
    }

    fn finish(mut self) -> Driven {
        while !self.is_over() {
            self.wait();
            let listener = self.listener;
            self.stdout.read(|bytes| listener.iter().for_each(|it| it.printed(bytes)));
            self.stderr.read(|_| {});
            self.line.flush();
            self.listen();
            self.step_on(Instant::now());
        }
        self.line.close();
        // All that the call started is gone when this process is: it waits for the rest.
        let status = self.child.wait();
        let unsaid = || (self.unsaid(status.ok()), self.began.elapsed());
        let (end, elapsed) = self.end.clone().unwrap_or_else(unsaid);
        let (stdout, stderr) = (self.stdout.into_stream(), self.stderr.into_stream());
        Driven { end, stdout, stderr, signals: self.signals, elapsed }
    }

    fn has_all_output(&self) -> bool {
        self.stdout.descriptor().is_none() && self.stderr.descriptor().is_none()
    }

    fn is_over(&self) -> bool {
        self.step == Step::Over || self.line.is_ended() && self.has_all_output()
    }

    /// Waits until something happens or the step is over.
    fn wait(&self) {
        let mut waiting = Vec::with_capacity(4);
        if !self.line.is_ended() {
            let line = self.line.descriptor();
            let mut wanted = PollFlags::IN;
            wanted.set(PollFlags::OUT, self.line.has_outgoing());
            waiting.push(PollFd::from_borrowed_fd(line, wanted));
        }
        let outputs = [&self.stdout, &self.stderr];
        let outputs = outputs.into_iter().filter_map(Drain::descriptor);
        let stop = (self.step == Step::Running).then(|| self.stop.descriptor()).flatten();
        let readable = outputs.chain(stop);
        waiting.extend(readable.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        // Without descriptors to wait for a stop with, it is looked for.
        let unwatched = self.step == Step::Running && stop.is_none();
        let left = if unwatched { Some(left.unwrap_or(LOOK).min(LOOK)) } else { left };
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // An interrupted or failed wait is one that found nothing: the step still ends in time.
        let _ = poll(&mut waiting, left.as_ref());
    }

    /// Takes all that the sandbox says.
    fn listen(&mut self) {
        while !self.line.is_ended() {
            match self.line.receive() {
                Ok(Some(report)) => self.take(report),
                Ok(None) => return,
                Err(error) => {
                    // Whoever says what nobody understands is not trusted with a tool.
                    self.conclude(End::Refused(format!("the sandbox cannot be heard: {error}")));
                    self.kill(Instant::now());
                    return;
                }
            }
        }
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Unmapped => self.order(&Order::Mapped(platform::map_users(self.child.id()))),
            Report::Entered => {
                if let Some(start) = self.start.take() {
                    self.order(&Order::Start(start));
                }
            }
            Report::Starting => {
                self.starting = true;
                self.listener.iter().for_each(|it| it.started());
            }
            Report::Signal(bytes) => self.take_signal(&bytes),
            Report::Ready(landlock) => self.conclude(End::Ready(landlock)),
            Report::Refused(reason) => self.conclude(End::Refused(reason)),
            Report::Missing(reason) => self.conclude(End::Missing(reason)),
            Report::Exited(status) => self.conclude(End::Exited(status)),
            Report::Signalled(signal) => self.conclude(End::Signalled(signal)),
            Report::Lost(signal) => self.conclude(self.lost(signal)),
        }
    }

    /// Keeps a signal; from the first on, the program's time is short.
    fn take_signal(&mut self, bytes: &[u8]) {
        let room = SIGNAL_BYTES_MAX.saturating_sub(self.signals.len()).min(bytes.len());
        let first = self.signals.is_empty();
        self.signals.extend_from_slice(bytes.get(..room).unwrap_or_default());
        if first && self.step == Step::Running {
            let soon = Instant::now().checked_add(self.grace);
            if let Some(soon) = soon.filter(|soon| self.until.is_none_or(|until| *soon < until)) {
                self.until = Some(soon);
                self.lingers = true;
            }
        }
    }

    fn order(&mut self, order: &Order) {
        match self.line.queue(order) {
            Ok(()) => self.line.flush(),
            Err(error) => self.conclude(End::Missing(format!("cannot pass it on: {error}"))),
        }
    }

    /// Keeps the first reason for the end.
    fn conclude(&mut self, end: End) {
        let elapsed = self.began.elapsed();
        self.gone = true;
        self.end.get_or_insert((end, elapsed));
        if self.step == Step::Running {
            self.step = Step::Lingering;
            self.until = Instant::now().checked_add(LINGERING);
        }
    }

    fn step_on(&mut self, now: Instant) {
        let late = self.until.is_some_and(|until| until <= now);
        match self.step {
            Step::Running if self.stop.is_set() => self.ask(End::Stopped, now),
            Step::Running if late && self.lingers => self.ask(End::Lingered, now),
            Step::Running if late => self.ask(End::TimedOut, now),
            Step::Asked | Step::Lingering if late || self.gone && self.has_all_output() => {
                self.close(now);
            }
            Step::Closed if late => self.kill(now),
            Step::Draining if late => self.step = Step::Over,
            _ => {}
        }
        if self.line.is_ended() && !matches!(self.step, Step::Draining | Step::Over) {
            self.step = Step::Draining;
            self.until = now.checked_add(LINGERING);
        }
    }

    fn ask(&mut self, end: End, now: Instant) {
        self.end = Some((end, self.began.elapsed()));
        if self.start.is_some() {
            // There is no program yet that could be asked.
            self.close(now);
            return;
        }
        self.order(&Order::Terminate);
        self.step = Step::Asked;
        self.until = now.checked_add(ASKED);
    }

    fn close(&mut self, now: Instant) {
        self.line.close();
        self.step = Step::Closed;
        self.until = now.checked_add(CLOSED);
    }

    fn kill(&mut self, now: Instant) {
        // The process inside dies with this one.
        let _ = self.child.kill();
        self.step = Step::Draining;
        self.until = now.checked_add(CLOSED);
    }

    /// The end of a call of which nobody said how it ended.
    fn unsaid(&self, status: Option<ExitStatus>) -> End {
        use std::os::unix::process::ExitStatusExt as _;

        match status {
            Some(status) => match status.signal() {
                Some(signal) => self.lost(signal),
                None => End::Refused(format!("the sandbox ended without a word: {status}")),
            },
            None => End::Refused("the sandbox is gone without a trace".to_owned()),
        }
    }

    fn lost(&self, signal: i32) -> End {
        if self.starting {
            End::Signalled(signal)
        } else {
            End::Refused(format!("the sandbox was ended by signal {signal}"))
        }
    }
}
