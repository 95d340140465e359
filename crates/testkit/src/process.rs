//! Processes that write to a recording, and what each of them was told.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use countersign_format::hash::Hash;
use countersign_format::id::Ulid;

use crate::appender::EARLY;
use crate::home::TestHome;

/// What a process said on stdout.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Told {
    /// The recordings that it began, in that order.
    pub begun: Vec<Ulid>,
    /// Those of them that it concluded.
    pub closed: Vec<Ulid>,
    /// What was stored for events that were acknowledged.
    pub artifacts: Vec<Hash>,
    /// Ids of the events that were acknowledged to it.
    pub acked: Vec<String>,
    /// What each of them is about, also of those that have no id yet.
    pub purposes: Vec<String>,
    /// What failed, in full.
    pub errors: Vec<String>,
    /// How many events had been acknowledged when something failed first.
    pub acked_before_error: Option<usize>,
}

impl Told {
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match *words {
            ["ack", process, round, id, ref artifacts @ ..] => {
                self.purposes.push(format!("process {process} round {round}"));
                self.acked.extend((id != EARLY).then(|| id.to_owned()));
                self.artifacts.extend(artifacts.iter().map(|it| it.parse::<Hash>().unwrap()));
            }
            ["begun", id] => self.begun.push(id.parse().unwrap()),
            ["closed", id] => self.closed.push(id.parse().unwrap()),
            ["error", ..] => {
                self.acked_before_error.get_or_insert(self.acked.len());
                self.errors.push(line.to_owned());
            }
            _ => panic!("an appender said {line:?}"),
        }
    }
}

/// The command that runs the appender `binary` on a recording of `home`; `new` begins one.
#[must_use]
pub fn appender(binary: &str, home: &TestHome, recording: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.arg(home.config()).arg(home.path()).arg(recording).args(arguments);
    command
}

/// A process whose lines are read as they come. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    told: Told,
}

impl Process {
    /// Starts it.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            // A line without its end was cut off by the death of its writer, and says nothing.
            while out.read_line(&mut line).is_ok_and(|got| got > 0 && line.ends_with('\n')) {
                if tell.send(line.trim_end().to_owned()).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Self { child, lines, reader: Some(reader), told: Told::default() }
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(command: &mut Command) -> (ExitStatus, Told) {
        Self::start(command).finish()
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it was told so far, as far as that was heard.
    #[must_use]
    pub const fn told(&self) -> &Told {
        &self.told
    }

    /// Waits until so many events were acknowledged to it in all, or it has ended.
    pub fn wait_for_acks(&mut self, count: usize) {
        while self.told.purposes.len() < count {
            match self.lines.recv() {
                Ok(line) => self.told.take(&line),
                Err(_) => return,
            }
        }
    }

    /// Listens to it for some time.
    pub fn listen(&mut self, time: Duration) {
        match self.lines.recv_timeout(time) {
            Ok(line) => self.told.take(&line),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Kills it, so that it can do nothing about it, and says what it was told before.
    #[must_use]
    pub fn kill(mut self) -> Told {
        self.child.kill().unwrap();
        self.finish().1
    }

    /// Waits for its end.
    #[must_use]
    pub fn finish(mut self) -> (ExitStatus, Told) {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        while let Ok(line) = self.lines.try_recv() {
            self.told.take(&line);
        }
        (status, std::mem::take(&mut self.told))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
