//! Workspaces to measure in, and agents that write to them.
//!
//! They lie beside the build output, because that is on a disk: temporary directories are often in
//! memory, where a sync costs nothing.

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::{Environment, Recording, Workspace};

use xtask::place::target;

/// A directory of its own, which goes when this is dropped.
pub(super) struct Home {
    path: PathBuf,
}

impl Home {
    pub(super) fn new(name: &str) -> Result<Self, String> {
        let path = target().join("bench-tmp").join(format!("{name}-{}", std::process::id()));
        let made = fs::create_dir_all(&path);
        made.map_err(|error| format!("cannot create `{}`: {error}", path.display()))?;
        Ok(Self { path })
    }

    /// A place in it.
    pub(super) fn below(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn init(&self, environment: Environment) -> Result<Workspace, String> {
        Workspace::init(&self.path.join("config"), &self.path.join("home"), environment)
            .map_err(|error| told(&error))
    }

    pub(super) fn open(&self, environment: Environment) -> Result<Workspace, String> {
        Workspace::open(&self.path.join("config"), &self.path.join("home"), environment)
            .map_err(|error| told(&error))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        // The last one to leave takes the directory above along.
        let _ = fs::remove_dir(target().join("bench-tmp"));
    }
}

/// An error with its causes.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A recording with its first event.
pub(super) fn begin(workspace: &Workspace) -> Result<Recording, String> {
    workspace
        .begin_recording(Some("coding-agent"), Some("make the tests pass"))
        .map_err(|error| told(&error))
}

/// Where an agent is with its tool call.
enum Call {
    None,
    Intended(EventRef),
    Started(EventRef),
}

/// An agent that uses one tool after the other: intends, starts, completes. What is open stays
/// small, as it does with agents.
pub(super) struct Caller<'a> {
    recording: &'a Recording,
    artifact: ArtifactDescriptor,
    call: Call,
}

impl<'a> Caller<'a> {
    pub(super) fn new(recording: &'a Recording) -> Result<Self, String> {
        let artifact = recording.put_artifact(br#"{"path":"src/main.rs"}"#, "application/json");
        let artifact = artifact.map_err(|error| told(&error))?;
        Ok(Self { recording, artifact, call: Call::None })
    }

    /// Records `count` events.
    pub(super) fn write(&mut self, count: usize) -> Result<(), String> {
        (0..count).try_for_each(|_| self.step())
    }

    fn step(&mut self) -> Result<(), String> {
        let artifacts = vec![self.artifact.clone()];
        let command = match &self.call {
            Call::None => RecordingCommand::Intend {
                tool_name: "edit_file".to_owned(),
                input_hash: self.artifact.artifact_hash,
                safety_classification: "standard".to_owned(),
                justification: "the test expects another order of members".to_owned(),
                artifacts,
            },
            Call::Intended(intent) => RecordingCommand::Start { intent: intent.clone() },
            Call::Started(execution) => RecordingCommand::Complete {
                execution: execution.clone(),
                exit_status: 0,
                artifacts,
            },
        };
        let recorded = self.recording.submit(command).map_err(|error| told(&error))?;
        if let Some(lag) = recorded.log_lag {
            return Err(told(&lag));
        }
        let Some(event) = recorded.events.first() else { return Err("no event".to_owned()) };
        let reference =
            EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap_or_default() };
        self.call = match self.call {
            Call::None => Call::Intended(reference),
            Call::Intended(_) => Call::Started(reference),
            Call::Started(_) => Call::None,
        };
        Ok(())
    }
}

/// Has `threads` agents record `each` events at once, and says how long it took.
pub(super) fn write_together(
    recording: &Recording,
    threads: usize,
    each: usize,
) -> Result<Duration, String> {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let agents: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let caller = Caller::new(recording);
                    barrier.wait();
                    caller?.write(each)
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for agent in agents {
            agent.join().map_err(|_| "an agent panicked".to_owned())??;
        }
        Ok(start.elapsed())
    })
}
