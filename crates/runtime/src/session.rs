//! Sessions being written, and who runs them.

use std::fs::{File, TryLockError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_format::event::TraceKind;
use countersign_format::hash::Hash;
use countersign_format::id::Ulid;
use countersign_format::key::AgentIdentity;
use countersign_format::report::VerificationReport;
use countersign_format::role::Role;
use countersign_protocol::LogPin;
use countersign_protocol::flow::FlowCommand;
use countersign_protocol::recording::RecordingCommand;
use countersign_protocol::session::{SessionCommand, SessionOpening, SessionState};
use countersign_verify::Profile;

use crate::inspect::first_event;
use crate::keyring::Protection;
use crate::secrets;
use crate::store::LedgerId;
use crate::trace::TraceWriter;
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{Recorded, WriteError};

/// The name of the file whose lock says that somebody runs a session.
const RUN_LOCK: &str = "run.lock";
/// How long the lock is asked for, and how often.
const RUN_LOCK_WAIT: Duration = Duration::from_secs(1);
const RUN_LOCK_STEP: Duration = Duration::from_millis(5);

/// What is signed to get the key of bindings. No event begins like this.
const BINDING_LABEL: &str = "countersign input binding ";

/// A session that can be written to, by many threads and processes at once. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Session {
    trace: Arc<TraceWriter<SessionState>>,
}

/// The right to run a session, until it is dropped.
#[derive(Debug)]
pub struct RunningSession {
    _lock: File,
}

impl Workspace {
    /// Begins a session. When it returns, its first event and its entry in the log survive power
    /// loss.
    ///
    /// # Errors
    /// Something could not be recorded.
    pub fn begin_session(
        &self,
        open: impl Fn(LogPin) -> SessionOpening,
    ) -> Result<Session, WorkspaceError> {
        let open = |log| SessionCommand::Open(Box::new(open(log)));
        let (trace, _) = TraceWriter::begin(self, TraceKind::Session, open)?;
        Ok(Session { trace: Arc::new(trace) })
    }

    /// A session that was begun before.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn session(&self, id: Ulid) -> Result<Session, WorkspaceError> {
        let begun = |state: &SessionState| state.begun;
        let trace = TraceWriter::existing(self, id, TraceKind::Session, begun)?;
        Ok(Session { trace: Arc::new(trace) })
    }
}

impl Session {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> Ulid {
        self.trace.id()
    }

    /// The workspace that it lies in.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        self.trace.workspace()
    }

    /// Records what `command` brings. When it returns, the events survive power loss.
    ///
    /// # Errors
    /// The rules do not allow it, or it could not be written; then nothing was acknowledged.
    pub fn submit(&self, command: SessionCommand) -> Result<Recorded, WriteError> {
        self.trace.submit(command)
    }

    /// What its events come to now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn look<T>(&self, at: impl FnOnce(&SessionState) -> T) -> Result<T, WriteError> {
        self.trace.look(at)
    }

    /// Verifies what is recorded so far, as this workspace sees it.
    ///
    /// # Errors
    /// Something could not be read.
    pub fn audit(&self, profile: Profile) -> Result<VerificationReport, WorkspaceError> {
        self.trace.audit(profile)
    }

    /// Verifies what is recorded so far, but for its artifacts: nothing may be concluded upon a trace
    /// that does not hold.
    ///
    /// # Errors
    /// Something could not be read.
    pub fn check_prefix(&self, profile: Profile) -> Result<VerificationReport, WorkspaceError> {
        self.trace.verified(profile, countersign_verify::verify_prefix)
    }

    /// Takes the right to run it: one process at a time.
    ///
    /// # Errors
    /// Somebody has it.
    pub fn take_run(&self) -> Result<RunningSession, WorkspaceError> {
        self.workspace().take_run(self.id())
    }
}

impl Workspace {
    /// Takes the right to run a session or flow: one process at a time.
    pub(crate) fn take_run(&self, id: Ulid) -> Result<RunningSession, WorkspaceError> {
        let dir = self.store().ledger_dir(LedgerId::Trace(id));
        let doing = "take the session's run lock";
        let mut open = File::options();
        open.create(true).truncate(false).write(true);
        let file =
            open.open(dir.join(RUN_LOCK)).map_err(|source| WorkspaceError::Io { doing, source })?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(RunningSession { _lock: file }),
                // A child that somebody who was killed had just begun may hold it for a moment; the
                // lock cannot be waited for with an end.
                Err(TryLockError::WouldBlock) if started.elapsed() < RUN_LOCK_WAIT => {
                    std::thread::sleep(RUN_LOCK_STEP);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(WorkspaceError::SessionRuns { id: id.to_string() });
                }
                Err(TryLockError::Error(source)) => {
                    return Err(WorkspaceError::Io { doing, source });
                }
            }
        }
    }

    /// Binds the input of a tool as it was before secrets were taken out of it.
    pub(crate) fn bind_input(&self, trace: Ulid, raw: &[u8]) -> Result<Hash, WorkspaceError> {
        let bound = self.shared.log.look(|log| {
            self.shared.signers.recorder(&log.state, |secret| {
                // The signature of these bytes is known to nobody else and the same every time.
                let label = format!("{BINDING_LABEL}{trace}");
                let key = secret.sign(label.as_bytes());
                secrets::binding(key.as_bytes(), &trace.to_string(), raw)
            })
        })??;
        Ok(bound)
    }

    /// Ends a session, recording or flow as its operator. Gives what the log could not be told.
    ///
    /// # Errors
    /// It has ended already, or the abort could not be recorded.
    pub fn abort(&self, id: Ulid, reason: &str) -> Result<Option<WriteError>, WorkspaceError> {
        let reason = countersign_format::text::to_nfc(reason);
        let recorded = match self.kind_of(id)? {
            TraceKind::Recording => {
                self.recording(id)?.submit(RecordingCommand::Abort { reason })?
            }
            TraceKind::Flow => self.flow(id)?.submit(FlowCommand::Abort { reason })?,
            _ => self.session(id)?.submit(SessionCommand::Abort { reason })?,
        };
        self.keep_summary(id);
        Ok(recorded.log_lag)
    }

    /// What a trace records, from its first event.
    pub(crate) fn kind_of(&self, id: Ulid) -> Result<TraceKind, WorkspaceError> {
        let first = first_event(&self.trace_file(id))
            .map_err(|source| WorkspaceError::Io { doing: "read a trace", source })?;
        Ok(first.as_ref().and_then(countersign_protocol::kind_of).unwrap_or(TraceKind::Session))
    }

    /// How the operator's key is kept.
    ///
    /// # Errors
    /// There is none.
    pub fn operator_protection(&self) -> Result<Protection, WorkspaceError> {
        let operator = self.operator()?;
        let who = || operator.agent_id.clone();
        let id = operator.key_id.parse().map_err(|_| WriteError::NoKey { who: who() })?;
        Ok(self.keyring().entry(id)?.protection)
    }

    /// Takes the operator's key into use, which is under a passphrase.
    ///
    /// # Errors
    /// There is none, or the passphrase is wrong.
    pub fn unlock_operator(&self, passphrase: &str) -> Result<(), WorkspaceError> {
        Ok(self.shared.signers.unlock(&self.operator()?, Role::Operator, passphrase)?)
    }

    fn operator(&self) -> Result<AgentIdentity, WorkspaceError> {
        let found = self.log_state(|log| log.active_key(Role::Operator).cloned())?;
        found.ok_or_else(|| WriteError::NoKey { who: Role::Operator.as_str().to_owned() }.into())
    }
}
