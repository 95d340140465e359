//! Work items, leases and times as a person reads them.

use countersign_format::time::Timestamp;
use countersign_protocol::work::SignalChannel;
use countersign_runtime::index::WorkRow;
use countersign_runtime::work::PhaseEnd;
use serde_json::{Value, json};

/// A length of time in its two largest units.
pub(super) fn span(millis: i64) -> String {
    let seconds = millis.max(0) / 1_000;
    match seconds {
        0 => format!("{} ms", millis.max(0)),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

pub(super) fn since(then: Timestamp, now: Timestamp) -> String {
    span(now.as_millis().saturating_sub(then.as_millis()))
}

/// What people call an item.
pub(super) fn name(row: &WorkRow) -> String {
    row.label.clone().unwrap_or_else(|| row.id.to_string())
}

/// How a signal came.
pub(super) const fn channel(channel: SignalChannel) -> &'static str {
    match channel {
        SignalChannel::Descriptor => "on the descriptor",
        SignalChannel::Stdout => "on standard output, the weaker channel",
        SignalChannel::Agent => "by a command of the agent",
        SignalChannel::Operator => "given by hand",
        SignalChannel::Runner => "said by the runner",
    }
}

/// How a phase ended, in one line.
pub(super) fn end(end: &PhaseEnd) -> String {
    match end {
        PhaseEnd::Moved { to, reason, channel: by, notes } => {
            let notes = notes.as_deref().map(|notes| format!(": {notes}")).unwrap_or_default();
            format!("{reason}, goes to {to} ({}){notes}", channel(*by))
        }
        PhaseEnd::Freed { reason, attempts } => {
            format!("attempt {attempts} came to nothing: {reason}; free again")
        }
        PhaseEnd::GivenUp { reason, attempts } => {
            format!("attempt {attempts} came to nothing: {reason}; blocked")
        }
        PhaseEnd::Lost { reason } => format!("the lease was lost: {reason}"),
        PhaseEnd::Stopped => "stopped; free again".to_owned(),
    }
}

/// The same for a program.
pub(super) fn end_json(end: &PhaseEnd) -> Value {
    match end {
        PhaseEnd::Moved { to, reason, channel, notes } => json!({
            "end": "moved", "next_phase": to, "exit_reason": reason, "channel": channel,
            "notes": notes,
        }),
        PhaseEnd::Freed { reason, attempts } => {
            json!({ "end": "freed", "reason": reason, "attempts": attempts })
        }
        PhaseEnd::GivenUp { reason, attempts } => {
            json!({ "end": "given_up", "reason": reason, "attempts": attempts })
        }
        PhaseEnd::Lost { reason } => json!({ "end": "lost", "reason": reason }),
        PhaseEnd::Stopped => json!({ "end": "stopped" }),
    }
}
