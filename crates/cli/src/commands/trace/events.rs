//! Events of a trace, one after the other, and how they look on one line.

use std::fs::File;
use std::io::BufReader;

use countersign_format::event::{Event, Reading, TraceKind};
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_protocol::kind_of;
use countersign_runtime::Workspace;
use countersign_runtime::store::LedgerId;
use countersign_verify::{Lines, RawLine};
use serde_json::Value;

use crate::CommandError;
use crate::narration::Narrator;

/// How much of a payload is shown on a line.
pub(super) const PAYLOAD_CHARACTERS: usize = 100;

/// Why nothing is read from such a line.
pub(super) const TOO_LONG: &str = "the line is longer than an event may be";

/// The events of one trace, read one at a time.
pub(super) struct Events {
    id: Ulid,
    lines: Lines<BufReader<File>>,
    next: u64,
}

impl Events {
    /// The events of the trace `id`, from the first.
    pub(super) fn of(workspace: &Workspace, id: Ulid) -> Result<Self, CommandError> {
        let file = File::open(workspace.trace_file(id)).map_err(|error| cannot_read(id, error))?;
        Ok(Self { id, lines: Lines::new(BufReader::new(file)), next: 0 })
    }

    /// The next event, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Event>, CommandError> {
        let line = self.lines.next_line().map_err(|error| cannot_read(self.id, error))?;
        let event = match line {
            // A torn tail is no line yet.
            None | Some(RawLine::Unterminated(_)) => return Ok(None),
            Some(RawLine::Complete(bytes)) => event_in(bytes, LedgerId::Trace(self.id)),
            Some(RawLine::TooLong | RawLine::Endless) => Err(TOO_LONG.to_owned()),
        };
        let event = event.map_err(|what| unreadable(LedgerId::Trace(self.id), self.next, &what))?;
        self.next += 1;
        Ok(Some(event))
    }
}

/// The event that a line holds, which is given without its line break.
pub(super) fn event_in(line: &[u8], ledger: LedgerId) -> Result<Event, String> {
    let reading = Reading::of(line).map_err(|fault| fault.to_string())?;
    if let Some(fault) = &reading.fault {
        return Err(fault.to_string());
    }
    let computed = reading.event_hash;
    let event = reading.into_event().ok_or("the line is not an event")?;
    // What was changed since it was recorded is not told as if it had been.
    if event.event_hash != computed {
        let stated = event.event_hash;
        return Err(format!("the event hashes to {computed}, it states {stated}"));
    }
    match ledger {
        LedgerId::Trace(id) if event.trace_id != id.to_string() => {
            Err(format!("the event belongs to trace {}", event.trace_id))
        }
        _ => Ok(event),
    }
}

/// A line of a ledger that is no event of it.
pub(super) fn unreadable(ledger: LedgerId, index: u64, what: &str) -> CommandError {
    let name = match ledger {
        LedgerId::Log => "log".to_owned(),
        LedgerId::Trace(id) => id.to_string(),
    };
    CommandError::failed(format!("the line of event {index} cannot be read: {what}"))
        .with_hint(format!("run `countersign verify {name}` to see everything that is wrong"))
}

fn cannot_read(id: Ulid, error: std::io::Error) -> CommandError {
    CommandError::failed_doing(format!("cannot read trace {id}"), error)
}

/// One event on one line; its payload as far as there is room.
pub(super) fn line_of(index: u64, event: &Event) -> String {
    let mut payload = event.payload.clone();
    if let Value::Object(members) = &mut payload {
        members.remove("log");
    }
    format!(
        "{index:>6}  {}  {:<9}  {:<26}  {}",
        event.created_at,
        event.actor.role.as_str(),
        event.event_type.as_str(),
        shortened(&payload, PAYLOAD_CHARACTERS)
    )
}

/// A value as JSON, cut after so many characters.
pub(super) fn shortened(value: &Value, characters: usize) -> String {
    let text = String::from_utf8(json::to_bytes(value)).unwrap_or_default();
    let short: String = text.chars().take(characters).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

/// Says what events mean: in sentences where they are a session's, else by their payload.
pub(super) struct Teller {
    workspace: Workspace,
    narrator: Option<Narrator>,
}

impl Teller {
    pub(super) const fn new(workspace: Workspace) -> Self {
        Self { workspace, narrator: None }
    }

    /// The next event, on one line.
    pub(super) fn line(&mut self, index: u64, event: &Event) -> String {
        if index == 0 && kind_of(event) == Some(TraceKind::Session) {
            self.narrator = Some(Narrator::new(self.workspace.clone()));
        }
        match &mut self.narrator {
            None => line_of(index, event),
            Some(narrator) => format!(
                "{index:>6}  {}  {:<9}  {:<26}  {}",
                event.created_at,
                event.actor.role.as_str(),
                event.event_type.as_str(),
                narrator.tell(event).text
            ),
        }
    }
}
