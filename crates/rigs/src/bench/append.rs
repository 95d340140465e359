//! One caller's durable append, against the disk alone: a write of as many bytes, and a sync.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use countersign_runtime::Environment;

use super::callers::editor;
use super::clock::{Clock, median_of_both, per_second, time};
use super::home::{Home, begin};
use super::{Measured, Target};

const ROUNDS: u32 = 80;
/// Events a round: a few milliseconds, so that some rounds are not interrupted.
const EVENTS: usize = 24;

pub(super) fn measure() -> Result<Vec<Measured>, String> {
    let home = Home::new("append-one")?;
    let workspace = home.init(Environment::system())?;
    let recording = begin(&workspace)?;
    let mut caller = editor(&recording)?;
    let ledger = workspace.trace_file(recording.id());
    let length = || std::fs::metadata(&ledger).map(|found| found.len()).map_err(|e| e.to_string());
    let before = length()?;
    caller.write(&recording, EVENTS as u64)?;
    let line_bytes = usize::try_from(length()? - before).unwrap_or_default() / EVENTS;

    let mut raw = File::create(ledger.with_file_name("raw")).map_err(|error| error.to_string())?;
    let mut line = vec![b'.'; line_bytes.saturating_sub(1)];
    line.push(b'\n');
    let (ours, bare) = median_of_both(
        ROUNDS,
        || time(Clock::Wall, || caller.write(&recording, EVENTS as u64)),
        || write_bare(&mut raw, &line),
    )?;
    Ok(vec![Measured {
        name: "append-one",
        value: per_second(EVENTS, ours),
        unit: "events/s",
        bound: per_second(EVENTS, bare),
        target: Target::AtLeast(0.8),
    }])
}

/// How long it takes to append `line` as often, each time durably.
fn write_bare(file: &mut File, line: &[u8]) -> Result<Duration, String> {
    time(Clock::Wall, || {
        for _ in 0..EVENTS {
            file.write_all(line).and_then(|()| file.sync_data()).map_err(|e| e.to_string())?;
        }
        Ok(())
    })
}
