//! Sessions of schema 1.0 in the form of schema 1.1, made of the traces that were built by hand.

use std::fs;
use std::path::Path;

use countersign_format::event::Event;
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_protocol::unlinked::{Original, Projection};

use super::cannot;

/// The traces that are projected.
const TRACES: [&str; 5] = ["whole", "linked", "elevated", "retry", "challenge-superseded"];

/// Each projection by the name of its file.
pub(super) fn files(traces: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let project = |name: &str| {
        let path = traces.join("traces").join(name).join("events.jsonl");
        let ledger = fs::read_to_string(&path).map_err(|error| cannot("read a trace", error))?;
        Ok((format!("{name}.jsonl"), projected(&ledger)?))
    };
    TRACES.into_iter().map(project).collect()
}

fn projected(ledger: &str) -> Result<Vec<u8>, String> {
    let mut events = Vec::new();
    for line in ledger.lines() {
        let event: Event =
            serde_json::from_str(line).map_err(|error| cannot("read an event", error))?;
        events.push((event, Hash::of(line.as_bytes())));
    }
    let Some((last, _)) = events.last() else { return Err("a trace is empty".to_owned()) };
    let (mut projection, header) = Projection::begin(&Original {
        schema_version: last.schema_version.clone(),
        trace_id: last.trace_id.clone(),
        head: last.event_hash,
        events: events.len() as u64,
    });
    let mut lines = json::to_bytes(&header);
    lines.push(b'\n');
    for (event, line_hash) in &events {
        lines.extend(json::to_bytes(&projection.event(event, *line_hash)));
        lines.push(b'\n');
    }
    Ok(lines)
}
