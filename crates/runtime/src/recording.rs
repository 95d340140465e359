//! Recordings being written.

use countersign_format::event::{ArtifactDescriptor, EventRef, TraceKind};
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::report::VerificationReport;
use countersign_format::text::to_nfc;
use countersign_format::time::Timestamp;
use countersign_protocol::ReviewDecision;
use countersign_protocol::recording::{CallOutcome, EndedCall, RecordingCommand, RecordingState};
use countersign_verify::Profile;
use serde_json::Value;

use crate::trace::TraceWriter;
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{self, Recorded, Ticket, WriteError};

/// A recording that can be written to, by many threads and processes at once.
#[derive(Debug)]
pub struct Recording {
    trace: TraceWriter<RecordingState>,
}

/// Records commands of many callers without waiting for each, as one thread.
///
/// An answer is told once its events survive power loss. While an envoy waits for one, its thread
/// does its share of the work for everybody; so hear what was sent soon, and go about other things
/// with nothing under way. Commands that are under way together may be recorded in any order: what rests
/// on another one is sent once that was answered. Dropping an envoy waits for what it has sent, unless
/// its thread panics: that is recorded with what somebody sends next.
#[derive(Debug)]
pub struct Envoy<'r> {
    inner: writer::Envoy<'r, RecordingState>,
}

impl Envoy<'_> {
    /// Sends a command. Whether it was recorded is told by the answer with the same ticket.
    ///
    /// # Errors
    /// [`crate::ENVOY_COMMANDS_MAX`] commands wait for their answers.
    pub fn send(&mut self, command: RecordingCommand) -> Result<Ticket, WriteError> {
        self.inner.send(command)
    }

    /// The next answer, in whatever order they come. Nothing if all that was sent is answered.
    pub fn hear(&mut self) -> Option<(Ticket, Result<Recorded, WriteError>)> {
        self.inner.hear()
    }
}

impl Workspace {
    /// Begins a recording. When it returns, its first event and its entry in the log survive power
    /// loss.
    ///
    /// # Errors
    /// Something could not be recorded.
    pub fn begin_recording(
        &self,
        on_behalf_of: Option<&str>,
        objective: Option<&str>,
    ) -> Result<Recording, WorkspaceError> {
        let open = |log| RecordingCommand::Open {
            log,
            on_behalf_of: on_behalf_of.map(to_nfc),
            client: None,
            objective: objective.map(to_nfc),
            links: None,
        };
        let (trace, _) = TraceWriter::begin(self, TraceKind::Recording, open)?;
        Ok(Recording { trace })
    }

    /// The same for an agent that speaks through this program.
    ///
    /// # Errors
    /// Something could not be recorded.
    pub fn begin_recording_through(
        &self,
        on_behalf_of: Option<&str>,
        client: Option<&str>,
        links: Option<Value>,
    ) -> Result<Recording, WorkspaceError> {
        let open = |log| RecordingCommand::Open {
            log,
            on_behalf_of: on_behalf_of.map(to_nfc),
            client: client.map(to_nfc),
            objective: None,
            links: links.clone(),
        };
        let (trace, _) = TraceWriter::begin(self, TraceKind::Recording, open)?;
        Ok(Recording { trace })
    }

    /// Begins a recording whose id was drawn before, so that others could name it.
    pub(crate) fn begin_recording_as(
        &self,
        id: &str,
        on_behalf_of: Option<&str>,
        objective: Option<&str>,
        links: Option<Value>,
    ) -> Result<Recording, WorkspaceError> {
        let drawn = id.parse::<Ulid>().map_err(|_| WriteError::GivenUp {
            reason: format!("`{id}` is not the id of a trace"),
        })?;
        let trace = TraceWriter::at(self, drawn, TraceKind::Recording);
        let open = RecordingCommand::Open {
            log: self.log_pin()?,
            on_behalf_of: on_behalf_of.map(to_nfc),
            client: None,
            objective: objective.map(to_nfc),
            links,
        };
        trace.submit(open)?.log_lag.map_or(Ok(()), Err)?;
        Ok(Recording { trace })
    }

    /// A recording that was begun before.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn recording(&self, id: Ulid) -> Result<Recording, WorkspaceError> {
        let begun = |state: &RecordingState| state.begun;
        let trace = TraceWriter::existing(self, id, TraceKind::Recording, begun)?;
        Ok(Recording { trace })
    }
}

impl Recording {
    /// Its id.
    #[must_use]
    pub const fn id(&self) -> Ulid {
        self.trace.id()
    }

    /// Records what `command` brings. When it returns, the events survive power loss.
    ///
    /// # Errors
    /// The rules do not allow it, or it could not be written; then nothing was acknowledged.
    pub fn submit(&self, command: RecordingCommand) -> Result<Recorded, WriteError> {
        self.trace.submit(command)
    }

    /// Somebody who records for many callers on one thread.
    #[must_use]
    pub fn envoy(&self) -> Envoy<'_> {
        Envoy { inner: self.trace.envoy() }
    }

    /// Does `work` with a crew at hand: a few threads that sign and go to the disk for all callers, who
    /// do that for each other otherwise, and stand still meanwhile. Worth its while where few threads
    /// speak for many callers.
    pub fn with_crew<T>(&self, work: impl FnOnce() -> T) -> T {
        self.trace.with_crew(work)
    }

    /// What it comes to now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn look<T>(&self, at: impl FnOnce(&RecordingState) -> T) -> Result<T, WriteError> {
        self.trace.look(at)
    }

    /// What the verifier says of it as it is, without recording anything.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn audit_again(&self) -> Result<VerificationReport, WorkspaceError> {
        self.trace.audit(Profile::DEFAULT)
    }

    /// How far it has come.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn size(&self) -> Result<u64, WriteError> {
        self.trace.size()
    }

    /// Stores bytes and describes them, for the next command to refer to.
    ///
    /// # Errors
    /// They could not be stored.
    pub fn put_artifact(
        &self,
        bytes: &[u8],
        media_type: &str,
    ) -> Result<ArtifactDescriptor, WorkspaceError> {
        self.trace.workspace().put_artifact(bytes, media_type)
    }

    /// Ends what is open: nobody will tell any more how it went, or answer.
    fn settle(&self) -> Result<(), WorkspaceError> {
        let open = |state: &RecordingState| {
            let executions = state.executions.iter();
            executions
                .map(|(&seq, open)| EventRef { event_id: open.event_id.clone(), seq })
                .collect::<Vec<_>>()
        };
        for execution in self.look(open)? {
            let reason = "the recording ended before it was told how this ended".to_owned();
            let call = EndedCall {
                execution,
                outcome: CallOutcome::Unknown { reason },
                duration_ms: 0,
                output: None,
                redactions: Vec::new(),
            };
            self.submit(RecordingCommand::End(Box::new(call)))?;
        }
        self.refuse_unanswered(None)
    }

    /// Refuses what nobody answered by `now`, or what nobody has answered at all: silence is a no.
    pub(crate) fn refuse_unanswered(&self, now: Option<Timestamp>) -> Result<(), WorkspaceError> {
        let missed = |state: &RecordingState| {
            let asked = state.intents.iter().filter(|(_, intent)| {
                let due = now.is_none_or(|now| intent.deadline.is_some_and(|end| now >= end));
                due && intent.decision == Some(ReviewDecision::Asked)
            });
            let asked = asked.map(|(&seq, open)| {
                (EventRef { event_id: open.event_id.clone(), seq }, open.deadline)
            });
            asked.collect::<Vec<_>>()
        };
        for (intent, deadline) in self.look(missed)? {
            let reason = match (now, deadline) {
                (Some(_), Some(deadline)) => format!("nobody answered before {deadline}"),
                _ => "nobody answered before the recording ended".to_owned(),
            };
            let decision = ReviewDecision::Blocked;
            match self.submit(RecordingCommand::Review { intent, decision, reasons: vec![reason] })
            {
                // Somebody was faster, or the recording is over.
                Ok(_) | Err(WriteError::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Ends the recording: final statement, audit, close. Done again, it finishes what an
    /// interrupted run began.
    ///
    /// # Errors
    /// Something could not be recorded.
    pub fn conclude(&self, verdict: &str) -> Result<VerificationReport, WorkspaceError> {
        self.end(verdict.to_owned(), None)
    }

    /// As [`Self::conclude`], where it is known whether what it was for was done.
    pub(crate) fn conclude_as(
        &self,
        verdict: &str,
        achieved: bool,
    ) -> Result<VerificationReport, WorkspaceError> {
        self.end(verdict.to_owned(), Some(achieved))
    }

    fn end(
        &self,
        verdict: String,
        achieved: Option<bool>,
    ) -> Result<VerificationReport, WorkspaceError> {
        self.settle()?;
        self.submit(RecordingCommand::Conclude { verdict, achieved })?;
        let report = self.trace.audit(Profile::DEFAULT)?;
        let bytes = json::to_bytes(&serde_json::to_value(&report).unwrap_or_default());
        let artifact = self.put_artifact(&bytes, "application/json")?;
        self.submit(RecordingCommand::CompleteAudit {
            status: report.verification_status,
            report_id: report.report_id.clone(),
            report: Box::new(artifact),
        })?
        .log_lag
        .map_or(Ok(()), Err)?;
        self.trace.workspace().keep_summary(self.id());
        Ok(report)
    }
}
