//! Calls that pass through the recorder: it sees what goes in and what comes out, so that nobody's
//! word has to be taken for it.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use countersign_format::event::{ArtifactDescriptor, Event, EventRef};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::json;
use countersign_format::report::VerificationReport;
use countersign_protocol::recording::{
    AskedInput, CallOutcome, EndedCall, OpenIntent, RecordingCommand, RecordingState, StoredInput,
};
use countersign_protocol::{Refusal, ReviewDecision};

use super::asked::intent_of;
use super::{ActionRequest, AgentRuntime, Current, Inner, ReceiptGiven, redactions};
use crate::secrets::Counts;
use crate::store::Ledgers as _;
use crate::workspace::WorkspaceError;
use crate::writer::WriteError;

/// How long is waited at most before looking again: news of other processes can be lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a call ended.
#[derive(Debug, Clone)]
pub struct CallEnd {
    /// What became of it.
    pub outcome: CallOutcome,
    /// What came out, as it came.
    pub output: Option<Vec<u8>>,
    /// What sort of bytes that is.
    pub media_type: String,
    /// How long it took.
    pub duration_ms: u64,
}

/// What waiting for a person came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// They agreed.
    Yes,
    /// They refused, or the recording is over.
    No,
    /// The question is gone: somebody else who asked the same has the answer.
    Gone,
    /// They have not answered yet.
    NotYet,
}

impl AgentRuntime {
    /// Goes on with a recording that was begun before, by whomever.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn attach(&self, id: Ulid) -> Result<(), WorkspaceError> {
        let recording = self.workspace.recording(id)?;
        let started_at = self.workspace.now();
        self.lock().current =
            Some(Current { recording, started_at, gates: 0, denials: 0, labels: Vec::new() });
        Ok(())
    }

    /// The recording that is open; begun if there is none.
    ///
    /// # Errors
    /// It could not be begun.
    pub fn open(&self) -> Result<Ulid, WorkspaceError> {
        let mut inner = self.lock();
        Ok(self.current(&mut inner)?.recording.id())
    }

    /// What the recording that is open comes to.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn look<T>(&self, at: impl FnOnce(&RecordingState) -> T) -> Result<T, WorkspaceError> {
        let mut inner = self.lock();
        Ok(self.current(&mut inner)?.recording.look(at)?)
    }

    /// Begins what a verdict permits, which is used by that.
    ///
    /// # Errors
    /// The verdict is unknown or used, or does not permit it.
    pub fn start(&self, token: &str) -> Result<EventRef, WorkspaceError> {
        self.begin(&mut self.lock(), token)
    }

    pub(super) fn begin(&self, inner: &mut Inner, token: &str) -> Result<EventRef, WorkspaceError> {
        let unknown = || not_open(token);
        let recording = &inner.current.as_ref().ok_or_else(unknown)?.recording;
        let intent = intent_of(recording, token)?.ok_or_else(unknown)?;
        let recorded = recording.submit(RecordingCommand::Start { intent })?;
        Ok(recorded.events.first().map(place).ok_or_else(unknown)?)
    }

    /// Records how a call ended. When it returns, its receipt survives power loss.
    ///
    /// # Errors
    /// It has not begun, has ended already, or could not be recorded.
    pub fn finish(
        &self,
        execution: EventRef,
        end: &CallEnd,
    ) -> Result<ReceiptGiven, WorkspaceError> {
        let mut counts = Counts::new();
        let mut output = None;
        if let Some(bytes) = &end.output {
            let redacted = self.redactor.redact(bytes);
            add(&mut counts, redacted.counts);
            output = Some(self.workspace.put_artifact(&redacted.bytes, &end.media_type)?);
        }
        let mut clean = |reason: &str| self.clean_counting(reason, &mut counts);
        let outcome = match &end.outcome {
            CallOutcome::Succeeded => CallOutcome::Succeeded,
            CallOutcome::Failed { reason } => CallOutcome::Failed { reason: clean(reason) },
            CallOutcome::Unknown { reason } => CallOutcome::Unknown { reason: clean(reason) },
        };
        let began = execution.event_id.clone();
        let call = EndedCall {
            execution,
            outcome,
            duration_ms: end.duration_ms,
            output,
            redactions: redactions(&counts),
        };
        let mut inner = self.lock();
        let command = RecordingCommand::End(Box::new(call));
        // Once its recording has ended, nothing is begun for it.
        let current = inner.current.as_ref().ok_or_else(|| not_open(&began))?;
        let recorded = current.recording.submit(command)?;
        let receipt = self.receipt_of(&mut inner, &recorded)?;
        drop(inner);
        self.live.recorded(self.workspace.now(), &receipt.action_id, &receipt);
        Ok(receipt)
    }

    /// Takes a question back, for which nobody waits any more. What came to it is recorded as a no.
    ///
    /// # Errors
    /// Nobody was asked, or it could not be recorded.
    pub fn withdraw(&self, token: &str, reason: &str) -> Result<(), WorkspaceError> {
        let inner = self.lock();
        let unknown = || WriteError::Refused(Refusal::NotAsked { id: token.to_owned() });
        // Once its recording has ended, nothing is begun for it.
        let recording = &inner.current.as_ref().ok_or_else(unknown)?.recording;
        let intent = intent_of(recording, token)?.ok_or_else(unknown)?;
        recording.submit(RecordingCommand::Review {
            intent,
            decision: ReviewDecision::Blocked,
            reasons: vec![self.clean(reason)],
        })?;
        Ok(())
    }

    /// Ends the recording, if there is one: last word, audit, close. None if nothing was recorded.
    ///
    /// # Errors
    /// It could not be ended; something in it may still be under way.
    pub fn conclude(&self, verdict: &str) -> Result<Option<VerificationReport>, WorkspaceError> {
        let mut inner = self.lock();
        let Some(current) = &inner.current else { return Ok(None) };
        let report = match current.recording.conclude(&self.clean(verdict)) {
            // Somebody else has ended it.
            Err(WorkspaceError::Write(WriteError::Refused(Refusal::Ended { .. }))) => None,
            report => Some(report?),
        };
        inner.current = None;
        Ok(report)
    }

    /// Records what a server lists as its tools; `changed` names those that are not as they were.
    ///
    /// # Errors
    /// It could not be recorded.
    pub fn list_tools(
        &self,
        server: &str,
        count: u64,
        changed: &[String],
        list: &[u8],
    ) -> Result<(), WorkspaceError> {
        let list = self.redactor.redact(list).bytes;
        let list = Box::new(self.workspace.put_artifact(&list, "application/json")?);
        let command = RecordingCommand::ListTools {
            server: self.clean(server),
            count,
            changed: changed.iter().map(|name| self.clean(name)).collect(),
            list,
        };
        self.submit(&mut self.lock(), &command).map(drop)
    }

    /// Waits for a person to answer what was asked, at most for `patience`. Nobody else has to wait
    /// meanwhile.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn wait_for_answer(
        &self,
        token: &str,
        patience: Duration,
    ) -> Result<Waited, WorkspaceError> {
        let until = Instant::now().checked_add(patience);
        let store = self.workspace.store();
        let mut seen = store.wait(0, Duration::ZERO);
        loop {
            let of_token = |state: &RecordingState| {
                let mut open = state.intents.values();
                let open = open.find(|intent| intent.token.as_deref() == Some(token));
                open.map(|intent| intent.decision)
            };
            // Looking must not begin a recording where the one that it was asked in has ended.
            let decision = match &self.lock().current {
                Some(current) => current.recording.look(of_token)?,
                None => return Ok(Waited::No),
            };
            match decision {
                Some(Some(ReviewDecision::Approved)) => return Ok(Waited::Yes),
                Some(Some(ReviewDecision::Asked)) => {}
                Some(_) => return Ok(Waited::No),
                None => return Ok(Waited::Gone),
            }
            let left = until.map_or(patience, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(Waited::NotYet);
            }
            seen = store.wait(seen, left.min(LOOK_EVERY));
        }
    }

    /// Records that a person agreed to a call in the agent's own program, if all that stood was a
    /// question about this very call: the caller knows that it ran, and that the program lets nothing
    /// run about which its user was asked in vain. Says whether there was such a question.
    ///
    /// # Errors
    /// The answer could not be recorded.
    pub fn agreed_in_client(&self, asked: &ActionRequest) -> Result<bool, WorkspaceError> {
        let input = self.asked_input(&mut self.lock(), asked)?;
        let call = asked.call_id.as_deref().map(|id| self.clean(id));
        let token = self.look(|state: &RecordingState| {
            let open = state.intents.values();
            let mut asked = open.filter(|it| it.decision == Some(ReviewDecision::Asked));
            // The same thing under another name may be what somebody refused.
            let same = |it: &&OpenIntent| it.call_id == call && it.is_of(&input);
            asked.find(same).and_then(|intent| intent.token.clone())
        })?;
        match token {
            Some(token) => self.answer_from_client(&token, true).map(|()| true),
            None => Ok(false),
        }
    }

    /// With what something is asked for.
    pub(super) fn asked_input(
        &self,
        inner: &mut Inner,
        asked: &ActionRequest,
    ) -> Result<AskedInput, WorkspaceError> {
        let mut counts = Counts::new();
        let request = self.request(asked, &mut counts);
        let binding = match counts.is_empty() {
            true => None,
            false => Some(self.bound(inner, asked)?),
        };
        let input = match &asked.arguments {
            Some(raw) => {
                let redacted = self.redactor.redact(raw).bytes;
                let canonical = json::read(&redacted).ok().map(|value| json::to_bytes(&value));
                Hash::of(canonical.as_deref().unwrap_or(&redacted))
            }
            None => Hash::of(&request.to_bytes()),
        };
        Ok(AskedInput { input, binding })
    }

    /// Arguments as they came, without their secrets.
    pub(super) fn input<'r>(&self, raw: &'r [u8], counts: &mut Counts) -> GivenInput<'r> {
        let redacted = self.redactor.redact(raw);
        add(counts, redacted.counts);
        let canonical = json::read(&redacted.bytes).ok().map(|value| json::to_bytes(&value));
        GivenInput {
            normalized: Hash::of(canonical.as_deref().unwrap_or(&redacted.bytes)),
            canonical: canonical.is_some(),
            bytes: redacted.bytes,
        }
    }
}

/// Arguments that are to be stored.
#[derive(Debug)]
pub(super) struct GivenInput<'r> {
    pub(super) bytes: Cow<'r, [u8]>,
    normalized: Hash,
    canonical: bool,
}

impl GivenInput<'_> {
    /// They are stored as this.
    pub(super) const fn stored(&self, artifact: ArtifactDescriptor) -> StoredInput {
        StoredInput { normalized: self.normalized, canonical: self.canonical, artifact }
    }
}

/// Why something that is not open cannot begin or end.
fn not_open(id: &str) -> WriteError {
    WriteError::Refused(Refusal::NotAsked { id: id.to_owned() })
}

/// The event that something began with.
pub(super) fn place(event: &Event) -> EventRef {
    EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap_or_default() }
}

fn add(counts: &mut Counts, more: Counts) {
    for (rule, count) in more {
        *counts.entry(rule).or_default() += count;
    }
}
