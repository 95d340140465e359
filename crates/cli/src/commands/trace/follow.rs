//! `countersign trace follow`.

use std::time::Duration;

use countersign_format::event::TraceKind;
use countersign_format::id::Ulid;
use countersign_protocol::{ending, kind_of};
use countersign_runtime::store::{Follower, Head, LedgerId, Ledgers as _, StoreError};

use super::events::{Teller, event_in, unreadable};
use crate::place::{explain, find_trace};
use crate::{Caller, CommandError, Exit, Format};

/// How long one wait may last. The store wakes up by itself when something comes.
const WAIT_LONGEST: Duration = Duration::from_secs(3600);

/// The events of a trace as they are recorded, until it ends; with `--json` one a line
///
/// An event may be shown before it is durable. `trace show` has what was recorded.
#[derive(Debug, clap::Args)]
pub(super) struct FollowArgs {
    /// The trace's id or the beginning of it, or a work item's label
    trace: String,
}

/// What is known of a trace that is followed.
struct Followed {
    id: Ulid,
    /// Events that were shown.
    shown: u64,
    kind: Option<TraceKind>,
    ended: bool,
    teller: Teller,
}

pub(super) fn run(args: &FollowArgs, caller: &mut Caller) -> Result<Exit, CommandError> {
    let workspace = caller.workspace()?;
    let id = find_trace(&workspace, &args.trace)?;
    let follower = workspace.store().follow(LedgerId::Trace(id), Head::EMPTY);
    let mut follower = follower.map_err(|error| explain(error.into()))?;
    let teller = Teller::new(workspace.clone());
    let mut followed = Followed { id, shown: 0, kind: None, ended: false, teller };
    loop {
        // What was recorded after the end, another audit or a redaction, is shown if it is there.
        let wait = if followed.ended { Duration::ZERO } else { WAIT_LONGEST };
        match next_lines(&mut *follower, wait, id)? {
            Some(lines) => followed.show(&lines, caller)?,
            None if followed.ended => return Ok(Exit::Done),
            None => {}
        }
    }
}

fn next_lines(
    follower: &mut dyn Follower,
    wait: Duration,
    id: Ulid,
) -> Result<Option<Vec<u8>>, CommandError> {
    follower.next(wait).map_err(|error| match error {
        StoreError::CutBack { .. } => CommandError::failed(error)
            .with_hint(format!("run `countersign trace show {id}` to see what was recorded")),
        error => explain(error.into()),
    })
}

impl Followed {
    /// Shows whole lines, each before the next is looked at.
    fn show(&mut self, lines: &[u8], caller: &mut Caller) -> Result<(), CommandError> {
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        for line in lines.split(|&byte| byte == b'\n') {
            let ledger = LedgerId::Trace(self.id);
            let event =
                event_in(line, ledger).map_err(|what| unreadable(ledger, self.shown, &what))?;
            match caller.output.format() {
                Format::Json => caller.output.json(&event)?,
                Format::Text => caller.output.line(self.teller.line(self.shown, &event))?,
            }
            caller.output.flush()?;
            if self.shown == 0 {
                self.kind = kind_of(&event);
            }
            self.shown += 1;
            self.ended |= self.kind.is_some_and(|kind| ending(kind, &event).is_some());
        }
        Ok(())
    }
}
