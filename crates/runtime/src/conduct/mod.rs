//! Conducting a session: who is asked what next, and what is recorded of it.
//!
//! The conductor decides nothing that the rules of sessions decide; it asks agents, hands what they
//! say to the session, runs tools and stores evidence. Everything that it knows it has from the
//! events, so a session that was interrupted is resumed by the same code that runs a new one.

mod act;
mod board;
mod claims;
mod close;
mod gating;
mod opening;
mod plan;
mod steps;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use countersign_format::event::{ArtifactDescriptor, Event, EventRef};
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::report::VerificationReport;
use countersign_format::role::Role;
use countersign_format::text;
use countersign_format::trace_session::TraceStatus;
use countersign_protocol::session::{Redaction, SessionCommand};
use countersign_protocol::{Refusal, Stage};
use serde::de::DeserializeOwned;

use crate::agents::{Agent, AgentFailure, Exchange, Reply, Request};
use crate::replica;
use crate::secrets::{Counts, Redactor};
use crate::session::{RunningSession, Session};
use crate::store::{Blobs as _, Head, LedgerId, Ledgers as _};
use crate::task::Task;
use crate::tools::{Stop, Toolbox};
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{WriteError, lock};

use board::{Board, COMPLAINTS_MEDIA, INPUT_MEDIA, OUTPUT_MEDIA};
use gating::Gating;
pub(crate) use opening::passed;
pub use opening::{OpeningError, RunSetting, TaskText};

/// Characters of one text that an agent gives; the rest is in what it printed.
const TEXT_CHARACTERS_MAX: usize = 4_000;
/// Bytes of what is read back of an earlier run.
const STORED_BYTES_MAX: u64 = 64 << 20;
/// How long is waited at most before looking whether somebody else ended the session.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Whoever wants to see what happens while it happens.
pub trait Observer: Send + Sync {
    /// An event was recorded, by this run or by somebody else.
    fn recorded(&self, event: &Event);
    /// An agent that is not built in was asked.
    fn asking(&self, role: Role, action: &str);
}

/// How a run ended.
#[derive(Debug)]
pub struct SessionResult {
    /// How the session ended.
    pub status: TraceStatus,
    /// Whether the executor says that the objective was reached, and with which words.
    pub statement: Option<(bool, String)>,
    /// Why it failed or was aborted.
    pub reason: Option<String>,
    /// The auditor's report, if there was an audit.
    pub report: Option<VerificationReport>,
    /// Set where the workspace log could not be told everything; the next writer tells it.
    pub log_lag: Option<WriteError>,
}

/// Why a run does not go on.
#[derive(Debug)]
enum Halt {
    /// A person wants it to stop.
    Stopped,
    /// Its time is over.
    TimeUp,
    /// Somebody else ended the session.
    EndedElsewhere,
    /// An agent gave no usable answer.
    Agent(AgentFailure, Vec<ArtifactDescriptor>),
    /// An agent wanted what the rules forbid.
    Refused(Role, Refusal),
    /// The auditor does not accept what the verifier found.
    NotAccepted(String, Vec<ArtifactDescriptor>),
    /// The trace itself is not what it should be.
    Broken(String),
    /// Nothing was executed.
    NothingDone(String),
    /// Something could not be read or written.
    Error(WorkspaceError),
}

impl<E: Into<WorkspaceError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Whoever runs one session.
pub struct Conductor {
    session: Session,
    task: Task,
    agents: BTreeMap<Role, Box<dyn Agent>>,
    toolbox: Toolbox,
    redactor: Redactor,
    observer: Arc<dyn Observer>,
    stop: Stop,
    until: Instant,
    tail: Mutex<Tail>,
    news: Condvar,
    /// Held while something is proposed and judged: two who see the same proposal undecided would
    /// have it judged twice.
    planning: Mutex<()>,
    halted: Mutex<Option<Halt>>,
    log_lag: Mutex<Option<WriteError>>,
    gating: Mutex<Gating>,
    origin: Origin,
    _running: RunningSession,
}

/// Whether an earlier process ran the session, and may have left something running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    New,
    Interrupted,
}

impl fmt::Debug for Conductor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conductor").field("session", &self.session.id()).finish_non_exhaustive()
    }
}

/// What was read of the trace, and up to where.
#[derive(Debug)]
struct Tail {
    head: Head,
    board: Board,
}

impl Default for Tail {
    fn default() -> Self {
        Self { head: Head::EMPTY, board: Board::default() }
    }
}

impl Conductor {
    /// The session's id.
    #[must_use]
    pub fn id(&self) -> Ulid {
        self.session.id()
    }

    /// Runs the session to its end, or stops where it cannot go on.
    ///
    /// # Errors
    /// Something could not be read or written; the session is as it was and can be resumed.
    pub fn run(self) -> Result<SessionResult, WorkspaceError> {
        let over = Arc::new(AtomicBool::new(false));
        self.watch(&over);
        let outcome = self.work();
        over.store(true, Ordering::Release);
        self.end(outcome)
    }

    fn work(&self) -> Result<VerificationReport, Halt> {
        self.catch_up()?;
        self.recover()?;
        if self.session.look(|state| state.stage == Stage::Open)? {
            self.plan()?;
            self.carry_out_all()?;
            self.claim()?;
            self.conclude()?;
        }
        self.audit()
    }

    /// Ends the tools of this run when its time is over or somebody else ended the session.
    fn watch(&self, over: &Arc<AtomicBool>) {
        let (over, stop, until) = (Arc::clone(over), self.stop.clone(), self.until);
        let session = self.session.clone();
        std::thread::spawn(move || {
            let mut seen = 0;
            while !over.load(Ordering::Acquire) {
                let ended = session.look(|state| state.ended.is_some()).unwrap_or(false);
                if ended || Instant::now() >= until {
                    stop.set();
                    return;
                }
                seen = session.workspace().store().wait(seen, LOOK_EVERY);
            }
        });
    }

    /// Whether the run may go on.
    fn check(&self) -> Result<(), Halt> {
        if !self.stop.is_set() {
            return Ok(());
        }
        if self.session.look(|state| state.ended.is_some())? {
            Err(Halt::EndedElsewhere)
        } else if Instant::now() >= self.until {
            Err(Halt::TimeUp)
        } else {
            Err(Halt::Stopped)
        }
    }

    /// Records what `command` brings, for `role`.
    fn record(&self, role: Role, command: SessionCommand) -> Result<EventRef, Halt> {
        let recorded = match self.session.submit(command) {
            Ok(recorded) => recorded,
            Err(WriteError::Refused(Refusal::Ended { .. })) => return Err(Halt::EndedElsewhere),
            Err(WriteError::Refused(refusal)) => return Err(Halt::Refused(role, refusal)),
            // A name that is none, a text that no event can hold: the agent's fault, not the disk's.
            Err(error @ (WriteError::Unwritable(_) | WriteError::TooLarge { .. })) => {
                let reason = format!("gave what cannot be recorded: {}", told(&error));
                return Err(self.unusable(role, &reason, Vec::new()));
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(lag) = recorded.log_lag {
            *lock(&self.log_lag) = Some(lag);
        }
        self.catch_up()?;
        recorded
            .events
            .last()
            .map(|event| EventRef {
                event_id: event.event_id.clone(),
                seq: event.seq.unwrap_or_default(),
            })
            .ok_or_else(|| Halt::Broken("nothing was recorded".to_owned()))
    }

    /// Reads what was appended since, by whomever.
    fn catch_up(&self) -> Result<(), Halt> {
        const READ_BYTES: usize = 1 << 20;
        let mut tail = lock(&self.tail);
        let ledger = LedgerId::Trace(self.session.id());
        loop {
            let store = self.session.workspace().store();
            let lines = store.read(ledger, tail.head, READ_BYTES).map_err(WorkspaceError::from)?;
            if lines.is_empty() {
                break;
            }
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                let event = replica::read(line.strip_suffix(b"\n").unwrap_or(line))
                    .map_err(Halt::Broken)?;
                tail.board.take(&event);
                self.observer.recorded(&event);
            }
            tail.head = Head::at(tail.head.bytes + lines.len() as u64);
        }
        drop(tail);
        self.news.notify_all();
        Ok(())
    }

    fn board<T>(&self, look: impl FnOnce(&mut Board) -> T) -> T {
        look(&mut lock(&self.tail).board)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        lock(&self.tail)
    }

    /// Stores bytes, without the secrets in them.
    fn keep(
        &self,
        bytes: &[u8],
        media_type: &str,
    ) -> Result<(ArtifactDescriptor, Vec<Redaction>), Halt> {
        let redacted = self.redactor.redact(bytes);
        let artifact = self.session.workspace().put_artifact(&redacted.bytes, media_type)?;
        Ok((artifact, redactions(&redacted.counts)))
    }

    fn keep_exchange(&self, exchange: Option<&Exchange>) -> Result<Vec<ArtifactDescriptor>, Halt> {
        let Some(exchange) = exchange else { return Ok(Vec::new()) };
        let mut kept = vec![
            self.keep(&exchange.input, INPUT_MEDIA)?.0,
            self.keep(&exchange.output, OUTPUT_MEDIA)?.0,
        ];
        if !exchange.complaints.is_empty() {
            kept.push(self.keep(&exchange.complaints, COMPLAINTS_MEDIA)?.0);
        }
        Ok(kept)
    }

    /// A text for an event: without secrets, and not longer than a person reads.
    fn clean(&self, text: &str) -> String {
        let (text, _) = self.redactor.redact_text(text);
        let text: String = text.chars().map(storable).collect();
        match text.char_indices().nth(TEXT_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }

    fn clean_all(&self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| self.clean(text)).collect()
    }

    /// Asks an agent, as often as the task permits, and reads its answer.
    fn ask<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
    ) -> Result<(T, Vec<ArtifactDescriptor>), Halt> {
        let role = request.role();
        let Some(agent) = self.agents.get(&role) else {
            let reason = "is not part of this session".to_owned();
            return Err(Halt::Agent(AgentFailure { role, reason, exchange: None }, Vec::new()));
        };
        if self.task.agents.contains_key(&role) {
            self.observer.asking(role, request.action());
        }
        let tries = self.task.policy.agent_tries.max(1);
        let mut attempt = 1;
        loop {
            self.check()?;
            let failure = match agent.answer(request, attempt) {
                Ok(reply) => match read(role, reply) {
                    Ok((answer, exchange)) => {
                        return Ok((answer, self.keep_exchange(exchange.as_ref())?));
                    }
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            // What was stopped did not fail.
            self.check()?;
            let kept = self.keep_exchange(failure.exchange.as_deref())?;
            if attempt >= tries {
                return Err(Halt::Agent(failure, kept));
            }
            attempt += 1;
            self.note_failure(&failure, kept)?;
        }
    }

    /// Records that an agent failed and is asked again.
    fn note_failure(
        &self,
        failure: &AgentFailure,
        artifacts: Vec<ArtifactDescriptor>,
    ) -> Result<(), Halt> {
        let auditing = failure.role == Role::Auditor;
        let by = if auditing { Role::Auditor } else { Role::Executor };
        let purpose = self.clean(&format!("{failure}; it is asked again"));
        self.record(by, SessionCommand::RecordArtifact { by, purpose, artifacts }).map(drop)
    }

    /// An answer that was recorded before: from the stored output of an outside agent, else by asking
    /// again, which a built-in agent always answers alike.
    fn ask_or_recall<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        stored: Option<Hash>,
    ) -> Result<(T, Vec<ArtifactDescriptor>), Halt> {
        let Some(stored) = stored else { return self.ask(request) };
        let bytes = self
            .session
            .workspace()
            .store()
            .get(&stored, STORED_BYTES_MAX)
            .map_err(WorkspaceError::from)?;
        // What held a secret was not kept as it was said.
        if holds_redaction(&bytes) {
            return self.ask(request);
        }
        let role = request.role();
        let unusable = |reason: String| {
            let reason =
                format!("answered before the interruption, and now it cannot be read: {reason}");
            Halt::Agent(AgentFailure { role, reason, exchange: None }, Vec::new())
        };
        let value = crate::agents::recall(&bytes, request).map_err(unusable)?;
        let answer = T::deserialize(value).map_err(|error| unusable(error.to_string()))?;
        Ok((answer, Vec::new()))
    }
}

/// Reads an answer in the shape that its request wants.
fn read<T: DeserializeOwned>(
    role: Role,
    reply: Reply,
) -> Result<(T, Option<Exchange>), AgentFailure> {
    let Reply { value, exchange } = reply;
    match T::deserialize(value) {
        Ok(answer) => Ok((answer, exchange)),
        Err(error) => Err(AgentFailure {
            role,
            reason: format!("gave an answer of another form: {error}"),
            exchange: exchange.map(Box::new),
        }),
    }
}

/// Whether something was taken out of stored bytes.
fn holds_redaction(bytes: &[u8]) -> bool {
    const MARK: &[u8] = b"[redacted:";
    bytes.windows(MARK.len()).any(|window| window == MARK)
}

/// A character that an event can hold, in place of one that it cannot.
pub(crate) fn storable(character: char) -> char {
    match text::check(character.encode_utf8(&mut [0; 4])) {
        Err(text::TextFault::Noncharacter(_)) => char::REPLACEMENT_CHARACTER,
        _ => character,
    }
}

/// An error with its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Counts by rule, as events have them.
fn redactions(counts: &Counts) -> Vec<Redaction> {
    counts.iter().map(|(rule, &count)| Redaction { rule: (*rule).to_owned(), count }).collect()
}

/// The workspace's own name for whoever writes.
const SOFTWARE: &str = concat!("countersign ", env!("CARGO_PKG_VERSION"));

/// How long there is from now on.
fn until(seconds: u64) -> Instant {
    let now = Instant::now();
    now.checked_add(Duration::from_secs(seconds)).unwrap_or(now + Duration::from_secs(1 << 30))
}

/// The path of a workspace's files as agents are told it.
fn store_name(workspace: &Workspace) -> String {
    workspace.home().display().to_string()
}
