//! Work items being moved: opening, claiming, leaving.
//!
//! Everything exclusive is decided under the lock of the item's own ledger, so of many who claim one
//! wins, whatever process they are in. Which agent does a phase, and when, is `dispatch`'s.

mod account;
mod agent;
mod brief;
mod dispatch;
mod evidence;
mod keeper;
mod phase;
mod questions;
mod settings;
mod stats;

use std::path::Path;
use std::sync::Arc;

use countersign_format::event::{ArtifactDescriptor, Event, EventRef, EventType, TraceKind};
use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_format::text::to_nfc;
use countersign_format::time::Timestamp;
use countersign_protocol::Refusal;
use countersign_protocol::work::{
    Bearer, Claimant, Lease, Releaser, SignalChannel, WorkCommand, WorkExit, WorkOpening,
    WorkRefusal, WorkState,
};
use serde_json::{Value, json};

use crate::disk::{Access, DiskFile};
use crate::git::Repository;
use crate::secrets::Redactor;
use crate::store::StoreError;
use crate::tools::write_beneath;
use crate::trace::TraceWriter;
use crate::workspace::{Workspace, WorkspaceError};
use crate::writer::{Recorded, WriteError};

use evidence::{Evidence, HeldPhase};

pub use dispatch::{Dispatched, Dispatcher};
pub use phase::{PhaseAgent, PhaseEnd, WorkNews, WorkObserver, WorkSetting};
pub use settings::{SETTINGS_NAME, WorkSettings};
pub use stats::{PhaseFigures, WorkFigures};

/// The file whose lock is held while an item with a label is opened.
const LABELS_LOCK: &str = "labels.lock";

/// A work item that can be moved, by many threads and processes at once. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkItem {
    trace: Arc<TraceWriter<WorkState>>,
}

/// What a work item begins with.
#[derive(Debug, Clone)]
pub struct NewWork {
    /// What is to be done.
    pub title: String,
    /// What people call it.
    pub label: Option<String>,
    /// Where it begins.
    pub phase: WorkPhase,
    /// Whether whoever implemented it may review it.
    pub author_may_review: bool,
    /// Other traces that it belongs to.
    pub links: Option<Value>,
}

/// What became of an exit signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitAnswer {
    /// The item moved on, its lease is free.
    Moved {
        /// Where it is recorded.
        event: EventRef,
        /// Where the item stands.
        next_phase: WorkPhase,
        /// Whether the same signal had moved it before.
        repeated: bool,
    },
    /// Nothing changed, and that is recorded.
    Refused {
        /// Why.
        reason: String,
    },
}

/// What came in place of a signal.
#[derive(Debug, Clone)]
pub struct UnusableSignal {
    /// Why it cannot be taken.
    pub reason: String,
    /// The lease under which it came.
    pub epoch: Option<u64>,
    /// The session that it came from.
    pub session_id: Option<String>,
    /// How it came.
    pub channel: Option<SignalChannel>,
    /// What came, stored.
    pub stored: Option<ArtifactDescriptor>,
}

impl Workspace {
    /// Opens a work item. When it returns, its first event and its entry in the log survive power
    /// loss.
    ///
    /// # Errors
    /// Another item has the label, or something could not be recorded.
    pub fn open_work(&self, new: &NewWork) -> Result<WorkItem, WorkspaceError> {
        if matches!(new.phase, WorkPhase::Blocked | WorkPhase::Completed) {
            // Refused before there is a directory for it.
            let refusal = WorkRefusal::CannotBegin { phase: new.phase };
            return Err(WriteError::Refused(Refusal::Work(refusal)).into());
        }
        // Held until the item is there: of two that want one label the second finds it taken.
        let _turn = new.label.as_deref().map(|label| self.take_label(label)).transpose()?;
        let open = |log| {
            WorkCommand::Open(Box::new(WorkOpening {
                log,
                title: to_nfc(&new.title),
                label: new.label.as_deref().map(to_nfc),
                phase: new.phase,
                author_may_review: new.author_may_review,
                links: new.links.clone(),
            }))
        };
        let (trace, _) = TraceWriter::begin(self, TraceKind::Work, open)?;
        Ok(WorkItem { trace: Arc::new(trace) })
    }

    /// The right to open an item with this label, until it is dropped.
    fn take_label(&self, label: &str) -> Result<Box<dyn DiskFile>, WorkspaceError> {
        let (disk, path) = (self.store().disk(), self.home().join(LABELS_LOCK));
        let turn = disk.open(&path, Access::Create).map_err(StoreError::from)?;
        turn.lock_exclusive().map_err(StoreError::from)?;
        let taken = self.index().and_then(|mut index| index.work_items_named(&to_nfc(label)));
        let taken = taken.map_err(|error| WorkspaceError::Io {
            doing: "look for the label",
            source: std::io::Error::other(error),
        })?;
        match taken.first() {
            None => Ok(turn),
            Some(item) => {
                let (label, item) = (label.to_owned(), item.to_string());
                let refusal = WorkRefusal::LabelTaken { label, item };
                Err(WriteError::Refused(Refusal::Work(refusal)).into())
            }
        }
    }

    /// A work item that was opened before.
    ///
    /// # Errors
    /// There is none of this id.
    pub fn work(&self, id: Ulid) -> Result<WorkItem, WorkspaceError> {
        let begun = |state: &WorkState| state.begun;
        let trace = TraceWriter::existing(self, id, TraceKind::Work, begun)?;
        Ok(WorkItem { trace: Arc::new(trace) })
    }
}

impl WorkItem {
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

    /// What its events come to now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn look<T>(&self, at: impl FnOnce(&WorkState) -> T) -> Result<T, WriteError> {
        self.trace.look(at)
    }

    /// Holds it for `millis` milliseconds. Also says whose lease ran out, if one had to be released.
    ///
    /// # Errors
    /// It is not to be had, or the lease could not be recorded.
    pub fn claim(
        &self,
        holder: &str,
        session_id: Option<&str>,
        millis: i64,
        claimant: Claimant,
    ) -> Result<Claimed, WorkspaceError> {
        let before = self.look(|state| state.lease.clone())?;
        let session_id = match session_id {
            Some(session_id) => session_id.to_owned(),
            None => self.workspace().new_id()?.to_string(),
        };
        let recorded = self.submit(WorkCommand::Claim {
            holder: holder.to_owned(),
            session_id,
            millis,
            claimant,
        })?;
        let of = |wanted| recorded.events.iter().find(|event| event.event_type == wanted);
        let lease = of(EventType::LeaseGranted).and_then(|event| Lease::read(event).ok());
        let Some(lease) = lease else {
            return Err(missing("a lease").into());
        };
        let expired = of(EventType::LeaseReleased).and(before);
        if let Some(expired) = &expired {
            self.clear_up(&expired.session_id);
        }
        Ok(Claimed { lease, expired })
    }

    /// Holds it longer, and says until when.
    ///
    /// # Errors
    /// The lease does not hold any more, or the renewal could not be recorded.
    pub fn renew(&self, epoch: u64, by: Bearer, millis: i64) -> Result<Timestamp, WorkspaceError> {
        let recorded = self.submit(WorkCommand::Renew { epoch, by, millis })?;
        let until = recorded.events.iter().find_map(|event| event.payload.get("expires_at"));
        let until = until.and_then(|until| serde_json::from_value(until.clone()).ok());
        until.ok_or_else(|| missing("a renewal").into())
    }

    /// Lets it go: as its holder, or as an operator who takes it away.
    ///
    /// # Errors
    /// The lease does not hold any more, or the release could not be recorded.
    pub fn release(&self, epoch: u64, by: Releaser, reason: &str) -> Result<(), WorkspaceError> {
        self.submit(WorkCommand::Release { epoch, by, reason: to_nfc(reason) })?;
        Ok(())
    }

    /// Releases a lease that ran out; says whether there was one.
    ///
    /// # Errors
    /// The release could not be recorded.
    pub fn expire(&self) -> Result<bool, WorkspaceError> {
        Ok(!self.submit(WorkCommand::Expire)?.events.is_empty())
    }

    /// Takes an exit signal. The same one again gets the same answer.
    ///
    /// # Errors
    /// The answer could not be recorded.
    pub fn exit(&self, exit: WorkExit) -> Result<ExitAnswer, WorkspaceError> {
        let epoch = exit.epoch;
        let recorded = self.submit(WorkCommand::Exit(Box::new(exit)))?;
        let answer = match recorded.events.first() {
            Some(event) => answer_of(event),
            None => self.look(|state| {
                state.exits.get(&epoch).map(|past| ExitAnswer::Moved {
                    event: past.event.clone(),
                    next_phase: past.next_phase,
                    repeated: true,
                })
            })?,
        };
        if matches!(answer, Some(ExitAnswer::Moved { next_phase: WorkPhase::Completed, .. })) {
            self.workspace().keep_summary(self.id());
        }
        answer.ok_or_else(|| missing("an exit").into())
    }

    /// The same for a signal that was given by a command: the evidence that it names, or a bundle that
    /// says what happened, is stored and lies where people look for it, and the commit is recorded.
    ///
    /// # Errors
    /// As [`Self::exit`].
    pub fn exit_by_command(
        &self,
        mut exit: WorkExit,
        root: &Path,
        redactor: &Redactor,
    ) -> Result<ExitAnswer, WorkspaceError> {
        let state = self.look(Clone::clone)?;
        let lease = state.lease.as_ref().filter(|lease| lease.epoch == exit.epoch);
        let own = state.session_of(exit.epoch, &exit.by);
        let Some(lease) = lease.filter(|lease| own.as_ref() == Some(&lease.session_id)) else {
            return self.exit(exit);
        };
        exit.commit = Repository::at(root).commit("HEAD").ok().flatten();
        if exit.channel == SignalChannel::Agent {
            exit.links = Some(json!({ "session": lease.session_id }));
        }
        let phase = HeldPhase { state: &state, lease, left: &[] };
        self.exit_with_evidence(exit, &phase, root, redactor)
    }

    /// The same for whoever holds it: the evidence of the phase is stored before, and its file written
    /// after the exit was taken, since only who has left may say what the evidence is.
    fn exit_with_evidence(
        &self,
        mut exit: WorkExit,
        phase: &HeldPhase<'_>,
        root: &Path,
        redactor: &Redactor,
    ) -> Result<ExitAnswer, WorkspaceError> {
        let id = self.id().to_string();
        let commit = exit.commit.as_deref();
        let evidence = Evidence { item: &id, phase, signal: &exit.signal, commit };
        let mut file = None;
        if let Some(bundle) = evidence.store(self.workspace(), root, redactor)? {
            exit.evidence = Some((bundle.stored, bundle.place));
            file = bundle.file;
        }
        let answer = self.exit(exit)?;
        if let (ExitAnswer::Moved { repeated: false, .. }, Some((place, bytes))) = (&answer, file) {
            // People can do without the file: the stored bytes are what counts.
            let _ = write_beneath(root, &place, &bytes);
        }
        Ok(answer)
    }

    /// Records that what came could not be taken as a signal.
    ///
    /// # Errors
    /// It could not be recorded.
    pub fn refuse_exit(&self, unusable: UnusableSignal) -> Result<(), WorkspaceError> {
        self.submit(WorkCommand::RefuseExit {
            reason: to_nfc(&unusable.reason),
            epoch: unusable.epoch,
            session_id: unusable.session_id,
            channel: unusable.channel,
            signal: unusable.stored.map(Box::new),
        })?;
        Ok(())
    }

    /// Sends it back to where it was blocked, as the operator.
    ///
    /// # Errors
    /// It is not blocked, or the word could not be recorded.
    pub fn unblock(&self, reason: &str) -> Result<WorkPhase, WorkspaceError> {
        self.unblock_recorded(reason)?;
        Ok(self.look(|state| state.phase)?)
    }

    pub(crate) fn unblock_recorded(&self, reason: &str) -> Result<Recorded, WorkspaceError> {
        let channel = self.workspace().operator_channel()?.to_owned();
        Ok(self.submit(WorkCommand::Unblock { reason: to_nfc(reason), channel })?)
    }

    /// Vouches for the clock, as the operator.
    ///
    /// # Errors
    /// The clock needs no word, or the word could not be recorded.
    pub fn confirm_clock(&self, reason: &str) -> Result<(), WorkspaceError> {
        self.submit(WorkCommand::ConfirmClock { reason: to_nfc(reason) })?;
        Ok(())
    }

    fn submit(&self, command: WorkCommand) -> Result<Recorded, WriteError> {
        self.trace.submit(command)
    }
}

/// A lease that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The lease.
    pub lease: Lease,
    /// The one that had run out, and was released for it.
    pub expired: Option<Lease>,
}

fn answer_of(event: &Event) -> Option<ExitAnswer> {
    let text = |name: &str| event.payload.get(name).and_then(Value::as_str);
    match event.event_type {
        EventType::AgentSessionCompleted => Some(ExitAnswer::Moved {
            event: EventRef {
                event_id: event.event_id.clone(),
                seq: event.seq.unwrap_or_default(),
            },
            next_phase: text("next_phase").and_then(|name| name.parse().ok())?,
            repeated: false,
        }),
        EventType::ExitRefused => {
            Some(ExitAnswer::Refused { reason: text("reason").unwrap_or_default().to_owned() })
        }
        _ => None,
    }
}

/// What was recorded is not what was asked for, which cannot be.
fn missing(what: &str) -> WriteError {
    WriteError::GivenUp { reason: format!("{what} was asked for, and none was recorded") }
}
