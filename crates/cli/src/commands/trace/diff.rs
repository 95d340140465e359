//! `countersign trace diff`.

use countersign_format::event::Event;
use countersign_format::id::Ulid;
use serde::Serialize;
use serde_json::Value;

use super::events::{Events, PAYLOAD_CHARACTERS, shortened};
use super::skeleton::{Difference, Names, Skeleton, differences};
use crate::place::find_trace;
use crate::{Caller, CommandError, Exit, Format, Output};

/// How much of a value is shown.
const VALUE_CHARACTERS: usize = 200;

/// The first event at which two runs part
///
/// Events are compared one by one, without what differs between any two runs: ids, times, the
/// hashes of the chain, signatures, keys and reports. Exit status 0 if nothing differs, else 3.
#[derive(Debug, clap::Args)]
pub(super) struct DiffArgs {
    /// The first trace's id or the beginning of it, or a work item's label
    a: String,
    /// The other trace's id or the beginning of it, or a work item's label
    b: String,
}

/// How two traces compare.
#[derive(Debug, Serialize)]
struct Comparison {
    same: bool,
    /// Events that are the same in both.
    events: u64,
    a: Side,
    b: Side,
    differences: Vec<Difference>,
}

/// One of two traces where they part.
#[derive(Debug, Serialize)]
struct Side {
    trace_id: String,
    /// Its event there; none if it has ended before, or they do not part.
    event: Option<Event>,
    /// The event on one line.
    #[serde(skip)]
    summary: String,
}

/// A trace that is being compared.
struct Run {
    id: Ulid,
    events: Events,
    names: Names,
}

pub(super) fn run(args: &DiffArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let (a, b) = (find_trace(&workspace, &args.a)?, find_trace(&workspace, &args.b)?);
    let run = |id| Ok(Run { id, events: Events::of(&workspace, id)?, names: Names::default() });
    let compared = compare(run(a)?, run(b)?)?;
    match caller.output.format() {
        Format::Json => caller.output.json(&compared)?,
        Format::Text => print(&compared, &mut caller.output)?,
    }
    Ok(if compared.same { Exit::Done } else { Exit::No })
}

fn compare(mut a: Run, mut b: Run) -> Result<Comparison, CommandError> {
    let mut events = 0;
    loop {
        let (in_a, in_b) = (a.next(events)?, b.next(events)?);
        let differences = match (&in_a, &in_b) {
            (Some((_, in_a)), Some((_, in_b))) => differences(in_a, in_b),
            _ => Vec::new(),
        };
        if in_a.is_none() || in_b.is_none() || !differences.is_empty() {
            let same = in_a.is_none() && in_b.is_none();
            let (a, b) = (a.side(in_a), b.side(in_b));
            return Ok(Comparison { same, events, a, b, differences });
        }
        events += 1;
    }
}

impl Run {
    fn next(&mut self, place: u64) -> Result<Option<(Event, Skeleton)>, CommandError> {
        let event = self.events.next()?;
        Ok(event.map(|event| {
            let skeleton = self.names.skeleton(place, &event);
            (event, skeleton)
        }))
    }

    fn side(&self, found: Option<(Event, Skeleton)>) -> Side {
        let summary = found.as_ref().map(|(event, skeleton)| {
            let payload = skeleton.get("payload").unwrap_or(&Value::Null);
            let (what, who) = (event.event_type.as_str(), event.actor.role.as_str());
            format!("{what} by {who}: {}", shortened(payload, PAYLOAD_CHARACTERS))
        });
        Side {
            trace_id: self.id.to_string(),
            event: found.map(|(event, _)| event),
            summary: summary.unwrap_or_else(|| "ends here".to_owned()),
        }
    }
}

fn print(compared: &Comparison, output: &mut Output) -> Result<(), CommandError> {
    let Comparison { same, events, a, b, differences } = compared;
    if *same {
        let noun = if *events == 1 { "event" } else { "events" };
        return output.line(format_args!("the same {events} {noun}"));
    }
    output.line(format_args!("A  {}", a.trace_id))?;
    output.line(format_args!("B  {}", b.trace_id))?;
    output.line(format_args!("the runs part at event {events}"))?;
    output.line(format_args!("  A {}", a.summary))?;
    output.line(format_args!("  B {}", b.summary))?;
    for difference in differences {
        output.line("")?;
        output.line(format_args!("{}:", difference.member))?;
        for (name, value) in [("A", &difference.a), ("B", &difference.b)] {
            let value = value.as_ref().map(|value| shortened(value, VALUE_CHARACTERS));
            output.line(format_args!("  {name} {}", value.as_deref().unwrap_or("nothing")))?;
        }
    }
    Ok(())
}
