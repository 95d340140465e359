//! What the events of a work item come to, for lists and statistics.
//!
//! Follows what was recorded, member by member, and judges nothing: a member that is missing counts
//! as absent, and whether a transition was allowed is the protocol's to say. A trace whose first
//! event names no title or phase is no work item here.

use countersign_format::event::{Event, EventType};
use countersign_format::exit::WorkPhase;
use countersign_format::id::Ulid;
use countersign_format::json::INTEGER_MAX;
use countersign_format::time::Timestamp;
use countersign_protocol::work::{LeaseClock, STOPPED};
use serde_json::Value;

/// A work item, as of its last event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkRow {
    /// Its id, which is its trace's.
    pub id: Ulid,
    /// Its name for people.
    pub label: Option<String>,
    /// What is to be done.
    pub title: String,
    /// The phase that it is in.
    pub phase: WorkPhase,
    /// The phase that it goes back to when it is unblocked.
    pub blocked_from: Option<WorkPhase>,
    /// Who holds it, by a lease that may have run out since.
    pub holder: Option<String>,
    /// The session of the lease.
    pub session_id: Option<String>,
    /// The number of the last lease; 0 if there was none.
    pub epoch: u64,
    /// When the lease ends, by the clock on the wall.
    pub expires_at: Option<Timestamp>,
    /// When it came into its phase.
    pub phase_since: Timestamp,
    /// Leases since then under which an agent was run.
    pub attempts: u64,
    /// Whether whoever holds it runs no agent under the lease.
    pub by_hand: bool,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The pull request that an exit named last.
    pub pr_url: Option<String>,
    /// What the exit said that blocked it.
    pub blocked_reason: Option<String>,
    /// The time by which its leases are judged.
    pub clock: LeaseClock,
}

/// One event of a work item, and what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransitionRow {
    /// The item.
    pub item: Ulid,
    /// The place of the event in its trace.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// What happened.
    pub event_type: EventType,
    /// The phase before; none before the first event.
    pub phase_before: Option<WorkPhase>,
    /// The phase after.
    pub phase_after: WorkPhase,
    /// Whose lease it was about.
    pub holder: Option<String>,
    /// The number of that lease.
    pub epoch: Option<u64>,
    /// The session of that lease.
    pub session_id: Option<String>,
    /// Whether it grants a lease under which no agent is run.
    pub by_hand: bool,
    /// Why it happened: the reason of a release, a refusal or an unblocking, the notes of an exit.
    pub reason: Option<String>,
}

/// The item that `first` opens, if it opens one, and the transition that this is.
pub(super) fn open(id: Ulid, first: &Event) -> Option<(WorkRow, TransitionRow)> {
    if first.event_type != EventType::WorkOpened {
        return None;
    }
    let (phase, at) = (phase(first, "phase")?, first.created_at);
    let mut item = WorkRow {
        id,
        label: text(first, "label"),
        title: text(first, "title")?,
        phase,
        blocked_from: None,
        holder: None,
        session_id: None,
        epoch: 0,
        expires_at: None,
        phase_since: at,
        attempts: 0,
        by_hand: false,
        opened_at: at,
        pr_url: None,
        blocked_reason: None,
        clock: LeaseClock::default(),
    };
    item.clock.take(first);
    let opened = TransitionRow {
        item: id,
        seq: 0,
        at,
        event_type: first.event_type,
        phase_before: None,
        phase_after: phase,
        holder: None,
        epoch: None,
        session_id: None,
        by_hand: false,
        reason: None,
    };
    Some((item, opened))
}

impl WorkRow {
    /// Takes in the event at `seq`, and says what it changed if it is one of those that can.
    pub(super) fn push(&mut self, seq: u64, event: &Event) -> Option<TransitionRow> {
        let before = self.phase;
        let number = number(event, "epoch");
        let ahead = self.ahead();
        self.clock.take(event);
        // A confirmed clock moves the end of the lease on the wall, not in lease time.
        self.expires_at = self.expires_at.map(|it| it.plus_millis(ahead - self.ahead()));
        let lease = (self.holder.clone(), self.session_id.clone());
        let by_hand = event.event_type == EventType::LeaseGranted
            && event.payload.get("by_hand").and_then(Value::as_bool).unwrap_or_default();
        let (holder, session_id, reason) = match event.event_type {
            EventType::LeaseGranted => {
                self.enter(phase(event, "phase").unwrap_or(before), event.created_at);
                self.by_hand = by_hand;
                self.attempts += u64::from(!by_hand);
                self.holder = text(event, "holder");
                self.session_id = text(event, "session_id");
                self.epoch = number.unwrap_or(self.epoch);
                self.expires_at = self.on_the_wall(event);
                (self.holder.clone(), self.session_id.clone(), None)
            }
            EventType::LeaseRenewed => {
                self.expires_at = self.on_the_wall(event).or(self.expires_at);
                (lease.0, lease.1, None)
            }
            EventType::LeaseReleased => {
                let reason = text(event, "reason");
                if reason.as_deref() == Some(STOPPED) && !self.by_hand {
                    self.attempts = self.attempts.saturating_sub(1);
                }
                self.free();
                (lease.0, lease.1, reason)
            }
            EventType::AgentSessionCompleted => {
                let notes = text(event, "notes");
                self.exit(event, notes.clone());
                let session_id = text(event, "session_id").or(lease.1);
                (text(event, "actor_id").or(lease.0), session_id, notes)
            }
            // Whose signal it was is not known: it was refused.
            EventType::ExitRefused => (None, text(event, "session_id"), text(event, "reason")),
            EventType::WorkUnblocked => {
                self.enter(phase(event, "phase").unwrap_or(before), event.created_at);
                self.blocked_from = None;
                self.blocked_reason = None;
                (None, None, text(event, "reason"))
            }
            _ => return None,
        };
        Some(TransitionRow {
            item: self.id,
            seq,
            at: event.created_at,
            event_type: event.event_type,
            phase_before: Some(before),
            phase_after: self.phase,
            holder,
            epoch: number,
            session_id,
            by_hand,
            reason,
        })
    }

    /// Milliseconds by which lease time runs ahead of the clock.
    fn ahead(&self) -> i64 {
        self.clock.ahead.unwrap_or_default()
    }

    fn on_the_wall(&self, event: &Event) -> Option<Timestamp> {
        time(event, "expires_at").map(|it| it.plus_millis(self.ahead().saturating_neg()))
    }

    fn exit(&mut self, event: &Event, notes: Option<String>) {
        let before = self.phase;
        let next = phase(event, "next_phase").unwrap_or(before);
        self.free();
        self.enter(next, event.created_at);
        self.pr_url = text(event, "pr_url").or(self.pr_url.take());
        if next == WorkPhase::Blocked {
            self.blocked_from = Some(before);
            self.blocked_reason = notes;
        } else {
            self.blocked_from = None;
            self.blocked_reason = None;
        }
    }

    fn enter(&mut self, phase: WorkPhase, at: Timestamp) {
        if phase != self.phase {
            self.phase = phase;
            self.phase_since = at;
            self.attempts = 0;
        }
    }

    fn free(&mut self) {
        self.holder = None;
        self.session_id = None;
        self.by_hand = false;
        self.expires_at = None;
    }
}

fn text(event: &Event, name: &str) -> Option<String> {
    event.payload.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn phase(event: &Event, name: &str) -> Option<WorkPhase> {
    event.payload.get(name).and_then(Value::as_str).and_then(|name| WorkPhase::parse(name).ok())
}

fn time(event: &Event, name: &str) -> Option<Timestamp> {
    event.payload.get(name).and_then(Value::as_str).and_then(|time| time.parse().ok())
}

fn number(event: &Event, name: &str) -> Option<u64> {
    let most = u64::try_from(INTEGER_MAX).unwrap_or(0);
    event.payload.get(name).and_then(Value::as_u64).filter(|&number| number <= most)
}
