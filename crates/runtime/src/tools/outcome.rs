//! How a call ended.

use std::time::Duration;

use crate::sandbox::{Driven, End, Stream};

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It did not end in the time it was given, and was ended.
    TimedOut,
    /// It was ended because a [`Stop`](super::Stop) was set.
    Stopped,
    /// Nothing was run, for this reason.
    NotStarted(String),
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// How it ended.
    pub ended: Ended,
    /// Its standard output, or what was read.
    pub stdout: Stream,
    /// Its standard error.
    pub stderr: Stream,
    /// How long it took until it ended or was told to, with entering the sandbox.
    pub elapsed: Duration,
}

impl ToolOutcome {
    /// The status for an event: that of the program, or the signal that ended it as a negative
    /// number. None if it was ended by us, or never ran.
    #[must_use]
    pub const fn exit_status(&self) -> Option<i32> {
        match self.ended {
            Ended::Exited(status) => Some(status),
            Ended::Signalled(signal) => Some(-signal),
            Ended::TimedOut | Ended::Stopped | Ended::NotStarted(_) => None,
        }
    }

    /// How it ended, for a person.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.ended {
            Ended::Exited(status) => format!("ended with status {status}"),
            Ended::Signalled(signal) => format!("ended by signal {signal}"),
            Ended::TimedOut => format!("no end within {} s", self.elapsed.as_secs()),
            Ended::Stopped => "stopped".to_owned(),
            Ended::NotStarted(reason) => format!("not started: {reason}"),
        }
    }

    pub(super) fn not_started(reason: impl Into<String>) -> Self {
        Self {
            ended: Ended::NotStarted(reason.into()),
            stdout: Stream::default(),
            stderr: Stream::default(),
            elapsed: Duration::ZERO,
        }
    }

    pub(super) fn of_program(driven: Driven) -> Self {
        let Driven { end, stdout, stderr, elapsed, .. } = driven;
        let ended = match end {
            End::Exited(status) => Ended::Exited(status),
            End::Signalled(signal) => Ended::Signalled(signal),
            End::TimedOut => Ended::TimedOut,
            End::Stopped => Ended::Stopped,
            End::Missing(reason) => Ended::NotStarted(reason),
            End::Refused(reason) => {
                Ended::NotStarted(format!("the sandbox could not be entered: {reason}"))
            }
            // No tool is given a descriptor to signal on.
            End::Lingered | End::Ready(_) => {
                Ended::NotStarted("there was nothing to run".to_owned())
            }
        };
        Self { ended, stdout, stderr, elapsed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_a_status_or_none_and_a_reason() {
        let table = [
            (Ended::Exited(0), Some(0), "ended with status 0"),
            (Ended::Exited(255), Some(255), "ended with status 255"),
            (Ended::Signalled(9), Some(-9), "ended by signal 9"),
            (Ended::TimedOut, None, "no end within 600 s"),
            (Ended::Stopped, None, "stopped"),
            (Ended::NotStarted("why".to_owned()), None, "not started: why"),
        ];
        for (ended, status, reason) in table {
            let elapsed = Duration::from_millis(600_004);
            let outcome = ToolOutcome { ended, elapsed, ..ToolOutcome::not_started("") };
            assert_eq!(outcome.exit_status(), status);
            assert_eq!(outcome.reason(), reason);
        }
    }
}
