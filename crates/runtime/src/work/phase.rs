//! One phase of a work item, done by one agent under one lease.
//!
//! The agent's run is a recording of its own, whose id is the lease's session. What the agent says at
//! its end is put to the item; whatever else happens to it frees the lease, and after as many
//! attempts as are allowed blocks the item.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_format::event::{ArtifactDescriptor, EventRef};
use countersign_format::exit::{ExitReason, ExitSignal, NOTES_BYTES_MAX, WorkPhase};
use countersign_format::hash::Hash;
use countersign_format::json;
use countersign_format::time::Timestamp;
use countersign_protocol::recording::RecordingCommand;
use countersign_protocol::work::{
    Bearer, CiVerdict, Claimant, Lease, Releaser, STOPPED, SignalChannel, WorkExit, WorkState,
};
use serde_json::{Value, json};

use super::account::{achieved, distinct, ended_well, kept, last_words, told, without_nonce};
use super::agent::{self, AgentRun, Heard, Nonce};
use super::evidence::HeldPhase;
use super::keeper::Keeper;
use super::{Claimed, ExitAnswer, UnusableSignal, WorkItem, brief};
use crate::git::Repository;
use crate::inspect::first_event;
use crate::recording::Recording;
use crate::sandbox::{End, Stop, end_survivors};
use crate::secrets::Redactor;
use crate::workspace::WorkspaceError;
use crate::writer::{Recorded, WriteError};

/// What does a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseAgent {
    /// What it is called as a holder.
    pub holder: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The flow file that does it instead of a program.
    pub flow: Option<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether a signal on standard output counts, which is the weaker channel.
    pub stdout_counts: bool,
    /// Whether it is the CI command, whose exit status is the verdict.
    pub ci: bool,
}

/// What holds for all phases.
#[derive(Clone)]
pub struct WorkSetting {
    /// The workspace root, where agents run.
    pub root: PathBuf,
    /// The store, where a flow that does a phase is recorded.
    pub home: PathBuf,
    /// The environment of agents.
    pub environment: Vec<(OsString, OsString)>,
    /// The binary to run again, normally this one.
    pub helper: PathBuf,
    /// The length of a lease; it is renewed while the agent works.
    pub lease: Duration,
    /// Leases after which a phase that came to nothing is blocked.
    pub attempts: u64,
    /// Who is told what happens.
    pub observer: Arc<dyn WorkObserver>,
    /// Ends everything early.
    pub stop: Stop,
}

impl fmt::Debug for WorkSetting {
    /// Without the values of variables, which may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkSetting")
            .field("root", &self.root)
            .field("helper", &self.helper)
            .field("lease", &self.lease)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// Somebody who wants to know what happens to work items.
pub trait WorkObserver: Send + Sync + fmt::Debug {
    /// Something happened to the item of this id under this lease.
    fn told(&self, item: &str, lease: &Lease, news: &WorkNews);

    /// Nothing runs: others hold so many items, the first of them until then at the longest.
    fn waiting(&self, items: usize, until: Timestamp);

    /// An item could not be run.
    fn troubled(&self, trouble: &str);
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkNews {
    /// It was claimed.
    Claimed,
    /// The agent is about to run.
    Started,
    /// The phase is over.
    Ended(PhaseEnd),
}

/// How a phase ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PhaseEnd {
    /// The agent said so, and the item moved.
    Moved {
        /// Where to.
        to: WorkPhase,
        /// What the agent said.
        reason: ExitReason,
        /// How it said so.
        channel: SignalChannel,
        /// What else it said.
        notes: Option<String>,
    },
    /// It came to nothing; the item is free for another attempt.
    Freed {
        /// Why.
        reason: String,
        /// How many attempts there were.
        attempts: u64,
    },
    /// It came to nothing too often, and the item is blocked.
    GivenUp {
        /// Why.
        reason: String,
        /// How many attempts there were.
        attempts: u64,
    },
    /// Somebody else may hold the item by now.
    Lost {
        /// Why.
        reason: String,
    },
    /// It was asked to end.
    Stopped,
}

impl WorkSetting {
    pub(super) fn tell(&self, item: &str, lease: &Lease, news: WorkNews) {
        self.observer.told(item, lease, &news);
    }

    /// The length of a lease in milliseconds.
    pub(super) fn lease_millis(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}

impl WorkItem {
    /// Claims the item for `agent` and runs it to its end.
    ///
    /// # Errors
    /// The item is not to be had, or something could not be recorded.
    pub fn run(
        &self,
        agent: &PhaseAgent,
        setting: &WorkSetting,
    ) -> Result<PhaseEnd, WorkspaceError> {
        let claimant = match (agent.ci, agent.stdout_counts) {
            (true, _) => Claimant::Ci,
            (false, true) => Claimant::Agent,
            (false, false) => Claimant::OnDescriptor,
        };
        let claimed = self.claim(&agent.holder, None, setting.lease_millis(), claimant)?;
        self.run_claimed(&claimed, agent, setting)
    }

    /// Runs `agent` under a lease that it has.
    ///
    /// # Errors
    /// Something could not be recorded. The lease runs out by itself.
    pub fn run_claimed(
        &self,
        claimed: &Claimed,
        agent: &PhaseAgent,
        setting: &WorkSetting,
    ) -> Result<PhaseEnd, WorkspaceError> {
        let item = self.id().to_string();
        let lease = &claimed.lease;
        setting.tell(&item, lease, WorkNews::Claimed);
        let (own, lost) = (Stop::default(), Mutex::new(None));
        let ran = std::thread::scope(|scope| {
            let stops = (&own, &setting.stop);
            let keeper = Keeper::start(scope, self, lease, setting.lease, stops, &lost);
            let redactor = Redactor::new(setting.environment.iter().cloned());
            let phase = Phase { item: self, id: &item, lease, agent, setting, redactor };
            match (phase.run(&own, &keeper), keeper.lost()) {
                // Whoever has the lease now has ended what was recorded here.
                (Err(_), Some(reason)) => Ok(PhaseEnd::Lost { reason }),
                (ran, _) => ran,
            }
        });
        let end = match ran {
            Ok(end) => end,
            Err(error) => {
                // If this fails as well, the lease runs out by itself.
                let reason = format!("the runner failed: {error}");
                let by = Bearer::Session(lease.session_id.clone());
                let _ = self.release(lease.epoch, Releaser::Bearer(by), &reason);
                return Err(error);
            }
        };
        setting.tell(&item, lease, WorkNews::Ended(end.clone()));
        Ok(end)
    }
}

impl WorkItem {
    /// Ends what a runner left behind whose lease ran out: it died, or it has not noticed. Where
    /// processes cannot be listed none are found, and its exit is refused all the same.
    pub(super) fn clear_up(&self, session_id: &str) {
        let id = session_id.parse().ok();
        let first = id.and_then(|id| first_event(&self.workspace().trace_file(id)).ok().flatten());
        let item = first.as_ref().and_then(|first| first.payload.pointer("/links/work/trace_id"));
        // Whoever claims may call its session what it likes; only what is this item's is ended.
        if item.and_then(Value::as_str) != Some(self.id().to_string().as_str()) {
            return;
        }
        let _ = end_survivors(session_id);
        let session = session_id.parse().ok().map(|id| self.workspace().recording(id));
        if let Some(Ok(session)) = session
            && session.look(|state| state.ended.is_none()).unwrap_or_default()
        {
            // What cannot be concluded now stays open, and can be sealed later.
            let _ = session.conclude("the lease ran out before the agent's end was recorded");
        }
    }
}

struct Phase<'a> {
    item: &'a WorkItem,
    id: &'a str,
    lease: &'a Lease,
    agent: &'a PhaseAgent,
    setting: &'a WorkSetting,
    redactor: Redactor,
}

/// What an agent left in the store.
type Left = Vec<(&'static str, ArtifactDescriptor)>;

/// What comes with a signal.
struct Brought<'a> {
    channel: SignalChannel,
    stored: Option<ArtifactDescriptor>,
    left: &'a Left,
    commit: Option<String>,
    ci: Option<CiVerdict>,
}

impl Phase<'_> {
    fn run(&self, stop: &Stop, keeper: &Keeper<'_>) -> Result<PhaseEnd, WorkspaceError> {
        let workspace = self.item.workspace();
        let redactor = &self.redactor;
        let state = self.item.look(Clone::clone)?;
        let mut envelope =
            serde_json::to_value(brief::envelope(self.id, &state, self.lease)).unwrap_or_default();
        redactor.redact_value(&mut envelope);
        let links = json!({ "work": {
            "trace_id": self.id, "epoch": self.lease.epoch, "phase": self.lease.phase,
        } });
        let session = workspace.begin_recording_as(
            &self.lease.session_id,
            Some(&self.lease.holder),
            Some(&format!("{}: {}", self.lease.phase, state.title)),
            Some(links),
        )?;
        let execution = self.start(&session, &envelope, redactor)?;
        // Asking takes a process of its own, which no agent but CI has to wait for.
        let before = self.agent.ci.then(|| self.commit()).flatten();
        let nonce = Nonce(workspace.new_nonce()?);
        let text = String::from_utf8_lossy(&json::to_bytes(&envelope)).into_owned();
        let target = (self.id, self.lease);
        let run = agent::run(self.agent, self.setting, target, text, &nonce, stop);
        let left = self.end(&session, execution, &run, redactor, &nonce)?;
        let achieved = achieved(self.agent, &run);
        session.conclude_as(&format!("the agent {}", told(&run)), achieved)?;
        if let Some(left) = self.left_by_hand()? {
            return Ok(left);
        }
        if let Some(reason) = keeper.lost() {
            return Ok(PhaseEnd::Lost { reason });
        }
        let after = self.commit();
        if self.agent.ci {
            return self.leave_ci(&state, &run, &left, (before, after), redactor);
        }
        self.leave(&state, &run, &left, after, (redactor, &nonce))
    }

    /// What the agent did by itself, if it left with a command instead of a signal to us.
    fn left_by_hand(&self) -> Result<Option<PhaseEnd>, WorkspaceError> {
        Ok(self.item.look(|state| {
            let past = state.exits.get(&self.lease.epoch)?;
            if past.session_id != self.lease.session_id {
                return None;
            }
            let handed = state.handed.get(&self.lease.phase)?;
            Some(PhaseEnd::Moved {
                to: past.next_phase,
                reason: handed.exit_reason,
                channel: past.channel.unwrap_or(SignalChannel::Operator),
                notes: handed.notes.clone(),
            })
        })?)
    }

    /// Records that the agent is about to run.
    fn start(
        &self,
        session: &Recording,
        envelope: &Value,
        redactor: &Redactor,
    ) -> Result<EventRef, WorkspaceError> {
        let mut input = json!({ "argv": self.agent.command, "stdin": envelope });
        redactor.redact_value(&mut input);
        let bytes = json::to_bytes(&input);
        let stored = session.put_artifact(&bytes, "application/json")?;
        let intended = session.submit(RecordingCommand::Intend {
            tool_name: if self.agent.ci { "ci" } else { "agent" }.to_owned(),
            input_hash: Hash::of(&bytes),
            safety_classification: "standard".to_owned(),
            justification: format!("phase {} of work item {}", self.lease.phase, self.id),
            artifacts: vec![stored],
        })?;
        let started = session.submit(RecordingCommand::Start { intent: first(&intended)? })?;
        Ok(first(&started)?)
    }

    /// Records how it ended, and stores what it left.
    fn end(
        &self,
        session: &Recording,
        execution: EventRef,
        run: &AgentRun,
        redactor: &Redactor,
        nonce: &Nonce,
    ) -> Result<Left, WorkspaceError> {
        let mut left = Left::new();
        for (name, stream) in [("stdout", &run.stdout), ("stderr", &run.stderr)] {
            if !stream.bytes.is_empty() {
                let bytes = kept(stream, redactor, nonce);
                left.push((name, session.put_artifact(&bytes, "text/plain")?));
            }
        }
        let artifacts: Vec<ArtifactDescriptor> = distinct(&left);
        session.submit(match run.end {
            End::Exited(0) => RecordingCommand::Complete { execution, exit_status: 0, artifacts },
            _ => {
                let exit_status = match run.end {
                    End::Exited(status) => Some(status),
                    End::Signalled(signal) => Some(-signal),
                    _ => None,
                };
                RecordingCommand::Fail { execution, reason: told(run), exit_status, artifacts }
            }
        })?;
        Ok(left)
    }

    /// Puts what the agent said to the item.
    fn leave(
        &self,
        state: &WorkState,
        run: &AgentRun,
        left: &Left,
        commit: Option<String>,
        (redactor, nonce): (&Redactor, &Nonce),
    ) -> Result<PhaseEnd, WorkspaceError> {
        let (bytes, channel) = match &run.heard {
            Heard::Signal(bytes, channel) => (bytes, *channel),
            Heard::Unusable(reason, channel) => {
                self.refuse(reason, *channel, None)?;
                return self.free(state, reason, redactor);
            }
            Heard::Nothing if run.end == End::Stopped => {
                self.release(STOPPED)?;
                return Ok(PhaseEnd::Stopped);
            }
            Heard::Nothing => {
                let reason = format!("{}, without a signal{}", told(run), last_words(run));
                return self.free(state, &reason, redactor);
            }
        };
        let bytes = without_nonce(bytes.clone(), nonce);
        let text = String::from_utf8_lossy(&bytes);
        let (text, _) = redactor.redact_text(&text);
        let stored = self.item.workspace().put_artifact(text.as_bytes(), "application/json")?;
        let signal = match ExitSignal::from_json(&text) {
            Ok(signal) => signal,
            Err(error) => {
                let reason = error.to_string();
                self.refuse(&reason, channel, Some(stored))?;
                return self.free(state, &reason, redactor);
            }
        };
        if signal.exit_reason == ExitReason::Completed && !ended_well(run) {
            let reason = format!("it said `completed`, but {}", told(run));
            self.refuse(&reason, channel, Some(stored))?;
            return self.free(state, &reason, redactor);
        }
        let brought = Brought { channel, stored: Some(stored), left, commit, ci: None };
        self.exit(state, signal, brought, redactor)
    }

    /// CI's exit status is the verdict, about the commit that it ran on.
    fn leave_ci(
        &self,
        state: &WorkState,
        run: &AgentRun,
        left: &Left,
        (before, after): (Option<String>, Option<String>),
        redactor: &Redactor,
    ) -> Result<PhaseEnd, WorkspaceError> {
        if run.end == End::Stopped {
            self.release(STOPPED)?;
            return Ok(PhaseEnd::Stopped);
        }
        if before != after {
            let named = |commit: &Option<String>| commit.clone().unwrap_or_else(|| "none".into());
            let reason = format!("the commit changed from {} to {}", named(&before), named(&after));
            return self.free(state, &format!("{reason} while CI ran"), redactor);
        }
        let status = match run.end {
            End::Exited(status) => Some(status),
            _ => None,
        };
        let verdict = CiVerdict {
            exit_status: status,
            reason: status.is_none().then(|| told(run)),
            commit: after.clone(),
            uncommitted_changes: self.has_uncommitted_changes(),
        };
        let mut on = match (&verdict.commit, verdict.uncommitted_changes) {
            (None, _) => ", on no commit",
            (Some(_), true) => ", with changes that are not committed",
            (Some(_), false) => "",
        }
        .to_owned();
        // Others may have committed since, or the implementer never did: whoever reviews must know.
        let implemented = state.handed.get(&WorkPhase::Implementation);
        if let Some(commit) = implemented.and_then(|handed| handed.commit.as_ref())
            && Some(commit) != verdict.commit.as_ref()
        {
            on.push_str(&format!(", on another commit than the implementation's {commit}"));
        }
        let (reason, notes) = match status {
            Some(0) => (ExitReason::Completed, format!("CI passed{on}")),
            _ => (ExitReason::Error, format!("CI failed{on}: {}{}", told(run), last_words(run))),
        };
        let signal = ExitSignal::new(WorkPhase::CiPending, reason).with_notes(notes);
        let channel = SignalChannel::Runner;
        let brought = Brought { channel, stored: None, left, commit: after, ci: Some(verdict) };
        self.exit(state, signal, brought, redactor)
    }

    fn exit(
        &self,
        state: &WorkState,
        signal: ExitSignal,
        brought: Brought<'_>,
        redactor: &Redactor,
    ) -> Result<PhaseEnd, WorkspaceError> {
        let Brought { channel, stored, left, commit, ci } = brought;
        let (reason, notes) = (signal.exit_reason, signal.notes.clone());
        let exit = WorkExit { stored, commit, ci, ..self.signalled(signal, channel) };
        let held = HeldPhase { state, lease: self.lease, left };
        match self.item.exit_with_evidence(exit, &held, &self.setting.root, redactor)? {
            ExitAnswer::Moved { next_phase, .. } => {
                Ok(PhaseEnd::Moved { to: next_phase, reason, channel, notes })
            }
            ExitAnswer::Refused { reason } => self.free(state, &reason, redactor),
        }
    }

    /// An exit of this session with nothing but a signal.
    fn signalled(&self, signal: ExitSignal, channel: SignalChannel) -> WorkExit {
        WorkExit {
            epoch: self.lease.epoch,
            by: Bearer::Session(self.lease.session_id.clone()),
            signal,
            channel,
            stored: None,
            evidence: None,
            commit: None,
            ci: None,
            links: Some(json!({ "session": self.lease.session_id })),
        }
    }

    fn refuse(
        &self,
        reason: &str,
        channel: SignalChannel,
        stored: Option<ArtifactDescriptor>,
    ) -> Result<(), WorkspaceError> {
        self.item.refuse_exit(UnusableSignal {
            reason: self.redactor.redact_text(reason).0,
            epoch: Some(self.lease.epoch),
            session_id: Some(self.lease.session_id.clone()),
            channel: Some(channel),
            stored,
        })
    }

    /// Frees the item for another attempt, or blocks it after the last one.
    fn free(
        &self,
        state: &WorkState,
        reason: &str,
        redactor: &Redactor,
    ) -> Result<PhaseEnd, WorkspaceError> {
        let attempts = state.attempts;
        let reason = &redactor.redact_text(reason).0;
        if attempts < self.setting.attempts {
            return Ok(match self.release(reason)? {
                None => PhaseEnd::Freed { reason: reason.to_owned(), attempts },
                Some(lost) => PhaseEnd::Lost { reason: lost },
            });
        }
        let notes = format!("given up after {attempts} attempts; the last one: {reason}");
        let notes: String = notes.chars().take(NOTES_BYTES_MAX / 4).collect();
        let signal = ExitSignal::new(self.lease.phase, ExitReason::Error).with_notes(notes);
        let ci = self.agent.ci.then(|| CiVerdict {
            exit_status: None,
            reason: Some(reason.clone()),
            commit: None,
            uncommitted_changes: false,
        });
        let exit = WorkExit { ci, ..self.signalled(signal, SignalChannel::Runner) };
        let answer = self.item.exit(exit)?;
        Ok(match answer {
            ExitAnswer::Moved { .. } => PhaseEnd::GivenUp { reason: reason.to_owned(), attempts },
            ExitAnswer::Refused { reason } => PhaseEnd::Lost { reason },
        })
    }

    /// Releases the lease; says why that was not to be, if somebody else has it.
    fn release(&self, reason: &str) -> Result<Option<String>, WorkspaceError> {
        let by = Releaser::Bearer(Bearer::Session(self.lease.session_id.clone()));
        let (reason, _) = self.redactor.redact_text(reason);
        match self.item.release(self.lease.epoch, by, &reason) {
            Ok(()) => Ok(None),
            Err(WorkspaceError::Write(WriteError::Refused(refusal))) => {
                Ok(Some(refusal.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    fn has_uncommitted_changes(&self) -> bool {
        let asked = ["status", "--porcelain", "--untracked-files=no"];
        let answer = Repository::at(&self.setting.root).text("look for changes", &asked);
        answer.is_ok_and(|answer| !answer.is_empty())
    }

    fn commit(&self) -> Option<String> {
        Repository::at(&self.setting.root).commit("HEAD").ok().flatten()
    }
}

fn first(recorded: &Recorded) -> Result<EventRef, WriteError> {
    let event = recorded.events.first().ok_or_else(|| super::missing("an event"))?;
    Ok(EventRef { event_id: event.event_id.clone(), seq: event.seq.unwrap_or_default() })
}
