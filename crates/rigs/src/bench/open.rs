//! Opening a long trace and adding to it, against the same with a short one: a hook does that for
//! every action of an agent.

use std::time::Duration;

use countersign_format::id::Ulid;
use countersign_protocol::recording::RecordingCommand;
use countersign_runtime::Environment;

use super::callers::{Crowd, write_together};
use super::clock::{Clock, best_of_both, milliseconds, time};
use super::home::{Home, begin, told};
use super::{Measured, Target};

const ROUNDS: u32 = 24;
const SHORT_EVENTS: u64 = 10;
const LONG_EVENTS: u64 = 100_000;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let short = Trace::new("open-short", SHORT_EVENTS)?;
    let long = Trace::new("open-long", LONG_EVENTS)?;
    let (long, short) = best_of_both(ROUNDS, || long.add_one(), || short.add_one())?;
    Ok(vec![Measured {
        name: "open",
        value: milliseconds(long),
        unit: "ms",
        bound: milliseconds(short),
        target: Target::AtMost(2.0),
    }])
}

/// A trace in a workspace of its own, so that its part of the log counts as well.
struct Trace {
    home: Home,
    id: Ulid,
}

impl Trace {
    fn new(name: &str, events: u64) -> Result<Self, String> {
        let home = Home::new(name)?;
        let recording = begin(&home.init(Environment::system())?)?;
        write_together(&recording, Crowd::WITH_ENVOYS, events)?;
        Ok(Self { id: recording.id(), home })
    }

    /// How long it takes to find the trace anew, add an event and leave.
    fn add_one(&self) -> Result<Duration, String> {
        time(Clock::Wall, || {
            let workspace = self.home.open(Environment::system())?;
            let recording = workspace.recording(self.id).map_err(|error| told(&error))?;
            let command = RecordingCommand::RecordArtifact {
                purpose: "a note of the agent".to_owned(),
                artifacts: Vec::new(),
            };
            recording.submit(command).map_err(|error| told(&error))
        })
    }
}
