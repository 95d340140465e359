//! Appends to recordings and says what was acknowledged, for tests that need real processes.
//!
//! `CONFIG HOME RECORDING PROCESS ROUNDS [OPTION...]`, where a RECORDING of `new` is begun first. Every
//! line on stdout is one fact: `begun ID`, `ack PROCESS ROUND EVENT [ARTIFACT]`, `closed ID`,
//! `error PROCESS ROUND TEXT`. The status is 1 if anything failed. The options:
//!
//! - `threads=N`, and `after-error=stop|go-on`.
//! - `artifacts=N`: each Nth event has an artifact of its own.
//! - `conclude=N`: a recording that was begun here is concluded after N events, and the next one begun;
//!   so is the next one where somebody else has concluded the one that was given.
//! - `twin=no-sync|no-artifact-sync|deaf|early`: broken, so that whoever looks for what was lost has
//!   some to find.

use std::error::Error;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::{Environment, Recording, Workspace, WriteError};

use crate::disk::{CarelessDisk, Omits};
use crate::note;

/// How a writer is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// Its disk leaves something out.
    Careless(Omits),
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
    /// Of so many events one has an artifact.
    artifacts: Option<u64>,
    /// After so many events a recording is concluded.
    conclude: Option<u64>,
    broken: Option<Broken>,
}

/// How far an append has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Everything was acknowledged.
    Through,
    /// Somebody else has concluded the recording before this round.
    Ended(u64),
    Failed,
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
            artifacts: None,
            conclude: None,
            broken: None,
        };
        for option in options {
            match option.split_once('=')? {
                ("threads", count) => task.threads = count.parse().ok()?,
                ("after-error", "stop") => task.go_on = false,
                ("after-error", "go-on") => task.go_on = true,
                ("artifacts", each) => task.artifacts = Some(each.parse().ok()?),
                ("conclude", each) => task.conclude = Some(each.parse().ok()?),
                ("twin", name) => {
                    task.broken = Some(match name {
                        "no-sync" => Broken::Careless(Omits::Syncs),
                        "no-artifact-sync" => Broken::Careless(Omits::ArtifactSyncs),
                        "deaf" => Broken::Careless(Omits::SyncErrors),
                        "early" => Broken::Early,
                        _ => return None,
                    });
                }
                _ => return None,
            }
        }
        let sound = task.artifacts != Some(0) && task.conclude != Some(0);
        // Threads of one process come to the end of a recording at different times.
        (sound && (task.threads == 1 || task.conclude.is_none())).then_some(task)
    }

    fn workspace(&self) -> Result<Workspace, Box<dyn Error>> {
        let mut environment = Environment::system();
        if let Some(Broken::Careless(omits)) = self.broken {
            environment.disk = Arc::new(CarelessDisk { omits });
        }
        Ok(Workspace::open(Path::new(&self.config), Path::new(&self.home), environment)?)
    }

    fn begin(&self, workspace: &Workspace) -> Result<Recording, Box<dyn Error>> {
        let recording = workspace.begin_recording(Some(&self.process), None)?;
        say(&format!("begun {}", recording.id()))?;
        Ok(recording)
    }

    /// Writes all rounds; whether everything was acknowledged.
    fn write(&self) -> Result<bool, Box<dyn Error>> {
        let workspace = self.workspace()?;
        let mut own = self.recording == "new";
        let mut recording = match own {
            true => self.begin(&workspace)?,
            false => workspace.recording(self.recording.parse()?)?,
        };
        let Some(each) = self.conclude else {
            return Ok(self.append_all(&recording)?);
        };
        let mut round = 0;
        while round < self.rounds {
            // What somebody else has begun is for them to conclude.
            let until = if own { self.rounds.min(round + each) } else { self.rounds };
            match self.append(&recording, 0, round..until)? {
                Came::Failed => return Ok(false),
                Came::Ended(_) if own => return Err("somebody else has concluded it".into()),
                Came::Ended(at) => round = at,
                Came::Through => round = until,
            }
            if own {
                recording.conclude("This many were enough")?;
                say(&format!("closed {}", recording.id()))?;
            }
            if round < self.rounds {
                recording = self.begin(&workspace)?;
                own = true;
            }
        }
        Ok(true)
    }

    /// Appends all rounds with each thread; whether everything was acknowledged.
    fn append_all(&self, recording: &Recording) -> std::io::Result<bool> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| scope.spawn(move || self.append(recording, thread, 0..self.rounds)))
                .collect();
            let mut sound = true;
            for thread in threads {
                sound &= thread.join().unwrap_or(Ok(Came::Failed))? == Came::Through;
            }
            Ok(sound)
        })
    }

    /// Appends some rounds with one thread.
    fn append(
        &self,
        recording: &Recording,
        thread: u64,
        rounds: Range<u64>,
    ) -> std::io::Result<Came> {
        let mut came = Came::Through;
        let process = match self.threads {
            1 => self.process.clone(),
            _ => format!("{}.{thread}", self.process),
        };
        for round in rounds {
            if self.broken == Some(Broken::Early) {
                let ahead =
                    if round == 0 { 0..=EARLY_BY } else { round + EARLY_BY..=round + EARLY_BY };
                for round in ahead.filter(|round| *round < self.rounds) {
                    say(&format!("ack {process} {round} {EARLY}"))?;
                }
            }
            match self.record(recording, &process, round) {
                Ok(_) if self.broken == Some(Broken::Early) => {}
                Ok(facts) => say(&facts)?,
                Err(error) if self.conclude.is_some() && is_refusal(&*error) => {
                    return Ok(Came::Ended(round));
                }
                Err(error) => {
                    came = Came::Failed;
                    say(&format!("error {process} {round} {}", causes(&*error)))?;
                    if !self.go_on {
                        break;
                    }
                }
            }
        }
        Ok(came)
    }

    /// Records one event, with its artifact if it is to have one; what can be said of it then.
    fn record(
        &self,
        recording: &Recording,
        process: &str,
        round: u64,
    ) -> Result<String, Box<dyn Error>> {
        let purpose = format!("process {process} round {round}");
        let mut command = note(&purpose);
        let mut stored = String::new();
        if self.artifacts.is_some_and(|each| round.is_multiple_of(each))
            && let RecordingCommand::RecordArtifact { artifacts, .. } = &mut command
        {
            // No two have the same bytes: what is there already need not be stored.
            let bytes = format!("What {purpose} of {} is about\n", recording.id());
            let artifact = recording.put_artifact(bytes.as_bytes(), "text/plain")?;
            stored = format!(" {}", artifact.artifact_hash);
            artifacts.push(artifact);
        }
        let recorded = recording.submit(command)?;
        let facts = recorded.events.iter().map(|event| {
            let id = &event.event_id;
            format!("ack {process} {round} {id}{stored}")
        });
        Ok(facts.collect::<Vec<_>>().join("\n"))
    }
}

/// One line, written at once: whoever reads it knows that it is whole.
fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}

/// Whether the rules do not allow it: nothing more comes to a recording that has ended.
fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(WriteError::Refused(_)))
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
    match task.write() {
        Ok(sound) => Ok(sound),
        Err(error) => {
            say(&format!("error {} open {}", task.process, causes(&*error)))?;
            Ok(false)
        }
    }
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
