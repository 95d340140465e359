//! Work items: who holds one, in which phase, until when, and what an exit does to it.
//!
//! One event is one transition. An exit moves the phase, frees the lease and ends its session in one
//! line. Whether a signal is well formed is decided by `format`, when to try again by whoever runs
//! agents.

mod command;
mod draft;
mod lease;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};

use countersign_format::event::{Event, EventRef, EventType, TraceKind};
use countersign_format::exit::{ExitReason, WorkPhase};
use countersign_format::hash::Hash;
use countersign_format::time::Timestamp;
use countersign_format::trace_session::TraceStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parts::{member, optional, place};
use crate::{Act, Context, Refusal, State, roles};
pub use command::{
    Bearer, CiVerdict, Claimant, Releaser, SignalChannel, WorkCommand, WorkExit, WorkOpening,
};
pub use lease::{EXPIRED, LEASE_MILLIS_MAX, LEASE_MILLIS_MIN, Lease, LeaseClock, STOPPED};
pub use refusal::WorkRefusal;

/// Exits that are remembered, so that the same signal again gets the same answer.
const EXITS_MAX: usize = 64;

/// What the events of a work item come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkState {
    /// Whether it has begun.
    pub begun: bool,
    /// What is to be done.
    pub title: String,
    /// What people call it.
    pub label: Option<String>,
    /// Whether whoever implemented it may review it.
    pub author_may_review: bool,
    /// Where it stands.
    pub phase: WorkPhase,
    /// Since when.
    pub phase_since: Timestamp,
    /// Where it stood when it was blocked.
    pub blocked_from: Option<WorkPhase>,
    /// Who holds it. The lease may have run out.
    pub lease: Option<Lease>,
    /// The number of the last lease; those before it are stale.
    pub epoch: u64,
    /// Leases under which an agent was run since the phase began.
    pub attempts: u64,
    /// Everybody who ever held it while it was implemented.
    pub authors: BTreeSet<String>,
    /// What each phase left to those after it.
    pub handed: BTreeMap<WorkPhase, Handover>,
    /// The last exits, by the number of their lease.
    pub exits: BTreeMap<u64, PastExit>,
    /// The time by which leases are judged.
    pub clock: LeaseClock,
}

/// What a phase left to those after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Who did it.
    pub holder: String,
    /// In which session.
    pub session_id: String,
    /// Why it ended.
    pub exit_reason: ExitReason,
    /// The pull request.
    pub pr_url: Option<String>,
    /// Where the evidence lies.
    pub evidence_bundle_ref: Option<String>,
    /// For people and for the next agent.
    pub notes: Option<String>,
    /// The commit at which it ended.
    pub commit: Option<String>,
}

/// An exit that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastExit {
    /// Who left.
    pub holder: String,
    /// The session that it ended.
    pub session_id: String,
    /// The hash of its signal.
    pub signal: Option<Hash>,
    /// The event.
    pub event: EventRef,
    /// The phase that followed.
    pub next_phase: WorkPhase,
    /// How the signal came.
    pub channel: Option<SignalChannel>,
}

impl PastExit {
    fn check_bearer(&self, epoch: u64, by: &Bearer) -> Result<(), WorkRefusal> {
        lease::check_bearer(by, epoch, &self.holder, &self.session_id)
    }
}

impl Default for WorkState {
    fn default() -> Self {
        Self {
            begun: false,
            title: String::new(),
            label: None,
            author_may_review: false,
            phase: WorkPhase::Draft,
            phase_since: Timestamp::EPOCH,
            blocked_from: None,
            lease: None,
            epoch: 0,
            attempts: 0,
            authors: BTreeSet::new(),
            handed: BTreeMap::new(),
            exits: BTreeMap::new(),
            clock: LeaseClock::default(),
        }
    }
}

impl WorkState {
    /// The lease that holds at `now` of the lease clock.
    #[must_use]
    pub fn live_lease(&self, now: Timestamp) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| now < lease.expires_at)
    }

    /// Whether an agent, or the CI runner, could claim it at `now` of the lease clock.
    #[must_use]
    pub fn is_claimable(&self, ci: bool, now: Timestamp) -> bool {
        self.check_phase(ci).is_ok() && self.live_lease(now).is_none()
    }

    /// What the exit with this lease and signal was answered before, if it was the bearer's own.
    fn past_exit(&self, epoch: u64, by: &Bearer, signal: Hash) -> Option<&PastExit> {
        self.exits
            .get(&epoch)
            .filter(|past| past.check_bearer(epoch, by).is_ok() && past.signal == Some(signal))
    }

    /// The session for which a lease is presented, as far as it is the bearer's own.
    #[must_use]
    pub fn session_of(&self, epoch: u64, by: &Bearer) -> Option<String> {
        if let Bearer::Session(session_id) = by {
            return Some(session_id.clone());
        }
        let held = self.lease.as_ref().filter(|lease| lease.epoch == epoch);
        let held = held.filter(|lease| lease.check_bearer(by).is_ok());
        let past = self.exits.get(&epoch).filter(|past| past.check_bearer(epoch, by).is_ok());
        held.map(|lease| &lease.session_id).or(past.map(|past| &past.session_id)).cloned()
    }

    /// The pull request that was named last.
    #[must_use]
    pub fn pr_url(&self) -> Option<&str> {
        WorkPhase::ALL.iter().rev().find_map(|phase| self.handed.get(phase)?.pr_url.as_deref())
    }

    /// Whether somebody may hold it in its phase.
    fn check_phase(&self, ci: bool) -> Result<(), WorkRefusal> {
        match (self.phase, ci) {
            (WorkPhase::CiPending, true) => Ok(()),
            (WorkPhase::CiPending, false) => Err(WorkRefusal::OnlyCi),
            (phase @ (WorkPhase::Blocked | WorkPhase::Completed), _) => {
                Err(WorkRefusal::NotClaimable { phase })
            }
            (phase, true) => Err(WorkRefusal::NotForCi { phase }),
            (_, false) => Ok(()),
        }
    }

    fn admit_body(&self, event: &Event) -> Result<(), Refusal> {
        use EventType as T;
        match event.event_type {
            T::WorkOpened => {
                let phase: WorkPhase = member(event, "phase")?;
                if matches!(phase, WorkPhase::Blocked | WorkPhase::Completed) {
                    return Err(WorkRefusal::CannotBegin { phase }.into());
                }
                Ok(())
            }
            T::LeaseGranted => self.admit_grant(event),
            T::LeaseRenewed => self.admit_renewal(event),
            T::LeaseReleased => self.admit_release(event),
            T::AgentSessionCompleted => self.admit_exit(event),
            T::WorkUnblocked => {
                let to: WorkPhase = member(event, "phase")?;
                match self.blocked_from {
                    Some(from) if from == to => Ok(()),
                    Some(from) => Err(WorkRefusal::UnblockedElsewhere { from, to }.into()),
                    None => Err(WorkRefusal::NotBlocked { phase: self.phase }.into()),
                }
            }
            T::ClockConfirmed => self.clock.admit_confirmation(event),
            _ => Ok(()),
        }
    }

    fn apply_exit(&mut self, event: &Event) {
        let text = |name: &str| event.payload.get(name).and_then(Value::as_str).map(str::to_owned);
        let phase = |name| optional::<WorkPhase>(event, name).ok().flatten();
        let (Some(left), Some(next)) = (phase("phase_completed"), phase("next_phase")) else {
            return;
        };
        let epoch = optional::<u64>(event, "epoch").ok().flatten().unwrap_or_default();
        let session_id = text("session_id").unwrap_or_default();
        let holder = text("actor_id").unwrap_or_default();
        if let Some(exit_reason) = optional(event, "exit_reason").ok().flatten() {
            let handover = Handover {
                holder: holder.clone(),
                session_id: session_id.clone(),
                exit_reason,
                pr_url: text("pr_url"),
                evidence_bundle_ref: text("evidence_bundle_ref"),
                notes: text("notes"),
                commit: text("commit"),
            };
            self.handed.insert(left, handover);
        }
        let signal = optional(event, "signal_hash").ok().flatten();
        let channel = optional(event, "channel").ok().flatten();
        let event_ref = place(event);
        let past =
            PastExit { holder, session_id, signal, event: event_ref, next_phase: next, channel };
        self.exits.insert(epoch, past);
        while self.exits.len() > EXITS_MAX {
            self.exits.pop_first();
        }
        self.blocked_from = (next == WorkPhase::Blocked).then_some(left);
        self.lease = None;
        self.enter(next, event.created_at);
    }

    fn enter(&mut self, phase: WorkPhase, at: Timestamp) {
        self.phase = phase;
        self.phase_since = at;
        self.attempts = 0;
    }
}

impl State for WorkState {
    type Command = WorkCommand;
    const VERSION: u32 = 3;

    fn decide(&self, command: WorkCommand, context: &Context) -> Result<Vec<Act>, Refusal> {
        draft::acts(self, command, context)
    }

    fn admit(&self, event: &Event) -> Result<(), Refusal> {
        let found = event.event_type;
        match (self.begun, found == EventType::WorkOpened) {
            (false, false) => return Err(Refusal::WrongFirstEvent { found }),
            (true, true) => return Err(Refusal::BeganAlready { found }),
            _ => {}
        }
        roles::admit(TraceKind::Work, event)?;
        // Nothing leaves COMPLETED. That somebody tried is still recorded.
        let afterwards = matches!(
            found,
            EventType::ExitRefused | EventType::ArtifactRedacted | EventType::SessionRecovered
        );
        if self.ended().is_some() && !afterwards {
            return Err(Refusal::Ended { found });
        }
        self.admit_body(event)
    }

    fn apply(&mut self, event: &Event) {
        use EventType as T;
        let text = |name: &str| event.payload.get(name).and_then(Value::as_str).map(str::to_owned);
        let phase = optional::<WorkPhase>(event, "phase").ok().flatten();
        self.clock.take(event);
        match event.event_type {
            T::WorkOpened => {
                self.begun = true;
                self.title = text("title").unwrap_or_default();
                self.label = text("label");
                let may = event.payload.get("author_may_review").and_then(Value::as_bool);
                self.author_may_review = may.unwrap_or_default();
                self.enter(phase.unwrap_or(WorkPhase::Draft), event.created_at);
            }
            T::LeaseGranted => self.apply_grant(event),
            T::LeaseRenewed => {
                if let (Some(lease), Ok(Some(expires_at))) =
                    (&mut self.lease, optional(event, "expires_at"))
                {
                    lease.expires_at = expires_at;
                }
            }
            T::LeaseReleased => {
                // Somebody who stops an agent says nothing against the item.
                let ran = self.lease.as_ref().is_some_and(|lease| !lease.by_hand);
                if ran && text("reason").as_deref() == Some(STOPPED) {
                    self.attempts = self.attempts.saturating_sub(1);
                }
                self.lease = None;
            }
            T::AgentSessionCompleted => self.apply_exit(event),
            T::WorkUnblocked => {
                self.blocked_from = None;
                self.enter(phase.unwrap_or(self.phase), event.created_at);
            }
            _ => {}
        }
    }

    fn ended(&self) -> Option<TraceStatus> {
        (self.begun && self.phase == WorkPhase::Completed).then_some(TraceStatus::Succeeded)
    }
}
