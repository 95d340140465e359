//! Agents that record one tool call after the other: each intends, starts, completes. What is open stays
//! small, as it does with agents.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::{Recorded, Recording, WriteError};

use super::home::told;

/// Callers that record together, and on how many threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    threads: u64,
    /// Callers of each thread.
    each: u64,
    works: Works,
}

/// Who signs and goes to the disk for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Works {
    /// One of them, in turns.
    Caller,
    /// Threads that have no callers.
    Crew,
}

impl Crowd {
    /// One caller.
    pub(super) const ONE: Self = Self { threads: 1, each: 1, works: Works::Caller };
    /// Sixty-four of which each has a thread, which sleeps and is woken for every event.
    pub(super) const ON_THREADS: Self = Self { threads: 64, each: 1, works: Works::Caller };
    /// Sixty-four for whom a few threads speak, while others work.
    pub(super) const WITH_ENVOYS: Self = Self { threads: 4, each: 16, works: Works::Crew };

    const fn callers(self) -> u64 {
        self.threads * self.each
    }
}

/// An agent, and where it is with its tool call.
pub(super) struct Caller<I> {
    intend: I,
    artifacts: Vec<ArtifactDescriptor>,
    call: Call,
}

enum Call {
    None,
    Intended(EventRef),
    Started(EventRef),
}

impl<I: FnMut() -> RecordingCommand> Caller<I> {
    /// An agent that begins its calls with what `intend` says.
    pub(super) const fn new(intend: I) -> Self {
        Self { intend, artifacts: Vec::new(), call: Call::None }
    }

    fn command(&mut self) -> RecordingCommand {
        match &self.call {
            Call::None => (self.intend)(),
            Call::Intended(intent) => RecordingCommand::Start { intent: intent.clone() },
            Call::Started(execution) => RecordingCommand::Complete {
                execution: execution.clone(),
                exit_status: 0,
                artifacts: self.artifacts.clone(),
            },
        }
    }

    fn take(&mut self, answer: Result<Recorded, WriteError>) -> Result<(), String> {
        let recorded = answer.map_err(|error| told(&error))?;
        if let Some(lag) = recorded.log_lag {
            return Err(told(&lag));
        }
        let event = recorded.events.first().ok_or("no event")?;
        let reference =
            EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap_or_default() };
        self.call = match self.call {
            Call::None => Call::Intended(reference),
            Call::Intended(_) => Call::Started(reference),
            Call::Started(_) => Call::None,
        };
        Ok(())
    }

    /// Records `count` events.
    pub(super) fn write(&mut self, recording: &Recording, count: u64) -> Result<(), String> {
        (0..count).try_for_each(|_| self.step(recording))
    }

    /// Records one event.
    pub(super) fn step(&mut self, recording: &Recording) -> Result<(), String> {
        let command = self.command();
        self.take(recording.submit(command))
    }
}

/// An agent that edits one file over and over, with the input stored.
pub(super) fn editor(
    recording: &Recording,
) -> Result<Caller<impl FnMut() -> RecordingCommand + use<>>, String> {
    let artifact = recording.put_artifact(br#"{"path":"src/main.rs"}"#, "application/json");
    let artifact = artifact.map_err(|error| told(&error))?;
    let artifacts = vec![artifact.clone()];
    let intend = move || RecordingCommand::Intend {
        tool_name: "edit_file".to_owned(),
        input_hash: artifact.artifact_hash,
        safety_classification: "standard".to_owned(),
        justification: "the test expects another order of members".to_owned(),
        artifacts: vec![artifact.clone()],
    };
    Ok(Caller { intend, artifacts, call: Call::None })
}

/// Has `callers` record on this thread, each its next event once its last one is durable, while there
/// is `more` to record.
fn record_for<I: FnMut() -> RecordingCommand>(
    recording: &Recording,
    callers: &mut [Caller<I>],
    more: &(impl Fn() -> Result<bool, String> + Sync),
) -> Result<(), String> {
    if let [caller] = callers {
        while more()? {
            caller.step(recording)?;
        }
        return Ok(());
    }
    let mut envoy = recording.envoy();
    let mut waiting = BTreeMap::new();
    let mut free: Vec<_> = callers.iter_mut().collect();
    loop {
        if let Some(caller) = free.pop()
            && more()?
        {
            let ticket = envoy.send(caller.command()).map_err(|error| told(&error))?;
            waiting.insert(ticket, caller);
            continue;
        }
        let Some((ticket, answer)) = envoy.hear() else { return Ok(()) };
        let caller = waiting.remove(&ticket).ok_or("an answer to nobody")?;
        caller.take(answer)?;
        free.push(caller);
    }
}

/// Has a crowd record while there is `more` to record, which is asked before each event.
pub(super) fn record_together<I: FnMut() -> RecordingCommand + Send>(
    recording: &Recording,
    crowd: Crowd,
    caller: impl Fn(u64) -> Result<Caller<I>, String>,
    more: impl Fn() -> Result<bool, String> + Sync,
) -> Result<Duration, String> {
    let mut callers = (0..crowd.callers()).map(caller).collect::<Result<Vec<_>, _>>()?;
    let each = usize::try_from(crowd.each).unwrap_or(usize::MAX);
    let mut record = || record_on_threads(recording, &mut callers, each, &more);
    match crowd.works {
        Works::Caller => record(),
        Works::Crew => recording.with_crew(record),
    }
}

/// Has callers record, so many on each thread.
fn record_on_threads<I: FnMut() -> RecordingCommand + Send>(
    recording: &Recording,
    callers: &mut [Caller<I>],
    each: usize,
    more: &(impl Fn() -> Result<bool, String> + Sync),
) -> Result<Duration, String> {
    let barrier = &Barrier::new(callers.len().div_ceil(each) + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = callers
            .chunks_mut(each)
            .map(|callers| {
                scope.spawn(move || {
                    barrier.wait();
                    record_for(recording, callers, more)
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().map_err(|_| "an agent panicked".to_owned())??;
        }
        Ok(start.elapsed())
    })
}

/// Has editors record `count` events together, and says how long it took.
pub(super) fn write_together(
    recording: &Recording,
    crowd: Crowd,
    count: u64,
) -> Result<Duration, String> {
    let begun = AtomicU64::new(0);
    let more = || Ok(begun.fetch_add(1, Ordering::Relaxed) < count);
    record_together(recording, crowd, |_| editor(recording), more)
}
