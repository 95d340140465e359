//! Appends to one recording and says what was acknowledged, for tests that need real processes.
//!
//! `CONFIG HOME RECORDING PROCESS ROUNDS [threads=N] [after-error=stop|go-on] [twin=NAME]`, where a
//! RECORDING of `new` is begun first. Every line on stdout is one fact: `begun ID`,
//! `ack PROCESS ROUND EVENT`, `error PROCESS ROUND TEXT`. The status is 1 if anything failed. The
//! twins `no-sync` and `early` are broken, so that whoever looks for lost events has some to find.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use countersign_runtime::{Environment, Recording, Workspace};

use crate::disk::UnsyncedDisk;
use crate::note;

/// How a writer is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// Nothing is synced.
    NoSync,
    /// What waits to be written is acknowledged.
    Early,
}

/// By how many events the twin that acknowledges too early is ahead of what it writes.
const EARLY_BY: u64 = 4;

/// What stands for the id of an event that is not there yet.
pub(crate) const EARLY: &str = "early";

/// What the command line asks for.
struct Task {
    config: String,
    home: String,
    recording: String,
    process: String,
    rounds: u64,
    threads: u64,
    go_on: bool,
    broken: Option<Broken>,
}

impl Task {
    fn parse(arguments: &[String]) -> Option<Self> {
        let [config, home, recording, process, rounds, options @ ..] = arguments else {
            return None;
        };
        let mut task = Self {
            config: config.clone(),
            home: home.clone(),
            recording: recording.clone(),
            process: process.clone(),
            rounds: rounds.parse().ok()?,
            threads: 1,
            go_on: false,
            broken: None,
        };
        for option in options {
            match option.split_once('=')? {
                ("threads", count) => task.threads = count.parse().ok()?,
                ("after-error", "stop") => task.go_on = false,
                ("after-error", "go-on") => task.go_on = true,
                ("twin", "no-sync") => task.broken = Some(Broken::NoSync),
                ("twin", "early") => task.broken = Some(Broken::Early),
                _ => return None,
            }
        }
        Some(task)
    }

    fn open(&self) -> Result<Recording, Box<dyn Error>> {
        let mut environment = Environment::system();
        if self.broken == Some(Broken::NoSync) {
            environment.disk = Arc::new(UnsyncedDisk);
        }
        let workspace =
            Workspace::open(Path::new(&self.config), Path::new(&self.home), environment)?;
        if self.recording == "new" {
            let recording = workspace.begin_recording(Some(&self.process), None)?;
            say(&format!("begun {}", recording.id()))?;
            return Ok(recording);
        }
        Ok(workspace.recording(self.recording.parse()?)?)
    }

    /// Appends with one thread; whether everything was acknowledged.
    fn append(&self, recording: &Recording, thread: u64) -> std::io::Result<bool> {
        let mut sound = true;
        let process = match self.threads {
            1 => self.process.clone(),
            _ => format!("{}.{thread}", self.process),
        };
        for round in 0..self.rounds {
            if self.broken == Some(Broken::Early) {
                let ahead =
                    if round == 0 { 0..=EARLY_BY } else { round + EARLY_BY..=round + EARLY_BY };
                for round in ahead.filter(|round| *round < self.rounds) {
                    say(&format!("ack {process} {round} {EARLY}"))?;
                }
            }
            match recording.submit(note(&format!("process {process} round {round}"))) {
                Ok(_) if self.broken == Some(Broken::Early) => {}
                Ok(recorded) => {
                    for event in recorded.events {
                        say(&format!("ack {process} {round} {}", event.event_id))?;
                    }
                }
                Err(error) => {
                    sound = false;
                    say(&format!("error {process} {round} {}", causes(&error)))?;
                    if !self.go_on {
                        break;
                    }
                }
            }
        }
        Ok(sound)
    }
}

/// One line, written at once: whoever reads it knows that it is whole.
fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}

/// An error and what lies behind it, in one line.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text.replace('\n', " ")
}

fn run(task: &Task) -> std::io::Result<bool> {
    let recording = match task.open() {
        Ok(recording) => recording,
        Err(error) => {
            say(&format!("error {} open {}", task.process, causes(&*error)))?;
            return Ok(false);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..task.threads)
            .map(|thread| {
                let recording = &recording;
                scope.spawn(move || task.append(recording, thread))
            })
            .collect();
        let mut sound = true;
        for thread in threads {
            sound &= thread.join().unwrap_or(Ok(false))?;
        }
        Ok(sound)
    })
}

/// Does what the command line asks for.
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    match Task::parse(arguments).map(|task| run(&task)) {
        Some(Ok(true)) => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
        None => ExitCode::from(2),
    }
}
